package disrupt

import "karpenter/internal/engine/why"

// maxSingles bounds how many nodes are looked at one by one after the groups. Those further down the order waste less, and come up
// in a later pass, when those before them have been dealt with.
const maxSingles = 64

// singles looks at the candidates that no group could do without, worst first, each alone: what is left may still be replaced
// by something cheaper. The moves from before on have been found in groups. It also finds out for each why it stays.
func (d *decider) singles(candidates []int32, v []float64, before int) {
	if moves := d.moves[before:]; len(moves) > 0 {
		d.rebase(committed(d.in.World, moves...))
	}
	looked := 0
	for _, node := range candidates {
		n := d.in.World.Nodes[node]
		if d.gone[node] || d.why[node].Text != "" {
			continue
		}
		if d.room(n.Pool, Underutilized) == 0 {
			d.keep(node, why.Limit, "pool %s's disruption budget allows no more nodes to go for %s now", n.Pool, Underutilized)
			continue
		}
		if looked == maxSingles {
			d.keep(node, why.Chosen, "its pods, worth $%.4f/h, fill a node of $%.4f/h better than those looked at first", worth(n, v), n.Price)
			continue
		}
		looked++
		d.single(node)
	}
}

func (d *decider) single(node int32) {
	remove := []int32{node}
	plan := d.without(remove, nil)
	if stuck := d.stuck(plan, remove); stuck != nil {
		d.keep(node, why.Refused, "its pods find no other place: %s", stuck.Line())
		return
	}
	m := &Move{Reason: Underutilized, Remove: remove}
	d.complete(m, plan)
	if r, ok := d.pays(m); !ok {
		d.keep(node, r.Code, "%s", r.Text)
		return
	}
	if d.offer(m) {
		d.rebase(committed(d.in.World, m))
	}
}
