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

func TestSDKLaunchConfigurations(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	images := must[*ec2.DescribeImagesOutput](t)(w.ec2.DescribeImages(w.ctx, &ec2.DescribeImagesInput{
		Filters: []ec2types.Filter{{Name: aws.String("name"), Values: []string{"amazon-eks-node-al2023-x86_64-standard-1.34-*"}}},
	}))
	in := func(name string) *autoscaling.CreateLaunchConfigurationInput {
		return &autoscaling.CreateLaunchConfigurationInput{
			LaunchConfigurationName: aws.String(name), ImageId: images.Images[0].ImageId, InstanceType: aws.String("m5.large"), KeyName: aws.String("ops"),
			SecurityGroups: []string{"sg-0abc123", "named"}, IamInstanceProfile: aws.String("nodes"), SpotPrice: aws.String("0.05"), AssociatePublicIpAddress: aws.Bool(true),
			InstanceMonitoring: &scaling.InstanceMonitoring{Enabled: aws.Bool(false)}, PlacementTenancy: aws.String("dedicated"),
			MetadataOptions: &scaling.InstanceMetadataOptions{HttpTokens: scaling.InstanceMetadataHttpTokensStateRequired, HttpPutResponseHopLimit: aws.Int32(2)},
			BlockDeviceMappings: []scaling.BlockDeviceMapping{
				{DeviceName: aws.String("/dev/xvda"), Ebs: &scaling.Ebs{VolumeSize: aws.Int32(80), VolumeType: aws.String("gp3"), Iops: aws.Int32(4000), Encrypted: aws.Bool(true), DeleteOnTermination: aws.Bool(true)}},
				{DeviceName: aws.String("/dev/xvdb"), NoDevice: aws.Bool(true)},
			},
		}
	}
	for i := range 3 {
		must[*autoscaling.CreateLaunchConfigurationOutput](t)(w.scaling.CreateLaunchConfiguration(w.ctx, in(fmt.Sprintf("config-%d", i))))
	}
	_, err := w.scaling.CreateLaunchConfiguration(w.ctx, in("config-0"))
	refuses(t, err, "AlreadyExists")
	bad := in("bad")
	bad.ImageId = aws.String("ami-0123456789abcdef0")
	_, err = w.scaling.CreateLaunchConfiguration(w.ctx, bad)
	refuses(t, err, "ValidationError")
	var names []string
	pages := autoscaling.NewDescribeLaunchConfigurationsPaginator(w.scaling, &autoscaling.DescribeLaunchConfigurationsInput{MaxRecords: aws.Int32(2)})
	for pages.HasMorePages() {
		for _, l := range must[*autoscaling.DescribeLaunchConfigurationsOutput](t)(pages.NextPage(w.ctx)).LaunchConfigurations {
			names = append(names, *l.LaunchConfigurationName)
		}
	}
	if fmt.Sprint(names) != "[config-0 config-1 config-2]" {
		t.Errorf("configurations: %v", names)
	}
	got := must[*autoscaling.DescribeLaunchConfigurationsOutput](t)(w.scaling.DescribeLaunchConfigurations(w.ctx, &autoscaling.DescribeLaunchConfigurationsInput{LaunchConfigurationNames: []string{"config-1"}})).LaunchConfigurations
	if len(got) != 1 || *got[0].SpotPrice != "0.05" || !*got[0].AssociatePublicIpAddress || *got[0].InstanceMonitoring.Enabled || *got[0].PlacementTenancy != "dedicated" ||
		*got[0].BlockDeviceMappings[0].Ebs.Iops != 4000 || !*got[0].BlockDeviceMappings[1].NoDevice || fmt.Sprint(got[0].SecurityGroups) != "[sg-0abc123 named]" || *got[0].MetadataOptions.HttpPutResponseHopLimit != 2 {
		t.Errorf("configuration: %+v", got)
	}
	aged := group("aged")
	aged.LaunchTemplate, aged.LaunchConfigurationName = nil, aws.String("config-0")
	must[*autoscaling.CreateAutoScalingGroupOutput](t)(w.scaling.CreateAutoScalingGroup(w.ctx, aged))
	aged.AutoScalingGroupName, aged.LaunchConfigurationName = aws.String("ghost"), aws.String("none")
	_, err = w.scaling.CreateAutoScalingGroup(w.ctx, aged)
	refuses(t, err, "ValidationError")
	_, err = w.scaling.DeleteLaunchConfiguration(w.ctx, &autoscaling.DeleteLaunchConfigurationInput{LaunchConfigurationName: aws.String("config-0")})
	refuses(t, err, "ResourceInUse")
	must[*autoscaling.DeleteLaunchConfigurationOutput](t)(w.scaling.DeleteLaunchConfiguration(w.ctx, &autoscaling.DeleteLaunchConfigurationInput{LaunchConfigurationName: aws.String("config-1")}))
}

