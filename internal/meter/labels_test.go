package meter

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testCloud is the part of a provider.
var testCloud = Cloud{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", NodeLabels: []string{"example.com/instance-family"}}

func TestO12_NodeMetricsCarryTheNodesLabels(t *testing.T) {
	for _, label := range []string{"nodepool", "zone", "region", "instance_type", "arch", "os", "capacity_type", "windows_build", "instance_family"} {
		for _, m := range nodeMetrics(testCloud) {
			if (m.ID == "O12" || m.ID == "O13") && !slices.Contains(m.Labels, label) {
				t.Errorf("%s lacks the label %s", m.Name, label)
			}
		}
	}
	set, _ := newSet(t)
	got := set.NodeLabels(map[string]string{"karpenter.sh/nodepool": "p", "kubernetes.io/arch": "arm64", "example.com/instance-family": "f", "foreign/label": "x"}, "node_name", "n")
	if diff := cmp.Diff([]string{"node_name", "n", "nodepool", "p", "arch", "arm64", "instance_family", "f"}, got); diff != "" {
		t.Errorf("labels of a node (-want +got):\n%s", diff)
	}
}

func TestO19_Buckets(t *testing.T) {
	if got := durations(); len(got) != 45 || got[0] != .005 || got[44] != 600 || !slices.IsSorted(got) {
		t.Errorf("durations: got %v", got)
	}
	if got := doubling(.5, 15); got[14] != 8192 {
		t.Errorf("doubling: got %v", got)
	}
	if got := lifetimes(); got[0] != 900 || got[20] != 30*86400 || !slices.IsSorted(got) {
		t.Errorf("lifetimes: got %v", got)
	}
}
