package simaws

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"karpenter/internal/cloud/simaws/catalog"
)

// target is one concrete way to launch: every choice is made and checked, only
// capacity is not taken yet.
type target struct {
	data         launchData
	typ          *catalog.Type
	offer        catalog.Offer
	image        *image
	subnet       *subnet
	profile      *instanceProfile
	pg           *placementGroup
	cr           *reservation
	capacityType string
	template     *launchTemplate
	version      int
	// lifecycle is what DescribeInstances will say.
	lifecycle string
	fleet     string
	price     float64
}

// wish is what a target is made from.
type wish struct {
	data         launchData
	typ          string
	zone, subnet string
	image        string
	capacityType string
}

// prepare checks a wish the way EC2 does before it looks for capacity.
func (c *call) prepare(w wish) (*target, *apiError) {
	t := &target{data: w.data, capacityType: w.capacityType}
	if w.typ == "" {
		w.typ = w.data.InstanceType
	}
	if w.typ == "" {
		w.typ = "m1.small"
	}
	if t.typ = c.cat.Type(w.typ); t.typ == nil {
		return nil, fail("InvalidParameterValue", "Invalid value '%s' for InstanceType.", w.typ)
	}
	for _, step := range []func(*target, wish) *apiError{c.chooseImage, c.chooseSubnet, c.chooseGroups, c.chooseProfile, c.choosePlacement, c.chooseReservation, c.checkShape} {
		if err := step(t, w); err != nil {
			return nil, err
		}
	}
	t.price = t.offer.OnDemand
	if t.capacityType == "spot" {
		t.price = c.spotPriceAt(t.offer, t.subnet.Zone, c.at)
	}
	return t, nil
}

