package sim

import (
	"flag"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

var (
	sickSeeds   = flag.Uint64("sick", 4, "how many seeds TestN6_N7_Seeds plays")
	sickCrashes = flag.Int("sickcrashes", 2, "at how many effects TestN6_N7_CrashPoints crashes the controller; 0 for all")
)

// TestN6_N7_Seeds plays seeds in which nodes come down with something and are rebooted or replaced; the first of them twice.
func TestN6_N7_Seeds(t *testing.T) {
	var broken, reboots, moves atomic.Int64
	each(t, int(*sickSeeds), func(i int) {
		seed, began := *from+uint64(i), time.Now()
		play := func(workers int) *World {
			plan := Sick(seed)
			plan.Workers = workers
			w, err := Play(plan, history(), nil)
			if err != nil {
				broken.Add(1)
				t.Errorf("seed %d: %v\n%s", seed, err, plan)
				return nil
			}
			return w
		}
		w := play(1)
		if w == nil {
			return
		}
		for _, times := range w.reboots {
			reboots.Add(int64(len(times)))
		}
		moves.Add(int64(w.repaired))
		t.Logf("seed %d: %d effects, %d crashes, %d faults, %d instances rebooted, %d nodes replaced as unhealthy, history %s, %v", seed, w.effects, w.crashed, w.Faults, len(w.reboots), w.repaired, w.Hash(), time.Since(began).Round(time.Millisecond))
		if i == 0 {
			if again := play(8); again != nil && again.Hash() != w.Hash() {
				t.Errorf("seed %d: history %s, and then %s", seed, w.Hash(), again.Hash())
			}
		}
	})
	if reboots.Load() == 0 && *sickSeeds >= 4 {
		t.Error("nothing was rebooted")
	}
	t.Logf("| N6, N7: seeds with sick nodes; %d reboots, %d replaced | %d | %d |", reboots.Load(), moves.Load(), *sickSeeds, broken.Load())
}

// TestN6_N7_CrashPoints has one node rebooted and one replaced, and crashes the controller at what it does from then on, before and after it
// takes effect.
func TestN6_N7_CrashPoints(t *testing.T) {
	before := 0
	whole, err := Play(OneReboot(*from+1), history(), func(w *World) error {
		if w.Elapsed() <= repairsDue {
			before = w.effects
		}
		return nil
	})
	if err != nil {
		t.Fatalf("without a crash: %v\n%s", err, OneReboot(*from+1))
	}
	if len(whole.reboots) != 1 || whole.repaired != 1 {
		t.Fatalf("%d instances were rebooted and %d replaced, not one each", len(whole.reboots), whole.repaired)
	}
	points := whole.eventful - before
	step := 1
	if *sickCrashes > 0 {
		step = max(1, points / *sickCrashes)
	}
	var crashing []*Plan
	for at := 1; at <= points; at += step {
		for _, when := range []string{"before", "after"} {
			crashing = append(crashing, OneReboot(*from+1, fmt.Sprintf("%d %s", at, when)))
		}
	}
	var crashed, broken atomic.Int64
	each(t, len(crashing), func(i int) {
		w, err := Play(crashing[i], history(), nil)
		if err != nil {
			broken.Add(1)
			t.Errorf("%v\n%s", err, crashing[i])
		}
		if err == nil && (len(w.reboots) == 0 || w.repaired == 0) {
			broken.Add(1)
			t.Errorf("N6: %d instances were rebooted and %d nodes replaced\n%s", len(w.reboots), w.repaired, crashing[i])
		}
		if w != nil {
			crashed.Add(int64(w.crashed))
		}
	})
	if most := int64(max(1, len(crashing)/10)); int64(len(crashing))-crashed.Load() > most { // the last call may be answered when nothing goes wrong any more
		t.Errorf("%d of %d crash points crashed", crashed.Load(), len(crashing))
	}
	t.Logf("| N6, N7: crash points of a reboot and a replacement | %d | %d |", crashed.Load(), broken.Load())
}
