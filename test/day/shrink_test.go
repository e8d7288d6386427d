package day

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

func TestTryShrink(t *testing.T) {
	cost := 0.02
	if v := os.Getenv("RESTART"); v != "" {
		cost, _ = strconv.ParseFloat(v, 64)
	}
	for _, w := range []Workload{Wide, Basic} {
		for _, nominate := range []bool{true, false} {
			for seed := uint64(1); seed <= 2; seed++ {
				set := Defaults(Ours, w, seed)
				set.Step, set.Length, set.Low, set.Boot, set.Drain = 5*time.Second, 0, 1000, 5*time.Second, 5*time.Second
				set.Every, set.QuietFor, set.Nominate = 5*time.Second, 5*time.Second, nominate
				set.Restart = cost
				s, err := newSim(set)
				if err != nil {
					t.Fatal(err)
				}
				s.begin()
				nodes, price := len(s.nodes), s.price()
				s.Low = 700
				line := ""
				for k := range 180 {
					if err := s.step(); err != nil {
						t.Fatal(err)
					}
					s.now = s.now.Add(s.Step)
					if k%12 == 11 && k < 72 {
						line += fmt.Sprintf(" %d:%d/%.3f", (k+1)*5, s.out.Evictions, s.price()/s.fresh())
					}
				}
				fmt.Printf("%-6s nominate=%-5v seed %d: %d nodes $%.2f → %d nodes $%.2f = %.3f of fresh; %d evictions = %.3f a pod, %d launched, %d moves; acted last at %v |%s\n",
					w, nominate, seed, nodes, price, len(s.nodes), s.price(), s.price()/s.fresh(), s.out.Evictions, float64(s.out.Evictions)/700, s.out.Launched, s.out.Moves, s.acted.Sub(midnight), line)
			}
		}
	}
}
