package pack

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	"karpenter/internal/engine/world"
)

// Solve plans the pending pods of a snapshot.
func Solve(s *world.Snapshot, opt Options) *Plan {
	return Prepare(s, opt).Solve(s.Over())
}

// Solve answers one question about the snapshot that the model was prepared from.
//
// Nodes that limits, reservations or minValues do not allow come to light only in packing, when other pods have been placed
// counting on them. Then everything is decided again with what was
// refused left out, until nothing is refused. The same goes for domains that turn out to exist.
func (m *Model) Solve(ov *world.Overlay) *Plan {
	best, run, outcomes := m.solveLeaning(ov, nil)
	if m.opt.Quick || len(best.Nodes) == 0 {
		return best
	}
	if best.Pods <= maxLeaningPods {
		for _, l := range run.leanings() {
			if plan, r, o := m.solveLeaning(ov, &l); cheaperPlan(plan, best) {
				best, run, outcomes = plan, r, o
			}
		}
	}
	run.prove(best, outcomes)
	return best
}

// Pods that may choose their domain choose it before anything is packed. In a small batch, all of them in one domain can save a
// node, so each domain is tried as the one to lean to; in a large batch that makes no difference.
const (
	maxLeaningPods = 300
	maxLeanings    = 9
)

// leaning is a domain to prefer where the rules leave a choice.
type leaning struct{ key, domain string }

// sameCost is the difference in dollars an hour below which costs count as equal.
const sameCost = 1e-9

// fewer says whether a cost is lower than another, or the same with fewer nodes.
func fewer(cost, than float64, nodes, thanNodes int) bool {
	return cost < than-sameCost || (cost <= than+sameCost && nodes < thanNodes)
}

// cheaperPlan says whether a is better than b: more pods placed, or the same for less.
func cheaperPlan(a, b *Plan) bool {
	if a.Placed != b.Placed {
		return a.Placed > b.Placed
	}
	return fewer(a.Price+a.NodeCost, b.Price+b.NodeCost, len(a.Nodes), len(b.Nodes))
}

// solveLeaning plans with a domain preferred.
func (m *Model) solveLeaning(ov *world.Overlay, lean *leaning) (*Plan, *run, []outcome) {
	l := &lessons{quota: quotas{}, domains: map[domainKey]bool{}, hosts: map[int]bool{}, lean: lean}
	for round := 0; ; round++ {
		r := m.newRun(ov, l)
		r.assign()
		outcomes := r.pack()
		refused, surprised := r.refused(outcomes, round < gentleRounds), r.surprised(outcomes)
		if !refused && !surprised {
			return r.plan(outcomes), r, outcomes
		}
	}
}

// leanings lists the domains that new nodes can have, by name.
func (r *run) leanings() []leaning {
	var out []leaning
	seen := map[int]bool{}
	for _, gs := range r.groups {
		t := gs.g.topo
		if gs.g.host || seen[t.id] {
			continue
		}
		seen[t.id] = true
		for c := range r.cells.cells {
			if d := t.option[r.cells.cells[c].rep]; d >= 0 {
				out = append(out, leaning{t.key, t.domains[d]})
			}
		}
	}
	slices.SortFunc(out, func(a, b leaning) int {
		return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.domain, b.domain))
	})
	out = slices.Compact(out)
	return out[:min(len(out), maxLeanings)]
}

// lessons is what earlier rounds have shown.
type lessons struct {
	quota quotas
	// domains holds those that other pods' nodes open: a spread takes its minimum over them too, though its own pods could not
	// have opened a node there.
	domains map[domainKey]bool
	// hosts holds the host spreads (by group) for which an empty node is opened.
	hosts map[int]bool
	lean  *leaning
}

type domainKey struct {
	class  int32
	group  int
	domain int32
}

// gentleRounds is how often a place that took some pods may take as many again; after that it takes none, so that the end is
// certain.
const gentleRounds = 6

// quotas bounds how many pods of a class may ask for new nodes in a place. What is not listed has no bound.
type quotas map[quotaKey]int

type quotaKey struct {
	class int32
	place string
}

