package class

import (
	"context"
	"log/slog"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/capi/kinds"
	"karpenter/internal/control"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
)

// causeEnded is why a claim is deleted whose Machine has ended. The value is that of the metric label reason.
const causeEnded = "machine_ended"

// eventEnded is the reason of the event about it.
const eventEnded = "MachineEnded"

// Ended says of a claim why its Machine has ended or is ending, or "".
type Ended func(claim *karpv1.NodeClaim) (why string)

// Machines deletes claims whose Machine somebody else deletes, or that has failed for good: its node is drained and its pods get another.
type Machines struct {
	Client   client.Client
	Ended    Ended
	Clock    control.Clock
	Recorder *control.Recorder
	Meter    *meter.Set
	Log      *slog.Logger
	// Ledger keeps what is deleted; optional.
	Ledger *ledger.Ledger

	bell control.Bell
}

// Seen has the claim of a Machine that has changed looked at, if there is reason to.
func (r *Machines) Seen(m *kinds.Machine) {
	claim := m.Annotations[v1alpha1.ClaimAnnotationKey]
	if _, failed := m.Status.Failed(); claim != "" && (failed || !m.DeletionTimestamp.IsZero()) {
		r.bell.Ring(claim)
	}
}

// Register makes the manager run the reconciler on the claims that Seen names, and on every change of a claim: it may have got its Machine
// after that had ended.
func (r *Machines) Register(m manager.Manager) error {
	return builder.ControllerManagedBy(m).Named("nodeclaim.machine").For(&karpv1.NodeClaim{}).
		WatchesRawSource(r.bell.Source()).WithOptions(control.Workers(1, r.Clock)).Complete(r)
}

// Reconcile looks at one claim.
func (r *Machines) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.Client.Get(ctx, request.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !claim.Spec.NodeClassRef.Is(v1alpha1.GroupKind) || !claim.DeletionTimestamp.IsZero() || claim.Status.ProviderID == "" {
		return reconcile.Result{}, nil // what is being launched is the launch's matter
	}
	why := r.Ended(claim)
	if why == "" {
		return reconcile.Result{}, nil
	}
	removed, err := control.DeleteSeen(ctx, r.Client, claim)
	if removed {
		r.Recorder.Tell(control.Event{Object: claim, Warning: true, Reason: eventEnded, Message: why + "; the node is drained and replaced"})
		control.Counter{Client: r.Client, Meter: r.Meter}.Disrupted(ctx, claim, causeEnded)
		r.Ledger.Removed(claim, ledger.Removal, causeEnded, "is deleted, because "+why)
		r.Log.Info("deleted nodeclaim", "NodeClaim", claim.Name, "NodePool", claim.Labels[karpv1.NodePoolLabelKey], "Node", claim.Status.NodeName,
			"provider-id", claim.Status.ProviderID, "reason", causeEnded, "message", why)
	}
	return reconcile.Result{}, err
}
