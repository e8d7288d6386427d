package pack

import (
	"math"
	"slices"
)

// maxGroupRows bounds how many host groups the relaxation knows; the largest are kept. Fewer rows only weaken the bound.
const maxGroupRows = 48

// measure is what a relaxation counts of a node: its price alone, or what is minimised.
type measure func(*cand) float64

func byPrice(cd *cand) float64 { return cd.price }
func byCost(cd *cand) float64  { return cd.cost }

// relaxation is the linear relaxation of a problem in its dual form: a price for each resource (and for each place that a
// host group allows per node) in each market, such that no candidate offers more than it costs.
type relaxation struct {
	p      *problem
	by     measure
	groups []int32 // host groups that have a row
	row    []int   // per host group, its row or -1
	// unit[k] are the prices in market k: resources first, then groups.
	unit [][]float64
	// value is the price of an item: the cheapest market that it may use.
	value []float64
}

// relax prices resources for what is left of the items. left may be nil for all of them.
func (p *problem) relax(left []int, by measure) *relaxation {
	x := &relaxation{p: p, by: by, unit: make([][]float64, p.markets), value: make([]float64, len(p.items))}
	x.pickGroups(left)
	home := make([]int, len(p.items)) // the market that an item is charged to
	for i := range p.items {
		home[i] = x.nearest(i)
	}
	best := math.Inf(-1)
	var bestUnit [][]float64
	for range 4 {
		for k := range x.unit {
			x.unit[k] = x.solve(k, home, left)
		}
		x.revalue()
		if b := x.total(left); b > best {
			best, bestUnit = b, slices.Clone(x.unit)
		}
		moved := false
		for i := range p.items {
			if k := x.cheapest(i); k != home[i] {
				home[i], moved = k, true
			}
		}
		if !moved {
			break
		}
	}
	x.unit = bestUnit
	x.revalue()
	return x
}

func amount(p *problem, left []int, i int) float64 {
	if left == nil {
		return float64(p.items[i].n)
	}
	return float64(left[i])
}

// pickGroups finds host groups whose members exclude or limit one another.
func (x *relaxation) pickGroups(left []int) {
	weight := make([]float64, x.p.hosts)
	for i := range x.p.items {
		for _, h := range x.p.items[i].host {
			if h.own > 0 && h.sel > 0 {
				weight[h.group] += amount(x.p, left, i) * float64(h.sel) / x.perNode(h)
			}
		}
	}
	x.row = make([]int, x.p.hosts)
	for g, w := range weight {
		x.row[g] = -1
		if w > 0 {
			x.groups = append(x.groups, int32(g))
		}
	}
	slices.SortStableFunc(x.groups, func(a, b int32) int {
		switch {
		case weight[a] > weight[b]:
			return -1
		case weight[a] < weight[b]:
			return 1
		}
		return int(a) - int(b)
	})
	x.groups = x.groups[:min(len(x.groups), maxGroupRows)]
	for k, g := range x.groups {
		x.row[g] = x.p.dims + k
	}
}

// perNode is how many selected pods of the group's carriers one node may hold.
func (x *relaxation) perNode(h hostRef) float64 {
	if h.kind == antiGroup {
		return 1
	}
	return float64(max(h.skew, 1))
}

// nearest is a first guess at the market of an item.
func (x *relaxation) nearest(i int) int {
	it := &x.p.items[i]
	best, at := math.Inf(1), 0
	for c := range it.cells.each {
		if u, _, ok := x.p.cells[c].unit(it.size, x.by); ok && u < best {
			best, at = u, x.p.cells[c].market
		}
	}
	return at
}

// cheapest is the market in which the item costs least.
func (x *relaxation) cheapest(i int) int {
	it := &x.p.items[i]
	best, at := math.Inf(1), 0
	for k := range x.unit {
		if it.cells.meets(x.p.market[k]) {
			if v := x.worth(k, it); v < best {
				best, at = v, k
			}
		}
	}
	return at
}

// worth is what the item costs at market k's prices.
func (x *relaxation) worth(k int, it *item) float64 {
	v := 0.0
	for r, s := range it.size {
		v += float64(x.unit[k][r] * float64(s))
	}
	for _, h := range it.host {
		if row := x.row[h.group]; row >= 0 && h.own > 0 && h.sel > 0 {
			v += float64(x.unit[k][row]*float64(h.sel)) / x.perNode(h)
		}
	}
	return v
}

func (x *relaxation) revalue() {
	for i := range x.p.items {
		x.value[i] = x.worth(x.cheapest(i), &x.p.items[i])
	}
}

