package v1

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestA55_Names holds the names that other programs know.
func TestA55_Names(t *testing.T) {
	got := []string{
		NodePoolLabelKey, CapacityTypeLabelKey, NodeRegisteredLabelKey, NodeInitializedLabelKey, DoNotSyncTaintsLabelKey,
		DoNotDisruptAnnotationKey, NodePoolHashAnnotationKey, NodePoolHashVersionAnnotationKey, TerminationTimestampAnnotationKey,
		MinValuesRelaxedAnnotationKey, RequestedDRADriversAnnotationKey, PriceOverlayAppliedAnnotationKey, CapacityOverlayAppliedAnnotationKey,
		DoNotRepairAnnotationKey, RebootPreBootIDAnnotationKey, RebootGraceAnnotationKey, DisruptionCostAnnotationKey, BufferPodAnnotationKey, BufferNameAnnotationKey, BufferNamespaceAnnotationKey, TerminationFinalizer,
	}
	want := []string{
		"karpenter.sh/nodepool", "karpenter.sh/capacity-type", "karpenter.sh/registered", "karpenter.sh/initialized", "karpenter.sh/do-not-sync-taints",
		"karpenter.sh/do-not-disrupt", "karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version", "karpenter.sh/nodeclaim-termination-timestamp",
		"karpenter.sh/nodeclaim-min-values-relaxed", "karpenter.sh/requested-dra-drivers", "karpenter.sh/price-overlay-applied", "karpenter.sh/capacity-overlay-applied",
		"karpenter.sh/do-not-repair", "karpenter.sh/reboot-pre-boot-id", "karpenter.sh/reboot-termination-grace-period", "karpenter.sh/disruption-cost", "karpenter.sh/capacity-buffer-fake-pod", "karpenter.sh/capacity-buffer-name", "karpenter.sh/capacity-buffer-namespace", "karpenter.sh/termination",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := NodeClassLabelKey(NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass"}); got != "karpenter.k8s.aws/ec2nodeclass" {
		t.Error(got)
	}
}

func TestA58_Taints(t *testing.T) {
	if got := DisruptedTaint(); got.ToString() != "karpenter.sh/disrupted:NoSchedule" {
		t.Error(got)
	}
	if got := UnregisteredTaint(); got.ToString() != "karpenter.sh/unregistered:NoExecute" {
		t.Error(got)
	}
	if got := RebootingTaint(); got.ToString() != "karpenter.sh/rebooting:NoSchedule" {
		t.Errorf("N7: %v", got)
	}
	tests := []struct {
		taint corev1.Taint
		want  bool
	}{
		{corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: "NoSchedule"}, true},
		{corev1.Taint{Key: "node.kubernetes.io/not-ready", Effect: "NoExecute"}, true},
		{corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: "NoSchedule"}, true},
		{corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: "NoExecute"}, false},
		{corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: "NoSchedule"}, true},
		{corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Effect: "NoSchedule"}, false},
		{UnregisteredTaint(), true},
		{DisruptedTaint(), false},
		{corev1.Taint{Key: "readiness.k8s.io/storage", Effect: "NoExecute"}, true},
		{corev1.Taint{Key: "example.com/gpu", Effect: "NoSchedule"}, false},
	}
	for _, test := range tests {
		if got := IsKnownEphemeralTaint(test.taint); got != test.want {
			t.Errorf("%s: %v, want %v", test.taint.ToString(), got, test.want)
		}
	}
}

func TestA59_LabelRules(t *testing.T) {
	rules := CoreLabelRules()
	for key, want := range map[string]bool{
		"karpenter.sh/capacity-type":  false,
		"karpenter.sh/nodepool":       false,
		"karpenter.sh/initialized":    true,
		"a.b.karpenter.sh/c":          true,
		"mykarpenter.sh/c":            false,
		"karpenter.sh":                false,
		"kubernetes.io/hostname":      true,
		"kubernetes.io/arch":          false,
		"node.kubernetes.io/whatever": false,
		"team":                        false,
		"":                            false,
	} {
		if got := rules.IsRestricted(key); got != want {
			t.Errorf("%q restricted: %v, want %v", key, got, want)
		}
	}
	for alias, want := range map[string]string{
		"failure-domain.beta.kubernetes.io/zone":   "topology.kubernetes.io/zone",
		"failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
		"beta.kubernetes.io/instance-type":         "node.kubernetes.io/instance-type",
		"beta.kubernetes.io/arch":                  "kubernetes.io/arch",
		"beta.kubernetes.io/os":                    "kubernetes.io/os",
		"team":                                     "team",
	} {
		if got := rules.Normalize(alias); got != want {
			t.Errorf("%s is %s, want %s", alias, got, want)
		}
	}
}

func TestA59_ALabelUnderItsOldKeyCountsOnlyAlone(t *testing.T) {
	rules := CoreLabelRules()
	for range 50 { // maps have no order
		both := rules.Normalized(map[string]string{"beta.kubernetes.io/instance-type": "m5.large", "node.kubernetes.io/instance-type": "m5.xlarge", "team": "a"})
		if want := map[string]string{"node.kubernetes.io/instance-type": "m5.xlarge", "team": "a"}; !maps.Equal(both, want) {
			t.Fatalf("%v, want %v", both, want)
		}
	}
	if alone := rules.Normalized(map[string]string{"beta.kubernetes.io/arch": "arm64"}); alone["kubernetes.io/arch"] != "arm64" || len(alone) != 1 {
		t.Errorf("%v", alone)
	}
}
