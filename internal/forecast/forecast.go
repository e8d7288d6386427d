// Package forecast says what a cluster comes to. It carries the engine's decisions out on copies of the objects, one round after
// the other: kube-scheduler binds what fits on nodes that there are, nodes are made for pods that do not fit there, then there
// are moves as far as budgets let them, until nothing is left to do. New nodes are up and pods have restarted when the next
// round begins; what that takes is added up.
//
// The package touches nothing. The same input gives the same outcome.
package forecast

import (
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/model"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

const (
	// maxRounds bounds the rounds, so that a fleet that never comes to rest still gets an answer.
	maxRounds = 400
	// horizon is how far into the future nodes are waited for, until they have been quiet long enough or a budget lets them go.
	horizon = 24 * time.Hour
	// defaultBoot is how long a node takes to start where nothing is known about it.
	defaultBoot = time.Minute
)

// Start is what a forecast begins with.
type Start struct {
	// Objects are the cluster. They are not changed.
	Objects *dump.Objects
	// Record is what else a view is made from; its Now is when the forecast begins.
	Record state.Record
	// Options are how decisions are made.
	Options disrupt.Options
	// Past are moves of late.
	Past []disrupt.Past
	// Held says of pools that make no nodes for now why not. How long that lasts is not known: they make none in the forecast.
	Held map[string]string
}

// Move is one that was carried out.
type Move struct {
	Round int           `json:"round"`
	After time.Duration `json:"-"`
	model.Move
}

// Outcome is what the cluster comes to.
type Outcome struct {
	Before, After model.Cost
	// Nodes are those at the end, by name.
	Nodes []model.PlannedNode
	Moves []Move
	// Unplaced are pods that wait at the end, by name of the first.
	Unplaced []model.Pending
	// Evicts is how many pods restart.
	Evicts int
	// Rounds counts rounds in which something was done; Took is how long they take.
	Rounds int
	Took   time.Duration
	// Boot is how long a node takes to start, as the median of Observed nodes, or a guess if that is zero.
	Boot     time.Duration
	Observed int
	// Restless says that there was still something to do when the forecast ended.
	Restless bool
	// Held are the pools that make no nodes at the end, by name.
	Held []Held
	// Problems names objects that could not be read.
	Problems []dump.Problem
}

// Run makes a forecast.
func Run(s Start) *Outcome {
	r := newRun(s)
	view := r.view()
	r.out.Before, r.out.Problems = fleet(view), r.problems
	r.settleStarting(view)
	for range maxRounds {
		view = r.view()
		if len(view.World.Pending) > 0 && r.schedule(view) {
			continue
		}
		if r.carryScaling(view) {
			continue
		}
		plan := pack.Solve(r.facts().World(view), r.start.Options.Pack)
		r.noteUnplaced(view, plan)
		if r.carryPlan(view, plan) {
			continue
		}
		if r.dropLeaving(view) {
			continue
		}
		in := r.facts().Input(view, r.now)
		opt := r.start.Options
		opt.Turn = r.out.Rounds
		if d := disrupt.Decide(in, opt, r.now); len(d.Moves) > 0 {
			r.carryMoves(view, d.Moves)
			continue
		}
		next, ok := r.next(view)
		if !ok {
			return r.finish(view)
		}
		r.now = next
	}
	r.out.Restless = true
	return r.finish(r.view())
}

// next is when something may have become possible that is not now.
func (r *run) next(view *state.View) (time.Time, bool) {
	var at time.Time
	consider := func(t time.Time) {
		if t.After(r.now) && t.Sub(r.start.Record.Now) <= horizon && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, n := range view.Nodes {
		pool := view.Pool(n.World.Pool)
		if pool == nil || n.Claim == nil || pool.Object.Spec.Disruption.ConsolidateAfter.IsNever() {
			continue
		}
		if since := view.QuietSince(n); !since.IsZero() {
			consider(since.Add(*pool.Object.Spec.Disruption.ConsolidateAfter.Duration))
		}
	}
	for _, p := range r.objects.Pools {
		for i := range p.Spec.Disruption.Budgets {
			b := &p.Spec.Disruption.Budgets[i]
			if b.Schedule == nil {
				continue
			}
			windows, err := b.Windows(r.now, r.start.Record.Now.Add(horizon))
			if err != nil {
				continue // a budget that cannot be understood holds at all times
			}
			for _, w := range windows {
				consider(w.From)
				consider(w.To)
			}
		}
	}
	return at, !at.IsZero()
}

func (r *run) finish(view *state.View) *Outcome {
	r.out.After = fleet(view)
	for _, n := range view.Nodes {
		r.out.Nodes = append(r.out.Nodes, r.node(view, n))
	}
	r.out.Held = heldPools(view, r.facts().World(view), r.lacking(view))
	r.out.Took = r.acted.Sub(r.start.Record.Now)
	return r.out
}

// fleet sums the nodes up that are there to stay.
func fleet(view *state.View) model.Cost {
	var f model.Cost
	for _, n := range view.World.Nodes {
		f.Nodes++
		f.Price += n.Price
	}
	return f
}
