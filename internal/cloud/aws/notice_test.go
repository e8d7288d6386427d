package aws

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/simaws"
)

func event(source, kind, detail string) string {
	return `{"version":"0","id":"u1","detail-type":"` + kind + `","source":"` + source + `","time":"2026-08-21T00:00:00Z","detail":` + detail + `}`
}

func TestAWS_5_1_ParseNotice(t *testing.T) {
	at := time.Date(2026, 8, 21, 0, 0, 0, 0, time.UTC)
	one := func(kind cloud.NoticeKind) cloud.Notice {
		return cloud.Notice{ID: "u1", Kind: kind, Instances: []string{"i-0abc"}, At: at}
	}
	none := cloud.Notice{ID: "u1", Kind: cloud.NoOp, At: at}
	scheduled := cloud.Notice{ID: "u1", Kind: cloud.ScheduledChange, Instances: []string{"i-1", "i-2"}, At: at, NotBefore: at.AddDate(0, 0, 14)}
	const ec2, state = "aws.ec2", "EC2 Instance State-change Notification"
	for _, tt := range []struct {
		name, body string
		want       cloud.Notice
		fails      bool
	}{
		{"spot", event(ec2, "EC2 Spot Instance Interruption Warning", `{"instance-id":"i-0abc","instance-action":"terminate"}`), one(cloud.SpotInterrupted), false},
		{"rebalance", event(ec2, "EC2 Instance Rebalance Recommendation", `{"instance-id":"i-0abc"}`), one(cloud.RebalanceRecommendation), false},
		{"reservation", event(ec2, "EC2 Capacity Reservation Instance Interruption Warning", `{"instance-id":"i-0abc"}`), one(cloud.CapacityReservationInterrupted), false},
		{"stopping", event(ec2, state, `{"instance-id":"i-0abc","state":"stopping"}`), one(cloud.InstanceStopped), false},
		{"11.16 case does not matter", event(ec2, state, `{"instance-id":"i-0abc","state":"Terminated"}`), one(cloud.InstanceTerminated), false},
		{"running", event(ec2, state, `{"instance-id":"i-0abc","state":"running"}`), none, false},
		{"health", event("aws.health", "AWS Health Event", `{"service":"EC2","eventTypeCategory":"scheduledChange","startTime":"Fri, 04 Sep 2026 00:00:00 GMT","affectedEntities":[{"entityValue":"i-2"},{"entityValue":"i-1"},{"entityValue":"i-2"}]}`), scheduled, false},
		{"health of an instance and a volume", event("aws.health", "AWS Health Event", `{"service":"EC2","eventTypeCategory":"scheduledChange","startTime":"Fri, 04 Sep 2026 00:00:00 GMT","affectedEntities":[{"entityValue":"vol-1"},{"entityValue":"i-1"},{"entityValue":"i-2"}]}`), scheduled, false},
		{"health of a volume", event("aws.health", "AWS Health Event", `{"service":"EC2","eventTypeCategory":"scheduledChange","affectedEntities":[{"entityValue":"vol-1"}]}`), none, false},
		{"health of another service", event("aws.health", "AWS Health Event", `{"service":"RDS","eventTypeCategory":"scheduledChange"}`), none, false},
		{"another source", event("aws.s3", state, `{}`), none, false},
		{"not JSON", "hello", cloud.Notice{}, true},
		{"no instance", event(ec2, "EC2 Instance Rebalance Recommendation", `{}`), cloud.Notice{}, true},
		{"something else for an instance", event(ec2, "EC2 Instance Rebalance Recommendation", `{"instance-id":"vol-1"}`), cloud.Notice{}, true},
		{"nobody affected", event("aws.health", "AWS Health Event", `{"service":"EC2","eventTypeCategory":"scheduledChange"}`), cloud.Notice{}, true},
	} {
		got, err := ParseNotice(tt.body)
		if (err != nil) != tt.fails {
			t.Errorf("%s: error %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, got); err == nil && diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func FuzzParseNotice(f *testing.F) {
	f.Add(event("aws.ec2", "EC2 Spot Instance Interruption Warning", `{"instance-id":"i-0abc"}`))
	f.Add(`{"version":"0","detail":null}`)
	f.Fuzz(func(t *testing.T, body string) {
		if n, err := ParseNotice(body); err == nil && n.Kind != cloud.NoOp && len(n.Instances) == 0 {
			t.Errorf("a notice about nothing: %+v", n)
		}
	})
}

func TestAWS_5_1_Queue(t *testing.T) {
	w := newWorld(t, func(s *simaws.Options, _ *Options) { s.Queue = "test" })
	w.load()
	in := w.one("web", spotOnly, typeIs("m5.large"))
	w.advance(time.Minute)
	w.must(w.sim.Interrupt("", in.ID))
	q := NewQueue(w.opt.Clients.SQS, "test")
	found := false
	for range 5 {
		messages, err := q.Receive(w.ctx)
		w.must(err)
		for _, m := range messages {
			w.must(m.Err)
			found = found || m.Notice.Kind == cloud.SpotInterrupted && m.Notice.Instances[0] == in.ID && !m.Sent.IsZero()
			w.must(q.Delete(w.ctx, m))
		}
		if found {
			break
		}
	}
	if !found {
		t.Fatal("the warning did not arrive")
	}
	w.Interrupted(in.Labels)
	for _, o := range w.typeNamed("m5.large").Offerings {
		if o.Zone == in.Zone && o.CapacityType == "spot" && o.Available {
			t.Error("a pool that takes instances back has none to offer")
		}
	}
}

func TestAWS_1_8_LearnedMemory(t *testing.T) {
	w := newWorld(t)
	class := w.load()
	in := w.one("web", onDemandOnly, typeIs("m5.large"))
	const mib = 1 << 20
	for _, seen := range []int64{7700, 7650, 7800} {
		w.LearnMemory("m5.large", in.ImageID, seen*mib)
	}
	w.LearnMemory("m5.large", "ami-of-old", 1*mib)
	if got := w.typeNamed("m5.large").Capacity[1] / mib; got != 7650 {
		t.Errorf("memory is %d MiB, want the least that was seen with this image", got)
	}
	if got := w.typeNamed("m5.xlarge").Capacity[1] / mib; got != 15155 {
		t.Errorf("another type: %d MiB", got)
	}
	changed := class.DeepCopy()
	changed.Status.AMIs = []awsv1.AMI{{ID: "ami-new", Requirements: class.Status.AMIs[0].Requirements}}
	w.classes["default"] = changed
	if got := w.typeNamed("m5.large").Capacity[1] / mib; got != 7577 {
		t.Errorf("with another image nothing is known: got %d MiB", got)
	}
}
