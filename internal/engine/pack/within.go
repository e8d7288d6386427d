package pack

import (
	"math/bits"
	"slices"
)

// Of a small batch every way to divide it among nodes within limits is compared. What is kept of the ways to pack some of the items is
// bounded, and so is the work; beyond that the batch is packed as a large one is.
const (
	maxWays     = 64
	maxWithin   = 200_000
	priorityBit = 4 // up to 2^4 copies count less than one of the next priority
)

// within packs a small batch under limits, reservations and minValues: as many of the most important as can be, then of the next, and
// that at the least cost. ok is false if there is too much to compare.
func (p *problem) within() (bins []bin, left []int, ok bool) {
	if bins, ok := p.freely(); ok {
		return bins, make([]int, len(p.items)), true
	}
	w := p.newDivision()
	if w == nil {
		return nil, nil, false
	}
	for at := 1; at < len(w.ways); at++ {
		if !w.extend(at) {
			return nil, nil, false
		}
	}
	left = make([]int, len(p.items))
	for at, k := len(w.ways)-1, 0; at > 0; {
		way := &w.ways[at][k]
		if way.with == 0 {
			left[way.item] += w.count(at, way.item)
			at, k = at-w.count(at, way.item)*w.step[way.item], way.rest
			continue
		}
		c := w.choices[way.with][way.choice]
		p.enter(c.option, 1)
		bins = append(bins, c.bin)
		at, k = at-way.with, way.rest
	}
	return bins, left, true
}

// division compares the ways to divide items among nodes. A number of each item is one number, in a system in which each item has a digit:
// step is what one copy of it adds.
type division struct {
	p    *problem
	step []int
	// digits are the same numbers with five bits for each item: the lower four are a digit's, and fifths the others of all.
	digits []uint64
	fifths uint64
	rows   []int64 // what is left of each limit
	sum    []int64 // for use in between
	// takes is what each candidate of each cell takes of the rows; nil for those that may not be launched at all.
	takes [][][]int64
	// choices are, for the content of one node, the nodes that could hold it; ways those of dealing with some of the items, best first.
	choices [][]choice
	ways    [][]way
	// full lists the contents of nodes that there is a choice for, by their first item.
	full    [][]int
	missing [][]int64 // what leaving out so many copies of an item, the last ones, counts
	work    int
}

// choice is a node with what it takes of each limit.
type choice struct {
	bin
	takes []int64
}

// way is one way to deal with some items: the node that the first of them is on, and the way for the rest.
type way struct {
	missing      int64
	cost         float64
	takes        []int64
	with, choice int // with is 0 if what is there of item stays out
	item, rest   int
}

// newDivision lists what each node could hold; it is nil if there is too much of it.
func (p *problem) newDivision() *division {
	w := &division{p: p, rows: p.ledger.rows(), full: make([][]int, len(p.items))}
	w.sum, w.takes = make([]int64, len(w.rows)), make([][][]int64, len(p.cells))
	states := 1
	for i := range p.items {
		w.step = append(w.step, states)
		if states *= p.items[i].n + 1; states > 1<<maxExact {
			return nil
		}
	}
	if !w.weigh() {
		return nil
	}
	w.digits = make([]uint64, states)
	for at := range states {
		for i := range p.items {
			w.digits[at] |= uint64(w.count(at, i)) << (5 * i)
		}
	}
	for i := range p.items {
		w.fifths |= 1 << (5*i + 4)
	}
	open := make([]*openNode, states)
	open[0] = p.newNode(fullBitset(len(p.cells)))
	w.choices, w.ways = make([][]choice, states), make([][]way, states)
	w.ways[0] = []way{{takes: make([]int64, len(w.rows))}}
	for at := 1; at < states; at++ {
		last := (bits.Len64(w.digits[at]) - 1) / 5
		before := open[at-w.step[last]]
		if before == nil || !before.may(int32(last)) {
			continue
		}
		n := before.clone()
		n.add(int32(last))
		open[at] = n
		if w.choices[at] = w.nodesFor(n); len(w.choices[at]) > 0 {
			first := w.first(at)
			w.full[first] = append(w.full[first], at)
		}
		if w.work > maxWithin {
			return nil
		}
	}
	return w
}

// count is how many copies of an item are meant.
func (w *division) count(at, item int) int { return at / w.step[item] % (w.p.items[item].n + 1) }

