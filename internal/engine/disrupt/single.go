package disrupt

import (
	"karpenter/internal/engine/why"
)

// maxSingles bounds how many nodes are looked at one by one after the groups. Those further down the order waste less; which are
// looked at goes round from turn to turn, so that every node comes up.
const maxSingles = 64

// singles looks at the candidates that no group could do without, each alone: what is left may still be replaced by something
// cheaper, or go to room that its group did not have. It also finds out for each why it stays.
func (d *decider) singles(candidates []int32, v []float64) {
	some, rest := d.choose(candidates)
	if len(some) > 0 {
		w := d.walk(some, d.room(func(int32) bool { return true }))
		for _, node := range some {
			d.single(w, node)
		}
	}
	for _, node := range rest {
		n := d.in.World.Nodes[node]
		d.keep(node, why.Chosen, "its pods, worth %s, fill a node of %s better than those that were looked at first", why.Money(worth(n, v)), why.Money(n.Price))
	}
}

// choose picks the nodes that are looked at: one pool after the other, the worst first, and beginning elsewhere in every turn.
func (d *decider) choose(candidates []int32) (some, rest []int32) {
	var pools []string
	byPool := map[string][]int32{}
	for _, node := range candidates {
		if r, ok := d.quota(Underutilized).take(node); !ok {
			d.keepFor(node, r)
			continue
		}
		pool := d.in.World.Nodes[node].Pool
		if byPool[pool] == nil {
			pools = append(pools, pool)
		}
		byPool[pool] = append(byPool[pool], node)
	}
	left := 0
	for _, list := range byPool {
		left += len(list)
	}
	var order []int32
	for k := 0; len(order) < left; k++ {
		for _, pool := range pools {
			if k < len(byPool[pool]) {
				order = append(order, byPool[pool][k])
			}
		}
	}
	if left <= maxSingles {
		return order, nil
	}
	from := d.opt.Turn * maxSingles % left
	for k := range order {
		node := order[(from+k)%left]
		if k < maxSingles {
			some = append(some, node)
		} else {
			rest = append(rest, node)
		}
	}
	return some, rest
}

func (d *decider) single(w *walk, node int32) {
	if r, ok := d.free(node, Underutilized); !ok { // a move since has filled it
		d.keepFor(node, r)
		return
	}
	m, r := w.move(Underutilized, node)
	if m == nil {
		d.keepFor(node, noPlace(r))
		return
	}
	if r, ok := d.pays(m); !ok {
		d.reject = append(d.reject, m.Scores...)
		d.keepFor(node, r)
		return
	}
	r, ok := d.affordable(m)
	if ok {
		m.Why = d.explain(m)
		r, ok = d.take(m)
	}
	if !ok {
		d.keep(node, r.Code, "it could be removed to save %s, but %s", why.Money(m.Saves), r.Text)
		return
	}
	w.took(m)
}
