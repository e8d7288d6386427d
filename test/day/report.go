package day

import (
	"fmt"
	"time"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
)

// Result is what a run comes to.
type Result struct {
	// PodDays is how many pods ran for how long, in pods times days.
	PodDays float64
	// Evictions counts pods that consolidation evicted in the day, Twice those whose predecessor was evicted within the hour before.
	Evictions, Twice int
	// Cost is what the nodes cost in the day, Fresh what those of a fresh plan for each hour's pods would have cost, in dollars.
	Cost, Fresh float64
	// Moves counts commands; Launched and Removed count nodes.
	Moves, Launched, Removed int
	Peak                     int
	// Bound counts pods that the scheduler has bound, Strayed those of them that went elsewhere than planned; Wait is how long they
	// were pending together, in seconds, and WaitMost the longest.
	Bound, Strayed int
	Wait           float64
	WaitMost       time.Duration
	// Rest is when, after the day, the last node was launched or removed, with RestEvictions until then. Rested is false if that went
	// on to the end of the run. FinalOver is what the nodes cost then, over a fresh plan.
	Rest          time.Duration
	RestEvictions int
	Rested        bool
	FinalOver     float64
	Decisions     int
}

// PerPodDay is evictions per pod and day.
func (r *Result) PerPodDay() float64 { return float64(r.Evictions) / r.PodDays }

// Over is the cost over that of fresh plans.
func (r *Result) Over() float64 { return r.Cost / r.Fresh }

// The bars.
const (
	maxPerPodDay = 0.3
	maxOver      = 1.05
)

// Misses says which bars do not hold.
func (r *Result) Misses() []string {
	var out []string
	if r.PerPodDay() > maxPerPodDay {
		out = append(out, fmt.Sprintf("%.3f evictions per pod and day, at most %.1f", r.PerPodDay(), maxPerPodDay))
	}
	if r.Over() > maxOver {
		out = append(out, fmt.Sprintf("%.3f of the cost of a fresh plan each hour, at most %.2f", r.Over(), maxOver))
	}
	if !r.Rested {
		out = append(out, fmt.Sprintf("no rest within %v of constant load", restLimit))
	}
	return out
}

// Header is the head of a table of results.
func Header() string {
	return fmt.Sprintf("%-8s %4s %-8s %6s %8s %7s %6s %6s %8s %8s %6s %7s %8s %7s", "workload", "seed", "policy", "budget", "evict/pd", "cost", "moves", "twice", "launched", "peak", "strays", "wait s", "rest", "final")
}

// Line is a result as a line of that table.
func (r *Result) Line(s Settings) string {
	rest := r.Rest.Round(time.Minute).String()
	if !r.Rested {
		rest = "never"
	}
	return fmt.Sprintf("%-8s %4d %-8s %5.0f%% %8.3f %7.4f %6d %6d %8d %8d %6d %7.1f %8s %7.3f",
		s.Workload, s.Seed, s.Policy, 100*s.Budget, r.PerPodDay(), r.Over(), r.Moves, r.Twice, r.Launched, r.Peak, r.Strayed, r.Wait/max(1, float64(r.Bound)), rest, r.FinalOver)
}

// hourly is what is added up for a line of the trace.
type hourly struct {
	evictions, moves int
	wait, cost       float64
	fresh            float64
	begun            time.Time
}

// account adds up what a step has cost.
func (s *sim) account() {
	pods := 0
	for _, r := range s.sets {
		pods += len(r.pods)
	}
	if s.finished {
		return
	}
	s.out.Decisions = s.decides
	hours := s.Step.Hours()
	s.out.PodDays += float64(pods) * hours / 24
	s.out.Cost += s.price() * hours
	s.hour.cost += s.price() * hours
	s.out.Peak = max(s.out.Peak, len(s.nodes))
}

// measureFresh makes, in the middle of each hour, a plan for the pods of that moment as if there were no nodes.
func (s *sim) measureFresh() {
	if into := s.now.Sub(midnight) % time.Hour; into == 30*time.Minute {
		s.hour.fresh = s.fresh()
		s.out.Fresh += s.hour.fresh
	} else if into == 0 {
		s.flush()
	}
}

// flush writes the line of an hour that is over.
func (s *sim) flush() {
	if !s.hour.begun.IsZero() {
		s.trace("%5.0f %5.0f %5d %9.3f %9.3f %6.3f %6d %6d %6.0f\n", s.now.Sub(midnight).Hours(), s.total(), len(s.nodes), s.hour.cost, s.hour.fresh, s.hour.cost/s.hour.fresh, s.hour.evictions, s.hour.moves, s.hour.wait)
	}
	s.hour = hourly{begun: s.now}
}

// fresh is what nodes for the pods of this moment cost an hour in a plan from nothing.
func (s *sim) fresh() float64 {
	snap := &world.Snapshot{Resources: world.NewNames().List(), Pools: []*world.Pool{s.pool}, Classes: s.classes}
	for _, r := range s.sets {
		for _, p := range r.pods {
			snap.Pending = append(snap.Pending, p.world)
		}
	}
	return pack.Solve(snap, s.Pack).Price
}
