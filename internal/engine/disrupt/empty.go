package disrupt

import (
	"fmt"

	"karpenter/internal/engine/why"
)

// empty removes nodes that nothing would have to leave (D20–D22). Each is a move of its own: what happens to one before it is
// carried out is no matter to the others.
func (d *decider) empty() {
	for i, n := range d.in.World.Nodes {
		node := int32(i)
		if !d.bare(node) || !d.free(node, Empty) || !d.quiet(node) {
			continue
		}
		m := &Move{
			Reason: Empty, Remove: []int32{node}, Saves: n.Price, Evicts: evicts(n),
			Why: why.New(why.Chosen, "node %s has no pods that need a place%s", n.Name, saving(n.Price)),
		}
		if reason, ok := d.affordable(m); !ok {
			d.keep(node, reason.Code, "it is empty, but %s", reason.Text)
			continue
		}
		d.take(m)
	}
}

// saving says what is saved, where that is known.
func saving(price float64) string {
	if price <= 0 {
		return ""
	}
	return fmt.Sprintf("; removing it saves $%.4f/h", price)
}