// Attributes come back as they were said, from templates and from groups, whose words for them differ.
func TestSDKInstanceRequirements(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	want := &ec2types.InstanceRequirementsRequest{
		VCpuCount: &ec2types.VCpuCountRangeRequest{Min: aws.Int32(2), Max: aws.Int32(16)}, MemoryMiB: &ec2types.MemoryMiBRequest{Min: aws.Int32(4096)},
		MemoryGiBPerVCpu: &ec2types.MemoryGiBPerVCpuRequest{Min: aws.Float64(1.5), Max: aws.Float64(8)}, BareMetal: ec2types.BareMetalIncluded, BurstablePerformance: ec2types.BurstablePerformanceRequired,
		CpuManufacturers: []ec2types.CpuManufacturer{ec2types.CpuManufacturerIntel, ec2types.CpuManufacturerAmazonWebServices}, ExcludedInstanceTypes: []string{"m5.*", "t2*"},
		InstanceGenerations: []ec2types.InstanceGeneration{ec2types.InstanceGenerationCurrent}, AcceleratorCount: &ec2types.AcceleratorCountRequest{Max: aws.Int32(0)},
		RequireHibernateSupport: aws.Bool(true), SpotMaxPricePercentageOverLowestPrice: aws.Int32(50), LocalStorageTypes: []ec2types.LocalStorageType{ec2types.LocalStorageTypeSsd},
	}
	_, err := w.ec2.CreateLaunchTemplate(w.ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("both"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{InstanceType: "m5.large", InstanceRequirements: want}})
	refuses(t, err, "InvalidParameterCombination")
	must[*ec2.CreateLaunchTemplateOutput](t)(w.ec2.CreateLaunchTemplate(w.ctx, &ec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("nodes"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{InstanceRequirements: want},
	}))
	versions := must[*ec2.DescribeLaunchTemplateVersionsOutput](t)(w.ec2.DescribeLaunchTemplateVersions(w.ctx, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: aws.String("nodes"), Versions: []string{"$Latest"}}))
	got := versions.LaunchTemplateVersions[0].LaunchTemplateData.InstanceRequirements
	if got == nil || *got.VCpuCount.Max != 16 || *got.MemoryMiB.Min != 4096 || got.MemoryMiB.Max != nil || *got.MemoryGiBPerVCpu.Min != 1.5 || got.BareMetal != want.BareMetal ||
		fmt.Sprint(got.CpuManufacturers, got.ExcludedInstanceTypes, got.InstanceGenerations, got.LocalStorageTypes) != "[intel amazon-web-services] [m5.* t2*] [current] [ssd]" ||
		got.AcceleratorCount.Min != nil || *got.AcceleratorCount.Max != 0 || !*got.RequireHibernateSupport || *got.SpotMaxPricePercentageOverLowestPrice != 50 {
		t.Errorf("template: %+v", got)
	}
	mixed := group("mixed")
	mixed.LaunchTemplate = nil
	requirements := &scaling.InstanceRequirements{
		VCpuCount: &scaling.VCpuCountRequest{Min: aws.Int32(4)}, MemoryMiB: &scaling.MemoryMiBRequest{Min: aws.Int32(0)}, AllowedInstanceTypes: []string{"c*"},
		AcceleratorTypes: []scaling.AcceleratorType{scaling.AcceleratorTypeGpu}, NetworkBandwidthGbps: &scaling.NetworkBandwidthGbpsRequest{Min: aws.Float64(2.5)},
	}
	mixed.MixedInstancesPolicy = &scaling.MixedInstancesPolicy{LaunchTemplate: &scaling.LaunchTemplate{
		LaunchTemplateSpecification: &scaling.LaunchTemplateSpecification{LaunchTemplateName: aws.String("nodes"), Version: aws.String("1")},
		Overrides:                   []scaling.LaunchTemplateOverrides{{InstanceRequirements: requirements}},
	}}
	must[*autoscaling.CreateAutoScalingGroupOutput](t)(w.scaling.CreateAutoScalingGroup(w.ctx, mixed))
	back := must[*autoscaling.DescribeAutoScalingGroupsOutput](t)(w.scaling.DescribeAutoScalingGroups(w.ctx, &autoscaling.DescribeAutoScalingGroupsInput{})).AutoScalingGroups[0].MixedInstancesPolicy.LaunchTemplate.Overrides[0].InstanceRequirements
	if back == nil || *back.VCpuCount.Min != 4 || fmt.Sprint(back.AllowedInstanceTypes, back.AcceleratorTypes) != "[c*] [gpu]" || *back.NetworkBandwidthGbps.Min != 2.5 {
		t.Errorf("group: %+v", back)
	}
	requirements.ExcludedInstanceTypes, mixed.AutoScalingGroupName = []string{"c5.large"}, aws.String("both") // with types that are allowed
	_, err = w.scaling.CreateAutoScalingGroup(w.ctx, mixed)
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
