package aws

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scaling "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
)

// chosen is the requirements of a group in short, and the pool that has them must be valid.
func chosen(t *testing.T, g *NodeGroup) string {
	t.Helper()
	pool := &karpv1.NodePool{}
	pool.Name, pool.Spec.Template.Spec.Requirements = "p", g.Requirements
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.EC2NodeClassKind, Name: "c"}
	if wrong := pool.Validate(awsv1.LabelRules()); len(wrong) > 0 {
		t.Errorf("the pool is not valid: %v", wrong)
	}
	var out []string
	for _, r := range g.Requirements {
		key := strings.TrimPrefix(strings.TrimPrefix(r.Key, awsv1.Group+"/instance-"), "node.kubernetes.io/")
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", key, r.Operator, strings.Join(r.Values, ","))))
	}
	return strings.Join(out, "; ")
}

func span32(least, most int32) *ec2types.VCpuCountRange {
	return &ec2types.VCpuCountRange{Min: aws.Int32(least), Max: aws.Int32(most)}
}

// plainly is what every choice has that allows neither burstable nor bare metal types.
const plainly = "category NotIn t; hypervisor In nitro,xen"

func TestNodeGroup_Attributes(t *testing.T) {
	w := newWorld(t)
	r := &groupReader{clients: w.admin}
	type attributes = ec2types.InstanceRequirements
	for _, c := range []struct {
		name string
		a    attributes
		want string
		left []string
	}{
		{"sizes", attributes{VCpuCount: span32(2, 8), MemoryMiB: &ec2types.MemoryMiB{Min: aws.Int32(4096), Max: aws.Int32(65536)}}, "cpu Gt 1; cpu Lt 9; memory Gt 4095; memory Lt 65537; " + plainly, nil},
		{"no least", attributes{VCpuCount: &ec2types.VCpuCountRange{Min: aws.Int32(0)}, MemoryMiB: &ec2types.MemoryMiB{Min: aws.Int32(0)}}, plainly, nil},
		{"all sorts", attributes{BurstablePerformance: ec2types.BurstablePerformanceIncluded, BareMetal: ec2types.BareMetalIncluded}, "", nil},
		{"only burstable", attributes{BurstablePerformance: ec2types.BurstablePerformanceRequired}, "category In t; hypervisor In nitro,xen", nil},
		{"only metal", attributes{BareMetal: ec2types.BareMetalRequired}, "category NotIn t; hypervisor NotIn nitro,xen", nil},
		{"manufacturers", attributes{CpuManufacturers: []ec2types.CpuManufacturer{"amazon-web-services", "amd", "apple"}}, "cpu-manufacturer In amd,aws; " + plainly, []string{"apple"}},
		{"network", attributes{NetworkBandwidthGbps: &ec2types.NetworkBandwidthGbps{Min: aws.Float64(2.5)}}, plainly + "; network-bandwidth Gt 2499", nil},
		{"disks", attributes{LocalStorage: ec2types.LocalStorageRequired}, plainly + "; local-nvme Exists", nil},
		{"no disks", attributes{LocalStorage: ec2types.LocalStorageExcluded}, plainly + "; local-nvme DoesNotExist", nil},
		{"large disks", attributes{LocalStorage: ec2types.LocalStorageRequired, TotalLocalStorageGB: &ec2types.TotalLocalStorageGB{Min: aws.Float64(100)}, LocalStorageTypes: []ec2types.LocalStorageType{"hdd"}}, plainly + "; local-nvme Gt 99", []string{"hdd"}},
		{"no accelerators", attributes{AcceleratorCount: &ec2types.AcceleratorCount{Max: aws.Int32(0)}}, plainly + "; gpu-count DoesNotExist; accelerator-count DoesNotExist", nil},
		{
			"GPUs",
			attributes{AcceleratorCount: &ec2types.AcceleratorCount{Min: aws.Int32(1), Max: aws.Int32(4)}, AcceleratorManufacturers: []ec2types.AcceleratorManufacturer{"nvidia"}, AcceleratorNames: []ec2types.AcceleratorName{"t4", "a10g"}},
			plainly + "; gpu-count Gt 0; gpu-count Lt 5; gpu-manufacturer In nvidia; gpu-name In a10g,t4", nil,
		},
		{"chips", attributes{AcceleratorTypes: []ec2types.AcceleratorType{"inference"}, AcceleratorManufacturers: []ec2types.AcceleratorManufacturer{"amazon-web-services"}}, plainly + "; accelerator-count Gt 0; accelerator-manufacturer In aws", nil},
		{"GPUs or chips", attributes{AcceleratorTypes: []ec2types.AcceleratorType{"gpu", "inference"}}, plainly + "; gpu-count Gt 0", []string{"make a second one"}},
		{"families", attributes{AllowedInstanceTypes: []string{"m5.*", "c5.*"}}, plainly + "; family In c5,m5", nil},
		{"families like", attributes{AllowedInstanceTypes: []string{"c5*"}}, plainly + "; family In c5,c5a,c5ad,c5d,c5n", []string{"types like c5*"}},
		{"no such families", attributes{ExcludedInstanceTypes: []string{"m5.*", "t2.*", "*.metal", "c5.large"}}, plainly + "; family NotIn m5,t2; size NotIn metal; instance-type NotIn c5.large", nil},
		{
			"what has no label", attributes{
				MemoryGiBPerVCpu: &ec2types.MemoryGiBPerVCpu{Min: aws.Float64(2), Max: aws.Float64(4)}, NetworkInterfaceCount: &ec2types.NetworkInterfaceCount{Min: aws.Int32(2)}, RequireHibernateSupport: aws.Bool(true),
				SpotMaxPricePercentageOverLowestPrice: aws.Int32(50), BaselineEbsBandwidthMbps: &ec2types.BaselineEbsBandwidthMbps{Min: aws.Int32(500)}, BaselinePerformanceFactors: &ec2types.BaselinePerformanceFactors{},
			}, plainly + "; ebs-bandwidth Gt 499", []string{"baseline EBS bandwidth of at least 500 Mbps", "2 to 4 GiB for each vCPU", "at least 2 network interfaces", "hibernate", "baseline performance", "price protection"},
		},
	} {
		g := &NodeGroup{Name: "g"}
		if err := r.useAttributes(t.Context(), g, &c.a); err != nil {
			t.Fatal(c.name, err)
		}
		if d := cmp.Diff(c.want, chosen(t, g)); d != "" {
			t.Errorf("%s:\n%s", c.name, d)
		}
		if len(g.Left) != len(c.left) {
			t.Errorf("%s: left %q, want %d notes", c.name, g.Left, len(c.left))
			continue
		}
		for i, want := range c.left {
			if !strings.Contains(g.Left[i], want) {
				t.Errorf("%s: left %q, want %q", c.name, g.Left[i], want)
			}
		}
	}
}

