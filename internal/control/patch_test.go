package control

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "karpenter/api/karpenter/v1"
)

// TestPatch_SaysWhatAWholePatchSays holds patches of the parts that differ against those of whole objects.
func TestPatch_SaysWhatAWholePatchSays(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	before := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: "claim", ResourceVersion: "7", UID: "uid", Labels: map[string]string{"a": "1", "b": "2"}, Finalizers: []string{"x/y"}, CreationTimestamp: metav1.NewTime(at),
	}}
	before.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}
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
		"several parts":      func(c *karpv1.NodeClaim) { c.Status.NodeName = "node"; c.Spec.Requirements = nil; c.Labels = nil },
	} {
		now := before.DeepCopy()
		change(now)
		was := now.DeepCopy()
		got, err := changes{before}.Data(now)
		if err != nil {
			t.Fatal(err)
		}
		want, err := locked(before).Data(now)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s: %s, and of whole objects %s", name, got, want)
		}
		if now.ResourceVersion != was.ResourceVersion || len(now.Labels) != len(was.Labels) || now.Status.ProviderID != was.Status.ProviderID {
			t.Errorf("%s: the object has been changed", name)
		}
	}
	if _, err := (changes{&karpv1.NodeClaim{}}).Data(before); err == nil {
		t.Error("an object that was never read was written")
	}
}
