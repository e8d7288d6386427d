package disruption

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/control/provision"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
	"karpenter/internal/state"
	"karpenter/internal/wait"
)

// atOnce is how many moves begin side by side. Before each such lot the moves are held against the state of that moment, so that
// fewer would cost more looking and more would be older when they begin.
const atOnce = 16

// beginTimeout bounds the beginning of a move, which is a few writes: until its end the pods of its nodes are planned for by nobody
// else. What is not done by then is undone by the next pass, which finds the record.
const beginTimeout = 30 * time.Second

// errDisturbed says that something happened between a decision and its beginning.
var errDisturbed = errors.New("must not be disrupted now")

// plan is a decision with what it was made from.
type plan struct {
	view  *state.View
	in    *disrupt.Input
	moves []*disrupt.Move
	// input names the recording of all that.
	input string
}

// start is a move that has been found to hold a moment ago.
type start struct {
	record
	plan  *plan
	move  *disrupt.Move
	nodes []*state.Node
	from  origin
	kind  string // what metrics call the type of a consolidation
}

// carryOut begins the moves of a plan, and returns how many of them have begun.
func (l *Loop) carryOut(ctx context.Context, p *plan) (begun int) {
	for moves := p.moves; len(moves) > 0 && ctx.Err() == nil; {
		if err := l.settle(ctx); err != nil {
			l.Log.Error("no node is disrupted before it is known which are", "error", err)
			return begun
		}
		lot := moves[:min(len(moves), atOnce)]
		first := len(moves) == len(p.moves)
		moves = moves[len(lot):]
		starts := l.verify(p, lot, first)
		for i, err := range each(l.Clock, starts, func(s *start) error { return l.begin(ctx, s) }) {
			s := starts[i]
			if err == nil {
				begun++
				if s.reason == disrupt.Underutilized {
					l.moved.begin(s)
					l.promises.made(s, l.Clock.Now())
				}
				switch {
				case s.reboot:
					l.entries.ended(s.id, ledger.Done, "its reboot is requested")
				case len(s.to) == 0:
					l.entries.ended(s.id, ledger.Done, "deleted")
				}
				continue
			}
			l.entries.ended(s.id, ledger.Failed, err.Error())
			l.memory.leave(s.nodes, l.Clock.Now())
			l.Meter.Add(meter.DisruptionQueueFailures, 1, "decision", s.decision(), "reason", lower(s.reason), "consolidation_type", s.kind)
			level := slog.LevelError
			if errors.Is(err, errDisturbed) {
				level = slog.LevelInfo
			}
			l.Log.Log(ctx, level, "could not disrupt node(s)", "command-id", s.id, "reason", lower(s.reason),
				"disrupted-nodes", control.FirstFew(nodeNames(s.nodes)), "error", err)
		}
	}
	return begun
}

// verify holds moves against the state of this moment (D50), all of them together: what one uses up is not there for the next.
// first says that none of them has begun; once they have, pools are in motion because of them.
func (l *Loop) verify(p *plan, moves []*disrupt.Move, first bool) []*start {
	now := l.Clock.Now()
	view := l.Mirror.View()
	list, _ := read(view)
	facts := l.facts(view, list, now, l.moved.refresh(view, now, l.created))
	in := facts.Input(view, now)
	if !first {
		for i := range in.Pools {
			in.Pools[i].Turn = true
		}
	}
	check := disrupt.NewCheck(in, l.Options, now)
	trials := l.newTrials(view, in, list)
	var out []*start
	for _, m := range moves {
		if !trials.take(m) {
			continue // not now: others of the pool are being tried
		}
		s := &start{plan: p, move: m, kind: kindOf(m.Reason, len(m.Remove))}
		reason, ok := check.Holds(m)
		if ok {
			s.nodes, ok = p.find(view, m)
		}
		if !ok {
			l.Meter.Add(meter.DisruptionFailedValidations, 1, "consolidation_type", s.kind)
			l.Log.Debug("move does not hold any more", "reason", lower(m.Reason), "message", reason.Line(), "move", m.Why.Line())
			continue
		}
		l.moves++
		s.record = record{id: strconv.FormatInt(now.UnixNano(), 36) + "-" + strconv.Itoa(l.moves), reason: m.Reason, began: now, saves: p.share(m)}
		s.reboot, s.first = m.Reboot, m.TerminateFirst
		s.repairs(p.in.Nodes[m.Remove[0]].Illness)
		s.from = origin{s.id, m.From}
		out = append(out, s)
	}
	return out
}

// share is the part that a consolidation saves of the price of the nodes that it removes.
func (p *plan) share(m *disrupt.Move) float64 {
	price := 0.0
	for _, i := range m.Remove {
		price += p.in.World.Nodes[i].Price
	}
	if m.Reason != disrupt.Underutilized || price <= 0 {
		return 0
	}
	return m.Saves / price
}

// find gives the nodes of a move as they are in a later view, unless another node has the name of one.
func (p *plan) find(view *state.View, m *disrupt.Move) (nodes []*state.Node, ok bool) {
	for _, i := range m.Remove {
		was := p.view.Nodes[i]
		n := view.Node(was.World.Name)
		if n == nil || n.Claim == nil || was.Claim == nil || n.Object == nil || n.Claim.UID != was.Claim.UID {
			return nil, false
		}
		nodes = append(nodes, n)
	}
	return nodes, true
}