func (x *relaxation) total(left []int) float64 {
	sum := 0.0
	for i, v := range x.value {
		sum += float64(v * amount(x.p, left, i))
	}
	return sum
}

// solve prices market k for the items charged to it; a market that nobody uses is priced for everything it could take.
func (x *relaxation) solve(k int, home []int, left []int) []float64 {
	rows := x.p.dims + len(x.groups)
	need := make([]float64, rows)
	if !x.charge(need, k, left, func(i int) bool { return home[i] == k }) {
		x.charge(need, k, left, func(i int) bool { return x.p.items[i].cells.meets(x.p.market[k]) })
	}
	var cols []int // rows with demand
	for r, v := range need {
		if v > 0 {
			cols = append(cols, r)
		}
	}
	unit := make([]float64, rows)
	if len(cols) == 0 {
		return unit
	}
	caps, prices := x.offers(k, need, cols)
	y, _ := maximize(caps, prices, len(cols))
	for j, r := range cols {
		unit[r] = y[j] / need[r]
	}
	x.makeFeasible(k, unit)
	return unit
}

func (x *relaxation) charge(need []float64, k int, left []int, here func(int) bool) bool {
	any := false
	for i := range x.p.items {
		n := amount(x.p, left, i)
		if n == 0 || !here(i) {
			continue
		}
		any = true
		for r, s := range x.p.items[i].size {
			need[r] += float64(n * float64(s))
		}
		for _, h := range x.p.items[i].host {
			if row := x.row[h.group]; row >= 0 && h.own > 0 && h.sel > 0 {
				need[row] += float64(n*float64(h.sel)) / x.perNode(h)
			}
		}
	}
	return any
}

// offers lists what the market's candidates hold, as fractions of the need.
func (x *relaxation) offers(k int, need []float64, cols []int) (caps [][]float64, prices []float64) {
	for _, cd := range x.p.bargains[k] {
		row := make([]float64, len(cols))
		for j, r := range cols {
			row[j] = x.holds(cd, r) / need[r]
		}
		caps, prices = append(caps, row), append(prices, x.by(cd))
	}
	return caps, prices
}

// findBargains lists, per market, the candidates that no other beats in every resource per dollar: only they can set
// prices. Reservations do not set prices unless there is nothing else, as there are only so many of them.
func (p *problem) findBargains() {
	p.bargains = make([][]*cand, p.markets)
	for k := range p.bargains {
		var all []*cand
		reserved := p.onlyReserved(k)
		for c := range p.market[k].each {
			for i := range p.cells[c].cands {
				cd := &p.cells[c].cands[i]
				if reserved || p.m.options[cd.option].off.Reservation == "" {
					all = append(all, cd)
				}
			}
		}
		for _, a := range all {
			if !slices.ContainsFunc(all, func(b *cand) bool { return betterPerDollar(b, a, byCost) && betterPerDollar(b, a, byPrice) }) {
				p.bargains[k] = append(p.bargains[k], a)
			}
		}
	}
}

// betterPerDollar says whether b gives at least as much of everything per dollar as a, itself included, and more of something.
func betterPerDollar(b, a *cand, by measure) bool {
	pa, pb := by(a), by(b)
	if pb > pa {
		return false
	}
	better := pb < pa
	for r, v := range a.net {
		u, w := float64(v)*pb, float64(b.net[r])*pa
		if u > w {
			return false
		}
		better = better || u < w
	}
	return better
}

func (p *problem) onlyReserved(k int) bool {
	for c := range p.market[k].each {
		for _, cd := range p.cells[c].cands {
			if p.m.options[cd.option].off.Reservation == "" {
				return false
			}
		}
	}
	return true
}

// holds is how much of a row a candidate offers. A group's row counts nodes.
func (x *relaxation) holds(cd *cand, row int) float64 {
	if row < x.p.dims {
		return float64(cd.net[row])
	}
	return 1
}

// makeFeasible scales prices down until no candidate offers more than it costs, so that rounding can never make the bound
// too high.
func (x *relaxation) makeFeasible(k int, unit []float64) {
	over := 1.0
	limited := x.p.onlyReserved(k)
	for c := range x.p.market[k].each {
		for i := range x.p.cells[c].cands {
			cd := &x.p.cells[c].cands[i]
			if !limited && x.p.m.options[cd.option].off.Reservation != "" {
				continue
			}
			sum := 0.0
			for r, u := range unit {
				sum += float64(u * x.holds(cd, r))
			}
			price := x.by(cd)
			if price <= 0 && sum > 0 {
				clear(unit)
				return
			}
			over = max(over, sum/max(price, math.SmallestNonzeroFloat64))
		}
	}
	for r := range unit {
		unit[r] /= over
	}
}
