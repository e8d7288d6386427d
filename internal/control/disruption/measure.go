package disruption

import (
	"sync"
	"time"

	"karpenter/internal/control/provision"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/meter"
)

// measure shows how long a decision has been at work, and on how much, as the provisioner does for its plans (O29–O31, O33). What it
// returns ends that.
func (l *Loop) measure(in *disrupt.Input) (done func()) {
	pods := 0
	for i := range in.Nodes {
		if in.Nodes[i].Fixed == "" && in.Nodes[i].PodsFixed == "" {
			pods += len(in.World.Nodes[i].Pods)
		}
	}
	l.passes.Begin(pods)
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
	ticker, end := l.Clock.NewTicker(time.Second), make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-end:
				return
			case now := <-ticker.C():
				l.passes.Tick(now)
			}
		}
	})
	return func() {
		close(end)
		watching.Wait()
		ticker.Stop()
		l.passes.End()
	}
}
