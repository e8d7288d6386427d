package drain

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
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
	"karpenter/internal/state"
	"karpenter/internal/wait"
)

// Reasons of events about reboots.
const (
	EventRebooting       = "NodeRebooting"
	EventRebootSucceeded = "NodeRebootSucceeded"
	EventRebootFailed    = "NodeRebootFailed"
)

// reboots reboots the instances of claims that repair has chosen for it (N7): new pods are kept off the node, those that are there are
// evicted as far as budgets and annotations allow, the cloud is asked, and the node is waited for. If it does not come back the claim is
// deleted. How far it has come is in the claim's condition Rebooting and its annotations, each written before the next step.
type reboots struct {
	*Drainer
	queue    *queue
	draining names
	// accepted are the reboots that the cloud has accepted, as long as that is not written down.
	accepted names

	// watching is since when the process has been at work on reboots.
	begin    sync.Once
	watching time.Time
}

func (r *reboots) register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("nodeclaim.reboot").
		For(&karpv1.NodeClaim{}, builder.WithPredicates(predicate.NewPredicateFuncs(func(o client.Object) bool {
			c, ok := o.(*karpv1.NodeClaim)
			return ok && (rebooting(c) || leftovers(c) || r.draining.has(c.Status.NodeName))
		}))).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.claimOf)).
		WithOptions(control.Workers(reconcilers, r.Clock)).
		Complete(r)
}

// rebooting says whether a claim's instance is being rebooted, and leftovers whether that is over and something is left of it.
func rebooting(c *karpv1.NodeClaim) bool {
	return c.StatusConditions().IsTrue(karpv1.ConditionRebooting)
}

func leftovers(c *karpv1.NodeClaim) bool {
	_, left := c.Annotations[karpv1.RebootPreBootIDAnnotationKey]
	return left && !rebooting(c)
}

// claimOf is the claim of a node that is rebooted.
func (r *reboots) claimOf(_ context.Context, obj client.Object) []reconcile.Request {
	node, ok := obj.(*corev1.Node)
	if !ok || !slices.ContainsFunc(node.Spec.Taints, isRebooting) {
		return nil
	}
	for _, o := range node.OwnerReferences {
		if o.Kind == "NodeClaim" {
			return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.Name}}}
		}
	}
	return nil
}

func isRebooting(t corev1.Taint) bool { return t.Key == karpv1.RebootingTaintKey }

// reboot is one look at a claim that is rebooted; node is nil if there is none.
type reboot struct {
	claim *karpv1.NodeClaim
	node  *corev1.Node
	facts life.Rebooting
	pods  []corev1.Pod
}

// id is what the reboot is called: the same for all who work on it, and another for the next reboot of the claim.
func (b *reboot) id() string { return fmt.Sprintf("%s-%d", b.claim.UID, b.facts.Requested.Unix()) }

// Reconcile takes one reboot as far as it goes now.
func (r *reboots) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	r.begin.Do(func() { r.watching = r.Clock.Now() })
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, request.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !claim.Spec.NodeClassRef.Is(r.Class) || !claim.DeletionTimestamp.IsZero() || !rebooting(claim) {
		r.draining.drop(claim.Status.NodeName)
		if claim.DeletionTimestamp.IsZero() && leftovers(claim) && claim.Spec.NodeClassRef.Is(r.Class) {
			return r.tidy(ctx, claim)
		}
		return reconcile.Result{}, nil
	}
	b, err := r.load(ctx, claim)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !b.facts.Issued.IsZero() {
		r.accepted.drop(b.id())
	}
	if r.accepted.has(b.id()) { // whatever else there is to say, it has to be written down first
		if err := r.look(ctx, b); err != nil {
			return reconcile.Result{}, err
		}
		if !b.facts.Gone {
			after, err := r.issue(ctx, b)
			return reconcile.Result{RequeueAfter: after}, err
		}
	}
	step := b.facts.Next(r.Clock.Now())
	if step.Do == life.RebootFail && !b.facts.Gone { // what the cache shows may be older than the node's return
		if err := r.look(ctx, b); err != nil {
			return reconcile.Result{}, err
		}
		step = b.facts.Next(r.Clock.Now())
	}
	if step.Do != life.RebootDrain {
		r.draining.drop(claim.Status.NodeName)
	}
	after, err := r.carryOut(ctx, b, step)
	return reconcile.Result{RequeueAfter: after}, err
}

