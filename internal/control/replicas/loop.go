package replicas

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/control/provision"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/why"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
	"karpenter/internal/state"
	"karpenter/internal/wait"
)

const (
	// name is the controller's name in logs and metrics.
	name = "static.scaling"
	// resync is how often pools are looked at although nothing is known to have changed, and retry how often those are that lack nodes which
	// cannot be made for now (P103).
	resync = time.Minute
	retry  = 30 * time.Second
	// failed is how soon a write that failed is tried again, and unsynced how often a mirror that has not been filled yet is looked at.
	failed   = 5 * time.Second
	unsynced = 250 * time.Millisecond
	// pace is the least time between two looks: when hundreds of claims change, one look is enough for many of them.
	pace = 100 * time.Millisecond
	// deleteWorkers is how many claims are deleted at once, as many as are created.
	deleteWorkers = 32
	// ReasonScaledDown is the reason of nodes that are removed because replicas is lower, in metrics and in the ledger.
	ReasonScaledDown = "scaled_down"
)

// Mirror shows the cluster, with what has been decided and not been seen yet; state.Mirror is one.
type Mirror interface {
	View() *state.View
	Synced() bool
	// Leaving counts a claim as going from now on, before any watch has shown it.
	Leaving(claim string)
}

// Loop scales static pools.
type Loop struct {
	Client  client.Client
	Mirror  Mirror
	Creator *provision.Creator
	// Options are those of every decision, and Reading how objects are read.
	Options disrupt.Options
	Reading state.Options
	// Gate says which pools make no nodes for now; it may be nil.
	Gate     provision.Gate
	Clock    control.Clock
	Log      *slog.Logger
	Recorder *control.Recorder
	Meter    *meter.Set
	// Beat, if any, is called after every round, also when there is nothing to do.
	Beat func(loop string)
	// Ledger keeps what is decided; nil keeps nothing.
	Ledger *ledger.Ledger

	informers cache.Informers
	wakes     wakes
	launches  launches
	entries   entries
}

// Register has the manager run the loop while this process leads.
func (l *Loop) Register(m manager.Manager) error {
	l.informers = m.GetCache()
	l.prepare()
	return m.Add(l)
}

