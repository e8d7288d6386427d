package aws

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/simaws"
)

// condition prints one condition of a class.
func condition(class *awsv1.EC2NodeClass, kind string) string {
	c := class.StatusConditions(true).Get(kind)
	return string(c.Status) + " " + c.Reason
}

func TestAWS_1_2_Status(t *testing.T) {
	w := newWorld(t)
	class := w.load()
	if got := condition(class, karpv1.ConditionReady); got != "True Ready" {
		t.Fatalf("Ready is %s: %+v", got, class.Status.Conditions)
	}
	if len(class.Status.Subnets) != 3 || class.Status.Subnets[0].ZoneID == "" {
		t.Errorf("subnets: %+v", class.Status.Subnets)
	}
	want := []awsv1.SecurityGroup{{ID: "sg-0abc123", Name: "nodes"}}
	if diff := cmp.Diff(want, class.Status.SecurityGroups); diff != "" {
		t.Errorf("security groups (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(class.Status.InstanceProfile, "test_") {
		t.Errorf("instance profile %q", class.Status.InstanceProfile)
	}
}

// TestAWS_1_6_Alias checks which images AL2023 has, and for which instances.
func TestAWS_1_6_Alias(t *testing.T) {
	w := newWorld(t)
	class := w.load()
	var got []string
	for _, ami := range class.Status.AMIs {
		var needs []string
		for _, r := range ami.Requirements {
			needs = append(needs, strings.TrimPrefix(r.Key, "karpenter.k8s.aws/")+" "+string(r.Operator)+" "+strings.Join(r.Values, ","))
		}
		got = append(got, strings.TrimSpace(strings.Join(needs, "; ")))
	}
	for _, want := range []string{
		"kubernetes.io/arch In amd64; instance-gpu-count DoesNotExist ; instance-accelerator-count DoesNotExist",
		"kubernetes.io/arch In arm64; instance-gpu-count DoesNotExist ; instance-accelerator-count DoesNotExist",
		"kubernetes.io/arch In amd64; instance-gpu-count Exists",
		"kubernetes.io/arch In amd64; instance-accelerator-count Exists",
	} {
		found := false
		for _, g := range got {
			found = found || g == want
		}
		if !found {
			t.Errorf("no image for %q in\n%s", want, strings.Join(got, "\n"))
		}
	}
	if in := w.one("gpu", onDemandOnly, typeIs("g4dn.xlarge")); in.ImageID == w.one("cpu", onDemandOnly, typeIs("m5.large")).ImageID {
		t.Error("an instance with GPUs must get the image for them")
	}
}

func TestAWS_1_6_Families(t *testing.T) {
	w := newWorld(t)
	w.load()
	for _, alias := range []string{"bottlerocket@latest", "windows2022@latest", "al2023@latest"} {
		class := w.addClass("default", func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = alias })
		if got := condition(class, karpv1.ConditionReady); got != "True Ready" {
			t.Errorf("%s: Ready is %s: %+v", alias, got, class.Status.Conditions)
			continue
		}
		in := w.one("f-"+strings.Split(alias, "@")[0], onDemandOnly, typeIs("m5.large"))
		if in.Labels[corev1.LabelOSStable] != map[bool]string{true: "windows", false: "linux"}[strings.HasPrefix(alias, "windows")] {
			t.Errorf("%s: os %s", alias, in.Labels[corev1.LabelOSStable])
		}
	}
}

func TestAWS_1_6_AnAliasThatIsNotPublished(t *testing.T) {
	w := newWorld(t)
	w.load()
	class := w.addClass("old", func(c *awsv1.EC2NodeClass) { c.Spec.AMISelectorTerms[0].Alias = "al2023@v19990101" })
	got := class.StatusConditions(true).Get(awsv1.ConditionAMIsReady)
	if got.Status != metav1.ConditionFalse || got.Reason != awsv1.ReasonUnsupportedAlias || !strings.Contains(got.Message, "al2023@latest") {
		t.Errorf("got %+v, want a message that names al2023@latest", got)
	}
}

// TestAWS_11_21_ThrottledParameterTakesNoImage is about a variant that vanished because SSM was busy.
func TestAWS_11_21_ThrottledParameterTakesNoImage(t *testing.T) {
	w := newWorld(t)
	class := w.load()
	before := len(class.Status.AMIs)
	w.reborn()
	w.must(w.sim.AddFault(simaws.Fault{Kind: simaws.FaultError, Action: "ssm:GetParameter", Code: "ThrottlingException", Status: 400}))
	w.advance(time.Hour)
	w.Reconcile(w.ctx, class)
	if len(class.Status.AMIs) != before || condition(class, awsv1.ConditionAMIsReady) != "True AMIsReady" {
		t.Errorf("%d of %d images are left, AMIsReady is %s", len(class.Status.AMIs), before, condition(class, awsv1.ConditionAMIsReady))
	}
}

