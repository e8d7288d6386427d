package claim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
	"karpenter/internal/meter"
)

const (
	// checkEvery is how often a node is compared with what its type promised (L16).
	checkEvery = 10 * time.Minute
	// eventInconsistent is the reason of the event, and of the condition, when it is smaller.
	eventInconsistent = "FailedConsistencyCheck"
)

// Consistency says of each claim whether its node is as large as the instance type promised.
type Consistency struct {
	Client client.Client
	// Class is the kind of node class that this process serves.
	Class    schema.GroupKind
	Clock    control.Clock
	Recorder *control.Recorder
	Meter    *meter.Set
}

// Register makes the manager run the reconciler for every claim.
func (r *Consistency) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("nodeclaim.consistency").For(&karpv1.NodeClaim{}).
		Watches(&corev1.Node{}, byNode(m.GetClient())).WithOptions(control.Workers(slowWorkers, r.Clock)).Complete(r)
}

// Reconcile compares one claim with its node.
func (r *Consistency) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, request.NamespacedName, claim, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !claim.Spec.NodeClassRef.Is(r.Class) || !claim.DeletionTimestamp.IsZero() || !claim.StatusConditions().IsTrue(karpv1.ConditionInitialized) {
		return reconcile.Result{}, nil
	}
	node, err := nodeOf(ctx, r.Client, claim, client.UnsafeDisableDeepCopy)
	if err != nil || node == nil {
		return reconcile.Result{RequeueAfter: checkEvery}, err
	}
	changed, checked := false, *claim
	if short := shortages(claim, node); len(short) > 0 {
		message := fmt.Sprintf("Node %s has less than its instance type promised: %s", node.Name, strings.Join(short, ", "))
		if had := claim.StatusConditions().Get(karpv1.ConditionConsistentStateFound); had == nil || had.Status != metav1.ConditionFalse {
			r.Meter.Add(meter.ConsistencyErrors, 1, "check", "NodeShape")
		}
		changed = checked.StatusConditions().Set(karpv1.Condition{
			Type: karpv1.ConditionConsistentStateFound, Status: metav1.ConditionFalse, Reason: eventInconsistent, Message: message,
		}, r.Clock.Now())
		r.Recorder.Tell(control.Event{Object: claim, Warning: true, Reason: eventInconsistent, Message: message, Every: checkEvery})
	} else {
		changed = checked.StatusConditions().SetTrue(karpv1.ConditionConsistentStateFound, r.Clock.Now())
	}
	if changed {
		_, err = control.PatchStatus(ctx, r.Client, checked.DeepCopy(), claim)
	}
	return reconcile.Result{RequeueAfter: checkEvery}, err
}

// shortages are the requested resources that the node has too little of, as text, by name.
func shortages(claim *karpv1.NodeClaim, node *corev1.Node) []string {
	var amounts []life.Amount
	for _, name := range present(claim.Spec.Resources.Requests) {
		expected, found := claim.Status.Capacity[corev1.ResourceName(name)], node.Status.Capacity[corev1.ResourceName(name)]
		amounts = append(amounts, life.Amount{Resource: name, Expected: expected.MilliValue(), Found: found.MilliValue()})
	}
	var out []string
	for _, a := range life.Short(amounts) {
		out = append(out, fmt.Sprintf("%s of %s %s", quantity(a.Found, claim, a.Resource), quantity(a.Expected, claim, a.Resource), a.Resource))
	}
	slices.Sort(out)
	return out
}

// quantity prints thousandths of a resource in the notation that the claim uses for it.
func quantity(thousandths int64, claim *karpv1.NodeClaim, name string) string {
	promised := claim.Status.Capacity[corev1.ResourceName(name)]
	out := resource.NewMilliQuantity(thousandths, promised.Format)
	return out.String()
}
