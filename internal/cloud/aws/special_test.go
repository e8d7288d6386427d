package aws

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/simaws"
)

// TestAWS_2_5_Enclaves: a claim that asks for room in enclaves gets an instance that has them, turned on; others do not.
func TestAWS_2_5_Enclaves(t *testing.T) {
	w := newWorld(t)
	w.load()
	enclave := func(id string) bool {
		out, err := w.admin.EC2.DescribeInstances(w.ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
		w.must(err)
		return aws.ToBool(out.Reservations[0].Instances[0].EnclaveOptions.Enabled)
	}
	for _, name := range []corev1.ResourceName{awsv1.ResourceNitroSandbox, awsv1.ResourceNIPSlots} {
		b := w.batch("e-"+string(name[len(name)-4:]), 1, onDemandOnly, need(corev1.LabelInstanceTypeStable, "m5.large", "m5.xlarge", "t3.large"))
		b.Claims[0].Spec.Resources.Requests[name] = resource.MustParse("2")
		r := w.Launch(w.ctx, b)[0]
		w.must(r.Err)
		if r.Instance.Type != "m5.xlarge" || !enclave(r.Instance.ID) || r.Instance.Labels[awsv1.LabelNitroSandbox] != "true" {
			t.Errorf("%s: got %s, enclaves %v: want the only type that can, with enclaves", name, r.Instance.Type, enclave(r.Instance.ID))
		}
		if n := r.Instance.Capacity[name]; n.Value() != 4 {
			t.Errorf("%s: %s of them", name, n.String())
		}
	}
	in := w.one("plain", onDemandOnly, typeIs("m5.xlarge"))
	if _, counted := in.Capacity[awsv1.ResourceNitroSandbox]; counted || enclave(in.ID) {
		t.Error("enclaves that nobody asked for")
	}
	if l, _ := w.typeNamed("t3.large").Labels.Get(awsv1.LabelNitroSandbox); l != "false" {
		t.Errorf("t3.large: label %q", l)
	}
}

// TestAWS_EnclaveOptions: with enclaves turned on in the class, only types that have them are offered, and every instance has them on.
func TestAWS_EnclaveOptions(t *testing.T) {
	w := newWorld(t)
	w.load(func(c *awsv1.EC2NodeClass) { c.Spec.EnclaveOptions = &awsv1.EnclaveOptions{Enabled: aws.Bool(true)} })
	for name, can := range map[string]bool{"m5.xlarge": true, "t3.large": false, "m5.large": false} {
		for _, o := range w.typeNamed(name).Offerings {
			if o.Available != can {
				t.Errorf("%s in %s: available %t", name, o.Zone, o.Available)
			}
		}
	}
	in := w.one("enclave", onDemandOnly, need(corev1.LabelInstanceTypeStable, "m5.large", "m5.xlarge", "t3.large"))
	out, err := w.admin.EC2.DescribeInstances(w.ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{in.ID}})
	w.must(err)
	if in.Type != "m5.xlarge" || !aws.ToBool(out.Reservations[0].Instances[0].EnclaveOptions.Enabled) {
		t.Errorf("launched %s with %+v", in.Type, out.Reservations[0].Instances[0].EnclaveOptions)
	}
	if n := in.Capacity[awsv1.ResourceNitroSandbox]; n.Value() != 4 {
		t.Errorf("room for %s enclaves", n.String())
	}
}

// TestAWS_11_11_UltraServers: their instances go half an hour earlier than those of other capacity blocks.
func TestAWS_11_11_UltraServers(t *testing.T) {
	end := epoch.Add(24 * time.Hour)
	state := func(typ string, before time.Duration) awsv1.CapacityReservationState {
		r := types.CapacityReservation{InstanceType: aws.String(typ), EndDate: aws.Time(end), ReservationType: types.CapacityReservationTypeCapacityBlock}
		return toReservation(r, end.Add(-before)).State
	}
	for _, tt := range []struct {
		typ    string
		before time.Duration
		want   awsv1.CapacityReservationState
	}{
		{"p5.48xlarge", 41 * time.Minute, "active"},
		{"p5.48xlarge", 40 * time.Minute, "expiring"},
		{"p6e-gb200.36xlarge", 71 * time.Minute, "active"},
		{"p6e-gb200.36xlarge", 70 * time.Minute, "expiring"},
		{"trn2u.48xlarge", 65 * time.Minute, "expiring"},
	} {
		if got := state(tt.typ, tt.before); got != tt.want {
			t.Errorf("%s %s before its end is %s, want %s", tt.typ, tt.before, got, tt.want)
		}
	}
}

