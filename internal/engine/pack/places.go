package pack

import (
	"math"
	"slices"
	"strconv"

	"karpenter/internal/engine/world"
)

// cellTuple is the cells of one pool weight that share their domains.
type cellTuple struct {
	doms   []int32
	weight int32
	place  string // the domains and the weight by name
	cells  bitset
	unit   float64 // what a pod costs there at best, roughly
	liked  int     // the first level at which the class may go there: the lower, the more of its preferences hold
	demand *demand
}

// splitCells sorts the cells that could take the class by the weight of their pools and their domains.
func (p *placer) splitCells() {
	index := map[string]*cellTuple{}
	var key []byte
	for i := range p.r.cells.cells {
		c := &p.r.cells.cells[i]
		if !p.lv.options.has(int(c.rep)) {
			continue
		}
		unit, whole, ok := c.unit(p.size, byCost)
		if !ok {
			continue
		}
		unit = max(unit, whole/float64(len(p.rc.pods)-p.rc.done)) // few pods pay for a whole node
		doms := make([]int32, len(p.dom))
		key = append(key[:0], byte(c.weight), byte(c.weight>>8))
		for k, u := range p.dom {
			doms[k] = u.gs.g.topo.option[c.rep]
			key = append(key, byte(doms[k]), byte(doms[k]>>8), byte(doms[k]>>16))
		}
		t, seen := index[string(key)]
		if !seen {
			t = &cellTuple{doms: doms, weight: c.weight, place: p.placeName(c.weight, doms), cells: newBitset(len(p.r.cells.cells)), unit: unit, liked: p.l}
			index[string(key)] = t
			p.cells = append(p.cells, t)
		}
		t.cells.add(i)
		t.unit = min(t.unit, unit)
		for l := range t.liked {
			if p.rc.info.levels[l].options.has(int(c.rep)) {
				t.liked = l
				break
			}
		}
	}
	slices.SortStableFunc(p.cells, func(a, b *cellTuple) int {
		if a.weight != b.weight {
			return int(b.weight) - int(a.weight)
		}
		return p.domainOrder(a.doms, b.doms)
	})
}

// placeName names a weight and domains, the same in every round.
func (p *placer) placeName(weight int32, doms []int32) string {
	b := strconv.AppendInt(nil, int64(weight), 10)
	for i, d := range doms {
		b = append(b, '/')
		b = strconv.AppendInt(b, int64(p.dom[i].gs.g.id), 10)
		b = append(b, ':')
		b = strconv.AppendInt(b, int64(d), 10)
	}
	return string(b)
}

// domainOrder sorts domains by name, so that ties fall the same way whatever order things were listed in.
func (p *placer) domainOrder(a, b []int32) int {
	for i, u := range p.dom {
		if a[i] == b[i] {
			continue
		}
		if a[i] < 0 || b[i] < 0 {
			return int(a[i]) - int(b[i])
		}
		names := u.gs.g.topo.domains
		if names[a[i]] < names[b[i]] {
			return -1
		}
		return 1
	}
	return 0
}

// onNew adds the pod to a demand for new nodes.
func (p *placer) onNew(pod *world.Pod) bool {
	if p.together {
		return p.inBundle(pod)
	}
	t := p.bestCells()
	if t == nil {
		return false
	}
	d := p.demandOf(t)
	d.parts[0].pods = append(d.parts[0].pods, pod)
	p.ask(t)
	return true
}

// ask counts a pod that will be on a new node.
func (p *placer) ask(t *cellTuple) {
	p.count(t.doms)
	p.rc.asked[t.place]++
}

// room is how many more pods of the class may ask for new nodes in a place.
func (p *placer) room(t *cellTuple) int {
	q, ok := p.r.retry.quota[quotaKey{p.rc.c.ID, t.place}]
	if !ok {
		return math.MaxInt
	}
	return max(0, q-p.rc.asked[t.place])
}

func (p *placer) demandOf(t *cellTuple) *demand {
	if t.demand == nil {
		t.demand = &demand{
			parts: []part{{rc: p.rc, level: p.l, place: t.place}}, cells: t.cells, weight: t.weight, size: p.size,
		}
		p.r.demands = append(p.r.demands, t.demand)
		if len(p.dom) > 0 || t.cells.count() == 1 {
			p.r.busy.or(t.cells)
		}
	}
	return t.demand
}

// priceTolerance is the relative difference in price below which domains are chosen by balance alone.
const priceTolerance = 0.02

// bestCells picks among the places where a new node may go: the heaviest pools that are allowed, then where most preferences
// hold, then price, then (for prices that hardly differ) the emptiest domain, preferably where nodes are opened anyway.
func (p *placer) bestCells() *cellTuple {
	var best *cellTuple
	var bestCount int32
	bestBusy, bestPreferred := false, false
	for _, t := range p.cells {
		if best != nil && t.weight < best.weight {
			break
		}
		if !p.legal(t.doms) || p.room(t) == 0 {
			continue
		}
		n, busy, preferred := p.crowd(t.doms), t.cells.meets(p.r.busy), p.preferred(t.doms)
		switch {
		case best == nil || t.liked < best.liked:
		case t.liked > best.liked:
			continue
		case preferred && !bestPreferred:
		case bestPreferred && !preferred:
			continue
		case t.unit < best.unit*(1-priceTolerance):
		case t.unit > best.unit*(1+priceTolerance):
			continue
		case n > bestCount || (n == bestCount && (bestBusy || !busy)):
			continue
		}
		best, bestCount, bestBusy, bestPreferred = t, n, busy, preferred
	}
	return best
}

// preferred says whether the domains include the one that this round prefers.
func (p *placer) preferred(doms []int32) bool {
	l := p.r.retry.prefer
	if l == nil {
		return false
	}
	for i, u := range p.dom {
		if t := u.gs.g.topo; t.key == l.key && doms[i] >= 0 && t.domains[doms[i]] == l.domain {
			return true
		}
	}
	return false
}

// crowd is how many pods that a spread of the class counts are in these domains already.
func (p *placer) crowd(doms []int32) int32 {
	var n int32
	for i, u := range p.dom {
		if u.owned && u.gs.g.kind == spreadGroup && doms[i] >= 0 {
			n += u.gs.sel[doms[i]]
		}
	}
	return n
}
