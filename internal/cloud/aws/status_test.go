package aws

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"karpenter/cloud"
	"karpenter/internal/cloud/simaws"
)

func TestAWS_5_2_Ailing(t *testing.T) {
	w := newWorld(t)
	w.load()
	a, b, c := w.one("a", onDemandOnly, typeIs("m5.large")), w.one("b", onDemandOnly, typeIs("m5.large")), w.one("c", onDemandOnly, typeIs("m5.large"))
	w.advance(time.Minute)
	failed := w.clock.Now()
	w.must(w.sim.SetHealth(simaws.HealthSpec{Instances: []string{a.ID}, Check: "instance", Impaired: true}))
	later := failed.Add(240 * time.Hour)
	w.must(w.sim.SetHealth(simaws.HealthSpec{Instances: []string{b.ID}, Event: &simaws.ScheduledEvent{Code: "instance-retirement", Description: "The instance is to be retired", NotBefore: later}}))
	w.must(w.sim.SetHealth(simaws.HealthSpec{Instances: []string{c.ID}, Event: &simaws.ScheduledEvent{Code: "system-reboot", Description: "[Completed] reboot", NotBefore: failed}}))
	event := cloud.Ailment{Instance: b.ID, Kind: cloud.EventStatus, NotBefore: later}
	got, err := w.Ailing(w.ctx)
	w.must(err)
	if diff := cmp.Diff([]cloud.Ailment{event}, got); diff != "" {
		t.Errorf("11.7 a check that has just failed and an event that is over are none (-want +got):\n%s", diff)
	}
	w.advance(checkPatience)
	got, err = w.Ailing(w.ctx)
	w.must(err)
	found := false
	for _, x := range got {
		found = found || x == cloud.Ailment{Instance: a.ID, Kind: cloud.InstanceStatus, Since: failed}
	}
	if !found || len(got) != 2 {
		t.Errorf("got %+v, want the failed check too", got)
	}
	w.must(w.sim.SetHealth(simaws.HealthSpec{Instances: []string{a.ID}, Event: &simaws.ScheduledEvent{Code: "instance-stop", Description: "The host is degraded", NotBefore: later}}))
	got, err = w.Ailing(w.ctx)
	w.must(err)
	if i := slices.IndexFunc(got, func(x cloud.Ailment) bool { return x.Instance == a.ID }); len(got) != 3 || got[i].Kind != cloud.InstanceStatus {
		t.Errorf("got %+v, want what is broken already before what EC2 is going to do", got)
	}
}
