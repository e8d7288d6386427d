package aws

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "karpenter/api/aws/v1"
)

// graceDuration is the type of a soft eviction's grace period in user data.
type graceDuration = time.Duration

// defaultDisks are the volumes of a family, in GiB by device, where the class lists none.
var defaultDisks = map[string][]struct {
	device string
	gib    int32
}{
	awsv1.AMIFamilyAL2:          {{"/dev/xvda", 20}},
	awsv1.AMIFamilyAL2023:       {{"/dev/xvda", 20}},
	awsv1.AMIFamilyBottlerocket: {{"/dev/xvda", 4}, {"/dev/xvdb", 20}},
	awsv1.AMIFamilyWindows2019:  {{"/dev/sda1", 50}},
	awsv1.AMIFamilyWindows2022:  {{"/dev/sda1", 50}},
	awsv1.AMIFamilyWindows2025:  {{"/dev/sda1", 50}},
}

// blockDevices are the disks of the class, or of its family.
func blockDevices(class *awsv1.EC2NodeClass) ([]types.LaunchTemplateBlockDeviceMappingRequest, error) {
	var out []types.LaunchTemplateBlockDeviceMappingRequest
	if len(class.Spec.BlockDeviceMappings) == 0 {
		for _, d := range defaultDisks[class.AMIFamily()] {
			out = append(out, types.LaunchTemplateBlockDeviceMappingRequest{DeviceName: aws.String(d.device), Ebs: &types.LaunchTemplateEbsBlockDeviceRequest{
				VolumeSize: aws.Int32(d.gib), VolumeType: types.VolumeTypeGp3, Encrypted: aws.Bool(true), DeleteOnTermination: aws.Bool(true),
			}})
		}
		return out, nil
	}
	for i, d := range class.Spec.BlockDeviceMappings {
		mapping := types.LaunchTemplateBlockDeviceMappingRequest{DeviceName: d.DeviceName}
		if d.EBS != nil {
			ebs, err := volume(d.EBS)
			if err != nil {
				return nil, fmt.Errorf("class %s: spec.blockDeviceMappings[%d].ebs.%w", class.Name, i, err)
			}
			mapping.Ebs = ebs
		}
		out = append(out, mapping)
	}
	return out, nil
}

func volume(d *awsv1.BlockDevice) (*types.LaunchTemplateEbsBlockDeviceRequest, error) {
	out := &types.LaunchTemplateEbsBlockDeviceRequest{
		DeleteOnTermination: d.DeleteOnTermination, Encrypted: d.Encrypted, KmsKeyId: d.KMSKeyID, SnapshotId: d.SnapshotID,
		VolumeInitializationRate: d.VolumeInitializationRate,
	}
	if d.IOPS != nil {
		out.Iops = aws.Int32(int32(*d.IOPS))
	}
	if d.Throughput != nil {
		out.Throughput = aws.Int32(int32(*d.Throughput))
	}
	if d.VolumeType != nil {
		out.VolumeType = types.VolumeType(*d.VolumeType)
	}
	if d.VolumeSize != nil {
		size, err := awsv1.VolumeGiB(*d.VolumeSize)
		if err != nil {
			return nil, err
		}
		out.VolumeSize = aws.Int32(size)
	}
	return out, nil
}

type networkInterface = types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest

// interfaces are those that the class lists, or one for every EFA device that the claim asks for, or a plain one.
func (p *Provider) interfaces(b blueprint) []networkInterface {
	var out []networkInterface
	switch {
	case len(b.class.Spec.NetworkInterfaces) > 0:
		for _, i := range b.class.Spec.NetworkInterfaces {
			out = append(out, networkInterface{
				NetworkCardIndex: aws.Int32(i.NetworkCardIndex), DeviceIndex: aws.Int32(i.DeviceIndex), InterfaceType: aws.String(string(i.InterfaceType)),
			})
		}
	case b.efas > 0:
		for card := range int32(b.efas) {
			// Beyond the first card, device 0 does not exist for EFA.
			out = append(out, networkInterface{NetworkCardIndex: aws.Int32(card), DeviceIndex: aws.Int32(min(card, 1)), InterfaceType: aws.String("efa")})
		}
	default:
		out = []networkInterface{{NetworkCardIndex: aws.Int32(0), DeviceIndex: aws.Int32(0)}}
	}
	for i := range out {
		p.complete(&out[i], b.class)
	}
	return out
}

// complete gives an interface its groups and, unless it has no address at all, its addresses.
func (p *Provider) complete(n *networkInterface, class *awsv1.EC2NodeClass) {
	for _, g := range class.Status.SecurityGroups {
		n.Groups = append(n.Groups, g.ID)
	}
	if aws.ToString(n.InterfaceType) == string(awsv1.InterfaceTypeEFAOnly) {
		return
	}
	if t := class.Spec.ConnectionTracking; t != nil {
		n.ConnectionTrackingSpecification = &types.ConnectionTrackingSpecificationRequest{
			TcpEstablishedTimeout: t.TCPEstablishedTimeout, UdpStreamTimeout: t.UDPStreamTimeout, UdpTimeout: t.UDPTimeout,
		}
	}
	if aws.ToInt32(n.NetworkCardIndex) != 0 || aws.ToInt32(n.DeviceIndex) != 0 {
		return
	}
	n.AssociatePublicIpAddress = class.Spec.AssociatePublicIPAddress
	prefixes := class.Spec.IPPrefixCount
	if !p.ipv6(class) {
		n.Ipv4PrefixCount = prefixes
		return
	}
	n.PrimaryIpv6, n.Ipv6AddressCount, n.Ipv6PrefixCount = aws.Bool(true), aws.Int32(1), prefixes
}
