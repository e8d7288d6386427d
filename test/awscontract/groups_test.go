package awscontract

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scaling "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// group asks for an Auto Scaling group of a template that launchTemplate has made.
func group(name string) *autoscaling.CreateAutoScalingGroupInput {
	return &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(name), MinSize: aws.Int32(1), MaxSize: aws.Int32(6), DesiredCapacity: aws.Int32(2),
		LaunchTemplate:    &scaling.LaunchTemplateSpecification{LaunchTemplateName: aws.String("nodes"), Version: aws.String("$Latest")},
		VPCZoneIdentifier: aws.String("subnet-0abc123,subnet-0def456"),
		Tags:              []scaling.Tag{{Key: aws.String("kubernetes.io/cluster/my-cluster"), Value: aws.String("owned"), PropagateAtLaunch: aws.Bool(true)}},
	}
}

func (w *world) launchTemplate() {
	w.t.Helper()
	must[*ec2.CreateLaunchTemplateOutput](w.t)(w.ec2.CreateLaunchTemplate(w.ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("nodes"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{InstanceType: "m5.large"},
	}))
}

func TestSDKAutoScalingGroups(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	_, err := w.scaling.CreateAutoScalingGroup(w.ctx, group("early"))
	refuses(t, err, "ValidationError")
	w.launchTemplate()
	for i := range 3 {
		must[*autoscaling.CreateAutoScalingGroupOutput](t)(w.scaling.CreateAutoScalingGroup(w.ctx, group(fmt.Sprintf("plain-%d", i))))
	}
	_, err = w.scaling.CreateAutoScalingGroup(w.ctx, group("plain-0"))
	refuses(t, err, "AlreadyExists")
	wrong := group("wrong")
	wrong.DesiredCapacity = aws.Int32(9)
	_, err = w.scaling.CreateAutoScalingGroup(w.ctx, wrong)
	refuses(t, err, "ValidationError")
	mixed := group("mixed")
	mixed.LaunchTemplate, mixed.Tags = nil, nil
	mixed.MixedInstancesPolicy = &scaling.MixedInstancesPolicy{
		LaunchTemplate: &scaling.LaunchTemplate{
			LaunchTemplateSpecification: &scaling.LaunchTemplateSpecification{LaunchTemplateName: aws.String("nodes"), Version: aws.String("1")},
			Overrides:                   []scaling.LaunchTemplateOverrides{{InstanceType: aws.String("m5.large")}, {InstanceType: aws.String("m5a.xlarge"), WeightedCapacity: aws.String("2")}},
		},
		InstancesDistribution: &scaling.InstancesDistribution{OnDemandBaseCapacity: aws.Int32(1), OnDemandPercentageAboveBaseCapacity: aws.Int32(20)},
	}
	must[*autoscaling.CreateAutoScalingGroupOutput](t)(w.scaling.CreateAutoScalingGroup(w.ctx, mixed))

	var names []string
	pages := autoscaling.NewDescribeAutoScalingGroupsPaginator(w.scaling, &autoscaling.DescribeAutoScalingGroupsInput{
		MaxRecords: aws.Int32(2), Filters: []scaling.Filter{{Name: aws.String("tag-key"), Values: []string{"kubernetes.io/cluster/my-cluster", "other"}}},
	})
	for pages.HasMorePages() {
		for _, g := range must[*autoscaling.DescribeAutoScalingGroupsOutput](t)(pages.NextPage(w.ctx)).AutoScalingGroups {
			names = append(names, *g.AutoScalingGroupName)
		}
	}
	if fmt.Sprint(names) != "[plain-0 plain-1 plain-2]" {
		t.Errorf("groups of the cluster: %v", names)
	}
	got := must[*autoscaling.DescribeAutoScalingGroupsOutput](t)(w.scaling.DescribeAutoScalingGroups(w.ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{"mixed"}})).AutoScalingGroups
	if len(got) != 1 || *got[0].MaxSize != 6 || len(got[0].AvailabilityZones) != 2 {
		t.Fatalf("mixed: %+v", got)
	}
	policy := got[0].MixedInstancesPolicy
	if *policy.LaunchTemplate.Overrides[1].WeightedCapacity != "2" || *policy.InstancesDistribution.OnDemandPercentageAboveBaseCapacity != 20 || *policy.LaunchTemplate.LaunchTemplateSpecification.LaunchTemplateName != "nodes" {
		t.Errorf("policy: %+v", policy)
	}
	must[*autoscaling.DeleteAutoScalingGroupOutput](t)(w.scaling.DeleteAutoScalingGroup(w.ctx, &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("mixed")}))
	_, err = w.scaling.DeleteAutoScalingGroup(w.ctx, &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String("mixed")})
	refuses(t, err, "ValidationError")
}