// load finds out how far a reboot has come.
func (r *reboots) load(ctx context.Context, claim *karpv1.NodeClaim) (*reboot, error) {
	now, is := r.Clock.Now(), claim.StatusConditions().Get(karpv1.ConditionRebooting)
	b := &reboot{claim: claim, node: &corev1.Node{}, facts: life.Rebooting{Requested: is.LastTransitionTime.Time, Watching: r.watching}}
	if text, ok := claim.Annotations[karpv1.RebootGraceAnnotationKey]; ok {
		grace, err := time.ParseDuration(text)
		if err != nil { // nobody knows what was meant: nothing is waited for
			grace = 0
		}
		b.facts.Grace = &grace
	}
	if id, asked := claim.Annotations[karpv1.RebootPreBootIDAnnotationKey]; asked {
		b.facts.PreBoot, b.facts.Asked = id, is.LastTransitionTime.Time
		if list := life.Reboots(claim.Annotations[karpv1.RebootsAnnotationKey], now); len(list) > 0 {
			b.facts.Asked, b.facts.Day = list[len(list)-1], len(list)
		}
	}
	if is.Reason == karpv1.ReasonRebootIssued {
		b.facts.Issued = b.facts.Asked
		if c := claim.StatusConditions().Get(karpv1.ConditionInitialized); c != nil && c.LastTransitionTime.After(b.facts.Issued) {
			b.facts.Issued = c.LastTransitionTime.Time
		}
	}
	key := client.ObjectKey{Name: claim.Status.NodeName}
	err := r.Client.Get(ctx, key, b.node)
	if apierrors.IsNotFound(err) { // which the API server itself has to say
		err = r.Live.Get(ctx, key, b.node)
	}
	if apierrors.IsNotFound(err) {
		b.facts.Gone = true
		return b, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Node %s: %w", claim.Status.NodeName, err)
	}
	b.facts.Boot, b.facts.Ready = b.node.Status.NodeInfo.BootID, control.Ready(b.node)
	if i := slices.IndexFunc(b.node.Spec.Taints, isRebooting); i >= 0 {
		b.facts.Tainted = is.LastTransitionTime.Time
		if added := b.node.Spec.Taints[i].TimeAdded; added != nil {
			b.facts.Tainted = added.Time
		}
	}
	if b.pods, err = podsOn(ctx, r.Client, b.node.Name); err != nil {
		return nil, err
	}
	b.facts.Waiting = len(r.leaving(b))
	return b, nil
}

// look has the API server itself say how the node is.
func (r *reboots) look(ctx context.Context, b *reboot) error {
	node := &corev1.Node{}
	if err := r.Live.Get(ctx, client.ObjectKey{Name: b.claim.Status.NodeName}, node); err != nil {
		if b.facts.Gone = apierrors.IsNotFound(err); b.facts.Gone {
			return nil
		}
		return fmt.Errorf("reading Node %s: %w", b.claim.Status.NodeName, err)
	}
	b.node, b.facts.Boot, b.facts.Ready = node, node.Status.NodeInfo.BootID, control.Ready(node)
	return nil
}

// leaving are the pods that are to go before the reboot, with what to do about each. Pods of DaemonSets ride along.
func (r *reboots) leaving(b *reboot) map[int]life.PodStep {
	out := map[int]life.PodStep{}
	for i := range b.pods {
		facts := state.Leaving(&b.pods[i])
		if step := facts.Next(time.Time{}, r.Clock.Now()); step.Do != life.Skip && !facts.Daemon {
			out[i] = step
		}
	}
	return out
}

// carryOut does one step, and says after how long to look again.
func (r *reboots) carryOut(ctx context.Context, b *reboot, step life.RebootStep) (again time.Duration, err error) {
	switch step.Do {
	case life.RebootTaint:
		return r.taint(ctx, b)
	case life.RebootDrain:
		r.draining.add(b.node.Name)
		leaving := r.leaving(b)
		for i := range b.pods {
			if leaving[i].Do == life.Evict {
				r.queue.Add(&b.pods[i], order{node: b.node, reason: evictionReason(b.claim)})
			}
		}
		return step.After, nil
	case life.RebootRecord:
		before := b.claim.DeepCopy()
		control.Annotate(b.claim, karpv1.RebootPreBootIDAnnotationKey, b.facts.Boot)
		control.Annotate(b.claim, karpv1.RebootsAnnotationKey, life.Rebooted(b.claim.Annotations[karpv1.RebootsAnnotationKey], r.Clock.Now()))
		return r.wrote(control.Patch(ctx, r.Client, b.claim, before))
	case life.RebootAsk:
		return r.ask(ctx, b, step.After)
	case life.RebootIssue:
		return r.issue(ctx, b)
	case life.RebootSucceed:
		return r.succeed(ctx, b, step)
	case life.RebootFail:
		return r.fail(ctx, b, step)
	case life.RebootHold:
	}
	return step.After, nil
}

