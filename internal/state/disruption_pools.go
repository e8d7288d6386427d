package state

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/state/toworld"
)

// poolCount counts nodes of a pool as budgets do: those that are up, those of them that are out already (D14, D16), and of these those
// that are being disrupted: nodes that are not Ready leave room for their own repair (N6).
type poolCount struct{ nodes, out, going int }

// outFor is how many nodes are out already, for a reason.
func (c *poolCount) outFor(reason disrupt.Reason) int {
	if reason == disrupt.Unhealthy {
		return c.going
	}
	return c.out
}

// count adds a node. Nodes that are starting, that no pool made or whose instance is being ended count nowhere.
func (r *disruptionReader) count(counts map[string]*poolCount, n *Node) {
	if !n.Counts() {
		return
	}
	c := counts[n.World.Pool]
	if c == nil {
		c = &poolCount{}
		counts[n.World.Pool] = c
	}
	c.nodes++
	going := n.World.Deleting || toworld.Holds(n.Claim, v1.ConditionRebooting) || r.opt.Busy != nil && r.opt.Busy(n.Claim.Name) != ""
	if going {
		c.going++
	}
	if going || !nodeReady(n.Object) {
		c.out++
	}
}

// Counts says whether budgets count a node: it has been up, and its instance is not being ended.
func (n *Node) Counts() bool {
	return n.Claim != nil && n.Object != nil && n.World.Pool != "" && !toworld.Holds(n.Claim, v1.ConditionInstanceTerminating) &&
		(n.World.Initialized || toworld.Holds(n.Claim, v1.ConditionRebooting))
}

func nodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// pool is what a pool says about disruption.
func (r *disruptionReader) pool(p *Pool, c *poolCount) disrupt.Pool {
	spec := &p.Object.Spec
	out := disrupt.Pool{
		Name: p.World.Name, Policy: disrupt.Policy(spec.Disruption.ConsolidationPolicy), Never: spec.Disruption.ConsolidateAfter.IsNever(),
		Static: spec.Replicas != nil, Allowed: map[disrupt.Reason]int{},
	}
	out.Horizon = disrupt.DefaultHorizon
	if r.opt.Horizon != nil {
		out.Horizon *= r.opt.Horizon(out.Name)
	}
	if r.opt.Hold != nil {
		out.Hold = r.opt.Hold(out.Name)
		out.Blind = r.opt.Blind && out.Hold != ""
	}
	if r.opt.Turn != nil {
		out.Turn = r.opt.Turn(out.Name)
	}
	if out.Policy == "" {
		out.Policy = disrupt.WhenEmptyOrUnderutilized
	}
	if c == nil {
		c = &poolCount{}
	}
	for _, reason := range disrupt.Reasons() {
		allowed, err := p.Object.AllowedDisruptions(v1.DisruptionReason(reason), c.nodes, r.now)
		out.Allowed[reason] = max(0, allowed-c.outFor(reason))
		if err != nil && out.Trouble == "" {
			out.Trouble = err.Error()
		}
	}
	return out
}
