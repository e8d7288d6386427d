package drain

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
	"karpenter/internal/meter"
	"karpenter/internal/wait"
)

// coalesce is how long events of a draining node's pods are gathered before the node is looked at: a look costs as much as the
// node has pods, so that one for each of them would cost their square.
const coalesce = 100 * time.Millisecond

// nodes ends nodes that have been deleted (L22): pods leave, volumes are detached, the instance ends, the finalizer goes.
type nodes struct {
	*Drainer
	ender    *ender
	queue    *queue
	draining names
}

// names is a set of node names that many may ask at once.
type names struct{ set sync.Map }

func (n *names) add(name string)      { n.set.Store(name, struct{}{}) }
func (n *names) drop(name string)     { n.set.Delete(name) }
func (n *names) has(name string) bool { _, ok := n.set.Load(name); return ok }

func (r *nodes) register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("node.termination").
		For(&corev1.Node{}, builder.WithPredicates(predicate.NewPredicateFuncs(leaving))).
		Watches(&corev1.Pod{}, r.wake(func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName })).
		Watches(&storagev1.VolumeAttachment{}, r.wake(func(o client.Object) string { return o.(*storagev1.VolumeAttachment).Spec.NodeName })).
		Watches(&karpv1.NodeClaim{}, r.wake(func(o client.Object) string { return o.(*karpv1.NodeClaim).Status.NodeName })).
		WithOptions(control.Workers(reconcilers, r.Clock)).
		Complete(r)
}

// wake looks at a draining node again after something of its has changed.
func (r *nodes) wake(nodeOf func(client.Object) string) handler.EventHandler {
	enqueue := func(obj client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		if name := nodeOf(obj); r.draining.has(name) {
			q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}, coalesce)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(e.Object, q)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(e.Object, q)
		},
	}
}

// visit is one look at a node.
type visit struct {
	node *corev1.Node
	// claim is the node's, or nil. A stranger carries the provider ID of a claim whose node is another one: its pods are drained,
	// but the instance is left to the claim.
	claim    *karpv1.NodeClaim
	stranger bool
	deadline time.Time
	// drained is set once its pods have left, as opposed to having been lost with the instance.
	drained bool
}

// Reconcile takes one node as far towards its end as it can go now.
func (r *nodes) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, request.NamespacedName, node, client.UnsafeDisableDeepCopy); err != nil {
		r.draining.drop(request.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !leaving(node) {
		r.draining.drop(request.Name)
		return reconcile.Result{}, nil
	}
	node = node.DeepCopy()
	v, ours, err := r.visit(ctx, node)
	if err != nil || !ours {
		return reconcile.Result{}, err
	}
	r.draining.add(node.Name)
	done, again, err := r.advance(ctx, v)
	if err != nil || !done {
		return reconcile.Result{RequeueAfter: again}, err
	}
	if ok, err := r.finish(ctx, v); err != nil || !ok {
		return reconcile.Result{RequeueAfter: soon}, err
	}
	return reconcile.Result{}, nil
}

// visit finds the claim of the node, and says whether the node is one of ours.
func (r *nodes) visit(ctx context.Context, node *corev1.Node) (v *visit, ours bool, err error) {
	v = &visit{node: node}
	if node.Spec.ProviderID == "" {
		return v, r.ourNode(node), nil
	}
	list := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, list, client.MatchingFields{indexClaimsProviderID: node.Spec.ProviderID}); err != nil {
		return nil, false, fmt.Errorf("listing the claims of Node %s: %w", node.Name, err)
	}
	if len(list.Items) != 1 || !list.Items[0].Spec.NodeClassRef.Is(r.Class) {
		return v, r.ourNode(node), nil
	}
	claim := &list.Items[0]
	if name := claim.Status.NodeName; name != "" && name != node.Name {
		v.stranger = true
		return v, true, nil
	}
	v.claim = claim
	v.deadline = life.Deadline(deadlineOf(claim), deletedAt(claim), graceOf(claim))
	return v, true, nil
}

// advance goes through the steps until one has to wait.
func (r *nodes) advance(ctx context.Context, v *visit) (done bool, again time.Duration, err error) {
	lost, look := r.lost(ctx, v)
	steps := []func(context.Context, *visit) (bool, time.Duration, error){r.cascade, r.cordon, r.empty, r.detach, r.end}
	if lost {
		steps = steps[:1]
	}
	for _, step := range steps {
		if done, again, err = step(ctx, v); err != nil || !done {
			if look > 0 {
				again = min(again, look)
			}
			return false, again, err
		}
	}
	return true, 0, nil
}

// cascade deletes the node's claim too (D59).
func (r *nodes) cascade(ctx context.Context, v *visit) (bool, time.Duration, error) {
	if v.claim == nil || !v.claim.DeletionTimestamp.IsZero() {
		return true, 0, nil
	}
	if _, err := control.Delete(ctx, r.Client, v.claim); err != nil {
		return false, 0, err
	}
	return false, soon, nil // the deadline follows from the deletion
}

