package claim

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
)

// Hydrate gives claims and their nodes the label that names their class, where an older version or a user has left it out
// (L18).
type Hydrate struct {
	Client client.Client
	// Class is the kind of node class that this process serves.
	Class schema.GroupKind
	Clock control.Clock
}

// Register makes the manager run the reconciler on every change of a claim or its node.
func (r *Hydrate) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("nodeclaim.hydration").For(&karpv1.NodeClaim{}).
		Watches(&corev1.Node{}, byNode(m.GetClient())).WithOptions(control.Workers(slowWorkers, r.Clock)).Complete(r)
}

// Reconcile labels one claim and its node. A claim that has no instance yet is left alone: the launch reads its labels.
func (r *Hydrate) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, request.NamespacedName, claim, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !claim.Spec.NodeClassRef.Is(r.Class) || !claim.DeletionTimestamp.IsZero() || claim.Status.ProviderID == "" {
		return reconcile.Result{}, nil
	}
	node, err := nodeOf(ctx, r.Client, claim, client.UnsafeDisableDeepCopy)
	if err != nil {
		return reconcile.Result{}, err
	}
	objects := []client.Object{claim}
	if node != nil {
		objects = append(objects, node)
	}
	key := karpv1.NodeClassLabelKey(*claim.Spec.NodeClassRef)
	for _, obj := range objects {
		if obj.GetLabels()[key] == claim.Spec.NodeClassRef.Name {
			continue
		}
		before := obj
		obj = obj.DeepCopyObject().(client.Object)
		labels := obj.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = claim.Spec.NodeClassRef.Name
		obj.SetLabels(labels)
		if _, err := control.Patch(ctx, r.Client, obj, before); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, nil
}
