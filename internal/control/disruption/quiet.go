package disruption

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
)

// Quiet says of each claim whether its node has been quiet for as long as its pool wants before it may be consolidated (D24).
type Quiet struct {
	Client client.Client
	// Class is the kind of node class that this process serves.
	Class schema.GroupKind
	Clock control.Clock
}

// Register makes the manager run the reconciler whenever a claim or its pool changes.
func (r *Quiet) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("nodeclaim.consolidatable").For(&karpv1.NodeClaim{}).
		Watches(&karpv1.NodePool{}, ofPool(m.GetClient()), builder.WithPredicates(respecified())).
		WithOptions(control.Workers(judges, r.Clock)).Complete(r)
}

// Reconcile judges one claim, and comes back at the moment at which the answer changes.
func (r *Quiet) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, request.NamespacedName, claim, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !claim.Spec.NodeClassRef.Is(r.Class) || !claim.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	pool := &karpv1.NodePool{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: claim.Labels[karpv1.NodePoolLabelKey]}, pool, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	now := r.Clock.Now()
	at, ever := quietAt(claim, pool)
	left := at.Sub(now)
	quiet := *claim
	changed, err := false, error(nil)
	if set := quiet.StatusConditions(); ever && left <= 0 {
		changed = set.SetTrue(karpv1.ConditionConsolidatable, now)
	} else if changed, err = set.Clear(karpv1.ConditionConsolidatable, now); err != nil {
		return reconcile.Result{}, err
	}
	after := time.Duration(0)
	if ever {
		after = max(0, left)
	}
	if !changed {
		return reconcile.Result{RequeueAfter: after}, nil
	}
	written, err := control.PatchStatus(ctx, r.Client, quiet.DeepCopy(), claim)
	if err == nil && !written {
		after = soon
	}
	return reconcile.Result{RequeueAfter: after}, err
}

// quietAt is when the claim's node has been quiet for long enough, if it ever will be.
func quietAt(claim *karpv1.NodeClaim, pool *karpv1.NodePool) (at time.Time, ever bool) {
	initialized := claim.StatusConditions().Get(karpv1.ConditionInitialized)
	after := pool.Spec.Disruption.ConsolidateAfter
	if pool.Spec.Replicas != nil || after.IsNever() || initialized == nil || initialized.Status != "True" {
		return time.Time{}, false
	}
	since := claim.Status.LastPodEventTime.Time
	if since.IsZero() {
		since = initialized.LastTransitionTime.Time
	}
	return since.Add(*after.Duration), true
}
