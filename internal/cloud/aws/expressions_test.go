package aws

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/cloud/simaws/boot"
)

func withExpressions(_ *simaws.Options, o *Options) { o.KubeletExpressions = true }

// kubeletExpressions has one of each; an m5.large has 2 CPUs and 29 pods, an m5.xlarge 4 and 58.
func kubeletExpressions(c *awsv1.EC2NodeClass) {
	c.Spec.Kubelet = &awsv1.KubeletConfiguration{
		MaxPodsExpression: "min(40, max_pods)",
		KubeReserved:      map[string]string{"cpu": "vcpus * 31", "memory": "11 * max_pods + 255", "ephemeral-storage": "vcpus"},
		SystemReserved:    map[string]string{"memory": "max(100, memory_mib / 64)", "cpu": "50m", "pid": "1000 + vcpus"},
	}
}

// TestAWS_1_5_ExpressionsPerType: every family's nodes get the values that were worked out for their type, and pods are placed by
// the same.
func TestAWS_1_5_ExpressionsPerType(t *testing.T) {
	wants := func() map[string]boot.Node {
		return map[string]boot.Node{
			"m5.large": {
				MaxPods: 29, KubeReserved: map[string]string{"cpu": "70m", "memory": "576Mi", "ephemeral-storage": "2Gi"},
				SystemReserved: map[string]string{"memory": "128Mi", "cpu": "50m", "pid": "1002"},
			},
			"m5.xlarge": {
				MaxPods: 40, KubeReserved: map[string]string{"cpu": "130m", "memory": "704Mi", "ephemeral-storage": "4Gi"},
				SystemReserved: map[string]string{"memory": "256Mi", "cpu": "50m", "pid": "1004"},
			},
		}
	}
	for _, alias := range []string{"al2023@latest", "bottlerocket@latest", "windows2022@latest"} {
		t.Run(alias, func(t *testing.T) {
			w := newWorld(t, withExpressions)
			class := w.load(kubeletExpressions, func(c *awsv1.EC2NodeClass) {
				c.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: alias}}
				switch strings.TrimSuffix(alias, "@latest") {
				case "windows2022": // has 110 pods whatever its addresses
					c.Spec.Kubelet.MaxPodsExpression = "vcpus == 2 ? 29 : 40"
				case "bottlerocket": // takes no process numbers
					delete(c.Spec.Kubelet.SystemReserved, "pid")
				}
			})
			if got := class.StatusConditions(true).Get(awsv1.ConditionValidationSucceeded); got.Status != "True" {
				t.Fatal(got.Message)
			}
			for typ, want := range wants() {
				in := w.one(strings.ReplaceAll(typ, ".", "-"), onDemandOnly, typeIs(typ))
				node, err := boot.Decode(class.AMIFamily(), []byte(w.userDataOf(in.ID)))
				w.must(err)
				got := boot.Node{MaxPods: node.MaxPods, KubeReserved: node.KubeReserved, SystemReserved: node.SystemReserved}
				if class.AMIFamily() == awsv1.AMIFamilyBottlerocket {
					delete(want.SystemReserved, "pid")
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", typ, diff)
				}
				if pods := in.Capacity.Pods().Value(); pods != int64(want.MaxPods) {
					t.Errorf("%s: %d pods are counted with, want %d", typ, pods, want.MaxPods)
				}
			}
			large := w.typeNamed("m5.large")
			if cpu := large.Allocatable[0]; cpu != 2000-70-50 {
				t.Errorf("%dm are counted with, want 1880m", cpu)
			}
		})
	}
}

// TestAWS_1_5_TypesThatComeToTheSameShareATemplate: one launch may offer many types, and needs a launch template for each
// outcome, not for each type.
func TestAWS_1_5_TypesThatComeToTheSameShareATemplate(t *testing.T) {
	w := newWorld(t, withExpressions)
	w.load(kubeletExpressions)
	before := w.called("CreateLaunchTemplate")
	w.one("four", onDemandOnly, need(corev1.LabelInstanceTypeStable, "m5.large", "m5d.large", "m5n.large", "m5.xlarge"))
	if made := w.called("CreateLaunchTemplate") - before; made != 2 {
		t.Errorf("%d launch templates for four types of two sizes, want 2", made)
	}
}

