package forecast

import (
	"fmt"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// podLabels is as much of a pod as disruption budgets select by.
type podLabels struct {
	space  string
	labels map[string]string
}

// budget applies a PodDisruptionBudget.
func (c *Change) budget(m map[string]any, id identity) error {
	b := &policyv1.PodDisruptionBudget{}
	if err := decode(m, b, id); err != nil {
		return err
	}
	b.Namespace = id.space
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: -1} // counted again once everything is applied
	c.Objects.Budgets = replaced(c.Objects.Budgets, []*policyv1.PodDisruptionBudget{b})
	c.say("%s is applied", id)
	return nil
}

// countBudgets works out how many evictions budgets allow that were applied, or whose pods were touched.
func (c *Change) countBudgets() error {
	for i, b := range c.Objects.Budgets {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			return fmt.Errorf("PodDisruptionBudget %s/%s: spec.selector: %w", b.Namespace, b.Name, err)
		}
		applied := b.Status.ObservedGeneration == -1
		touched := slices.ContainsFunc(c.touched, func(p podLabels) bool { return p.space == spaceOf(b) && selector.Matches(labels.Set(p.labels)) })
		if !applied && !touched {
			continue
		}
		expected := int32(0)
		for _, p := range c.Objects.Pods {
			if space := p.Namespace; (space == b.Namespace || space == "" && b.Namespace == metav1.NamespaceDefault) && selector.Matches(labels.Set(p.Labels)) {
				expected++
			}
		}
		next := b.DeepCopy()
		next.Status.ObservedGeneration = next.Generation
		if next.Status.DisruptionsAllowed, err = allowance(&next.Spec, expected); err != nil {
			return fmt.Errorf("PodDisruptionBudget %s/%s: %w", b.Namespace, b.Name, err)
		}
		c.Objects.Budgets[i] = next
	}
	return nil
}

// allowance is how many of the pods may be evicted while all of them are well.
func allowance(spec *policyv1.PodDisruptionBudgetSpec, expected int32) (int32, error) {
	desired := 0
	var err error
	switch {
	case spec.MinAvailable != nil:
		desired, err = intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, int(expected), true)
	case spec.MaxUnavailable != nil:
		var out int
		out, err = intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, int(expected), true)
		desired = max(0, int(expected)-out)
	}
	if err != nil {
		return 0, fmt.Errorf("minAvailable and maxUnavailable are numbers or percentages: %w", err)
	}
	return max(0, expected-int32(desired)), nil
}