// begin carries a move out as far as it goes without waiting: it is written down, pods are kept off its nodes, the pods that
// are there are looked at once more, and then either what replaces the nodes is created, or they are deleted (D52).
func (l *Loop) begin(ctx context.Context, s *start) error {
	defer l.Turn.begin(s.nodes)()
	ctx, cancel := wait.Timeout(ctx, l.Clock, beginTimeout)
	defer cancel()
	if s.reboot {
		return l.requestReboots(ctx, s)
	}
	add := s.move.Add
	if s.first {
		add = nil // provisioning launches it when its place is free
	}
	drafts := l.Creator.Drafts(s.plan.view, add, lower(s.reason))
	if len(drafts) != len(add) {
		return errors.New("the pool of a replacement is gone")
	}
	for _, d := range drafts {
		control.Annotate(d.Claim, karpv1.MovedFromAnnotationKey, s.from.String())
		s.to = append(s.to, d.Claim.Name)
	}
	errs := each(l.Clock, s.nodes, func(n *state.Node) error { return l.prepareNode(ctx, n, s) })
	if len(drafts) > 0 {
		if err := errors.Join(errs...); err != nil {
			return errors.Join(err, l.putBack(ctx, s.nodes))
		}
		l.reporter.begun(s)
		l.entries.begun(s)
		return l.create(ctx, s, drafts)
	}
	var ready, rest []*state.Node
	for i, n := range s.nodes {
		if errs[i] == nil {
			ready = append(ready, n)
		} else {
			rest = append(rest, n)
		}
	}
	if len(rest) > 0 {
		errs = append(errs, l.putBack(ctx, rest))
	}
	if s.nodes = ready; len(ready) == 0 {
		s.nodes = rest
		return errors.Join(errs...)
	}
	l.reporter.begun(s)
	l.entries.begun(s)
	return l.end(ctx, ready, s.record, s.kind)
}

// prepareNode writes a move on a node and its claim, and then looks at the pods once more.
func (l *Loop) prepareNode(ctx context.Context, n *state.Node, s *start) error {
	if err := l.mark(ctx, n, s.record); err != nil {
		return err
	}
	if err := l.shut(ctx, n, s.reason); err != nil {
		return err
	}
	why, err := l.disturbed(ctx, n, s.record, known(n))
	if err == nil && why != "" {
		err = fmt.Errorf("node %s %w: %s", n.World.Name, errDisturbed, why)
	}
	return err
}

// create creates what replaces the nodes of a move. If any of it fails, none of it stays. As long as something may be there that nobody can
// remove yet, the record stays: the next pass finds out, and goes on or undoes what is left.
func (l *Loop) create(ctx context.Context, s *start, drafts []*provision.Draft) error {
	errs, err := make([]error, len(drafts)), error(nil)
	if s.move.Static { // its limit counts claims that no watch has shown yet
		_, err = l.Creator.Confirm(ctx, drafts[0].Node.Pool.Name)
	}
	if err == nil {
		errs = l.Creator.Create(ctx, drafts)
		err = errors.Join(errs...)
	}
	if err == nil {
		return nil
	}
	view := l.Mirror.View()
	for i, d := range drafts {
		if errs[i] != nil && view.Claim(d.Claim.Name) != nil { // the mirror counts what may have been created
			return nil
		}
	}
	var left error
	for i, d := range drafts {
		if errs[i] != nil {
			l.replacementFailed(ctx, s.plan.view, poolOf(d.Claim), errs[i].Error())
			continue
		}
		_, failed := l.remove(ctx, d.Claim)
		left = errors.Join(left, failed)
	}
	if left != nil {
		return errors.Join(err, left)
	}
	return errors.Join(err, l.putBack(ctx, s.nodes))
}

// putBack makes nodes usable again. The record of the move goes last: whoever finds it finishes what is left to undo.
func (l *Loop) putBack(ctx context.Context, nodes []*state.Node) error {
	return errors.Join(each(l.Clock, nodes, func(n *state.Node) error {
		if n = l.Mirror.View().Claim(n.Claim.Name); n == nil || deleted(n) {
			return nil
		}
		if err := l.open(ctx, n); err != nil {
			return gone(err)
		}
		if n = l.Mirror.View().Claim(n.Claim.Name); n == nil {
			return nil
		}
		return gone(l.unmark(ctx, n))
	})...)
}

// gone forgives that an object is not there any more.
func gone(err error) error {
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

// What metrics call the type of a consolidation.
const (
	kindEmpty  = "empty"
	kindMulti  = "multi"
	kindSingle = "single"
)

// kindOf is the type of a move that takes so many nodes away for a reason.
func kindOf(reason disrupt.Reason, nodes int) string {
	switch {
	case reason == disrupt.Empty:
		return kindEmpty
	case reason == disrupt.Drifted || reason == disrupt.Unhealthy:
		return ""
	case nodes > 1:
		return kindMulti
	}
	return kindSingle
}

func lower(r disrupt.Reason) string { return strings.ToLower(string(r)) }
