// Package day plays one day of a cluster in virtual time: the load follows a sine, a ReplicaSet controller makes and deletes
// pods, a scheduler binds them where it likes, provisioning and consolidation are the engine's own. It measures how many pods
// were evicted and what the nodes cost, against a fresh plan for the pods of each hour. Beside this product's consolidation it
// plays upstream Karpenter's policy on the same load.
//
// A run is a function of its Settings: no clock, no random number that the seed does not give, no I/O but the trace.
package day

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
)

// Policy is who consolidates.
type Policy string

// The policies.
const (
	Ours     Policy = "ours"     // disrupt.Decide
	Upstream Policy = "upstream" // one command at a time, without memory
	None     Policy = "none"     // empty nodes only: what provisioning alone comes to
	Greedy   Policy = "greedy"   // knows what a fresh plan would cost, and evicts as few as it can to stay near: a yardstick
)

// Settings are the knobs of a run.
type Settings struct {
	Policy   Policy
	Workload Workload
	Seed     uint64

	// Step is how far time goes at once. Everything that the actors do takes at least a step.
	Step time.Duration
	// Length is the period of the sine; the load is Low pods at both ends and High in the middle.
	Length    time.Duration
	Low, High int
	// Boot is how long a node takes from its launch until pods can be bound to it, Drain how long it is paid for after its pods
	// were evicted.
	Boot, Drain time.Duration

	// ConsolidateAfter and Budget are the pool's: Budget is the share of nodes that may be disrupted at once.
	ConsolidateAfter time.Duration
	Budget           float64
	// Every is the least time between two decisions, and Ponder how long an answer counts while nothing changes.
	Every, Ponder time.Duration
	// Quiet has decisions wait until no pod has been pending and no node in flight for QuietFor, but for no longer than Patience.
	Quiet              bool
	QuietFor, Patience time.Duration

	// Slack is how far above a fresh plan the Greedy policy lets cost go before it acts.
	Slack float64
	// Most, if any, ends a run with an error once so many pods of High have been evicted each, in the mean.
	Most float64

	// DeletionCost has workloads delete pods of the nodes first that are to be removed, as they do with PodDeletionCostManagement.
	DeletionCost bool

	// What follows is not what the product does; it shows what it would come to.

	// Ahead has provisioning plan for as many pods more as workloads made in that time; a node is launched only if it takes a pod
	// that exists.
	Ahead time.Duration
	// Nominate has the scheduler try the node first that a pod was planned for, new pods and moved ones alike.
	Nominate bool

	// Pack is how provisioning plans, Disrupt how consolidation decides. The fresh plans of each hour are made with Pack too.
	Pack    pack.Options
	Disrupt disrupt.Options

	// Restart is what restarting a pod costs, in dollars.
	Restart float64
	// Accept, if any, has a say about each move before it begins.
	Accept func(*disrupt.Move) bool

	// Trace, if any, gets a line for each hour; Moves adds one for each move.
	Trace io.Writer
	Moves bool
}

// Defaults are the settings of the bar: 300 to 1,000 pods in a day.
func Defaults(p Policy, w Workload, seed uint64) Settings {
	s := Settings{
		Policy: p, Workload: w, Seed: seed,
		Step: 15 * time.Second, Length: 24 * time.Hour, Low: 300, High: 1000, Boot: time.Minute, Drain: 30 * time.Second,
		ConsolidateAfter: 30 * time.Second, Budget: 1, Every: 30 * time.Second, Ponder: 5 * time.Minute,
		Quiet: true, QuietFor: 10 * time.Second, Patience: 5 * time.Minute, Slack: 0.05,
	}
	s.Pack.Workers = 1 // runs are played side by side
	if p == Ours {
		s.Restart = disrupt.DefaultRestartCost
	} else {
		s.Every, s.Quiet = 15*time.Second, false
	}
	return s
}

// restLimit is how long after the day a cluster under constant load may take to come to rest, and restQuiet how long nothing
// must happen for it to count as such: longer than any answer counts.
const (
	restLimit = 4 * time.Hour
	restQuiet = 40 * time.Minute
)

// midnight is when every run begins.
var midnight = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// sim is a run.
type sim struct {
	Settings
	rng   *rand.Rand
	now   time.Time
	pool  *world.Pool
	zones []string
	sets  []*replicaSet

	classes  []*world.Class
	nodes    []*node
	pending  []*pod
	version  int // counts changes
	serial   int
	rankedAt time.Time // when deletion costs were found

	open     []*command
	past     []disrupt.Past
	turn     int
	decided  time.Time // when the last decision was made
	asked    int       // the version that it was made about
	ripe     int       // and how many nodes were consolidatable
	settled  time.Time // since when it has been quiet
	noisy    time.Time // since when a decision has been waiting for quiet
	forced   bool      // it has waited for long enough, and is made all the same
	planned  int       // the version that provisioning has looked at
	acted    time.Time // when we last launched, evicted or removed something
	decides  int
	out      Result
	hour     hourly
	forecast *forecast
	finished bool
}

// Run plays a day, and then goes on under the load of its end until nothing happens any more.
func Run(set Settings) (*Result, error) {
	s, err := newSim(set)
	if err != nil {
		return nil, err
	}
	if set.Policy == Greedy {
		if s.forecast, err = newForecast(set); err != nil {
			return nil, err
		}
	}
	s.begin()
	s.trace("%5s %5s %5s %9s %9s %6s %6s %6s %6s\n", "hour", "pods", "nodes", "$/h", "fresh", "ratio", "evicts", "moves", "wait s")
	end := midnight.Add(set.Length)
	for ; s.now.Before(end); s.now = s.now.Add(set.Step) {
		s.measureFresh()
		if err := s.step(); err != nil {
			return nil, err
		}
	}
	s.flush()
	s.finished = true
	s.rest(end)
	return &s.out, nil
}

// step has every actor act once.
func (s *sim) step() error {
	s.join()
	s.advance()
	s.replicate()
	s.schedule()
	s.provision()
	s.consolidate()
	s.remove()
	s.account()
	return s.check()
}

// rest goes on without change until nothing has happened for a while.
func (s *sim) rest(end time.Time) {
	before := s.out.Evictions
	for s.now.Before(end.Add(restLimit)) {
		if s.step() != nil {
			return
		}
		s.now = s.now.Add(s.Step)
		if s.now.Sub(s.acted) > restQuiet && s.now.Sub(end) > restQuiet {
			s.out.Rested = true
			break
		}
	}
	s.out.Rest = max(0, s.acted.Sub(end))
	s.out.RestEvictions = s.out.Evictions - before
	s.out.Evictions = before
	s.out.FinalOver = s.price() / s.fresh()
}

// check says what must never be: a pod that nothing places within an hour, and more evictions than anybody wants to watch.
func (s *sim) check() error {
	if s.Most > 0 && float64(s.out.Evictions) > s.Most*float64(s.High) {
		return fmt.Errorf("%d evictions within %v: given up", s.out.Evictions, s.now.Sub(midnight))
	}
	for _, p := range s.pending {
		if s.now.Sub(p.born) > time.Hour {
			return fmt.Errorf("%v: a pod of %s has been pending for an hour", s.now.Sub(midnight), p.set.name)
		}
	}
	return nil
}

func (s *sim) trace(format string, args ...any) {
	if s.Trace != nil {
		fmt.Fprintf(s.Trace, format, args...)
	}
}
