package drain

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
	"karpenter/internal/meter"
	"karpenter/internal/wait"
)

// unlaunchedPatience is how long a claim that has no instance on record waits for the cloud to say that it has none either. The
// collector of orphans finds and ends what a cloud that did not answer for so long has made.
const unlaunchedPatience = 5 * time.Minute

// claims ends claims that have been deleted (L21): their node goes first, then the instance, then the finalizer.
type claims struct {
	*Drainer
	ender *ender
	// sparing is held while one of several claims that know of no instance picks one.
	sparing sync.Mutex
}

func (r *claims) register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("nodeclaim.termination").
		For(&karpv1.NodeClaim{}, builder.WithPredicates(predicate.NewPredicateFuncs(leaving))).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.claimsOf)).
		WithOptions(control.Workers(reconcilers, r.Clock)).
		Complete(r)
}

// leaving says whether an object has been deleted and waits for us.
func leaving(obj client.Object) bool {
	return !obj.GetDeletionTimestamp().IsZero() && controllerutil.ContainsFinalizer(obj, karpv1.TerminationFinalizer)
}

// claimsOf are the deleted claims that wait for a node.
func (r *claims) claimsOf(ctx context.Context, obj client.Object) []reconcile.Request {
	node, ok := obj.(*corev1.Node)
	if !ok || node.Spec.ProviderID == "" {
		return nil
	}
	list := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, list, client.MatchingFields{indexClaimsProviderID: node.Spec.ProviderID}, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache answers this; it cannot fail once it has synced
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if leaving(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// Reconcile takes one claim as far towards its end as it can go now.
func (r *claims) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, request.NamespacedName, claim, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !leaving(claim) || !claim.Spec.NodeClassRef.Is(r.Class) {
		return reconcile.Result{}, nil
	}
	claim = claim.DeepCopy()
	owner, err := r.ownerOf(ctx, claim)
	if err != nil {
		return reconcile.Result{}, err
	}
	if owner != "" {
		control.Logger(ctx, r.Log).Warn("nodeclaim is deleted without its instance, which is another's", append(claimAttrs(claim), "owner", owner)...)
		ok, err := r.finish(ctx, claim)
		if err != nil || !ok {
			return reconcile.Result{RequeueAfter: soon}, err
		}
		return reconcile.Result{}, nil
	}
	if ok, err := r.recordDeadline(ctx, claim); err != nil || !ok {
		return reconcile.Result{RequeueAfter: soon}, err
	}
	if again, err := r.cascade(ctx, claim); err != nil || again > 0 {
		return reconcile.Result{RequeueAfter: again}, err
	}
	gone, again, err := r.end(ctx, claim)
	if err != nil || !gone {
		return reconcile.Result{RequeueAfter: again}, err
	}
	if ok, err := r.finish(ctx, claim); err != nil || !ok {
		return reconcile.Result{RequeueAfter: soon}, err
	}
	return reconcile.Result{}, nil
}

// ownerOf is the claim that the instance of a claim really belongs to, if that is another one: the one that its node is registered
// with. No two claims should have one instance on record, but if they do, the pods on it must not pay for that.
func (r *claims) ownerOf(ctx context.Context, claim *karpv1.NodeClaim) (name string, err error) {
	if claim.Status.ProviderID == "" || claim.StatusConditions().IsTrue(karpv1.ConditionRegistered) {
		return "", nil
	}
	list := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, list, client.MatchingFields{indexClaimsProviderID: claim.Status.ProviderID}); err != nil {
		return "", fmt.Errorf("looking for claims of the instance of NodeClaim %s: %w", claim.Name, err)
	}
	for i := range list.Items {
		if other := &list.Items[i]; other.UID != claim.UID && other.StatusConditions().IsTrue(karpv1.ConditionRegistered) {
			return other.Name, nil
		}
	}
	return "", nil
}

// recordDeadline writes down when draining stops waiting, once (D61).
func (r *claims) recordDeadline(ctx context.Context, claim *karpv1.NodeClaim) (ok bool, err error) {
	recorded := deadlineOf(claim)
	deadline := life.Deadline(recorded, claim.DeletionTimestamp.Time, graceOf(claim))
	r.tellDeadline(claim, deadline)
	if deadline.Equal(recorded) {
		return true, nil
	}
	before := claim.DeepCopy()
	control.Annotate(claim, karpv1.TerminationTimestampAnnotationKey, deadline.UTC().Format(time.RFC3339))
	written, err := control.Patch(ctx, r.Client, claim, before)
	if written {
		control.Logger(ctx, r.Log).Info("annotated nodeclaim", append(claimAttrs(claim), karpv1.TerminationTimestampAnnotationKey, deadline.UTC().Format(time.RFC3339))...)
	}
	return written, err
}

