package pack

import (
	"math"
	"slices"
)

// maxExact is the number of items up to which every way to divide them among nodes is compared: most batches are small.
const maxExact = 12

// Within limits, what is kept of the ways to pack some of the items is bounded, and so is the work; beyond that a small batch is packed
// as a large one is. The most work takes some tenths of a second, in one of a thousand batches; what-ifs, of which there are hundreds, make do
// with a hundredth.
const (
	fewWays     = 4 // at the first look
	maxWays     = 4096
	maxWork     = 40_000_000
	whatIfWork  = maxWork / 100
	priorityBit = 4 // up to 2^4 copies count less than one of the next priority
)

// freely packs a small batch at the least cost with the fewest nodes, as if there were no limits: that takes little, and mostly they allow
// it. ok is false if they do not; then least is what so many of each item cost at least.
func (p *problem) freely() (bins []bin, left []int, least []float64, ok bool) {
	before := p.ledger.clone()
	w := p.newDivision(true)
	found, left, _ := w.best()
	for _, b := range found {
		bins = p.accept(bins, b, left)
	}
	if slices.Max(left) == 0 {
		return bins, left, nil, true
	}
	*p.ledger = *before
	return nil, nil, w.least, false
}

// within packs a small batch under limits, reservations and minValues: as many of the most important as can be, then of the next, and
// that at the least cost with the fewest nodes. It looks only at what could become better than a packing that is known, with what is known to
// be the least cost of any part. ok is false if there is nothing better, or too much to compare.
func (p *problem) within(known []outcome, least []float64, work int) (bins []bin, left []int, ok bool) {
	w := p.newDivision(false)
	w.maxWork = work
	w.least, w.target = least, w.worth(known)
	for _, w.most = range []int{fewWays, maxWays} { // what is found among a few leaves less to look at among all
		some, rest, found := w.best()
		if !found {
			continue
		}
		bins, left, ok = some, rest, true
		w.target = &w.ways[len(w.ways)-1][0]
		if !w.cut {
			break
		}
	}
	for i := range bins {
		p.take(bins[i].option, 1)
	}
	return bins, left, ok
}

// division compares the ways to divide items among nodes. A number of each item is one number, in a system in which each item has a digit:
// step is what one copy of it adds.
type division struct {
	p    *problem
	free bool // as if nothing but size and price mattered between nodes
	step []int
	// first is, for each number, the first item that is meant.
	first []int
	rows  []int64 // what is left of each limit
	sum   []int64 // for use in between
	// takes is what each candidate of each cell takes of the rows; nil for those that may not be launched at all.
	takes [][][]int64
	// nodes are, for the content of one node, the bins that could hold it; ways those of dealing with some of the items, best first.
	nodes   [][]taking
	ways    [][]way
	missing [][]int64 // what leaving out so many copies of an item, the last ones, counts
	ranks   []int32   // the priorities, highest first
	// Without limits one way is enough: one is what a node with so many costs, least what the best way does, more than anything if it
	// leaves something out.
	one, least []float64
	// work is counted, up to a bound within limits.
	work, maxWork int
	// most is how many ways are kept, and cut says that there were more.
	most int
	cut  bool
	// target is a way for everything, within limits: what cannot become better is not looked at.
	target *way
}

// taking is a bin with what it takes of each limit.
type taking struct {
	bin
	takes []int64
}

// way is one way to deal with some items: the bin that the first of them is in, and the way for the rest.
type way struct {
	missing    int64
	cost       float64
	bins       int
	takes      []int64
	with, node int // with is 0 if what is there of item stays out
	item, rest int
}

func (p *problem) newDivision(free bool) *division {
	w := &division{p: p, free: free, most: maxWays, maxWork: whatIfWork, takes: make([][][]int64, len(p.cells))}
	if !free {
		w.rows = p.ledger.rows()
	}
	w.sum = make([]int64, len(w.rows))
	states := 1
	for i := range p.items {
		w.step = append(w.step, states)
		states *= p.items[i].n + 1
	}
	w.first, w.ways = make([]int, states), make([][]way, states)
	w.ways[0] = []way{{takes: slices.Clone(w.sum)}}
	if free {
		w.one, w.least = make([]float64, states), make([]float64, states)
		ways := make([]way, states)
		for at := 1; at < states; at++ {
			w.one[at], w.least[at], w.ways[at] = math.Inf(1), math.Inf(1), ways[at:at:at+1]
		}
	}
	w.weigh()
	return w
}

