package pack

import (
	"container/heap"
	"slices"
)

// prospect is a candidate with what filling it promised when last looked at.
type prospect struct {
	cell    int32
	cand    int32
	eff     float64 // worth per dollar
	version int
}

// prospectHeap keeps the most promising candidate on top; ties go to the lower cell and the cheaper candidate.
type prospectHeap []prospect

func (h prospectHeap) Len() int { return len(h) }
func (h prospectHeap) Less(i, j int) bool {
	if h[i].eff != h[j].eff {
		return h[i].eff > h[j].eff
	}
	if h[i].cell != h[j].cell {
		return h[i].cell < h[j].cell
	}
	return h[i].cand < h[j].cand
}
func (h prospectHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *prospectHeap) Push(x any)   { *h = append(*h, x.(prospect)) }
func (h *prospectHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// repriceAt is the share of worth left at which prices are found anew: the mix of what is left has changed by then.
const repriceAt = 0.75

// greedy fills nodes one pattern at a time, always the one that gives most worth per dollar, as often as it repeats.
func (f *filler) greedy() []bin {
	f.reprice()
	return f.pack(true)
}

// pack is greedy at given prices; with adapt, prices follow what is left.
func (f *filler) pack(adapt bool) []bin {
	var bins []bin
	prospects := f.prospects()
	version, since, worth := 0, f.worthLeft(), 0.0
	for prospects.Len() > 0 {
		s := prospects[0]
		cd := &f.p.cells[s.cell].cands[s.cand]
		room := f.p.room(cd.option, 1<<30)
		if room == 0 {
			heap.Pop(&prospects)
			continue
		}
		value := f.fillChecked(int(s.cell), cd)
		if len(f.got) == 0 {
			heap.Pop(&prospects)
			continue
		}
		if s.version != version {
			prospects[0].eff, prospects[0].version = efficiency(value, len(f.got), f.p.by(cd)), version
			heap.Fix(&prospects, 0)
			if prospects[0].cell != s.cell || prospects[0].cand != s.cand {
				continue
			}
		}
		times := min(room, f.repeats())
		f.take(s.cell, cd, times, &bins)
		worth += float64(value * float64(times))
		version++
		if adapt && since-worth < repriceAt*since && f.remaining() > 0 {
			f.reprice()
			prospects = f.prospects()
			since, worth = f.worthLeft(), 0
		}
	}
	return bins
}

// efficiency is worth per dollar; a free node is as good as it gets, the fuller the better.
func efficiency(value float64, kinds int, cost float64) float64 {
	const free = 1e-9
	return (value + free*float64(kinds)) / max(cost, free)
}

func (f *filler) remaining() int {
	n := 0
	for _, k := range f.left {
		n += k
	}
	return n
}

func (f *filler) worthLeft() float64 { return f.x.total(f.left) }

// prospects lists the candidates by the most that they can give.
func (f *filler) prospects() prospectHeap {
	var out prospectHeap
	for c := range f.p.cells {
		if len(f.active[c]) == 0 {
			continue
		}
		for k, eff := range f.most[c] {
			out = append(out, prospect{cell: int32(c), cand: int32(k), eff: eff, version: -1})
		}
	}
	heap.Init(&out)
	return out
}

// repeats is how often the pattern in f.got can be taken before something runs out.
func (f *filler) repeats() int {
	times := 1 << 30
	for _, g := range f.got {
		times = min(times, f.left[g.item]/int(g.n))
	}
	return times
}

// take makes nodes of the pattern in f.got.
func (f *filler) take(cell int32, cd *cand, times int, bins *[]bin) {
	items := slices.Clone(f.got)
	for _, g := range items {
		f.left[g.item] -= times * int(g.n)
	}
	f.p.take(cd.option, times)
	for range times {
		*bins = append(*bins, bin{cell: cell, option: cd.option, items: items, cost: cd.cost})
	}
}

// fillChecked fills a node and, where the pool asks for a choice of values, gives back what would leave too little choice.
func (f *filler) fillChecked(c int, cd *cand) float64 {
	value := f.fill(c, cd)
	for len(f.got) > 0 && !f.p.enoughChoice(f.got, cd.option) {
		last := &f.got[len(f.got)-1]
		last.n--
		value -= f.x.value[last.item]
		if last.n == 0 {
			f.got = f.got[:len(f.got)-1]
		}
	}
	return value
}
