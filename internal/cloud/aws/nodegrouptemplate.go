package aws

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	scaling "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
)

// templateRef names a version of a launch template, by id or by name.
type templateRef struct{ id, name, version *string }

// useTemplate takes over what a launch template says.
func (r *groupReader) useTemplate(ctx context.Context, g *NodeGroup, ref templateRef) error {
	in := &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: ref.id, Versions: []string{"$Default"}}
	if ref.id == nil {
		in.LaunchTemplateName = ref.name
	}
	if version := aws.ToString(ref.version); version != "" {
		in.Versions = []string{version}
	}
	what := "launch template " + aws.ToString(ref.id) + aws.ToString(in.LaunchTemplateName)
	out, err := r.clients.EC2.DescribeLaunchTemplateVersions(ctx, in)
	if err != nil {
		return readError("describe "+what+" of node group "+g.Name, err)
	}
	if len(out.LaunchTemplateVersions) == 0 || out.LaunchTemplateVersions[0].LaunchTemplateData == nil {
		g.leave("%s: it has no version %s", what, in.Versions[0])
		return nil
	}
	return r.useData(ctx, g, out.LaunchTemplateVersions[0].LaunchTemplateData)
}

// useConfiguration takes over what a launch configuration says, which is a part of what a template can say.
func (r *groupReader) useConfiguration(ctx context.Context, g *NodeGroup, name string) error {
	out, err := r.scaling.DescribeLaunchConfigurations(ctx, &autoscaling.DescribeLaunchConfigurationsInput{LaunchConfigurationNames: []string{name}})
	if err != nil {
		return readError("describe launch configuration "+name+" of node group "+g.Name, err)
	}
	if len(out.LaunchConfigurations) == 0 {
		g.leave("launch configuration %q: there is none of that name", name)
		return nil
	}
	l := &out.LaunchConfigurations[0]
	if price := aws.ToString(l.SpotPrice); price != "" {
		g.CapacityTypes = []string{karpv1.CapacityTypeSpot}
		g.leave("the highest price of $%s for spot: a pool pays the spot price, which is at most that of on-demand", price)
	}
	if l.KernelId != nil && *l.KernelId != "" || l.RamdiskId != nil && *l.RamdiskId != "" {
		g.leave("its kernel or RAM disk: images bring their own")
	}
	return r.useData(ctx, g, configurationData(l))
}

// configurationData is a launch configuration in the words of a launch template.
func configurationData(l *scaling.LaunchConfiguration) *ec2types.ResponseLaunchTemplateData {
	d := &ec2types.ResponseLaunchTemplateData{
		ImageId: l.ImageId, InstanceType: ec2types.InstanceType(aws.ToString(l.InstanceType)), KeyName: l.KeyName, UserData: l.UserData, EbsOptimized: l.EbsOptimized,
	}
	for _, group := range l.SecurityGroups {
		if strings.HasPrefix(group, "sg-") {
			d.SecurityGroupIds = append(d.SecurityGroupIds, group)
		} else {
			d.SecurityGroups = append(d.SecurityGroups, group)
		}
	}
	if profile := aws.ToString(l.IamInstanceProfile); profile != "" {
		d.IamInstanceProfile = &ec2types.LaunchTemplateIamInstanceProfileSpecification{Name: aws.String(lastPart(profile))}
	}
	if l.AssociatePublicIpAddress != nil {
		d.NetworkInterfaces = []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecification{{AssociatePublicIpAddress: l.AssociatePublicIpAddress}}
	}
	if l.InstanceMonitoring != nil {
		d.Monitoring = &ec2types.LaunchTemplatesMonitoring{Enabled: l.InstanceMonitoring.Enabled}
	}
	if tenancy := aws.ToString(l.PlacementTenancy); tenancy != "" {
		d.Placement = &ec2types.LaunchTemplatePlacement{Tenancy: ec2types.Tenancy(tenancy)}
	}
	if o := l.MetadataOptions; o != nil {
		d.MetadataOptions = &ec2types.LaunchTemplateInstanceMetadataOptions{
			HttpEndpoint: ec2types.LaunchTemplateInstanceMetadataEndpointState(o.HttpEndpoint), HttpTokens: ec2types.LaunchTemplateHttpTokensState(o.HttpTokens),
			HttpPutResponseHopLimit: o.HttpPutResponseHopLimit,
		}
	}
	for i := range l.BlockDeviceMappings {
		disk := &l.BlockDeviceMappings[i]
		if disk.Ebs == nil {
			continue
		}
		d.BlockDeviceMappings = append(d.BlockDeviceMappings, ec2types.LaunchTemplateBlockDeviceMapping{DeviceName: disk.DeviceName, Ebs: &ec2types.LaunchTemplateEbsBlockDevice{
			VolumeSize: disk.Ebs.VolumeSize, VolumeType: ec2types.VolumeType(aws.ToString(disk.Ebs.VolumeType)), Iops: disk.Ebs.Iops, Throughput: disk.Ebs.Throughput,
			Encrypted: disk.Ebs.Encrypted, DeleteOnTermination: disk.Ebs.DeleteOnTermination, SnapshotId: disk.Ebs.SnapshotId,
		}})
	}
	return d
}

