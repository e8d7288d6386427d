package aws

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	"github.com/google/go-cmp/cmp"

	"karpenter/cloud"
	"karpenter/internal/cloud/simaws"
)

func shifting(t *testing.T) *testWorld {
	w := newWorld(t, func(_ *simaws.Options, o *Options) {
		o.ZonalShift, o.Cluster.ARN = true, "arn:aws:eks:us-west-2:"+simaws.DefaultAccount+":cluster/test"
	})
	w.load()
	return w
}

// zoneID is the id of a zone of the class default.
func (w *testWorld) zoneID(name string) string {
	for _, s := range w.class("default").Status.Subnets {
		if s.Zone == name {
			return s.ZoneID
		}
	}
	w.t.Fatalf("no zone %s", name)
	return ""
}

// open lists the zones in which the class default can launch m5.large on demand.
func (w *testWorld) open() []string {
	var zones []string
	for _, o := range w.typeNamed("m5.large").Offerings {
		if o.CapacityType == "on-demand" && o.Available {
			zones = append(zones, o.Zone)
		}
	}
	return zones
}

func TestAWS_5_3_ZonalShift(t *testing.T) {
	w := shifting(t)
	all := []string{"us-west-2a", "us-west-2b", "us-west-2c"}
	away := w.zoneID("us-west-2a")
	refresh := func(want ...cloud.Shift) {
		t.Helper()
		got, err := w.RefreshShifts(w.ctx)
		w.must(err)
		if diff := cmp.Diff(append([]cloud.Shift{}, want...), got); diff != "" {
			t.Errorf("shifts (-want +got):\n%s", diff)
		}
	}
	expect := func(why string, want []string) {
		t.Helper()
		if diff := cmp.Diff(want, w.open()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", why, diff)
		}
	}
	refresh()
	expect("without a shift", all)
	w.must(w.sim.Shift("", "test", away, time.Hour))
	refresh(cloud.Shift{ZoneID: away, Until: epoch.Add(time.Hour)})
	expect("nothing is launched in a zone that is shifted away from", all[1:])
	before, err := w.Types("default")
	w.must(err)
	refresh(cloud.Shift{ZoneID: away, Until: epoch.Add(time.Hour)})
	if again, _ := w.Types("default"); again != before {
		t.Error("a refresh that found nothing new must change nothing")
	}
	w.must(w.sim.AddFault(simaws.Fault{Kind: simaws.FaultError, Action: "arc-zonal-shift:GetManagedResource", Code: "InternalServerException", Status: 500}))
	if _, err := w.RefreshShifts(w.ctx); cloud.ClassOf(err) != cloud.Transient {
		t.Errorf("got %v, want Transient", err)
	}
	expect("a shift stays in force while AWS does not answer", all[1:])
	w.advance(time.Hour)
	expect("and ends at its time all the same", all)
}

// TestAWS_11_6_CancelledShiftEndsAtOnce is about a shift that stayed in force because another one was active.
func TestAWS_11_6_CancelledShiftEndsAtOnce(t *testing.T) {
	w := shifting(t)
	for _, zone := range []string{"us-west-2a", "us-west-2b"} {
		w.must(w.sim.Shift("", "test", w.zoneID(zone), time.Hour))
	}
	if _, err := w.RefreshShifts(w.ctx); err != nil {
		t.Fatal(err)
	}
	out, err := w.admin.Shift.GetManagedResource(w.ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: aws.String(w.opt.Cluster.ARN)})
	w.must(err)
	for _, s := range out.ZonalShifts {
		if aws.ToString(s.AwayFrom) == w.zoneID("us-west-2a") {
			_, err := w.admin.Shift.CancelZonalShift(w.ctx, &arczonalshift.CancelZonalShiftInput{ZonalShiftId: s.ZonalShiftId})
			w.must(err)
		}
	}
	if _, err := w.RefreshShifts(w.ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"us-west-2a", "us-west-2c"}, w.open()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAWS_5_3_AbsenceProvesNothing: instances that EC2 does not show during a shift are not gone, and instances in the zone can
// still be ended.
func TestAWS_5_3_AbsenceProvesNothing(t *testing.T) {
	w := shifting(t)
	in := w.one("web", onDemandOnly, typeIs("m5.large"))
	w.must(w.sim.Shift("", "test", w.zoneID(in.Zone), time.Hour))
	if _, err := w.RefreshShifts(w.ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Get(w.ctx, "i-0000000000000dead"); cloud.ClassOf(err) != cloud.Transient {
		t.Errorf("got %v, want Transient", err)
	}
	w.must(w.Tag(w.ctx, in.ID, map[string]string{"Name": "node"}))
	w.must(w.Delete(w.ctx, in.ID))
	w.advance(5 * time.Minute)
	if _, err := w.Get(w.ctx, in.ID); cloud.ClassOf(err) != cloud.NotFound {
		t.Errorf("got %v, want NotFound for an instance that EC2 says has ended", err)
	}
}

func TestAWS_5_3_OffByDefault(t *testing.T) {
	w := newWorld(t)
	if _, err := w.RefreshShifts(w.ctx); err != nil || w.called("GetManagedResource") != 0 {
		t.Errorf("error %v, %d calls", err, w.called("GetManagedResource"))
	}
}

func TestAWS_7_11_18_FindCluster(t *testing.T) {
	w := newWorld(t)
	got, err := FindCluster(w.ctx, w.opt.Clients, "test")
	w.must(err)
	if got.ServiceCIDR != "10.100.0.0/16" || got.Version != "1.34" || got.Endpoint != "https://test.local" || got.ARN == "" || got.CABundle == "" {
		t.Errorf("got %+v", got)
	}
	w.deny("eks:DescribeCluster")
	if _, err := FindCluster(w.ctx, w.opt.Clients, "test"); cloud.ClassOf(err) != cloud.Denied {
		t.Errorf("got %v, want Denied", err)
	}
}

func TestAWS_2_7_Reach(t *testing.T) {
	w := newWorld(t)
	w.must(w.Reach(w.ctx))
	w.deny("ec2:DescribeInstanceTypes")
	if err := w.Reach(w.ctx); cloud.ClassOf(err) != cloud.Denied {
		t.Errorf("got %v, want Denied", err)
	}
}
