package aws

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/simaws"
)

// TestAWS_1_3_Tags looks at everything that a launch makes: all of it carries the user's tags and the cluster's.
func TestAWS_1_3_Tags(t *testing.T) {
	w := newWorld(t)
	w.load(func(c *awsv1.EC2NodeClass) { c.Spec.Tags = map[string]string{"team": "web", "Name": "mine"} })
	in := w.one("web", spotOnly, typeIs("m5.large"))
	client, byID := w.admin.EC2, []types.Filter{filter("attachment.instance-id", in.ID)}
	tagged := map[string][]types.Tag{}
	instance, found, err := w.describing.Get(w.ctx, in.ID)
	if err != nil || !found {
		t.Fatal(err)
	}
	tagged["instance"] = instance.Tags
	volumes, err := client.DescribeVolumes(w.ctx, &ec2.DescribeVolumesInput{Filters: byID})
	w.must(err)
	for _, v := range volumes.Volumes {
		tagged["volume"] = v.Tags
	}
	interfaces, err := client.DescribeNetworkInterfaces(w.ctx, &ec2.DescribeNetworkInterfacesInput{Filters: byID})
	w.must(err)
	for _, n := range interfaces.NetworkInterfaces {
		tagged["interface"] = n.TagSet
	}
	requests, err := client.DescribeSpotInstanceRequests(w.ctx, &ec2.DescribeSpotInstanceRequestsInput{})
	w.must(err)
	for _, r := range requests.SpotInstanceRequests {
		tagged["spot request"] = r.Tags
	}
	fleets, err := client.DescribeFleets(w.ctx, &ec2.DescribeFleetsInput{})
	w.must(err)
	for _, f := range fleets.Fleets {
		tagged["fleet"] = f.Tags
	}
	templates, err := client.DescribeLaunchTemplates(w.ctx, &ec2.DescribeLaunchTemplatesInput{})
	w.must(err)
	for _, l := range templates.LaunchTemplates {
		tagged["template"] = l.Tags
	}
	want := map[string]string{
		"team": "web", "Name": "mine", awsv1.TagClusterPrefix + "test": "owned", awsv1.TagEKSClusterName: "test", awsv1.TagNodePool: "general", awsv1.TagNodeClass: "default",
	}
	for _, kind := range []string{"instance", "volume", "interface", "spot request", "fleet"} {
		has := fromTags(tagged[kind])
		for key, value := range want {
			if has[key] != value {
				t.Errorf("%s: tag %s is %q, want %q", kind, key, has[key], value)
			}
		}
	}
	if has := fromTags(tagged["template"]); has[awsv1.TagNodeClass] != "default" || has[awsv1.TagEKSClusterName] != "test" {
		t.Errorf("template: %v", has)
	}
	w.must(w.Tag(w.ctx, in.ID, map[string]string{"Name": "node-1", awsv1.TagNodeClaim: "web-0", awsv1.TagEKSClusterName: "test"}))
	if got, err := w.Get(w.ctx, in.ID); err != nil || got.Tags["Name"] != "mine" {
		t.Errorf("a name that the user gave must stay: %v %v", got.Tags, err)
	}
}

