package claim

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"karpenter/internal/control"
	"karpenter/internal/engine/life"
)

// PodEvents keeps, on each claim, the last time that a pod came to its node, finished there or began to leave; daemons do not
// count (L17). The times are read from the pods, so that nothing is lost or made up by a restart.
type PodEvents struct {
	Client client.Client
	// Class is the kind of node class that this process serves.
	Class schema.GroupKind
	Clock control.Clock
}

// Register makes the manager run the reconciler on every change of a pod that is on a node. The pods of a node are looked at
// together: they often come all at once.
func (r *PodEvents) Register(m manager.Manager) error {
	counted := predicate.NewPredicateFuncs(func(obj client.Object) bool { return counts(obj.(*corev1.Pod)) })
	counted.UpdateFunc = func(e event.UpdateEvent) bool {
		before, now := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
		return counts(now) && (!counts(before) || !slices.Equal(happenings(before), happenings(now)))
	}
	counted.DeleteFunc = func(event.DeleteEvent) bool { return false }
	byNode := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: obj.(*corev1.Pod).Spec.NodeName}}}
	})
	return builder.ControllerManagedBy(m).Named("nodeclaim.podevents").Watches(&corev1.Pod{}, byNode, builder.WithPredicates(counted)).
		WithOptions(control.Workers(slowWorkers, r.Clock)).Complete(r)
}

// Reconcile moves the time of the claim of one node.
func (r *PodEvents) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, request.NamespacedName, node, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.MatchingFields{indexPodNode: node.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing the pods of node %s: %w", node.Name, err)
	}
	var happened []time.Time
	for i := range pods.Items {
		if counts(&pods.Items[i]) {
			happened = append(happened, happenings(&pods.Items[i])...)
		}
	}
	claims, err := claimsOf(ctx, r.Client, node.Spec.ProviderID)
	if err != nil {
		return reconcile.Result{}, err
	}
	for i := range claims {
		claim := &claims[i]
		at, moves := life.PodActivity(claim.Status.LastPodEventTime.Time, happened...)
		if !moves || !claim.Spec.NodeClassRef.Is(r.Class) || !claim.DeletionTimestamp.IsZero() {
			continue
		}
		now := claim.DeepCopy()
		now.Status.LastPodEventTime = metav1.NewTime(at)
		written, err := control.PatchStatus(ctx, r.Client, now, claim)
		if err != nil || !written {
			return reconcile.Result{RequeueAfter: soon}, err
		}
	}
	return reconcile.Result{}, nil
}

// counts says whether a pod is on a node and is no daemon.
func counts(pod *corev1.Pod) bool {
	return pod.Spec.NodeName != "" && !control.OfNode(pod)
}

// happenings are the times at which the pod came to its node, finished, and was told to leave.
func happenings(pod *corev1.Pod) []time.Time {
	var out []time.Time
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	for _, c := range pod.Status.Conditions {
		bound := c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue
		finished := c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse && ended
		if bound || finished {
			out = append(out, c.LastTransitionTime.Time)
		}
	}
	if pod.DeletionTimestamp != nil {
		told := pod.DeletionTimestamp.Time
		if pod.DeletionGracePeriodSeconds != nil {
			told = told.Add(-time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second)
		}
		out = append(out, told)
	}
	return out
}
