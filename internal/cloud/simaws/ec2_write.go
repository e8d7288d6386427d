package simaws

import (
	"strconv"
	"time"
)

// writeInstance writes an instance in the given state.
func (c *call) writeInstance(in *instance, state string) {
	x := c.x
	x.str("instanceId", in.ID)
	x.str("imageId", in.ImageID)
	writeState(x, "instanceState", state)
	if c.opt.Brief {
		c.writeBrief(in)
		return
	}
	x.str("privateDnsName", in.PrivateDNS)
	x.str("dnsName", "")
	x.str("reason", in.Reason)
	x.opt("keyName", in.KeyName)
	x.int("amiLaunchIndex", 0)
	x.str("instanceType", in.Type)
	x.time("launchTime", in.Launched)
	writePlacement(x, in)
	x.opt("platform", in.Platform)
	x.open("monitoring")
	if in.Monitoring {
		x.str("state", "enabled")
	} else {
		x.str("state", "disabled")
	}
	x.close("monitoring")
	if in.PrivateIP != "" {
		x.str("subnetId", in.Subnet)
		x.str("vpcId", in.VPC)
		x.str("privateIpAddress", in.PrivateIP)
	}
	x.opt("ipAddress", in.PublicIP)
	x.opt("ipv6Address", in.IPv6)
	x.bool("sourceDestCheck", true)
	c.writeGroups(in.Groups)
	c.writeAttachments(in)
	c.writeInstanceOptions(in)
}

// writeBrief writes what is left for Options.Brief.
func (c *call) writeBrief(in *instance) {
	x := c.x
	x.opt("privateDnsName", in.PrivateDNS)
	x.str("instanceType", in.Type)
	x.time("launchTime", in.Launched)
	writePlacement(x, in)
	if in.PrivateIP != "" {
		x.str("subnetId", in.Subnet)
	}
	c.writeGroups(in.Groups)
	x.opt("instanceLifecycle", in.Lifecycle)
	x.opt("spotInstanceRequestId", in.SpotRequest)
	x.tagSet(c.tagsOf(in))
	c.writeReserved(in)
}

func writePlacement(x *xmlWriter, in *instance) {
	x.open("placement")
	x.str("availabilityZone", in.Zone)
	x.str("availabilityZoneId", in.ZoneID)
	x.str("groupName", in.GroupName)
	x.opt("groupId", in.GroupID)
	x.optInt("partitionNumber", in.Partition)
	x.str("tenancy", in.Tenancy)
	x.close("placement")
}

// writeAttachments writes what belongs to an instance: volumes, interfaces,
// tags, profile.
func (c *call) writeAttachments(in *instance) {
	x := c.x
	if in.Reason != "" {
		x.open("stateReason")
		x.str("code", in.ReasonCode)
		x.str("message", in.Reason)
		x.close("stateReason")
	}
	x.str("architecture", in.Arch)
	x.str("rootDeviceType", "ebs")
	if len(in.Devices) > 0 {
		x.str("rootDeviceName", in.Devices[0].Device)
	}
	x.open("blockDeviceMapping")
	for _, d := range in.Devices {
		x.open("item")
		x.str("deviceName", d.Device)
		x.open("ebs")
		x.str("volumeId", d.Volume)
		x.str("status", "attached")
		x.time("attachTime", in.Launched)
		x.bool("deleteOnTermination", d.DeleteOnTermination)
		x.close("ebs")
		x.close("item")
	}
	x.close("blockDeviceMapping")
	x.str("virtualizationType", "hvm")
	x.opt("instanceLifecycle", in.Lifecycle)
	x.opt("spotInstanceRequestId", in.SpotRequest)
	x.opt("clientToken", in.ClientToken)
	x.tagSet(c.tagsOf(in))
	x.str("hypervisor", "xen")
	x.open("networkInterfaceSet")
	for i := range in.ENIs {
		x.open("item")
		c.writeInterface(in, &in.ENIs[i])
		x.open("attachment")
		c.writeAttachment(in, &in.ENIs[i])
		x.close("attachment")
		x.close("item")
	}
	x.close("networkInterfaceSet")
	if in.ProfileARN != "" {
		x.open("iamInstanceProfile")
		x.str("arn", in.ProfileARN)
		x.str("id", in.ProfileID)
		x.close("iamInstanceProfile")
	}
	x.bool("ebsOptimized", true)
	x.bool("enaSupport", true)
}

