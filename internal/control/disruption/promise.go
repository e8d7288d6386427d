package disruption

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

const (
	// reviewAfter is how long after the last move of a pool what it promised is compared with what the pool costs: by then nodes and
	// pods are where they will be.
	reviewAfter = 2 * time.Minute
	// promiseKept is the share of a promise that must have come true. Below it the horizon over which savings count halves, down to
	// leastHorizon of the usual; above it, it doubles again.
	promiseKept  = 0.5
	leastHorizon = 1.0 / 16
	// regainAfter is how long after its horizon has shrunk a pool without moves is given more again: what was wrong may be over.
	regainAfter = time.Hour
	// promiseEvery is how often users are told.
	promiseEvery = 15 * time.Minute
)

// EventPromise is the reason of the event about a pool whose moves do not save what they promise.
const EventPromise = "ConsolidationPromiseMissed"

// promises compares what moves promised with what came of them, by pool. What came of it is written on the pools too, for the next
// process.
type promises struct {
	pools map[string]*promise

	mu sync.Mutex
	// horizons are what the last review came to.
	horizons map[string]float64
}

// horizon is, by pool, the share of the usual time over which savings count. The map is not changed any more.
func (p *promises) horizon() map[string]float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.horizons
}

// promise is what moves of a pool were to save, and what it cost before them.
type promise struct {
	saves, price, demand float64
	last                 time.Time
	// horizon is the share of the usual time over which savings count, and since when.
	horizon float64
	since   time.Time
}

// String is what is written on a pool for the next process, empty if there is nothing to say.
func (p *promise) String() string {
	if p.horizon == 1 {
		return ""
	}
	return fmt.Sprintf("share=%g since=%s", p.horizon, p.since.UTC().Format(time.RFC3339))
}

// restore takes over what the process before has written on a pool.
func (p *promises) restore(pool, text string) {
	var share float64
	var since string
	if _, err := fmt.Sscanf(text, "share=%g since=%s", &share, &since); err != nil || !(share >= leastHorizon && share < 1) {
		return
	}
	if at, err := time.Parse(time.RFC3339, since); err == nil {
		is := p.of(pool)
		is.horizon, is.since = share, at
	}
}

// of is what is known of a pool.
func (p *promises) of(pool string) *promise {
	if p.pools == nil {
		p.pools = map[string]*promise{}
	}
	is := p.pools[pool]
	if is == nil {
		is = &promise{horizon: 1}
		p.pools[pool] = is
	}
	return is
}

// made notes what a move that has begun promises.
func (p *promises) made(s *start, now time.Time) {
	pool := s.nodes[0].World.Pool
	is := p.of(pool)
	if is.saves == 0 {
		is.price, is.demand = costOf(s.plan.in.World, pool)
	}
	is.saves += s.move.Saves
	is.last = now
}

// costOf is what the nodes of a pool cost an hour, and how much is asked of them: what their pods request, weighed by what CPU and
// memory usually cost.
func costOf(snap *world.Snapshot, pool string) (price, demand float64) {
	const perCPU, perGiB = 0.03, 0.004 // dollars an hour; only their ratio matters
	for _, n := range snap.Nodes {
		if n.Pool != pool {
			continue
		}
		price += n.Price
		for _, p := range n.Pods {
			if p.Movable {
				r := snap.Classes[p.Class].Requests
				demand += perCPU*float64(r.Get(world.CPU))/1000 + perGiB*float64(r.Get(world.Memory))/(1<<30)
			}
		}
	}
	return price, demand
}

// review judges promises that are due, and finds for which share of the usual time savings of each pool count. Pools in motion are judged
// later.
func (l *Loop) review(ctx context.Context, view *state.View, now time.Time) {
	out := map[string]float64{}
	for _, name := range slices.Sorted(maps.Keys(l.promises.pools)) {
		p := l.promises.pools[name]
		before := p.horizon
		if p.saves != 0 && now.Sub(p.last) >= reviewAfter && !l.calm.moving(name) {
			l.judge(view, name, p, now)
		}
		if p.horizon < 1 && now.Sub(p.since) >= regainAfter {
			p.horizon, p.since = min(1, 2*p.horizon), now
		}
		if p.horizon != before {
			l.note(ctx, name, karpv1.SavingsHorizonAnnotationKey, p.String())
		}
		if p.saves == 0 && p.horizon == 1 {
			delete(l.promises.pools, name)
		}
		out[name] = p.horizon
	}
	l.promises.mu.Lock()
	defer l.promises.mu.Unlock()
	l.promises.horizons = out
}

// judge compares what a pool costs with what was promised. What is asked of it may have changed meanwhile, and its price is expected to
// have changed with it.
func (l *Loop) judge(view *state.View, name string, p *promise, now time.Time) {
	price, demand := costOf(view.World, name)
	saved := p.saves
	if p.demand > 0 && demand > 0 {
		saved = p.price*demand/p.demand - price
	}
	before := p.horizon
	if saved >= promiseKept*p.saves {
		p.horizon = min(1, 2*p.horizon)
	} else {
		p.horizon = max(leastHorizon, p.horizon/2)
	}
	if p.horizon != before {
		p.since = now
	}
	l.Log.Info("compared what moves promised with what came of them", "NodePool", name, "promised", why.Money(p.saves), "saved", why.Money(saved),
		"horizon", fmt.Sprintf("%.2f h", p.horizon*disrupt.DefaultHorizon))
	if pool := view.Pool(name); pool != nil && p.horizon < before {
		l.Recorder.Tell(control.Event{
			Object: pool.Object, Warning: true, Reason: EventPromise, Every: promiseEvery,
			Message: fmt.Sprintf("Moves of the last minutes promised to save %s, and saved %s. Savings of this pool count for %.2f h from now on, so that fewer pods are moved for them.",
				why.Money(p.saves), why.Money(math.Max(saved, 0)), p.horizon*disrupt.DefaultHorizon),
		})
	}
	p.saves = 0
}