func TestAWS_1_2_BadInput(t *testing.T) {
	for _, tt := range []struct {
		name, condition, want, message string
		edit                           func(*awsv1.EC2NodeClass)
	}{
		{"subnets", awsv1.ConditionSubnetsReady, "False SubnetsNotFound", "spec.subnetSelectorTerms: no subnet matches (tag none=*)", func(c *awsv1.EC2NodeClass) {
			c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"none": "*"}}}
		}},
		{"groups", awsv1.ConditionSecurityGroupsReady, "False SecurityGroupsNotFound", "(id sg-0none)", func(c *awsv1.EC2NodeClass) {
			c.Spec.SecurityGroupSelectorTerms = []awsv1.SecurityGroupSelectorTerm{{ID: "sg-0none"}}
		}},
		{"images", awsv1.ConditionAMIsReady, "False AMINotFound", "(name nothing-*)", func(c *awsv1.EC2NodeClass) {
			c.Spec.AMIFamily = aws.String("AL2023")
			c.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Name: "nothing-*"}}
		}},
		{"alias", awsv1.ConditionAMIsReady, "False UnsupportedAlias", "version must be latest or a date", func(c *awsv1.EC2NodeClass) {
			c.Spec.AMISelectorTerms[0].Alias = "al2023@tomorrow"
		}},
		{"role", awsv1.ConditionInstanceProfileReady, "False RoleNotFound", `spec.role: IAM has no role "nobody"`, func(c *awsv1.EC2NodeClass) { c.Spec.Role = "nobody" }},
		{"placement group", awsv1.ConditionPlacementGroupReady, "False PlacementGroupNotFound", "", func(c *awsv1.EC2NodeClass) {
			c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: aws.String("none")}
		}},
		{"tags", awsv1.ConditionValidationSucceeded, "False TagValidationFailed", "karpenter.sh/nodepool", func(c *awsv1.EC2NodeClass) {
			c.Spec.Tags = map[string]string{"karpenter.sh/nodepool": "x"}
		}},
		{"kubelet", awsv1.ConditionValidationSucceeded, "False InvalidKubeletConfiguration", "spec.kubelet.kubeReserved", func(c *awsv1.EC2NodeClass) {
			c.Spec.Kubelet = &awsv1.KubeletConfiguration{KubeReserved: map[string]string{"cpu": "-1"}}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.load()
			bad := w.addClass("bad", tt.edit)
			got := bad.StatusConditions(true).Get(tt.condition)
			if condition(bad, tt.condition) != tt.want || !strings.Contains(got.Message, tt.message) {
				t.Errorf("got %s %s: %s\nwant %s with %q", got.Status, got.Reason, got.Message, tt.want, tt.message)
			}
			if bad.StatusConditions(true).IsTrue(karpv1.ConditionReady) {
				t.Error("a class that cannot be used is not Ready")
			}
			before := got.Message
			w.Reconcile(w.ctx, bad)
			if after := bad.StatusConditions(true).Get(tt.condition).Message; after != before {
				t.Errorf("the message must be the same next time: %q, then %q", before, after)
			}
			w.one("good", onDemandOnly, typeIs("m5.large")) // the other class is not held up
		})
	}
}

