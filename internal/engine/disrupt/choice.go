package disrupt

import (
	"slices"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// spotTypes is how many cheaper types a single spot node's replacement must have to choose from, and gets to choose from (D30).
const spotTypes = 15

// narrow cuts what may be launched for a move to what leaves it worth making, whichever of it the cloud chooses: each new node
// may cost its share of the saving more than planned (D28); one that counts on spot stays spot (D29); a lone one of a type
// that the move removes must be cheaper than that node, else the node itself could stay (D35). Half of the saving is kept if the
// list is long enough without.
func (d *decider) narrow(m *Move, price float64) (why.Reason, bool) {
	if len(m.Add) == 0 {
		return why.Reason{}, true
	}
	spot := d.spotOnly(m)
	if spot && !d.opt.SpotToSpot {
		return why.New(why.Refused, "spot nodes are not replaced by spot nodes unless the feature gate SpotToSpotConsolidation is on"), false
	}
	spare := (m.Saves - d.share(m)*price) / float64(len(m.Add))
	add := make([]*pack.NewNode, len(m.Add))
	for k, n := range m.Add {
		c := &cutter{n: n, many: spot && len(m.Remove) == 1, most: n.Price() + spare/2}
		if len(m.Add) == 1 {
			c.same = d.guardSame(m, n)
		}
		if _, ok := c.run(); !ok {
			c.most = n.Price() + spare
			if r, ok := c.run(); !ok {
				return r, false
			}
		}
		cut := *n
		cut.Choices = c.choices
		add[k] = &cut
	}
	m.Add = add
	return why.Reason{}, true
}

// guardSame is what a lone replacement may cost at most, if it can be of a type that is removed: less than the cheapest such node.
func (d *decider) guardSame(m *Move, n *pack.NewNode) float64 {
	const step = 1e-9
	most := n.Price() + d.price(m)
	for _, node := range m.Remove {
		old := d.in.World.Nodes[node]
		typ, _ := old.Labels.Get(world.LabelInstanceType)
		market, _ := old.Labels.Get(world.LabelCapacityType)
		if slices.ContainsFunc(n.Choices, func(c pack.Choice) bool { return c.Type.Name == typ && c.Offering.CapacityType == market }) {
			most = min(most, old.Price-step)
		}
	}
	return most
}

// cutter cuts the choices for a node to those that cost no more than most.
type cutter struct {
	n    *pack.NewNode
	most float64
	// same is the most for a node of a type that is removed, and for all others with it; 0 is no bound.
	same float64
	// many says that the node must have as many types to choose from as a spot node needs.
	many    bool
	choices []pack.Choice
}

// run makes the cut, or says what is wrong with what would be left.
func (c *cutter) run() (why.Reason, bool) {
	if c.same > 0 {
		c.most = min(c.most, c.same)
	}
	if !c.cut() {
		return why.New(why.NextBest, "the replacement would be the same type again"), false
	}
	if r, short := shortOf(c.n, c.choices); short {
		return r, false
	}
	if c.many {
		if types := len(c.types()); types < spotTypes {
			return why.New(why.Refused, "only %s would hold its pods; %d are needed so that the replacement is not soon interrupted", why.Count(types, "cheaper spot type"), spotTypes), false
		}
		c.truncate()
	}
	return why.Reason{}, true
}

// cut is false if nothing is left. A claim asks for types, zones and capacity types, and the cloud may combine them as it likes: a type
// that is too dear in one of the zones that are asked for goes, or if it is the one that was planned, that zone (P75).
func (c *cutter) cut() bool {
	first := c.n.Choices[0]
	c.choices = slices.DeleteFunc(slices.Clone(c.n.Choices), func(x pack.Choice) bool {
		return x.Offering.Price > c.most || first.Offering.CapacityType == world.CapacitySpot && x.Offering.CapacityType != world.CapacitySpot
	})
	if len(c.choices) == 0 || first.Offering.Reservation != "" {
		return len(c.choices) > 0
	}
	for {
		zones, markets := map[string]bool{}, map[string]bool{}
		for _, x := range c.choices {
			zones[x.Offering.Zone], markets[x.Offering.CapacityType] = true, true
		}
		dear := func(t *world.InstanceType) *world.Offering {
			for i := range t.Offerings {
				o := &t.Offerings[i]
				if o.Available && o.Reservation == "" && zones[o.Zone] && markets[o.CapacityType] && o.Price > c.most {
					return o
				}
			}
			return nil
		}
		before := len(c.choices)
		if bad := dear(c.choices[0].Type); bad != nil {
			c.drop(func(x pack.Choice) bool {
				return x.Offering.Zone == bad.Zone && x.Offering.CapacityType == bad.CapacityType
			})
		} else {
			c.drop(func(x pack.Choice) bool { return dear(x.Type) != nil })
		}
		if len(c.choices) == before || len(c.choices) == 0 {
			return len(c.choices) > 0
		}
	}
}

func (c *cutter) drop(is func(pack.Choice) bool) { c.choices = slices.DeleteFunc(c.choices, is) }

// types lists the types that are left, cheapest first.
func (c *cutter) types() []string { return (&pack.NewNode{Choices: c.choices}).Types() }

// truncate cuts the list to the cheapest types, or as many more as minValues needs.
func (c *cutter) truncate() {
	types := c.types()
	all := c.choices
	for n := min(spotTypes, len(types)); ; n++ {
		keep := map[string]bool{}
		for _, t := range types[:n] {
			keep[t] = true
		}
		c.choices = slices.DeleteFunc(slices.Clone(all), func(x pack.Choice) bool { return !keep[x.Type.Name] })
		if _, short := shortOf(c.n, c.choices); !short || n == len(types) {
			return
		}
	}
}

// shortOf says whether fewer values are left than the pool's minValues ask for.
func shortOf(n *pack.NewNode, choices []pack.Choice) (why.Reason, bool) {
	if n.MinValuesRelaxed {
		return why.Reason{}, false
	}
	for _, r := range n.Pool.Need {
		if r.MinValues <= 0 {
			continue
		}
		seen := map[string]bool{}
		for _, c := range choices {
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
