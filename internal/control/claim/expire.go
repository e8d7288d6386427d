package claim

import (
	"context"
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
)

// slowWorkers is how many claims are worked on at once by reconcilers that write little and call nobody.
const slowWorkers = 10

// Expire deletes claims that have reached their age (D57). The node is then drained as after any other deletion.
type Expire struct {
	Client client.Client
	// Class is the kind of node class that this process serves.
	Class schema.GroupKind
	Clock control.Clock
	Meter *meter.Set
	Log   *slog.Logger
	// Ledger keeps what has expired; optional.
	Ledger *ledger.Ledger
}

// Register makes the manager run the reconciler for every claim.
func (r *Expire) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("nodeclaim.expiration").For(&karpv1.NodeClaim{}).WithOptions(control.Workers(slowWorkers, r.Clock)).Complete(r)
}

// Reconcile deletes the claim if it is old enough, or comes back when it is.
func (r *Expire) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, request.NamespacedName, claim, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !claim.Spec.NodeClassRef.Is(r.Class) || !claim.DeletionTimestamp.IsZero() || claim.Spec.ExpireAfter.IsNever() {
		return reconcile.Result{}, nil
	}
	at := life.Expiry(claim.CreationTimestamp.Time, *claim.Spec.ExpireAfter.Duration, string(claim.UID))
	if left := at.Sub(r.Clock.Now()); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	claim = claim.DeepCopy()
	removed, err := control.DeleteSeen(ctx, r.Client, claim)
	if removed {
		control.Counter{Client: r.Client, Meter: r.Meter}.Disrupted(ctx, claim, causeExpired)
		r.Ledger.Removed(claim, ledger.Removal, causeExpired, fmt.Sprintf("has reached its age (expireAfter %s) and is deleted", claim.Spec.ExpireAfter))
		control.Logger(ctx, r.Log).Info("deleted nodeclaim", "NodeClaim", claim.Name, "NodePool", claim.Labels[karpv1.NodePoolLabelKey], "Node", claim.Status.NodeName,
			"provider-id", claim.Status.ProviderID, "reason", causeExpired, "message", fmt.Sprintf("expireAfter is %s", claim.Spec.ExpireAfter))
	}
	return reconcile.Result{RequeueAfter: soon}, err
}
