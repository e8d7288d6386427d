package v1

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNodeCost(t *testing.T) {
	pool := &NodePool{ObjectMeta: metav1.ObjectMeta{Name: "general"}}
	pool.Spec.Template.Spec.NodeClassRef = &NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	if cost, err := pool.NodeCost(); cost != DefaultNodeCost || err != nil {
		t.Errorf("without the annotation: %v, %v", cost, err)
	}
	for text, want := range map[string]float64{"0": 0, "0.02": 0.02, "1000": 1000} {
		pool.Annotations = map[string]string{NodeCostAnnotationKey: text}
		if cost, err := pool.NodeCost(); cost != want || err != nil {
			t.Errorf("%q: %v, %v; want %v", text, cost, err, want)
		}
		if c := pool.ValidationCondition(LabelRules{}); c.Status != metav1.ConditionTrue || c.Message != "" {
			t.Errorf("%q: condition %v", text, c)
		}
	}
	for _, text := range []string{"", "$0.02", "-0.02", "NaN", "Inf", "1001"} {
		pool.Annotations = map[string]string{NodeCostAnnotationKey: text}
		cost, err := pool.NodeCost()
		if cost != DefaultNodeCost || err == nil {
			t.Errorf("%q: %v, %v; want the default and an error", text, cost, err)
			continue
		}
		c := pool.ValidationCondition(LabelRules{})
		if c.Status != metav1.ConditionTrue {
			t.Errorf("%q: the pool cannot be used: %v", text, c)
		}
		for _, want := range []string{NodeCostAnnotationKey, "dollars an hour", "0.005 counts"} {
			if !strings.Contains(c.Message, want) {
				t.Errorf("%q: the condition does not say %q: %s", text, want, c.Message)
			}
		}
	}
}
