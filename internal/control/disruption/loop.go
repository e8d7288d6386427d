package disruption

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"karpenter/internal/control"
	"karpenter/internal/control/provision"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/life"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
	"karpenter/internal/state"
)

const (
	// name is the controller's name in logs and metrics.
	name = "disruption"
	// idle is how often nodes are looked at although nothing is known to have changed, and unsynced how often a mirror that has
	// not been filled yet is (D1).
	idle     = 10 * time.Second
	unsynced = time.Second
	// gather is how long after a node has become a candidate a decision is made: others become candidates at the same moment, and
	// all of them together can be dealt with better than one by one.
	gather = time.Second
	// watching is how often moves that wait for something are looked at although no object has changed (D53).
	watching = time.Second
	// ponder is how long an answer counts as long as the question is the same: some of what decisions depend on is the time.
	ponder = 5 * time.Minute
)

// Mirror shows the cluster, with what has been decided and not been seen yet; state.Mirror is one.
type Mirror interface {
	View() *state.View
	// Synced says whether the mirror has been filled once.
	Synced() bool
	// Leaving counts a claim as going from now on, before any watch has shown it.
	Leaving(claim string)
	// Wrote shows the mirror an object as the API server has it now.
	Wrote(obj state.Object)
}

// Loop disrupts nodes voluntarily: it decides which, and carries that out.
type Loop struct {
	Client client.Client
	// Live reads from the API server itself.
	Live    client.Reader
	Mirror  Mirror
	Creator *provision.Creator
	// Turn is the one that planners look through.
	Turn *Turn
	// Nominated says until when pods are expected on a node.
	Nominated func(node string) time.Time
	// Arrivals says which pods are still to come; nil knows of none.
	Arrivals Arrivals
	// ClassVersion changes with everything that a class's nodes are made from; nil knows of no changes.
	ClassVersion func(class string) string
	// Gate says which pools make no nodes for now; it may be nil.
	Gate provision.Gate
	// Repair says which node conditions condemn an instance; without any nothing is repaired. Whoever gives them has checked them.
	Repair []life.RepairPolicy
	// Options are those of every decision.
	Options  disrupt.Options
	Clock    control.Clock
	Log      *slog.Logger
	Recorder *control.Recorder
	Meter    *meter.Set
	// Beat, if any, is called after every round, also when there is nothing to do.
	Beat func(loop string)
	// Ledger keeps what is decided; nil keeps nothing. Reading says how the mirror reads objects, for recordings.
	Ledger  *ledger.Ledger
	Reading state.Options
	// Decided, if any, is shown every decision with what it was made from.
	Decided func(view *state.View, in *disrupt.Input, d *disrupt.Decision, at time.Time)

	informers cache.Informers
	wakes     *wakes
	breaker   breaker
	reporter  *reporter
	entries   ledgerRecorder
	decideAt  time.Time
	rested    time.Time // before which no news brings a decision forward
	last      question
	still     map[string]string // pools that were in motion when last was asked
	memory    memory
	calm      calm
	moved     movedPods
	promises  promises
	unsure    unsure
	tookOver  bool // from the process before
	churn     churn
	moves     int // how many have begun, for their ids
	decisions int // how many have been made
	passes    provision.Passes
	zones     map[string]int    // pods that wait, by zone, as last shown
	replaced  map[string]waited // claims that replace others, as last seen
	above     map[string]bool   // those of them that go with a move that is given up, because of the limits of their pools
}

// Register has the manager run the loop while this process leads.
func (l *Loop) Register(m manager.Manager) error {
	l.informers = m.GetCache()
	l.prepare()
	return m.Add(l)
}

func (l *Loop) prepare() {
	l.wakes = newWakes()
	l.replaced = map[string]waited{}
	l.reporter = newReporter(l)
	l.entries = ledgerRecorder{ledger: l.Ledger}
	l.moved.settled = l.reporter.settled
	l.passes = provision.Passes{Meter: l.Meter, Clock: l.Clock, Controller: name}
}

// NeedLeaderElection keeps the loop from running in processes that do not lead.
func (l *Loop) NeedLeaderElection() bool { return true }

// Start runs the loop until the context ends.
func (l *Loop) Start(ctx context.Context) error {
	if err := l.watch(ctx, l.informers); err != nil {
		return err
	}
	loop := &control.Loop{Name: name, Clock: l.Clock, Log: l.Log, Do: l.round, Beat: l.Beat}
	return loop.Start(ctx)
}

// round looks once, and waits until there is something to look at again.
func (l *Loop) round(ctx context.Context) (time.Duration, error) {
	// The first look finds the pods that the process before may have moved by when their ReplicaSets were created.
	if !l.Mirror.Synced() || l.Arrivals != nil && !l.Arrivals.Synced() {
		return unsynced, nil
	}
	if err := l.Creator.TakeOver(ctx); err != nil {
		return 0, err
	}
	again, err := l.Pass(ctx)
	if err != nil || ctx.Err() != nil {
		return 0, err
	}
	if soonest := l.wakes.wait(ctx, l.Clock, again); soonest > 0 {
		l.decideBy(l.Clock.Now().Add(soonest))
	}
	return 0, nil
}

