package pack

import (
	"slices"
	"sync"
)

// sameCost is the difference in dollars an hour below which costs count as equal.
const sameCost = 1e-9

// fewer says whether a cost is lower than another, or the same with fewer nodes.
func fewer(cost, than float64, nodes, thanNodes int) bool {
	return cost < than-sameCost || (cost <= than+sameCost && nodes < thanNodes)
}

// outcome is a problem with its solution and what could not be packed.
type outcome struct {
	p    *problem
	bins []bin
	left []int
}

// pack packs the demands all together: a few of them in the best way that there is. Should limits leave something out of many, it packs
// again by priority, so that the less important pods are those that wait.
func (r *run) pack() []outcome {
	if len(r.demands) == 0 {
		return nil
	}
	before := r.ledger.clone()
	p := r.problem(r.demands)
	if r.m.opt.Quick || p.copies() > maxExact {
		return r.packMany(p, before)
	}
	bins, left, least, ok := p.freely()
	if ok {
		return []outcome{{p, bins, left}}
	}
	many := r.packMany(p, before.clone())
	used := r.ledger
	r.ledger = before
	q := r.problem(r.demands)
	work := maxWork
	if len(r.ov.Removed) > 0 {
		work = whatIfWork
	}
	if bins, left, ok := q.within(many, least, work); ok {
		return []outcome{{q, bins, left}}
	}
	r.ledger = used
	return many
}

// packMany packs a problem of any size. before is what the limits were.
func (r *run) packMany(p *problem, before *ledger) []outcome {
	bins, left := p.solve(r.m.opt)
	all := []outcome{{p, bins, left}}
	priorities := priorities(r.demands)
	if len(priorities) == 1 || !slices.ContainsFunc(left, func(n int) bool { return n > 0 }) {
		return all
	}
	r.ledger = before
	all = nil
	for _, prio := range priorities {
		var some []*demand
		for _, d := range r.demands {
			if d.priority() == prio {
				some = append(some, d)
			}
		}
		p := r.problem(some)
		bins, left := p.solve(r.m.opt)
		all = append(all, outcome{p, bins, left})
	}
	return all
}

// priority is that of the most important pod.
func (d *demand) priority() int32 {
	prio := d.parts[0].rc.c.Priority
	for _, x := range d.parts[1:] {
		prio = max(prio, x.rc.c.Priority)
	}
	return prio
}

// podsEach is how many pods one copy is.
func (d *demand) podsEach() int {
	if !d.bundle {
		return 1
	}
	pods := 0
	for _, x := range d.parts {
		pods += len(x.pods)
	}
	return pods
}

// priorities lists those of the demands, highest first.
func priorities(demands []*demand) []int32 {
	var out []int32
	for _, d := range demands {
		out = append(out, d.priority())
	}
	slices.Sort(out)
	out = slices.Compact(out)
	slices.Reverse(out)
	return out
}

// attempt is one way to pack and what came of it.
type attempt struct {
	run  func(p *problem, left []int) []bin
	bins []bin
	left []int
	cost float64
}

// maxWorstFit is the number of items up to which further attempts are worth their time.
const maxWorstFit = 6000

// copies is how many items there are to pack.
func (p *problem) copies() (n int) {
	for i := range p.items {
		n += p.items[i].n
	}
	return n
}

// all counts the copies of each item.
func (p *problem) all() []int {
	out := make([]int, len(p.items))
	for i := range p.items {
		out[i] = p.items[i].n
	}
	return out
}

// solve packs the items and returns what could not be packed.
func (p *problem) solve(opt Options) ([]bin, []int) {
	all := p.all()
	few := !opt.Quick && p.copies() <= maxWorstFit
	tries := p.attempts(few)
	p.try(tries, all, opt.Workers)
	if !slices.ContainsFunc(tries, func(t *attempt) bool { return t.cost < unplacedCost }) {
		scarce := p.scarce()
		p.try(scarce, all, opt.Workers)
		tries = append(tries, scarce...)
	}
	slices.SortStableFunc(tries, func(a, b *attempt) int {
		switch {
		case fewer(a.cost, b.cost, len(a.bins), len(b.bins)):
			return -1
		case fewer(b.cost, a.cost, len(b.bins), len(a.bins)):
			return 1
		}
		return 0
	})
	best := tries[0]
	if !opt.Quick {
		most := 1
		if few {
			most = min(2, len(tries)) // the second best may have more to gain
		}
		best = p.refine(tries[:most], all, opt.Workers)
	}
	for i := range best.bins {
		p.take(best.bins[i].option, 1)
	}
	return best.bins, best.left
}

