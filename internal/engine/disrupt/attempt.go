package disrupt

import (
	"slices"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
)

// attempt is what trying to remove some nodes together comes to.
type attempt struct {
	moves []*Move // those that pay
	// net is what they save an hour beyond what they have to.
	net                float64
	launches, restarts int
}

// rounds is how often what had better stay is left out.
const rounds = 3

// refine asks anew without the nodes that had better stay: what was to go to their like may go to themselves. Moves that would still
// launch the like of what they remove are left out.
func (s *survey) refine(part *sub, nodes []int32, moves []*Move) attempt {
	for range rounds {
		var stay []int32
		for _, m := range moves {
			stay = append(stay, s.d.stay(m)...)
		}
		if len(stay) == 0 {
			break
		}
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(i int32) bool { return slices.Contains(stay, i) })
		moves = part.moves(nodes)
	}
	return s.worth(slices.DeleteFunc(moves, func(m *Move) bool { return len(s.d.stay(m)) > 0 }))
}

// worth is what moves come to, without those that do not pay.
func (s *survey) worth(moves []*Move) (a attempt) {
	for _, m := range moves {
		if _, ok := s.d.pays(m); ok {
			a.moves = append(a.moves, m)
			a.net += s.d.gain(m) - minShare*s.d.price(m) - s.d.toll(m)
			a.launches += len(m.Add)
			a.restarts += m.Evicts
		}
	}
	return a
}

// better says whether an attempt saves more than another, or as much with fewer launches and restarts.
func (a *attempt) better(b *attempt) bool {
	const same = 1e-9
	switch {
	case len(a.moves) == 0:
		return false
	case a.net > b.net+same || a.net < b.net-same || len(b.moves) == 0:
		return a.net > b.net+same
	case a.launches != b.launches:
		return a.launches < b.launches
	}
	return a.restarts < b.restarts
}

// stay lists the nodes of a move that had better stay: those that must not be replaced, if it launches anything, and those whose like
// it launches.
func (d *decider) stay(m *Move) []int32 {
	var out []int32
	for _, node := range m.Remove {
		if len(m.Add) > 0 && d.stays(node) {
			out = append(out, node)
		}
	}
	for _, n := range m.Add {
		for _, node := range slices.Backward(m.Remove) { // the later ones waste less
			if like(d.in.World.Nodes[node], n) && !slices.Contains(out, node) {
				out = append(out, node)
				break
			}
		}
	}
	return out
}

// like says whether a new node is no better than a node that is there: the same type in the same pool, for as much.
func like(n *world.Node, as *pack.NewNode) bool {
	c := as.Choices[0]
	is := func(key, value string) bool { v, _ := n.Labels.Get(key); return v == value }
	return n.Pool == as.Pool.Name && is(world.LabelInstanceType, c.Type.Name) && is(world.LabelCapacityType, c.Offering.CapacityType) &&
		c.Offering.Reservation == "" && as.Price() >= (1-minShare)*n.Price
}
