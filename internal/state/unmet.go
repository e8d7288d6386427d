package state

import (
	"fmt"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/req"
)

// Unmet names the first requirement of a pool that the labels of one of its claims do not satisfy (D45), and what the node has
// instead. It is empty if they satisfy all of them.
func Unmet(claim *v1.NodeClaim, pool *v1.NodePool, rules v1.LabelRules) (string, error) {
	labels := rules.Normalized(claim.Labels)
	for _, r := range pool.Spec.Template.Spec.Requirements {
		x, err := req.New(rules.Normalize(r.Key), req.Operator(r.Operator), r.Values...)
		if err != nil {
			return "", fmt.Errorf("NodePool %s: spec.template.spec.requirements: %w", pool.Name, err)
		}
		value, present := labels[x.Key]
		switch {
		case x.Admits(value, present):
		case present:
			return fmt.Sprintf("%s; the node has %s", x, value), nil
		default:
			return fmt.Sprintf("%s; the node has no such label", x), nil
		}
	}
	return "", nil
}
