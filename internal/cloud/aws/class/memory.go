package class

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
)

// Memory tells the provider how much memory a type really has, as its first node shows, so that the next plan need not
// guess.
type Memory struct {
	Client client.Client
	Learn  func(instanceType, image string, bytes int64)
	Clock  control.Clock
}

// Register makes the manager run the reconciler when claims change.
func (r *Memory) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("providers.instancetype.capacity").For(&karpv1.NodeClaim{}).
		WithOptions(control.Workers(0, r.Clock)).Complete(r)
}

// Reconcile learns from one claim's node.
func (r *Memory) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, request.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !claim.Spec.NodeClassRef.Is(awsv1.EC2NodeClassGroupKind) || claim.Status.NodeName == "" || !claim.StatusConditions().IsTrue(karpv1.ConditionRegistered) {
		return reconcile.Result{}, nil
	}
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: claim.Status.NodeName}, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	typ, memory := node.Labels[corev1.LabelInstanceTypeStable], node.Status.Capacity.Memory().Value()
	if typ != "" && memory > 0 && node.Spec.ProviderID == claim.Status.ProviderID {
		r.Learn(typ, claim.Status.ImageID, memory)
	}
	return reconcile.Result{}, nil
}
