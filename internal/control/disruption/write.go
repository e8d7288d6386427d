package disruption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/state"
	"karpenter/internal/wait"
)

const (
	// writeAttempts is how often a write is tried that others get in the way of. Kubelets write their nodes every few seconds.
	writeAttempts = 5
	// writers is how many objects are written at once: enough to use up the client's burst, few enough not to crowd out others.
	writers = 32
)

// errGone says that an object is not there any more, or that another one has its name.
var errGone = errors.New("is gone")

// each calls do for every item, several at once, and returns what went wrong with each.
func each[T any](clock control.Clock, items []T, do func(T) error) []error {
	errs := make([]error, len(items))
	wait.Each(clock, len(items), writers, func(i int) { errs[i] = do(items[i]) })
	return errs
}

// patcher writes the changes of an object: control.Patch or control.PatchStatus.
type patcher func(ctx context.Context, c client.Client, obj, before client.Object) (bool, error)

// change edits an object and shows the mirror what came of it. What somebody else has changed meanwhile is read anew. obj is
// not changed: it may be anybody's.
func change[T client.Object](ctx context.Context, l *Loop, obj T, write patcher, edit func(T)) error {
	now, ok := obj.DeepCopyObject().(T)
	if !ok {
		return fmt.Errorf("%T cannot be copied", obj)
	}
	for attempt := range writeAttempts {
		before, ok := now.DeepCopyObject().(client.Object)
		if !ok {
			return fmt.Errorf("%T cannot be copied", obj)
		}
		edit(now)
		if same(now, before) {
			if attempt > 0 {
				l.Mirror.Wrote(now) // or the next look decides the same again, until the watch has come
			}
			return nil
		}
		written, err := write(ctx, l.Client, now, before)
		if err != nil {
			l.unsure.add(obj) // it may have been done all the same
			return err
		}
		if written {
			l.Mirror.Wrote(now)
			return nil
		}
		err = l.Live.Get(ctx, client.ObjectKeyFromObject(obj), now)
		if apierrors.IsNotFound(err) || err == nil && now.GetUID() != obj.GetUID() {
			return fmt.Errorf("%T %s %w", obj, obj.GetName(), errGone)
		}
		if err != nil {
			return fmt.Errorf("reading %T %s: %w", obj, obj.GetName(), err)
		}
	}
	return fmt.Errorf("%T %s is being changed by others all the time", obj, obj.GetName())
}

// unsure are claims of which a write has failed. Where it was only the answer that got lost, a move has begun that no watch has shown yet.
type unsure struct {
	mu     sync.Mutex
	claims []*karpv1.NodeClaim
}

func (u *unsure) add(obj client.Object) {
	claim, ok := obj.(*karpv1.NodeClaim)
	if !ok {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !slices.ContainsFunc(u.claims, func(c *karpv1.NodeClaim) bool { return c.UID == claim.UID }) { // it may be refused every second, for hours
		u.claims = append(u.claims, claim)
	}
}

// settle shows the mirror the claims that a write has failed of, as they are. No move begins before that: it would not be counted
// against budgets that another one may have used up.
func (l *Loop) settle(ctx context.Context) error {
	l.unsure.mu.Lock()
	claims := l.unsure.claims
	l.unsure.claims = nil
	l.unsure.mu.Unlock()
	return errors.Join(each(l.Clock, claims, func(claim *karpv1.NodeClaim) error {
		now := &karpv1.NodeClaim{}
		err := l.Live.Get(ctx, client.ObjectKeyFromObject(claim), now)
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			l.unsure.add(claim)
			return fmt.Errorf("reading NodeClaim %s, which could not be written: %w", claim.Name, err)
		case now.UID == claim.UID:
			l.Mirror.Wrote(now)
		}
		return nil
	})...)
}

// mark writes a move on a claim.
func (l *Loop) mark(ctx context.Context, n *state.Node, r record) error {
	return change(ctx, l, n.Claim, control.Patch, func(c *karpv1.NodeClaim) { control.Annotate(c, karpv1.MoveAnnotationKey, r.String()) })
}