// first is the first item that is meant.
func (w *division) first(at int) int { return bits.TrailingZeros64(w.digits[at]) / 5 }

// weigh finds what leaving out copies counts, by priority; the last copies of an item are the least important.
func (w *division) weigh() bool {
	var all []*demand
	for i := range w.p.items {
		all = append(all, w.p.items[i].demands...)
	}
	ranks := priorities(all)
	if len(ranks)*priorityBit > 62 {
		return false
	}
	for i := range w.p.items {
		var copies []int64
		for _, d := range w.p.items[i].demands {
			rank := len(ranks) - 1 - slices.Index(ranks, d.priority())
			pods := 1
			if d.bundle {
				pods = 0
				for _, x := range d.parts {
					pods += len(x.pods)
				}
			}
			for range d.copies() {
				copies = append(copies, int64(pods)<<(priorityBit*rank))
			}
		}
		sums := make([]int64, len(copies)+1)
		for n := 1; n < len(sums); n++ {
			sums[n] = sums[n-1] + copies[len(copies)-n]
		}
		w.missing = append(w.missing, sums)
	}
	return true
}

// nodesFor lists the nodes that could hold what is in an open one, without those that cost more and take no less of what is limited.
func (w *division) nodesFor(n *openNode) []choice {
	p := w.p
	var out []choice
	for c := range n.cells.each {
		takes := w.cell(c)
		for i := range p.cells[c].cands {
			cd := &p.cells[c].cands[i]
			w.work++
			if takes[i] == nil || !fits(n.size, cd.net) || portsConflict(n.ports, p.m.options[cd.option].ports) {
				continue
			}
			if slices.ContainsFunc(out, func(y choice) bool { return y.cost <= cd.cost && within(y.takes, takes[i]) }) {
				continue
			}
			if !p.enoughChoice(n.items, cd.option) {
				continue
			}
			out = slices.DeleteFunc(out, func(y choice) bool { return cd.cost <= y.cost && within(takes[i], y.takes) })
			out = append(out, choice{bin{cell: int32(c), option: cd.option, items: n.items, cost: cd.cost}, takes[i]})
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
			o := &p.m.options[p.cells[c].cands[i].option]
			if p.ledger.room(p.m, o, 1) > 0 {
				w.takes[c][i] = p.ledger.takes(p.m, o)
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
func (w *division) extend(at int) bool {
	first := w.first(at)
	n := w.count(at, first)
	for k, r := range w.ways[at-n*w.step[first]] {
		w.enter(at, way{missing: r.missing + w.missing[first][n], cost: r.cost, takes: r.takes, item: first, rest: k})
	}
	all := w.digits[at] | w.fifths
	for _, with := range w.full[first] {
		if with > at {
			break
		}
		if (all-w.digits[with])&w.fifths != w.fifths { // there is more of some item
			continue
		}
		for c := range w.choices[with] {
			x := &w.choices[with][c]
			for k, r := range w.ways[at-with] {
				w.work++
				for i := range w.sum {
					w.sum[i] = r.takes[i] + x.takes[i]
				}
				if within(w.sum, w.rows) {
					w.enter(at, way{missing: r.missing, cost: r.cost + x.cost, takes: w.sum, with: with, choice: c, rest: k})
				}
			}
		}
	}
	return w.work <= maxWithin
}

// enter notes a way, unless another is as good and takes no more of what is limited.
func (w *division) enter(at int, x way) {
	better := func(a, b *way) int {
		switch {
		case a.missing != b.missing:
			return int(min(max(a.missing-b.missing, -1), 1))
		case a.cost < b.cost-sameCost:
			return -1
		case a.cost > b.cost+sameCost:
			return 1
		}
		return 0
	}
	list := w.ways[at]
	pos := 0
	for pos < len(list) && better(&list[pos], &x) <= 0 {
		if within(list[pos].takes, x.takes) {
			return
		}
		pos++
	}
	if pos == maxWays {
		return
	}
	x.takes = slices.Clone(x.takes)
	kept := append(list[:pos:pos], x)
	for _, y := range list[pos:] {
		if !within(x.takes, y.takes) {
			kept = append(kept, y)
		}
	}
	w.ways[at] = kept[:min(len(kept), maxWays)]
}