func (c *call) chooseImage(t *target, w wish) *apiError {
	id := w.image
	if id == "" {
		id = w.data.ImageID
	}
	if path, ok := strings.CutPrefix(id, "resolve:ssm:"); ok {
		if p := c.reg.Parameters[path]; p != nil {
			id = p.Value
		}
	}
	if id == "" {
		return missing("ImageId")
	}
	if !strings.HasPrefix(id, "ami-") {
		return fail("InvalidAMIID.Malformed", "Invalid id: \"%s\" (expecting \"ami-...\")", id)
	}
	t.image = c.reg.Images.get(id)
	if t.image == nil {
		return fail("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
	}
	if t.image.State != "available" {
		return fail("InvalidAMIID.Unavailable", "The image id '[%s]' is no longer available", id)
	}
	if !slices.Contains(t.typ.Architectures, t.image.Arch) {
		return fail("InvalidParameterValue", "The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI. Specify an instance type and an AMI that have matching architectures, and try again.",
			strings.Join(t.typ.Architectures, ","), t.image.Arch)
	}
	return nil
}

func (c *call) chooseSubnet(t *target, w wish) *apiError {
	id := w.subnet
	if id == "" {
		id = w.data.SubnetID
	}
	for _, i := range w.data.Interfaces {
		if id == "" {
			id = i.SubnetID
		}
	}
	zone := w.zone
	if zone == "" {
		zone = w.data.Placement.Zone
	}
	if id == "" {
		for s := range c.reg.Subnets.each {
			if t.subnet == nil && (zone == "" || s.Zone == zone) {
				t.subnet = s
			}
		}
		if t.subnet == nil {
			return fail("MissingInput", "No subnets found for the Availability Zone '%s' in the default VPC.", zone)
		}
	} else if t.subnet = c.reg.Subnets.get(id); t.subnet == nil {
		return errSubnet(id)
	}
	if zone != "" && zone != t.subnet.Zone {
		return fail("InvalidParameterValue", "The subnet '%s' is in the Availability Zone %s, not %s", t.subnet.ID, t.subnet.Zone, zone)
	}
	offer, ok := c.reg.offers.Offer(t.typ.Name)
	if !ok || !c.reg.offers.InZone(t.typ.Name, t.subnet.Zone) {
		return fail("Unsupported", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s). Please retry your request by choosing another Availability Zone.", t.typ.Name, t.subnet.Zone)
	}
	t.offer = offer
	return nil
}

func (c *call) chooseGroups(t *target, w wish) *apiError {
	groups := slices.Clone(w.data.Groups)
	for _, i := range w.data.Interfaces {
		groups = append(groups, i.Groups...)
	}
	for _, id := range groups {
		g := c.reg.Groups.get(id)
		if g == nil {
			return errGroup(id)
		}
		if g.VPC != t.subnet.VPC {
			return fail("InvalidParameter", "Security group %s and subnet %s belong to different networks.", g.ID, t.subnet.ID)
		}
	}
	return nil
}

func (c *call) chooseProfile(t *target, w wish) *apiError {
	name := w.data.ProfileName
	if w.data.ProfileARN != "" {
		name = w.data.ProfileARN[strings.LastIndexByte(w.data.ProfileARN, '/')+1:]
	}
	if name == "" {
		return nil
	}
	p := c.acct.IAM.Profiles.get(name)
	if p == nil || c.at.Before(p.VisibleAt) {
		if w.data.ProfileARN != "" {
			return fail("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.arn is invalid. Invalid IAM Instance Profile ARN", w.data.ProfileARN)
		}
		return fail("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", name)
	}
	if p.Role == "" {
		return fail("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.name is invalid. IAM Instance Profile \"%s\" has no associated IAM Roles", name, p.ARN)
	}
	t.profile = p
	return nil
}

func (c *call) choosePlacement(t *target, w wish) *apiError {
	pl := w.data.Placement
	if pl.GroupID == "" && pl.GroupName == "" {
		return nil
	}
	for g := range c.reg.Placements.each {
		if g.ID == pl.GroupID || pl.GroupID == "" && g.Name == pl.GroupName {
			t.pg = g
		}
	}
	if t.pg == nil {
		return fail("InvalidPlacementGroup.Unknown", "The Placement Group '%s%s' is unknown.", pl.GroupID, pl.GroupName)
	}
	if !slices.Contains(t.typ.Placement, t.pg.Strategy) {
		return fail("InvalidParameterCombination", "%s placement groups are not supported by the '%s' instance type.", t.pg.Strategy, t.typ.Name)
	}
	if pl.Partition > t.pg.Partitions {
		return fail("InvalidParameterValue", "Value (%d) for parameter PartitionNumber is invalid. The placement group has %d partitions.", pl.Partition, t.pg.Partitions)
	}
	return nil
}

func (c *call) chooseReservation(t *target, w wish) *apiError {
	switch w.capacityType {
	case "spot":
		t.lifecycle = "spot"
		if !t.typ.Supports("spot") {
			return fail("InvalidParameterCombination", "The instance type %s is not supported for Spot Instances.", t.typ.Name)
		}
	case "capacity-block":
		t.lifecycle, t.capacityType = "capacity-block", "on-demand"
	case "reserved-capacity":
		t.lifecycle, t.capacityType = "interruptible-capacity-reservation", "on-demand"
	}
	if w.data.MarketType == "capacity-block" || w.data.MarketType == "interruptible-capacity-reservation" {
		t.lifecycle = w.data.MarketType
	}
	if id := w.data.ReservationID; id != "" {
		t.cr = c.reg.Reservations.get(id)
		if t.cr == nil {
			return errReservation(id)
		}
		return t.cr.mismatch(t)
	}
	if t.capacityType == "spot" || w.data.ReservationPreference == "none" {
		return nil
	}
	for cr := range c.reg.Reservations.each {
		if cr.Match == "open" && cr.Kind == "default" && cr.active(c.at) && cr.Used < cr.Total && cr.mismatch(t) == nil {
			t.cr = cr
			return nil
		}
	}
	if w.data.ReservationPreference == "capacity-reservations-only" {
		return fail("ReservationCapacityExceeded", "No Capacity Reservation matches the requested %s in %s.", t.typ.Name, t.subnet.Zone)
	}
	return nil
}

// checkShape holds the request against what the type can do.
func (c *call) checkShape(t *target, w wish) *apiError {
	if w.data.NestedVirtualization == "enabled" && !slices.Contains(t.typ.ProcessorFeatures, "nested-virtualization") {
		return fail("InvalidParameterCombination", "Nested virtualization is not supported by the '%s' instance type.", t.typ.Name)
	}
	if w.data.Enclave && !t.typ.NitroEnclaves {
		return fail("InvalidParameterCombination", "Enclaves are not supported by the '%s' instance type.", t.typ.Name)
	}
	efas := 0
	perCard := map[int]int{}
	for _, i := range w.data.Interfaces {
		if i.Card >= len(t.typ.Network.Cards) {
			return fail("InvalidParameterValue", "Network card index %d exceeds the limit for '%s', which has %d.", i.Card, t.typ.Name, len(t.typ.Network.Cards))
		}
		if perCard[i.Card]++; perCard[i.Card] > t.typ.Network.Cards[i.Card].MaxENIs {
			return fail("AttachmentLimitExceeded", "Interface count for network card %d exceeds the limit for %s", i.Card, t.typ.Name)
		}
		if strings.HasPrefix(i.Kind, "efa") {
			efas++
		}
	}
	if efas > t.typ.Network.MaxEFAs {
		return fail("UnsupportedOperation", "EFA interfaces are limited to %d for instance type %s", t.typ.Network.MaxEFAs, t.typ.Name)
	}
	return nil
}

// launch takes the capacity and makes the instance.
func (c *call) launch(t *target) (*instance, *apiError) {
	addresses := t.addresses()
	if err := c.checkQuota(t); err != nil {
		return nil, err
	}
	if t.subnet.free() < addresses {
		return nil, fail("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", t.subnet.ID)
	}
	partition, perr := c.takePlacement(t)
	if perr != nil {
		return nil, perr
	}
	if t.cr != nil {
		if t.cr.Used >= t.cr.Total || !t.cr.active(c.at) {
			return nil, fail("ReservationCapacityExceeded", "Your request exceeds the available capacity of the reservation %s.", t.cr.ID)
		}
		t.cr.Used++
	} else if err := c.takeStock(t); err != nil {
		return nil, err
	}
	in := c.build(t)
	in.Partition = partition
	in.Addresses = addresses
	c.reg.InUse[t.capacityType] += t.typ.VCPUs
	c.reg.Instances.put(in.ID, in)
	c.move(in, statePending, c.at)
	c.after(c.at, c.opt.Timing.Pending, "running", in.ID)
	c.applyLaunchFaults(in)
	return in, nil
}

func (t *target) addresses() int {
	if len(t.data.Interfaces) == 0 {
		return 1
	}
	n := 0
	for _, i := range t.data.Interfaces {
		if i.Kind != "efa-only" {
			n += 1 + 16*i.IPv4Prefix
		}
	}
	return max(n, 1)
}

// spreadLimit is how many instances of a rack-level spread group one zone
// takes.
const spreadLimit = 7

func (c *call) takePlacement(t *target) (int, *apiError) {
	if t.pg == nil {
		return 0, nil
	}
	inZone := 0
	perPartition := make([]int, t.pg.Partitions+1)
	for in := range c.reg.Instances.each {
		if in.GroupID == t.pg.ID && in.alive() && in.Zone == t.subnet.Zone {
			inZone++
			perPartition[min(in.Partition, t.pg.Partitions)]++
		}
	}
	switch t.pg.Strategy {
	case "spread":
		if inZone >= spreadLimit {
			return 0, fail("InsufficientInstanceCapacity", "You have reached the maximum limit of %d running instances per Availability Zone per group for the spread placement group.", spreadLimit)
		}
	case "partition":
		if p := t.data.Placement.Partition; p != 0 {
			return p, nil
		}
		best := 1
		for p := 2; p <= t.pg.Partitions; p++ {
			if perPartition[p] < perPartition[best] {
				best = p
			}
		}
		return best, nil
	}
	return 0, nil
}

// build makes the instance object and what belongs to it.
func (c *call) build(t *target) *instance {
	d := t.data
	in := &instance{
		ID: c.id("i-", 17), Reservation: c.id("r-", 17), Type: t.typ.Name, ImageID: t.image.ID, Arch: t.image.Arch, Platform: t.image.Platform,
		Zone: t.subnet.Zone, ZoneID: t.subnet.ZoneID, Subnet: t.subnet.ID, VPC: t.subnet.VPC, KeyName: d.KeyName,
		Tenancy: orDefault(d.Placement.Tenancy, "default"), Lifecycle: t.lifecycle, Fleet: t.fleet, ClientToken: c.q.str("ClientToken"),
		ReservationPreference: d.ReservationPreference, UserData: d.UserData, Metadata: d.Metadata.withDefaults(),
		Monitoring: d.Monitoring, Enclave: d.Enclave, NestedVirtualization: d.NestedVirtualization,
		Cores: orInt(d.CoreCount, t.typ.Cores), Threads: orInt(d.ThreadsPerCore, t.typ.ThreadsPerCore),
		Launched: c.at, VisibleAt: c.visibleAt(), Tags: d.Tags["instance"], ResourceName: t.subnet.ResourceName,
	}
	if t.template != nil {
		in.Template, in.TemplateVersion = t.template.ID, fmt.Sprint(t.version)
		in.Tags = in.Tags.with(Tag{"aws:ec2launchtemplate:id", t.template.ID}, Tag{"aws:ec2launchtemplate:version", in.TemplateVersion})
	}
	if t.fleet != "" {
		in.Tags = in.Tags.with(Tag{"aws:ec2:fleet-id", t.fleet})
	}
	if t.cr != nil {
		in.CapacityReservation = t.cr.ID
	}
	if t.profile != nil {
		in.ProfileARN, in.ProfileID = t.profile.ARN, t.profile.ID
	}
	if t.pg != nil {
		in.GroupName, in.GroupID = t.pg.Name, t.pg.ID
	}
	c.attachInterfaces(in, t)
	c.attachVolumes(in, t)
	if t.capacityType == "spot" {
		sr := &spotRequest{ID: c.id("sir-", 9), Instance: in.ID, Type: in.Type, Zone: in.Zone, State: "active", Status: "fulfilled", At: c.at, Tags: d.Tags["spot-instances-request"]}
		c.reg.SpotRequests.put(sr.ID, sr)
		in.SpotRequest = sr.ID
	}
	return in
}

func orDefault(v, def string) string {
	if v == "" {
		return def
	}
	return v
}

func orInt(v, def int) int {
	if v == 0 {
		return def
	}
	return v
}

func (m metadataOptions) withDefaults() metadataOptions {
	return metadataOptions{orDefault(m.Tokens, "required"), orDefault(m.Endpoint, "enabled"), orDefault(m.IPv6, "disabled"), orDefault(m.Tags, "disabled"), orInt(m.HopLimit, 2)}
}

func (c *call) attachInterfaces(in *instance, t *target) {
	specs := t.data.Interfaces
	if len(specs) == 0 {
		specs = []interfaceSpec{{Groups: t.data.Groups}}
	}
	for _, s := range specs {
		groups := s.Groups
		if len(groups) == 0 {
			groups = []string{"sg-0def000"}
		}
		e := eni{
			ID: c.id("eni-", 17), Kind: orDefault(s.Kind, "interface"), Card: s.Card, Device: s.Device, Groups: groups, Tags: t.data.Tags["network-interface"],
			IPv4Prefixes: s.IPv4Prefix, IPv6Prefixes: s.IPv6Prefix, PrimaryIPv6: s.PrimaryIPv6,
			TCPTimeout: s.TCPTimeout, UDPStream: s.UDPStream, UDPTimeout: s.UDPTimeout,
		}
		h := hashString(e.ID)
		e.MAC = fmt.Sprintf("02:%02x:%02x:%02x:%02x:%02x", byte(h), byte(h>>8), byte(h>>16), byte(h>>24), byte(h>>32))
		if e.Kind != "efa-only" {
			e.IP = t.subnet.address()
			e.DNS = c.reg.privateDNS("ip-" + strings.ReplaceAll(e.IP, ".", "-"))
			if s.PublicIP == "true" || s.PublicIP == "" && t.subnet.MapPublicIP && s.Device == 0 && s.Card == 0 {
				e.PublicIP = fmt.Sprintf("203.0.113.%d", 1+h%254)
			}
			if s.IPv6Count > 0 || s.PrimaryIPv6 {
				e.IPv6 = fmt.Sprintf("%s%x", strings.TrimSuffix(t.subnet.IPv6CIDR, "/64"), h&0xffff)
			}
		}
		in.ENIs = append(in.ENIs, e)
		for _, g := range groups {
			if !slices.Contains(in.Groups, g) {
				in.Groups = append(in.Groups, g)
			}
		}
	}
	first := in.ENIs[0]
	in.PrivateIP, in.PublicIP, in.IPv6, in.PrivateDNS = first.IP, first.PublicIP, first.IPv6, first.DNS
	if in.ResourceName {
		in.PrivateDNS = c.reg.privateDNS(in.ID)
	}
	// The subnet counted one address per interface; prefixes come on top. The
	// count itself is kept by launch, so it is reset here.
	t.subnet.Used += t.addresses() - countAddressed(in.ENIs)
}

func countAddressed(enis []eni) int {
	n := 0
	for _, e := range enis {
		if e.IP != "" {
			n++
		}
	}
	return n
}

func (r *region) privateDNS(host string) string {
	if r.Name == "us-east-1" {
		return host + ".ec2.internal"
	}
	return host + "." + r.Name + ".compute.internal"
}

func (c *call) attachVolumes(in *instance, t *target) {
	devices := t.data.Devices
	if !slices.ContainsFunc(devices, func(b blockDevice) bool { return b.Name == t.image.RootDevice }) {
		devices = append([]blockDevice{{Name: t.image.RootDevice}}, devices...)
	}
	for _, b := range devices {
		if b.NoDevice {
			continue
		}
		v := &volume{
			ID: c.id("vol-", 17), Instance: in.ID, Device: b.Name, Zone: in.Zone, Type: orDefault(b.Type, "gp3"), Snapshot: b.SnapshotID,
			SizeGB: b.SizeGB, IOPS: b.IOPS, Throughput: b.Throughput, Encrypted: b.Encrypted == "true", KMSKey: b.KMSKey,
			At: c.at, Tags: t.data.Tags["volume"],
		}
		if v.SizeGB == 0 {
			v.SizeGB = orInt(t.image.SizeGB, 8)
		}
		if v.Type == "gp3" {
			v.IOPS, v.Throughput = orInt(v.IOPS, 3000), orInt(v.Throughput, 125)
		}
		c.reg.Volumes.put(v.ID, v)
		in.Devices = append(in.Devices, attachedVolume{b.Name, v.ID, b.DeleteOnTermination != "false"})
	}
}

// volume is an EBS volume.
type volume struct {
	ID, Instance, Device, Zone, Type, Snapshot, KMSKey string
	SizeGB, IOPS, Throughput                           int
	Encrypted                                          bool
	At                                                 time.Time
	Tags                                               tagSet
}

// spotRequest is a spot instance request.
type spotRequest struct {
	ID, Instance, Type, Zone, State, Status string
	At                                      time.Time
	Tags                                    tagSet
}
