package simaws

import (
	"encoding/base64"
	"strings"
)

// launchData is what an instance is made from: a launch template's data, or
// the parameters of RunInstances.
type launchData struct {
	ImageID, InstanceType, KeyName, UserData string
	ProfileARN, ProfileName                  string
	EBSOptimized, Monitoring, Enclave        bool
	SubnetID                                 string
	Groups                                   []string
	Devices                                  []blockDevice
	Interfaces                               []interfaceSpec
	Placement                                placement
	Tags                                     map[string]tagSet
	MarketType                               string
	Metadata                                 metadataOptions
	CoreCount, ThreadsPerCore                int
	NestedVirtualization                     string
	ReservationPreference, ReservationID     string
	// Attributes choose the type where InstanceType does not.
	Attributes *attributes
}

type blockDevice struct {
	Name, SnapshotID, Type, KMSKey string
	SizeGB, IOPS, Throughput       int
	Encrypted                      string
	DeleteOnTermination            string
	NoDevice                       bool
}

type interfaceSpec struct {
	Card, Device                      int
	Kind, SubnetID, PublicIP          string
	Groups                            []string
	IPv6Count, IPv4Prefix, IPv6Prefix int
	PrimaryIPv6                       bool
	TCPTimeout, UDPStream, UDPTimeout int
}

type placement struct {
	Zone, GroupName, GroupID, Tenancy string
	Partition                         int
}

type metadataOptions struct {
	Tokens, Endpoint, IPv6, Tags string
	HopLimit                     int
}

// maxUserData is EC2's limit on the decoded user data.
const maxUserData = 16384

// parseLaunchData reads the fields that RunInstances and launch templates
// share; they have the same names in both.
func parseLaunchData(n *node) (launchData, error) {
	d := launchData{Tags: map[string]tagSet{}}
	if n == nil {
		return d, nil
	}
	d.ImageID, d.InstanceType, d.KeyName, d.UserData = n.str("ImageId"), n.str("InstanceType"), n.str("KeyName"), n.str("UserData")
	d.ProfileARN, d.ProfileName = n.str("IamInstanceProfile.Arn"), n.str("IamInstanceProfile.Name")
	d.EBSOptimized, d.Monitoring, d.Enclave = n.bool("EbsOptimized"), n.bool("Monitoring.Enabled"), n.bool("EnclaveOptions.Enabled")
	d.SubnetID, d.Groups = n.str("SubnetId"), n.strs("SecurityGroupId")
	d.Placement = parsePlacement(n.at("Placement"))
	d.MarketType = n.str("InstanceMarketOptions.MarketType")
	d.CoreCount, d.ThreadsPerCore = n.int("CpuOptions.CoreCount", 0), n.int("CpuOptions.ThreadsPerCore", 0)
	d.NestedVirtualization = n.str("CpuOptions.NestedVirtualization")
	d.ReservationPreference = n.str("CapacityReservationSpecification.CapacityReservationPreference")
	d.ReservationID = n.str("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId")
	d.Metadata = metadataOptions{
		n.str("MetadataOptions.HttpTokens"), n.str("MetadataOptions.HttpEndpoint"), n.str("MetadataOptions.HttpProtocolIpv6"),
		n.str("MetadataOptions.InstanceMetadataTags"), n.int("MetadataOptions.HttpPutResponseHopLimit", 0),
	}
	d.Attributes = parseAttributes(n.at("InstanceRequirements"), "")
	for _, b := range n.items("BlockDeviceMapping") {
		d.Devices = append(d.Devices, blockDevice{
			Name: b.str("DeviceName"), SnapshotID: b.str("Ebs.SnapshotId"), Type: b.str("Ebs.VolumeType"), KMSKey: b.str("Ebs.KmsKeyId"),
			SizeGB: b.int("Ebs.VolumeSize", 0), IOPS: b.int("Ebs.Iops", 0), Throughput: b.int("Ebs.Throughput", 0),
			Encrypted: b.str("Ebs.Encrypted"), DeleteOnTermination: b.str("Ebs.DeleteOnTermination"), NoDevice: b.has("NoDevice"),
		})
	}
	for _, i := range n.items("NetworkInterface") {
		d.Interfaces = append(d.Interfaces, parseInterface(i))
	}
	for _, t := range n.items("TagSpecification") {
		kind := t.str("ResourceType")
		d.Tags[kind] = d.Tags[kind].with(t.tags("Tag")...)
	}
	if err := n.err(); err != nil {
		return d, err
	}
	return d, d.check()
}