// Generations are those that AWS calls current; allowed types that are no whole families are listed.
func TestNodeGroup_AttributeNames(t *testing.T) {
	w := newWorld(t)
	r := &groupReader{clients: w.admin}
	g := &NodeGroup{Name: "g"}
	a := &ec2types.InstanceRequirements{InstanceGenerations: []ec2types.InstanceGeneration{ec2types.InstanceGenerationCurrent}, AllowedInstanceTypes: []string{"m5.large", "r5.*", "c5.4x*"}}
	if err := r.useAttributes(t.Context(), g, a); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(g.Types, " "); !strings.Contains(got, "c5.4xlarge m5.large r5.12xlarge") || strings.Contains(got, "r5a.") {
		t.Errorf("types: %s", got)
	}
	families := ""
	for _, q := range g.Requirements {
		if q.Key == awsv1.LabelInstanceFamily {
			families = fmt.Sprint(q.Operator, " ", q.Values)
		}
	}
	if !strings.HasPrefix(families, "NotIn [") || !strings.Contains(families, "m3") || strings.Contains(families, "t2") || strings.Contains(families, "m7g") {
		t.Errorf("generations: %s", families)
	}
	if err := r.measure(t.Context(), []NodeGroup{*g}); err != nil {
		t.Error(err)
	}
}

