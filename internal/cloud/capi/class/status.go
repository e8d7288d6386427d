package class

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/why"
)

// waitForClaims is how often a class that is being deleted looks again whether claims remain; the end of a claim is seen at once.
const waitForClaims = 10 * time.Minute

// Resolver finds out what the management cluster has for a class.
type Resolver interface {
	// Reconcile writes that into the status of the class, in memory, and says when to look again.
	Reconcile(ctx context.Context, class *v1alpha1.ClusterAPINodeClass) (again time.Duration)
	Forget(class string)
}

// Status keeps the status of ClusterAPINodeClasses current, and lets one go only when no claim uses it any more.
type Status struct {
	Client   client.Client
	Resolver Resolver
	Recorder *control.Recorder
	Clock    control.Clock

	bell control.Bell
}

// Wake has a class looked at because something has changed in the management cluster.
func (r *Status) Wake(class string) { r.bell.Ring(class) }

// Register makes the manager run the reconciler on changes of classes and of their pools, and on the end of claims.
func (r *Status) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("nodeclass").
		For(&v1alpha1.ClusterAPINodeClass{}).
		Watches(&karpv1.NodePool{}, handler.EnqueueRequestsFromMapFunc(classOfPool), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&karpv1.NodeClaim{}, handler.EnqueueRequestsFromMapFunc(classOfClaim), builder.WithPredicates(onlyDeletes())).
		WatchesRawSource(r.bell.Source()).
		WithOptions(control.Workers(1, r.Clock)).
		Complete(r)
}

// Reconcile looks after one class.
func (r *Status) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	class := &v1alpha1.ClusterAPINodeClass{}
	if err := r.Client.Get(ctx, request.NamespacedName, class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !class.DeletionTimestamp.IsZero() {
		return r.finish(ctx, class)
	}
	before := class.DeepCopy()
	if controllerutil.AddFinalizer(class, v1alpha1.TerminationFinalizer) {
		written, err := control.Patch(ctx, r.Client, class, before)
		if err != nil || !written {
			return reconcile.Result{}, err
		}
		before = class.DeepCopy()
	}
	again := r.Resolver.Reconcile(ctx, class)
	if _, err := control.PatchStatus(ctx, r.Client, class, before); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// finish lets a class go that is being deleted, once no claim needs it.
func (r *Status) finish(ctx context.Context, class *v1alpha1.ClusterAPINodeClass) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(class, v1alpha1.TerminationFinalizer) {
		return reconcile.Result{}, nil
	}
	claims := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, claims); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing the claims of ClusterAPINodeClass %s: %w", class.Name, err)
	}
	var names []string
	for i := range claims.Items {
		if ref := claims.Items[i].Spec.NodeClassRef; ref.Is(v1alpha1.GroupKind) && ref.Name == class.Name {
			names = append(names, claims.Items[i].Name)
		}
	}
	if len(names) > 0 {
		r.Recorder.Tell(control.Event{
			Object: class, Reason: "WaitingOnNodeClaimTermination",
			Message: fmt.Sprintf("Waiting for %s to be deleted first: %s", why.Count(len(names), "NodeClaim"), control.FirstFew(slices.Sorted(slices.Values(names)))),
		})
		return reconcile.Result{RequeueAfter: waitForClaims}, nil
	}
	r.Resolver.Forget(class.Name)
	before := class.DeepCopy()
	controllerutil.RemoveFinalizer(class, v1alpha1.TerminationFinalizer)
	_, err := control.Patch(ctx, r.Client, class, before)
	return reconcile.Result{}, err
}

func requestFor(ref *karpv1.NodeClassReference) []reconcile.Request {
	if !ref.Is(v1alpha1.GroupKind) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: ref.Name}}}
}

// classOfPool and classOfClaim are the class that a pool or a claim uses.
func classOfPool(_ context.Context, obj client.Object) []reconcile.Request {
	pool, ok := obj.(*karpv1.NodePool)
	if !ok {
		return nil
	}
	return requestFor(pool.Spec.Template.Spec.NodeClassRef)
}

func classOfClaim(_ context.Context, obj client.Object) []reconcile.Request {
	claim, ok := obj.(*karpv1.NodeClaim)
	if !ok {
		return nil
	}
	return requestFor(claim.Spec.NodeClassRef)
}

// onlyDeletes lets the end of objects through.
func onlyDeletes() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false }, UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return true }, GenericFunc: func(event.GenericEvent) bool { return false },
	}
}
