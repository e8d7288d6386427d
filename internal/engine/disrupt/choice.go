package disrupt

import (
	"slices"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// narrow cuts what may be launched for a move to what leaves it worth making, whichever the cloud chooses: each new node may cost
// its share of the saving more than planned (D28); one that counts on spot stays spot (D29); a lone one of a type
// that the move removes must be cheaper than that node, else the node itself could stay (D35).
func (d *decider) narrow(m *Move, price float64) (why.Reason, bool) {
	if len(m.Add) == 0 {
		return why.Reason{}, true
	}
	spot := d.spotOnly(m)
	if spot && !d.opt.SpotToSpot {
		return why.New(why.Refused, "spot nodes are not replaced by spot nodes unless the feature gate SpotToSpotConsolidation is on"), false
	}
	spare := (m.Saves - d.share(m)*price) / float64(len(m.Add))
	add := slices.Clone(m.Add)
	for k, n := range add {
		most := n.Price() + spare
		for _, node := range m.Remove {
			if old := d.in.World.Nodes[node]; len(m.Add) == 1 && same(old, n.Choices[0]) {
				most = min(most, old.Price-1e-9)
			}
		}
		cut := *n
		cut.Choices = slices.DeleteFunc(slices.Clone(n.Choices), func(c pack.Choice) bool {
			return c.Offering.Price > most || n.Choices[0].Offering.CapacityType == world.CapacitySpot && c.Offering.CapacityType != world.CapacitySpot
		})
		if len(cut.Choices) == 0 {
			return why.New(why.NextBest, "the replacement would be the same type again"), false
		}
		if r, short := shortOf(&cut); short {
			return r, false
		}
		if types := cut.Types(); spot && len(m.Remove) == 1 && len(types) < spotTypes {
			return why.New(why.Refused, "only %d cheaper spot types would take its pods; %d are needed so that the replacement is not soon interrupted", len(types), spotTypes), false
		}
		add[k] = &cut
	}
	m.Add = add
	return why.Reason{}, true
}

// same says whether a node is of the type and market of a choice.
func same(n *world.Node, c pack.Choice) bool {
	typ, _ := n.Labels.Get(world.LabelInstanceType)
	market, _ := n.Labels.Get(world.LabelCapacityType)
	return typ == c.Type.Name && market == c.Offering.CapacityType
}

// shortOf says whether fewer values are left than the pool's minValues ask for.
func shortOf(n *pack.NewNode) (why.Reason, bool) {
	if n.MinValuesRelaxed {
		return why.Reason{}, false
	}
	for _, r := range n.Pool.Need {
		if r.MinValues <= 0 {
			continue
		}
		seen := map[string]bool{}
		for _, c := range n.Choices {
			if v, ok := n.Pool.NodeLabel(c.Type, c.Offering, r.Key); ok {
				seen[v] = true
			}
		}
		if len(seen) < r.MinValues {
			return why.New(why.MinValues, "only %d values of %s would be cheaper, and pool %s asks for at least %d", len(seen), r.Key, n.Pool.Name, r.MinValues), true
		}
	}
	return why.Reason{}, false
}
