package pack

import (
	"fmt"
	"math/rand"
	"sync"
	"testing"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// fleet builds a cluster of half-full nodes with pods of a few shapes.
func fleet(nodes, podsPerNode int) *world.Snapshot {
	rng := rand.New(rand.NewSource(1))
	s := &world.Snapshot{Resources: world.NewNames().List()}
	var types []*world.InstanceType
	for i, size := range []int64{4, 8, 16, 32} {
		for k, ratio := range []int64{2, 4, 8} {
			r := world.Resources{size * 1000, size * ratio << 30, 110}
			t := &world.InstanceType{Name: fmt.Sprintf("t%d-%d", i, k), Capacity: r, Allocatable: r}
			for _, z := range []string{"a", "b", "c"} {
				t.Offerings = append(t.Offerings, world.Offering{Zone: z, CapacityType: world.CapacityOnDemand, Price: float64(size) * (0.04 + 0.005*float64(ratio)), Available: true})
			}
			types = append(types, t)
		}
	}
	s.Pools = []*world.Pool{{Name: "general", MaxNodes: -1, Types: types, Need: req.NewSet(req.Is(world.LabelPool, "general")), Labels: world.Labels{{Key: world.LabelPool, Value: "general"}}}}
	for i := range 40 {
		c := &world.Class{ID: int32(i), Namespace: "default", Requests: world.Resources{int64(50 + rng.Intn(20)*25), int64(64+rng.Intn(16)*64) << 20, 1}}
		c.Labels = world.Labels{{Key: "app", Value: fmt.Sprint(i)}}
		if i%8 == 0 {
			sel := world.Selector{Some: true, Need: req.NewSet(req.Is("app", fmt.Sprint(i)))}
			c.Spread = []world.Spread{{Key: world.LabelZone, MaxSkew: 1000, Hard: true, Selector: sel, HonorAffinity: true}}
		}
		s.Classes = append(s.Classes, c)
	}
	for i := range nodes {
		t := types[rng.Intn(len(types))]
		n := &world.Node{Name: fmt.Sprintf("n%05d", i), Pool: "general", Initialized: true, Capacity: t.Capacity, Allocatable: t.Allocatable}
		n.Labels = world.NewLabels(map[string]string{world.LabelZone: string(rune('a' + i%3)), world.LabelInstanceType: t.Name, world.LabelPool: "general"})
		for k := range podsPerNode {
			n.Pods = append(n.Pods, &world.Pod{Name: fmt.Sprintf("p%d-%d", i, k), Class: int32(rng.Intn(40)), Movable: true})
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

func TestWhatIfsAreIndependent(t *testing.T) {
	s := fleet(60, 8)
	m := Prepare(s, Options{Quick: true})
	want := make([]string, len(s.Nodes))
	for i := range want {
		want[i] = dump(s, Prepare(s, Options{Quick: true}).Solve(s.Over().Without(int32(i))))
	}
	got := make([]string, len(want))
	var wg sync.WaitGroup
	for i := range got {
		wg.Add(1)
		go func() {
			defer wg.Done()
			got[i] = dump(s, m.Solve(s.Over().Without(int32(i))))
		}()
	}
	wg.Wait()
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("the answer about node %d depends on other questions:\n%s\n%s", i, want[i], got[i])
		}
	}
}

func TestP10_RemovedNodesPodsFindAnotherPlace(t *testing.T) {
	s := fleet(20, 4)
	plan := Prepare(s, Options{}).Solve(s.Over().Without(3, 7))
	if plan.Pods != 8 || plan.Placed != 8 {
		t.Errorf("%d of %d pods placed, want 8 of 8", plan.Placed, plan.Pods)
	}
	for _, e := range plan.Existing {
		if e.Node.Name == "n00003" || e.Node.Name == "n00007" {
			t.Errorf("pods go to %s, which is gone", e.Node.Name)
		}
	}
}

func TestNoNewNodesAsksOnlyWhatExists(t *testing.T) {
	s := fleet(3, 2)
	for i := range 500 {
		s.Pending = append(s.Pending, &world.Pod{Name: fmt.Sprint(i), Class: 1})
	}
	plan := Solve(s, Options{NoNewNodes: true})
	if len(plan.Nodes) > 0 || plan.Placed == 0 || plan.Placed == plan.Pods {
		t.Errorf("%d new nodes, %d of %d placed", len(plan.Nodes), plan.Placed, plan.Pods)
	}
}

// BenchmarkWhatIf asks what would become of one node's pods in a cluster of 5,000 nodes.
func BenchmarkWhatIf(b *testing.B) {
	s := fleet(5000, 20)
	m := Prepare(s, Options{Quick: true, NoNewNodes: false})
	i := int32(0)
	for b.Loop() {
		m.Solve(s.Over().Without(i % 5000))
		i++
	}
}

// BenchmarkOnePending plans one pod in a cluster of 5,000 nodes and 100,000 pods, from a new snapshot.
func BenchmarkOnePending(b *testing.B) {
	s := fleet(5000, 20)
	for _, n := range s.Nodes {
		n.Load(s.Classes)
	}
	s.Pending = []*world.Pod{{Name: "new", Class: 8}}
	for b.Loop() {
		Solve(s, Options{})
	}
}
