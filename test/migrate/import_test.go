package migrate

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scaling "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/test/harness"
	"karpenter/test/harness/simcloud"
)

// groups makes node groups of every sort in an AWS.
type groups struct {
	t *testing.T
	w *simcloud.World
}

func (g *groups) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *groups) template(name string, data *ec2types.RequestLaunchTemplateData) {
	g.t.Helper()
	_, err := g.w.Clients.EC2.CreateLaunchTemplate(g.t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String(name), LaunchTemplateData: data})
	g.must(err)
}

func (g *groups) managed(in *eks.CreateNodegroupInput) {
	g.t.Helper()
	in.ClusterName, in.NodeRole = aws.String("my-cluster"), aws.String("arn:aws:iam::111122223333:role/nodes/"+simcloud.Role)
	in.ScalingConfig = &ekstypes.NodegroupScalingConfig{MinSize: aws.Int32(1), MaxSize: aws.Int32(5), DesiredSize: aws.Int32(2)}
	if in.Subnets == nil {
		in.Subnets = []string{"subnet-0abc123", "subnet-0def456"}
	}
	_, err := g.w.Clients.EKS.CreateNodegroup(g.t.Context(), in)
	g.must(err)
}

func (g *groups) scaling(in *autoscaling.CreateAutoScalingGroupInput) {
	g.t.Helper()
	in.MinSize, in.MaxSize = aws.Int32(0), aws.Int32(3)
	in.Tags = append(in.Tags, scaling.Tag{Key: aws.String("kubernetes.io/cluster/my-cluster"), Value: aws.String("owned"), PropagateAtLaunch: aws.Bool(true)})
	_, err := autoscaling.NewFromConfig(g.w.Config).CreateAutoScalingGroup(g.t.Context(), in)
	g.must(err)
}

// make fills the AWS: managed groups of Amazon Linux on spot and of Graviton, one by a launch template, one with a custom image,
// mixed instances, and one Auto Scaling group for each of two zones.
func (g *groups) make() {
	g.t.Helper()
	profile := aws.String("nodes")
	_, err := g.w.Clients.IAM.CreateInstanceProfile(g.t.Context(), &iam.CreateInstanceProfileInput{InstanceProfileName: profile})
	g.must(err)
	_, err = g.w.Clients.IAM.AddRoleToInstanceProfile(g.t.Context(), &iam.AddRoleToInstanceProfileInput{InstanceProfileName: profile, RoleName: aws.String(simcloud.Role)})
	g.must(err)
	g.managed(&eks.CreateNodegroupInput{
		NodegroupName: aws.String("web"), CapacityType: ekstypes.CapacityTypesSpot, InstanceTypes: []string{"m5.large", "m5a.xlarge"}, DiskSize: aws.Int32(50),
		Labels: map[string]string{"tier": "web"}, Taints: []ekstypes.Taint{{Key: aws.String("tier"), Value: aws.String("web"), Effect: ekstypes.TaintEffectNoSchedule}},
	})
	g.managed(&eks.CreateNodegroupInput{NodegroupName: aws.String("graviton"), AmiType: ekstypes.AMITypesBottlerocketArm64, InstanceTypes: []string{"m7g.large"}})
	g.template("templated", &ec2types.RequestLaunchTemplateData{
		InstanceType: "c5.xlarge", KeyName: aws.String("ops"), SecurityGroupIds: []string{"sg-0abc123"}, UserData: aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/bash\necho more\n"))),
		MetadataOptions:     &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: ec2types.LaunchTemplateHttpTokensStateRequired, HttpPutResponseHopLimit: aws.Int32(2)},
		BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: aws.String("/dev/xvda"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(80), VolumeType: ec2types.VolumeTypeGp3, Encrypted: aws.Bool(true)}}},
		TagSpecifications:   []ec2types.LaunchTemplateTagSpecificationRequest{{ResourceType: ec2types.ResourceTypeInstance, Tags: []ec2types.Tag{tag("team", "payments"), tag("eks:x", "y")}}},
	})
	g.managed(&eks.CreateNodegroupInput{NodegroupName: aws.String("templated"), LaunchTemplate: &ekstypes.LaunchTemplateSpecification{Name: aws.String("templated")}})

	images, err := g.w.Clients.EC2.DescribeImages(g.t.Context(), &ec2.DescribeImagesInput{Filters: []ec2types.Filter{{Name: aws.String("name"), Values: []string{"amazon-eks-node-al2023-x86_64-standard-1.34-*"}}}})
	g.must(err)
	g.template("plain", &ec2types.RequestLaunchTemplateData{
		ImageId: images.Images[0].ImageId, InstanceType: "m5.large", SecurityGroupIds: []string{"sg-0abc123"},
		IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: profile},
	})
	plain := &scaling.LaunchTemplateSpecification{LaunchTemplateName: aws.String("plain"), Version: aws.String("$Latest")}
	for zone, subnet := range map[string]string{"a": "subnet-0abc123", "b": "subnet-0def456"} {
		g.scaling(&autoscaling.CreateAutoScalingGroupInput{AutoScalingGroupName: aws.String("zonal-" + zone), LaunchTemplate: plain, VPCZoneIdentifier: aws.String(subnet)})
	}
	g.scaling(&autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("mixed"), VPCZoneIdentifier: aws.String("subnet-0abc123"),
		Tags: []scaling.Tag{{Key: aws.String("k8s.io/cluster-autoscaler/node-template/label/purpose"), Value: aws.String("batch")}},
		MixedInstancesPolicy: &scaling.MixedInstancesPolicy{
			LaunchTemplate: &scaling.LaunchTemplate{LaunchTemplateSpecification: plain, Overrides: []scaling.LaunchTemplateOverrides{
				{InstanceType: aws.String("c5.large")}, {InstanceType: aws.String("c5.2xlarge"), WeightedCapacity: aws.String("4")},
			}},
			InstancesDistribution: &scaling.InstancesDistribution{OnDemandBaseCapacity: aws.Int32(1), OnDemandPercentageAboveBaseCapacity: aws.Int32(25)},
		},
	})
	g.older(images.Images[0].ImageId, profile, plain)
}