func TestAWS_1_5_ExpressionConditions(t *testing.T) {
	tests := []struct {
		name    string
		gate    bool
		kubelet awsv1.KubeletConfiguration
		reason  string
		message string
	}{
		{"plain values without the gate", false, awsv1.KubeletConfiguration{KubeReserved: map[string]string{"cpu": "100m"}}, "", ""},
		{"with the gate", true, awsv1.KubeletConfiguration{MaxPodsExpression: "max_pods", SystemReserved: map[string]string{"cpu": "vcpus * 10"}}, "", ""},
		{"maxPods without the gate", false, awsv1.KubeletConfiguration{MaxPodsExpression: "max_pods"}, awsv1.ReasonKubeletExpressionsDisabled, `spec.kubelet.maxPods: Invalid value: "max_pods"`},
		{"kubeReserved without the gate", false, awsv1.KubeletConfiguration{KubeReserved: map[string]string{"cpu": "vcpus"}}, awsv1.ReasonKubeletExpressionsDisabled, "spec.kubelet.kubeReserved[cpu]"},
		{"systemReserved without the gate", false, awsv1.KubeletConfiguration{SystemReserved: map[string]string{"cpu": "vcpus"}}, awsv1.ReasonKubeletExpressionsDisabled, "AWS_FEATURE_GATES"},
		{"maxPods that ends early", true, awsv1.KubeletConfiguration{MaxPodsExpression: "min(110,"}, awsv1.ReasonKubeletExpressionInvalid, "spec.kubelet.maxPods"},
		{"kubeReserved of nothing known", true, awsv1.KubeletConfiguration{KubeReserved: map[string]string{"memory": "memory * 2"}}, awsv1.ReasonKubeletExpressionInvalid, "undeclared reference to 'memory'"},
		{"maxPods below zero", true, awsv1.KubeletConfiguration{MaxPodsExpression: "vcpus - 2"}, awsv1.ReasonKubeletExpressionEvaluationFailed, "gives -1, which is not from 0 to 2147483647 (for instance type a1.medium and"},
		{"systemReserved by zero", true, awsv1.KubeletConfiguration{SystemReserved: map[string]string{"cpu": "100 / (vcpus - 2)"}}, awsv1.ReasonKubeletExpressionEvaluationFailed, "division by zero (for instance type"},
		{"kubeReserved for one type", true, awsv1.KubeletConfiguration{KubeReserved: map[string]string{"cpu": "instance_type == 'm5.large' ? -1 : 1"}}, awsv1.ReasonKubeletExpressionEvaluationFailed, "(for instance type m5.large)"},
	}
	w := newWorld(t)
	w.load()
	for _, tt := range tests {
		w.opt.KubeletExpressions = tt.gate
		w.restart()
		w.refresh()
		class := w.addClass("default", func(c *awsv1.EC2NodeClass) { c.Spec.Kubelet = &tt.kubelet })
		got := class.StatusConditions(true).Get(awsv1.ConditionValidationSucceeded)
		if (got.Status == "True") != (tt.reason == "") || tt.reason != "" && got.Reason != tt.reason || !strings.Contains(got.Message, tt.message) {
			t.Errorf("%s: %s %s %q, want %s %q", tt.name, got.Status, got.Reason, got.Message, tt.reason, tt.message)
		}
		ready := class.StatusConditions(true).IsTrue(karpv1.ConditionReady)
		if ready != (tt.reason == "") {
			t.Errorf("%s: Ready is %v", tt.name, ready)
		}
	}
}

// TestAWS_1_5_GateOff: what cannot be worked out is not counted with either; the class is not Ready, so nothing is launched.
func TestAWS_1_5_GateOff(t *testing.T) {
	w := newWorld(t)
	w.load(kubeletExpressions)
	if pods := w.typeNamed("m5.xlarge").Capacity[2]; pods != 58 {
		t.Errorf("%d pods, want the 58 of the type", pods)
	}
	if r := w.Launch(w.ctx, w.batch("b", 1, onDemandOnly, typeIs("m5.large")))[0]; r.Err == nil {
		t.Error("launched")
	}
}
