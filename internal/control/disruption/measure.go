package disruption

import (
	"context"

	"karpenter/internal/control/provision"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/meter"
)

// measure shows how long a decision has been at work, and on how much, as the provisioner does for its plans (O29–O31, O33). What it
// returns ends that.
func (l *Loop) measure(ctx context.Context, in *disrupt.Input) (done func()) {
	pods := 0
	for i := range in.Nodes {
		if in.Nodes[i].Fixed == "" && in.Nodes[i].PodsFixed == "" {
			pods += len(in.World.Nodes[i].Pods)
		}
	}
	l.passes.Begin(ctx, pods)
	wanting := in.World.Over().Wanting()
	l.Meter.Set(meter.SchedulerUnschedulable, float64(len(wanting)), "controller", name)
	zones := provision.PodsByZone(in.World, wanting)
	for zone, n := range zones {
		l.Meter.Set(meter.SchedulerPendingZones, float64(n), "controller", name, "zone", zone)
	}
	for zone := range l.zones {
		if zones[zone] == 0 {
			l.Meter.Drop(meter.SchedulerPendingZones, "controller", name, "zone", zone)
		}
	}
	l.zones = zones
	return l.passes.End
}
