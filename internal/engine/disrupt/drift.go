package disrupt

import (
	"cmp"
	"slices"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
)

// drift replaces nodes that are no longer what their pool or class asks for: empty ones first, then those that drifted first
// (D48). Several may go at once, within budgets; one whose pods find no place waits and holds nobody else up.
func (d *decider) drift() {
	var drifted []int32
	for i := range d.in.Nodes {
		if d.in.Nodes[i].Drift != "" && d.free(int32(i), Drifted) {
			drifted = append(drifted, int32(i))
		}
	}
	slices.SortStableFunc(drifted, func(a, b int32) int {
		return cmp.Or(-compareBool(d.bare(a), d.bare(b)), d.in.Nodes[a].DriftedAt.Compare(d.in.Nodes[b].DriftedAt), cmp.Compare(a, b))
	})
	for _, node := range drifted {
		d.replaceDrifted(node)
	}
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func (d *decider) replaceDrifted(node int32) {
	n, facts := d.in.World.Nodes[node], &d.in.Nodes[node]
	m := &Move{Reason: Drifted, Remove: []int32{node}}
	if reason, ok := d.affordable(m); !ok {
		d.keep(node, reason.Code, "it has drifted (%s), but %s", facts.Drift, reason.Text)
		return
	}
	plan := d.without(m.Remove, nil)
	if stuck := d.stuck(plan, m.Remove); stuck != nil {
		d.keep(node, why.Refused, "it has drifted (%s), but its pods find no other place: %s", facts.Drift, stuck.Line())
		return
	}
	d.complete(m, plan)
	m.Why = why.New(why.Chosen, "node %s has drifted: %s; %s", n.Name, facts.Drift, replacement(m))
	d.take(m)
}

// complete fills in where the pods of the removed nodes go and what that costs.
func (d *decider) complete(m *Move, plan *pack.Plan) {
	for _, node := range m.Remove {
		m.Evicts += evicts(d.in.World.Nodes[node])
		m.Saves += d.in.World.Nodes[node].Price
	}
	for _, n := range plan.Nodes {
		m.Saves -= n.Price()
	}
	m.Add, m.Filled = plan.Nodes, plan.Existing
}

// stuck is why a pod of the removed nodes has no place in the plan, or nil. Pods that had no place before do not count (D26).
func (d *decider) stuck(plan *pack.Plan, removed []int32) *why.Reason {
	if len(plan.Unplaced) == 0 {
		return nil
	}
	moved := map[string]bool{}
	for _, node := range removed {
		for _, p := range d.in.World.Nodes[node].Pods {
			moved[p.UID] = true
		}
	}
	for _, u := range plan.Unplaced {
		for _, p := range u.Pods {
			if !moved[p.UID] {
				continue
			}
			r := why.New(why.Refused, "pod %s", d.in.World.PodName(p))
			r.Because = u.Reasons
			return &r
		}
	}
	return nil
}