// The words of Auto Scaling for attributes come to the same as those of EC2.
func TestNodeGroup_AttributesOfScaling(t *testing.T) {
	s := &scaling.InstanceRequirements{
		VCpuCount: &scaling.VCpuCountRequest{Min: aws.Int32(2), Max: aws.Int32(8)}, MemoryMiB: &scaling.MemoryMiBRequest{Min: aws.Int32(1024)}, MemoryGiBPerVCpu: &scaling.MemoryGiBPerVCpuRequest{Min: aws.Float64(1)},
		AcceleratorCount: &scaling.AcceleratorCountRequest{Min: aws.Int32(1)}, AcceleratorTotalMemoryMiB: &scaling.AcceleratorTotalMemoryMiBRequest{Min: aws.Int32(1)}, AcceleratorTypes: []scaling.AcceleratorType{"gpu"},
		AcceleratorNames: []scaling.AcceleratorName{"t4"}, AcceleratorManufacturers: []scaling.AcceleratorManufacturer{"nvidia"}, BareMetal: scaling.BareMetalRequired, BurstablePerformance: scaling.BurstablePerformanceIncluded,
		BaselineEbsBandwidthMbps: &scaling.BaselineEbsBandwidthMbpsRequest{Max: aws.Int32(9)}, BaselinePerformanceFactors: &scaling.BaselinePerformanceFactorsRequest{}, CpuManufacturers: []scaling.CpuManufacturer{"intel"},
		InstanceGenerations: []scaling.InstanceGeneration{"current"}, LocalStorage: scaling.LocalStorageRequired, LocalStorageTypes: []scaling.LocalStorageType{"ssd"}, AllowedInstanceTypes: []string{"m5.*"}, ExcludedInstanceTypes: []string{"x"},
		NetworkBandwidthGbps: &scaling.NetworkBandwidthGbpsRequest{Min: aws.Float64(1)}, NetworkInterfaceCount: &scaling.NetworkInterfaceCountRequest{Min: aws.Int32(1)}, TotalLocalStorageGB: &scaling.TotalLocalStorageGBRequest{Min: aws.Float64(1)},
		OnDemandMaxPricePercentageOverLowestPrice: aws.Int32(1), SpotMaxPricePercentageOverLowestPrice: aws.Int32(2), MaxSpotPriceAsPercentageOfOptimalOnDemandPrice: aws.Int32(3), RequireHibernateSupport: aws.Bool(true),
	}
	want := &ec2types.InstanceRequirements{
		VCpuCount: span32(2, 8), MemoryMiB: &ec2types.MemoryMiB{Min: aws.Int32(1024)}, MemoryGiBPerVCpu: &ec2types.MemoryGiBPerVCpu{Min: aws.Float64(1)},
		AcceleratorCount: &ec2types.AcceleratorCount{Min: aws.Int32(1)}, AcceleratorTotalMemoryMiB: &ec2types.AcceleratorTotalMemoryMiB{Min: aws.Int32(1)}, AcceleratorTypes: []ec2types.AcceleratorType{"gpu"},
		AcceleratorNames: []ec2types.AcceleratorName{"t4"}, AcceleratorManufacturers: []ec2types.AcceleratorManufacturer{"nvidia"}, BareMetal: ec2types.BareMetalRequired, BurstablePerformance: ec2types.BurstablePerformanceIncluded,
		BaselineEbsBandwidthMbps: &ec2types.BaselineEbsBandwidthMbps{Max: aws.Int32(9)}, BaselinePerformanceFactors: &ec2types.BaselinePerformanceFactors{}, CpuManufacturers: []ec2types.CpuManufacturer{"intel"},
		InstanceGenerations: []ec2types.InstanceGeneration{"current"}, LocalStorage: ec2types.LocalStorageRequired, LocalStorageTypes: []ec2types.LocalStorageType{"ssd"}, AllowedInstanceTypes: []string{"m5.*"}, ExcludedInstanceTypes: []string{"x"},
		NetworkBandwidthGbps: &ec2types.NetworkBandwidthGbps{Min: aws.Float64(1)}, NetworkInterfaceCount: &ec2types.NetworkInterfaceCount{Min: aws.Int32(1)}, TotalLocalStorageGB: &ec2types.TotalLocalStorageGB{Min: aws.Float64(1)},
		OnDemandMaxPricePercentageOverLowestPrice: aws.Int32(1), SpotMaxPricePercentageOverLowestPrice: aws.Int32(2), MaxSpotPriceAsPercentageOfOptimalOnDemandPrice: aws.Int32(3), RequireHibernateSupport: aws.Bool(true),
	}
	if d := cmp.Diff(fmt.Sprintf("%+v", shown(want)), fmt.Sprintf("%+v", shown(attributesOf(s)))); d != "" {
		t.Error(d)
	}
}