// useData takes over what instances are made from.
func (r *groupReader) useData(ctx context.Context, g *NodeGroup, d *ec2types.ResponseLaunchTemplateData) error {
	if len(g.Types) == 0 && d.InstanceType != "" {
		g.Types = []string{string(d.InstanceType)}
	}
	if d.InstanceMarketOptions != nil && d.InstanceMarketOptions.MarketType == ec2types.MarketTypeSpot {
		g.CapacityTypes = []string{karpv1.CapacityTypeSpot}
	}
	g.useNetwork(d)
	g.useInstance(d)
	if d.InstanceRequirements != nil {
		if err := r.useAttributes(ctx, g, d.InstanceRequirements); err != nil {
			return err
		}
	}
	for _, tags := range d.TagSpecifications {
		if tags.ResourceType == ec2types.ResourceTypeInstance {
			for _, t := range tags.Tags {
				g.useTag(aws.ToString(t.Key), aws.ToString(t.Value))
			}
		}
	}
	return r.useImage(ctx, g, d)
}

func (g *NodeGroup) useNetwork(d *ec2types.ResponseLaunchTemplateData) {
	ids := d.SecurityGroupIds
	for i := range d.NetworkInterfaces {
		if i == 0 {
			ids = append(ids, d.NetworkInterfaces[i].Groups...)
			g.Class.AssociatePublicIPAddress = d.NetworkInterfaces[i].AssociatePublicIpAddress
		}
	}
	if len(d.NetworkInterfaces) > 1 {
		g.leave("%d network interfaces: Karpenter makes those that the type has", len(d.NetworkInterfaces))
	}
	for _, id := range ids {
		g.Class.SecurityGroupSelectorTerms = append(g.Class.SecurityGroupSelectorTerms, awsv1.SecurityGroupSelectorTerm{ID: id})
	}
	for _, name := range d.SecurityGroups {
		g.Class.SecurityGroupSelectorTerms = append(g.Class.SecurityGroupSelectorTerms, awsv1.SecurityGroupSelectorTerm{Name: name})
	}
	if o := d.MetadataOptions; o != nil {
		g.useMetadata(o)
	}
}

// useMetadata takes over what is set; what is not has safer defaults in a class.
func (g *NodeGroup) useMetadata(o *ec2types.LaunchTemplateInstanceMetadataOptions) {
	m := &awsv1.MetadataOptions{}
	set := func(to **string, value string) {
		if value != "" {
			*to = aws.String(value)
		}
	}
	set(&m.HTTPEndpoint, string(o.HttpEndpoint))
	set(&m.HTTPProtocolIPv6, string(o.HttpProtocolIpv6))
	set(&m.HTTPTokens, string(o.HttpTokens))
	if hops := aws.ToInt32(o.HttpPutResponseHopLimit); hops > 0 {
		m.HTTPPutResponseHopLimit = aws.Int64(int64(hops))
	}
	if *m != (awsv1.MetadataOptions{}) {
		g.Class.MetadataOptions = m
	}
}

// useInstance takes over disks, monitoring and the profile, and names what a class has no field for.
func (g *NodeGroup) useInstance(d *ec2types.ResponseLaunchTemplateData) {
	for i := range d.BlockDeviceMappings {
		if disk := &d.BlockDeviceMappings[i]; disk.Ebs != nil {
			g.Class.BlockDeviceMappings = append(g.Class.BlockDeviceMappings, &awsv1.BlockDeviceMapping{DeviceName: disk.DeviceName, EBS: newDisk(disk.Ebs)})
		}
	}
	if d.Monitoring != nil && aws.ToBool(d.Monitoring.Enabled) {
		g.Class.DetailedMonitoring = aws.Bool(true)
	}
	if p := d.IamInstanceProfile; p != nil && g.Class.Role == "" {
		name := aws.ToString(p.Name)
		if name == "" {
			name = lastPart(aws.ToString(p.Arn))
		}
		g.Class.InstanceProfile = aws.String(name)
	}
	if key := aws.ToString(d.KeyName); key != "" {
		g.leave("SSH key %s: nodes are reached through Session Manager", key)
	}
	if c := d.CapacityReservationSpecification; c != nil && c.CapacityReservationTarget != nil {
		g.leave("its capacity reservation: name it in spec.capacityReservationSelectorTerms of the class, and allow the capacity type reserved")
	}
	if p := d.Placement; p != nil && (aws.ToString(p.GroupName) != "" || aws.ToString(p.HostId) != "" || p.Tenancy == ec2types.TenancyDedicated || p.Tenancy == ec2types.TenancyHost) {
		g.leave("placement (group %q, tenancy %q)", aws.ToString(p.GroupName), p.Tenancy)
	}
}

