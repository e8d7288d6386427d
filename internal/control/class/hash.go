package class

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
)

// Hash writes on each EC2NodeClass the hash that claims are compared with to find those that have drifted. When the way of
// hashing has changed, claims are given the new hash first, so that none drifts because of it.
type Hash struct {
	Client client.Client
	// CABundle is the cluster's, which is part of what a machine boots with.
	CABundle string
}

// Register makes the manager run the reconciler on every change of a class.
func (r *Hash) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("nodeclass.hash").For(&awsv1.EC2NodeClass{}).Complete(r)
}

// Reconcile stamps one class.
func (r *Hash) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	class := &awsv1.EC2NodeClass{}
	if err := r.Client.Get(ctx, request.NamespacedName, class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	hash := class.Hash(r.CABundle)
	if class.Annotations[awsv1.EC2NodeClassHashVersionAnnotationKey] != awsv1.EC2NodeClassHashVersion {
		if err := r.restamp(ctx, class.Name, hash); err != nil {
			return reconcile.Result{}, err
		}
	}
	before := class.DeepCopy()
	stamp(class, hash)
	_, err := control.Patch(ctx, r.Client, class, before)
	return reconcile.Result{}, err
}

// restamp brings the class's claims to this version of the hash. A claim that has drifted already stays so: it keeps its hash.
func (r *Hash) restamp(ctx context.Context, class, hash string) error {
	claims := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, claims); err != nil {
		return fmt.Errorf("listing the claims of EC2NodeClass %s: %w", class, err)
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if !usesClass(claim.Spec.NodeClassRef, class) || claim.Annotations[awsv1.EC2NodeClassHashVersionAnnotationKey] == awsv1.EC2NodeClassHashVersion {
			continue
		}
		before := claim.DeepCopy()
		keep := hash
		if claim.StatusConditions().Get(karpv1.ConditionDrifted) != nil {
			keep = claim.Annotations[awsv1.EC2NodeClassHashAnnotationKey]
		}
		stamp(claim, keep)
		written, err := control.Patch(ctx, r.Client, claim, before)
		if err != nil {
			return err
		}
		if !written {
			return fmt.Errorf("NodeClaim %s has changed while its hash was being brought to %s", claim.Name, awsv1.EC2NodeClassHashVersion)
		}
	}
	return nil
}

func stamp(obj client.Object, hash string) {
	control.Annotate(obj, awsv1.EC2NodeClassHashAnnotationKey, hash)
	control.Annotate(obj, awsv1.EC2NodeClassHashVersionAnnotationKey, awsv1.EC2NodeClassHashVersion)
}
