package pool

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
)

// Ready says of each NodePool whether it can be used: whether its spec passes the checks that the API server does
// not make (A79), and whether its class is Ready (A30).
type Ready struct {
	Client client.Client
	// Kind is the kind of node class that this process serves.
	Kind cloud.Kind
	// NoStatic says that static pools are not served: the feature gate StaticCapacity is off.
	NoStatic bool
	Clock    control.Clock
}

// Register makes the manager run the reconciler on every change of a pool or a class.
func (r *Ready) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("nodepool.readiness").
		For(&karpv1.NodePool{}).
		Watches(r.Kind.New(), handler.EnqueueRequestsFromMapFunc(r.poolsOf)).
		WithOptions(control.Workers(0, r.Clock)).
		Complete(r)
}

// Reconcile judges one pool.
func (r *Ready) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	pool := &karpv1.NodePool{}
	if err := r.Client.Get(ctx, request.NamespacedName, pool); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !mine(pool, r.Kind.GroupKind()) {
		return reconcile.Result{}, nil
	}
	class, observed, err := r.classCondition(ctx, pool)
	if err != nil {
		return reconcile.Result{}, err
	}
	before := pool.DeepCopy()
	conditions := pool.StatusConditions()
	conditions.Set(r.validation(pool), r.Clock.Now())
	conditions.Set(class, r.Clock.Now())
	pool.Status.NodeClassObservedGeneration = observed
	_, err = control.PatchStatus(ctx, r.Client, pool, before)
	return reconcile.Result{}, err
}

// validation is the pool's condition ValidationSucceeded.
func (r *Ready) validation(pool *karpv1.NodePool) karpv1.Condition {
	if r.NoStatic && pool.Spec.Replicas != nil {
		return karpv1.Condition{
			Type: karpv1.ConditionValidationSucceeded, Status: metav1.ConditionFalse, Reason: karpv1.ReasonStaticCapacityDisabled,
			Message: "spec.replicas: the feature gate StaticCapacity is off; turn it on, or create a NodePool without replicas",
		}
	}
	return pool.ValidationCondition(r.Kind.Labels())
}

// mine says whether the pool's nodes are this program's to make. Others belong to another provider's, which may run in
// the same cluster (L20).
func mine(pool *karpv1.NodePool, class schema.GroupKind) bool {
	return pool.Spec.Template.Spec.NodeClassRef.Is(class)
}

// classCondition is the pool's NodeClassReady condition, and the generation of the class that it was judged by.
func (r *Ready) classCondition(ctx context.Context, pool *karpv1.NodePool) (karpv1.Condition, int64, error) {
	no := func(status metav1.ConditionStatus, reason, message string) karpv1.Condition {
		return karpv1.Condition{Type: karpv1.ConditionNodeClassReady, Status: status, Reason: reason, Message: message}
	}
	ref := pool.Spec.Template.Spec.NodeClassRef
	class, kind := r.Kind.New(), r.Kind.GroupVersionKind.Kind
	if err := r.Client.Get(ctx, types.NamespacedName{Name: ref.Name}, class); apierrors.IsNotFound(err) {
		return no(metav1.ConditionFalse, karpv1.ReasonNodeClassNotFound, fmt.Sprintf("there is no %s %q", kind, ref.Name)), 0, nil
	} else if err != nil {
		return karpv1.Condition{}, 0, fmt.Errorf("reading %s %s: %w", kind, ref.Name, err)
	}
	if !class.GetDeletionTimestamp().IsZero() {
		return no(metav1.ConditionFalse, karpv1.ReasonNodeClassTerminating, fmt.Sprintf("%s %q is being deleted", kind, ref.Name)), class.GetGeneration(), nil
	}
	switch root := r.Kind.Ready(class); root.Status {
	case metav1.ConditionTrue:
		return karpv1.Condition{Type: karpv1.ConditionNodeClassReady, Status: metav1.ConditionTrue}, class.GetGeneration(), nil
	case metav1.ConditionFalse:
		return no(metav1.ConditionFalse, root.Reason, root.Message), class.GetGeneration(), nil
	default:
		return no(metav1.ConditionUnknown, karpv1.ReasonNodeClassReadinessUnknown,
			fmt.Sprintf("%s %q does not say yet whether it is Ready", kind, ref.Name)), class.GetGeneration(), nil
	}
}

// poolsOf are the pools that use a class.
func (r *Ready) poolsOf(ctx context.Context, class client.Object) []reconcile.Request {
	pools := &karpv1.NodePoolList{}
	if err := r.Client.List(ctx, pools); err != nil {
		return nil // the cache answers this; it cannot fail once it has synced
	}
	var requests []reconcile.Request
	for i := range pools.Items {
		if pool := &pools.Items[i]; mine(pool, r.Kind.GroupKind()) && pool.Spec.Template.Spec.NodeClassRef.Name == class.GetName() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&pools.Items[i])})
		}
	}
	return requests
}