func newDisk(e *ec2types.LaunchTemplateEbsBlockDevice) *awsv1.BlockDevice {
	disk := &awsv1.BlockDevice{DeleteOnTermination: e.DeleteOnTermination, Encrypted: e.Encrypted, KMSKeyID: e.KmsKeyId, SnapshotID: e.SnapshotId}
	if size := aws.ToInt32(e.VolumeSize); size > 0 {
		volume := resource.MustParse(fmt.Sprintf("%dGi", size))
		disk.VolumeSize = &volume
	}
	if e.VolumeType != "" {
		disk.VolumeType = aws.String(string(e.VolumeType))
	}
	if n := aws.ToInt32(e.Iops); n > 0 {
		disk.IOPS = aws.Int64(int64(n))
	}
	if n := aws.ToInt32(e.Throughput); n > 0 {
		disk.Throughput = aws.Int64(int64(n))
	}
	return disk
}

// useImage takes over the image: an image of a known family becomes its alias, another one is named by id and boots by the
// user data that it has.
func (r *groupReader) useImage(ctx context.Context, g *NodeGroup, d *ec2types.ResponseLaunchTemplateData) error {
	text, err := base64.StdEncoding.DecodeString(aws.ToString(d.UserData))
	if err != nil {
		g.leave("its user data: it is not base64")
	}
	id := aws.ToString(d.ImageId)
	name := id // resolve:ssm:/aws/service/… tells as much as a name does
	if strings.HasPrefix(id, "ami-") {
		out, err := r.clients.EC2.DescribeImages(ctx, &ec2.DescribeImagesInput{ImageIds: []string{id}})
		if err != nil {
			return readError("describe image "+id+" of node group "+g.Name, err)
		}
		if len(out.Images) > 0 {
			name = aws.ToString(out.Images[0].Name)
			g.Arch = archOf(string(out.Images[0].Architecture))
		}
	}
	switch alias := aliasOfImage(name); {
	case id == "" && len(text) > 0: // EKS adds its own to this, and so does a class
		g.Class.UserData = aws.String(string(text))
	case id == "":
	case alias != "":
		g.Class.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: alias + "@latest"}}
		g.leave("image %s (%s): the class takes the newest of its family; pin it by %s@VERSION", id, name, alias)
		if len(text) > 0 {
			g.leave("its user data: Karpenter writes what %s needs to join; put what else it did into spec.userData of the class", alias)
		}
	default:
		g.Class.AMISelectorTerms = []awsv1.AMISelectorTerm{{ID: id}}
		g.Class.AMIFamily = aws.String(awsv1.AMIFamilyCustom)
		if len(text) > 0 {
			g.Class.UserData = aws.String(string(text))
		}
		g.leave("image %s is of no known family: nodes boot by the group's own user data, which must also register them with the taint karpenter.sh/unregistered:NoExecute", id)
	}
	return nil
}

func archOf(arch string) string {
	switch strings.ToLower(arch) {
	case "arm64", "arm_64":
		return "arm64"
	case "x86_64":
		return "amd64"
	}
	return ""
}

// imageFamilies are the beginnings or parts of names of images, and of their SSM parameters, with the alias of their family.
var imageFamilies = []struct{ part, alias string }{
	{"amazon-eks-node-al2023", "al2023"},
	{"amazon-linux-2023", "al2023"},
	{"amazon-eks-node-", "al2"},
	{"amazon-eks-gpu-node-", "al2"},
	{"amazon-eks-arm64-node-", "al2"},
	{"amazon-linux-2", "al2"},
	{"bottlerocket", "bottlerocket"},
	{"windows_server-2019", "windows2019"},
	{"windows_server-2022", "windows2022"},
	{"windows_server-2025", "windows2025"},
}

func aliasOfImage(name string) string {
	name = strings.ToLower(name)
	for _, f := range imageFamilies {
		if strings.Contains(name, f.part) {
			return f.alias
		}
	}
	return ""
}

// useFamily takes over the image type of an EKS managed group, such as AL2023_ARM_64_STANDARD.
func (g *NodeGroup) useFamily(kind string) {
	family, rest, _ := strings.Cut(kind, "_")
	alias := strings.ToLower(family)
	g.Arch = "amd64"
	if strings.Contains(rest, "ARM_64") {
		g.Arch = "arm64"
	}
	if family == "WINDOWS" {
		edition, year, _ := strings.Cut(rest, "_") // CORE_2022_x86_64
		alias += strings.TrimSuffix(year, "_x86_64")
		if edition == "FULL" {
			g.leave("image type %s: the class takes the core edition", kind)
		}
	}
	if strings.Contains(rest, "FIPS") {
		g.leave("image type %s: there is no alias for FIPS images; name the image by id or SSM parameter", kind)
	}
	g.Class.AMISelectorTerms = []awsv1.AMISelectorTerm{{Alias: alias + "@latest"}}
}
