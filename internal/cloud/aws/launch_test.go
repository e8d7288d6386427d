package aws

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/cloud/kit"
	"karpenter/internal/cloud/simaws"
)

var (
	spotOnly     = need(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeSpot)
	onDemandOnly = need(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand)
)

func typeIs(names ...string) karpv1.NodeSelectorRequirementWithMinValues {
	return need(corev1.LabelInstanceTypeStable, names...)
}

func TestAWS_2_3_Launch(t *testing.T) {
	w := newWorld(t)
	class := w.load()
	in := w.one("web", onDemandOnly, typeIs("m5.large", "m5.xlarge"), need(corev1.LabelTopologyZone, "us-west-2b"))
	if in.Type != "m5.large" || in.Zone != "us-west-2b" || in.CapacityType != "on-demand" || in.ProviderID != "aws:///us-west-2b/"+in.ID {
		t.Errorf("got %+v, want the cheapest type in the zone", in)
	}
	for key, want := range map[string]string{
		corev1.LabelTopologyZone: "us-west-2b", karpv1.CapacityTypeLabelKey: "on-demand", awsv1.LabelInstanceFamily: "m5",
		corev1.LabelArchStable: "amd64", awsv1.LabelInstanceTenancy: "default", awsv1.LabelNodeClass: "default", corev1.LabelInstanceTypeStable: "m5.large",
	} {
		if in.Labels[key] != want {
			t.Errorf("label %s: got %q, want %q", key, in.Labels[key], want)
		}
	}
	if in.Labels[awsv1.LabelZoneID] == "" || in.ImageID != class.Status.AMIs[0].ID && len(class.Status.AMIs) == 1 {
		t.Errorf("zone id %q, image %q", in.Labels[awsv1.LabelZoneID], in.ImageID)
	}
	if cpu := in.Allocatable[corev1.ResourceCPU]; cpu.MilliValue() != 1930 {
		t.Errorf("allocatable cpu %s, want 1930m", cpu.String())
	}
	if _, has := in.Capacity[awsv1.ResourceEFA]; has {
		t.Error("EFA is counted only where something attaches it")
	}
	found, err := w.Get(w.ctx, in.ID)
	w.must(err)
	if found.Claim != "web-0" || found.Batch != "web" || found.Pool != "general" || found.Class != "default" {
		t.Errorf("tags at birth: got %+v", found)
	}
	for key, want := range map[string]string{awsv1.TagClusterPrefix + "test": "owned", awsv1.TagEKSClusterName: "test"} {
		if found.Tags[key] != want {
			t.Errorf("tag %s: got %q", key, found.Tags[key])
		}
	}
}

func TestAWS_2_3_EqualPricesGoToTheZoneNamedFirst(t *testing.T) {
	w := newWorld(t)
	w.load()
	for _, zones := range [][]string{{"us-west-2b", "us-west-2c", "us-west-2a"}, {"us-west-2c", "us-west-2a", "us-west-2b"}, {"us-west-2a", "us-west-2b"}} {
		in := w.one("first-"+zones[0], onDemandOnly, typeIs("m5.xlarge", "m5.large"), need(corev1.LabelTopologyZone, zones...))
		if in.Zone != zones[0] || in.Type != "m5.large" {
			t.Errorf("got %s in %s, want m5.large in %s", in.Type, in.Zone, zones[0])
		}
	}
	w.must(w.sim.SetStock(simaws.StockRule{Type: "m5.large", Zone: "us-west-2b", CapacityType: "*", Count: 0}))
	if in := w.one("next", onDemandOnly, typeIs("m5.xlarge", "m5.large"), need(corev1.LabelTopologyZone, "us-west-2b", "us-west-2c", "us-west-2a")); in.Zone != "us-west-2c" || in.Type != "m5.large" {
		t.Errorf("got %s in %s, want the same type in the next zone", in.Type, in.Zone)
	}
}

func TestAWS_2_2_CapacityTypes(t *testing.T) {
	w := newWorld(t)
	w.load()
	if in := w.one("either", typeIs("m5.large")); in.CapacityType != karpv1.CapacityTypeSpot {
		t.Errorf("with both allowed and spot cheaper, got %s", in.CapacityType)
	}
	if in := w.one("dedicated", onDemandOnly, typeIs("m5.large"), need(awsv1.LabelInstanceTenancy, "dedicated")); in.Labels[awsv1.LabelInstanceTenancy] != "dedicated" {
		t.Errorf("got tenancy %q", in.Labels[awsv1.LabelInstanceTenancy])
	}
}