func (c *call) writeInstanceOptions(in *instance) {
	x := c.x
	x.open("cpuOptions")
	x.int("coreCount", in.Cores)
	x.int("threadsPerCore", in.Threads)
	x.opt("nestedVirtualization", in.NestedVirtualization)
	x.close("cpuOptions")
	c.writeReserved(in)
	x.open("metadataOptions")
	x.str("state", "applied")
	writeMetadata(x, in.Metadata)
	x.close("metadataOptions")
	x.open("enclaveOptions")
	x.bool("enabled", in.Enclave)
	x.close("enclaveOptions")
	x.open("privateDnsNameOptions")
	if in.ResourceName {
		x.str("hostnameType", "resource-name")
	} else {
		x.str("hostnameType", "ip-name")
	}
	x.close("privateDnsNameOptions")
}

func (c *call) writeReserved(in *instance) {
	x := c.x
	x.opt("capacityReservationId", in.CapacityReservation)
	x.open("capacityReservationSpecification")
	x.str("capacityReservationPreference", orDefault(in.ReservationPreference, "open"))
	if in.ReservationPreference == "capacity-reservations-only" && in.CapacityReservation != "" {
		x.open("capacityReservationTarget")
		x.str("capacityReservationId", in.CapacityReservation)
		x.close("capacityReservationTarget")
	}
	x.close("capacityReservationSpecification")
}

func (c *call) writeGroups(ids []string) {
	x := c.x
	x.open("groupSet")
	for _, id := range ids {
		x.open("item")
		x.str("groupId", id)
		if g := c.reg.Groups.get(id); g != nil {
			x.str("groupName", g.Name)
		}
		x.close("item")
	}
	x.close("groupSet")
}

func (c *call) writeInterface(in *instance, e *eni) {
	x := c.x
	x.str("networkInterfaceId", e.ID)
	x.str("subnetId", in.Subnet)
	x.str("vpcId", in.VPC)
	x.str("ownerId", c.acct.ID)
	x.str("status", "in-use")
	x.str("macAddress", e.MAC)
	x.opt("privateIpAddress", e.IP)
	x.opt("privateDnsName", e.DNS)
	x.str("interfaceType", e.Kind)
	c.writeGroups(e.Groups)
	if e.PublicIP != "" {
		x.open("association")
		x.str("publicIp", e.PublicIP)
		x.str("ipOwnerId", "amazon")
		x.close("association")
	}
	if e.IP != "" {
		x.open("privateIpAddressesSet")
		x.open("item")
		x.str("privateIpAddress", e.IP)
		x.bool("primary", true)
		x.close("item")
		x.close("privateIpAddressesSet")
	}
	if e.IPv6 != "" {
		x.open("ipv6AddressesSet")
		x.open("item")
		x.str("ipv6Address", e.IPv6)
		x.bool("isPrimaryIpv6", e.PrimaryIPv6)
		x.close("item")
		x.close("ipv6AddressesSet")
	}
	if e.TCPTimeout+e.UDPStream+e.UDPTimeout > 0 {
		x.open("connectionTrackingConfiguration")
		x.optInt("tcpEstablishedTimeout", e.TCPTimeout)
		x.optInt("udpStreamTimeout", e.UDPStream)
		x.optInt("udpTimeout", e.UDPTimeout)
		x.close("connectionTrackingConfiguration")
	}
	writePrefixes(x, "ipv4Prefix", e.IPv4Prefixes)
	writePrefixes(x, "ipv6Prefix", e.IPv6Prefixes)
}

