package class

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
)

const (
	// shiftsEvery is how often shifts are looked at; hearing of them is the provider's business.
	shiftsEvery = 10 * time.Second
	// shiftSaidEvery is how often a pool is told of a shift that goes on.
	shiftSaidEvery = time.Hour
)

// Events about zonal shifts, on pools.
const (
	// EventZonalShiftActive says that nothing is launched in a zone.
	EventZonalShiftActive = "ZonalShiftActive"
	// EventZonalShiftCleared says that the zone is used again.
	EventZonalShiftCleared = "ZonalShiftCleared"
)

// Shifter knows the zones that the cluster has been shifted away from.
type Shifter interface{ Shifts() []cloud.Shift }

// Shifts tells pools when a zone is closed to them, and when it is open again.
type Shifts struct {
	Client   client.Client
	Shifter  Shifter
	Clock    control.Clock
	Recorder *control.Recorder
	Log      *slog.Logger

	active map[string]bool // by zone id, as of the last look
}

// Loop is what the manager runs.
func (r *Shifts) Loop(beat func(string)) *control.Loop {
	return &control.Loop{Name: "zonalshift.events", Clock: r.Clock, Log: r.Log, Do: r.Check, Beat: beat}
}

// Check compares the shifts with those of the last look.
func (r *Shifts) Check(ctx context.Context) (time.Duration, error) {
	now := map[string]bool{}
	var said []control.Event
	for _, s := range r.Shifter.Shifts() {
		now[s.ZoneID] = true
		said = append(said, control.Event{
			Warning: true, Reason: EventZonalShiftActive, Every: shiftSaidEvery,
			Message: fmt.Sprintf("The cluster is shifted away from zone %s until %s: nothing is launched there", s.ZoneID, s.Until.UTC().Format(time.RFC3339)),
		})
		if !r.active[s.ZoneID] {
			r.Log.Info("zonal shift began, nothing is launched in the zone", "zone-id", s.ZoneID, "until", s.Until)
		}
	}
	for zone := range r.active {
		if !now[zone] {
			said = append(said, control.Event{Reason: EventZonalShiftCleared, Message: "The shift away from zone " + zone + " is over: instances are launched there again"})
			r.Log.Info("zonal shift is over", "zone-id", zone)
		}
	}
	if len(said) == 0 {
		return shiftsEvery, nil
	}
	pools := &karpv1.NodePoolList{}
	if err := r.Client.List(ctx, pools); err != nil {
		return 0, fmt.Errorf("listing pools: %w", err)
	}
	for i := range pools.Items {
		if !pools.Items[i].Spec.Template.Spec.NodeClassRef.Is(awsv1.EC2NodeClassGroupKind) {
			continue
		}
		for _, e := range said {
			e.Object = &pools.Items[i]
			r.Recorder.Tell(e)
		}
	}
	r.active = now
	return shiftsEvery, nil
}
