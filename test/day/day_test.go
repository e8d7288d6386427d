package day

import (
	"fmt"
	"os"
	"testing"
	"time"

	"karpenter/internal/engine/world"
)

// small is a run that is over in a moment.
func small(p Policy, w Workload) Settings {
	s := Defaults(p, w, 7)
	s.Low, s.High, s.Length = 30, 100, 4*time.Hour
	return s
}

// Without consolidation nothing is evicted, and every node costs until it is empty.
func TestNobodyIsEvictedWithoutConsolidation(t *testing.T) {
	r, err := Run(small(None, Wide))
	if err != nil {
		t.Fatal(err)
	}
	if r.Evictions != 0 || !r.Rested || r.Over() < 1 {
		t.Errorf("%+v", r)
	}
}

func TestARunIsAFunctionOfItsSettings(t *testing.T) {
	for _, p := range []Policy{Ours, Upstream, Greedy} {
		set := small(p, Basic)
		set.Length = time.Hour
		a, err := Run(set)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Run(set)
		if err != nil {
			t.Fatal(err)
		}
		if *a != *b {
			t.Errorf("%s:\n%+v\n%+v", p, a, b)
		}
	}
}

// The scheduler keeps to every rule, whatever was planned.
func TestTheSchedulerKeepsToTheRules(t *testing.T) {
	s, err := newSim(small(Upstream, Wide))
	if err != nil {
		t.Fatal(err)
	}
	s.begin()
	for range 2 * time.Hour / s.Step {
		if err := s.step(); err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(s.Step)
		for _, n := range s.nodes {
			sum := world.Resources{}
			for _, p := range n.pods {
				sum = sum.Plus(s.classes[p.set.class].Requests)
				if (p.set.apart || p.set.perHost) && n.count[p.set.class] > 1 {
					t.Fatalf("%d pods of %s are on %s", n.count[p.set.class], p.set.name, n.name)
				}
			}
			if !sum.Fits(n.typ.Allocatable) {
				t.Fatalf("%s holds %v of %v", n.name, sum, n.typ.Allocatable)
			}
		}
	}
}

// Kubernetes deletes pending pods first, then those that share a node with others of the set, then the younger ones.
func TestVictims(t *testing.T) {
	s := &sim{now: midnight}
	r := &replicaSet{}
	crowded, lone := &node{count: map[int32]int{0: 2}}, &node{count: map[int32]int{0: 1}}
	add := func(n *node, age time.Duration) *pod {
		p := &pod{set: r, node: n, bound: midnight.Add(-age)}
		r.pods = append(r.pods, p)
		return p
	}
	old := add(lone, 24*time.Hour)
	young := add(lone, time.Minute)
	double := add(crowded, 24*time.Hour)
	pending := add(nil, 0)
	for i, p := range s.victims(r) {
		if want := []*pod{pending, double, young, old}[i]; p != want {
			t.Errorf("%d is %+v, want %+v", i, p, want)
		}
	}
}

// A day comes to rest at a cost near that of a fresh plan each hour, with far fewer restarts than without a price for them: without one,
// wide was at 275 evictions per pod and day. The bar is 0.3, which `go run ./test/bench --day` holds the figures against and which is not
// met: ReplicaSets delete pods evenly from all nodes, so that each node that goes has pods to move. What is asserted here is what must not
// be lost again. A decision every five minutes does for that; a long run (KARPENTER_TEST_LONG=1) has both workloads and more seeds.
func TestADayOfASineLoad(t *testing.T) {
	workloads, seeds := []Workload{Basic}, []uint64{7}
	if os.Getenv("KARPENTER_TEST_LONG") != "" {
		workloads, seeds = []Workload{Wide, Basic}, []uint64{7, 8, 9}
	}
	for _, w := range workloads {
		for _, seed := range seeds {
			t.Run(fmt.Sprintf("%s %d", w, seed), func(t *testing.T) {
				t.Parallel()
				set := Defaults(Ours, w, seed)
				set.Every, set.Most = max(set.Every, 5*time.Minute), 2
				r, err := Run(set)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("\n%s\n%s", Header(), r.Line(set))
				if perDay := r.PerPodDay(); perDay > 3 || r.Over() > 1.07 || !r.Rested {
					t.Errorf("%.2f evictions per pod and day, at most 3; cost %.3f of a fresh plan, at most 1.07; rested %v", perDay, r.Over(), r.Rested)
				}
			})
		}
	}
}