// unmark removes it again, and the deadline of a repair with it. A claim that has been deleted meanwhile keeps both.
func (l *Loop) unmark(ctx context.Context, n *state.Node) error {
	return change(ctx, l, n.Claim, control.Patch, func(c *karpv1.NodeClaim) {
		if !c.DeletionTimestamp.IsZero() {
			return
		}
		if r, ok := recordOf(c); ok && r.reason == disrupt.Unhealthy {
			delete(c.Annotations, karpv1.TerminationTimestampAnnotationKey)
		}
		delete(c.Annotations, karpv1.MoveAnnotationKey)
	})
}

// shut keeps new pods off a node, and says on its claim why (D52).
func (l *Loop) shut(ctx context.Context, n *state.Node, reason disrupt.Reason) error {
	if !tainted(n.Object) {
		err := change(ctx, l, n.Object, control.Patch, func(node *corev1.Node) {
			if !tainted(node) {
				taint := karpv1.DisruptedTaint()
				taint.TimeAdded = &metav1.Time{Time: l.Clock.Now().Truncate(time.Second)}
				node.Spec.Taints = append(node.Spec.Taints, taint)
			}
		})
		if err != nil {
			return err
		}
		l.Log.Info("tainted node", "Node", n.Object.Name, "NodeClaim", n.Claim.Name, "taint.Key", karpv1.DisruptedTaintKey, "taint.Effect", corev1.TaintEffectNoSchedule)
	}
	claim := n.Claim
	if now := l.Mirror.View().Claim(claim.Name); now != nil && now.Claim.UID == claim.UID {
		claim = now.Claim // with the mark that was written a moment ago
	}
	return change(ctx, l, claim, control.PatchStatus, func(c *karpv1.NodeClaim) {
		c.StatusConditions().Set(karpv1.Condition{Type: karpv1.ConditionDisruptionReason, Status: metav1.ConditionTrue, Reason: string(reason)}, l.Clock.Now())
	})
}

// open undoes shut. A node that has been deleted meanwhile, or whose claim has, keeps its taint: the claim is written first, which shows
// whether it has.
func (l *Loop) open(ctx context.Context, n *state.Node) error {
	var goes bool
	var failed error
	err := change(ctx, l, n.Claim, control.PatchStatus, func(c *karpv1.NodeClaim) {
		if goes = !c.DeletionTimestamp.IsZero(); !goes {
			_, failed = c.StatusConditions().Clear(karpv1.ConditionDisruptionReason, l.Clock.Now())
		}
	})
	if err = errors.Join(err, failed); err != nil || goes {
		return err
	}
	if n.Object != nil && n.Object.DeletionTimestamp.IsZero() && tainted(n.Object) {
		err := change(ctx, l, n.Object, control.Patch, func(node *corev1.Node) {
			if node.DeletionTimestamp.IsZero() {
				node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey })
			}
		})
		return gone(err)
	}
	return nil
}

func tainted(node *corev1.Node) bool {
	return node != nil && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey })
}

// remove deletes a claim. removed is false if it was not there any more.
func (l *Loop) remove(ctx context.Context, claim *karpv1.NodeClaim) (removed bool, err error) {
	if claim.UID == "" { // it was created without an answer, and only the claim of that UID is deleted
		created := &karpv1.NodeClaim{}
		if err := l.Live.Get(ctx, client.ObjectKeyFromObject(claim), created); err != nil {
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return false, fmt.Errorf("reading NodeClaim %s: %w", claim.Name, err)
		}
		claim = created
	}
	if removed, err = control.Delete(ctx, l.Client, claim.DeepCopy()); err != nil || !removed {
		if err != nil {
			l.unsure.add(claim) // it may have been done all the same
		}
		return false, err
	}
	l.Mirror.Leaving(claim.Name)
	// The next look at the move may come before the watch, and must not take it for one that never got this far.
	now := &karpv1.NodeClaim{}
	if l.Live.Get(ctx, client.ObjectKeyFromObject(claim), now) == nil && now.UID == claim.UID {
		l.Mirror.Wrote(now)
	}
	return true, nil
}
