package aws

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/internal/cloud/simaws"
)

// granted are the actions that the reference's IAM policies allow and that this package uses. Whoever adds one here must add it to
// the policies that are shipped, and users must update theirs.
var granted = []string{
	"ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreateTags", "ec2:DeleteLaunchTemplate", "ec2:DescribeCapacityReservations",
	"ec2:DescribeImages", "ec2:DescribeInstanceStatus", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes", "ec2:DescribeInstances",
	"ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups", "ec2:DescribeSecurityGroups", "ec2:DescribeSpotPriceHistory",
	"ec2:DescribeSubnets", "ec2:RunInstances", "ec2:TerminateInstances",
	"iam:AddRoleToInstanceProfile", "iam:CreateInstanceProfile", "iam:DeleteInstanceProfile", "iam:GetInstanceProfile",
	"iam:ListInstanceProfiles", "iam:RemoveRoleFromInstanceProfile",
	"pricing:GetProducts", "sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage", "ssm:GetParameter",
}

// TestAWS_7_1_ActionsUsed goes through everything that the package does and counts the calls.
func TestAWS_7_1_ActionsUsed(t *testing.T) {
	var mu sync.Mutex
	used := map[string]bool{}
	counting := false
	w := newWorld(t, func(s *simaws.Options, _ *Options) {
		s.Queue = "test"
		s.OnCall = func(c simaws.Call) {
			mu.Lock()
			defer mu.Unlock()
			if counting {
				used[c.Service+":"+c.Action] = true
			}
		}
	})
	w.role("node")
	count := func(on bool) {
		mu.Lock()
		defer mu.Unlock()
		counting = on
	}
	count(true)
	w.must(w.RefreshTypes(w.ctx))
	w.must(w.RefreshOnDemand(w.ctx))
	w.must(w.RefreshSpot(w.ctx))
	class := w.addClass("default", func(c *awsv1.EC2NodeClass) {
		c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: map[string]string{"use": "yes"}}}
	})
	in := w.one("web", spotOnly, typeIs("m5.large"))
	w.must(w.Tag(w.ctx, in.ID, map[string]string{awsv1.TagName: "node"}))
	w.advance(time.Minute)
	w.must(w.sim.Interrupt("", in.ID))
	q := NewQueue(sqs.NewFromConfig(testConfig(w.opt.Region, w.url)), "test")
	messages, err := q.Receive(w.ctx)
	w.must(err)
	for _, m := range messages {
		w.must(q.Delete(w.ctx, m))
	}
	_, err = w.Ailing(w.ctx)
	w.must(err)
	w.must(w.Delete(w.ctx, in.ID))
	w.addClass("grouped", func(c *awsv1.EC2NodeClass) {
		c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: aws.String("none")}
	})
	w.must(w.DeleteTemplates(w.ctx, "default"))
	w.must(w.CollectTemplates(w.ctx))
	w.must(w.CollectProfiles(w.ctx, class, nil))
	count(false)
	if diff := cmp.Diff(granted, slices.Sorted(maps.Keys(used))); diff != "" {
		t.Errorf("actions (-granted +used):\n%s", diff)
	}
}
