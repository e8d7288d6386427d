package simaws

import (
	"slices"
	"strconv"
	"strings"
)

func describeVpcs(c *call) error {
	vs, err := pick[vpc]{c.q.strs("VpcId"), notFound("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist"), func(v *vpc) field {
		return func(name string, out []string) ([]string, bool) {
			switch name {
			case "vpc-id":
				return append(out, v.ID), true
			case "cidr", "cidr-block-association.cidr-block":
				return append(out, v.CIDR), true
			case "is-default", "isDefault":
				return append(out, boolWord(v.Default)), true
			case "state":
				return append(out, "available"), true
			case "owner-id":
				return append(out, c.acct.ID), true
			}
			return tagField(v.Tags, name, out)
		}
	}}.from(c, c.reg.VPCs)
	if err != nil {
		return err
	}
	vs, next, err := page(c, vs, pages{5, 1000, 0})
	if err != nil {
		return err
	}
	c.x.in("vpcSet", func() {
		for _, v := range vs {
			c.x.in("item", func() {
				c.x.str("vpcId", v.ID)
				c.x.str("ownerId", c.acct.ID)
				c.x.str("state", "available")
				c.x.str("cidrBlock", v.CIDR)
				c.x.str("dhcpOptionsId", "dopt-0abc123")
				c.x.str("instanceTenancy", "default")
				c.x.bool("isDefault", v.Default)
				c.x.tagSet(v.Tags)
			})
		}
	})
	c.x.opt("nextToken", next)
	return nil
}

// notFound makes an unknown-id error; the format takes the id.
func notFound(code, format string) func(string) *apiError {
	return func(id string) *apiError { return fail(code, format, id) }
}

func (c *call) subnetField(s *subnet) field {
	return func(name string, out []string) ([]string, bool) {
		switch name {
		case "subnet-id":
			return append(out, s.ID), true
		case "vpc-id":
			return append(out, s.VPC), true
		case "availability-zone", "availabilityZone":
			return append(out, s.Zone), true
		case "availability-zone-id", "availabilityZoneId":
			return append(out, s.ZoneID), true
		case "cidr-block", "cidr", "cidrBlock":
			return append(out, s.CIDR), true
		case "available-ip-address-count":
			return append(out, strconv.Itoa(s.free())), true
		case "map-public-ip-on-launch":
			return append(out, boolWord(s.MapPublicIP)), true
		case "owner-id":
			return append(out, c.acct.ID), true
		case "state":
			return append(out, "available"), true
		}
		return tagField(s.Tags, name, out)
	}
}

func describeSubnets(c *call) error {
	all, err := pick[subnet]{c.q.strs("SubnetId"), errSubnet, c.subnetField}.from(c, c.reg.Subnets)
	if err != nil {
		return err
	}
	all, next, err := page(c, shown(c, all), pages{5, 1000, 0})
	if err != nil {
		return err
	}
	c.x.in("subnetSet", func() {
		for _, s := range all {
			c.x.in("item", func() {
				c.x.str("subnetId", s.ID)
				c.x.str("subnetArn", c.arn("ec2", "subnet/"+s.ID))
				c.x.str("state", "available")
				c.x.str("vpcId", s.VPC)
				c.x.str("cidrBlock", s.CIDR)
				c.x.in("ipv6CidrBlockAssociationSet", func() {
					if s.IPv6CIDR == "" {
						return
					}
					c.x.in("item", func() {
						c.x.str("ipv6CidrBlock", s.IPv6CIDR)
						c.x.in("ipv6CidrBlockState", func() { c.x.str("state", "associated") })
					})
				})
				c.x.int("availableIpAddressCount", s.free())
				c.x.str("availabilityZone", s.Zone)
				c.x.str("availabilityZoneId", s.ZoneID)
				c.x.bool("defaultForAz", false)
				c.x.bool("mapPublicIpOnLaunch", s.MapPublicIP)
				c.x.bool("assignIpv6AddressOnCreation", false)
				c.x.str("ownerId", c.acct.ID)
				c.x.in("privateDnsNameOptionsOnLaunch", func() { c.x.str("hostnameType", s.hostnameType()) })
				c.x.tagSet(s.Tags)
			})
		}
	})
	c.x.opt("nextToken", next)
	return nil
}

var errSubnet = notFound("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist")

func (s *subnet) hostnameType() string {
	if s.ResourceName {
		return "resource-name"
	}
	return "ip-name"
}

func modifySubnetAttribute(c *call) error {
	s := c.reg.Subnets.get(c.q.str("SubnetId"))
	if s == nil {
		return errSubnet(c.q.str("SubnetId"))
	}
	if c.q.has("MapPublicIpOnLaunch") {
		s.MapPublicIP = c.q.bool("MapPublicIpOnLaunch.Value")
	}
	if v := c.q.str("PrivateDnsHostnameTypeOnLaunch"); v != "" {
		s.ResourceName = v == "resource-name"
	}
	c.x.bool("return", true)
	return c.q.err()
}

func (c *call) groupField(g *securityGroup) field {
	return func(name string, out []string) ([]string, bool) {
		switch name {
		case "group-id":
			return append(out, g.ID), true
		case "group-name":
			return append(out, g.Name), true
		case "vpc-id":
			return append(out, g.VPC), true
		case "description":
			return append(out, g.Description), true
		case "owner-id":
			return append(out, c.acct.ID), true
		}
		return tagField(g.Tags, name, out)
	}
}