// best finds the best way to deal with everything. ok is false if there is too much to compare.
func (w *division) best() (bins []bin, left []int, ok bool) {
	if w.nodes == nil {
		w.fill()
	}
	if !w.free {
		clear(w.ways[1:])
		w.cut, w.work = false, 0
	}
	for at := 1; at < len(w.ways); at++ {
		if w.extend(at); w.tooMuch() {
			return nil, nil, false
		}
	}
	return w.found()
}

// fill finds the bins for the content of each node.
func (w *division) fill() {
	w.nodes = make([][]taking, len(w.ways))
	open := make([]*openNode, len(w.ways))
	open[0] = w.p.newNode(fullBitset(len(w.p.cells)))
	last := 0
	for at := 1; at < len(open); at++ {
		for last+1 < len(w.step) && w.step[last+1] <= at {
			last++
		}
		for w.count(at, w.first[at]) == 0 {
			w.first[at]++
		}
		if before := open[at-w.step[last]]; before != nil && before.may(int32(last)) {
			open[at] = before.clone()
			open[at].add(int32(last))
			w.nodes[at] = w.nodesFor(open[at])
			if w.free && len(w.nodes[at]) > 0 {
				w.one[at] = w.nodes[at][0].cost
			}
		}
	}
}

// found is the best way for everything.
func (w *division) found() (bins []bin, left []int, ok bool) {
	if len(w.ways[len(w.ways)-1]) == 0 {
		return nil, nil, false
	}
	left = make([]int, len(w.step))
	for at, k := len(w.ways)-1, 0; at > 0; {
		x := &w.ways[at][k]
		k = x.rest
		if x.with > 0 {
			bins = append(bins, w.nodes[x.with][x.node].bin)
			at -= x.with
			continue
		}
		n := w.count(at, x.item)
		left[x.item] += n
		at -= n * w.step[x.item]
	}
	return bins, left, true
}

func (w *division) tooMuch() bool { return !w.free && w.work > w.maxWork }

// count is how many copies of an item are meant.
func (w *division) count(at, item int) int { return at / w.step[item] % (w.p.items[item].n + 1) }

// weigh finds what leaving out copies counts, by priority; the last copies of an item are the least important.
func (w *division) weigh() {
	var all []*demand
	for i := range w.p.items {
		all = append(all, w.p.items[i].demands...)
	}
	w.ranks = priorities(all)
	for i := range w.p.items {
		var copies []int64
		for _, d := range w.p.items[i].demands {
			for range d.copies() {
				copies = append(copies, w.counts(d))
			}
		}
		sums := make([]int64, len(copies)+1)
		for n := 1; n < len(sums); n++ {
			sums[n] = sums[n-1] + copies[len(copies)-n]
		}
		w.missing = append(w.missing, sums)
	}
}

// worth is what a way would be that packs the same items as a packing does, in one or several parts.
func (w *division) worth(of []outcome) *way {
	x := &way{}
	for _, o := range of {
		x.cost, x.bins = x.cost+cost(o.bins), x.bins+len(o.bins)
		for i, n := range o.left {
			demands := o.p.items[i].demands
			for k := len(demands) - 1; n > 0; k-- { // the last copies are left
				some := min(n, demands[k].copies())
				x.missing += int64(some) * w.counts(demands[k])
				n -= some
			}
		}
	}
	return x
}

// counts is what leaving out one copy counts.
func (w *division) counts(d *demand) int64 {
	rank := len(w.ranks) - 1 - slices.Index(w.ranks, d.priority())
	return int64(d.podsEach()) << (priorityBit * rank)
}

// nodesFor lists the bins that could hold what is on a node: the cheapest, or within limits all but those that cost more and take no less
// of what is limited.
func (w *division) nodesFor(n *openNode) []taking {
	p := w.p
	if w.free {
		if b := n.cheapest(); b.option >= 0 {
			return []taking{{bin: b}}
		}
		return nil
	}
	var out []taking
	for c := range n.cells.each {
		takes := w.cell(c)
		for i := range p.cells[c].cands {
			cd := &p.cells[c].cands[i]
			w.work++
			if takes[i] == nil || !fits(n.size, cd.net) || portsConflict(n.ports, p.m.options[cd.option].ports) {
				continue
			}
			if slices.ContainsFunc(out, func(y taking) bool { return y.cost <= cd.cost && within(y.takes, takes[i]) }) {
				continue
			}
			if !p.enoughChoice(n.items, cd.option) {
				continue
			}
			out = slices.DeleteFunc(out, func(y taking) bool { return cd.cost <= y.cost && within(takes[i], y.takes) })
			out = append(out, taking{bin{cell: int32(c), option: cd.option, items: n.items, cost: cd.cost}, takes[i]})
		}
	}
	return out
}

