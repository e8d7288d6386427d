package provision

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"karpenter/internal/control"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
	"karpenter/internal/state"
	"karpenter/internal/wait"
)

const (
	// name is the controller's name in logs and metrics.
	name = "provisioner"
	// retry is how long after a pass pods that still wait are looked at again, whether or not something has happened (P1, P2).
	retry = 10 * time.Second
	// maxSolve is how long pods wait for the engine's best plan.
	maxSolve = time.Minute
	// syncing is how often a mirror that has not been filled yet is looked at.
	syncing = 50 * time.Millisecond
)

// Gate holds pools back.
type Gate interface {
	// Paused says until when no node is to be made for a pool and why, for example because its nodes never join; the zero time
	// is for pools that may have nodes.
	Paused(pool string) (until time.Time, why string)
}

// Provisioner makes nodes for pods that are unschedulable.
type Provisioner struct {
	Mirror  Mirror
	Creator *Creator
	Batch   *Batcher
	// Options are those of every plan.
	Options pack.Options
	Clock   control.Clock
	Log     *slog.Logger
	Events  *control.Recorder
	Meter   *meter.Set
	// NoPodGauges leaves out the gauges that pods have of their own (O48).
	NoPodGauges bool
	// Gate may be nil.
	Gate Gate
	// Beat, if any, is called after every round, also when there is nothing to do.
	Beat func(loop string)
	// Ledger keeps what is decided; nil keeps nothing. Reading says how the mirror reads objects, for recordings.
	Ledger  *ledger.Ledger
	Reading state.Options
	// Look, if any, is a view of Mirror with the claims whose nodes are being shut for a move: it shows their pods as if they were unschedulable,
	// though one is about to be made for them.
	Look func() (view *state.View, half map[string]bool)
	// Nominator, if any, takes nominations back that lead nowhere.
	Nominator *Nominator
	// Planned, if any, is shown every plan with what it was made from; a nil plan when no pod is unschedulable.
	Planned func(view *state.View, plan *pack.Plan, at time.Time)
	// Buffers, if any, is shown after every plan how each CapacityBuffer fares in it.
	Buffers func([]Fared)

	informers   cache.Informers
	handlers    atomic.Pointer[[]toolscache.ResourceEventHandlerRegistration] // of its watches, once it has them
	ask         func(*world.Snapshot, pack.Options) (*pack.Plan, error)
	track       *tracker
	rollouts    Rollouts
	reporter    *reporter
	entries     *ledgerRecorder
	last        question
	plan        *pack.Plan // the answer to last, if it made no difference
	speculative speculativePlan
	zones       map[string]int
	passes      Passes
	// spare says that room is kept for spare pods: when a pod takes it, there may be more to make.
	spare atomic.Bool
	late  atomic.Bool // the engine is still at a question that has been given up
}

// question is what a plan depends on. The answer to the same question is the same, so it is not asked twice.
type question struct {
	snap   *world.Snapshot
	paused string
	placed int
	coming string
	// open is set when the answer made a difference, or could not be given. Then the question is asked again, even if the cluster
	// looks as it did before: a claim may have come and gone.
	open bool
}

// speculativePlan is an answer that was made before anybody asked.
type speculativePlan struct {
	question question
	moment   *moment
	plan     *pack.Plan
}

// maxSpeculative is for how many pods a plan is made before the batch is complete: one that may be made for nothing must cost little.
const maxSpeculative = 200

// Register has the manager run the provisioner while this process leads.
func (p *Provisioner) Register(m manager.Manager) error {
	p.informers = m.GetCache()
	p.prepare()
	return m.Add(p)
}

func (p *Provisioner) prepare() {
	p.track = newTracker(p.Meter)
	if !p.NoPodGauges {
		p.track.live(p.Clock.Now)
	}
	p.reporter = newReporter(p)
	p.entries = newLedgerRecorder(p)
	p.ask = ask
	p.passes = Passes{Meter: p.Meter, Clock: p.Clock, Controller: name}
	if p.Batch != nil {
		p.Creator.Coming, p.Creator.ComingWait = p.rollouts.incomplete, p.Batch.window.most
		p.Batch.Hold = func(now time.Time) bool { return p.track.behind(now, p.rollouts.refuses) || p.rollouts.incomplete(now) }
		p.Batch.Soon = p.speculate
	}
}