// refused lowers the quotas to what was packed, and says whether something was not.
func (r *run) refused(outcomes []outcome, gentle bool) bool {
	any := false
	for _, o := range outcomes {
		for i, n := range o.left {
			demands := o.p.items[i].demands
			for k := len(demands) - 1; k >= 0 && n > 0; k-- {
				d := demands[k]
				back := min(n, d.copies())
				n -= back
				any = true
				for _, x := range d.parts {
					key := quotaKey{x.rc.c.ID, x.place}
					kept := x.rc.asked[x.place] - back
					if d.bundle {
						kept = x.rc.asked[x.place] - len(x.pods)
					}
					if old, ok := r.lessons.quota[key]; (ok && kept >= old) || !gentle {
						kept = 0
					}
					r.lessons.quota[key] = max(kept, 0)
				}
			}
		}
	}
	return any
}

// plan puts the outcomes together.
func (r *run) plan(outcomes []outcome) *Plan {
	r.balance(outcomes)
	r.settle(outcomes)
	plan := &Plan{Order: r.decided}
	limits := []bounds{{by: byPrice}, {by: byCost}}
	if r.m.nodeCost == 0 { // both are the same
		limits = limits[:1]
	}
	barred := r.barred()
	for _, o := range outcomes {
		o.p.barred = barred
		q, _ := r.certain(o.p)
		for k := range limits {
			limits[k].add(q)
		}
		plan.Nodes = append(plan.Nodes, r.finish(o.p, o.bins)...)
	}
	plan.Bound, plan.CostBound = r.bound(limits)
	r.name(plan)
	r.fillExisting(plan)
	for _, rc := range r.classes {
		plan.Pods += len(rc.pods)
		plan.Placed += rc.done
		if rc.done == len(rc.pods) {
			continue
		}
		u := &Unplaced{Pods: rc.pods[rc.done:]}
		if !r.m.opt.Quick || len(plan.Unplaced) == 0 { // a what-if needs one reason to be dismissed
			u.Reasons = r.explain(rc)
		}
		plan.Unplaced = append(plan.Unplaced, u)
	}
	return plan
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
	if !r.m.opt.Quick && p.copies() <= maxExact {
		if bins, left, ok := p.exactly(); ok {
			return []outcome{{p, bins, left}}
		}
	}
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
		p.enter(best.bins[i].option, 1)
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

// refine improves the attempts, which share the work that this may take, and returns the best.
func (p *problem) refine(tries []*attempt, all []int, workers int) *attempt {
	bound := p.relax(nil, byCost).total(all)
	together(len(tries), workers, func(i int) {
		t := tries[i]
		q := *p
		q.ledger = p.ledger.clone()
		for k := range t.bins {
			q.enter(t.bins[k].option, 1)
		}
		t.bins = q.improve(t.bins, bound, len(tries))
		t.cost = t.total()
	})
	best := tries[0]
	for _, t := range tries[1:] {
		if fewer(t.cost, best.cost, len(t.bins), len(best.bins)) {
			best = t
		}
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

func (l *ledger) clone() *ledger {
	c := &ledger{order: l.order, pools: make(map[*world.Pool]*account, len(l.pools)), reserved: make(map[string]int, len(l.reserved))}
	for p, a := range l.pools {
		c.pools[p] = &account{limits: slices.Clone(a.limits), nodes: a.nodes}
	}
	for k, v := range l.reserved {
		c.reserved[k] = v
	}
	return c
}

// name numbers the new nodes within their pools, dearest first.
func (r *run) name(plan *Plan) {
	slices.SortStableFunc(plan.Nodes, func(a, b *NewNode) int {
		if c := strings.Compare(a.Pool.Name, b.Pool.Name); c != 0 {
			return c
		}
		switch {
		case a.Price() > b.Price():
			return -1
		case a.Price() < b.Price():
			return 1
		}
		if c := strings.Compare(a.Choices[0].Type.Name, b.Choices[0].Type.Name); c != 0 {
			return c
		}
		if c := strings.Compare(a.Choices[0].Offering.Zone, b.Choices[0].Offering.Zone); c != 0 {
			return c
		}
		return podOrder(a.Pods[0], b.Pods[0])
	})
	next := map[string]int{}
	for _, n := range plan.Nodes {
		next[n.Pool.Name]++
		n.Name = fmt.Sprintf("%s-%d", n.Pool.Name, next[n.Pool.Name])
		plan.Price += n.Price()
		plan.NodeCost += n.Pool.NodeCost
	}
}

func (r *run) fillExisting(plan *Plan) {
	for _, n := range r.order {
		plan.Existing = append(plan.Existing, &Filled{Node: r.m.snap.Nodes[n], Pods: r.touched[n].pods})
	}
	slices.SortFunc(plan.Existing, func(a, b *Filled) int { return strings.Compare(a.Node.Name, b.Node.Name) })
}
