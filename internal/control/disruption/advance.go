package disruption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
	"karpenter/internal/state"
)

// How long what replaces nodes may take to come up: the more is under way, the longer (D54).
const (
	leastPatience = 10 * time.Minute
	mostPatience  = time.Hour
	perNode       = 80 * time.Millisecond
)

// lookHolds is how old the last look at a move's nodes may be when they are deleted. All moves are looked at before the first one ends, which takes longer if
// there are hundreds, or if the API server is slow.
const lookHolds = time.Second

// usable is how far a claim has come that has come all the way.
const usable = "it was usable"

// waited is what is known of a claim that replaces others: of which pool it is and how far it has come.
type waited struct{ pool, state string }

// clean takes away what a move has left on nodes without being written on them (D2).
func (l *Loop) clean(ctx context.Context, stale []*state.Node) {
	for i, err := range each(l.Clock, stale, func(n *state.Node) error { return l.putBack(ctx, []*state.Node{n}) }) {
		if err != nil {
			l.Log.Error("could not take back the marks of a disruption", "Node", stale[i].World.Name, "NodeClaim", stale[i].Claim.Name, "error", err)
		}
	}
}

// advance takes moves that have begun as far as they go. acted says that something has changed.
func (l *Loop) advance(ctx context.Context, view *state.View, list []*command) (acted bool) {
	count := 0
	seen := map[string]waited{}
	for _, c := range list {
		count += len(c.stay)
		for _, name := range c.to {
			if n := view.Claim(name); n != nil && n.Claim != nil {
				seen[name] = waited{poolOf(n.Claim), progress(n.Claim)}
			} else if w, ok := l.replaced[name]; ok {
				seen[name] = w
			}
		}
	}
	l.replaced = seen
	patience := min(max(time.Duration(count)*perNode, leastPatience), mostPatience)
	each(l.Clock, list, func(c *command) error {
		if len(c.to) > 0 && c.up() {
			c.looked = l.Clock.Now()
			c.forbidden, c.unknown = l.forbids(ctx, c)
		}
		return nil
	})
	var off []*command
	for _, c := range list {
		open := !c.done() && !c.up()
		c.late = open && l.Clock.Since(c.began) > patience
		if c.late || open && len(c.lost) > 0 || c.forbidden != "" {
			off = append(off, c)
		}
	}
	l.above = aboveLimits(view, off)
	off = slices.DeleteFunc(off, func(c *command) bool {
		c.late = c.late && !l.waits(view, c)
		return !c.late && len(c.lost) == 0 && c.forbidden == ""
	})
	l.above = aboveLimits(view, off)
	var changed atomic.Bool
	each(l.Clock, list, func(c *command) error {
		did, err := l.step(ctx, view, c)
		if did {
			changed.Store(true)
		}
		if err != nil && ctx.Err() == nil {
			l.Log.Error("disruption does not get on", "command-id", c.id, "reason", lower(c.reason), "error", err)
		}
		return nil
	})
	return changed.Load()
}

// waits says whether a move that is late waits on, because its pool would end what replaces its nodes, and which has deadlines of its own: a static
// pool has one node too many then, and others may have no room for both within their limits.
func (l *Loop) waits(view *state.View, c *command) bool {
	if l.Clock.Since(c.began) > mostPatience {
		return false
	}
	p := view.Pool(poolOf(c.stay[0].Claim))
	return p != nil && p.World.Static || slices.ContainsFunc(c.made, func(n *state.Node) bool { return l.above[n.Claim.Name] && n.Claim.Status.ProviderID != "" })
}

// progress is how far a claim has come, in words.
func progress(claim *karpv1.NodeClaim) string {
	for _, kind := range []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized} {
		c := claim.StatusConditions().Get(kind)
		if c == nil || c.Status == metav1.ConditionTrue {
			continue
		}
		if c.Message == "" {
			return fmt.Sprintf("it is not %s: %s", kind, c.Reason)
		}
		return fmt.Sprintf("it is not %s: %s: %s", kind, c.Reason, c.Message)
	}
	return usable
}