// NeedLeaderElection keeps the provisioner from running in processes that do not lead.
func (p *Provisioner) NeedLeaderElection() bool { return true }

// Start runs the provisioner until the context ends.
func (p *Provisioner) Start(ctx context.Context) error {
	// The first pass comes a whole window after this process has begun to lead: what another one has written last must be seen first.
	p.Batch.Clear()
	if err := p.watch(ctx, p.informers); err != nil {
		return err
	}
	p.Batch.Trigger(started)
	if p.Nominator != nil {
		p.Nominator.run(ctx)
	}
	loop := &control.Loop{Name: name, Clock: p.Clock, Log: p.Log, Do: p.round, Beat: p.Beat}
	return loop.Start(ctx)
}

// round waits for a batch, or for the time to look again, and runs a pass. While the mirror is not filled, triggers are kept.
func (p *Provisioner) round(ctx context.Context) (time.Duration, error) {
	if !p.Mirror.Synced() {
		return syncing, nil
	}
	if err := p.Creator.TakeOver(ctx); err != nil {
		return 0, err
	}
	now := p.Clock.Now()
	p.Batch.Wait(ctx, max(syncing, p.Creator.nextLook(now, p.Creator.pins.next(now, retry))))
	if ctx.Err() != nil {
		return 0, nil
	}
	return 0, p.Pass(ctx)
}

// Pass plans once and carries the plan out. What goes wrong with single claims is told and is no error of the pass.
func (p *Provisioner) Pass(ctx context.Context) error {
	p.Creator.clear(ctx)
	l := p.look()
	view, now := l.view, l.now
	defer func() { p.track.tidy(p.Clock.Now()) }()
	pods := view.World.Over().Wanting()
	p.spare.Store(len(view.World.Spare) > 0)
	p.countZones(view.World, pods)
	p.track.settle(view)
	placed := p.Creator.pins.apply(l)
	if p.Nominator != nil {
		defer p.Nominator.Sweep(ctx, view) // claims do not wait for it
	}
	speculative := p.speculative
	p.speculative = speculativePlan{}
	p.reporter.nominate(placed.Claims...)
	if len(pods) == placed.Pods && len(view.World.Spare) == 0 {
		p.reporter.unplaced(0, 0)
		p.entries.placed()
		p.show(view, nil, now)
		p.last, p.plan = question{}, nil
		return nil
	}
	m, q := p.moment(view, placed, now)
	if q == p.last {
		if p.plan != nil { // what could not be said at once, or should be said again
			p.reporter.tell(view.World, p.plan, nil, nil)
		}
		return nil
	}
	p.last, p.plan = q, nil
	if !slices.ContainsFunc(m.snap.Pools, func(pool *world.Pool) bool { return !pool.Static }) {
		if len(pods) > 0 {
			p.noPools(pods) // P13
			p.entries.noPools(m, pods)
		}
		if len(m.snap.Spare) > 0 {
			if plan, err := p.ask(m.snap, p.Options); err == nil {
				p.buffers(m.snap, plan)
			}
		}
		return nil
	}
	p.reporter.pools(view, m.snap)
	if speculative.plan != nil && speculative.question == q && maps.Equal(speculative.moment.facts.Expected, m.facts.Expected) {
		speculative.moment.now = now
		m = speculative.moment
	} else {
		var err error
		if speculative.plan, err = p.solve(ctx, m, len(pods)-placed.Pods); err != nil {
			p.last.open = true
			p.Meter.Observe(meter.ProvisionerDuration, p.Clock.Since(now).Seconds(), "result", "error")
			return err
		}
	}
	plan := speculative.plan
	p.show(view, plan, now)
	p.buffers(m.snap, plan)
	p.carryOut(ctx, m, plan)
	return nil
}

