package pack

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"karpenter/internal/engine/world"
)

// The work that a master may do, in units that are the same on any computer.
const (
	masterKinds  = 200    // kinds of items; each round takes the longer the more there are, and with many the relaxation is close
	masterRounds = 40     // rounds of pricing
	masterStale  = 3      // rounds that prove no more, after which the others are not worth their time
	masterPivots = 2000   // steps of the simplex method
	masterGap    = 0.0005 // between what the patterns cost and what is proven, at which more work does not pay
	masterSolved = 24     // knapsacks that are solved in each round, at least
	masterLooks  = 64     // nodes of its search tree that a knapsack looks at
)

// master is the linear program over patterns: which nodes, filled how, hold every item at the least cost, if nodes could be
// bought in fractions. Patterns are found as they are needed, each by a knapsack under the prices of the items. Whatever the
// prices are, what is proven of the knapsacks turns them into a bound that holds.
type master struct {
	p      *problem
	by     measure
	kinds  []kind
	elig   [][]int32 // per set of cells that the items cannot tell apart, the kinds that may go there
	offers []offer
	eligOf []int // per cell, the set of kinds that may go there, or -1
	rows   []limitRow
	need   map[int]float64
	part   []int // per kind, which independent part of the problem it belongs to
	parts  int
	lp     *patternLP
	known  map[string]bool

	proven []float64 // per part, the best bound so far
	prices []float64 // per kind, that prove it

	bag     *bag
	results []priced
	order   []int
}

// kind is items that no pattern tells apart.
type kind struct {
	size  []int64
	n     int
	most  int
	group int32 // the host group of which a node takes one only, or -1
	cells bitset
	items []int32
}

// offer is a candidate with the kinds that may go there.
type offer struct {
	cell   int32
	cd     *cand
	cost   float64
	elig   int
	rows   []int32   // limit rows that it takes from
	takes  []float64 // how much of each
	lambda []float64 // prices of its resources that bound its knapsack best so far
	tuned  bool      // they have been looked for
	sole   int32     // the row of its reservation, or -1
	part   int
}

// limitRow is something that nodes use up: a limit of a pool, or a reservation.
type limitRow struct {
	left     float64
	reserved bool
	part     int
	price    float64
}

// newMaster sets the program up, or returns nil if it would be too large.
func (p *problem) newMaster(by measure, fresh *ledger) *master {
	m := &master{p: p, by: by, known: map[string]bool{}, eligOf: make([]int, len(p.cells))}
	if !m.findKinds() {
		return nil
	}
	x := p.relax(nil, by)
	m.need = m.needs()
	m.findOffers(x, fresh)
	m.findParts()
	m.lp, m.bag = newPatternLP(m), newBag(m)
	m.proven, m.results, m.order = make([]float64, m.parts), make([]priced, len(m.offers)), make([]int, len(m.offers))
	m.prices = make([]float64, len(m.kinds))
	for k := range m.kinds { // the prices of the relaxation are a start
		v := math.Inf(1)
		for _, i := range m.kinds[k].items {
			v = min(v, x.value[i])
		}
		m.prices[k] = v
	}
	return m
}

// findKinds merges items; it is false if there are too many kinds, or none.
func (m *master) findKinds() bool {
	index := map[string]int{}
	var key []byte
	for i := range m.p.items {
		it := &m.p.items[i]
		if it.n == 0 || it.cells.empty() {
			continue
		}
		k := kind{size: it.size, n: it.n, most: it.most, group: -1, cells: it.cells, items: []int32{int32(i)}}
		if at := slices.IndexFunc(it.host, func(h hostRef) bool { return h.selfLimit() == 1 }); at >= 0 {
			k.group = it.host[at].group
		}
		key = key[:0]
		for _, v := range it.size {
			key = binary.AppendVarint(key, v)
		}
		key = binary.AppendVarint(key, int64(k.group))
		key = binary.AppendVarint(key, int64(k.most))
		key = k.cells.appendKey(key)
		at, ok := index[string(key)]
		switch {
		case ok:
			m.kinds[at].n += k.n
			m.kinds[at].items = append(m.kinds[at].items, int32(i))
		case len(m.kinds) == masterKinds:
			return false
		default:
			index[string(key)] = len(m.kinds)
			m.kinds = append(m.kinds, k)
		}
	}
	return len(m.kinds) > 0
}