func TestAWS_2_1_ClassNotReady(t *testing.T) {
	w := newWorld(t)
	w.load()
	for _, tt := range []struct {
		name string
		edit func(*awsv1.EC2NodeClass)
		want cloud.Class
	}{
		{"gone", nil, cloud.NotReady},
		{"deleting", func(c *awsv1.EC2NodeClass) { c.DeletionTimestamp = &metav1.Time{Time: epoch} }, cloud.NotReady},
		{"no subnets", func(c *awsv1.EC2NodeClass) { c.Spec.SubnetSelectorTerms[0].Tags = map[string]string{"none": "*"} }, cloud.NotReady},
		{"restricted tag", func(c *awsv1.EC2NodeClass) { c.Spec.Tags = map[string]string{"karpenter.sh/nodeclaim": "x"} }, cloud.NotReady},
	} {
		if tt.edit != nil {
			w.addClass("default", tt.edit)
		} else {
			w.classes["default"] = nil
		}
		r := w.Launch(w.ctx, w.batch("b-"+tt.name[:2], 1))[0]
		if got := cloud.ClassOf(r.Err); got != tt.want {
			t.Errorf("%s: got class %s (%v), want %s", tt.name, got, r.Err, tt.want)
		}
	}
	changed := w.addClass("default")
	changed.Generation++
	if got := cloud.ClassOf(w.Launch(w.ctx, w.batch("gen", 1))[0].Err); got != cloud.NotReady {
		t.Errorf("a class whose newest generation was not looked at: got %s", got)
	}
	if n := len(w.living()); n != 0 {
		t.Errorf("%d instances were launched", n)
	}
}

// TestAWS_2_7_EqualClaimsShareCalls is the bar of 40 calls for 1,000 claims.
func TestAWS_2_7_EqualClaimsShareCalls(t *testing.T) {
	w := newWorld(t)
	w.load()
	var claims []*karpv1.NodeClaim
	for i := range 1000 {
		claims = append(claims, w.claim(fmt.Sprintf("web-%d", i), spotOnly, typeIs("m5.large", "c5.large", "r5.large")))
	}
	batches := map[string]*cloud.Batch{}
	for i, id := range cloud.Divide("plan", claims) {
		claims[i].Annotations = map[string]string{cloud.BatchAnnotationKey: id}
		if batches[id] == nil {
			batches[id] = &cloud.Batch{ID: id}
		}
		batches[id].Claims = append(batches[id].Claims, claims[i])
	}
	before := w.called("DescribeInstances")
	got := 0
	for _, b := range batches {
		got += given(t, w.Launch(w.ctx, *b))
	}
	if got != 1000 || w.called("CreateFleet") > 40 {
		t.Errorf("%d of 1000 claims got an instance with %d CreateFleet calls, at most 40 wanted", got, w.called("CreateFleet"))
	}
	if n := w.called("DescribeInstances") - before; n != 0 {
		t.Errorf("%d DescribeInstances calls, want none", n)
	}
	if n := w.called("CreateLaunchTemplate"); n > 2 {
		t.Errorf("%d launch templates were made, want them reused", n)
	}
}

// TestAWS_2_7_LateClaimsOfABatch: claims that the watch shows when the others of their batch have been launched get instances of their
// own at once. A process that does not know of that launches nothing again, and finds them all.
func TestAWS_2_7_LateClaimsOfABatch(t *testing.T) {
	for _, after := range []time.Duration{time.Second, lookAfter, 2 * settled} {
		t.Run(after.String(), func(t *testing.T) {
			w := newWorld(t)
			w.load()
			whole := w.batch("plan", 5, onDemandOnly, typeIs("m5.large"))
			launch := func(taken map[string]bool, claims ...*karpv1.NodeClaim) []cloud.Result {
				t.Helper()
				results := w.Launch(w.ctx, cloud.Batch{ID: whole.ID, Claims: claims, Taken: taken})
				if n := given(t, results); n != len(claims) {
					t.Fatalf("%d of %d claims have an instance: %+v", n, len(claims), results)
				}
				return results
			}
			taken := map[string]bool{}
			for _, r := range launch(nil, whole.Claims[:2]...) {
				taken[r.Instance.ID] = true
			}
			w.advance(after)
			for _, r := range launch(maps.Clone(taken), whole.Claims[2:]...) {
				if taken[r.Instance.ID] {
					t.Errorf("%s is another's", r.Instance.ID)
				}
			}
			if n := len(w.living()); n != 5 {
				t.Errorf("%d instances for 5 claims", n)
			}
			w.restart()
			w.refresh()
			launch(nil, whole.Claims...)
			if n := len(w.living()); n != 5 {
				t.Errorf("%d instances for 5 claims after a restart", n)
			}
		})
	}
}