func (l *Loop) prepare() {
	l.wakes.called = make(chan struct{}, 1)
	l.launches = launches{made: map[string]string{}, failures: map[string]int{}, until: map[string]time.Time{}}
	l.entries = entries{ledger: l.Ledger, short: map[string]lack{}}
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

func (l *Loop) round(ctx context.Context) (time.Duration, error) {
	if !l.Mirror.Synced() {
		return unsynced, nil
	}
	again, err := l.Pass(ctx)
	if err != nil || ctx.Err() != nil {
		return 0, err
	}
	wait.Receive(ctx, l.Clock, max(again, pace), l.wakes.called)
	return pace, nil
}

// Pass scales every static pool once, and says after how long to look again.
func (l *Loop) Pass(ctx context.Context) (again time.Duration, err error) {
	view, now := l.Mirror.View(), l.Clock.Now()
	l.wakes.know(view)
	l.launches.look(view, now)
	facts := ledger.Facts{Held: l.held(view, now)}
	_, pools, err := l.scale(view, &facts, now)
	if err != nil {
		return 0, err
	}
	live := map[string]map[string]bool{}
	for _, s := range pools {
		if len(s.Add)+len(s.Remove) == 0 {
			continue
		}
		if live[s.Pool], err = l.confirm(ctx, s.Pool); err != nil {
			return 0, err
		}
	}
	if len(live) > 0 {
		view = l.Mirror.View()
		facts.Going = going(view, live)
		var in *disrupt.Input
		if in, pools, err = l.scale(view, &facts, now); err != nil {
			return 0, err
		}
		l.entries.decided(ledger.Moment{
			View: view, Facts: facts, Options: ledger.NewOptions(l.Reading, l.Options), At: now, Answer: &ledger.Answer{Static: ledger.NewStaticAnswer(in, pools)},
		})
	}
	again = resync
	for _, s := range pools {
		if live[s.Pool] == nil { // it was fine a moment ago; the next look comes with what has changed since
			s.Add, s.Remove = nil, nil
		}
		again = min(again, l.carryOut(ctx, view, s))
	}
	l.entries.keep(pools)
	return again, nil
}

// scale asks the engine, and returns what it was asked about too.
func (l *Loop) scale(view *state.View, facts *ledger.Facts, now time.Time) (in *disrupt.Input, out []*disrupt.Scaling, err error) {
	defer func() {
		if r := recover(); r != nil { // a pool that the engine cannot stand must not take the other controllers down with it
			err = fmt.Errorf("scaling static pools panicked: %v\n%s", r, debug.Stack())
		}
	}()
	in = facts.Static(view, now)
	return in, disrupt.Scale(in, l.Options), nil
}

// going names the claims of a view that the API server does not have or that are being deleted. live is what it has of pools that were asked about.
func going(view *state.View, live map[string]map[string]bool) (names []string) {
	for _, n := range view.Nodes {
		if claims := live[n.World.Pool]; claims != nil && n.Claim != nil && !n.Assumed {
			if deleting, there := claims[n.Claim.Name]; deleting || !there {
				names = append(names, n.Claim.Name)
			}
		}
	}
	return names
}

// confirm is what the API server has of a pool's claims, by name: whether each is being deleted.
func (l *Loop) confirm(ctx context.Context, pool string) (map[string]bool, error) {
	list, err := l.Creator.Confirm(ctx, pool)
	if err != nil {
		return nil, err
	}
	out := make(map[string]bool, len(list))
	for i := range list {
		out[list[i].Name] = list[i].DeletionTimestamp != nil
	}
	return out, nil
}

// held says which static pools make no nodes for now, and why: nodes of theirs never join, or claims could not be launched a moment ago.
func (l *Loop) held(view *state.View, now time.Time) map[string]string {
	out := map[string]string{}
	for _, p := range view.World.Pools {
		if !p.Static {
			continue
		}
		if until := l.launches.until[p.Name]; until.After(now) {
			out[p.Name] = fmt.Sprintf("is held back until %s: %s could not be launched", until.UTC().Format(time.RFC3339), why.Count(l.launches.failures[p.Name], "claim"))
		}
		if l.Gate == nil {
			continue
		}
		if until, because := l.Gate.Paused(p.Name); until.After(now) {
			out[p.Name] = fmt.Sprintf("is held back until %s: %s", until.UTC().Format(time.RFC3339), because)
		}
	}
	return out
}

// carryOut does what a pool needs, and says after how long to look at it again.
func (l *Loop) carryOut(ctx context.Context, view *state.View, s *disrupt.Scaling) time.Duration {
	again := resync
	if len(s.Add) == disrupt.MostAtOnce {
		again = pace
	}
	if len(s.Add) > 0 && !l.grow(ctx, view, s) {
		again = failed
	}
	if len(s.Remove) > 0 && !l.shrink(ctx, view, s) {
		again = failed
	}
	if s.Short > 0 {
		l.short(view, s)
		again = min(again, retry)
		if left := l.launches.until[s.Pool].Sub(l.Clock.Now()); left > 0 {
			again = min(again, left)
		}
	}
	return again
}

// grow creates the claims of a pool, and says whether all were.
func (l *Loop) grow(ctx context.Context, view *state.View, s *disrupt.Scaling) bool {
	list := l.Creator.Drafts(view, s.Add, provision.ReasonProvisioned)
	entry := l.entries.added(view, s, list)
	l.tell(view, s.Pool, EventScalingUp, fmt.Sprintf("Launching %s: %d of %d are there", why.Count(len(list), "node"), s.Have(), s.Replicas))
	errs := l.Creator.Create(ctx, list)
	ok := true
	for i, err := range errs {
		if ok = ok && err == nil; err == nil {
			l.launches.made[list[i].Claim.Name] = s.Pool
		}
	}
	l.entries.settle(entry, errs)
	return ok
}

// shrink deletes claims of a pool, and says whether all were.
func (l *Loop) shrink(ctx context.Context, view *state.View, s *disrupt.Scaling) bool {
	l.tell(view, s.Pool, EventScalingDown, fmt.Sprintf("Removing %s: %d are there and replicas is %d", why.Count(len(s.Remove), "node"), s.Active, s.Replicas))
	errs := make([]error, len(s.Remove))
	wait.Each(l.Clock, len(s.Remove), deleteWorkers, func(i int) { errs[i] = l.remove(ctx, view.Nodes[s.Remove[i].Node].Claim) })
	ok, removed := true, s.Remove[:0:0]
	for i, err := range errs {
		n := view.Nodes[s.Remove[i].Node]
		if err != nil {
			ok = false
			l.Log.Error("could not delete nodeclaim", "NodePool", s.Pool, "NodeClaim", n.Claim.Name, "error", err)
			continue
		}
		removed = append(removed, s.Remove[i])
		l.removed(n, s.Remove[i].Why)
	}
	l.entries.removed(view, s, removed)
	return ok
}

// remove deletes a claim, and tells the mirror that it goes: the next look may come before the watch. Should the watch take longer than the mirror
// believes that, the API server is asked before anything is decided anyway.
func (l *Loop) remove(ctx context.Context, claim *karpv1.NodeClaim) error {
	deleted, err := control.Delete(ctx, l.Client, claim.DeepCopy())
	if err == nil && deleted {
		l.Mirror.Leaving(claim.Name)
	}
	return err
}

// removed tells that a node is removed because replicas is lower (O3, O4).
func (l *Loop) removed(n *state.Node, because why.Reason) {
	delete(l.launches.made, n.Claim.Name)
	moved := 0
	for _, p := range n.World.Pods {
		if p.Movable && !p.Terminating {
			moved++
		}
	}
	labels := control.DisruptedLabels(n.Claim, ReasonScaledDown, "", state.Grace(n.Claim))
	l.Meter.Add(meter.NodeClaimsDisrupted, 1, labels...)
	l.Meter.Add(meter.PodsDisruptionInitiated, float64(moved), labels...)
	l.Log.Info("removing node of a static pool", "NodePool", n.World.Pool, "NodeClaim", n.Claim.Name, "Node", n.World.Name, "pod-count", moved, "why", because.Line())
}

// short tells that a pool lacks nodes that cannot be made now.
func (l *Loop) short(view *state.View, s *disrupt.Scaling) {
	if p := view.Pool(s.Pool); p != nil {
		l.Recorder.Tell(control.Event{
			Object: p.Object, Warning: true, Reason: EventShort, Every: shortEvery,
			Message: fmt.Sprintf("%d of %s %s missing: %s", s.Short, why.Count(int(s.Replicas), "node"), is(s.Short), s.Why.Line()),
		})
	}
}

func is(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func (l *Loop) tell(view *state.View, pool, reason, message string) {
	if p := view.Pool(pool); p != nil {
		l.Recorder.Tell(control.Event{Object: p.Object, Reason: reason, Message: message})
	}
}

// Reasons of events.
const (
	EventScalingUp   = "StaticScalingUp"
	EventScalingDown = "StaticScalingDown"
	EventShort       = "StaticCapacityMissing"
)

const shortEvery = 5 * time.Minute

// launches knows which claims of this loop have no instance yet. A pool whose claims cannot be launched waits longer every time before more are
// made; what is out of stock is not chosen again meanwhile anyway.
type launches struct {
	made     map[string]string // pool by claim
	failures map[string]int    // in a row, by pool
	until    map[string]time.Time
}

// Between firstWait and lastWait is how long a pool waits whose claims were given up before they had an instance.
const (
	firstWait = time.Second
	lastWait  = retry
)

// look finds out what became of claims.
func (f *launches) look(view *state.View, now time.Time) {
	lost := map[string]int{}
	for claim, pool := range f.made {
		n := view.Claim(claim)
		switch {
		case n != nil && n.Claim.Status.ProviderID != "":
			delete(f.failures, pool)
			delete(f.until, pool)
		case n == nil || n.Claim.DeletionTimestamp != nil:
			lost[pool]++
		default:
			continue
		}
		delete(f.made, claim)
	}
	for pool, n := range lost {
		wait := min(lastWait, firstWait<<min(f.failures[pool], 5))
		f.failures[pool] += n
		f.until[pool] = now.Add(wait)
	}
	for pool := range f.until {
		if view.Pool(pool) == nil {
			delete(f.until, pool)
			delete(f.failures, pool)
		}
	}
}

// names lists the static pools of a view.
func names(view *state.View) []string {
	var out []string
	for _, p := range view.World.Pools {
		if p.Static {
			out = append(out, p.Name)
		}
	}
	slices.Sort(out)
	return out
}
