package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/test/day"
)

// dayOptions is what a run is told about days in virtual time.
type dayOptions struct {
	on, trace      bool
	only           string
	every, ahead   time.Duration
	slack, worth   float64
	deletion, pins bool
}

func (o *dayOptions) flags() {
	flag.BoolVar(&o.on, "day", false, "play a day of a cluster in virtual time, and nothing else")
	flag.StringVar(&o.only, "only", "", "with --day: the runs whose workload/policy/seed/budget begins so, such as wide/ours/7/100%")
	flag.BoolVar(&o.trace, "trace", false, "with --day: print every hour and every move")
	flag.DurationVar(&o.every, "every", 0, "with --day: least time between two decisions of ours, if not the default")
	flag.Float64Var(&o.slack, "slack", 0, "with --day: how far above a fresh plan the greedy policy lets cost go, if not the default")
	flag.Float64Var(&o.worth, "worth", 0, "with --day: moves of ours that save less than so many dollars an hour for each eviction are left out")
	flag.DurationVar(&o.ahead, "ahead", 0, "with --day: provisioning plans for pods that workloads are expected to make in that time")
	flag.BoolVar(&o.deletion, "deletion-cost", false, "with --day: workloads delete pods of nodes first that are to be removed, as with PodDeletionCostManagement")
	flag.BoolVar(&o.pins, "nominate", false, "with --day: the scheduler tries the node first that a pod was planned for")
}

// dayRuns are the runs of the table: every workload under every policy, for a few seeds, and once with a budget of 10 %.
func (b *bench) dayRuns() []day.Settings {
	seeds := []uint64{uint64(b.seed), uint64(b.seed) + 1, uint64(b.seed) + 2}
	if b.quick {
		seeds = seeds[:1]
	}
	var out []day.Settings
	for _, w := range []day.Workload{day.Wide, day.Basic} {
		for i, seed := range seeds {
			for _, p := range []day.Policy{day.Ours, day.Upstream, day.Greedy} {
				set := b.day.apply(day.Defaults(p, w, seed))
				out = append(out, set)
				if i == 0 && p != day.Greedy {
					set.Budget = 0.1
					out = append(out, set)
				}
			}
		}
	}
	return slices.DeleteFunc(out, func(s day.Settings) bool {
		return !strings.HasPrefix(fmt.Sprintf("%s/%s/%d/%.0f%%", s.Workload, s.Policy, s.Seed, 100*s.Budget), b.day.only)
	})
}

// apply sets what the flags say.
func (o *dayOptions) apply(s day.Settings) day.Settings {
	if s.Policy == day.Ours && o.every > 0 {
		s.Every = o.every
	}
	if o.worth > 0 {
		s.Accept = func(m *disrupt.Move) bool { return m.Saves >= o.worth*float64(m.Evicts) }
	}
	if o.slack > 0 {
		s.Slack = o.slack
	}
	s.Ahead, s.DeletionCost, s.Nominate = o.ahead, o.deletion, o.pins
	if o.trace {
		s.Trace, s.Moves = os.Stdout, true
	}
	return s
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
