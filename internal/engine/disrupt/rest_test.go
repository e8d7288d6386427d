package disrupt

import (
	"fmt"
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
