package disruption

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/life"
	"karpenter/internal/engine/why"
	"karpenter/internal/state"
)

// EventRepairBlocked is the reason of the event which says that a repair is held back (O50), and repairEvery how often that is told.
const (
	EventRepairBlocked = "NodeRepairBlocked"
	repairEvery        = 15 * time.Minute
)

// repairs adds to a record what ends the repair of a node: within which time it is drained, and which condition is to blame.
func (r *record) repairs(ill *disrupt.Illness) {
	if ill != nil {
		r.grace, r.condition = ill.Grace, ill.Condition
	}
}

// forced says whether pods of a node of the move are evicted within a time, whatever they forbid (D9, N6).
func (r record) forced(claim *karpv1.NodeClaim) bool {
	switch r.reason {
	case disrupt.Drifted:
		return claim.Spec.TerminationGracePeriod != nil
	case disrupt.Unhealthy:
		return r.grace != nil
	case disrupt.Empty, disrupt.Underutilized:
	}
	return false
}

// tighten has the drain of a node that is repaired end in time. An earlier deadline stays.
func (l *Loop) tighten(ctx context.Context, n *state.Node, r record) error {
	if r.reason != disrupt.Unhealthy || r.grace == nil {
		return nil
	}
	claim := n.Claim
	if now := l.Mirror.View().Claim(claim.Name); now != nil && now.Claim != nil && now.Claim.UID == claim.UID {
		claim = now.Claim
	}
	deadline := l.Clock.Now().Add(*r.grace)
	return gone(change(ctx, l, claim, control.Patch, func(c *karpv1.NodeClaim) { control.Tighten(c, deadline) }))
}

// requestReboots writes on the claims of a move that their instances are to be rebooted. Package drain goes on from there.
func (l *Loop) requestReboots(ctx context.Context, s *start) error {
	errs := each(l.Clock, s.nodes, func(n *state.Node) error {
		because, err := l.disturbed(ctx, n, s.record, nil)
		if err == nil && because != "" {
			err = fmt.Errorf("node %s %w: %s", n.World.Name, errDisturbed, because)
		}
		if err != nil {
			return err
		}
		err = change(ctx, l, n.Claim, control.Patch, func(c *karpv1.NodeClaim) {
			delete(c.Annotations, karpv1.RebootPreBootIDAnnotationKey)
			delete(c.Annotations, karpv1.RebootGraceAnnotationKey)
			if s.grace != nil {
				control.Annotate(c, karpv1.RebootGraceAnnotationKey, s.grace.String())
			}
		})
		if err != nil {
			return err
		}
		claim := n.Claim
		if now := l.Mirror.View().Claim(claim.Name); now != nil && now.Claim != nil && now.Claim.UID == claim.UID {
			claim = now.Claim // with what was written a moment ago
		}
		return change(ctx, l, claim, control.PatchStatus, func(c *karpv1.NodeClaim) {
			set, now := c.StatusConditions(), l.Clock.Now()
			set.Set(karpv1.Condition{Type: karpv1.ConditionDisruptionReason, Status: metav1.ConditionTrue, Reason: string(s.reason), Message: control.Blame(s.condition)}, now)
			set.Set(karpv1.Condition{Type: karpv1.ConditionRebooting, Status: metav1.ConditionTrue, Reason: karpv1.ReasonRebootRequested}, now)
		})
	})
	if err := errors.Join(errs...); err != nil {
		return err
	}
	l.reporter.begun(s)
	l.entries.begun(s)
	return nil
}

// unrepairable says why a node must not be repaired although its move has gone so far.
func (l *Loop) unrepairable(n *state.Node) string {
	for _, annotations := range []map[string]string{n.Object.Annotations, n.Claim.Annotations} {
		if annotations[karpv1.DoNotRepairAnnotationKey] == "true" {
			return "it has the annotation " + karpv1.DoNotRepairAnnotationKey
		}
	}
	rules, err := life.NewRepairRules(l.Repair)
	if err != nil {
		return ""
	}
	if _, ill := rules.Diagnose(state.Conditions(n.Object), l.Clock.Now()); !ill {
		return "it is healthy again"
	}
	return ""
}

// repairBlocked tells that so many nodes are unhealthy that none is repaired (N6). The pool is told in words that are the same for all
// its nodes.
func (s *reporter) repairBlocked(view *state.View, n *state.Node, ill *disrupt.Illness, reason why.Reason) {
	_, because, _ := strings.Cut(reason.Line(), ", but ")
	s.about(n, control.Event{Warning: true, Reason: EventRepairBlocked, Message: ill.What + "; not replaced, because " + because, Every: repairEvery})
	if p := view.Pool(n.World.Pool); p != nil {
		s.l.Recorder.Tell(control.Event{
			Object: p.Object, Warning: true, Reason: EventRepairBlocked, Every: repairEvery,
			Message: fmt.Sprintf("Unhealthy nodes are not replaced, because %s", because),
		})
	}
}