// step takes one move as far as it goes.
func (l *Loop) step(ctx context.Context, view *state.View, c *command) (did bool, err error) {
	switch {
	case c.done():
		return false, nil
	case len(c.to) == 0:
		if err := l.reread(ctx, c); err != nil || c.done() {
			return true, err
		}
		return true, l.callOff(ctx, c, slog.LevelInfo, "it was interrupted before its nodes were deleted")
	case c.up():
		return l.finish(ctx, c)
	}
	if len(c.lost) > 0 {
		if slices.ContainsFunc(c.made, func(n *state.Node) bool { return n.Claim.UID == "" }) {
			return false, nil // that one may still come, and is removed with the others once it is known
		}
		lost, err := l.reallyLost(ctx, c)
		if err != nil {
			return false, err
		}
		if lost != "" {
			return true, l.fail(ctx, view, c, lost)
		}
	}
	if slow := slices.IndexFunc(c.made, func(n *state.Node) bool { return !initialized(n.Claim) }); c.late && slow >= 0 {
		return true, l.fail(ctx, view, c, c.made[slow].Claim.Name)
	}
	for _, n := range c.stay {
		if !tainted(n.Object) && n.Object != nil {
			if err := l.shut(ctx, n, c.reason); err != nil {
				return false, err
			}
		}
	}
	l.reporter.waiting(c)
	return false, nil
}

// reread finds those nodes of a move whose claims have been deleted, as the API server itself says: the answer to the deletion may have
// got lost.
func (l *Loop) reread(ctx context.Context, c *command) error {
	var stay []*state.Node
	for _, n := range c.stay {
		claim := &karpv1.NodeClaim{}
		err := l.Live.Get(ctx, client.ObjectKeyFromObject(n.Claim), claim)
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading NodeClaim %s: %w", n.Claim.Name, err)
		}
		if err == nil && claim.UID == n.Claim.UID && !claim.DeletionTimestamp.IsZero() {
			l.Mirror.Wrote(claim)
		}
		if err != nil || claim.UID != n.Claim.UID || !claim.DeletionTimestamp.IsZero() {
			c.going = append(c.going, n)
			continue
		}
		stay = append(stay, n)
	}
	c.stay = stay
	return nil
}

// reallyLost is the name of a replacement that is not there or is being deleted, as the API server itself says: what a mirror
// does not show may be on its way.
func (l *Loop) reallyLost(ctx context.Context, c *command) (string, error) {
	for _, name := range c.lost {
		claim := &karpv1.NodeClaim{}
		err := l.Live.Get(ctx, client.ObjectKey{Name: name}, claim)
		switch {
		case apierrors.IsNotFound(err), err == nil && !claim.DeletionTimestamp.IsZero():
			return name, nil
		case err != nil:
			return "", fmt.Errorf("reading NodeClaim %s: %w", name, err)
		}
		if node := l.Mirror.View().Claim(name); node != nil && deleted(node) {
			return name, nil // its node has been deleted and takes it along
		}
	}
	return "", nil
}

// aboveLimits names replacements of moves that are given up, of those that run no pods, which their pools have no room for once the nodes of
// these moves count against limits again.
func aboveLimits(view *state.View, off []*command) map[string]bool {
	out := map[string]bool{}
	for _, p := range view.World.Pools {
		use := view.Usage(p.Name)
		nodes, capacity := int64(use.Nodes), use.Capacity
		count := func(n *state.Node, times int64) {
			nodes += times
			for i, q := range n.World.Capacity {
				capacity = capacity.Set(i, world.AddSat(capacity.Get(i), times*q))
			}
		}
		above := func() bool {
			return p.MaxNodes >= 0 && nodes > p.MaxNodes || slices.ContainsFunc(p.Limits, func(l world.Limit) bool { return capacity.Get(l.Resource) > l.Max })
		}
		for _, c := range off {
			for _, n := range c.stay {
				if n.World.Pool == p.Name && n.World.Deleting {
					count(n, 1)
				}
			}
		}
		for _, c := range slices.Backward(off) {
			for _, n := range slices.Backward(c.made) {
				used := slices.ContainsFunc(n.World.Pods, func(p *world.Pod) bool { return p.Movable })
				if above() && n.World.Pool == p.Name && !n.World.Deleting && !used {
					out[n.Claim.Name] = true
					count(n, -1)
				}
			}
		}
	}
	return out
}

// fail gives up a move because of one of its replacements.
func (l *Loop) fail(ctx context.Context, view *state.View, c *command, because string) error {
	w, ok := l.replaced[because]
	if !ok {
		w = waited{poolOf(c.stay[0].Claim), "it was never created"}
	}
	why := fmt.Sprintf("nodeclaim/%s did not become ready: %s", because, w.state)
	if w.state == usable {
		why = fmt.Sprintf("nodeclaim/%s, which was ready, has been removed", because)
	}
	if err := l.giveUp(ctx, c, slog.LevelError, why); err != nil {
		return err
	}
	if !ok || w.state == usable {
		return nil // whoever should have created it has ended, or it joined and somebody has removed it: that says nothing about the pool
	}
	l.replacementFailed(ctx, view, w.pool, why)
	return nil
}