// decideBy brings the next decision forward, but not so far that nothing else is done than deciding.
func (l *Loop) decideBy(at time.Time) {
	if at.Before(l.rested) {
		at = l.rested
	}
	if at.Before(l.decideAt) {
		l.decideAt = at
	}
}

// Pass looks at everything once: moves that have begun go on, and if it is time for it a decision is made and carried out. It
// returns after how long to look again.
func (l *Loop) Pass(ctx context.Context) (again time.Duration, err error) {
	view := l.Mirror.View()
	list, stale := read(view)
	l.takeOver(ctx, view)
	l.clean(ctx, stale)
	if l.advance(ctx, view, list) {
		view = l.Mirror.View()
		list, _ = read(view)
		l.decideAt = time.Time{} // D1
	}
	l.Meter.Set(meter.DisruptionQueueDepth, float64(open(list)))
	if now := l.Clock.Now(); !now.Before(l.decideAt) {
		l.decideAt = now.Add(idle)
		started, err := l.decide(ctx, view, list)
		if err != nil {
			return 0, err
		}
		if started > 0 {
			l.decideAt = time.Time{}
			return 0, nil
		}
	}
	again = max(0, l.decideAt.Sub(l.Clock.Now()))
	if open(list) > 0 {
		again = min(again, watching)
	}
	return again, nil
}

// open counts the moves that are not over.
func open(list []*command) (n int) {
	for _, c := range list {
		if !c.done() {
			n++
		}
	}
	return n
}

// decide asks the engine what to do, and does it. started is how many moves have begun.
func (l *Loop) decide(ctx context.Context, view *state.View, list []*command) (started int, err error) {
	begin := l.Clock.Now()
	l.review(ctx, view, begin)
	facts := l.facts(view, list, begin, l.moved.refresh(view, begin, l.created))
	in := facts.Input(view, begin)
	l.reporter.budgets(view, in)
	l.reporter.churn(view, begin)
	q := ask(view, in, begin)
	if l.last.same(q) {
		if l.calm.note(in, l.still, begin) {
			l.decideBy(l.Clock.Now().Add(lookAgain))
		}
		return 0, nil
	}
	l.last = question{}
	options := l.options()
	done := l.measure(ctx, in)
	decision, err := l.ponder(in, options, begin)
	done()
	if err != nil {
		return 0, err
	}
	l.rested = l.Clock.Now().Add(l.Clock.Since(begin))
	if l.calm.note(in, decision.Moving, begin) {
		l.decideBy(l.Clock.Now().Add(lookAgain))
	}
	l.reporter.decided(view, in, decision)
	p := &plan{view: view, in: in, moves: decision.Moves}
	l.entries.decided(p, decision, ledger.Moment{View: view, Facts: facts, Options: ledger.NewOptions(l.Reading, options), At: begin})
	if l.Decided != nil {
		l.Decided(view, in, decision, begin)
	}
	if len(decision.Moves) == 0 {
		l.last, l.still = q, decision.Moving
		return 0, nil
	}
	return l.carryOut(ctx, p), nil
}

// options are those of the next decision.
func (l *Loop) options() disrupt.Options {
	o := l.Options
	o.Turn = l.decisions
	l.decisions++
	return o
}

// ponder asks the engine. A node that it cannot stand must not take the other controllers down with it.
func (l *Loop) ponder(in *disrupt.Input, options disrupt.Options, now time.Time) (d *disrupt.Decision, err error) {
	defer recovered(&err, "deciding")
	last := now
	options.Done = func(p disrupt.Part) {
		part := parts[p]
		l.Meter.Observe(meter.DisruptionEvaluationDuration, l.Clock.Since(last).Seconds(), "reason", lower(part.reason), "consolidation_type", part.kind)
		last = l.Clock.Now()
	}
	return disrupt.Decide(in, options, now), nil
}

// recovered turns a panic into an error.
func recovered(err *error, doing string) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%s panicked: %v\n%s", doing, r, debug.Stack())
	}
}

// parts says what metrics call the parts of a decision (O34).
var parts = map[disrupt.Part]struct {
	reason disrupt.Reason
	kind   string
}{
	disrupt.Repair:    {disrupt.Unhealthy, ""},
	disrupt.Emptiness: {disrupt.Empty, kindEmpty},
	disrupt.Drift:     {disrupt.Drifted, ""},
	disrupt.Groups:    {disrupt.Underutilized, kindMulti},
	disrupt.Singles:   {disrupt.Underutilized, kindSingle},
}