// wrote is when to look again after a write: at once, if it went through.
func (r *reboots) wrote(_ bool, err error) (time.Duration, error) { return soon, err }

// taint keeps new pods off the node.
func (r *reboots) taint(ctx context.Context, b *reboot) (time.Duration, error) {
	r.tell(b, false, EventRebooting, "The node is unhealthy; its instance is rebooted once its pods have been evicted")
	before, taint := b.node.DeepCopy(), karpv1.RebootingTaint()
	taint.TimeAdded = &metav1.Time{Time: r.Clock.Now().Truncate(time.Second)}
	b.node.Spec.Taints = append(b.node.Spec.Taints, taint)
	return r.wrote(control.Patch(ctx, r.Client, b.node, before))
}

// ask asks the cloud to reboot the instance.
func (r *reboots) ask(ctx context.Context, b *reboot, again time.Duration) (time.Duration, error) {
	// What the cache shows may be older than our own note that the cloud has accepted it.
	now := &karpv1.NodeClaim{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(b.claim), now); err != nil || now.ResourceVersion != b.claim.ResourceVersion {
		return soon, client.IgnoreNotFound(err)
	}
	// So may the node be, whose instance has rebooted meanwhile.
	if err := r.look(ctx, b); err != nil || b.facts.Gone {
		return soon, err
	}
	if b.facts.Boot != "" && b.facts.Boot != b.facts.PreBoot {
		return r.issue(ctx, b)
	}
	err := error(&cloud.NodeRebootNotImplementedError{Provider: "none"})
	if r.Rebooter != nil {
		ctx, cancel := wait.Timeout(ctx, r.Clock, cloudTimeout)
		defer cancel()
		err = r.Rebooter.Reboot(ctx, b.claim, b.id())
	}
	var missing *cloud.NodeRebootNotImplementedError
	var failed *cloud.NodeRebootFailedError
	switch {
	case err == nil:
		r.accepted.add(b.id())
		control.Logger(ctx, r.Log).Info("rebooting instance", claimAttrs(b.claim)...)
		return r.issue(ctx, b)
	case errors.As(err, &missing):
		return r.fail(ctx, b, life.RebootStep{Result: life.RebootInvalidRequest, Why: err.Error()})
	case errors.As(err, &failed):
		return r.fail(ctx, b, life.RebootStep{Result: life.RebootProviderError, Why: err.Error()})
	}
	control.Logger(ctx, r.Log).Error("could not reboot instance, trying again", append(claimAttrs(b.claim), "error", err)...)
	return again, nil
}

// issue notes that the cloud has accepted the reboot: until it is back the node counts as starting.
func (r *reboots) issue(ctx context.Context, b *reboot) (time.Duration, error) {
	before := b.node.DeepCopy()
	if _, labelled := b.node.Labels[karpv1.NodeInitializedLabelKey]; labelled {
		delete(b.node.Labels, karpv1.NodeInitializedLabelKey)
		if written, err := control.Patch(ctx, r.Client, b.node, before); err != nil || !written {
			return soon, err
		}
	}
	return r.wrote(r.status(ctx, b.claim, func(set *karpv1.ConditionSet, now time.Time) {
		set.Set(karpv1.Condition{Type: karpv1.ConditionRebooting, Status: metav1.ConditionTrue, Reason: karpv1.ReasonRebootIssued}, now)
		set.Set(karpv1.Condition{Type: karpv1.ConditionInitialized, Status: metav1.ConditionUnknown, Reason: karpv1.ReasonRebooting, Message: "the instance is being rebooted"}, now)
	}))
}

// status changes the conditions of a claim. written is false if the claim had changed meanwhile.
func (r *reboots) status(ctx context.Context, claim *karpv1.NodeClaim, change func(set *karpv1.ConditionSet, now time.Time)) (written bool, err error) {
	before := claim.DeepCopy()
	change(claim.StatusConditions(), r.Clock.Now())
	written, err = control.PatchStatus(ctx, r.Client, claim, before)
	if written && r.Wrote != nil {
		r.Wrote(claim)
	}
	return written, err
}