// cascade deletes the nodes of the claim, and returns after how long to look again if any is still there (D59). Nodes that
// have not been registered are left alone: they are not ours yet.
func (r *claims) cascade(ctx context.Context, claim *karpv1.NodeClaim) (again time.Duration, err error) {
	if claim.Status.ProviderID == "" {
		return 0, nil
	}
	list := &corev1.NodeList{}
	if err := r.Client.List(ctx, list, client.MatchingFields{indexNodeProviderID: claim.Status.ProviderID}); err != nil {
		return 0, fmt.Errorf("listing the nodes of NodeClaim %s: %w", claim.Name, err)
	}
	registered := claim.StatusConditions().IsTrue(karpv1.ConditionRegistered)
	for i := range list.Items {
		node := &list.Items[i]
		if !registered && node.Labels[karpv1.NodeRegisteredLabelKey] != "true" {
			continue
		}
		again = sweepEvery
		if !node.DeletionTimestamp.IsZero() {
			continue
		}
		if _, err := control.Delete(ctx, r.Client, node); err != nil {
			return 0, err
		}
	}
	if again > 0 || !registered || claim.StatusConditions().IsTrue(karpv1.ConditionInstanceTerminating) {
		return again, nil
	}
	return r.nodeBehindCache(ctx, claim)
}

// nodeBehindCache asks the API server itself whether the claim's node is there before its instance is ended: a cache may be
// behind, and an instance must not end under pods that were never asked to leave.
func (r *claims) nodeBehindCache(ctx context.Context, claim *karpv1.NodeClaim) (again time.Duration, err error) {
	if claim.Status.NodeName == "" {
		return 0, nil
	}
	node := &corev1.Node{}
	err = r.Live.Get(ctx, client.ObjectKey{Name: claim.Status.NodeName}, node)
	switch {
	case apierrors.IsNotFound(err), err == nil && node.Spec.ProviderID != claim.Status.ProviderID:
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading Node %s: %w", claim.Status.NodeName, err)
	}
	return time.Second, nil
}

// end ends the instance of the claim; gone is true when there is none any more.
func (r *claims) end(ctx context.Context, claim *karpv1.NodeClaim) (gone bool, again time.Duration, err error) {
	id, known, err := r.instanceOf(ctx, claim)
	switch {
	case err != nil:
		r.tellStuck(claim, err)
		return false, 0, err
	case !known:
		return false, listApart, nil
	case id == "":
		return true, 0, nil
	}
	result, err := r.ender.End(ctx, id, claim.StatusConditions().IsTrue(karpv1.ConditionInstanceTerminating))
	if err != nil {
		r.tellStuck(claim, err)
		return false, 0, fmt.Errorf("ending the instance of NodeClaim %s: %w", claim.Name, err)
	}
	if result.Accepted {
		if ok, err := r.condition(ctx, claim, karpv1.Condition{Type: karpv1.ConditionInstanceTerminating, Status: metav1.ConditionTrue}); err != nil || !ok {
			return false, soon, err
		}
	}
	return result.Gone, result.Again, nil
}

// instanceOf is the id of the claim's instance, or "" for none; known is false while the cloud has not said. A claim that has none
// on record may have one all the same: the process that launched it may have ended before it could write that down.
func (r *claims) instanceOf(ctx context.Context, claim *karpv1.NodeClaim) (id string, known bool, err error) {
	if claim.Status.ProviderID != "" {
		if id, err = r.InstanceID(claim.Status.ProviderID); err == nil {
			return id, true, nil
		}
		// No instance has such an id. If the claim has one, its tags say so.
		r.tellStuck(claim, fmt.Errorf("reading status.providerID of NodeClaim %s: %w; looking for its instance by tags", claim.Name, err))
	}
	deleted := claim.DeletionTimestamp.Time
	from := deleted
	if r.Launches != nil {
		in, after, ok := r.Launches.Ending(claim)
		switch {
		case !ok:
			return "", false, nil
		case in != nil:
			return r.assign(ctx, claim, in)
		case after.After(from):
			from = after
		}
	}
	ctx, cancel := wait.Timeout(ctx, r.Clock, cloudTimeout)
	defer cancel()
	all, err := r.ender.inventory.since(ctx, r.lookFrom(deleted, from))
	switch {
	case err != nil && r.Clock.Since(from) >= unlaunchedPatience:
		return "", true, nil
	case err != nil:
		return "", false, fmt.Errorf("looking for an instance of NodeClaim %s: %w", claim.Name, err)
	case all == nil:
		return "", false, nil
	}
	if in := all.madeFor(claim); in != nil {
		return r.assign(ctx, claim, in)
	}
	return r.spareOf(ctx, claim, all, !all.begun.Before(from))
}

// lookFrom is how old the list may be in which an instance of a deleted claim is looked for. That there is none only a list from then on
// proves; one that is there may be found before, so that it ends even if no process lives until then.
func (r *claims) lookFrom(deleted, from time.Time) time.Time {
	now := r.Clock.Now()
	if !now.Before(from) {
		return from
	}
	if recent := now.Add(-lookEvery); recent.After(deleted) {
		return recent
	}
	return deleted
}