// older makes a group of a launch configuration, and one that chooses its types by attributes.
func (g *groups) older(image, profile *string, template *scaling.LaunchTemplateSpecification) {
	g.t.Helper()
	_, err := autoscaling.NewFromConfig(g.w.Config).CreateLaunchConfiguration(g.t.Context(), &autoscaling.CreateLaunchConfigurationInput{
		LaunchConfigurationName: aws.String("aged"), ImageId: image, InstanceType: aws.String("r5.large"), SecurityGroups: []string{"sg-0abc123"}, IamInstanceProfile: profile,
		BlockDeviceMappings: []scaling.BlockDeviceMapping{{DeviceName: aws.String("/dev/xvda"), Ebs: &scaling.Ebs{VolumeSize: aws.Int32(60), VolumeType: aws.String("gp3")}}},
	})
	g.must(err)
	g.scaling(&autoscaling.CreateAutoScalingGroupInput{AutoScalingGroupName: aws.String("aged"), LaunchConfigurationName: aws.String("aged"), VPCZoneIdentifier: aws.String("subnet-0abc123")})
	g.scaling(&autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("chosen"), VPCZoneIdentifier: aws.String("subnet-0abc123"),
		MixedInstancesPolicy: &scaling.MixedInstancesPolicy{LaunchTemplate: &scaling.LaunchTemplate{LaunchTemplateSpecification: template, Overrides: []scaling.LaunchTemplateOverrides{
			{InstanceRequirements: &scaling.InstanceRequirements{
				VCpuCount: &scaling.VCpuCountRequest{Min: aws.Int32(2), Max: aws.Int32(8)}, MemoryMiB: &scaling.MemoryMiBRequest{Min: aws.Int32(4096), Max: aws.Int32(32768)},
				CpuManufacturers: []scaling.CpuManufacturer{scaling.CpuManufacturerIntel}, ExcludedInstanceTypes: []string{"m4.*", "*.nano"}, InstanceGenerations: []scaling.InstanceGeneration{scaling.InstanceGenerationCurrent},
				MemoryGiBPerVCpu: &scaling.MemoryGiBPerVCpuRequest{Min: aws.Float64(2)},
			}},
		}}},
	})
}

// TestImport has the node groups of an AWS become pools, which the API server accepts as they are printed and whose classes find
// what they name.
func TestImport(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane; not with -short")
	}
	w := simcloud.Start(t, simcloud.Options{Cluster: "my-cluster", Seed: 7})
	(&groups{t, w}).make()
	c := harness.Start(t, harness.Options{})
	dir := t.TempDir()
	follow(t, reader{c, w, dir}, "migrate-from-cluster-autoscaler.md", "TestImport")
	raw, err := os.ReadFile(filepath.Join(dir, "pools.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	out := string(raw)
	for _, want := range []string{
		"# zonal, from Auto Scaling group zonal-a (0 to 3 nodes, 0 now)\n# zonal, from Auto Scaling group zonal-b (0 to 3 nodes, 0 now)\n",
		"# web, from EKS managed node group web (1 to 5 nodes, 2 now)", "SSH key ops", "weights of instance types", "the share of on-demand (the first 1 instance and 25 % of the rest)",
		"the least size 1 of web", "echo more",
		"# aged, from Auto Scaling group aged", "memory of at least 2 GiB for each vCPU", "key: karpenter.k8s.aws/instance-cpu\n        operator: Lt",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if strings.Contains(out, "eks-web-") {
		t.Error("the Auto Scaling group of a managed group is imported too")
	}
	if printed, err := c.Kubectl(t.Context(), out, "apply", "--validate=strict", "-f", "-"); err != nil {
		t.Fatalf("%v\n%s\n%s", err, printed, out)
	}
	pools, classes := &karpv1.NodePoolList{}, &awsv1.EC2NodeClassList{}
	if err := c.Client.List(t.Context(), pools); err != nil || len(pools.Items) != 7 {
		t.Errorf("%d pools: %v\n%s", len(pools.Items), err, out)
	}
	if err := c.Client.List(t.Context(), classes); err != nil {
		t.Fatal(err)
	}
	for i := range classes.Items {
		w.Provider.Reconcile(t.Context(), &classes.Items[i])
		if root := classes.Items[i].StatusConditions(true).Root(); root.Status != "True" {
			t.Errorf("class %s is not ready: %s", classes.Items[i].Name, root.Message)
		}
	}
	for _, p := range pools.Items {
		if cpu := p.Spec.Limits["cpu"]; p.Name == "web" && cpu.Value() != 20 || p.Name == "zonal" && cpu.Value() != 12 {
			t.Errorf("pool %s may grow to %s", p.Name, cpu.String())
		}
	}
}