var errGroup = notFound("InvalidGroup.NotFound", "The security group '%s' does not exist")

func describeSecurityGroups(c *call) error {
	ids := c.q.strs("GroupId")
	for _, name := range c.q.strs("GroupName") {
		id := ""
		for g := range c.reg.Groups.each {
			if g.Name == name {
				id = g.ID
			}
		}
		if id == "" {
			return errGroup(name)
		}
		ids = append(ids, id)
	}
	all, err := pick[securityGroup]{ids, errGroup, c.groupField}.from(c, c.reg.Groups)
	if err != nil {
		return err
	}
	all, next, err := page(c, shown(c, all), pages{5, 1000, 0})
	if err != nil {
		return err
	}
	c.x.in("securityGroupInfo", func() {
		for _, g := range all {
			c.x.in("item", func() {
				c.x.str("ownerId", c.acct.ID)
				c.x.str("groupId", g.ID)
				c.x.str("securityGroupArn", c.arn("ec2", "security-group/"+g.ID))
				c.x.str("groupName", g.Name)
				c.x.str("groupDescription", g.Description)
				c.x.str("vpcId", g.VPC)
				c.x.tagSet(g.Tags)
			})
		}
	})
	c.x.opt("nextToken", next)
	return nil
}

func createSecurityGroup(c *call) error {
	g := &securityGroup{Name: c.q.str("GroupName"), Description: c.q.str("GroupDescription"), VPC: c.q.str("VpcId")}
	if g.Name == "" {
		return missing("GroupName")
	}
	if g.Description == "" {
		return missing("GroupDescription")
	}
	if g.VPC == "" {
		g.VPC = seedVPC
	}
	if c.reg.VPCs.get(g.VPC) == nil {
		return fail("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", g.VPC)
	}
	for o := range c.reg.Groups.each {
		if o.Name == g.Name && o.VPC == g.VPC {
			return fail("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", g.Name, g.VPC)
		}
	}
	g.ID = c.id("sg-", 17)
	g.Tags = c.tagsFor("security-group")
	c.reg.Groups.put(g.ID, g)
	c.x.bool("return", true)
	c.x.str("groupId", g.ID)
	c.x.tagSet(g.Tags)
	return nil
}

func deleteSecurityGroup(c *call) error {
	id := c.q.str("GroupId")
	if c.reg.Groups.get(id) == nil {
		return errGroup(id)
	}
	for in := range c.reg.Instances.each {
		if slices.Contains(in.Groups, id) && in.alive() {
			return fail("DependencyViolation", "resource %s has a dependent object", id)
		}
	}
	c.reg.Groups.delete(id)
	c.x.bool("return", true)
	c.x.str("groupId", id)
	return nil
}

// tagsFor reads the TagSpecification of a kind of resource.
func (c *call) tagsFor(kind string) tagSet {
	var out tagSet
	// One operation spells the parameter in the plural.
	for _, spec := range append(c.q.items("TagSpecification"), c.q.items("TagSpecifications")...) {
		if spec.str("ResourceType") == kind {
			out = out.with(spec.tags("Tag")...)
		}
	}
	return out
}

// shown hides everything when a fault asks for an empty describe.
func shown[T any](c *call, all []*T) []*T {
	if c.empty {
		return nil
	}
	return all
}

// interfaceRow is an interface together with its instance.
type interfaceRow struct {
	in  *instance
	eni *eni
}

func describeNetworkInterfaces(c *call) error {
	fs, err := c.filters()
	if err != nil {
		return err
	}
	ids := c.q.strs("NetworkInterfaceId")
	var all []*interfaceRow
	for in := range c.reg.Instances.each {
		if !in.alive() {
			continue
		}
		for i := range in.ENIs {
			if len(ids) == 0 || slices.Contains(ids, in.ENIs[i].ID) {
				all = append(all, &interfaceRow{in, &in.ENIs[i]})
			}
		}
	}
	if len(ids) > 0 && len(all) < len(ids) {
		return fail("InvalidNetworkInterfaceID.NotFound", "The networkInterface ID '%s' does not exist", strings.Join(ids, ", "))
	}
	all, err = filtered(all, fs, func(r *interfaceRow) field {
		return func(name string, out []string) ([]string, bool) {
			switch name {
			case "network-interface-id":
				return append(out, r.eni.ID), true
			case "attachment.instance-id":
				return append(out, r.in.ID), true
			case "subnet-id":
				return append(out, r.in.Subnet), true
			case "vpc-id":
				return append(out, r.in.VPC), true
			case "status":
				return append(out, "in-use"), true
			case "group-id":
				return append(out, r.eni.Groups...), true
			}
			return tagField(r.eni.Tags, name, out)
		}
	})
	if err != nil {
		return err
	}
	all, next, err := page(c, all, pages{5, 1000, 0})
	if err != nil {
		return err
	}
	c.x.in("networkInterfaceSet", func() {
		for _, r := range all {
			c.x.in("item", func() {
				c.x.str("availabilityZone", r.in.Zone)
				c.writeInterface(r.in, r.eni)
				c.x.in("attachment", func() {
					c.x.str("instanceId", r.in.ID)
					c.x.str("instanceOwnerId", c.acct.ID)
					c.writeAttachment(r.in, r.eni)
				})
				c.x.tagSet(r.eni.Tags)
			})
		}
	})
	c.x.opt("nextToken", next)
	return nil
}
