package pack

import (
	"slices"

	"karpenter/internal/engine/world"
)

// bounds collects what certifies that no plan for the same pods is cheaper.
type bounds struct {
	by    measure
	worth float64   // of everything placed on new nodes, at the relaxation's prices
	unit  []float64 // the highest price of each resource in any market
	least float64   // the dearest of the nodes that single pods need at least
}

// certain is the problem with every preference given up, and with the domains that were chosen left open: what no plan can get
// around. A bound for it holds for any plan that obeys the rules.
func (r *run) certain(p *problem) *problem {
	byLocal := map[int32]*group{}
	for _, gs := range r.groups {
		if gs.g.host {
			byLocal[int32(gs.local)] = gs.g
		}
	}
	q := *p
	q.items = slices.Clone(p.items)
	for i := range q.items {
		it := &q.items[i]
		it.cells = newBitset(len(p.cells))
		sure := map[int32]bool{}
		for _, h := range it.host {
			sure[h.group] = true
		}
		for _, d := range it.demands {
			cells := fullBitset(len(p.cells))
			for _, x := range d.parts {
				last := &x.rc.info.levels[len(x.rc.info.levels)-1]
				for c := range p.cells {
					if p.cells[c].weight < d.weight || !last.options.has(int(p.cells[c].rep)) || !p.cells[c].takes(it.size) {
						cells.drop(c)
					}
				}
				for g := range sure {
					sure[g] = sure[g] && slices.Contains(last.refs, byLocal[g])
				}
			}
			it.cells.or(cells)
		}
		it.host = slices.DeleteFunc(slices.Clone(it.host), func(h hostRef) bool { return !sure[h.group] })
	}
	return &q
}

// add takes in one round: the worth of what was placed, less what reservations may give beyond their price.
func (b *bounds) add(p *problem, left []int) {
	x := p.relax(nil, b.by)
	placed := make([]int, len(p.items))
	for i := range placed {
		placed[i] = p.items[i].n - left[i]
	}
	b.worth += x.total(placed) - p.reservedSurplus(x)
	if b.unit == nil {
		b.unit = make([]float64, p.m.dims)
	}
	for _, unit := range x.unit {
		for k, d := range p.dimIndex {
			b.unit[d] = max(b.unit[d], unit[k])
		}
	}
	for i := range p.items {
		if placed[i] == 0 || p.mayExist(i) {
			continue
		}
		if least, ok := p.cheapestAlone(i, b.by); ok {
			b.least = max(b.least, least)
		}
	}
}

// reservedSurplus is the most that reservations can be worth beyond their price.
func (p *problem) reservedSurplus(x *relaxation) float64 {
	sum := 0.0
	seen := map[string]bool{}
	for c := range p.cells {
		cl := &p.cells[c]
		for k := range cl.cands {
			off := p.m.options[cl.cands[k].option].off
			if off.Reservation == "" || seen[off.Reservation] {
				continue
			}
			seen[off.Reservation] = true
			worth := -x.by(&cl.cands[k])
			for r, u := range x.unit[cl.market] {
				worth += float64(u * x.holds(&cl.cands[k], r))
			}
			sum += max(0, worth) * float64(off.Remaining)
		}
	}
	return sum
}

// mayExist says whether an existing node could take one of the item's pods, so that it need not cost anything.
func (p *problem) mayExist(i int) bool {
	for _, d := range p.items[i].demands {
		for _, x := range d.parts {
			if len(p.m.nodeOrder(x.rc.c.ID)) > 0 {
				return true
			}
		}
	}
	return false
}

// cheapestAlone is what the cheapest candidate counts that holds one copy of the item, whatever limits say and in whichever
// domain: another plan might have chosen domains otherwise.
func (p *problem) cheapestAlone(i int, by measure) (least float64, ok bool) {
	for c := range p.cells {
		if !p.items[i].cells.meets(p.market[p.cells[c].market]) {
			continue
		}
		for j := range p.cells[c].cands {
			cd := &p.cells[c].cands[j]
			if ok && cd.cost-p.m.nodeCost >= least { // candidates are sorted by cost, and none of the rest has a lower price
				break
			}
			if v := by(cd); (!ok || v < least) && fits(p.items[i].size, cd.net) {
				least, ok = v, true
			}
		}
	}
	return least, ok
}

// bound is what the new nodes cost at least, by price alone and in all. Room left on existing nodes could have taken some of
// the pods, for all that is known, and is taken off at its price.
func (r *run) bound(list []bounds) (price, cost float64) {
	var spare []float64
	if slices.ContainsFunc(list, func(b bounds) bool { return b.worth > 0 }) {
		spare = r.spare()
	}
	price = list[0].total(spare)
	return price, max(price, list[len(list)-1].total(spare))
}

// spare sums up the room left on existing nodes, by resource.
func (r *run) spare() []float64 {
	out := make([]float64, r.m.dims)
	seen := newBitset(len(r.m.nodes))
	for _, rc := range r.classes {
		for _, n := range r.m.nodeOrder(rc.c.ID) {
			if seen.has(int(n)) || r.ov.Shut(n) {
				continue
			}
			seen.add(int(n))
			free := r.m.nodes[n].free
			if ns, ok := r.touched[n]; ok {
				free = ns.free
			}
			for d, v := range free {
				if v < world.Unlimited/2 {
					out[d] += float64(max(v, 0))
				}
			}
		}
	}
	return out
}

func (b *bounds) total(spare []float64) float64 {
	if b.worth <= 0 {
		return b.least
	}
	worth := b.worth
	for d, u := range b.unit {
		worth -= float64(u * spare[d])
	}
	return max(0, worth*(1-1e-9), b.least)
}
