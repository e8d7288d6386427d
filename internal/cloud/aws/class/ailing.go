package class

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
)

const (
	// statusEvery is how often EC2 is asked for what ails.
	statusEvery = time.Minute
	// deniedEvery is how often it is asked again when the role does not allow it.
	deniedEvery = time.Hour
)

// Clinic lists what the cloud says is wrong with instances, which may be anybody's.
type Clinic interface {
	Ailing(ctx context.Context) ([]cloud.Ailment, error)
}

// Ailing replaces instances that EC2's own checks find broken, or that EC2 is going to work on. Broken ones are not drained
// politely: nothing runs on them any more. The quota keeps a fault of the checks themselves from ending a fleet.
type Ailing struct {
	Client     client.Client
	Clinic     Clinic
	InstanceID func(providerID string) (string, error)
	Quota      *control.Quota
	Clock      control.Clock
	Recorder   *control.Recorder
	Meter      *meter.Set
	Log        *slog.Logger
	// Ledger keeps what is replaced; optional.
	Ledger *ledger.Ledger

	paid map[types.UID]bool // claims that the quota has been asked for and that could not be deleted yet
}

// Loop is what the manager runs.
func (r *Ailing) Loop(beat func(string)) *control.Loop {
	return &control.Loop{Name: "interruption.instancestatus", Clock: r.Clock, Log: r.Log, Do: r.Check, Beat: beat}
}

// Check asks once. A claim that cannot be deleted holds up no other, and is tried again by the next check.
func (r *Ailing) Check(ctx context.Context) (time.Duration, error) {
	ailments, err := r.Clinic.Ailing(ctx)
	if cloud.ClassOf(err) == cloud.Denied {
		r.Log.Error("instance status cannot be read; allow ec2:DescribeInstanceStatus", "error", err)
		return deniedEvery, nil
	}
	if err != nil {
		return 0, err
	}
	claims, err := owned(ctx, r.Client, r.InstanceID)
	if err != nil {
		return 0, err
	}
	var errs []error
	fleet, paid := len(claims), map[types.UID]bool{}
	for _, a := range ailments {
		claim := claims[a.Instance]
		if claim == nil || !claim.DeletionTimestamp.IsZero() {
			continue
		}
		if paid[claim.UID] = r.paid[claim.UID] || r.Quota.Take(fleet); paid[claim.UID] {
			delete(claims, a.Instance)
		}
		errs = append(errs, r.treat(ctx, a, claim.DeepCopy(), paid[claim.UID]))
	}
	r.paid = paid
	// The check before, or the process before, may have left deadlines on what is not replaced any more.
	for _, id := range slices.Sorted(maps.Keys(claims)) {
		errs = append(errs, control.Loosen(ctx, r.Client, claims[id], r.Clock.Now()))
	}
	return statusEvery, errors.Join(errs...)
}

// treat replaces the instance of one claim, if the quota allows it.
func (r *Ailing) treat(ctx context.Context, a cloud.Ailment, claim *karpv1.NodeClaim, allowed bool) error {
	message := complaint(a)
	objects := withNode(ctx, r.Client, claim)
	if !allowed {
		for _, obj := range objects {
			r.Recorder.Tell(control.Event{Object: obj, Warning: true, Reason: "InstanceUnhealthy", Message: message + "; not replaced yet, because a tenth of the fleet has been replaced within ten minutes"})
		}
		return nil
	}
	for _, obj := range objects {
		r.Recorder.Tell(control.Event{Object: obj, Warning: true, Reason: "InstanceUnhealthy", Message: message + "; replacing it"})
	}
	remove := control.Delete
	if a.Kind == cloud.EventStatus {
		if err := control.Loosen(ctx, r.Client, claim, r.Clock.Now()); err != nil {
			return err
		}
	} else {
		before := claim.DeepCopy()
		control.Annotate(claim, karpv1.TerminationTimestampAnnotationKey, r.Clock.Now().UTC().Format(time.RFC3339))
		if written, err := control.Patch(ctx, r.Client, claim, before); err != nil || !written {
			return err
		}
		remove = control.DeleteSeen // with its deadline: somebody may remove that from a claim that is not deleted yet
	}
	if deleted, err := remove(ctx, r.Client, claim); err != nil || !deleted {
		return err
	}
	r.Meter.Add(meter.InstanceStatusUnhealthy, 1, "category", string(a.Kind))
	control.Counter{Client: r.Client, Meter: r.Meter}.Disrupted(ctx, claim, reasons[a.Kind])
	r.Ledger.Removed(claim, ledger.Interruption, "InstanceUnhealthy", "is replaced: "+message)
	r.Log.Info("deleted nodeclaim", "NodeClaim", claim.Name, "Node", claim.Status.NodeName, "provider-id", claim.Status.ProviderID, "reason", reasons[a.Kind], "message", message)
	return nil
}

// reasons are the label of the claim's disruption (O3): upstream's kinds of messages.
var reasons = map[cloud.AilmentKind]string{
	cloud.InstanceStatus: "instance_status",
	cloud.SystemStatus:   "system_status",
	cloud.EventStatus:    "event_status",
}

// complaint says what is wrong in a sentence that stays the same while it is.
func complaint(a cloud.Ailment) string {
	switch a.Kind {
	case cloud.EventStatus:
		return fmt.Sprintf("EC2 has scheduled maintenance of the instance, not before %s", a.NotBefore.UTC().Format(time.RFC3339))
	case cloud.SystemStatus:
		return fmt.Sprintf("EC2's system status check of the instance has been failing since %s", a.Since.UTC().Format(time.RFC3339))
	default:
		return fmt.Sprintf("EC2's instance status check has been failing since %s", a.Since.UTC().Format(time.RFC3339))
	}
}
