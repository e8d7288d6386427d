package pool

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
)

// stamp is how a pool and its claims carry the hash.
var stamp = control.Stamp{
	Hash: karpv1.NodePoolHashAnnotationKey, HashVersion: karpv1.NodePoolHashVersionAnnotationKey, Version: karpv1.NodePoolHashVersion,
	Claims: claimsOf,
}

// Hash writes on each NodePool the hash of its template, which claims are compared with to find those that have drifted
// (A60). When the way of hashing has changed, claims are given the new hash first, so that none drifts because of it (A61).
type Hash struct {
	Client client.Client
	// Class is the kind of node class that this process serves.
	Class schema.GroupKind
	Clock control.Clock
}

// Register makes the manager run the reconciler on every change of a pool.
func (r *Hash) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("nodepool.hash").For(&karpv1.NodePool{}).
		WithOptions(control.Workers(0, r.Clock)).Complete(r)
}

// Reconcile stamps one pool.
func (r *Hash) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pool := &karpv1.NodePool{}
	if err := r.Client.Get(ctx, request.NamespacedName, pool); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !mine(pool, r.Class) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, stamp.Write(ctx, r.Client, pool, pool.Hash())
}

// claimsOf are the claims of a pool.
func claimsOf(ctx context.Context, c client.Client, pool string) ([]*karpv1.NodeClaim, error) {
	list := &karpv1.NodeClaimList{}
	if err := c.List(ctx, list, client.MatchingLabels{karpv1.NodePoolLabelKey: pool}); err != nil {
		return nil, err
	}
	claims := make([]*karpv1.NodeClaim, len(list.Items))
	for i := range list.Items {
		claims[i] = &list.Items[i]
	}
	return claims, nil
}