func TestAWS_1_6_Terms(t *testing.T) {
	w := newWorld(t)
	w.load()
	const name = "amazon-eks-node-al2023-x86_64-standard-1.34-"
	out, err := w.admin.EC2.DescribeImages(w.ctx, &ec2.DescribeImagesInput{Filters: []types.Filter{filter("name", name+"*")}})
	w.must(err)
	newest, oldest := out.Images[0], out.Images[0]
	for _, image := range out.Images {
		if aws.ToString(image.CreationDate) > aws.ToString(newest.CreationDate) {
			newest = image
		}
		if aws.ToString(image.CreationDate) < aws.ToString(oldest.CreationDate) {
			oldest = image
		}
	}
	_, err = w.admin.EC2.CreateTags(w.ctx, &ec2.CreateTagsInput{Resources: []string{*oldest.ImageId}, Tags: toTags(map[string]string{"use": "yes"})})
	w.must(err)
	_, err = w.admin.SSM.PutParameter(w.ctx, &ssm.PutParameterInput{Name: aws.String("/golden"), Value: oldest.ImageId, Type: "String"})
	w.must(err)
	w.grant("golden", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ssm:GetParameter","Resource":"arn:aws:ssm:us-west-2:*:parameter/golden"}]}`)
	for _, tt := range []struct {
		name string
		term awsv1.AMISelectorTerm
		want *string
	}{
		{"id", awsv1.AMISelectorTerm{ID: *oldest.ImageId}, oldest.ImageId},
		{"name: the newest", awsv1.AMISelectorTerm{Name: name + "*"}, newest.ImageId},
		{"name and owner", awsv1.AMISelectorTerm{Name: name + "*", Owner: "amazon"}, newest.ImageId},
		{"name and a wrong owner", awsv1.AMISelectorTerm{Name: name + "*", Owner: "999999999999"}, nil},
		{"tags", awsv1.AMISelectorTerm{Tags: map[string]string{"use": "yes"}}, oldest.ImageId},
		{"a tag's key", awsv1.AMISelectorTerm{Tags: map[string]string{"use": "*"}}, oldest.ImageId},
		{"ssmParameter", awsv1.AMISelectorTerm{SSMParameter: "/golden"}, oldest.ImageId},
		{"ssmParameter that does not exist", awsv1.AMISelectorTerm{SSMParameter: "/golden/none"}, nil},
	} {
		w.grant("golden-none", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ssm:GetParameter","Resource":"*"}]}`)
		class := w.addClass("terms", func(c *awsv1.EC2NodeClass) {
			c.Spec.AMIFamily, c.Spec.AMISelectorTerms = aws.String("AL2023"), []awsv1.AMISelectorTerm{tt.term}
		})
		var got []string
		for _, ami := range class.Status.AMIs {
			got = append(got, ami.ID)
		}
		want := []string{aws.ToString(tt.want)}
		if tt.want == nil {
			want = nil
			if condition(class, awsv1.ConditionAMIsReady) != "False AMINotFound" {
				t.Errorf("%s: AMIsReady is %s", tt.name, condition(class, awsv1.ConditionAMIsReady))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	copied, err := w.admin.EC2.CopyImage(w.ctx, &ec2.CopyImageInput{SourceImageId: newest.ImageId, SourceRegion: aws.String("us-west-2"), Name: aws.String(name + "v29990101")})
	w.must(err)
	for _, tt := range []struct {
		deprecated bool
		want       *string
	}{{false, copied.ImageId}, {true, newest.ImageId}} {
		if tt.deprecated {
			_, err = w.admin.EC2.EnableImageDeprecation(w.ctx, &ec2.EnableImageDeprecationInput{ImageId: copied.ImageId, DeprecateAt: aws.Time(w.clock.Now().Add(time.Minute))})
			w.must(err)
		}
		w.advance(time.Hour)
		class := w.addClass("terms", func(c *awsv1.EC2NodeClass) {
			c.Spec.AMIFamily, c.Spec.AMISelectorTerms = aws.String("AL2023"), []awsv1.AMISelectorTerm{{Name: name + "*"}}
		})
		if ami := class.Status.AMIs[0]; ami.ID != *tt.want || ami.Deprecated {
			t.Errorf("got %+v, want %s: an image that is not deprecated comes first, however old", ami, *tt.want)
		}
	}
}

// TestAWS_2_8_Blocks: a capacity block is used first, by one type at a time, and not any more when it is about to end.
func TestAWS_2_8_Blocks(t *testing.T) {
	w := newWorld(t)
	end := epoch.Add(24 * time.Hour)
	id, err := w.sim.AddReservation(simaws.ReservationSpec{Type: "p4d.24xlarge", Zone: "us-west-2a", Count: 2, Block: true, End: end, Tags: []simaws.Tag{{Key: "use", Value: "yes"}}})
	w.must(err)
	class := w.load(func(c *awsv1.EC2NodeClass) {
		c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{ID: id}}
	})
	in := w.one("block", typeIs("p4d.24xlarge"))
	if in.CapacityType != karpv1.CapacityTypeReserved || in.Labels[awsv1.LabelCapacityReservationType] != "capacity-block" {
		t.Errorf("got %s with %v", in.CapacityType, in.Labels)
	}
	if r := class.Status.CapacityReservations[0]; r.ReservationType != "capacity-block" || r.State != "active" || !r.EndTime.Time.Equal(end) {
		t.Errorf("status %+v", r)
	}
	w.advance(24*time.Hour - blockNotice)
	class = class.DeepCopy()
	w.Reconcile(w.ctx, class)
	w.classes["default"] = class
	if r := class.Status.CapacityReservations[0]; r.State != "expiring" {
		t.Errorf("forty minutes before the end the block is %s", r.State)
	}
	for _, o := range w.typeNamed("p4d.24xlarge").Offerings {
		if o.Reservation == id && o.Launchable() {
			t.Error("a block that is about to end takes no more instances")
		}
	}
}

// TestAWS_2_4_SpreadGroup: seven instances of a spread group fit into a zone, whatever their type.
func TestAWS_2_4_SpreadGroup(t *testing.T) {
	w := newWorld(t)
	_, err := w.admin.EC2.CreatePlacementGroup(w.ctx, &ec2.CreatePlacementGroupInput{GroupName: aws.String("apart"), Strategy: "spread"})
	w.must(err)
	w.load(func(c *awsv1.EC2NodeClass) {
		c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: aws.String("apart")}
	})
	types := typeIs("m5.large", "c5.large", "r5.large")
	zone := need(corev1.LabelTopologyZone, "us-west-2a")
	if n := given(t, w.Launch(w.ctx, w.batch("first", 7, onDemandOnly, types, zone))); n != 7 {
		t.Fatalf("%d of 7 instances", n)
	}
	r := w.Launch(w.ctx, w.batch("eighth", 1, onDemandOnly, types, zone))[0]
	if cloud.ClassOf(r.Err) != cloud.NoCapacity {
		t.Fatalf("got %v, want NoCapacity", r.Err)
	}
	for _, name := range types.Values {
		for _, o := range w.typeNamed(name).Offerings {
			if o.Zone == "us-west-2a" && o.CapacityType == "on-demand" && o.Available {
				t.Errorf("%s must count as out of stock in the zone too", name)
			}
		}
	}
	w.one("elsewhere", onDemandOnly, types)
}

// TestAWS_5_4_N6_RepairPolicies lists what condemns a node, after how long, how long the drain may take, and what is done.
func TestAWS_5_4_N6_RepairPolicies(t *testing.T) {
	var got []string
	for _, p := range testProvider().RepairPolicies() {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %v/%v %s %s", p.Condition, p.Status, p.Tolerated, *p.TerminationGracePeriod, p.Action, p.ReasonRegex)))
	}
	want := []string{
		"Ready False 30m0s/10m0s ReplaceNode", "Ready Unknown 30m0s/10m0s ReplaceNode",
		"AcceleratedHardwareReady False 10m0s/5m0s ReplaceNode ^NvidiaXID(46|48|54|62|63|95|109|110|136|140|143|155|156|158)Error$",
		"AcceleratedHardwareReady False 10m0s/5m0s ReplaceNode ^NvidiaXID(64|74|79|119|120)Error$",
		"AcceleratedHardwareReady False 30m0s/10m0s ReplaceNode",
		"StorageReady False 30m0s/10m0s ReplaceNode", "NetworkingReady False 30m0s/10m0s ReplaceNode",
		"KernelReady False 30m0s/10m0s ReplaceNode", "ContainerRuntimeReady False 30m0s/10m0s ReplaceNode",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p := testProvider()
	p.opt.RebootForRepair = true
	for i, policy := range p.RepairPolicies() {
		if reboots := policy.Action == cloud.RebootNode; reboots != (i == 2) {
			t.Errorf("N7: with RebootForRepair, policy %d (%s %s) has the action %s", i, policy.Condition, policy.ReasonRegex, policy.Action)
		}
	}
}

// TestAWS_4_1_Intervals counts what a class costs that nothing happens to: how often it asks AWS what.
func TestAWS_4_1_Intervals(t *testing.T) {
	w := newWorld(t)
	class := w.load()
	count := func() map[string]int {
		out := map[string]int{}
		for _, action := range []string{"GetParameter", "DescribeImages", "DescribeSubnets", "GetInstanceProfile", "CreateInstanceProfile", "RunInstances", "CreateLaunchTemplate"} {
			out[action] = w.called(action)
		}
		return out
	}
	before := count()
	const hours = 1
	for waited := time.Duration(0); waited < hours*time.Hour; {
		again := w.Reconcile(w.ctx, class)
		w.advance(again)
		waited += again
	}
	after := count()
	for action, most := range map[string]int{
		"GetParameter": 5 * 12, "DescribeImages": 60, "DescribeSubnets": 60, "GetInstanceProfile": 60, "CreateInstanceProfile": 0, "RunInstances": 2 * 3, "CreateLaunchTemplate": 2,
	} {
		if n := after[action] - before[action]; n > most {
			t.Errorf("%d calls of %s in an hour, want at most %d", n, action, most)
		}
	}
}

// TestAWS_6_List: collectors of orphans find every instance of the cluster, with claim, batch and age, and no others.
func TestAWS_6_List(t *testing.T) {
	w := newWorld(t)
	w.load()
	w.one("web", onDemandOnly, typeIs("m5.large"))
	given(t, w.Launch(w.ctx, w.batch("many", 3, onDemandOnly, typeIs("m5.large"))))
	w.advance(time.Minute)
	image := w.class("default").Status.AMIs[0].ID
	_, err := w.admin.EC2.RunInstances(w.ctx, &ec2.RunInstancesInput{MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: "m5.large", ImageId: aws.String(image)})
	w.must(err)
	list := w.living()
	var got []string
	for _, in := range list {
		got = append(got, strings.TrimSpace(in.Batch+" "+in.Claim)+fmt.Sprintf(" %v", w.clock.Now().Sub(in.Launched)))
	}
	if diff := cmp.Diff([]string{"many 1m0s", "many 1m0s", "many 1m0s", "web web-0 1m0s"}, slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