func TestAWS_2_4_11_2_StockOut(t *testing.T) {
	w := newWorld(t)
	w.load()
	w.must(w.sim.SetStock(simaws.StockRule{Type: "m5.large", Zone: "*", CapacityType: "*", Count: 0}))
	r := w.Launch(w.ctx, w.batch("dry", 1, onDemandOnly, typeIs("m5.large")))[0]
	if cloud.ClassOf(r.Err) != cloud.NoCapacity {
		t.Fatalf("got %v, want NoCapacity", r.Err)
	}
	calls := w.called("CreateFleet")
	r = w.Launch(w.ctx, w.batch("again", 1, onDemandOnly, typeIs("m5.large")))[0]
	if cloud.ClassOf(r.Err) != cloud.NoCapacity || w.called("CreateFleet") != calls {
		t.Errorf("11.2: what is out of stock must not be asked for: %v after %d calls", r.Err, w.called("CreateFleet")-calls)
	}
	if in := w.one("other", onDemandOnly, typeIs("m5.large", "m5.xlarge")); in.Type != "m5.xlarge" {
		t.Errorf("got %s, want what is left", in.Type)
	}
	w.sim.ClearStock()
	w.advance(kit.FirstOutage)
	w.one("back", onDemandOnly, typeIs("m5.large"))
}

func TestAWS_2_3_PartialFleet(t *testing.T) {
	w := newWorld(t)
	w.load()
	w.must(w.sim.SetStock(simaws.StockRule{Type: "m5.large", Zone: "us-west-2a", CapacityType: "on-demand", Count: 3}))
	results := w.Launch(w.ctx, w.batch("part", 5, onDemandOnly, typeIs("m5.large"), need(corev1.LabelTopologyZone, "us-west-2a")))
	if n := given(t, results); n != 3 {
		t.Fatalf("got %d instances, want 3", n)
	}
	for _, r := range results[3:] {
		if cloud.ClassOf(r.Err) != cloud.NoCapacity {
			t.Errorf("got %v, want NoCapacity", r.Err)
		}
	}
}

func TestAWS_2_5_TemplateThatVanishedIsMadeAgain(t *testing.T) {
	w := newWorld(t)
	w.load()
	w.one("first", onDemandOnly, typeIs("m5.large"))
	names, err := w.templates.list(w.ctx, "")
	w.must(err)
	if len(names) != 2 {
		t.Fatalf("got templates %v, want one for the trial and one for the launch", names)
	}
	for _, name := range names {
		_, err = w.admin.EC2.DeleteLaunchTemplate(w.ctx, &ec2.DeleteLaunchTemplateInput{LaunchTemplateName: aws.String(name)})
		w.must(err)
	}
	w.one("second", onDemandOnly, typeIs("m5.large"))
	w.advance(templateIdle + time.Minute)
	w.must(w.CollectTemplates(w.ctx))
	if names, err := w.templates.list(w.ctx, ""); err != nil || len(names) != 0 {
		t.Errorf("idle templates must go: %v %v", names, err)
	}
	w.one("third", onDemandOnly, typeIs("m5.large"))
	w.must(w.DeleteTemplates(w.ctx, "default"))
	if names, err := w.templates.list(w.ctx, ""); err != nil || len(names) != 0 {
		t.Errorf("templates of a class that goes must go: %v %v", names, err)
	}
}

func TestAWS_2_8_ReservedFirst(t *testing.T) {
	w := newWorld(t)
	id, err := w.sim.AddReservation(simaws.ReservationSpec{Type: "m5.large", Zone: "us-west-2a", Count: 2, Tags: []simaws.Tag{{Key: "use", Value: "yes"}}})
	w.must(err)
	w.load(func(c *awsv1.EC2NodeClass) {
		c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: map[string]string{"use": "yes"}}}
	})
	for i := range 2 {
		in := w.one(fmt.Sprint("r", i), typeIs("m5.large"))
		if in.CapacityType != karpv1.CapacityTypeReserved || in.Labels[awsv1.LabelCapacityReservationID] != id {
			t.Errorf("got %s with labels %v, want reservation %s", in.CapacityType, in.Labels, id)
		}
		found, err := w.Get(w.ctx, in.ID)
		w.must(err)
		if found.CapacityType != karpv1.CapacityTypeReserved {
			t.Errorf("described as %s", found.CapacityType)
		}
	}
	if in := w.one("spill", typeIs("m5.large")); in.CapacityType == karpv1.CapacityTypeReserved {
		t.Error("two of two are used: the third must be bought otherwise")
	}
}

