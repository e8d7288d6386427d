// Package repair replaces nodes that have been unhealthy for longer than the provider tolerates, in the way of releases before 1.15
// (D58): at once, without waiting for a replacement and without budgets. It decides nothing about a node that somebody has deleted
// already, and stops where so many nodes are unhealthy that new ones would be no better. Whoever wires it leaves it out unless the gate
// NodeRepair and LEGACY_NODE_REPAIR are on; otherwise repair is one of the moves of internal/control/disruption. The client's cache needs claims indexed by status.providerID.
package repair

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/life"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
	"karpenter/internal/state"
)

const (
	// retryBlocked is how often a repair that is held back is judged again, and blockedEvery how often that is told.
	retryBlocked = 5 * time.Minute
	blockedEvery = 15 * time.Minute
	// reconcilers is how many nodes are judged at once; a judgement does no more than two writes.
	reconcilers = 10
	// soon is when a claim is looked at again that somebody else has changed meanwhile.
	soon = 250 * time.Millisecond
)

// EventBlocked is the reason of the event which says that a repair is held back (O50).
const EventBlocked = "NodeRepairBlocked"

// Policies say which node conditions mean that an instance is broken; cloud.Judge is one.
type Policies interface {
	RepairPolicies() []cloud.RepairPolicy
}

// Repair replaces unhealthy nodes.
type Repair struct {
	Client   client.Client
	Policies Policies
	// Class is the kind of node class that this process serves (L20).
	Class schema.GroupKind
	// Quota is shared with everything that destroys on its own judgement; nil does not hold back.
	Quota    *control.Quota
	Clock    control.Clock
	Recorder *control.Recorder
	Meter    *meter.Set
	Log      *slog.Logger
	// Ledger keeps what is replaced; nil keeps nothing.
	Ledger *ledger.Ledger

	paid sync.Map // UIDs of claims that the quota has been asked for and that the cache does not show deleted yet
}

// Register makes the manager judge every node whenever it or its claim changes.
func (r *Repair) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("node.health").
		For(&corev1.Node{}).
		Watches(&karpv1.NodeClaim{}, handler.EnqueueRequestsFromMapFunc(nodeOf)).
		WithOptions(control.Workers(reconcilers, r.Clock)).
		Complete(r)
}

func nodeOf(_ context.Context, obj client.Object) []reconcile.Request {
	claim, ok := obj.(*karpv1.NodeClaim)
	if !ok || claim.Status.NodeName == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: claim.Status.NodeName}}}
}

// Reconcile judges one node.
func (r *Repair) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := r.Client.Get(ctx, request.NamespacedName, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	policies := control.RepairPolicies(r.Policies.RepairPolicies())
	illness, ill := life.FirstDue(state.Conditions(node), policies)
	if !node.DeletionTimestamp.IsZero() {
		return reconcile.Result{}, nil
	}
	claim, err := r.claimOf(ctx, node)
	if err != nil || claim == nil {
		return reconcile.Result{}, err
	}
	if !claim.DeletionTimestamp.IsZero() {
		r.paid.Delete(claim.UID)
		return reconcile.Result{}, nil
	}
	if !ill {
		return reconcile.Result{}, control.Loosen(ctx, r.Client, claim, r.Clock.Now())
	}
	if wait := illness.Due.Sub(r.Clock.Now()); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, control.Loosen(ctx, r.Client, claim, r.Clock.Now())
	}
	allowed, why, err := r.allowed(ctx, claim, policies)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !allowed {
		r.tellBlocked(ctx, node, claim, blocked{illness, why})
		return reconcile.Result{RequeueAfter: retryBlocked}, control.Loosen(ctx, r.Client, claim, r.Clock.Now())
	}
	if ok, err := r.replace(ctx, claim.DeepCopy(), illness); err != nil || !ok {
		return reconcile.Result{RequeueAfter: soon}, err
	}
	return reconcile.Result{}, nil
}

// claimOf is the one claim of the node, or nil if there is none, more than one, or somebody else's. It is the cache's.
func (r *Repair) claimOf(ctx context.Context, node *corev1.Node) (*karpv1.NodeClaim, error) {
	if node.Spec.ProviderID == "" {
		return nil, nil
	}
	list := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, list, client.MatchingFields{"status.providerID": node.Spec.ProviderID}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the claims of Node %s: %w", node.Name, err)
	}
	if len(list.Items) != 1 {
		return nil, nil
	}
	claim := &list.Items[0]
	if !claim.Spec.NodeClassRef.Is(r.Class) {
		return nil, nil
	}
	return claim, nil
}

