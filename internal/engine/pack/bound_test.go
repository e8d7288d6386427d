package pack

import (
	"math/rand"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"karpenter/internal/engine/world"
)

// proven packs a snapshot and returns what the master proves of it by price and in all, with the problem that it proves it of. ok is
// false if limits leave something out.
func proven(s *world.Snapshot) (price, cost float64, q *problem, ok bool) {
	m := Prepare(s, Options{})
	r := m.newRun(s.Over(), &retryConstraints{quota: quotas{}, domains: map[domainKey]bool{}, hosts: map[int]bool{}})
	r.assign()
	outcomes := r.pack()
	if len(outcomes) != 1 || r.refused(outcomes, true) {
		return 0, 0, nil, false
	}
	o := outcomes[0]
	q, from := r.certain(o.p)
	q.ledger, q.plain = m.newLedger(r.ov), false // reservations may be in domains that were not chosen
	var out [2]float64
	for k, by := range []measure{byPrice, byCost} {
		if x := q.newMaster(by, m.newLedger(r.ov)); x != nil {
			x.start(o.bins, from)
			x.run()
			out[k] = x.bound()
		}
	}
	return out[0], out[1], q, true
}

// withGPUs gives some of the types GPUs, which some of the classes ask for.
func withGPUs(s *world.Snapshot, draw func(n int) int) {
	names := world.NewNames()
	gpu := names.Index("nvidia.com/gpu")
	s.Resources = names.List()
	with := func(r world.Resources, n int) world.Resources {
		out := make(world.Resources, gpu+1)
		copy(out, r)
		out[gpu] = int64(n)
		return out
	}
	for _, t := range s.Pools[0].Types { // pools share them
		if n := draw(4); n > 0 {
			t.Allocatable, t.Capacity = with(t.Allocatable, n), with(t.Capacity, n)
			for k := range t.Offerings {
				t.Offerings[k].Price += 0.3 * float64(n)
			}
		}
	}
	for _, c := range s.Classes {
		if n := draw(3) - 1; n > 0 {
			c.Requests = with(c.Requests, n)
		}
	}
}

// However small the batch: the best way that there is costs no less than what the master proves, under limits, minValues, reservations,
// host rules and preferences, with GPUs and without.
func TestPropertyMasterProvesNoMoreThanTheBestPlanCosts(t *testing.T) {
	tight, looked := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := genWorld(t)
		for _, p := range s.Pools {
			p.NodeCost = rapid.SampledFrom([]float64{0, 0.005, 0.3}).Draw(t, "cost")
		}
		for i, it := range s.Pools[0].Types {
			if left := rapid.IntRange(-4, 3).Draw(t, "reserved"); left > 0 {
				it.Offerings = append(it.Offerings, world.Offering{
					Zone: "a", CapacityType: world.CapacityReserved, Price: 0.001, Available: true, Reservation: string(rune('a' + i)), Remaining: left,
				})
			}
		}
		if rapid.Bool().Draw(t, "gpus") {
			withGPUs(s, func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "gpu") })
		}
		price, cost, q, ok := proven(s)
		if !ok || q.copies() > maxExact {
			return
		}
		before := q.ledger.clone()
		bins, left, parts, ok := q.freely()
		if !ok {
			bins, left = q.solve(Options{})
			*q.ledger = *before
			if some, rest, better := q.within([]outcome{{q, bins, left}}, parts, maxWork); better {
				bins, left = some, rest
			}
		}
		if slices.Max(left) > 0 {
			return
		}
		least, sum := 0.0, 0.0
		for i := range bins {
			least, sum = least+q.m.options[bins[i].option].price, sum+bins[i].cost
		}
		if price > least*(1+1e-9)+1e-12 || cost > sum*(1+1e-9)+1e-12 {
			t.Fatalf("proven: $%.6f/h, with the nodes' own cost %.6f; but there is a plan for %.6f and %.6f", price, cost, least, sum)
		}
		looked++
		if cost > 0.9*sum {
			tight++
		}
	})
	t.Logf("within 10 %% of the best in %d of %d", tight, looked)
}

// The same against a search that shares no code with the engine.
func TestMasterProvesNoMoreThanBruteForceFinds(t *testing.T) {
	for seed := range int64(20) {
		s := small(rand.New(rand.NewSource(seed)), 6, seed%2 == 0)
		_, cost, _, ok := proven(s)
		if !ok {
			continue
		}
		if _, least := brute(s); cost > least*(1+1e-9) {
			t.Errorf("seed %d: $%.6f/h is proven, but there is a plan for $%.6f/h", seed, cost, least)
		}
	}
}

// Of a few pods the bound is what the best way costs that there is: a plan says of itself that nothing is cheaper. Limits that leave only
// dearer ways are not part of it.
func TestBoundOfAFewPodsIsTheBestPlan(t *testing.T) {
	exact, looked := 0, 0
	for seed := range int64(50) {
		s := small(rand.New(rand.NewSource(seed)), 5, false)
		for _, p := range s.Pools {
			p.NodeCost = 0.01 * float64(seed%3)
		}
		plan := Solve(s, Options{})
		if plan.Placed < plan.Pods || len(plan.Nodes) == 0 {
			continue
		}
		_, least := brute(s)
		if plan.CostBound > least*(1+1e-9) || plan.Bound > plan.Price*(1+1e-9) {
			t.Errorf("seed %d: the bound is $%.6f/h, but there is a plan for $%.6f/h", seed, plan.CostBound, least)
		}
		looked++
		if plan.CostBound >= least*0.999 {
			exact++
		}
	}
	if looked < 30 || exact < looked*9/10 {
		t.Errorf("the bound is the cost of the best plan in %d of %d", exact, looked)
	}
	t.Logf("the bound is the cost of the best plan in %d of %d", exact, looked)
}

// Two pods of seven GPUs need two nodes with that many: what GPUs cost by the piece says little of it.
func TestBoundOfPodsThatFillNodesUnevenly(t *testing.T) {
	s := shapes(0.005)
	names := world.NewNames()
	names.Index("nvidia.com/gpu")
	s.Resources = names.List()
	for k, it := range s.Pools[0].Types { // one in three has GPUs, up to ten
		if k%3 > 0 {
			continue
		}
		n := int64(1 + k/3)
		it.Allocatable = append(append(world.Resources{}, it.Allocatable...), 0, n)
		it.Capacity = it.Allocatable
		for i := range it.Offerings {
			it.Offerings[i].Price += 0.5 * float64(n)
		}
	}
	s.Classes = append(s.Classes, &world.Class{ID: 2, Namespace: "default", Requests: world.Resources{500, gib, 1, 0, 7}})
	s.Pending = append(equalPods(2, 0, 20), equalPods(0, 0, 40)...)
	plan := Solve(s, Options{})
	if over := (plan.Price+plan.NodeCost)/plan.CostBound - 1; plan.Placed != 60 || over > 0.03 {
		t.Errorf("%d pods for $%.4f/h, %.1f %% above the bound", plan.Placed, plan.Price, 100*over)
	}
}