// greedy fills the best node first.
func greedy(p *problem, left []int) []bin { return p.newFiller(left, byBalance).greedy() }

// attempts lists the ways to pack that are tried; with more, the slow ones too.
func (p *problem) attempts(more bool) []*attempt {
	tries := []*attempt{
		{run: greedy},
		{run: func(p *problem, left []int) []bin { return p.byMix(left) }},
		{run: func(p *problem, left []int) []bin { return p.firstFit(left, false) }},
	}
	if more {
		tries = append(
			tries, &attempt{run: func(p *problem, left []int) []bin { return p.firstFit(left, true) }},
			&attempt{run: func(p *problem, left []int) []bin { // a mix of smaller nodes, which fit more exactly
				p.by = byPrice
				return p.byMix(left)
			}})
	}
	return tries
}

// unplacedCost makes a plan that leaves something out dearer than any that does not.
const unplacedCost = 1e9

// try runs every attempt on a ledger of its own.
func (p *problem) try(tries []*attempt, all []int, workers int) {
	together(len(tries), workers, func(i int) {
		t := tries[i]
		q := *p
		q.ledger = p.ledger.clone()
		t.left = slices.Clone(all)
		t.bins = q.shrink(t.run(&q, t.left))
		t.cost = t.total()
	})
}

// pressures are how much dearer a node is taken to be, as a multiple of what everything costs, if it alone used up a limit.
var pressures = []float64{0.5, 2, 8, 64}

// scarce lists ways to pack where limits leave pods out: the more of what is limited a node takes, the dearer it counts.
func (p *problem) scarce() []*attempt {
	if len(p.ledger.pools) == 0 {
		return nil
	}
	total := max(p.relax(nil, byCost).total(nil), 1e-3)
	var out []*attempt
	for _, pressure := range pressures {
		by := func(cd *cand) float64 {
			o := &p.m.options[cd.option]
			return cd.cost + pressure*total*p.ledger.share(p.m, o)
		}
		out = append(out, &attempt{run: func(p *problem, left []int) []bin {
			p.by = by
			return greedy(p, left)
		}})
	}
	return out
}

// total is the cost of what came of the attempt, with what it left out.
func (t *attempt) total() float64 {
	sum := cost(t.bins)
	for _, n := range t.left {
		sum += float64(n) * unplacedCost
	}
	return sum
}

// mergeShare is the part of the work, as one of so many, that may go on merging nodes when the rest is done.
const mergeShare = 4

// with is the problem when the nodes of a plan are taken from what limits allow.
func (p *problem) with(bins []bin) *problem {
	q := *p
	q.ledger = p.ledger.clone()
	for k := range bins {
		q.take(bins[k].option, 1)
	}
	return &q
}

// refine improves the attempts, which share the work that this may take, and goes on from the best with merging, unless it is close to
// the bound.
func (p *problem) refine(tries []*attempt, all []int, workers int) *attempt {
	bound := p.relax(nil, byCost).total(all)
	together(len(tries), workers, func(i int) {
		t := tries[i]
		t.bins = p.with(t.bins).improve(t.bins, bound, len(tries), false)
		t.cost = t.total()
	})
	best := tries[0]
	for _, t := range tries[1:] {
		if fewer(t.cost, best.cost, len(t.bins), len(best.bins)) {
			best = t
		}
	}
	if best.cost > (1+closeEnough)*bound {
		best.bins = p.with(best.bins).improve(best.bins, bound, mergeShare, true)
		best.cost = best.total()
	}
	return best
}

// together calls do for every number below n, several at once if there are workers.
func together(n, workers int, do func(i int)) {
	if workers <= 1 {
		for i := range n {
			do(i)
		}
		return
	}
	var wg sync.WaitGroup
	gate := make(chan struct{}, workers)
	for i := range n {
		wg.Add(1)
		gate <- struct{}{}
		go func() {
			defer wg.Done()
			do(i)
			<-gate
		}()
	}
	wg.Wait()
}
