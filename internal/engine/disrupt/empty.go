package disrupt

import (
	"fmt"

	"karpenter/internal/engine/why"
)

// empty removes nodes that nothing would have to leave (D20–D22). Each is a move of its own: what happens to one before it is
// carried out is no matter to the others.
func (d *decider) empty() {
	for _, node := range d.order {
		n := d.in.World.Nodes[node]
		if !d.bare(node) || d.isStatic(node) && d.in.Nodes[node].Drift != "" { // drift decides about the latter
			continue
		}
		if r, ok := d.may(node, Empty); !ok {
			d.keepFor(node, r)
			continue
		}
		m := &Move{Reason: Empty, Remove: []int32{node}, Saves: n.Price, Evicts: d.evicts(node, Empty)}
		r, ok := d.affordable(m)
		if ok {
			m.Why = why.New(why.Chosen, "node %s %s%s", n.Name, emptiness(m.Evicts), saving(n.Price))
			r, ok = d.take(m)
		}
		if !ok {
			d.keep(node, r.Code, "it is empty, but %s", r.Text)
		}
	}
}

// emptiness says what a node has that counts as empty.
func emptiness(pods int) string {
	if pods == 0 {
		return "has no pods to reschedule"
	}
	return fmt.Sprintf("has only %s that may be evicted by priority or deletion cost", why.Count(pods, "pod"))
}

// saving says what is saved, where that is known.
func saving(price float64) string {
	if !(price > 0) {
		return ""
	}
	return fmt.Sprintf("; removing it saves %s", why.Money(price))
}
