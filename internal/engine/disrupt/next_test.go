package disrupt

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"karpenter/internal/engine/world"
)

// fives is a pool of five nodes with room for four pods each, with so many pods on them.
func fives(pods ...int) *Input {
	in := pair(0)
	like := in.World.Nodes[0]
	in.World.Nodes, in.Nodes = nil, nil
	for i, count := range pods {
		n := withPods(like, nil)
		n.Name = fmt.Sprintf("n%d", i+1)
		for k := range count {
			id := fmt.Sprintf("p%d-%d", i+1, k)
			n.Pods = append(n.Pods, &world.Pod{Name: id, UID: id, Movable: true})
		}
		in.World.Nodes = append(in.World.Nodes, n)
		in.Nodes = append(in.Nodes, Node{Consolidatable: true, Cost: 1 + float64(count), Restart: float64(count) * DefaultRestartCost})
	}
	in.Pools[0].Horizon = DefaultHorizon
	return in
}

func names(in *Input, nodes []int32) (out []string) {
	for _, i := range nodes {
		out = append(out, in.World.Nodes[i].Name)
	}
	return out
}

func TestN9_NextIsWhatThePlanRemoves(t *testing.T) {
	drifted := func(node int, ago time.Duration) func(*Input) {
		return func(in *Input) { in.Nodes[node].Drift, in.Nodes[node].DriftedAt = "AMIDrift", noon.Add(-ago) }
	}
	allow := func(reason Reason, nodes int) func(*Input) {
		return func(in *Input) {
			in.Pools[0].Allowed = map[Reason]int{Empty: 5, Drifted: 5, Underutilized: 5}
			in.Pools[0].Allowed[reason] = nodes
		}
	}
	for _, c := range []struct {
		name   string
		pods   []int
		change []func(*Input)
		want   []string
	}{
		{"the plan removes two and fills one; the full ones follow", []int{4, 1, 2, 1, 4}, nil, []string{"n2", "n4", "n1", "n5"}},
		{"nothing is planned: the most wasteful first", []int{4, 3, 4, 3, 4}, []func(*Input){func(in *Input) { in.World.Pools[0].Types = in.World.Pools[0].Types[:1] }}, []string{"n2", "n4", "n1", "n3", "n5"}},
		{"drifted nodes come first, the oldest drift before the others; n2 is filled", []int{4, 1, 4, 4, 4}, []func(*Input){drifted(0, time.Hour), drifted(4, 2*time.Hour)}, []string{"n5", "n1", "n3", "n4"}},
		{"budgets for drift", []int{4, 1, 4, 4, 4}, []func(*Input){drifted(0, time.Hour), drifted(4, 2*time.Hour), allow(Drifted, 1)}, []string{"n5", "n3", "n4"}},
		{"budgets for consolidation", []int{4, 1, 2, 1, 4}, []func(*Input){allow(Underutilized, 1)}, []string{"n2"}},
		{"no budget", []int{4, 1, 2, 1, 4}, []func(*Input){allow(Underutilized, 0)}, nil},
		{"a pool in motion", []int{4, 1, 2, 1, 4}, []func(*Input){func(in *Input) { in.Pools[0].Hold = "3 pods are just created" }}, []string{"n2", "n4", "n1", "n5"}},
		{"nodes that are not quiet yet", []int{4, 1, 2, 1, 4}, []func(*Input){func(in *Input) {
			for i := range in.Nodes {
				in.Nodes[i].Consolidatable = false
			}
		}}, []string{"n2", "n4", "n1", "n5"}},
		{"nodes that are not to be touched", []int{4, 1, 2, 1, 4}, []func(*Input){func(in *Input) { in.Nodes[1].Fixed, in.Nodes[3].PodsFixed = "stays", "stays" }}, []string{"n3", "n1", "n5"}},
		{"consolidation is off", []int{4, 1, 2, 1, 4}, []func(*Input){func(in *Input) { in.Pools[0].Never = true }}, nil},
		{"a fixed number of nodes", []int{4, 1, 2, 1, 4}, []func(*Input){func(in *Input) { in.Pools[0].Static = true }}, nil},
		{"only empty nodes are removed: the most wasteful may become so", []int{4, 1, 2, 1, 4}, []func(*Input){func(in *Input) { in.Pools[0].Policy = WhenEmpty }, allow(Empty, 3)}, []string{"n2", "n4", "n3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := fives(c.pods...)
			for _, change := range c.change {
				change(in)
			}
			before := slices.Clone(in.Nodes)
			if diff := cmp.Diff(c.want, names(in, Next(in, Options{}, noon))); diff != "" {
				t.Errorf("%s\n%s", diff, dump(in, Decide(rested(in), Options{}, noon)))
			}
			if diff := cmp.Diff(before, in.Nodes); diff != "" {
				t.Errorf("the question has been changed: %s", diff)
			}
		})
	}
}

// Next has every node that a decision removes and none that it fills, each once, none that must stay, and no more than budgets allow.
func TestPropertyN9_NextFollowsThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rested(genInput(t))
		opt := Options{SpotToSpot: rapid.Bool().Draw(t, "spot"), group: rapid.IntRange(1, 6).Draw(t, "group"), whole: rapid.IntRange(1, 20).Draw(t, "whole")}
		next, d := Next(in, opt, noon), Decide(in, opt, noon)
		fail := func(format string, args ...any) {
			t.Helper()
			t.Fatalf("%s\n%v\n%s", fmt.Sprintf(format, args...), names(in, next), dump(in, d))
		}
		if len(slices.Compact(slices.Sorted(slices.Values(next)))) != len(next) {
			fail("a node is listed twice")
		}
		count, most := map[string]int{}, map[string]int{}
		for _, p := range in.Pools {
			most[p.Name] = max(p.Allowed[Empty], p.Allowed[Drifted], p.Allowed[Underutilized], p.Allowed[Unhealthy])
		}
		for _, i := range next {
			n := in.World.Nodes[i]
			ill := in.Nodes[i].Illness // repair has rules of its own: see audit
			if ill != nil && !ill.Due.After(noon) && !n.Initialized {
				continue
			}
			if count[n.Pool]++; count[n.Pool] > most[n.Pool] {
				fail("more nodes of pool %s than any budget allows", n.Pool)
			}
			if in.Nodes[i].Fixed != "" && ill == nil {
				fail("node %s must stay: %s", n.Name, in.Nodes[i].Fixed)
			}
		}
		for _, m := range d.Moves {
			for _, i := range m.Remove {
				if !slices.Contains(next, i) {
					fail("node %s is removed and not listed", in.World.Nodes[i].Name)
				}
			}
			for _, f := range m.Filled {
				if i := slices.Index(in.World.Nodes, f.Node); i >= 0 && slices.Contains(next, int32(i)) {
					fail("node %s is filled and listed", f.Node.Name)
				}
			}
		}
	})
}