func TestAWS_2_6_11_15_InstanceProfile(t *testing.T) {
	w := newWorld(t)
	class := w.load()
	first := class.Status.InstanceProfile
	get := func(name string) (*iam.GetInstanceProfileOutput, error) {
		return w.admin.IAM.GetInstanceProfile(w.ctx, &iam.GetInstanceProfileInput{InstanceProfileName: aws.String(name)})
	}
	out, err := get(first)
	w.must(err)
	if path := aws.ToString(out.InstanceProfile.Path); path != "/karpenter/us-west-2/test/uid-default/" || len(out.InstanceProfile.Roles) != 1 {
		t.Errorf("path %s, %d roles", path, len(out.InstanceProfile.Roles))
	}
	w.role("other")
	w.grant("other", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"iam:PassRole","Resource":"arn:aws:iam::*:role/other"}]}`)
	class.Spec.Role = "path/to/other"
	w.Reconcile(w.ctx, class)
	second := class.Status.InstanceProfile
	w.Reconcile(w.ctx, class)
	if second == first || class.Status.InstanceProfile != second {
		t.Errorf("11.15: profiles %s, %s, %s: want a second one for the second role and no third", first, second, class.Status.InstanceProfile)
	}
	w.must(w.CollectProfiles(w.ctx, nil, map[string]bool{second: true}))
	if _, err := get(first); cloud.ClassOf(readError("get", err)) != cloud.NotFound {
		t.Errorf("the old profile must be gone: %v", err)
	}
	w.must(w.CollectProfiles(w.ctx, class, nil))
	if _, err := get(second); cloud.ClassOf(readError("get", err)) != cloud.NotFound {
		t.Errorf("profiles of a class that goes must be gone: %v", err)
	}
}

// TestAWS_6_Drift: an instance is judged by what a list of all instances has shown, if there is one of late, and by itself otherwise.
func TestAWS_6_Drift(t *testing.T) {
	t.Run("asked for", func(t *testing.T) { testDrift(t, false) })
	t.Run("listed", func(t *testing.T) { testDrift(t, true) })
}

func testDrift(t *testing.T, listed bool) {
	w := newWorld(t)
	class := w.load()
	hash := class.Hash(w.opt.Cluster.CABundle)
	class.Annotations = map[string]string{awsv1.EC2NodeClassHashAnnotationKey: hash, awsv1.EC2NodeClassHashVersionAnnotationKey: awsv1.EC2NodeClassHashVersion}
	in := w.one("web", onDemandOnly, typeIs("m5.large"))
	claim := w.claim("web")
	claim.Labels, claim.Annotations = in.Labels, in.Annotations
	claim.Status.ProviderID, claim.Status.ImageID = in.ProviderID, in.ImageID
	judge := func() string {
		t.Helper()
		reason, err := w.Drifted(w.ctx, claim)
		w.must(err)
		return reason
	}
	if listed {
		_, err := w.List(w.ctx)
		w.must(err)
	}
	asked := w.called("DescribeInstances")
	if got := judge(); got != "" {
		t.Fatalf("an instance as the class describes it: got %s", got)
	}
	if asks := w.called("DescribeInstances") > asked; asks == listed {
		t.Errorf("EC2 was asked for the instance itself: %t", asks)
	}
	for _, tt := range []struct {
		want string
		edit func(*awsv1.EC2NodeClass)
	}{
		{awsv1.ReasonNodeClassDrift, func(c *awsv1.EC2NodeClass) { c.Annotations[awsv1.EC2NodeClassHashAnnotationKey] = "1" }},
		{"", func(c *awsv1.EC2NodeClass) {
			c.Annotations[awsv1.EC2NodeClassHashAnnotationKey] = "1"
			c.Annotations[awsv1.EC2NodeClassHashVersionAnnotationKey] = "v0"
		}},
		{awsv1.ReasonAMIDrift, func(c *awsv1.EC2NodeClass) {
			for i := range c.Status.AMIs {
				c.Status.AMIs[i].ID = "ami-new"
			}
		}},
		{awsv1.ReasonSecurityGroupDrift, func(c *awsv1.EC2NodeClass) {
			c.Status.SecurityGroups = append(c.Status.SecurityGroups, awsv1.SecurityGroup{ID: "sg-0more"})
		}},
		{awsv1.ReasonSubnetDrift, func(c *awsv1.EC2NodeClass) { c.Status.Subnets = []awsv1.Subnet{{ID: "subnet-0else", Zone: in.Zone}} }},
		{awsv1.ReasonCapacityReservationDrift, func(*awsv1.EC2NodeClass) { claim.Labels[karpv1.CapacityTypeLabelKey] = "reserved" }},
		{awsv1.ReasonPlacementGroupDrift, func(*awsv1.EC2NodeClass) {
			claim.Labels[karpv1.CapacityTypeLabelKey], claim.Labels[awsv1.LabelPlacementGroupID] = "on-demand", "pg-0old"
		}},
	} {
		changed := class.DeepCopy()
		tt.edit(changed)
		w.classes["default"] = changed
		if got := judge(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestAWS_2_8_PlacementGroup(t *testing.T) {
	w := newWorld(t)
	_, err := w.admin.EC2.CreatePlacementGroup(w.ctx, &ec2.CreatePlacementGroupInput{GroupName: aws.String("parts"), Strategy: "partition", PartitionCount: aws.Int32(3)})
	w.must(err)
	w.load(func(c *awsv1.EC2NodeClass) {
		c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: aws.String("parts")}
	})
	in := w.one("p2", onDemandOnly, typeIs("m5.large"), need(awsv1.LabelPlacementGroupPartition, "2", "3"))
	if in.Labels[awsv1.LabelPlacementGroupPartition] != "2" || in.Labels[awsv1.LabelPlacementGroupID] == "" {
		t.Errorf("labels %v", in.Labels)
	}
	found, err := w.Get(w.ctx, in.ID)
	w.must(err)
	if found.Labels[awsv1.LabelPlacementGroupPartition] != "2" {
		t.Errorf("EC2 says partition %q", found.Labels[awsv1.LabelPlacementGroupPartition])
	}
}