// TestAWS_2_8_Interruptible follows an interruptible reservation from its lending to the owner's wanting it back: ordinary
// reservations come first, a claim can ask for one kind, and after the notice nothing goes there.
func TestAWS_2_8_Interruptible(t *testing.T) {
	w := newWorld(t, func(s *simaws.Options, _ *Options) { s.Queue = "test" })
	made, err := w.admin.EC2.CreateCapacityReservation(w.ctx, &ec2.CreateCapacityReservationInput{
		InstanceType: aws.String("m5.large"), AvailabilityZone: aws.String("us-west-2a"), InstanceCount: aws.Int32(3), InstancePlatform: types.CapacityReservationInstancePlatformLinuxUnix,
		InstanceMatchCriteria: types.InstanceMatchCriteriaTargeted,
	})
	w.must(err)
	source := made.CapacityReservation.CapacityReservationId
	_, err = w.admin.EC2.CreateInterruptibleCapacityReservationAllocation(w.ctx, &ec2.CreateInterruptibleCapacityReservationAllocationInput{CapacityReservationId: source, InstanceCount: aws.Int32(2)})
	w.must(err)
	class := w.load(func(c *awsv1.EC2NodeClass) {
		c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{InstanceMatchCriteria: "targeted"}}
	})
	if n := len(class.Status.CapacityReservations); n != 2 {
		t.Fatalf("%d reservations, want the source and what was lent of it", n)
	}
	lent := w.one("lent", typeIs("m5.large"), need(awsv1.LabelCapacityReservationInterruptible, "true"))
	if lent.CapacityType != karpv1.CapacityTypeReserved || lent.Labels[awsv1.LabelCapacityReservationID] == *source {
		t.Errorf("got %s with %v", lent.CapacityType, lent.Labels)
	}
	first := w.one("first", typeIs("m5.large"))
	if first.Labels[awsv1.LabelCapacityReservationID] != *source || first.Labels[awsv1.LabelCapacityReservationInterruptible] != "false" {
		t.Errorf("ordinary reservations come first: %v", first.Labels)
	}
	second := w.one("second", typeIs("m5.large"))
	if second.Labels[awsv1.LabelCapacityReservationInterruptible] != "true" {
		t.Errorf("then interruptible ones: %s %v", second.CapacityType, second.Labels)
	}
	found, err := w.Get(w.ctx, lent.ID)
	w.must(err)
	if found.Labels[awsv1.LabelCapacityReservationInterruptible] != "true" || found.CapacityType != karpv1.CapacityTypeReserved {
		t.Errorf("described as %s with %v", found.CapacityType, found.Labels)
	}
	w.advance(time.Minute)
	_, err = w.admin.EC2.UpdateInterruptibleCapacityReservationAllocation(w.ctx, &ec2.UpdateInterruptibleCapacityReservationAllocationInput{CapacityReservationId: source, TargetInstanceCount: aws.Int32(1)})
	w.must(err)
	w.taken(lent.ID, second.ID)
	w.Interrupted(lent.Labels)
	for _, o := range w.typeNamed("m5.large").Offerings {
		if o.Reservation == lent.Labels[awsv1.LabelCapacityReservationID] && o.Launchable() {
			t.Error("what is being taken back is still on offer")
		}
	}
}

// taken waits for the notice that one of the instances is taken back.
func (w *testWorld) taken(ids ...string) {
	w.t.Helper()
	q := NewQueue(w.opt.Clients.SQS, "test")
	for range 5 {
		messages, err := q.Receive(w.ctx)
		w.must(err)
		for _, m := range messages {
			w.must(m.Err)
			w.must(q.Delete(w.ctx, m))
			if m.Notice.Kind == cloud.CapacityReservationInterrupted && (m.Notice.Instances[0] == ids[0] || m.Notice.Instances[0] == ids[1]) {
				return
			}
		}
	}
	w.t.Error("no notice came")
}

// TestL9_Partition: where a claim asks for no partition EC2 spreads instances over them, and says afterwards where they are.
func TestL9_Partition(t *testing.T) {
	w := newWorld(t)
	group := func(name string, strategy types.PlacementStrategy, parts *int32) {
		_, err := w.admin.EC2.CreatePlacementGroup(w.ctx, &ec2.CreatePlacementGroupInput{GroupName: aws.String(name), Strategy: strategy, PartitionCount: parts})
		w.must(err)
	}
	group("parts", types.PlacementStrategyPartition, aws.Int32(3))
	group("close", types.PlacementStrategyCluster, nil)
	w.load(func(c *awsv1.EC2NodeClass) {
		c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: aws.String("parts")}
	})
	claimOf := func(in *cloud.Instance) *karpv1.NodeClaim {
		c := w.claim("c")
		c.Labels, c.Status.ProviderID = in.Labels, in.ProviderID
		return c
	}
	seen := map[string]bool{}
	for _, name := range []string{"p1", "p2", "p3"} {
		in := w.one(name, onDemandOnly, typeIs("m5.large"))
		if in.Labels[awsv1.LabelPlacementGroupPartition] != "" || in.Labels[awsv1.LabelPlacementGroupID] == "" {
			t.Errorf("at launch: %v", in.Labels)
		}
		number, wanted, err := w.Partition(w.ctx, claimOf(in))
		w.must(err)
		if !wanted || number == "" {
			t.Errorf("partition %q, wanted %v", number, wanted)
		}
		seen[number] = true
	}
	if len(seen) != 3 {
		t.Errorf("three instances are in partitions %v, want one in each", seen)
	}
	asked := claimOf(w.one("asked", onDemandOnly, typeIs("m5.large"), need(awsv1.LabelPlacementGroupPartition, "2")))
	if _, wanted, err := w.Partition(w.ctx, asked); wanted || err != nil {
		t.Errorf("a claim that asked knows already: %v %v", wanted, err)
	}
	w.restart() // the group must be found again
	delete(asked.Labels, awsv1.LabelPlacementGroupPartition)
	if number, wanted, err := w.Partition(w.ctx, asked); number != "2" || !wanted || err != nil {
		t.Errorf("after a restart: %q %v %v", number, wanted, err)
	}
	w.refresh()
	w.addClass("default", func(c *awsv1.EC2NodeClass) {
		c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: aws.String("close")}
	})
	close := claimOf(w.one("close", onDemandOnly, typeIs("m5.large")))
	if _, wanted, err := w.Partition(w.ctx, close); wanted || err != nil {
		t.Errorf("a cluster group has no partitions: %v %v", wanted, err)
	}
	if _, wanted, err := w.Partition(w.ctx, w.claim("none")); wanted || err != nil {
		t.Errorf("no group: %v %v", wanted, err)
	}
}