func TestAWS_2_6_SubnetsThatAreFull(t *testing.T) {
	a := newAddresses()
	a.set(map[string]int64{"s1": 100, "s2": 60})
	subnets := []awsv1.Subnet{{ID: "s1", Zone: "a"}, {ID: "s2", Zone: "a"}, {ID: "s3", Zone: "b"}}
	if got := a.choose(subnets, 50); got["a"] != "s1" || got["b"] != "s3" {
		t.Errorf("got %v", got)
	}
	if got := a.choose(subnets, 50); got["a"] != "s2" {
		t.Errorf("in-flight addresses count: got %v", got)
	}
	a.exhaust("s1")
	a.exhaust("s2")
	if _, has := a.choose(subnets, 1)["a"]; has {
		t.Error("a zone whose subnets are full has none to offer")
	}
	a.set(map[string]int64{"s1": 10})
	if got := a.choose(subnets, 1); got["a"] != "s1" {
		t.Errorf("EC2's word ends what was guessed: got %v", got)
	}
}

func TestAWS_6_GetDeleteTag(t *testing.T) {
	w := newWorld(t)
	w.load()
	in := w.one("web", onDemandOnly, typeIs("m5.large"))
	w.must(w.Tag(w.ctx, in.ID, map[string]string{"Name": "node-1"}))
	if got, err := w.Get(w.ctx, in.ID); err != nil || got.Tags["Name"] != "node-1" {
		t.Errorf("got %+v %v", got, err)
	}
	w.must(w.Delete(w.ctx, in.ID))
	w.must(w.Delete(w.ctx, in.ID))
	if n := w.called("TerminateInstances"); n != 1 {
		t.Errorf("%d TerminateInstances calls, want 1: the second Delete sees it shutting down", n)
	}
	w.advance(time.Hour)
	if err := w.Delete(w.ctx, in.ID); cloud.ClassOf(err) != cloud.NotFound {
		t.Errorf("got %v, want NotFound once it is gone", err)
	}
	if _, err := w.Get(w.ctx, "i-0000000000000dead"); cloud.ClassOf(err) != cloud.NotFound {
		t.Errorf("got %v, want NotFound", err)
	}
}

// TestT8_AnotherClusterOfTheSameName sees nothing of the first one's instances and cannot end them.
func TestT8_AnotherClusterOfTheSameName(t *testing.T) {
	w := newWorld(t)
	w.load()
	in := w.one("web", onDemandOnly, typeIs("m5.large"))
	w.opt.Cluster.UID = "another"
	w.reborn()
	if n := len(w.living()); n != 0 {
		t.Errorf("%d foreign instances are listed", n)
	}
	if _, err := w.Get(w.ctx, in.ID); cloud.ClassOf(err) != cloud.Denied || cloud.ReasonOf(err) != cloud.ReasonNotOurs {
		t.Errorf("get: %v, want that it is there and not ours", err)
	}
	if err := w.Delete(w.ctx, in.ID); cloud.ClassOf(err) != cloud.Denied || w.called("TerminateInstances") != 0 {
		t.Errorf("delete: %v", err)
	}
}

// TestAWS_2_7_QuestionsShareCalls ends 200 instances at once.
func TestAWS_2_7_QuestionsShareCalls(t *testing.T) {
	w := newWorld(t)
	w.load()
	for i := range 4 {
		given(t, w.Launch(w.ctx, w.batch(fmt.Sprint("b", i), 50, spotOnly, typeIs("m5.large"))))
	}
	list := w.living()
	describes, terminates := w.called("DescribeInstances"), w.called("TerminateInstances")
	var wg sync.WaitGroup
	for _, in := range list {
		wg.Go(func() {
			if err := w.Delete(w.ctx, in.ID); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := w.called("TerminateInstances") - terminates; n > 40 {
		t.Errorf("%d TerminateInstances calls for %d instances", n, len(list))
	}
	if n := w.called("DescribeInstances") - describes; n > 40 {
		t.Errorf("%d DescribeInstances calls for %d instances", n, len(list))
	}
	w.advance(time.Hour)
	if n := len(w.living()); n != 0 || len(list) != 200 {
		t.Errorf("%d of %d instances are left", n, len(list))
	}
}

func TestAWS_C13_CancelledLaunchIsUnknown(t *testing.T) {
	w := newWorld(t)
	w.load()
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	r := w.Launch(ctx, w.batch("late", 1, onDemandOnly, typeIs("m5.large")))[0]
	if cloud.ClassOf(r.Err) != cloud.Unknown {
		t.Errorf("got %s (%v), want Unknown", cloud.ClassOf(r.Err), r.Err)
	}
}