// giveUp calls a move off that has replacements. If one of them was late, the others that have an instance stay: they may still come up, and
// have deadlines of their own. Otherwise those stay that are up. But where the nodes of the move, which count again, take up the limits of
// their pool, replacements go too.
func (l *Loop) giveUp(ctx context.Context, c *command, level slog.Level, why string) error {
	for _, n := range c.made {
		if l.above[n.Claim.Name] {
			l.Log.Info("replacement goes: once the disrupted nodes stay, its pool has no room for it within its limits", "command-id", c.id, "NodeClaim", n.Claim.Name, "NodePool", poolOf(n.Claim))
		}
		if l.above[n.Claim.Name] || n.Claim.Status.ProviderID == "" || !c.late && !initialized(n.Claim) {
			if _, err := l.remove(ctx, n.Claim); err != nil {
				return err
			}
		}
	}
	return l.callOff(ctx, c, level, why)
}

// callOff puts the nodes of a move back as they were.
func (l *Loop) callOff(ctx context.Context, c *command, level slog.Level, why string) error {
	if err := l.putBack(ctx, c.stay); err != nil {
		return err
	}
	l.memory.leave(c.stay, l.Clock.Now())
	l.moved.stayed(c.id)
	l.reporter.calledOff(c, why)
	l.entries.ended(c.id, ledger.Failed, "the nodes stay: "+why)
	l.Log.Log(ctx, level, "disruption was called off", "command-id", c.id, "reason", lower(c.reason), "disrupted-nodes", control.FirstFew(nodeNames(c.stay)),
		"replacement-nodes", control.FirstFew(c.to), "error", why)
	return nil
}

// finish deletes the nodes of a move whose replacements are up (D53), unless somebody forbids it now.
func (l *Loop) finish(ctx context.Context, c *command) (did bool, err error) {
	if c.unknown != nil {
		return false, c.unknown
	}
	if c.forbidden != "" {
		return true, l.giveUp(ctx, c, slog.LevelInfo, c.forbidden)
	}
	if l.Clock.Since(c.looked) > lookHolds {
		if why, err := l.forbids(ctx, c); why != "" || err != nil {
			return false, err // the next pass calls it off, once it knows what its pool has room for then
		}
	}
	for _, n := range c.made {
		if l.breaker.joined(poolOf(n.Claim)) {
			l.noteFailures(ctx, poolOf(n.Claim))
		}
		if up := n.Claim.StatusConditions().Get(karpv1.ConditionInitialized); up != nil {
			l.Meter.Observe(meter.ReplacementInitialized, up.LastTransitionTime.Sub(n.Claim.CreationTimestamp.Time).Seconds())
		}
	}
	now := l.Clock.Now()
	if err := l.end(ctx, c.stay, c.record, c.kind()); err != nil {
		return true, err
	}
	l.moved.left(c.id, now)
	l.entries.ended(c.id, ledger.Done, "what replaces the nodes is up, and they are deleted")
	return true, nil
}

// forbids says which node of a move must not be removed although what replaces them is up, and why.
func (l *Loop) forbids(ctx context.Context, c *command) (string, error) {
	for _, n := range c.stay {
		why, err := l.forbidden(ctx, n, c.record)
		if err != nil {
			return "", err
		}
		if why != "" {
			return "node " + n.World.Name + ": " + why, nil
		}
	}
	return "", nil
}

// forbidden says why a node must not be removed although its move has gone so far.
func (l *Loop) forbidden(ctx context.Context, n *state.Node, r record) (string, error) {
	if n.Object == nil {
		return "", nil
	}
	if r.reason == disrupt.Unhealthy {
		if because := l.unrepairable(n); because != "" {
			return because, nil
		}
		return l.disturbed(ctx, n, r, nil)
	}
	for _, annotations := range []map[string]string{n.Object.Annotations, n.Claim.Annotations} {
		if annotations[karpv1.DoNotDisruptAnnotationKey] == "true" {
			return "it has the annotation " + karpv1.DoNotDisruptAnnotationKey, nil
		}
	}
	return l.disturbed(ctx, n, r, nil)
}

// end deletes the claims of nodes, of a move of that kind.
func (l *Loop) end(ctx context.Context, nodes []*state.Node, r record, kind string) error {
	return errors.Join(each(l.Clock, nodes, func(n *state.Node) error {
		if err := l.tighten(ctx, n, r); err != nil {
			return err
		}
		removed, err := l.remove(ctx, n.Claim)
		if removed {
			l.reporter.ended(n, r, kind)
		}
		return err
	})...)
}
