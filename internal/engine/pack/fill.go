package pack

import (
	"math"
	"slices"
)

// filler fills one node at a time with what is left, by the prices of a relaxation. It looks at many candidates for each node that it
// makes, so that it has one node, which it empties and fills again.
type filler struct {
	p    *problem
	x    *relaxation
	left []int
	rule fillRule

	orders [][][]int32 // per cell, item lists of like direction, largest first
	active [][][]int32 // what of orders is in play
	most   [][]float64 // per cell and candidate, the most that it can give per dollar
	weight [][]float64 // per market, what each resource is worth when sizes are compared

	node  openNode
	heads []int
	res   []float64
	got   []itemCount // what the node was last filled with
}

// fillRule is how the next item for a node is chosen.
type fillRule int

const (
	byBalance fillRule = iota // large where the node has most left
	bySize                    // large, whatever is left
	ruleCount
)

func (p *problem) newFiller(left []int, rule fillRule) *filler {
	return &filler{
		p: p, left: left, rule: rule, res: make([]float64, p.dims),
		node: openNode{p: p, free: make([]int64, p.dims), taken: make([]int32, len(p.items)), hosts: make([]hostCount, p.hosts)},
	}
}

// reprice solves the relaxation for what is left and sorts the items by it.
func (f *filler) reprice() {
	f.use(f.p.relax(f.left, f.p.by))
}

// use sorts the items by the prices of x.
func (f *filler) use(x *relaxation) {
	f.x = x
	f.weight = make([][]float64, f.p.markets)
	for k := range f.weight {
		f.weight[k] = f.weights(k)
	}
	f.orders = make([][][]int32, len(f.p.cells))
	worth := make([]float64, len(f.p.items))
	for c := range f.p.cells {
		w := f.weight[f.p.cells[c].market]
		var lists [][]int32
		slot := map[int]int{}
		for i := range f.p.items {
			it := &f.p.items[i]
			if f.left[i] == 0 || !it.cells.has(c) {
				continue
			}
			worth[i] = f.size(it, w)
			d := direction(it, w)
			k, ok := slot[d]
			if !ok {
				k = len(lists)
				slot[d] = k
				lists = append(lists, nil)
			}
			lists[k] = append(lists[k], int32(i))
		}
		for _, l := range lists {
			slices.SortStableFunc(l, func(a, b int32) int {
				switch {
				case worth[a] > worth[b]:
					return -1
				case worth[a] < worth[b]:
					return 1
				}
				return int(a) - int(b)
			})
		}
		f.orders[c] = lists
	}
	f.active = f.orders
	f.bounds()
}

// bounds finds the most that each candidate can give per dollar at the prices in use.
func (f *filler) bounds() {
	f.most = make([][]float64, len(f.p.cells))
	for c := range f.p.cells {
		cl := &f.p.cells[c]
		f.most[c] = make([]float64, len(cl.cands))
		for k := range cl.cands {
			sum := 0.0
			for r, u := range f.x.unit[cl.market] {
				sum += float64(u * f.x.holds(&cl.cands[k], r))
			}
			f.most[c][k] = efficiency(sum, 1, f.p.by(&cl.cands[k]))
		}
	}
}

// narrow puts only the items that are left into play.
func (f *filler) narrow() {
	f.active = make([][][]int32, len(f.orders))
	for c, lists := range f.orders {
		for _, l := range lists {
			var some []int32
			for _, i := range l {
				if f.left[i] > 0 {
					some = append(some, i)
				}
			}
			if len(some) > 0 {
				f.active[c] = append(f.active[c], some)
			}
		}
	}
}

// floorShare is how much of a typical price every resource counts at least, so that sizes differ in resources that
// happen to be free as well.
const floorShare = 0.02

func (f *filler) weights(k int) []float64 {
	w := slices.Clone(f.x.unit[k][:f.p.dims])
	for c := range f.p.market[k].each {
		for i := range f.p.cells[c].cands {
			cd := &f.p.cells[c].cands[i]
			for r := range w {
				if cd.net[r] > 0 {
					w[r] = max(w[r], floorShare*cd.price/float64(cd.net[r]))
				}
			}
		}
		break
	}
	return w
}

// size is the worth of an item, with its claim on host groups.
func (f *filler) size(it *item, w []float64) float64 {
	v := 0.0
	for r, s := range it.size {
		v += float64(w[r] * float64(s))
	}
	return v
}

// direction groups items by the resource that they are mostly about and how much so.
func direction(it *item, w []float64) int {
	sum, top, at := 0.0, 0.0, 0
	for r, s := range it.size {
		v := w[r] * float64(s)
		sum += v
		if v > top {
			top, at = v, r
		}
	}
	if sum == 0 {
		return 0
	}
	d := at*16 + int(top/sum*8)
	if len(it.host) > 0 {
		d += 1024 * (1 + int(it.host[0].group)%64)
	}
	return d
}

// fill packs what is left into one node of the candidate and returns the worth of what went in, found in f.got.
func (f *filler) fill(c int, cd *cand) float64 {
	f.node.reset(c, cd)
	w := f.weight[f.p.cells[c].market]
	lists := f.active[c]
	f.heads = append(f.heads[:0], make([]int, len(lists))...)
	copy(f.res, w)
	value := 0.0
	for {
		best, at := -1.0, int32(-1)
		for k, l := range lists {
			i := f.head(k, l)
			if i < 0 {
				continue
			}
			if s := f.rate(i); s > best {
				best, at = s, i
			}
		}
		if at < 0 {
			break
		}
		f.node.add(at)
		value += f.x.value[at]
		if f.rule == byBalance {
			for r := range f.res {
				f.res[r] = w[r] * float64(f.node.free[r]) / math.Max(1, float64(cd.net[r]))
			}
		}
	}
	f.got = append(f.got[:0], f.node.items...)
	return value
}

// head is the first item of a list that still fits, or -1.
func (f *filler) head(k int, l []int32) int32 {
	for f.heads[k] < len(l) {
		i := l[f.heads[k]]
		if int(f.node.taken[i]) < f.left[i] && f.node.may(i) {
			return i
		}
		f.heads[k]++
	}
	return -1
}

// rate says how good it is to take the item next.
func (f *filler) rate(i int32) float64 {
	it := &f.p.items[i]
	v := 0.0
	for r, s := range it.size {
		v += float64(f.res[r] * float64(s))
	}
	for _, h := range it.host {
		if row := f.x.row[h.group]; row >= 0 && h.own > 0 {
			v += f.x.unit[0][row]
		}
	}
	return v
}
