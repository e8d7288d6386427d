package pack

import (
	"container/heap"
	"math"
)

// mixLimit bounds kinds of items times nodes for packing by the mix, which looks at every node once for every kind.
const mixLimit = 30_000_000

// byMix buys the mix of nodes that the relaxation asks for, rounded down, and spreads the items over all of them at once, each
// to the node whose free room is most like it. What does not fit is packed as usual. Filling many nodes side by side keeps
// them balanced where filling one after the other leaves what combines badly for the end.
func (p *problem) byMix(left []int) []bin {
	f := p.newFiller(left, byBalance)
	f.reprice()
	var bins []bin
	share := p.shareOut(left)
	for c := range p.cells {
		nodes := p.mixOf(c, share[c], f.x)
		if len(nodes) == 0 || len(nodes)*len(p.items) > mixLimit {
			continue
		}
		s := &search{p: p, bins: nodes, x: f.x, fillers: []*filler{f}}
		open := make([]*openNode, len(nodes))
		for k := range nodes {
			open[k] = p.reopen(&nodes[k], k)
		}
		s.spread(open, share[c], left)
		for k, n := range open {
			nodes[k].items = n.items
			bins = p.accept(bins, nodes[k], left)
		}
	}
	f.reprice()
	return append(bins, f.pack(true)...)
}

// shareOut divides what is left among the cells: what may go to one cell only goes there, and the rest follows in proportion.
func (p *problem) shareOut(left []int) [][]int {
	share := make([][]int, len(p.cells))
	pinned := make([]int, len(p.cells))
	for c := range share {
		share[c] = make([]int, len(p.items))
	}
	for i := range p.items {
		if it := &p.items[i]; it.cells.count() == 1 {
			for c := range it.cells.each {
				share[c][i] = left[i]
				pinned[c] += left[i]
			}
		}
	}
	for i := range p.items {
		it := &p.items[i]
		if it.cells.count() <= 1 {
			continue
		}
		sum := 0
		for c := range it.cells.each {
			sum += pinned[c]
		}
		rest, last := left[i], -1
		for c := range it.cells.each {
			if sum > 0 {
				share[c][i] = left[i] * pinned[c] / sum
			}
			rest -= share[c][i]
			if last < 0 || pinned[c] > pinned[last] {
				last = c
			}
		}
		share[last][i] += rest
	}
	return share
}

// mixRounds bounds how often the remainder of a mix is cut into smaller nodes.
const mixRounds = 8

// mixOf is the whole nodes in the cheapest fractional mix for a cell's share. What is left after rounding down is bought again
// with smaller nodes, and so on.
func (p *problem) mixOf(c int, share []int, prices *relaxation) []bin {
	x := &relaxation{p: p, groups: prices.groups, row: prices.row}
	need := make([]float64, p.dims+len(x.groups))
	if !x.charge(need, 0, share, func(int) bool { return true }) {
		return nil
	}
	var out []bin
	limit := math.Inf(1)
	for range mixRounds {
		cands, buy := x.buy(c, need, limit)
		largest, bought := 0.0, false
		for k, n := range buy {
			if n > 1e-6 {
				largest = max(largest, cands[k].price)
			}
			for range int(math.Floor(n + 1e-6)) {
				bought = true
				out = append(out, bin{cell: int32(c), option: cands[k].option, cost: cands[k].cost})
				for r := range need {
					need[r] = max(0, need[r]-x.holds(cands[k], r))
				}
			}
		}
		if largest == 0 {
			break
		}
		if !bought {
			limit = largest * 0.6
		}
	}
	return out
}

// buy solves the relaxation of one cell for a need, with nodes that cost less than limit.
func (x *relaxation) buy(c int, need []float64, limit float64) ([]*cand, []float64) {
	var cols []int
	for r, v := range need {
		if v > 0 {
			cols = append(cols, r)
		}
	}
	if len(cols) == 0 {
		return nil, nil
	}
	var caps [][]float64
	var costs []float64
	var cands []*cand
	for i := range x.p.cells[c].cands {
		cd := &x.p.cells[c].cands[i]
		if x.p.m.options[cd.option].off.Reservation != "" || cd.price > limit {
			continue
		}
		row := make([]float64, len(cols))
		for j, r := range cols {
			row[j] = x.holds(cd, r) / need[r]
		}
		caps, costs, cands = append(caps, row), append(costs, x.p.by(cd)), append(cands, cd)
	}
	_, n := maximize(caps, costs, len(cols))
	return cands, n
}

// spread places the share over the nodes, most valuable first, each item into the node whose free room is most like it in shape.
func (s *search) spread(open []*openNode, share, left []int) {
	var order []itemCount
	for i, n := range share {
		if n > 0 {
			order = append(order, itemCount{int32(i), int32(n)})
		}
	}
	h := &likeHeap{}
	for _, g := range s.bySize(order) {
		it := &s.p.items[g.item]
		h.list = h.list[:0]
		for k, n := range open {
			if n.may(g.item) {
				h.list = append(h.list, rated{k, s.likeness(n, it)})
			}
		}
		heap.Init(h)
		for more := g.n; more > 0 && len(h.list) > 0; {
			n := open[h.list[0].at]
			if !n.may(g.item) {
				heap.Pop(h)
				continue
			}
			n.add(g.item)
			left[g.item]--
			more--
			h.list[0].score = s.likeness(n, it)
			heap.Fix(h, 0)
		}
	}
}

// likeness is how much the free room points in the item's direction, for items of one size.
func (s *search) likeness(n *openNode, it *item) float64 {
	w := s.fillers[0].weight[s.p.cells[n.cell].market]
	dot, norm := 0.0, 0.0
	for r, v := range it.size {
		free := w[r] * float64(n.free[r])
		dot += float64(free * w[r] * float64(v))
		norm += float64(free * free)
	}
	return dot / math.Sqrt(norm+1e-30)
}

type rated struct {
	at    int
	score float64
}

// likeHeap keeps the node that is most alike on top; ties go to the first.
type likeHeap struct{ list []rated }

func (h *likeHeap) Len() int { return len(h.list) }
func (h *likeHeap) Less(i, j int) bool {
	if h.list[i].score != h.list[j].score {
		return h.list[i].score > h.list[j].score
	}
	return h.list[i].at < h.list[j].at
}
func (h *likeHeap) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *likeHeap) Push(x any)    { h.list = append(h.list, x.(rated)) }
func (h *likeHeap) Pop() any {
	x := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return x
}
