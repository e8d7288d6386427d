package pool

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
	"karpenter/internal/control"
	"karpenter/internal/state"
)

const (
	// judgeEvery is how often overlays are judged although neither they nor pools have changed: what the cloud sells changes too, and with
	// it what an overlay selects.
	judgeEvery = time.Minute
	// judgeSoon is when they are judged again while the mirror is behind the cache.
	judgeSoon = 100 * time.Millisecond
)

// Overlays says of each NodeOverlay whether it counts, and if not why (A47). Decisions do not wait for it: overlays are part of what
// they are made from (P95).
type Overlays struct {
	Client client.Client
	Mirror *state.Mirror
	Clock  control.Clock
}

// Register makes the manager judge all overlays whenever one of them or a pool changes.
func (r *Overlays) Register(m manager.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "all"}}}
	})
	return builder.ControllerManagedBy(m).Named("nodeoverlay").
		Watches(&v1alpha1.NodeOverlay{}, all).
		Watches(&karpv1.NodePool{}, all, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(control.Workers(1, r.Clock)).Complete(r)
}

// Reconcile judges all overlays: whether one conflicts with others depends on those. One that cannot be written holds up no other.
func (r *Overlays) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	list := &v1alpha1.NodeOverlayList{}
	if err := r.Client.List(ctx, list); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing NodeOverlays: %w", err)
	}
	judged := map[types.UID]*state.Overlay{}
	for _, o := range r.Mirror.View().Overlays {
		judged[o.Object.UID] = o
	}
	after := judgeEvery
	var errs []error
	for i := range list.Items {
		overlay := &list.Items[i]
		found := judged[overlay.UID]
		if found == nil || found.Object.Generation != overlay.Generation {
			after = judgeSoon
			continue
		}
		errs = append(errs, r.write(ctx, overlay, found))
	}
	return reconcile.Result{RequeueAfter: after}, errors.Join(errs...)
}

// write sets the conditions of one overlay.
func (r *Overlays) write(ctx context.Context, overlay *v1alpha1.NodeOverlay, found *state.Overlay) error {
	before := overlay.DeepCopy()
	condition := karpv1.Condition{Type: karpv1.ConditionValidationSucceeded, Status: metav1.ConditionTrue, Message: found.Why()}
	switch {
	case found.Problem != "":
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonRuntimeValidation
	case found.Conflict != nil:
		condition.Status, condition.Reason = metav1.ConditionFalse, v1alpha1.ReasonConflict
	}
	overlay.StatusConditions().Set(condition, r.Clock.Now())
	_, err := control.PatchStatus(ctx, r.Client, overlay, before)
	return err
}