// spareOf is an instance of the claim's batch that no claim has on record and that none of the batch's claims that stay can be
// waiting for, or "" for none: when a launch could not be written down, nothing else says whose instance is whose. A list that may
// not be complete proves nothing, and tells nothing as long as claims that stay may pick by another one.
func (r *claims) spareOf(ctx context.Context, claim *karpv1.NodeClaim, all *listing, complete bool) (id string, known bool, err error) {
	free := all.unnamed(cloud.BatchID(claim))
	if len(free) == 0 {
		return "", complete, nil
	}
	wait.Lock(r.Clock, &r.sparing)
	defer r.sparing.Unlock()
	list := &karpv1.NodeClaimList{}
	if err := r.Live.List(ctx, list); err != nil {
		return "", false, fmt.Errorf("looking for an instance of NodeClaim %s: %w", claim.Name, err)
	}
	before := 0 // claims that have the first pick: those that stay, as launching does it, and of those that leave the ones before
	for i := range list.Items {
		other := &list.Items[i]
		switch {
		case other.Status.ProviderID != "":
			id, _ := r.InstanceID(other.Status.ProviderID)
			free = slices.DeleteFunc(free, func(in *cloud.Instance) bool { return in.ID == id })
		case cloud.BatchID(other) != cloud.BatchID(claim):
		case other.DeletionTimestamp.IsZero() && !complete:
			return "", false, nil
		case other.DeletionTimestamp.IsZero() || other.Name < claim.Name:
			before++
		}
	}
	if before >= len(free) {
		return "", complete, nil
	}
	return r.assign(ctx, claim, free[before])
}

// assign writes the instance down on the claim before it is ended, so that no two claims end the same one, and none has to prove that it has no
// instance once the one that it had is in no list any more. known is false if somebody else has changed the claim meanwhile.
func (r *claims) assign(ctx context.Context, claim *karpv1.NodeClaim, in *cloud.Instance) (id string, known bool, err error) {
	if in.ProviderID == "" || in.ProviderID == claim.Status.ProviderID {
		return in.ID, true, nil // a Machine that is being made has none yet
	}
	before := claim.DeepCopy()
	claim.Status.ProviderID = in.ProviderID
	written, err := control.PatchStatus(ctx, r.Client, claim, before)
	return in.ID, written, err
}

// madeFor is the instance whose tags say that it was made for the claim, or nil.
func (l *listing) madeFor(claim *karpv1.NodeClaim) (found *cloud.Instance) {
	_, shared := claim.Annotations[cloud.BatchAnnotationKey]
	batch := cloud.BatchID(claim)
	for _, in := range l.byID {
		mine := in.Claim == claim.Name || in.Claim == "" && !shared && in.Batch == batch
		if mine && (found == nil || in.ID < found.ID) {
			found = in
		}
	}
	return found
}

// unnamed are the living instances of a batch that carry no claim's name, in order.
func (l *listing) unnamed(batch string) []*cloud.Instance {
	var list []*cloud.Instance
	for _, in := range l.byID {
		if in.Batch == batch && in.Claim == "" && !in.State.Ending() {
			list = append(list, in)
		}
	}
	slices.SortFunc(list, func(a, b *cloud.Instance) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// finish lets the claim go, and counts it (O2, O6, O7).
func (r *claims) finish(ctx context.Context, claim *karpv1.NodeClaim) (ok bool, err error) {
	before := claim.DeepCopy()
	controllerutil.RemoveFinalizer(claim, karpv1.TerminationFinalizer)
	written, err := control.Patch(ctx, r.Client, claim, before)
	if err != nil || !written {
		return false, err
	}
	now, pool := r.Clock.Now(), claim.Labels[karpv1.NodePoolLabelKey]
	took := max(0, now.Sub(before.DeletionTimestamp.Time))
	r.Meter.Add(meter.NodeClaimsTerminated, 1, "nodepool", pool,
		"capacity_type", claim.Labels[karpv1.CapacityTypeLabelKey], "zone", claim.Labels[corev1.LabelTopologyZone])
	r.Meter.Observe(meter.NodeClaimsTerminationDuration, took.Seconds(), "nodepool", pool)
	if c := before.StatusConditions().Get(karpv1.ConditionInstanceTerminating); c != nil && c.Status == metav1.ConditionTrue {
		r.Meter.Observe(meter.NodeClaimsInstanceTerminationDuration, max(0, now.Sub(c.LastTransitionTime.Time).Seconds()), "nodepool", pool)
	}
	control.Logger(ctx, r.Log).Info("deleted nodeclaim", append(claimAttrs(before), "duration", took.Round(time.Millisecond))...)
	return true, nil
}
