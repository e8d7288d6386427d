package simaws

import (
	"slices"
	"strings"
	"time"
)

// launchConfiguration is what Auto Scaling groups launched from before there were launch templates. Like groups it is a record.
type launchConfiguration struct {
	Name, ARN                                          string
	Created                                            time.Time
	Image, Type, KeyName, UserData, Profile, SpotPrice string
	PublicIP, Tenancy                                  string
	EBSOptimized, Monitoring                           bool
	Groups                                             []string
	Devices                                            []blockDevice
	Metadata                                           metadataOptions
}

func createLaunchConfiguration(c *call) error {
	q := c.q
	l := &launchConfiguration{
		Name: q.str("LaunchConfigurationName"), Created: c.at, Image: q.str("ImageId"), Type: q.str("InstanceType"), KeyName: q.str("KeyName"), UserData: q.str("UserData"),
		Profile: q.str("IamInstanceProfile"), SpotPrice: q.str("SpotPrice"), PublicIP: q.str("AssociatePublicIpAddress"), Tenancy: q.str("PlacementTenancy"),
		EBSOptimized: q.bool("EbsOptimized"), Monitoring: !q.has("InstanceMonitoring.Enabled") || q.bool("InstanceMonitoring.Enabled"), Groups: q.strs("SecurityGroups"),
		Metadata: metadataOptions{Tokens: q.str("MetadataOptions.HttpTokens"), Endpoint: q.str("MetadataOptions.HttpEndpoint"), HopLimit: q.int("MetadataOptions.HttpPutResponseHopLimit", 0)},
	}
	for _, b := range q.items("BlockDeviceMappings") {
		l.Devices = append(l.Devices, blockDevice{
			Name: b.str("DeviceName"), SnapshotID: b.str("Ebs.SnapshotId"), Type: b.str("Ebs.VolumeType"), SizeGB: b.int("Ebs.VolumeSize", 0),
			IOPS: b.int("Ebs.Iops", 0), Throughput: b.int("Ebs.Throughput", 0), Encrypted: b.str("Ebs.Encrypted"), DeleteOnTermination: b.str("Ebs.DeleteOnTermination"),
			NoDevice: b.bool("NoDevice"),
		})
	}
	if err := q.err(); err != nil {
		return err
	}
	switch {
	case l.Name == "" || len(l.Name) > 255:
		return errScaling("LaunchConfigurationName %q must have 1 to 255 characters", l.Name)
	case l.Image == "" || l.Type == "":
		return errScaling("Valid requests must contain either the InstanceID parameter or both the ImageId and InstanceType parameters.")
	case c.reg.Images.get(l.Image) == nil:
		return errScaling("AMI cannot be described: %s", l.Image)
	case c.reg.LaunchConfigs.get(l.Name) != nil:
		return fail("AlreadyExists", "Launch Configuration by this name already exists - A launch configuration already exists with the name %s", l.Name)
	}
	l.ARN = c.arn("autoscaling", "launchConfiguration:"+c.uuid()+":launchConfigurationName/"+l.Name)
	c.reg.LaunchConfigs.put(l.Name, l)
	return nil
}

func deleteLaunchConfiguration(c *call) error {
	name := c.q.str("LaunchConfigurationName")
	if c.reg.LaunchConfigs.get(name) == nil {
		return errScaling("Launch configuration name not found - Launch configuration %s not found", name)
	}
	for g := range c.reg.ScalingGroups.each {
		if g.Config == name {
			return fail("ResourceInUse", "Cannot delete launch configuration %s because it is attached to AutoScalingGroup %s", name, g.Name)
		}
	}
	c.reg.LaunchConfigs.delete(name)
	return nil
}

func describeLaunchConfigurations(c *call) error {
	names := c.q.strs("LaunchConfigurationNames")
	var all []*launchConfiguration
	for l := range c.reg.LaunchConfigs.each {
		if len(names) == 0 || slices.Contains(names, l.Name) {
			all = append(all, l)
		}
	}
	size := c.q.int("MaxRecords", groupUnasked)
	if err := c.q.err(); err != nil {
		return err
	}
	part, next, err := pageOf(all, paging{size: &size, token: c.q.str("NextToken"), limit: groupPage, bad: fail("InvalidNextToken", "")})
	if err != nil {
		return err
	}
	c.x.in("LaunchConfigurations", func() {
		for _, l := range part {
			c.x.in("member", func() { l.write(c.x) })
		}
	})
	c.x.opt("NextToken", next)
	return nil
}

func (l *launchConfiguration) write(x *xmlWriter) {
	x.str("LaunchConfigurationName", l.Name)
	x.str("LaunchConfigurationARN", l.ARN)
	x.time("CreatedTime", l.Created)
	x.str("ImageId", l.Image)
	x.str("InstanceType", l.Type)
	x.str("KeyName", l.KeyName)
	x.str("UserData", l.UserData)
	x.str("KernelId", "")
	x.str("RamdiskId", "")
	x.opt("IamInstanceProfile", l.Profile)
	x.opt("SpotPrice", l.SpotPrice)
	x.opt("AssociatePublicIpAddress", strings.ToLower(l.PublicIP))
	x.opt("PlacementTenancy", l.Tenancy)
	x.bool("EbsOptimized", l.EBSOptimized)
	x.in("InstanceMonitoring", func() { x.bool("Enabled", l.Monitoring) })
	x.strs("SecurityGroups", "member", l.Groups)
	x.raw("<ClassicLinkVPCSecurityGroups></ClassicLinkVPCSecurityGroups>")
	x.in("BlockDeviceMappings", func() {
		for _, b := range l.Devices {
			x.in("member", func() { b.writeScaling(x) })
		}
	})
	if l.Metadata != (metadataOptions{}) {
		x.in("MetadataOptions", func() {
			x.opt("HttpTokens", l.Metadata.Tokens)
			x.optInt("HttpPutResponseHopLimit", l.Metadata.HopLimit)
			x.opt("HttpEndpoint", l.Metadata.Endpoint)
		})
	}
}

func (b *blockDevice) writeScaling(x *xmlWriter) {
	x.str("DeviceName", b.Name)
	if b.NoDevice {
		x.bool("NoDevice", true)
		return
	}
	x.in("Ebs", func() {
		x.opt("SnapshotId", b.SnapshotID)
		x.optInt("VolumeSize", b.SizeGB)
		x.opt("VolumeType", b.Type)
		x.optInt("Iops", b.IOPS)
		x.optInt("Throughput", b.Throughput)
		x.opt("Encrypted", b.Encrypted)
		x.opt("DeleteOnTermination", b.DeleteOnTermination)
	})
}