func TestSDKNodegroups(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	w.launchTemplate()
	in := &eks.CreateNodegroupInput{
		ClusterName: aws.String("my-cluster"), NodegroupName: aws.String("web"), NodeRole: aws.String("arn:aws:iam::111122223333:role/node"),
		Subnets: []string{"subnet-0abc123"}, ScalingConfig: &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(1), MaxSize: aws.Int32(4), DesiredSize: aws.Int32(2)},
		CapacityType: ekstypes.CapacityTypesSpot, Labels: map[string]string{"tier": "web"},
		Taints: []ekstypes.Taint{{Key: aws.String("tier"), Value: aws.String("web"), Effect: ekstypes.TaintEffectNoSchedule}},
	}
	must[*eks.CreateNodegroupOutput](t)(w.eks.CreateNodegroup(w.ctx, in))
	_, err := w.eks.CreateNodegroup(w.ctx, in)
	refuses(t, err, "ResourceInUseException")
	in.NodegroupName, in.DiskSize, in.LaunchTemplate = aws.String("custom"), aws.Int32(50), &ekstypes.LaunchTemplateSpecification{Name: aws.String("nodes")}
	_, err = w.eks.CreateNodegroup(w.ctx, in)
	refuses(t, err, "InvalidParameterException")
	in.DiskSize = nil
	must[*eks.CreateNodegroupOutput](t)(w.eks.CreateNodegroup(w.ctx, in))
	if l := must[*eks.ListNodegroupsOutput](t)(w.eks.ListNodegroups(w.ctx, &eks.ListNodegroupsInput{ClusterName: in.ClusterName})); fmt.Sprint(l.Nodegroups) != "[custom web]" {
		t.Errorf("groups: %v", l.Nodegroups)
	}
	web := must[*eks.DescribeNodegroupOutput](t)(w.eks.DescribeNodegroup(w.ctx, &eks.DescribeNodegroupInput{ClusterName: in.ClusterName, NodegroupName: aws.String("web")})).Nodegroup
	if web.CapacityType != ekstypes.CapacityTypesSpot || web.AmiType != ekstypes.AMITypesAl2023X8664Standard || *web.DiskSize != 20 || web.Taints[0].Effect != ekstypes.TaintEffectNoSchedule || web.InstanceTypes[0] != "t3.medium" {
		t.Errorf("web: %+v", web)
	}
	behind := must[*autoscaling.DescribeAutoScalingGroupsOutput](t)(w.scaling.DescribeAutoScalingGroups(w.ctx, &autoscaling.DescribeAutoScalingGroupsInput{
		Filters: []scaling.Filter{{Name: aws.String("tag:eks:nodegroup-name"), Values: []string{"web"}}},
	})).AutoScalingGroups
	if len(behind) != 1 || *behind[0].AutoScalingGroupName != *web.Resources.AutoScalingGroups[0].Name {
		t.Errorf("behind it: %+v", behind)
	}
	must[*eks.DeleteNodegroupOutput](t)(w.eks.DeleteNodegroup(w.ctx, &eks.DeleteNodegroupInput{ClusterName: in.ClusterName, NodegroupName: aws.String("web")}))
	_, err = w.eks.DescribeNodegroup(w.ctx, &eks.DescribeNodegroupInput{ClusterName: in.ClusterName, NodegroupName: aws.String("web")})
	refuses(t, err, "ResourceNotFoundException")
}