// lost says whether the instance is proven gone while its node does not answer: nothing on it can be waited for then. Otherwise look
// is after how long to ask again, or zero.
func (r *nodes) lost(ctx context.Context, v *visit) (lost bool, look time.Duration) {
	if v.stranger || v.node.Spec.ProviderID == "" || control.Ready(v.node) {
		return false, 0
	}
	id, err := r.InstanceID(v.node.Spec.ProviderID)
	if err != nil {
		return false, 0
	}
	result := r.ender.Lost(ctx, id)
	return result.Gone, result.Again
}

// cordon keeps new pods and load balancers away.
func (r *nodes) cordon(ctx context.Context, v *visit) (bool, time.Duration, error) {
	before := v.node.DeepCopy()
	taint := karpv1.DisruptedTaint()
	if disrupted(v.node) == nil {
		taint.TimeAdded = &metav1.Time{Time: r.Clock.Now()}
		v.node.Spec.Taints = append(v.node.Spec.Taints, taint)
	}
	if _, ok := v.node.Labels[corev1.LabelNodeExcludeBalancers]; !ok {
		metav1.SetMetaDataLabel(&v.node.ObjectMeta, corev1.LabelNodeExcludeBalancers, karpv1.ExcludeBalancersLabelValue)
	}
	if len(before.Spec.Taints) == len(v.node.Spec.Taints) && len(before.Labels) == len(v.node.Labels) {
		return true, 0, nil
	}
	written, err := control.Patch(ctx, r.Client, v.node, before)
	if err != nil || !written {
		return false, soon, err
	}
	control.Logger(ctx, r.Log).Info("tainted node", append(nodeAttrs(v.node), "taint.Key", taint.Key, "taint.Value", taint.Value, "taint.Effect", string(taint.Effect))...)
	return true, 0, nil
}

// disrupted is the node's taint that keeps new pods away, or nil.
func disrupted(node *corev1.Node) *corev1.Taint {
	wanted := karpv1.DisruptedTaint()
	for i := range node.Spec.Taints {
		if t := &node.Spec.Taints[i]; t.Key == wanted.Key && t.Effect == wanted.Effect {
			return t
		}
	}
	return nil
}

// end ends the instance.
func (r *nodes) end(ctx context.Context, v *visit) (bool, time.Duration, error) {
	if v.stranger || v.node.Spec.ProviderID == "" {
		return true, 0, nil
	}
	id, err := r.InstanceID(v.node.Spec.ProviderID)
	if err != nil { // no instance has such an id; one that the claim has is the claim's to end
		r.tellStuck(v.node, fmt.Errorf("reading spec.providerID of Node %s: %w; the node is deleted without an instance", v.node.Name, err))
		return true, 0, nil
	}
	if err := r.marked(ctx, v, id); err != nil {
		r.tellStuck(v.node, err)
		return false, 0, err
	}
	asked := v.claim != nil && v.claim.StatusConditions().IsTrue(karpv1.ConditionInstanceTerminating)
	result, err := r.ender.End(ctx, id, asked)
	if err != nil {
		r.tellStuck(v.node, err)
		return false, 0, fmt.Errorf("ending the instance of Node %s: %w", v.node.Name, err)
	}
	if result.Accepted {
		if ok, err := r.condition(ctx, v.claim, karpv1.Condition{Type: karpv1.ConditionInstanceTerminating, Status: metav1.ConditionTrue}); err != nil || !ok {
			return false, soon, err
		}
	}
	return result.Gone, result.Again, nil
}

// marked says why the instance of a node without a claim must not be ended: nothing but the node's own word gives it to us.
func (r *nodes) marked(ctx context.Context, v *visit, id string) error {
	if v.claim != nil {
		return nil
	}
	ctx, cancel := wait.Timeout(ctx, r.Clock, cloudTimeout)
	defer cancel()
	in, err := r.Fleet.Get(ctx, id)
	if err == nil && in.Unmarked {
		return fmt.Errorf("instance %s of Node %s has no NodeClaim and does not carry the cluster's tags; end it, or take the finalizer %s off the node", id, v.node.Name, karpv1.TerminationFinalizer)
	}
	return nil // what else may be wrong shows when it is ended
}

// finish lets the node go, and counts it (O5, O9, O10, O11).
func (r *nodes) finish(ctx context.Context, v *visit) (ok bool, err error) {
	before := v.node.DeepCopy()
	controllerutil.RemoveFinalizer(v.node, karpv1.TerminationFinalizer)
	written, err := control.Patch(ctx, r.Client, v.node, before)
	if err != nil || !written {
		return false, err
	}
	r.draining.drop(v.node.Name)
	now, pool := r.Clock.Now(), v.node.Labels[karpv1.NodePoolLabelKey]
	took := max(0, now.Sub(before.DeletionTimestamp.Time))
	r.Meter.Add(meter.NodesTerminated, 1, "nodepool", pool, "zone", v.node.Labels[corev1.LabelTopologyZone])
	if v.drained {
		r.Meter.Add(meter.NodesDrained, 1, "nodepool", pool)
	}
	r.Meter.Observe(meter.NodesTerminationDuration, took.Seconds(), "nodepool", pool)
	r.Meter.Observe(meter.NodesLifetimeDuration, max(0, now.Sub(before.CreationTimestamp.Time).Seconds()), "nodepool", pool)
	control.Logger(ctx, r.Log).Info("deleted node", append(nodeAttrs(before), "duration", took.Round(time.Millisecond))...)
	return true, nil
}
