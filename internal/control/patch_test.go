package control

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
)

// TestPatch_SaysWhatAWholePatchSays holds patches of the parts that differ against those of whole objects.
func TestPatch_SaysWhatAWholePatchSays(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	before := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "claim", ResourceVersion: "7", UID: "uid", Labels: map[string]string{"a": "1", "b": "2"}, Finalizers: []string{"x/y"}, CreationTimestamp: metav1.NewTime(at),
	}}
	before.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}
	before.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "a"}
	before.Spec.TerminationGracePeriod = &karpv1.Duration{Duration: time.Minute}
	before.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("1Gi"), "disk": resource.MustParse("5")}
	before.Status.ProviderID = "aws:///a/i-1"
	before.StatusConditions().SetTrue(karpv1.ConditionLaunched, at)
	for name, change := range map[string]func(*karpv1.NodeClaim){
		"nothing": func(*karpv1.NodeClaim) {},
		"a condition": func(c *karpv1.NodeClaim) {
			c.StatusConditions().SetTrue(karpv1.ConditionRegistered, at.Add(time.Minute))
		},
		"a field of status":  func(c *karpv1.NodeClaim) { c.Status.LastPodEventTime = metav1.NewTime(at) },
		"what was there":     func(c *karpv1.NodeClaim) { c.Status.ProviderID = "" },
		"labels":             func(c *karpv1.NodeClaim) { c.Labels["c"] = "3"; delete(c.Labels, "a") },
		"the last finalizer": func(c *karpv1.NodeClaim) { c.Finalizers = nil },
		"an annotation":      func(c *karpv1.NodeClaim) { Annotate(c, "key", "value") },
		"capacity": func(c *karpv1.NodeClaim) {
			c.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("4000m"), "memory": resource.MustParse("2Gi"), "pods": resource.MustParse("10")}
		},
		"the time within a second": func(c *karpv1.NodeClaim) { c.CreationTimestamp = metav1.NewTime(at.Add(time.Millisecond)) },
		"a pointer": func(c *karpv1.NodeClaim) {
			c.Spec.NodeClassRef = &karpv1.NodeClassReference{Kind: "EC2NodeClass", Name: "b"}
		},
		"no pointer": func(c *karpv1.NodeClaim) { c.Spec.TerminationGracePeriod = nil },
		"a duration": func(c *karpv1.NodeClaim) { c.Spec.TerminationGracePeriod = &karpv1.Duration{Duration: time.Hour} },
		"requests": func(c *karpv1.NodeClaim) {
			c.Spec.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
		},
		"another condition": func(c *karpv1.NodeClaim) {
			c.StatusConditions().SetFalse(karpv1.ConditionLaunched, "No", "<why & what>", at)
		},
		"several parts": func(c *karpv1.NodeClaim) { c.Status.NodeName = "node"; c.Spec.Requirements = nil; c.Labels = nil },
	} {
		now := before.DeepCopy()
		change(now)
		was := now.DeepCopy()
		got, err := newChanges(before, now).Data(now)
		if err != nil {
			t.Fatal(err)
		}
		whole, err := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}).Data(now)
		if err != nil {
			t.Fatal(err)
		}
		if is, want := decoded(t, got), decoded(t, whole); !reflect.DeepEqual(is, want) {
			t.Errorf("%s: %s, and of whole objects %s", name, got, whole)
		}
		if differ := newChanges(before, now).differ; differ == equality.Semantic.DeepEqual(before, now) {
			t.Errorf("%s: differ is %t", name, differ)
		}
		if now.ResourceVersion != was.ResourceVersion || len(now.Labels) != len(was.Labels) || now.Status.ProviderID != was.Status.ProviderID {
			t.Errorf("%s: the object has been changed", name)
		}
	}
	if _, err := newChanges(&karpv1.NodeClaim{}, before).Data(before); err == nil {
		t.Error("an object that was never read was written")
	}
}

func decoded(t *testing.T, data []byte) (out map[string]any) {
	t.Helper()
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return out
}
