package disruption

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"karpenter/internal/ledger"
	"karpenter/internal/state"
)

// Facts is what a decision about the view would depend on besides the view.
func (l *Loop) Facts(view *state.View, now time.Time) ledger.Facts {
	list, _ := read(view)
	return l.facts(view, list, now, l.moved.look(view, now, l.created))
}

// created is when a ReplicaSet was created; zero if it is not known.
func (l *Loop) created(set types.UID) time.Time {
	if l.Arrivals == nil {
		return time.Time{}
	}
	return l.Arrivals.Rollouts().Created(set)
}

// facts is what a decision depends on besides the view: where pods are expected, which were moved, nodes that are part of a move, and
// pools whose replacements fail.
func (l *Loop) facts(view *state.View, list []*command, now time.Time, moved map[string]state.Moved) ledger.Facts {
	f := ledger.Facts{
		Expected: l.Creator.Expected(view), Held: l.held(view, now), Nominated: map[string]time.Time{}, Busy: map[string]string{}, Fixed: map[string]string{},
		Past: ledger.NewPast(l.memory.recent(now)), Repair: l.Repair, Moved: moved, Horizon: l.promises.horizon(),
	}
	l.arrivals(view, &f, now)
	for _, c := range list {
		for _, n := range slices.Concat(c.stay, c.going) {
			f.Busy[n.Claim.Name] = "it is being deleted already"
		}
		for _, name := range c.to {
			f.Fixed[name] = "it is kept for the pods of nodes that it replaces"
		}
	}
	for _, n := range view.Nodes {
		if l.Nominated != nil {
			if until := l.Nominated(n.World.Name); now.Before(until) {
				f.Nominated[n.World.Name] = until
			}
		}
		if n.Claim != nil && f.Fixed[n.Claim.Name] == "" && l.memory.resting(n.Claim.Name, now) {
			f.Fixed[n.Claim.Name] = "a move of it was called off a moment ago"
		}
	}
	return f
}

// held says which pools make no nodes for now, and why.
func (l *Loop) held(view *state.View, now time.Time) map[string]string {
	out := map[string]string{}
	for _, p := range view.World.Pools {
		until, why := l.breaker.held(p.Name, l.version(view, p.Name), now)
		if until.IsZero() && l.Gate != nil {
			until, why = l.Gate.Paused(p.Name)
		}
		if until.After(now) {
			out[p.Name] = "is held back: " + why
		}
	}
	return out
}

// version is that of a pool and its class: it changes with everything that the pool's nodes are made from.
func (l *Loop) version(view *state.View, pool string) string {
	p := view.Pool(pool)
	if p == nil {
		return ""
	}
	class := ""
	if ref := p.Object.Spec.Template.Spec.NodeClassRef; ref != nil && l.ClassVersion != nil {
		class = l.ClassVersion(ref.Name)
	}
	return fmt.Sprintf("%s/%d/%s", p.Object.UID, p.Object.Generation, class)
}
