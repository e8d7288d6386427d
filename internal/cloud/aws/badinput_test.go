package aws

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
)

// badInput is one thing that users get wrong.
type badInput struct {
	name string
	edit func(*testWorld, *awsv1.EC2NodeClass)
	got  func(*testWorld, *awsv1.EC2NodeClass) string
	want []string
}

func badInputs() []badInput {
	condition := func(kind string) func(*testWorld, *awsv1.EC2NodeClass) string {
		return func(_ *testWorld, c *awsv1.EC2NodeClass) string {
			got := c.StatusConditions(true).Get(kind)
			return string(got.Status) + " " + got.Reason + ": " + got.Message
		}
	}
	valid := condition(awsv1.ConditionValidationSucceeded)
	return []badInput{
		{
			"a class that matches no subnet", func(_ *testWorld, c *awsv1.EC2NodeClass) {
				c.Spec.SubnetSelectorTerms = []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"team": "nobody"}}}
			}, condition(awsv1.ConditionSubnetsReady), []string{"False SubnetsNotFound", "spec.subnetSelectorTerms", "tag team=nobody", "correct the terms, or tag"},
		},
		{
			"a missing role", func(_ *testWorld, c *awsv1.EC2NodeClass) { c.Spec.Role = "nobody" },
			condition(awsv1.ConditionInstanceProfileReady),
			[]string{"False RoleNotFound", "spec.role", `"nobody"`, "create it or name another"},
		},
		{
			"a role that may not be passed", func(w *testWorld, c *awsv1.EC2NodeClass) {
				w.role("admins")
				c.Spec.Role = "admins"
			}, condition(awsv1.ConditionInstanceProfileReady), []string{"False Unauthorized", "spec.role", `"admins"`, "allow iam:PassRole on it"},
		},
		{
			"an image of the wrong architecture", func(_ *testWorld, c *awsv1.EC2NodeClass) {
				c.Spec.AMIFamily = aws.String("Windows2022")
				c.Spec.AMISelectorTerms = []awsv1.AMISelectorTerm{{Name: "amazon-eks-node-al2023-arm64-standard-1.34-*"}}
			}, valid, []string{"False NoInstanceTypes", "spec.amiSelectorTerms", "kubernetes.io/arch In arm64", "Windows2022", "select an image"},
		},
		{
			"settings that no instance has", func(_ *testWorld, c *awsv1.EC2NodeClass) {
				c.Spec.NetworkInterfaces = []*awsv1.NetworkInterface{{InterfaceType: "interface"}, {NetworkCardIndex: 140, DeviceIndex: 1, InterfaceType: "efa-only"}}
			}, valid, []string{"False NoInstanceTypes", "spec.networkInterfaces", "card 140", "too few network cards", "change"},
		},
		{
			"user data over the limit", func(_ *testWorld, c *awsv1.EC2NodeClass) {
				c.Spec.UserData = aws.String(strings.Repeat("# long\n", 3000))
			}, valid, []string{"False UserDataSizeLimitExceeded", "userData", "16384", "remove 5295 bytes"},
		},
		{
			"a denied action", func(w *testWorld, c *awsv1.EC2NodeClass) { w.deny("ec2:CreateFleet") },
			valid,
			[]string{"False CreateFleetAuthCheckFailed", "ec2:CreateFleet", "allow it"},
		},
		{
			"a denied lookup", func(w *testWorld, c *awsv1.EC2NodeClass) { w.deny("ec2:DescribeSecurityGroups") },
			condition(awsv1.ConditionSecurityGroupsReady),
			[]string{"False Unauthorized", "ec2:DescribeSecurityGroups", "not authorized"},
		},
		{
			"an instance type that does not exist", func(*testWorld, *awsv1.EC2NodeClass) {}, func(w *testWorld, _ *awsv1.EC2NodeClass) string {
				b := w.batch("odd", 1, typeIs("m99.large"))
				b.Claims[0].Spec.NodeClassRef.Name = "bad"
				r := w.Launch(w.ctx, b)[0]
				return string(cloud.ClassOf(r.Err)) + " " + r.Err.Error()
			}, []string{"NoCapacity", "node.kubernetes.io/instance-type", "m99.large", "correct the requirements"},
		},
		{
			"a message that is no event", func(*testWorld, *awsv1.EC2NodeClass) {}, func(*testWorld, *awsv1.EC2NodeClass) string {
				_, err := ParseNotice(event("aws.ec2", "EC2 Instance Rebalance Recommendation", `{"instance-id":"vol-1"}`))
				return err.Error()
			}, []string{`event "u1"`, "rebalance_recommendation", `"vol-1"`, "not an instance"},
		},
	}
}

// TestBadInput goes through what users get wrong. Each time the condition, or the error that becomes an event, names the field,
// the value and the cure, says the same the next time, and leaves a class beside it alone.
func TestBadInput(t *testing.T) {
	t.Parallel()
	for _, tt := range badInputs() {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.load()
			bad := w.addClass("bad", func(c *awsv1.EC2NodeClass) { tt.edit(w, c) })
			first := tt.got(w, bad)
			for _, part := range tt.want {
				if !strings.Contains(first, part) {
					t.Errorf("%q is missing in: %s", part, first)
				}
			}
			w.Reconcile(w.ctx, bad)
			if second := tt.got(w, bad); second != first {
				t.Errorf("the text changed from one time to the next:\n%s\n%s", first, second)
			}
			if tt.name != "a denied action" { // that is the controller's trouble, not the class's
				w.one("good", onDemandOnly, typeIs("m5.large"))
			}
			if !w.class("default").StatusConditions(true).IsTrue(karpv1.ConditionReady) {
				t.Error("the class beside it is not Ready")
			}
		})
	}
}