// writePrefixes lists delegated prefixes; which ones they are matters to
// nobody, how many there are does.
func writePrefixes(x *xmlWriter, name string, n int) {
	if n == 0 {
		return
	}
	x.open(name + "Set")
	for i := range n {
		x.open("item")
		if name == "ipv4Prefix" {
			x.str(name, "192.168."+strconv.Itoa(i)+".0/28")
		} else {
			x.str(name, "2600:1f14:abc:1200:"+strconv.Itoa(i)+"::/80")
		}
		x.close("item")
	}
	x.close(name + "Set")
}

func (c *call) writeAttachment(in *instance, e *eni) {
	c.x.str("attachmentId", "eni-attach-"+e.ID[4:])
	c.x.int("deviceIndex", e.Device)
	c.x.int("networkCardIndex", e.Card)
	c.x.str("status", "attached")
	c.x.time("attachTime", in.Launched)
	c.x.bool("deleteOnTermination", true)
}

func describeInstanceStatus(c *call) error {
	all, err := pick[instance]{ids: c.q.strs("InstanceId"), unknown: errInstance, field: c.statusField}.from(c, c.reg.Instances)
	if err != nil {
		return err
	}
	everything := c.q.bool("IncludeAllInstances")
	kept := all[:0]
	for _, in := range all {
		if c.sees(in) && (everything || in.stateAt(c.view()) == stateRunning) {
			kept = append(kept, in)
		}
	}
	part, next, err := page(c, kept, pages{5, 1000, 1000})
	if err != nil {
		return err
	}
	c.x.in("instanceStatusSet", func() {
		for _, in := range part {
			c.x.in("item", func() { c.writeStatus(in) })
		}
	})
	c.x.opt("nextToken", next)
	return nil
}

// initializing is how long after launch the status checks have no result yet.
const initializing = 2 * time.Minute

func (c *call) checkResult(in *instance, since time.Time) string {
	switch {
	case !since.IsZero():
		return "impaired"
	case in.stateAt(c.view()) != stateRunning:
		return "not-applicable"
	case c.at.Sub(in.Launched) < initializing:
		return "initializing"
	}
	return "ok"
}

func (c *call) statusField(in *instance) field {
	return func(name string, out []string) ([]string, bool) {
		switch name {
		case "instance-status.status":
			return append(out, c.checkResult(in, in.Health.InstanceImpairedSince)), true
		case "system-status.status":
			return append(out, c.checkResult(in, in.Health.SystemImpairedSince)), true
		case "attached-ebs-status.status":
			return append(out, c.checkResult(in, in.Health.EBSImpairedSince)), true
		case "event.code":
			for _, e := range in.Health.Events {
				out = append(out, e.Code)
			}
			return out, true
		}
		return c.instanceField(in)(name, out)
	}
}

func (c *call) writeStatus(in *instance) {
	x := c.x
	x.str("instanceId", in.ID)
	x.str("availabilityZone", in.Zone)
	x.str("availabilityZoneId", in.ZoneID)
	writeState(x, "instanceState", in.stateAt(c.view()))
	check := func(name string, since time.Time) {
		result := c.checkResult(in, since)
		detail := map[string]string{"impaired": "failed", "ok": "passed"}[result]
		x.in(name, func() {
			x.str("status", result)
			if result == "not-applicable" { // nothing was checked
				return
			}
			x.in("details", func() {
				x.in("item", func() {
					x.str("name", "reachability")
					x.str("status", orDefault(detail, result))
					x.time("impairedSince", since)
				})
			})
		})
	}
	check("instanceStatus", in.Health.InstanceImpairedSince)
	check("systemStatus", in.Health.SystemImpairedSince)
	check("attachedEbsStatus", in.Health.EBSImpairedSince)
	if len(in.Health.Events) == 0 {
		return
	}
	x.in("eventsSet", func() {
		for _, e := range in.Health.Events {
			x.in("item", func() {
				x.opt("instanceEventId", e.ID)
				x.str("code", e.Code)
				x.str("description", e.Description)
				x.time("notBefore", e.NotBefore)
				x.time("notAfter", e.NotAfter)
			})
		}
	})
}