// succeed opens the node again, and ends the reboot.
func (r *reboots) succeed(ctx context.Context, b *reboot, step life.RebootStep) (time.Duration, error) {
	before := b.node.DeepCopy()
	b.node.Spec.Taints = slices.DeleteFunc(b.node.Spec.Taints, isRebooting)
	if len(b.node.Spec.Taints) < len(before.Spec.Taints) {
		if written, err := control.Patch(ctx, r.Client, b.node, before); err != nil || !written {
			return soon, err
		}
	}
	// A process that was about to replace the node has left a deadline, which would be over when the claim is deleted one day.
	if _, late := b.claim.Annotations[karpv1.TerminationTimestampAnnotationKey]; late && b.facts.Grace != nil {
		before := b.claim.DeepCopy()
		delete(b.claim.Annotations, karpv1.TerminationTimestampAnnotationKey)
		if written, err := control.Patch(ctx, r.Client, b.claim, before); err != nil || !written {
			return soon, err
		}
	}
	ended, err := r.status(ctx, b.claim, func(set *karpv1.ConditionSet, now time.Time) {
		set.Set(karpv1.Condition{Type: karpv1.ConditionRebooting, Status: metav1.ConditionFalse, Reason: karpv1.ReasonRebootSucceeded}, now)
		_, _ = set.Clear(karpv1.ConditionDisruptionReason, now)
	})
	if ended {
		r.count(b, step)
		r.Meter.Observe(meter.NodesRebootRecovery, r.Clock.Since(b.facts.Issued).Seconds())
		r.tell(b, false, EventRebootSucceeded, "The node is back after a reboot")
		control.Logger(ctx, r.Log).Info("node is back after a reboot", append(claimAttrs(b.claim), "duration", r.Clock.Since(b.facts.Requested).Round(time.Second))...)
	}
	return soon, err
}

// tidy removes what an ended reboot has left on its claim.
func (r *reboots) tidy(ctx context.Context, claim *karpv1.NodeClaim) (reconcile.Result, error) {
	before := claim.DeepCopy()
	delete(claim.Annotations, karpv1.RebootPreBootIDAnnotationKey)
	delete(claim.Annotations, karpv1.RebootGraceAnnotationKey)
	_, err := control.Patch(ctx, r.Client, claim, before)
	return reconcile.Result{}, err
}

// fail deletes the claim of a node that does not come back, so that it is replaced. What is left on it is drained within the same time.
func (r *reboots) fail(ctx context.Context, b *reboot, step life.RebootStep) (time.Duration, error) {
	if b.facts.Grace != nil {
		before := b.claim.DeepCopy()
		control.Tighten(b.claim, r.Clock.Now().Add(*b.facts.Grace))
		if b.claim.Annotations[karpv1.TerminationTimestampAnnotationKey] != before.Annotations[karpv1.TerminationTimestampAnnotationKey] {
			if written, err := control.Patch(ctx, r.Client, b.claim, before); err != nil || !written {
				return soon, err
			}
		}
	}
	deleted, err := control.DeleteSeen(ctx, r.Client, b.claim)
	if err != nil || !deleted {
		return soon, err
	}
	r.count(b, step)
	r.tell(b, true, EventRebootFailed, "The node is replaced, because its reboot failed: "+step.Why)
	within := life.DrainWithin(b.facts.Grace, graceOf(b.claim))
	control.Unhealthy(r.Meter, b.claim, control.Blamed(b.claim), within)
	control.Counter{Client: r.Client, Meter: r.Meter}.DisruptedWithin(ctx, b.claim, "unhealthy", within)
	r.Ledger.Removed(b.claim, ledger.Removal, string(karpv1.DisruptionReasonUnhealthy), "is replaced: its reboot failed: "+step.Why)
	control.Logger(ctx, r.Log).Error("reboot failed, replacing node", append(claimAttrs(b.claim), "error", step.Why)...)
	claim := &karpv1.NodeClaim{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(b.claim), claim); err != nil || claim.UID != b.claim.UID {
		return 0, client.IgnoreNotFound(err)
	}
	_, err = r.status(ctx, claim, func(set *karpv1.ConditionSet, now time.Time) {
		set.Set(karpv1.Condition{Type: karpv1.ConditionRebooting, Status: metav1.ConditionFalse, Reason: karpv1.ReasonRebootFailed, Message: step.Why}, now)
	})
	return 0, err
}

func (r *reboots) count(b *reboot, step life.RebootStep) {
	r.Meter.Add(meter.NodesReboots, 1, "result", step.Result)
	r.Meter.Observe(meter.NodesRebootDuration, r.Clock.Since(b.facts.Requested).Seconds(), "result", step.Result)
}

func (r *reboots) tell(b *reboot, warning bool, reason, message string) {
	for _, obj := range []client.Object{b.claim, b.node} {
		if obj.GetUID() != "" {
			r.Recorder.Tell(control.Event{Object: obj, Warning: warning, Reason: reason, Message: message})
		}
	}
}