// findOffers lists what can be bought, without what another offer beats.
func (m *master) findOffers(x *relaxation, fresh *ledger) {
	index, rowOf := map[string]int{}, map[any]int32{}
	byElig := [][]offer{}
	var key []byte
	for c := range m.p.cells {
		var kinds []int32
		key = key[:0]
		for k := range m.kinds {
			if m.kinds[k].cells.has(c) {
				kinds = append(kinds, int32(k))
				key = binary.AppendVarint(key, int64(k))
			}
		}
		m.eligOf[c] = -1
		if len(kinds) == 0 {
			continue
		}
		e, ok := index[string(key)]
		if !ok {
			e = len(m.elig)
			index[string(key)] = e
			m.elig, byElig = append(m.elig, kinds), append(byElig, nil)
		}
		m.eligOf[c] = e
		for i := range m.p.cells[c].cands {
			cd := &m.p.cells[c].cands[i]
			o := offer{cell: int32(c), cd: cd, cost: m.by(cd), elig: e, sole: -1, lambda: slices.Clone(x.unit[m.p.cells[c].market][:m.p.dims])}
			for r, v := range cd.net {
				if v >= world.Unlimited/2 {
					o.lambda[r] = 0
				}
			}
			m.charge(&o, fresh, rowOf)
			byElig[e] = append(byElig[e], o)
		}
	}
	for _, list := range byElig {
		slices.SortStableFunc(list, func(a, b offer) int { return cmp.Compare(a.cost, b.cost) })
		first := len(m.offers)
		for _, o := range list {
			if !slices.ContainsFunc(m.offers[first:], func(b offer) bool { return b.beats(&o) }) {
				m.offers = append(m.offers, o)
			}
		}
	}
}

// charge notes what a node of the offer takes of limits and reservations.
func (m *master) charge(o *offer, fresh *ledger, rowOf map[any]int32) {
	row := func(key any, left float64, reserved bool) int32 {
		r, ok := rowOf[key]
		if !ok {
			r = int32(len(m.rows))
			rowOf[key] = r
			m.rows = append(m.rows, limitRow{left: max(0, left), reserved: reserved})
		}
		return r
	}
	type limitKey struct {
		pool *world.Pool
		k    int
	}
	opt := &m.p.m.options[o.cd.option]
	if name := opt.off.Reservation; name != "" {
		o.sole = row(name, float64(fresh.reserved[name]), true)
		o.rows, o.takes = append(o.rows, o.sole), append(o.takes, 1)
	}
	pool := m.p.poolOf(o.cd.option)
	a := fresh.pools[pool]
	if a == nil {
		return
	}
	if a.nodes >= 0 && float64(a.nodes) < m.need[-1] {
		o.rows, o.takes = append(o.rows, row(limitKey{pool, -1}, float64(a.nodes), false)), append(o.takes, 1)
	}
	for k, l := range a.limits {
		each, left := float64(capacity(opt).Get(l.Resource)), float64(max(0, l.Max))
		if each > 0 && left < looseLimit*m.need[l.Resource] {
			unit := max(left, 1e-3*m.need[l.Resource]) // numbers near one
			o.rows, o.takes = append(o.rows, row(limitKey{pool, k}, left/unit, false)), append(o.takes, each/unit)
		}
	}
}

// looseLimit is how many times over everything would fit a limit that is left out.
const looseLimit = 4