// allowed says whether a node of the claim's pool may be replaced now, and otherwise why not.
func (r *Repair) allowed(ctx context.Context, claim *karpv1.NodeClaim, policies []life.RepairPolicy) (ok bool, why string, err error) {
	pool, where := claim.Labels[karpv1.NodePoolLabelKey], "the cluster"
	var filters []client.ListOption
	if pool != "" {
		where = "NodePool " + pool
		filters = append(filters, client.MatchingLabels{karpv1.NodePoolLabelKey: pool})
	}
	nodes := &corev1.NodeList{}
	if err := r.Client.List(ctx, nodes, append(filters, client.UnsafeDisableDeepCopy)...); err != nil {
		return false, "", fmt.Errorf("listing the nodes of %s: %w", where, err)
	}
	unhealthy := 0
	for i := range nodes.Items {
		if _, ill := life.FirstDue(state.Conditions(&nodes.Items[i]), policies); ill {
			unhealthy++
		}
	}
	if ok, why = disrupt.MayRepair(unhealthy, len(nodes.Items)); !ok {
		return false, why + " in " + where, nil
	}
	return r.affordable(ctx, claim)
}

// affordable spends from the quota that everything shares which destroys on its own judgement.
func (r *Repair) affordable(ctx context.Context, claim *karpv1.NodeClaim) (ok bool, why string, err error) {
	if _, paid := r.paid.Load(claim.UID); paid || r.Quota == nil {
		return true, "", nil
	}
	claims := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, claims, client.UnsafeDisableDeepCopy); err != nil {
		return false, "", fmt.Errorf("listing claims: %w", err)
	}
	fleet := 0
	for i := range claims.Items {
		if claims.Items[i].Spec.NodeClassRef.Is(r.Class) {
			fleet++
		}
	}
	if !r.Quota.Take(fleet) {
		return false, "too many nodes have been replaced in the last minutes without anybody asking for it", nil
	}
	r.paid.Store(claim.UID, struct{}{})
	return true, "", nil
}

// replace deletes the claim, with a deadline that has come: nothing on a broken instance is waited for. An earlier deadline stays. If the
// claim cannot be deleted, the next look does, or removes the deadline.
func (r *Repair) replace(ctx context.Context, claim *karpv1.NodeClaim, illness life.Illness) (ok bool, err error) {
	now := r.Clock.Now()
	before := claim.DeepCopy()
	control.Tighten(claim, now)
	if !equality.Semantic.DeepEqual(claim, before) {
		if written, err := control.Patch(ctx, r.Client, claim, before); err != nil || !written {
			return false, err
		}
	}
	// What the cache shows may be older than our own deletion, which must not be counted twice.
	if deleted, err := control.DeleteSeen(ctx, r.Client, claim); err != nil || !deleted {
		return false, err
	}
	pool := claim.Labels[karpv1.NodePoolLabelKey]
	control.Unhealthy(r.Meter, claim, illness.Condition.Type, new(time.Duration))
	control.Counter{Client: r.Client, Meter: r.Meter}.Disrupted(ctx, claim, "unhealthy")
	r.Ledger.Removed(claim, ledger.Removal, "Unhealthy", "is replaced: "+illness.String())
	control.Logger(ctx, r.Log).Info("deleting unhealthy node", "NodeClaim", claim.Name, "Node", claim.Status.NodeName, "NodePool", pool,
		"provider-id", claim.Status.ProviderID, "reason", "unhealthy", "message", illness.String())
	return true, nil
}

// blocked is what keeps a broken instance in place.
type blocked struct {
	illness life.Illness
	why     string
}

// tellBlocked tells on the node, the claim and the pool that a repair is held back. The pool is told in words that are the same for
// all its nodes.
func (r *Repair) tellBlocked(ctx context.Context, node *corev1.Node, claim *karpv1.NodeClaim, b blocked) {
	tell := func(obj client.Object, message string) {
		r.Recorder.Tell(control.Event{Object: obj, Warning: true, Reason: EventBlocked, Message: message, Every: blockedEvery})
	}
	message := fmt.Sprintf("%s; not replaced, because %s", b.illness, b.why)
	tell(node, message)
	tell(claim, message)
	pool := &karpv1.NodePool{}
	if name := claim.Labels[karpv1.NodePoolLabelKey]; name != "" && r.Client.Get(ctx, client.ObjectKey{Name: name}, pool) == nil {
		tell(pool, "Unhealthy nodes are not replaced, because "+b.why)
	}
}
