package disrupt

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// pair is a cluster of two nodes of which one can go: its pods fit on the other.
func pair(podsOnSecond int) *Input {
	size := world.Resources{4000, 16 << 30, 20}
	typ := &world.InstanceType{Name: "big", Capacity: size, Allocatable: size, Offerings: []world.Offering{{Zone: "a", CapacityType: world.CapacityOnDemand, Price: 0.2, Available: true}}}
	half := world.Resources{2000, 8 << 30, 20}
	small := &world.InstanceType{Name: "small", Capacity: half, Allocatable: half, Offerings: []world.Offering{{Zone: "a", CapacityType: world.CapacityOnDemand, Price: 0.1, Available: true}}}
	s := &world.Snapshot{Resources: world.NewNames().List()}
	s.Pools = []*world.Pool{{Name: "general", MaxNodes: -1, Types: []*world.InstanceType{typ, small}, Need: req.NewSet(req.Is(world.LabelPool, "general")), Labels: world.Labels{{Key: world.LabelPool, Value: "general"}}}}
	s.Classes = []*world.Class{{ID: 0, Namespace: "default", Requests: world.Resources{1000, 1 << 30, 1}}}
	in := &Input{World: s, Pools: []Pool{{Name: "general", Policy: WhenEmptyOrUnderutilized, Allowed: map[Reason]int{Empty: 5, Drifted: 5, Underutilized: 5}}}}
	for i, pods := range []int{1, podsOnSecond} {
		n := &world.Node{Name: fmt.Sprintf("n%d", i+1), Pool: "general", Initialized: true, Capacity: size, Allocatable: size, Price: 0.2}
		n.Labels = world.NewLabels(map[string]string{world.LabelPool: "general", world.LabelInstanceType: "big", world.LabelZone: "a", world.LabelCapacityType: world.CapacityOnDemand})
		for k := range pods {
			id := fmt.Sprintf("p%d-%d", i+1, k)
			n.Pods = append(n.Pods, &world.Pod{Name: id, UID: id, Movable: true})
		}
		s.Nodes = append(s.Nodes, n)
		in.Nodes = append(in.Nodes, Node{Consolidatable: true, Cost: 1 + float64(pods)})
	}
	return in
}

// later is the cluster a moment later, when something has changed.
func later(in *Input, change func(*Input)) *Input {
	out, s := *in, *in.World
	out.World = &s
	s.Nodes, out.Nodes, out.Pools = slices.Clone(s.Nodes), slices.Clone(in.Nodes), slices.Clone(in.Pools)
	change(&out)
	return &out
}

func TestD50_HoldsLooksAtTheStateOfTheMoment(t *testing.T) {
	more := func(in *Input, node int, ids ...string) {
		pods := slices.Clone(in.World.Nodes[node].Pods)
		for _, id := range ids {
			pods = append(pods, &world.Pod{Name: id, UID: id, Movable: true})
		}
		in.World.Nodes[node] = withPods(in.World.Nodes[node], pods)
	}
	tests := []struct {
		name   string
		second int // pods on the second node
		change func(*Input)
		want   string
	}{
		{"nothing has changed", 2, func(*Input) {}, ""},
		{"the node is gone", 2, func(in *Input) { in.World.Nodes, in.Nodes = in.World.Nodes[1:], in.Nodes[1:] }, "node n1 was deleted"},
		{"D51 a pod has come", 2, func(in *Input) { more(in, 0, "new") }, "pod default/new was bound to node n1"},
		{"D51 do-not-disrupt", 2, func(in *Input) { in.Nodes[0].PodsFixed = "pod x forbids it" }, "pod x forbids it"},
		{"D51 consolidateAfter begins anew", 2, func(in *Input) { in.Nodes[0].Consolidatable = false }, "not Consolidatable yet"},
		{"the budget is used up", 2, func(in *Input) { in.Pools[0].Allowed = map[Reason]int{} }, "allow no more nodes"},
		{"a disruption budget is used up", 2, func(in *Input) {
			in.Guarded = []int32{0}
			in.Nodes[0].Guards = []Guard{{0, 1}}
		}, "PodDisruptionBudget"},
		{"the policy has changed", 2, func(in *Input) { in.Pools[0].Policy = WhenEmpty }, "empty nodes only"},
		{"the room is taken", 2, func(in *Input) { more(in, 1, "a", "b") }, "no longer fits on node n2"},
		{"the target is leaving", 2, func(in *Input) {
			n := withPods(in.World.Nodes[1], in.World.Nodes[1].Pods)
			n.Deleting = true
			in.World.Nodes[1] = n
		}, "pool general is not at rest"},
		{"N6 the target has become unhealthy", 2, func(in *Input) { in.Nodes[1].Illness = &Illness{What: "Ready is False", Due: noon.Add(time.Hour)} }, "node n2, which was to receive pods, is no longer healthy"},
		{"a pod has gone", 2, func(in *Input) { in.World.Nodes[1] = withPods(in.World.Nodes[1], nil) }, ""},
		{"a replacement holds", 4, func(*Input) {}, ""},
		{"the replacement is out of stock", 4, func(in *Input) {
			p := *in.World.Pools[0].Types[1]
			p.Offerings = []world.Offering{{Zone: "a", CapacityType: world.CapacityOnDemand, Price: 0.1}}
			in.World.Pools = []*world.Pool{{Name: "general", MaxNodes: -1, Types: []*world.InstanceType{in.World.Pools[0].Types[0], &p}}}
		}, "to be had any more"},
		{"the replacement is no cheaper any more", 4, func(in *Input) {
			p := *in.World.Pools[0].Types[1]
			p.Offerings = []world.Offering{{Zone: "a", CapacityType: world.CapacityOnDemand, Price: 0.3, Available: true}}
			in.World.Pools = []*world.Pool{{Name: "general", MaxNodes: -1, Types: []*world.InstanceType{in.World.Pools[0].Types[0], &p}}}
		}, "saves nothing any more"},
		{"the pool cannot be used any more", 4, func(in *Input) {
			in.World.Pools = []*world.Pool{{Name: "general", MaxNodes: -1, Refused: "is not ready"}}
		}, "cannot be used"},
		{"its pods are gone, and nothing needs to be launched", 4, func(in *Input) { in.World.Nodes[0] = withPods(in.World.Nodes[0], nil) }, "are gone"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := pair(test.second)
			in.Nodes[1].Fixed = "stays"
			d := Decide(in, Options{}, noon)
			if len(d.Moves) != 1 || d.Moves[0].Nodes[0] != "n1" {
				t.Fatalf("no move to hold:\n%s", dump(in, d))
			}
			r, ok := Holds(later(in, test.change), d.Moves[0], Options{}, noon)
			if ok != (test.want == "") || !strings.Contains(r.Line(), test.want) {
				t.Errorf("holds %v: %q, want %q", ok, r.Line(), test.want)
			}
		})
	}
}

