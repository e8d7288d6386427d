package forecast

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/state"
)

// judge finds the claims that are no longer what their pool or class asks for, and marks them as the controller would.
func (c *Change) judge() error {
	for i, claim := range c.Objects.Claims {
		if claim.DeletionTimestamp != nil || claim.StatusConditions().IsTrue(v1.ConditionDrifted) {
			continue
		}
		pool := claim.Labels[v1.NodePoolLabelKey]
		at := slices.IndexFunc(c.Objects.Pools, func(p *v1.NodePool) bool { return p.Name == pool })
		if at < 0 {
			continue
		}
		ref := claim.Spec.NodeClassRef
		if !c.pools[pool] && (ref == nil || !c.classDrifts(ref)) {
			continue // whatever it is, it is not of this change
		}
		d, err := c.differs(claim, c.Objects.Pools[at])
		if err != nil {
			return err
		}
		if d == nil {
			continue
		}
		d.Node, d.Pool = claim.Status.NodeName, pool
		if d.Node == "" {
			d.Node = claim.Name
		}
		next := claim.DeepCopy()
		next.StatusConditions().Set(v1.Condition{Type: v1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: d.Reason, Message: d.Message}, c.Now)
		c.Objects.Claims[i] = next
		c.Drift = append(c.Drift, *d)
	}
	slices.SortFunc(c.Drift, func(a, b Drifted) int {
		if a.Node < b.Node {
			return -1
		}
		return 1
	})
	return nil
}

// differs says how a claim differs from its pool and class, or nil.
func (c *Change) differs(claim *v1.NodeClaim, pool *v1.NodePool) (*Drifted, error) {
	was, version := claim.Annotations[v1.NodePoolHashAnnotationKey], claim.Annotations[v1.NodePoolHashVersionAnnotationKey]
	if was != "" && version == v1.NodePoolHashVersion && was != pool.Hash() {
		return &Drifted{Reason: v1.ReasonNodePoolDrifted, Message: fmt.Sprintf("the template of pool %s has changed since the node was made", pool.Name)}, nil
	}
	kind := c.kindOf(claim.Spec.NodeClassRef)
	switch unmet, err := state.Unmet(claim, pool, kind.Labels()); {
	case err != nil:
		return nil, err
	case unmet != "":
		return &Drifted{Reason: v1.ReasonRequirementsDrifted, Message: fmt.Sprintf("pool %s asks for %s", pool.Name, unmet)}, nil
	}
	if ref := claim.Spec.NodeClassRef; ref != nil && c.classDrifts(ref) {
		return &Drifted{Reason: kind.DriftReason, Message: fmt.Sprintf("class %s has changed since the node was made", ref.Name)}, nil
	}
	return nil, nil
}

// classDrifts says whether the changed class makes nodes of the old one drift: whether the fields differ that its hash counts.
func (c *Change) classDrifts(ref *v1.NodeClassReference) bool {
	of := func(n cloud.KnownClass) bool { return n.Is(ref) }
	now, was := slices.IndexFunc(c.classes, of), slices.IndexFunc(c.NodeClasses, of)
	return now >= 0 && was >= 0 && c.classes[now].Hash() != c.NodeClasses[was].Hash()
}