// buffers tells how buffers fare in a plan.
func (p *Provisioner) buffers(snap *world.Snapshot, plan *pack.Plan) {
	if p.Buffers != nil && len(snap.Spare) > 0 {
		p.Buffers(Spare(snap, plan))
	}
}

// look is the cluster as plans are to see it.
func (p *Provisioner) look() look {
	l := look{pins: p.Creator.pins.count()}
	if p.Look != nil {
		l.view, l.half = p.Look()
	} else {
		l.view = p.Mirror.View()
	}
	l.now = p.Clock.Now()
	return l
}

// speculate answers what the next pass will ask if nothing changes until then, while the batch still waits for more pods. A claim is
// then created as soon as the batch is complete.
func (p *Provisioner) speculate(ctx context.Context) {
	if !p.Mirror.Synced() || p.late.Load() {
		return
	}
	l := p.look()
	view, now := l.view, l.now
	placed := p.Creator.pins.expected(l)
	pods := len(view.World.Over().Wanting()) - placed.Pods
	m, q := p.moment(view, placed, now)
	if pods == 0 || pods+len(view.World.Spare) > maxSpeculative || q == p.last {
		return
	}
	if plan, err := p.solve(ctx, m, pods); err == nil { // what goes wrong goes wrong again, and is told then
		p.speculative = speculativePlan{q, m, plan}
	}
}

func (p *Provisioner) show(view *state.View, plan *pack.Plan, at time.Time) {
	if p.Planned != nil {
		p.Planned(view, plan, at)
	}
}

// moment is what a plan is made from.
type moment struct {
	view *state.View
	// facts is what the view does not say, snap what both come to.
	facts   ledger.Facts
	snap    *world.Snapshot
	options pack.Options
	now     time.Time
}

// moment is the state of things in a view, and what is to be asked about it.
func (p *Provisioner) moment(view *state.View, placed pinned, now time.Time) (*moment, question) {
	m := &moment{view: view, facts: ledger.Facts{Expected: placed.Expected, Held: p.held(view.World, now), Coming: p.rollouts.Soon(rolloutAhead, now)}, options: p.Options, now: now}
	m.snap = m.facts.World(view)
	return m, question{snap: view.World, paused: text(m.facts.Held), placed: placed.Pods, coming: fmt.Sprint(m.facts.Coming)}
}

// held says which pools are held back, and why.
func (p *Provisioner) held(snap *world.Snapshot, now time.Time) map[string]string {
	if p.Gate == nil {
		return nil
	}
	var out map[string]string
	for _, pool := range snap.Pools {
		until, why := p.Gate.Paused(pool.Name)
		if !until.After(now) || pool.Static || pool.Refused != "" {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[pool.Name] = fmt.Sprintf("is held back until %s: %s", until.UTC().Format(time.RFC3339), why)
	}
	return out
}

// text is the same for equal maps.
func text(held map[string]string) (out string) {
	for _, name := range slices.Sorted(maps.Keys(held)) {
		out += name + " " + held[name] + "\n"
	}
	return out
}

// noPools notes that nothing can be done about the pods while there is no pool. Nobody is told: a cluster in which Karpenter has
// no pools is not its to comment on.
func (p *Provisioner) noPools(pods []*world.Pod) {
	now := p.Clock.Now()
	for _, pod := range pods {
		p.track.decide(uid(pod), false, now)
	}
	p.reporter.unplaced(len(pods), 0)
	p.Log.Debug("no nodepools that make nodes", "pod-count", len(pods))
}

// solve plans for the pods that need a node, and for those that are known to come beside them.
func (p *Provisioner) solve(ctx context.Context, m *moment, pods int) (plan *pack.Plan, err error) {
	m.snap, plan, err = m.facts.Plan(m.view, func(snap *world.Snapshot) (*pack.Plan, error) { return p.search(ctx, m, snap, pods) })
	return plan, err
}

// search asks the engine, and shows how long it has been at it. When that is too long for the pods that wait, a plan is made
// without looking for the cheapest (P7), and no other is asked for until the engine has come back.
func (p *Provisioner) search(ctx context.Context, m *moment, snap *world.Snapshot, pods int) (*pack.Plan, error) {
	p.passes.Begin(ctx, pods)
	defer p.passes.End()
	quick := p.Options
	quick.Quick = true
	if p.late.Load() {
		m.options = quick
		return p.ask(snap, quick)
	}
	type answer struct {
		plan *pack.Plan
		err  error
	}
	answers := make(chan answer, 1)
	p.late.Store(true)
	wait.Go(p.Clock, func() {
		plan, err := p.ask(snap, p.Options)
		p.late.Store(false)
		answers <- answer{plan, err}
	})
	if a, ok := wait.Receive(ctx, p.Clock, maxSolve, answers); ok {
		return a.plan, a.err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p.Log.Error("planning takes too long, going on with a plan that may cost more", "pod-count", pods, "duration", maxSolve)
	m.options = quick
	return p.ask(snap, quick)
}

// ask makes a plan. A pod that the engine cannot stand must not take the other controllers down with it.
func ask(snap *world.Snapshot, options pack.Options) (plan *pack.Plan, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("planning panicked: %v\n%s", r, debug.Stack())
		}
	}()
	return pack.Solve(snap, options), nil
}