// What one move uses up is not there for the next.
func TestD50_MovesAreHeldTogether(t *testing.T) {
	in := pair(1)
	d := Decide(in, Options{}, noon)
	if len(d.Moves) != 1 {
		t.Fatal(dump(in, d))
	}
	c := NewCheck(in, Options{}, noon)
	if r, ok := c.Holds(d.Moves[0]); !ok {
		t.Fatal(r.Line())
	}
	if _, ok := c.Holds(d.Moves[0]); ok {
		t.Error("the same move holds twice")
	}
}

// A cluster that nothing happens to comes to rest: what moves have made is not moved again for nothing.
func TestAQuietClusterComesToRest(t *testing.T) {
	w := newWeek(3, func(*rand.Rand) float64 { return 1 }, true)
	now := noon
	for pass := range 10 {
		d := Decide(w.in, Options{SpotToSpot: true, Turn: pass}, now)
		if len(d.Moves) == 0 {
			if pass > 4 {
				t.Errorf("rest after %d passes", pass)
			}
			return
		}
		w.carryOut(d, now)
		now = now.Add(5 * time.Minute)
	}
	t.Errorf("no rest after 10 passes, %d moves and %d evictions", w.moves, w.evictions)
}

func FuzzDecide(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		in := genInput(t)
		d := Decide(in, Options{SpotToSpot: true}, noon)
		if faults := audit(in, d); len(faults) > 0 {
			t.Fatal(faults)
		}
	}))
}

// A node that is removed is a host that pods are spread over until it is gone: kube-scheduler would bind its pod to no node that has one
// already, and another node would be launched for it.
func TestD26_AHostThatIsRemovedCountsForTheSpreadUntilItIsGone(t *testing.T) {
	for _, c := range []struct {
		name   string
		honors bool
		moves  int
	}{
		{"taints are ignored", false, 0},
		{"tainted nodes do not count", true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := pair(1)
			in.World.Pools[0].Types = in.World.Pools[0].Types[:1] // nothing is cheaper
			class := in.World.Classes[0]
			class.Labels = world.NewLabels(map[string]string{"app": "a"})
			class.Spread = []world.Spread{{Key: world.LabelHostname, MaxSkew: 1, Hard: true, HonorTaints: c.honors, Selector: world.Selector{Some: true, Need: req.NewSet(req.Is("app", "a"))}}}
			if d := Decide(in, Options{}, noon); len(d.Moves) != c.moves {
				t.Errorf("%d moves; want %d\n%s", len(d.Moves), c.moves, dump(in, d))
			}
		})
	}
}
