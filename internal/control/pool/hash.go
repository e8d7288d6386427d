package pool

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
)

// Hash writes on each NodePool the hash of its template, which claims are compared with to find those that have drifted
// (A60). When the way of hashing has changed, claims are given the new hash first, so that none drifts because of it (A61).
type Hash struct {
	Client client.Client
}

// Register makes the manager run the reconciler on every change of a pool.
func (r *Hash) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("nodepool.hash").For(&karpv1.NodePool{}).Complete(r)
}

// Reconcile stamps one pool.
func (r *Hash) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pool := &karpv1.NodePool{}
	if err := r.Client.Get(ctx, request.NamespacedName, pool); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !mine(pool) {
		return reconcile.Result{}, nil
	}
	hash := pool.Hash()
	if pool.Annotations[karpv1.NodePoolHashVersionAnnotationKey] != karpv1.NodePoolHashVersion {
		if err := r.restamp(ctx, pool, hash); err != nil {
			return reconcile.Result{}, err
		}
	}
	before := pool.DeepCopy()
	stamp(pool, hash)
	_, err := control.Patch(ctx, r.Client, pool, before)
	return reconcile.Result{}, err
}

// restamp brings the pool's claims to this version of the hash. A claim that has drifted already stays so: it keeps its hash.
func (r *Hash) restamp(ctx context.Context, pool *karpv1.NodePool, hash string) error {
	claims := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, claims, client.MatchingLabels{karpv1.NodePoolLabelKey: pool.Name}); err != nil {
		return fmt.Errorf("listing the claims of NodePool %s: %w", pool.Name, err)
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.Annotations[karpv1.NodePoolHashVersionAnnotationKey] == karpv1.NodePoolHashVersion {
			continue
		}
		before := claim.DeepCopy()
		keep := hash
		if claim.StatusConditions().Get(karpv1.ConditionDrifted) != nil {
			keep = claim.Annotations[karpv1.NodePoolHashAnnotationKey]
		}
		stamp(claim, keep)
		written, err := control.Patch(ctx, r.Client, claim, before)
		if err != nil {
			return err
		}
		if !written {
			return fmt.Errorf("NodeClaim %s has changed while its hash was being brought to %s", claim.Name, karpv1.NodePoolHashVersion)
		}
	}
	return nil
}

func stamp(obj client.Object, hash string) {
	control.Annotate(obj, karpv1.NodePoolHashAnnotationKey, hash)
	control.Annotate(obj, karpv1.NodePoolHashVersionAnnotationKey, karpv1.NodePoolHashVersion)
}