// shown is a value with what its pointers point to.
func shown(a *ec2types.InstanceRequirements) string {
	return fmt.Sprint(*a.VCpuCount.Min, *a.VCpuCount.Max, *a.MemoryMiB.Min, *a.MemoryGiBPerVCpu.Min, *a.AcceleratorCount.Min, *a.AcceleratorTotalMemoryMiB.Min, a.AcceleratorTypes, a.AcceleratorNames, a.AcceleratorManufacturers,
		a.BareMetal, a.BurstablePerformance, *a.BaselineEbsBandwidthMbps.Max, a.BaselinePerformanceFactors != nil, a.CpuManufacturers, a.InstanceGenerations, a.LocalStorage, a.LocalStorageTypes, a.AllowedInstanceTypes, a.ExcludedInstanceTypes,
		*a.NetworkBandwidthGbps.Min, *a.NetworkInterfaceCount.Min, *a.TotalLocalStorageGB.Min, *a.OnDemandMaxPricePercentageOverLowestPrice, *a.SpotMaxPricePercentageOverLowestPrice, *a.MaxSpotPriceAsPercentageOfOptimalOnDemandPrice, *a.RequireHibernateSupport)
}

// A launch configuration becomes what a launch template with the same words becomes.
func TestNodeGroup_LaunchConfiguration(t *testing.T) {
	w := newWorld(t)
	r := &groupReader{clients: w.admin, scaling: autoscaling.NewFromConfig(w.config("admin"))}
	images, err := w.admin.EC2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Filters: []ec2types.Filter{{Name: aws.String("name"), Values: []string{"amazon-eks-node-al2023-x86_64-standard-1.34-*"}}}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.scaling.CreateLaunchConfiguration(t.Context(), &autoscaling.CreateLaunchConfigurationInput{
		LaunchConfigurationName: aws.String("old"), ImageId: images.Images[0].ImageId, InstanceType: aws.String("m5.large"), KeyName: aws.String("ops"), SpotPrice: aws.String("0.04"),
		SecurityGroups: []string{"sg-0abc123", "named"}, IamInstanceProfile: aws.String("arn:aws:iam::111122223333:instance-profile/nodes"), AssociatePublicIpAddress: aws.Bool(false), PlacementTenancy: aws.String("dedicated"),
		MetadataOptions:     &scaling.InstanceMetadataOptions{HttpTokens: scaling.InstanceMetadataHttpTokensStateRequired},
		BlockDeviceMappings: []scaling.BlockDeviceMapping{{DeviceName: aws.String("/dev/xvda"), Ebs: &scaling.Ebs{VolumeSize: aws.Int32(80), VolumeType: aws.String("gp3"), Encrypted: aws.Bool(true)}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	g := &NodeGroup{Name: "g", CapacityTypes: []string{karpv1.CapacityTypeOnDemand}}
	if err := r.useConfiguration(t.Context(), g, "old"); err != nil {
		t.Fatal(err)
	}
	c := &g.Class
	got := fmt.Sprint(g.Types, " ", g.CapacityTypes, " ", g.Arch, " ", c.AMISelectorTerms[0].Alias, " ", c.SecurityGroupSelectorTerms, " ", *c.InstanceProfile, " ", *c.AssociatePublicIPAddress, " ",
		*c.DetailedMonitoring, " ", *c.MetadataOptions.HTTPTokens, " ", c.BlockDeviceMappings[0].EBS.VolumeSize)
	if want := "[m5.large] [spot] amd64 al2023@latest [{map[] sg-0abc123 } {map[]  named}] nodes false true required 80Gi"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if left := strings.Join(g.Left, "\n"); !strings.Contains(left, "the highest price of $0.04 for spot") || !strings.Contains(left, "SSH key ops") || !strings.Contains(left, `tenancy "dedicated"`) {
		t.Errorf("left:\n%s", left)
	}
	g = &NodeGroup{Name: "g"}
	if err := r.useConfiguration(t.Context(), g, "none"); err != nil || len(g.Left) != 1 || !strings.Contains(g.Left[0], `launch configuration "none"`) {
		t.Errorf("one that is gone: %v, left %v", err, g.Left)
	}
}