// cell is what the candidates of a cell take.
func (w *division) cell(c int) [][]int64 {
	if w.takes[c] == nil {
		p := w.p
		w.takes[c] = make([][]int64, len(p.cells[c].cands))
		for i := range p.cells[c].cands {
			if o := p.cells[c].cands[i].option; p.room(o, 1) > 0 {
				w.takes[c][i] = p.ledger.takes(p.m, &p.m.options[o])
			}
		}
	}
	return w.takes[c]
}

// within says whether a is nowhere more than b.
func within(a, b []int64) bool {
	for i, v := range a {
		if v > b[i] {
			return false
		}
	}
	return true
}

// extend finds the ways to deal with so many of each item: the first item stays out, or is on a node with some of the others.
func (w *division) extend(at int) {
	first := w.first[at]
	n := w.count(at, first)
	for k := range w.ways[at-n*w.step[first]] {
		r := &w.ways[at-n*w.step[first]][k]
		w.enter(at, &way{missing: r.missing + w.missing[first][n], cost: r.cost, bins: r.bins, takes: r.takes, item: first, rest: k})
	}
	others := at - w.step[first]
	for some := others; some >= 0; some = w.fewer(some, others) {
		with := at - some // ties go to the first: within limits where less is on a node, otherwise where more is
		if w.free {
			with = some + w.step[first]
			if w.one[with]+w.least[at-with] > w.least[at]+sameCost {
				continue
			}
		}
		for c := range w.nodes[with] {
			x := &w.nodes[with][c]
			for k := range w.ways[at-with] {
				r := &w.ways[at-with][k]
				w.work++
				for i := range w.sum {
					w.sum[i] = r.takes[i] + x.takes[i]
				}
				if within(w.sum, w.rows) {
					w.enter(at, &way{missing: r.missing, cost: r.cost + x.cost, bins: r.bins + 1, takes: w.sum, with: with, node: c, rest: k})
				}
			}
		}
	}
}

// fewer is the next smaller number of each item of which none is more than in others, -1 after none at all.
func (w *division) fewer(some, others int) int {
	if some == 0 {
		return -1
	}
	lowest := w.step[w.first[some]] // one less of it, and of those before it as many as there are
	return some + others%lowest - lowest
}

// compare says which of two ways is better.
func (x *way) compare(y *way) int {
	switch {
	case x.missing != y.missing:
		return int(min(max(x.missing-y.missing, -1), 1))
	case fewer(x.cost, y.cost, x.bins, y.bins):
		return -1
	case fewer(y.cost, x.cost, y.bins, x.bins):
		return 1
	}
	return 0
}

// enter notes a way, unless another is as good and takes no more of what is limited.
func (w *division) enter(at int, x *way) {
	list := w.ways[at]
	if w.free {
		if len(list) == 0 || x.compare(&list[0]) < 0 {
			w.ways[at] = append(list[:0], *x)
			if x.missing == 0 {
				w.least[at] = x.cost
			}
		}
		return
	}
	if w.hopeless(at, x) {
		return
	}
	pos := 0
	for pos < len(list) && list[pos].compare(x) <= 0 {
		w.work++
		if within(list[pos].takes, x.takes) {
			return
		}
		pos++
	}
	if pos == w.most {
		w.cut = true
		return
	}
	list = slices.Insert(list, pos, *x)
	list[pos].takes = slices.Clone(x.takes)
	kept := list[:pos+1]
	for _, y := range list[pos+1:] {
		if !within(x.takes, y.takes) {
			kept = append(kept, y)
		}
	}
	w.work += len(list) - pos
	w.cut = w.cut || len(kept) > w.most
	w.ways[at] = kept[:min(len(kept), w.most)]
}

// hopeless says whether a way cannot be part of one that is better than the target: it leaves out more, or with what the others cost even
// without limits it costs as much.
func (w *division) hopeless(at int, x *way) bool {
	if x.missing != w.target.missing {
		return x.missing > w.target.missing
	}
	return !fewer(x.cost+w.least[len(w.ways)-1-at], w.target.cost, x.bins, w.target.bins)
}