func parsePlacement(n *node) placement {
	if n == nil {
		return placement{}
	}
	return placement{n.str("AvailabilityZone"), n.str("GroupName"), n.str("GroupId"), n.str("Tenancy"), n.int("PartitionNumber", 0)}
}

func parseInterface(i *node) interfaceSpec {
	groups := i.strs("SecurityGroupId")
	return interfaceSpec{
		Card: i.int("NetworkCardIndex", 0), Device: i.int("DeviceIndex", 0), Kind: i.str("InterfaceType"),
		SubnetID: i.str("SubnetId"), PublicIP: i.str("AssociatePublicIpAddress"), Groups: groups,
		IPv6Count: i.int("Ipv6AddressCount", 0), IPv4Prefix: i.int("Ipv4PrefixCount", 0), IPv6Prefix: i.int("Ipv6PrefixCount", 0),
		PrimaryIPv6: i.bool("PrimaryIpv6"),
		TCPTimeout:  i.int("ConnectionTrackingSpecification.TcpEstablishedTimeout", 0),
		UDPStream:   i.int("ConnectionTrackingSpecification.UdpStreamTimeout", 0),
		UDPTimeout:  i.int("ConnectionTrackingSpecification.UdpTimeout", 0),
	}
}

// check finds what EC2 refuses when a template is made.
func (d *launchData) check() error {
	if d.UserData != "" {
		raw, err := base64.StdEncoding.DecodeString(d.UserData)
		if err != nil {
			return fail("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
		}
		if len(raw) > maxUserData {
			return fail("InvalidUserData.Malformed", "User data is limited to %d bytes", maxUserData)
		}
	}
	if d.Attributes != nil && d.InstanceType != "" {
		return fail("InvalidParameterCombination", "You cannot specify both InstanceType and InstanceRequirements in the same launch template.")
	}
	if err := d.Attributes.check(); err != nil {
		return err
	}
	if d.ProfileARN != "" && d.ProfileName != "" {
		return fail("InvalidParameterCombination", "The parameter 'iamInstanceProfile.name' may not be used in combination with 'iamInstanceProfile.arn'")
	}
	for _, b := range d.Devices {
		if b.Type != "" && !strings.Contains(" standard io1 io2 gp2 sc1 st1 gp3 ", " "+b.Type+" ") {
			return badValue("BlockDeviceMapping.Ebs.VolumeType", b.Type, "It must be standard, io1, io2, gp2, gp3, sc1 or st1.")
		}
	}
	if len(d.Interfaces) > 0 && len(d.Groups) > 0 {
		return fail("InvalidParameterCombination", "Network interfaces and an instance-level security groups may not be specified on the same request")
	}
	for _, i := range d.Interfaces {
		if i.PublicIP == "true" && len(d.Interfaces) > 1 {
			return fail("InvalidParameterCombination", "The associatePublicIPAddress parameter cannot be specified when launching with multiple network interfaces.")
		}
	}
	return nil
}

// merged is what results when RunInstances parameters are laid over a template.
func (d launchData) merged(over launchData) launchData {
	set := func(dst *string, v string) {
		if v != "" {
			*dst = v
		}
	}
	set(&d.ImageID, over.ImageID)
	set(&d.InstanceType, over.InstanceType)
	set(&d.KeyName, over.KeyName)
	set(&d.UserData, over.UserData)
	set(&d.SubnetID, over.SubnetID)
	set(&d.MarketType, over.MarketType)
	set(&d.Placement.Zone, over.Placement.Zone)
	set(&d.Placement.Tenancy, over.Placement.Tenancy)
	set(&d.Placement.GroupName, over.Placement.GroupName)
	set(&d.Placement.GroupID, over.Placement.GroupID)
	set(&d.ReservationPreference, over.ReservationPreference)
	set(&d.ReservationID, over.ReservationID)
	if over.ProfileARN != "" || over.ProfileName != "" {
		d.ProfileARN, d.ProfileName = over.ProfileARN, over.ProfileName
	}
	if len(over.Groups) > 0 {
		d.Groups = over.Groups
	}
	if len(over.Devices) > 0 {
		d.Devices = over.Devices
	}
	if len(over.Interfaces) > 0 {
		d.Interfaces = over.Interfaces
	}
	if over.Placement.Partition != 0 {
		d.Placement.Partition = over.Placement.Partition
	}
	d.Monitoring = d.Monitoring || over.Monitoring
	d.Enclave = d.Enclave || over.Enclave
	tags := map[string]tagSet{}
	for _, from := range []map[string]tagSet{d.Tags, over.Tags} {
		for kind, set := range from {
			tags[kind] = tags[kind].with(set...)
		}
	}
	d.Tags = tags
	return d
}
