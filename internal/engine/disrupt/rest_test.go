package disrupt

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"karpenter/internal/engine/world"
)

// Decisions come to rest: each that is carried out lowers what the fleet costs, none moves a pod that has not paid for its last move, and
// after a few of them there is nothing left to do.
func TestPropertyDecisionsComeToRest(t *testing.T) {
	const most, payback, pause = 8, 10 * time.Minute, 4 * time.Minute
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		in.World.Pending = nil
		for i := range in.Nodes {
			in.Nodes[i].Drift, in.Nodes[i].Illness = "", nil // these go whatever it costs
			in.Nodes[i].Restart = float64(len(in.World.Nodes[i].Pods)) * DefaultRestartCost / 10
		}
		for i := range in.Pools {
			in.Pools[i].Horizon = DefaultHorizon
		}
		w := &week{in: in, line: map[string][]string{}}
		opt := Options{SpotToSpot: rapid.Bool().Draw(t, "spot"), group: rapid.IntRange(1, 6).Draw(t, "group"), whole: rapid.IntRange(1, 20).Draw(t, "whole")}
		moved := map[string]time.Time{}
		now, trace := noon, ""
		for round := 0; ; round++ {
			d := Decide(w.in, opt, now)
			trace += fmt.Sprintf("round %d: $%.4f/h → $%.4f/h\n%s\n", round, d.Before, d.After, dump(w.in, d))
			if len(d.Moves) == 0 && now.Sub(noon) > 2*payback {
				break
			}
			if len(d.Moves) > 0 && d.After >= d.Before && d.Before > 0 {
				t.Fatalf("round %d does not lower the cost\n%s", round, trace)
			}
			if round >= most+int(2*payback/pause) {
				t.Fatalf("it does not come to rest\n%s", trace)
			}
			for _, m := range d.Moves {
				for _, p := range m.Order {
					if at, ok := moved[p.UID]; ok && now.Sub(at) < payback {
						t.Fatalf("pod %s is moved twice within %v\n%s", p.UID, now.Sub(at), trace)
					}
					moved[p.UID] = now
				}
			}
			w.carryOut(d, now)
			now = now.Add(pause)
			w.remember(moved, payback, now)
		}
	})
}

// remember notes on the nodes which pods have not paid for their last move.
func (w *week) remember(moved map[string]time.Time, payback time.Duration, now time.Time) {
	for i, n := range w.in.World.Nodes {
		f := &w.in.Nodes[i]
		f.Unpaid, f.Restart = "", float64(len(n.Pods))*DefaultRestartCost/10
		for _, p := range n.Pods {
			if at, ok := moved[p.UID]; ok && now.Sub(at) < payback {
				f.Unpaid = "a pod was moved"
			}
		}
	}
}

// Whatever the cluster: no move for cost launches what it removes (D35).
func TestD35_NothingIsLaunchedThatIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		d := Decide(in, Options{SpotToSpot: rapid.Bool().Draw(t, "spot"), group: rapid.IntRange(1, 6).Draw(t, "group"), whole: rapid.IntRange(1, 20).Draw(t, "whole")}, noon)
		for _, m := range d.Moves {
			if m.Reason != Underutilized {
				continue
			}
			for _, n := range m.Add {
				for _, i := range m.Remove {
					old, c := in.World.Nodes[i], n.Choices[0]
					label := func(key string) string { v, _ := old.Labels.Get(key); return v }
					if old.Pool == n.Pool.Name && label(world.LabelInstanceType) == c.Type.Name && label(world.LabelZone) == c.Offering.Zone && label(world.LabelCapacityType) == c.Offering.CapacityType && c.Offering.Reservation == "" {
						t.Fatalf("%s is launched again\n%s", c.Type.Name, dump(in, d))
					}
				}
			}
		}
	})
}

// Of equal pods, those have room first that are on nodes which cost most, not the oldest: else nodes are launched for what there was room for.
func TestRoomGoesToPodsOfTheDearestNodes(t *testing.T) {
	in := pair(0)
	s, big, small := in.World, in.World.Pools[0].Types[0], in.World.Pools[0].Types[1]
	s.Nodes, in.Nodes = nil, nil
	s.Classes = []*world.Class{{ID: 0, Namespace: "default", Requests: world.Resources{2000, 8 << 30, 1}}, {ID: 1, Namespace: "default", Requests: world.Resources{1900, 8 << 30, 1}}}
	in.Pools[0].Allowed = map[Reason]int{Empty: 100, Underutilized: 100}
	add := func(kind string, count int, typ *world.InstanceType, class int32, created int64, fixed string) {
		for i := range count {
			id := fmt.Sprint(kind, i)
			s.Nodes = append(s.Nodes, &world.Node{
				Name: id, Pool: "general", Initialized: true, Capacity: typ.Capacity, Allocatable: typ.Allocatable, Price: typ.Offerings[0].Price,
				Pods:   []*world.Pod{{Name: id, UID: id, Class: class, Created: created, Movable: true}},
				Labels: world.NewLabels(map[string]string{world.LabelPool: "general", world.LabelInstanceType: typ.Name, world.LabelZone: "a", world.LabelCapacityType: world.CapacityOnDemand}),
			})
			in.Nodes = append(in.Nodes, Node{Consolidatable: true, Cost: 2, Fixed: fixed})
		}
	}
	add("cheap", 40, small, 0, 1, "")
	add("dear", 20, big, 0, 2, "")
	add("host", 24, big, 1, 1, "stays")
	d := Decide(in, Options{}, noon)
	dear, launched := 0, 0
	for _, m := range d.Moves {
		launched += len(m.Add)
		for _, name := range m.Nodes {
			if strings.HasPrefix(name, "dear") {
				dear++
			}
		}
	}
	if dear != 20 || launched > 0 || d.NodesAfter != 60 {
		t.Errorf("%d of 20 dear nodes go, %d nodes are launched, %d remain\n%s", dear, launched, d.NodesAfter, dump(in, d))
	}
}
