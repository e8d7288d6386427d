package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"karpenter/test/day"
)

// dayRuns are the runs of the table: every workload under both policies, for a few seeds, and once with a budget of 10 %.
func (b *bench) dayRuns() []day.Settings {
	seeds := []uint64{uint64(b.seed), uint64(b.seed) + 1, uint64(b.seed) + 2}
	if b.quick {
		seeds = seeds[:1]
	}
	var out []day.Settings
	for _, w := range []day.Workload{day.Wide, day.Basic} {
		for i, seed := range seeds {
			for _, p := range []day.Policy{day.Ours, day.Upstream} {
				set := day.Defaults(p, w, seed)
				set.Nominate = b.nominate
				out = append(out, set)
				if i == 0 {
					set.Budget = 0.1
					out = append(out, set)
				}
			}
		}
	}
	if b.only == "" {
		return out
	}
	var some []day.Settings
	for _, s := range out {
		if strings.HasPrefix(fmt.Sprintf("%s/%s/%d/%.0f%%", s.Workload, s.Policy, s.Seed, 100*s.Budget), b.only) {
			if b.trace {
				s.Trace, s.Moves = os.Stdout, true
			}
			some = append(some, s)
		}
	}
	return some
}

// days plays a day for each run, as many at once as there are cores, and says whether the bars hold.
func (b *bench) days() (bool, error) {
	type answer struct {
		*day.Result
		err  error
		took time.Duration
	}
	runs := b.dayRuns()
	answers := make([]chan answer, len(runs))
	cores := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, set := range runs {
		answers[i] = make(chan answer, 1)
		go func() {
			cores <- struct{}{}
			defer func() { <-cores }()
			begin := time.Now()
			r, err := day.Run(set)
			answers[i] <- answer{r, err, time.Since(begin)}
		}()
	}
	fmt.Println(day.Header())
	ok := true
	for i, set := range runs {
		a := <-answers[i]
		if a.err != nil {
			return false, fmt.Errorf("a day of %s under %s, seed %d: %w", set.Workload, set.Policy, set.Seed, a.err)
		}
		fmt.Printf("%s  (%.0f s)\n", a.Line(set), a.took.Seconds())
		if set.Policy != day.Ours {
			continue
		}
		for _, fault := range a.Misses() {
			ok = false
			fmt.Println("BROKEN ", fault)
		}
	}
	return ok, nil
}
