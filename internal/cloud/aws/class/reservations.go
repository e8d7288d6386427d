package class

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
	"karpenter/internal/meter"
)

// reservationsEvery is how often reserved instances are compared with their reservations.
const reservationsEvery = time.Minute

// Lister lists the instances of this cluster.
type Lister interface {
	List(ctx context.Context) ([]*cloud.Instance, error)
}

// Reservations follows what becomes of instances in capacity reservations: one that has lost its reservation is on-demand from
// then on, and one whose reservation is about to end is replaced in time.
type Reservations struct {
	Client     client.Client
	Lister     Lister
	InstanceID func(providerID string) (string, error)
	Clock      control.Clock
	Recorder   *control.Recorder
	Meter      *meter.Set
	Log        *slog.Logger
}

// Loop is what the manager runs.
func (r *Reservations) Loop(beat func(string)) *control.Loop {
	return &control.Loop{Name: "capacityreservation", Clock: r.Clock, Log: r.Log, Do: r.Check, Beat: beat}
}

// Check looks at every reserved claim once. Without any it asks nobody.
func (r *Reservations) Check(ctx context.Context) (time.Duration, error) {
	claims := &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, claims, client.MatchingLabels{karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeReserved}); err != nil {
		return 0, fmt.Errorf("listing reserved claims: %w", err)
	}
	if len(claims.Items) == 0 {
		return reservationsEvery, nil
	}
	ending, err := r.ending(ctx)
	if err != nil {
		return 0, err
	}
	instances, err := r.Lister.List(ctx)
	if err != nil {
		return 0, err
	}
	capacityType := make(map[string]string, len(instances))
	for _, in := range instances {
		capacityType[in.ID] = in.CapacityType
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if !claim.Spec.NodeClassRef.Is(awsv1.EC2NodeClassGroupKind) || !claim.DeletionTimestamp.IsZero() {
			continue
		}
		if err := r.follow(ctx, claim, capacityType, ending); err != nil {
			return 0, err
		}
	}
	return reservationsEvery, nil
}

// ending are the reservations that are about to end, by id.
func (r *Reservations) ending(ctx context.Context) (map[string]bool, error) {
	classes := &awsv1.EC2NodeClassList{}
	if err := r.Client.List(ctx, classes); err != nil {
		return nil, fmt.Errorf("listing classes: %w", err)
	}
	ending := map[string]bool{}
	for i := range classes.Items {
		for _, reservation := range classes.Items[i].Status.CapacityReservations {
			if reservation.State == awsv1.CapacityReservationStateExpiring {
				ending[reservation.ID] = true
			}
		}
	}
	return ending, nil
}

// follow brings one claim to what has become of its reservation.
func (r *Reservations) follow(ctx context.Context, claim *karpv1.NodeClaim, capacityType map[string]string, ending map[string]bool) error {
	id, err := r.InstanceID(claim.Status.ProviderID)
	if err != nil {
		return nil // not launched yet
	}
	if reservation := claim.Labels[awsv1.LabelCapacityReservationID]; ending[reservation] {
		r.Recorder.Tell(control.Event{Object: claim, Warning: true, Reason: "CapacityReservationExpiring", Message: "Capacity reservation " + reservation + " is about to end; replacing the node"})
		if _, err := control.Delete(ctx, r.Client, claim); err != nil {
			return err
		}
		control.Counter{Client: r.Client, Meter: r.Meter}.Disrupted(ctx, claim, "capacity_reservation_expiring")
		r.Log.Info("deleted nodeclaim", "NodeClaim", claim.Name, "Node", claim.Status.NodeName, "reason", "capacity_reservation_expiring", "message", "capacity reservation "+reservation+" is about to end")
		return nil
	}
	if capacityType[id] != karpv1.CapacityTypeOnDemand {
		return nil
	}
	return r.relabel(ctx, claim)
}

// relabel makes a claim and its node on-demand.
func (r *Reservations) relabel(ctx context.Context, claim *karpv1.NodeClaim) error {
	for _, obj := range withNode(ctx, r.Client, claim) {
		before := obj.DeepCopyObject().(client.Object)
		labels := obj.GetLabels()
		labels[karpv1.CapacityTypeLabelKey] = karpv1.CapacityTypeOnDemand
		for _, key := range []string{awsv1.LabelCapacityReservationID, awsv1.LabelCapacityReservationType, awsv1.LabelCapacityReservationInterruptible} {
			delete(labels, key)
		}
		if _, err := control.Patch(ctx, r.Client, obj, before); err != nil {
			return err
		}
		if node, ok := obj.(*corev1.Node); ok {
			r.Log.Info("node has left its capacity reservation and is on-demand now", "Node", node.Name, "NodeClaim", claim.Name)
		}
	}
	return nil
}
