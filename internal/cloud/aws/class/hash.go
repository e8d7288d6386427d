package class

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
)

// stamp is how a class and its claims carry the hash.
var stamp = control.Stamp{
	Hash: awsv1.EC2NodeClassHashAnnotationKey, HashVersion: awsv1.EC2NodeClassHashVersionAnnotationKey, Version: awsv1.EC2NodeClassHashVersion,
	Claims: claimsOf,
}

// Hash writes on each EC2NodeClass the hash that claims are compared with to find those that have drifted. When the way of
// hashing has changed, claims are given the new hash first, so that none drifts because of it.
type Hash struct {
	Client client.Client
	// CABundle is the cluster's, which is part of what an instance boots with.
	CABundle string
	Clock    control.Clock
}

// Register makes the manager run the reconciler on every change of a class.
func (r *Hash) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("nodeclass.hash").For(&awsv1.EC2NodeClass{}).
		WithOptions(control.Workers(0, r.Clock)).Complete(r)
}

// Reconcile stamps one class.
func (r *Hash) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	class := &awsv1.EC2NodeClass{}
	if err := r.Client.Get(ctx, request.NamespacedName, class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return reconcile.Result{}, stamp.Write(ctx, r.Client, class, class.Hash(r.CABundle))
}

// claimsOf are the claims that were made from a class.
func claimsOf(ctx context.Context, c client.Client, class string) ([]*karpv1.NodeClaim, error) {
	list := &karpv1.NodeClaimList{}
	if err := c.List(ctx, list); err != nil {
		return nil, err
	}
	var used []*karpv1.NodeClaim
	for i := range list.Items {
		if usesClass(list.Items[i].Spec.NodeClassRef, class) {
			used = append(used, &list.Items[i])
		}
	}
	return used, nil
}
