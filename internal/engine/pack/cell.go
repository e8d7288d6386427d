package pack

import (
	"encoding/binary"
	"slices"

	"karpenter/internal/engine/world"
)

// cellSet cuts the options into cells: options that no pod in question can tell apart by labels, taints, topology or the
// weight of their pool. Inside a cell only size and cost matter.
type cellSet struct {
	dims    []int // resources that somebody asks for
	cells   []cell
	markets int
	of      []int32 // the cell of each option, -1 for none
}

type cell struct {
	rep    int32 // any option of the cell: masks and domains agree on all of them
	market int   // cells that differ only in topology share a market, and the prices of its resources
	weight int32
	// options holds everything in the cell, cheapest first; cands those that no other beats in size and cost.
	options []int32
	cands   []cand
	// largest holds the sizes that no candidate exceeds in everything: what does not fit them fits nowhere in the cell.
	largest [][]int64
}

// cand is an option worth filling.
type cand struct {
	option int32
	price  float64
	cost   float64
	net    []int64 // by the cell set's dims
}

// cellsFor cuts the options by these masks and topologies. Equal questions share the answer.
func (m *Model) cellsFor(masks []int, topos []*topology, dims []int) *cellSet {
	var key []byte
	for _, k := range masks {
		key = binary.AppendVarint(key, int64(k))
	}
	key = append(key, 0xff, 0xff)
	for _, t := range topos {
		key = binary.AppendVarint(key, int64(t.id))
	}
	key = append(key, 0xff, 0xff)
	for _, d := range dims {
		key = binary.AppendVarint(key, int64(d))
	}
	m.mu.Lock()
	cs, ok := m.cells[string(key)]
	sets := make([]bitset, len(masks))
	for i, k := range masks {
		sets[i] = m.masks[k]
	}
	m.mu.Unlock()
	if ok {
		return cs
	}
	cs = m.cut(sets, topos, dims)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cells[string(key)] = cs
	return cs
}

func (m *Model) cut(masks []bitset, topos []*topology, dims []int) *cellSet {
	cs := &cellSet{dims: dims}
	wanted := newBitset(len(m.options))
	for _, b := range masks {
		wanted.or(b)
	}
	index, markets := map[string]int{}, map[string]int{}
	sig := make([]byte, 0, 64)
	for i := range wanted.each {
		o := &m.options[i]
		weight := m.variants[o.variant].pool.Weight
		sig = binary.AppendVarint(sig[:0], int64(weight))
		for _, b := range masks {
			if b.has(i) {
				sig = append(sig, 1)
			} else {
				sig = append(sig, 0)
			}
		}
		market, ok := markets[string(sig)]
		if !ok {
			market = len(markets)
			markets[string(sig)] = market
		}
		for _, t := range topos {
			if t.counts != nil {
				sig = append(sig, byte(boolInt(t.counts.has(i))))
				continue
			}
			sig = binary.AppendVarint(sig, int64(t.option[i]))
		}
		c, ok := index[string(sig)]
		if !ok {
			c = len(cs.cells)
			index[string(sig)] = c
			cs.cells = append(cs.cells, cell{rep: int32(i), weight: weight, market: market})
		}
		cs.cells[c].options = append(cs.cells[c].options, int32(i))
	}
	cs.markets = len(markets)
	cs.of = make([]int32, len(m.options))
	for i := range cs.of {
		cs.of[i] = -1
	}
	for c := range cs.cells {
		for _, o := range cs.cells[c].options {
			cs.of[o] = int32(c)
		}
	}
	for i := range cs.cells {
		m.rank(&cs.cells[i], dims)
	}
	return cs
}

// rank sorts a cell's options by cost and picks the candidates.
func (m *Model) rank(c *cell, dims []int) {
	slices.SortStableFunc(c.options, func(a, b int32) int {
		pa, pb := m.options[a].cost, m.options[b].cost
		switch {
		case pa < pb:
			return -1
		case pa > pb:
			return 1
		}
		return m.sizeTie(a, b)
	})
	for _, o := range c.options {
		x := cand{option: o, price: m.options[o].price, cost: m.options[o].cost, net: project(m.options[o].net, dims)}
		if !slices.ContainsFunc(c.cands, func(k cand) bool { return m.beats(k, x) }) {
			c.cands = append(c.cands, x)
		}
	}
	for i := len(c.cands) - 1; i >= 0; i-- {
		net := c.cands[i].net
		if !slices.ContainsFunc(c.largest, func(l []int64) bool { return fits(net, l) }) {
			c.largest = append(c.largest, net)
		}
	}
}

// sizeTie puts the larger of two equally dear options first, then orders them by name, zone and pool.
func (m *Model) sizeTie(a, b int32) int {
	x, y := &m.options[a], &m.options[b]
	for r := range x.net {
		if x.net[r] != y.net[r] {
			if x.net[r] > y.net[r] {
				return -1
			}
			return 1
		}
	}
	return int(a) - int(b)
}

// beats says whether k makes x superfluous: at most as dear (the caller adds in order of cost), at least as large, and usable
// whenever x is. A pool with limits or minValues can be refused for reasons of its own, and a reservation runs out, so
// those only beat what shares their fate.
func (m *Model) beats(k, x cand) bool {
	if k.price > x.price { // pools whose nodes cost differently: the bound on prices needs both
		return false
	}
	for r, v := range x.net {
		if k.net[r] < v {
			return false
		}
	}
	ko, xo := &m.options[k.option], &m.options[x.option]
	if ko.off.Reservation != "" || xo.off.Reservation != "" || len(ko.ports) != len(xo.ports) {
		return false
	}
	kp := m.variants[ko.variant].pool
	if !special(kp) {
		return true
	}
	if ko.variant != xo.variant {
		return false
	}
	for _, l := range kp.Limits {
		if capacity(ko).Get(l.Resource) > capacity(xo).Get(l.Resource) {
			return false
		}
	}
	return true
}

// special pools can refuse a node for reasons other than labels and size.
func special(p *world.Pool) bool {
	return len(p.Limits) > 0 || p.MaxNodes >= 0 || hasMinValues(p)
}

func hasMinValues(p *world.Pool) bool {
	for _, r := range p.Need {
		if r.MinValues > 0 {
			return true
		}
	}
	return false
}

// capacity is what a node of the option counts against limits.
func capacity(o *option) world.Resources {
	switch {
	case o.off.Capacity != nil:
		return o.off.Capacity
	case o.typ.Capacity != nil:
		return o.typ.Capacity
	}
	return o.typ.Allocatable
}

func project(v []int64, dims []int) []int64 {
	out := make([]int64, len(dims))
	for i, d := range dims {
		out[i] = v[d]
	}
	return out
}

// takes says whether some candidate of the cell is large enough.
func (c *cell) takes(size []int64) bool {
	for _, l := range c.largest {
		if fits(size, l) {
			return true
		}
	}
	return false
}

// unit is roughly what one pod of this size costs in the cell: the largest share of a node it takes, times what the node counts;
// whole is what the cheapest node counts that holds it.
func (c *cell) unit(size []int64, by measure) (best, whole float64, ok bool) {
	for i := range c.cands {
		k := &c.cands[i]
		if !fits(size, k.net) {
			continue
		}
		share := 0.0
		for r, v := range size {
			if v > 0 {
				share = max(share, float64(v)/float64(k.net[r]))
			}
		}
		if !ok {
			whole = by(k) // candidates are sorted by cost
		}
		if u := by(k) * share; !ok || u < best {
			best, ok = u, true
		}
	}
	return best, whole, ok
}