// carryOut creates the claims of a plan and tells what was decided.
func (p *Provisioner) carryOut(ctx context.Context, m *moment, plan *pack.Plan) {
	view, begin := m.view, m.now
	list := p.Creator.Drafts(view, plan.Nodes, ReasonProvisioned)
	if len(list) > 0 {
		p.reporter.computed(view.World, plan, p.Clock.Since(begin))
	}
	entry := p.entries.decided(m, plan, list)
	errs := p.Creator.Create(ctx, list)
	p.entries.settle(entry, list, errs)
	failed := errors.Join(errs...) != nil
	if p.last.open = len(list) > 0; !p.last.open {
		p.plan = plan
	}
	result := "success"
	if failed || len(plan.Real().Unplaced) > 0 {
		result = "error"
	}
	p.Meter.Observe(meter.ProvisionerDuration, p.Clock.Since(begin).Seconds(), "result", result)
	for _, f := range plan.Real().Existing {
		if f.Node.Claim != "" && !f.Node.Initialized {
			p.Creator.pins.add(f.Node.Claim, f.Pods, p.Clock.Now())
		}
	}
	p.reporter.tell(view.World, plan, list, errs)
}

// countZones shows how many pods are bound to which zone, and takes away zones that none is bound to any more.
func (p *Provisioner) countZones(snap *world.Snapshot, pods []*world.Pod) {
	var zones map[string]int
	if len(pods) > 0 {
		zones = PodsByZone(snap, pods)
	}
	for zone, n := range zones {
		p.Meter.Set(meter.SchedulerPendingZones, float64(n), "controller", name, "zone", zone)
	}
	for zone := range p.zones {
		if zones[zone] == 0 {
			p.Meter.Drop(meter.SchedulerPendingZones, "controller", name, "zone", zone)
		}
	}
	p.zones = zones
}

// Rollouts knows which pods are still to come.
func (p *Provisioner) Rollouts() *Rollouts { return &p.rollouts }

// Synced says whether the provisioner has been shown all that was there when it began: until then no ReplicaSet may be known.
func (p *Provisioner) Synced() bool {
	handlers := p.handlers.Load()
	return handlers != nil && !slices.ContainsFunc(*handlers, func(h toolscache.ResourceEventHandlerRegistration) bool { return !h.HasSynced() })
}

// Arriving is how many pods have been created that the scheduler has not looked at yet.
func (p *Provisioner) Arriving(now time.Time) int { return p.track.arriving(now) }

// NominatedUntil is until when pods are expected on a node or claim of that name, which is to be left alone until then (P28).
func (p *Provisioner) NominatedUntil(name string) time.Time { return p.reporter.nominatedUntil(name) }
