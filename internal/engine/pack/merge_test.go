package pack

import (
	"maps"
	"math"
	"math/rand"
	"reflect"
	"testing"
)

// Nodes with one pod each are merged into fewer and cheaper ones: nothing is lost on the way, each node holds what is on it, and the
// ledger is what the nodes that are left take.
func TestMerge_TwoNodesBecomeACheaperOne(t *testing.T) {
	merges := 0
	for seed := range int64(300) {
		s := small(rand.New(rand.NewSource(seed)), 12, false)
		m := Prepare(s, Options{})
		r := m.newRun(s.Over(), &retryConstraints{quota: quotas{}, domains: map[domainKey]bool{}, hosts: map[int]bool{}})
		r.assign()
		p := r.problem(r.demands)
		start := p.with(nil)
		var bins []bin
		for i := range p.items {
			for range p.items[i].n {
				n := p.newNode(p.items[i].cells)
				n.add(int32(i))
				bins = start.accept(bins, n.cheapest(), make([]int, len(p.items)))
			}
		}
		on := func(list []bin) map[int32]int32 {
			out := map[int32]int32{}
			for _, b := range list {
				for _, g := range b.items {
					out[g.item] += g.n
				}
			}
			return out
		}
		before, total := on(bins), cost(bins)
		q := p.with(bins)
		x := &search{p: q, bins: bins, x: p.relax(nil, byCost), seed: 1}
		for range 100 {
			gain, _ := x.merge()
			if gain > 0 {
				merges++
			}
			total -= gain
		}
		if !maps.Equal(on(x.bins), before) || math.Abs(cost(x.bins)-total) > 1e-6 {
			t.Fatalf("seed %d: on the nodes are %v of %v; they cost %v, want %v", seed, on(x.bins), before, cost(x.bins), total)
		}
		for _, b := range x.bins {
			if _, size, _ := p.content(b.items); !fits(size, project(m.options[b.option].net, p.dimIndex)) {
				t.Fatalf("seed %d: a node does not hold %v", seed, b.items)
			}
		}
		if left := p.with(x.bins).ledger; !reflect.DeepEqual(left, q.ledger) {
			t.Fatalf("seed %d: the ledger is %v, want %v", seed, q.ledger, left)
		}
	}
	if merges < 200 {
		t.Errorf("only %d merges", merges)
	}
}