// needs sums up what is asked for, by resource, and at -1 the number of items.
func (m *master) needs() map[int]float64 {
	out := map[int]float64{}
	for k := range m.kinds {
		for r, s := range m.kinds[k].size {
			out[m.p.dimIndex[r]] += float64(s) * float64(m.kinds[k].n)
		}
		out[-1] += float64(m.kinds[k].n)
	}
	return out
}

// beats says whether b, which costs no more, makes o superfluous.
func (b *offer) beats(o *offer) bool {
	if b.sole != o.sole || !slices.Equal(b.rows, o.rows) {
		return false
	}
	for k, v := range b.takes {
		if v > o.takes[k] {
			return false
		}
	}
	for r, v := range o.cd.net {
		if b.cd.net[r] < v {
			return false
		}
	}
	return true
}

// findParts finds the parts of the problem that share no offer and no limit: each has prices of its own.
func (m *master) findParts() {
	up := make([]int, len(m.kinds)+len(m.rows))
	for i := range up {
		up[i] = i
	}
	var root func(int) int
	root = func(i int) int {
		if up[i] != i {
			up[i] = root(up[i])
		}
		return up[i]
	}
	for _, kinds := range m.elig {
		for _, k := range kinds[1:] {
			up[root(int(k))] = root(int(kinds[0]))
		}
	}
	for i := range m.offers {
		o := &m.offers[i]
		for _, r := range o.rows {
			up[root(len(m.kinds)+int(r))] = root(int(m.elig[o.elig][0]))
		}
	}
	m.part = make([]int, len(m.kinds))
	number := map[int]int{}
	for k := range m.part {
		r := root(k)
		if _, ok := number[r]; !ok {
			number[r] = len(number)
		}
		m.part[k] = number[r]
	}
	m.parts = len(number)
	for i := range m.offers {
		o := &m.offers[i]
		o.part = m.part[m.elig[o.elig][0]]
		for _, r := range o.rows {
			m.rows[r].part = o.part
		}
	}
}

// start adds the nodes of a plan as patterns; from says which of its items each item of the master's problem is part of.
func (m *master) start(bins []bin, from []int32) {
	kindsOf, left := map[int32][]int32{}, make([]int, len(m.kinds))
	for k := range m.kinds {
		left[k] = m.kinds[k].n
		for _, i := range m.kinds[k].items {
			if list := kindsOf[from[i]]; len(list) == 0 || list[len(list)-1] != int32(k) {
				kindsOf[from[i]] = append(list, int32(k))
			}
		}
	}
	count := make([]int32, len(m.kinds))
	size := make([]int64, m.p.dims)
	for i := range bins {
		var got []itemCount
		clear(size)
		for _, g := range bins[i].items {
			n := int(g.n)
			for _, k := range kindsOf[g.item] {
				if more := min(n, left[k]); more > 0 && m.kinds[k].cells.has(int(bins[i].cell)) {
					if count[k] == 0 {
						got = append(got, itemCount{item: k})
					}
					count[k] += int32(more)
					n, left[k] = n-more, left[k]-more
					for r, s := range m.kinds[k].size {
						size[r] += s * int64(more)
					}
				}
			}
		}
		for j := range got {
			got[j].n, count[got[j].item] = count[got[j].item], 0
		}
		for o := range m.offers { // cheapest first
			if m.offers[o].elig == m.eligOf[bins[i].cell] && fits(size, m.offers[o].cd.net) {
				m.addPattern(o, got)
				break
			}
		}
	}
}

// addPattern adds a column unless it is there.
func (m *master) addPattern(o int, got []itemCount) bool {
	if len(got) == 0 {
		return false
	}
	slices.SortFunc(got, func(a, b itemCount) int { return int(a.item - b.item) })
	key := binary.AppendVarint(nil, int64(o))
	for _, g := range got {
		key = binary.AppendVarint(key, int64(g.item))
		key = binary.AppendVarint(key, int64(g.n))
	}
	if m.known[string(key)] {
		return false
	}
	m.known[string(key)] = true
	m.lp.add(m, o, got)
	return true
}
