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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/why"
)

const (
	// classWorkers is how many classes are looked up at once: one that AWS is slow to answer delays few others.
	classWorkers = 10
	// waitForClaims is how often a class that is being deleted looks again whether claims remain; the end of a claim is
	// seen at once.
	waitForClaims = 10 * time.Minute
)

// Resolver finds out what AWS has for a class, and clears away what it made for one.
type Resolver interface {
	// Reconcile writes what AWS has for the class into its status, in memory, and says when to look again.
	Reconcile(ctx context.Context, class *awsv1.EC2NodeClass) (again time.Duration)
	CollectProfiles(ctx context.Context, class *awsv1.EC2NodeClass, keep map[string]bool) error
	DeleteTemplates(ctx context.Context, class string) error
	Forget(class string)
}

// Status keeps an EC2NodeClass's status current, and lets it go only when no claim uses it any more.
type Status struct {
	Client   client.Client
	Resolver Resolver
	Recorder *control.Recorder
	Clock    control.Clock
}

// Register makes the manager run the reconciler on changes of classes and on the end of claims.
func (r *Status) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("nodeclass").
		For(&awsv1.EC2NodeClass{}).
		Watches(&karpv1.NodeClaim{}, handler.EnqueueRequestsFromMapFunc(classOf), builder.WithPredicates(onlyDeletes())).
		WithOptions(control.Workers(classWorkers, r.Clock)).
		Complete(r)
}

// Reconcile looks after one class.
func (r *Status) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	class := &awsv1.EC2NodeClass{}
	if err := r.Client.Get(ctx, request.NamespacedName, class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !class.DeletionTimestamp.IsZero() {
		return r.finish(ctx, class)
	}
	before := class.DeepCopy()
	if controllerutil.AddFinalizer(class, awsv1.TerminationFinalizer) {
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

// finish clears away what was made for a class that is being deleted, once no claim needs it.
func (r *Status) finish(ctx context.Context, class *awsv1.EC2NodeClass) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(class, awsv1.TerminationFinalizer) {
		return reconcile.Result{}, nil
	}
	claims := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, claims); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing the claims of EC2NodeClass %s: %w", class.Name, err)
	}
	var names []string
	for i := range claims.Items {
		if ref := claims.Items[i].Spec.NodeClassRef; usesClass(ref, class.Name) {
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
	if err := r.Resolver.CollectProfiles(ctx, class, nil); err != nil {
		return reconcile.Result{}, fmt.Errorf("deleting the instance profiles of EC2NodeClass %s: %w", class.Name, err)
	}
	if err := r.Resolver.DeleteTemplates(ctx, class.Name); err != nil {
		return reconcile.Result{}, fmt.Errorf("deleting the launch templates of EC2NodeClass %s: %w", class.Name, err)
	}
	r.Resolver.Forget(class.Name)
	before := class.DeepCopy()
	controllerutil.RemoveFinalizer(class, awsv1.TerminationFinalizer)
	_, err := control.Patch(ctx, r.Client, class, before)
	return reconcile.Result{}, err
}

func usesClass(ref *karpv1.NodeClassReference, name string) bool {
	return ref.Is(awsv1.EC2NodeClassGroupKind) && ref.Name == name
}

// classOf is the class that a claim uses.
func classOf(_ context.Context, obj client.Object) []reconcile.Request {
	claim, ok := obj.(*karpv1.NodeClaim)
	if !ok || !claim.Spec.NodeClassRef.Is(awsv1.EC2NodeClassGroupKind) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: claim.Spec.NodeClassRef.Name}}}
}
