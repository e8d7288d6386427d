package pack

import (
	"slices"
)

const (
	// improveWork bounds the local search by the number of items it takes out and puts back, so that it ends the same way on
	// any computer. It does not grow with the plan, since large plans are good to begin with; small ones, of up to smallPlan
	// items, get smallWork, because a single node that is not quite right shows in their price.
	improveWork = 40000
	smallWork   = 80000
	smallPlan   = 3000
	// goodEnough is the gap to the lower bound at which looking further does not pay.
	goodEnough = 0.002
)

// improve takes a few nodes apart at a time, the wasteful ones first, and keeps what is cheaper when packed again. It does one
// of so many shares of the work; with merging, two nodes become one of another type as well.
func (p *problem) improve(bins []bin, bound float64, shares int, merging bool) []bin {
	if len(bins) == 0 {
		return bins
	}
	s := &search{p: p, bins: bins, x: p.relax(nil, byCost), seed: 1}
	full, items := make([]int, len(p.items)), 0
	for i := range full {
		full[i] = p.items[i].n
		items += full[i]
	}
	budget := improveWork
	if items <= smallPlan {
		budget = smallWork
	}
	budget /= shares
	for rule := range ruleCount {
		f := p.newFiller(full, rule)
		f.use(s.x)
		f.left = make([]int, len(p.items))
		s.fillers = append(s.fillers, f)
	}
	total := cost(bins)
	for work, stale := 0, 0; work < budget && stale < 40+16*len(s.bins); {
		if total-bound < goodEnough*bound {
			break
		}
		gain, moved := 0.0, 0
		if s.tick++; merging && s.tick%4 == 0 {
			gain, moved = s.merge()
		} else if s.tick%2 == 0 {
			gain, moved = s.dissolve()
			moved /= 8 // a look at a node costs less than packing an item again
		} else {
			gain, moved = s.step()
		}
		work += moved + 20
		if gain > 0 {
			total -= gain
			stale = 0
		} else {
			stale++
		}
	}
	return s.bins
}

func cost(bins []bin) float64 {
	sum := 0.0
	for i := range bins {
		sum += bins[i].cost
	}
	return sum
}

type search struct {
	p    *problem
	bins []bin
	x    *relaxation
	// fillers, one for each rule, share the prices of the whole problem.
	fillers []*filler
	seed    uint64
	tick    int
}

// next is a small generator: the search only needs variety, and the same variety every time.
func (s *search) next(n int) int {
	s.seed = s.seed*6364136223846793005 + 1442695040888963407
	return int(s.seed>>33) % n
}

// waste is what a node costs beyond the worth of what is on it.
func (s *search) waste(b *bin) float64 {
	v := b.cost
	for _, g := range b.items {
		v -= float64(s.x.value[g.item] * float64(g.n))
	}
	return v
}

// step repacks a few nodes and returns what that saved and how many items it moved.
func (s *search) step() (gain float64, moved int) {
	picked := s.pick()
	before := 0.0
	f := s.fillers[s.next(len(s.fillers))]
	for _, k := range picked {
		b := &s.bins[k]
		before += b.cost
		for _, g := range b.items {
			f.left[g.item] += int(g.n)
			moved += int(g.n)
		}
		s.p.take(b.option, -1)
	}
	f.narrow()
	fresh := s.p.shrink(f.pack(false))
	after, stuck := cost(fresh), f.remaining() > 0
	clear(f.left)
	if stuck || after > before-1e-9 {
		for i := range fresh {
			s.p.take(fresh[i].option, -1)
		}
		for _, k := range picked {
			s.p.take(s.bins[k].option, 1)
		}
		return 0, moved
	}
	slices.Sort(picked)
	for i := len(picked) - 1; i >= 0; i-- {
		s.bins = slices.Delete(s.bins, picked[i], picked[i]+1)
	}
	s.bins = append(s.bins, fresh...)
	return before - after, moved
}

// pick chooses two to six nodes: a wasteful one, and others at random.
func (s *search) pick() []int {
	n := min(len(s.bins), 2+s.next(5))
	worst, at := 0.0, s.next(len(s.bins))
	for range 4 { // the most wasteful of a few, so that all get their turn
		k := s.next(len(s.bins))
		if w := s.waste(&s.bins[k]); w > worst {
			worst, at = w, k
		}
	}
	picked := []int{at}
	for tries := 0; len(picked) < n && tries < 20; tries++ {
		k := s.next(len(s.bins))
		if !slices.Contains(picked, k) {
			picked = append(picked, k)
		}
	}
	return picked
}

// shrink gives every node the cheapest option that holds what is on it.
func (p *problem) shrink(bins []bin) []bin {
	for i := range bins {
		b := &bins[i]
		cells, size, ports := p.content(b.items)
		small := p.cheapest(b.items, cells, size, ports)
		if small.option < 0 || small.cost >= b.cost || !p.allows(small.option, b.items) {
			continue
		}
		p.take(b.option, -1)
		p.take(small.option, 1)
		*b = small
	}
	return bins
}
