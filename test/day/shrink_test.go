package day

import (
	"testing"
	"time"

	"karpenter/internal/engine/disrupt"
)

// A cluster that loses three pods in ten comes to rest after a few decisions, near the cost of a fresh plan, and moves few pods for
// that, although the scheduler puts them where it likes. Without a price for restarts it never did.
func TestScaleInComesToRest(t *testing.T) {
	const pods, left = 1000, 700
	for _, c := range []struct {
		workload Workload
		evicted  float64 // of the pods that are left
		over     float64 // the cost of a fresh plan
	}{{Wide, 0.3, 1.06}, {Basic, 0.25, 1.08}} {
		t.Run(string(c.workload), func(t *testing.T) {
			t.Parallel()
			set := Defaults(Ours, c.workload, 2)
			set.Step, set.Length, set.Low, set.Boot, set.Drain = 5*time.Second, 0, pods, 5*time.Second, 5*time.Second
			set.Every, set.QuietFor = 5*time.Second, 5*time.Second
			var s *sim
			rounds := map[time.Time]bool{} // moments at which pods were moved
			set.Accept = func(m *disrupt.Move) bool {
				if m.Evicts > 0 {
					rounds[s.now] = true
				}
				return true
			}
			var err error
			s, err = newSim(set)
			if err != nil {
				t.Fatal(err)
			}
			s.begin()
			before := s.price()
			s.Low = left
			for s.now.Sub(midnight) < 8*time.Minute {
				if err := s.step(); err != nil {
					t.Fatal(err)
				}
				s.now = s.now.Add(s.Step)
			}
			evicted, over, rested := float64(s.out.Evictions)/left, s.price()/s.fresh(), s.acted.Sub(midnight)
			t.Logf("$%.2f/h became $%.2f/h, %.3f of a fresh plan; %.3f evictions for each pod; %d rounds, the last action after %v", before, s.price(), over, evicted, len(rounds), rested)
			if evicted > c.evicted || over > c.over || rested > 2*time.Minute {
				t.Errorf("%.3f evictions for each pod, at most %.2f; %.3f of a fresh plan, at most %.2f; the last action after %v, at most 2m", evicted, c.evicted, over, c.over, rested)
			}
			if len(rounds) > 3 || s.out.Twice > 0 {
				t.Errorf("pods were moved in %d rounds, at most 3; %d of them twice, none may be", len(rounds), s.out.Twice)
			}
		})
	}
}
