package v1

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRestartCost(t *testing.T) {
	pool := &NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	pool.Spec.Template.Spec.NodeClassRef = &NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	if _, given, err := RestartCost(nil); given || err != nil {
		t.Errorf("without the annotation: given %v, %v", given, err)
	}
	for text, want := range map[string]float64{"0": 0, "0.1": 0.1, "5000": 5000} {
		pool.Annotations = map[string]string{RestartCostAnnotationKey: text}
		if cost, given, err := RestartCost(pool.Annotations); cost != want || !given || err != nil {
			t.Errorf("%q: %v, given %v, %v; want %v", text, cost, given, err, want)
		}
		if c := pool.ValidationCondition(LabelRules{}); c.Status != metav1.ConditionTrue || c.Message != "" {
			t.Errorf("%q: condition %v", text, c)
		}
	}
	for _, text := range []string{"", "$0.1", "-0.1", "NaN", "Inf"} {
		pool.Annotations = map[string]string{RestartCostAnnotationKey: text, NodeCostAnnotationKey: "much"}
		if _, given, err := RestartCost(pool.Annotations); given || err == nil {
			t.Errorf("%q: given %v, %v; want an error", text, given, err)
			continue
		}
		c := pool.ValidationCondition(LabelRules{})
		if c.Status != metav1.ConditionTrue {
			t.Errorf("%q: the pool cannot be used: %v", text, c)
		}
		for _, want := range []string{RestartCostAnnotationKey, "dollars for each restart", NodeCostAnnotationKey} {
			if !strings.Contains(c.Message, want) {
				t.Errorf("%q: the condition does not say %q: %s", text, want, c.Message)
			}
		}
	}
}
