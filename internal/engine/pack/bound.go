package pack

import (
	"cmp"
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

// certain is what no plan can get around that puts the same pods on new nodes, keeps the preferences that this plan keeps, and uses no
// pool of a lower weight for a pod: domains that were chosen are left open, and pods that share a node need not.
// from says which item each of its items is part of, or -1.
func (r *run) certain(p *problem) (q *problem, from []int32) {
	byLocal := map[int32]*group{}
	for _, gs := range r.groups {
		if gs.g.host {
			byLocal[int32(gs.local)] = gs.g
		}
	}
	c := *p
	c.items = nil
	for i := range p.items {
		first := len(c.items)
		for _, d := range p.items[i].demands {
			if d.bundle {
				for _, x := range d.parts {
					it := item{size: project(x.rc.info.size, p.dimIndex), ports: x.rc.c.Ports, demands: []*demand{{parts: []part{x}}}}
					it.n, it.cells = len(x.pods), p.opened(x, d.weight, it.size)
					c.items, from = append(c.items, it.limited()), append(from, -1)
				}
				continue
			}
			x := d.parts[0]
			it := item{size: d.size, ports: p.items[i].ports, demands: []*demand{d}}
			for _, h := range p.items[i].host {
				if slices.Contains(x.rc.info.levels[x.level].refs, byLocal[h.group]) {
					it.host = append(it.host, h)
				}
			}
			it.n, it.cells = d.copies(), p.opened(x, d.weight, it.size)
			same := func(o item) bool { return slices.Equal(o.cells, it.cells) && slices.Equal(o.host, it.host) }
			if k := slices.IndexFunc(c.items[first:], same); k >= 0 {
				c.items[first+k].n += it.n
				c.items[first+k].demands = append(slices.Clip(c.items[first+k].demands), d)
				continue
			}
			c.items, from = append(c.items, it.limited()), append(from, int32(i))
		}
	}
	return &c, from
}

// opened lists the cells that a pod may use at the level of preference that it has, in whichever domain.
func (p *problem) opened(x part, weight int32, size []int64) bitset {
	out := newBitset(len(p.cells))
	options := x.rc.info.levels[x.level].options
	for c := range p.cells {
		if p.cells[c].weight >= weight && options.has(int(p.cells[c].rep)) && p.cells[c].takes(size) {
			out.add(c)
		}
	}
	return out
}

// add takes in one round: the worth of what was placed, less what reservations may give beyond their price.
func (b *bounds) add(p *problem) {
	x := p.relax(nil, b.by)
	b.worth += x.total(nil) - p.reservedSurplus(x)
	if b.unit == nil {
		b.unit = make([]float64, p.m.dims)
	}
	for _, unit := range x.unit {
		for k, d := range p.dimIndex {
			b.unit[d] = max(b.unit[d], unit[k])
		}
	}
	for i := range p.items {
		if p.mayExist(i) {
			continue
		}
		if least, ok := p.cheapestAlone(i, b.by); ok {
			b.least = max(b.least, least)
		}
	}
}

// reservedSurplus is the most that reservations can be worth beyond their price, each wherever that is most.
func (p *problem) reservedSurplus(x *relaxation) float64 {
	var names []string
	most := map[string]float64{}
	for c := range p.cells {
		cl := &p.cells[c]
		for k := range cl.cands {
			off := p.m.options[cl.cands[k].option].off
			if off.Reservation == "" {
				continue
			}
			worth := -x.by(&cl.cands[k])
			for r, u := range x.unit[cl.market] {
				worth += float64(u * x.holds(&cl.cands[k], r))
			}
			old, seen := most[off.Reservation]
			if !seen {
				names = append(names, off.Reservation)
			}
			most[off.Reservation] = max(old, worth*float64(off.Remaining))
		}
	}
	sum := 0.0
	for _, name := range names {
		sum += most[name]
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

// maxMasterPods is the number of pods up to which the bound is proven over patterns; with more, what single nodes cannot do
// hardly shows. closeEnough is how far above its bound a plan may be for that to be left out.
const (
	maxMasterPods = 3000
	closeEnough   = 0.01
)

// prove raises the bounds of a plan to what can be proven: of a few pods by comparing every way to divide them among nodes, of more by the
// master.
func (r *run) prove(plan *Plan, outcomes []outcome) {
	if len(outcomes) != 1 || plan.Price+plan.NodeCost <= (1+closeEnough)*plan.CostBound || outcomes[0].p.copies() > maxMasterPods {
		return
	}
	o := outcomes[0]
	q, from := r.certain(o.p)
	few := q.copies() <= maxExact
	if few {
		for i := range q.items {
			if q.mayExist(i) {
				return
			}
		}
	}
	spare := r.spare()
	measures, proven := []measure{byPrice, byCost}, make([]float64, 2)
	if r.m.nodeCost == 0 {
		measures = measures[:1]
	}
	planned := make([]float64, len(measures))
	planned[len(measures)-1] = plan.Price + plan.NodeCost // which was minimised
	together(len(measures), r.m.opt.Workers, func(k int) {
		if few {
			proven[k] = q.leastOf(measures[k], planned[k], r.m.newLedger(r.ov)) * (1 - 1e-9)
			return
		}
		if m := q.newMaster(measures[k], r.m.newLedger(r.ov)); m != nil {
			m.start(o.bins, from)
			m.run()
			proven[k] = (m.bound() - m.elsewhere(spare)) * (1 - 1e-9)
		}
	})
	plan.Bound = max(plan.Bound, proven[0])
	plan.CostBound = max(plan.CostBound, plan.Bound, proven[1])
}

// leastOf is what the best way counts to divide a few items among new nodes, as if each node could be launched whatever the others are. If
// that is less than what was planned, limits, reservations and minValues may be why: they are looked at as far as that can be done to its end.
func (p *problem) leastOf(by measure, planned float64, fresh *ledger) float64 {
	q := *p
	q.ledger, q.plain = fresh, false // reservations may be in domains that were not chosen
	q.cells = slices.Clone(p.cells)
	for c := range q.cells {
		cands := slices.Clone(q.cells[c].cands)
		for k := range cands {
			cands[k].cost = by(&cands[k])
		}
		slices.SortStableFunc(cands, func(a, b cand) int { return cmp.Compare(a.cost, b.cost) })
		q.cells[c].cands = cands
	}
	free := q.newDivision(true)
	bins, _, _ := free.best()
	least := cost(bins)
	if p.plain || least >= planned-sameCost || p.m.opt.BestEffortMinValues { // best effort asks for less where there is less to choose from
		return least
	}
	within := q.newDivision(false)
	within.least, within.target = free.least, &way{cost: planned}
	switch bins, _, ok := within.best(); {
	case within.cut || within.tooMuch():
		return least
	case ok:
		return max(least, cost(bins))
	}
	return max(least, planned-sameCost)
}

// elsewhere is what the items are worth at most that room on existing nodes could take.
func (m *master) elsewhere(spare []float64) float64 {
	sum, unit := 0.0, make([]float64, m.p.dims)
	for i := range m.offers {
		for r, u := range m.offers[i].lambda {
			unit[r] = max(unit[r], u)
		}
	}
	some := false
	for r, u := range unit {
		if v := spare[m.p.dimIndex[r]]; v > 0 {
			some = true
			sum += float64(u * v)
		}
	}
	if !some {
		return 0
	}
	for k := range m.kinds {
		v := m.prices[k]
		for r, s := range m.kinds[k].size {
			v -= float64(unit[r] * float64(s))
		}
		sum += max(0, v) * float64(m.kinds[k].n)
	}
	return sum
}
