package simaws

import (
	"strings"
	"time"
)

// reservation is a capacity reservation or a capacity block.
type reservation struct {
	ID, Type, Zone, Platform, Tenancy string
	// Match is open or targeted, Kind default or capacity-block.
	Match, Kind   string
	Total, Used   int
	Created       time.Time
	End           time.Time
	Cancelled     bool
	Interruptible bool
	// Source is the reservation that an interruptible one was cut from.
	Source string
	Tags   tagSet
}

func errReservation(id string) *apiError {
	return fail("InvalidCapacityReservationId.NotFound", "The capacity reservation ID '%s' does not exist", id)
}

func (r *reservation) active(now time.Time) bool { return r.state(now) == "active" }

func (r *reservation) state(now time.Time) string {
	switch {
	case r.Cancelled:
		return "cancelled"
	case !r.End.IsZero() && !now.Before(r.End):
		return "expired"
	}
	return "active"
}

// mismatch says why a launch cannot use the reservation.
func (r *reservation) mismatch(t *target) *apiError {
	if r.Type != t.typ.Name || r.Zone != t.subnet.Zone {
		return fail("InvalidParameterCombination", "The instance attributes (%s in %s) do not match those of the Capacity Reservation %s (%s in %s).", t.typ.Name, t.subnet.Zone, r.ID, r.Type, r.Zone)
	}
	return nil
}

func (c *call) reservationField(r *reservation) field {
	return func(name string, out []string) ([]string, bool) {
		switch name {
		case "state":
			return append(out, r.state(c.at)), true
		case "instance-type":
			return append(out, r.Type), true
		case "availability-zone":
			return append(out, r.Zone), true
		case "instance-match-criteria":
			return append(out, r.Match), true
		case "owner-id":
			return append(out, c.acct.ID), true
		case "tenancy":
			return append(out, orDefault(r.Tenancy, "default")), true
		case "instance-platform":
			return append(out, r.Platform), true
		}
		return tagField(r.Tags, name, out)
	}
}

func describeCapacityReservations(c *call) error {
	all, err := pick[reservation]{c.q.strs("CapacityReservationId"), errReservation, c.reservationField}.from(c, c.reg.Reservations)
	if err != nil {
		return err
	}
	all, next, err := page(c, shown(c, all), pages{1, 1000, 1000})
	if err != nil {
		return err
	}
	c.x.in("capacityReservationSet", func() {
		for _, r := range all {
			c.x.in("item", func() { c.writeReservation(r) })
		}
	})
	c.x.opt("nextToken", next)
	return nil
}

func (c *call) writeReservation(r *reservation) {
	x := c.x
	x.str("capacityReservationId", r.ID)
	x.str("ownerId", c.acct.ID)
	x.str("capacityReservationArn", c.arn("ec2", "capacity-reservation/"+r.ID))
	x.str("instanceType", r.Type)
	x.str("instancePlatform", r.Platform)
	x.str("availabilityZone", r.Zone)
	x.str("availabilityZoneId", c.reg.zoneID(r.Zone))
	x.str("tenancy", orDefault(r.Tenancy, "default"))
	x.int("totalInstanceCount", r.Total)
	x.int("availableInstanceCount", max(0, r.Total-r.Used))
	x.str("state", r.state(c.at))
	x.time("startDate", r.Created)
	x.time("endDate", r.End)
	if r.End.IsZero() {
		x.str("endDateType", "unlimited")
	} else {
		x.str("endDateType", "limited")
	}
	x.str("instanceMatchCriteria", r.Match)
	x.time("createDate", r.Created)
	x.str("reservationType", r.Kind)
	x.bool("interruptible", r.Interruptible)
	if r.Source != "" {
		x.in("interruptionInfo", func() {
			x.str("sourceCapacityReservationId", r.Source)
			x.str("interruptionType", "adhoc")
		})
	}
	x.tagSet(r.Tags)
}

func createCapacityReservation(c *call) error {
	r := &reservation{
		Type: c.q.str("InstanceType"), Zone: c.q.str("AvailabilityZone"), Platform: c.q.str("InstancePlatform"),
		Tenancy: c.q.str("Tenancy"), Match: orDefault(c.q.str("InstanceMatchCriteria"), "open"), Kind: "default",
		Total: c.q.int("InstanceCount", 0), Created: c.at, End: c.q.time("EndDate"), Tags: c.tagsFor("capacity-reservation"),
	}
	if err := c.q.err(); err != nil {
		return err
	}
	if r.Zone == "" {
		r.Zone = c.reg.zoneName(c.q.str("AvailabilityZoneId"))
	}
	if err := c.checkReservation(r); err != nil {
		return err
	}
	return c.once("CreateCapacityReservation", func() error {
		r.ID = c.id("cr-", 17)
		c.reg.Reservations.put(r.ID, r)
		c.x.in("capacityReservation", func() { c.writeReservation(r) })
		return nil
	})
}

func (c *call) checkReservation(r *reservation) error {
	switch {
	case c.cat.Type(r.Type) == nil:
		return fail("InvalidParameterValue", "Invalid value '%s' for InstanceType.", r.Type)
	case !c.reg.offers.InZone(r.Type, r.Zone):
		return fail("Unsupported", "The instance type %s is not supported in the Availability Zone %q.", r.Type, r.Zone)
	case r.Total < 1:
		return badValue("InstanceCount", c.q.str("InstanceCount"), "It must be at least 1.")
	case r.Match != "open" && r.Match != "targeted":
		return badValue("InstanceMatchCriteria", r.Match, "It must be open or targeted.")
	}
	return nil
}

func cancelCapacityReservation(c *call) error {
	r := c.reg.Reservations.get(c.q.str("CapacityReservationId"))
	if r == nil {
		return errReservation(c.q.str("CapacityReservationId"))
	}
	r.Cancelled = true
	// What runs in it goes on as ordinary on-demand capacity.
	for in := range c.reg.Instances.each {
		if in.CapacityReservation == r.ID {
			in.CapacityReservation = ""
		}
	}
	c.x.bool("return", true)
	return nil
}

func modifyCapacityReservation(c *call) error {
	r := c.reg.Reservations.get(c.q.str("CapacityReservationId"))
	if r == nil {
		return errReservation(c.q.str("CapacityReservationId"))
	}
	r.Total = c.q.int("InstanceCount", r.Total)
	if end := c.q.time("EndDate"); !end.IsZero() {
		r.End = end
	}
	if m := c.q.str("InstanceMatchCriteria"); m != "" {
		r.Match = m
	}
	c.x.bool("return", true)
	return c.q.err()
}

// createInterruptible cuts part of a reservation into one whose instances can
// be asked back.
func createInterruptible(c *call) error {
	src := c.reg.Reservations.get(c.q.str("CapacityReservationId"))
	if src == nil {
		return errReservation(c.q.str("CapacityReservationId"))
	}
	n := c.q.int("InstanceCount", 0)
	if err := c.q.err(); err != nil {
		return err
	}
	if n < 1 || n > src.Total-src.Used {
		return badValue("InstanceCount", c.q.str("InstanceCount"), "It must be at least 1 and at most the available count of the reservation.")
	}
	src.Total -= n
	r := *src
	r.ID, r.Total, r.Used, r.Interruptible, r.Source, r.Match = c.id("cr-", 17), n, 0, true, src.ID, "targeted"
	r.Tags = c.tagsFor("capacity-reservation")
	c.reg.Reservations.put(r.ID, &r)
	c.x.str("sourceCapacityReservationId", src.ID)
	c.x.int("targetInstanceCount", n)
	c.x.str("status", "active")
	c.x.str("interruptionType", "adhoc")
	return nil
}

// updateInterruptible changes how much is lent out. What no longer fits is
// interrupted: a warning now, the end after the notice.
func updateInterruptible(c *call) error {
	src := c.reg.Reservations.get(c.q.str("CapacityReservationId"))
	if src == nil {
		return errReservation(c.q.str("CapacityReservationId"))
	}
	var lent *reservation
	for r := range c.reg.Reservations.each {
		if r.Source == src.ID {
			lent = r
		}
	}
	if lent == nil {
		return fail("InvalidCapacityReservationId.NotFound", "The capacity reservation %s has no interruptible allocation", src.ID)
	}
	want := c.q.int("TargetInstanceCount", lent.Total)
	if err := c.q.err(); err != nil {
		return err
	}
	if want < 0 || want > lent.Total+src.Total-src.Used {
		return badValue("TargetInstanceCount", c.q.str("TargetInstanceCount"), "It is more than the reservation has.")
	}
	src.Total += lent.Total - want
	lent.Total = want
	over := lent.Used - lent.Total
	for in := range c.reg.Instances.each {
		if over > 0 && in.CapacityReservation == lent.ID && in.alive() && !in.Reclaim {
			c.interrupt(in, c.at)
			over--
		}
	}
	c.x.str("interruptibleCapacityReservationId", lent.ID)
	c.x.str("sourceCapacityReservationId", src.ID)
	c.x.int("instanceCount", lent.Used)
	c.x.int("targetInstanceCount", want)
	c.x.str("status", "updating")
	c.x.str("interruptionType", "adhoc")
	return nil
}

type placementGroup struct {
	ID, Name, Strategy, SpreadLevel string
	Partitions                      int
	Tags                            tagSet
}

func describePlacementGroups(c *call) error {
	ids := c.q.strs("GroupId")
	for _, name := range c.q.strs("GroupName") {
		id := name
		for g := range c.reg.Placements.each {
			if g.Name == name {
				id = g.ID
			}
		}
		ids = append(ids, id)
	}
	unknown := notFound("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.")
	all, err := pick[placementGroup]{ids, unknown, func(g *placementGroup) field {
		return func(name string, out []string) ([]string, bool) {
			switch name {
			case "group-name":
				return append(out, g.Name), true
			case "group-arn":
				return append(out, c.arn("ec2", "placement-group/"+g.Name)), true
			case "state":
				return append(out, "available"), true
			case "strategy":
				return append(out, g.Strategy), true
			case "spread-level":
				return append(out, g.SpreadLevel), true
			}
			return tagField(g.Tags, name, out)
		}
	}}.from(c, c.reg.Placements)
	if err != nil {
		return err
	}
	c.x.in("placementGroupSet", func() {
		for _, g := range shown(c, all) {
			c.x.in("item", func() { c.writePlacement(g) })
		}
	})
	return nil
}

func (c *call) writePlacement(g *placementGroup) {
	c.x.str("groupName", g.Name)
	c.x.str("groupId", g.ID)
	c.x.str("groupArn", c.arn("ec2", "placement-group/"+g.Name))
	c.x.str("state", "available")
	c.x.str("strategy", g.Strategy)
	c.x.opt("spreadLevel", g.SpreadLevel)
	c.x.optInt("partitionCount", g.Partitions)
	c.x.tagSet(g.Tags)
}

// maxPartitions is EC2's limit per zone.
const maxPartitions = 7

func createPlacementGroup(c *call) error {
	g := &placementGroup{Name: c.q.str("GroupName"), Strategy: orDefault(c.q.str("Strategy"), "cluster"), Tags: c.tagsFor("placement-group")}
	if g.Name == "" {
		return missing("GroupName")
	}
	for o := range c.reg.Placements.each {
		if o.Name == g.Name {
			return fail("InvalidPlacementGroup.Duplicate", "The Placement Group '%s' already exists.", g.Name)
		}
	}
	switch g.Strategy {
	case "cluster":
	case "spread":
		g.SpreadLevel = orDefault(c.q.str("SpreadLevel"), "rack")
	case "partition":
		g.Partitions = c.q.int("PartitionCount", 2)
		if g.Partitions < 1 || g.Partitions > maxPartitions {
			return badValue("PartitionCount", c.q.str("PartitionCount"), "It must be between 1 and 7.")
		}
	default:
		return badValue("Strategy", g.Strategy, "It must be cluster, spread or partition.")
	}
	g.ID = c.id("pg-", 17)
	c.reg.Placements.put(g.ID, g)
	c.x.in("placementGroup", func() { c.writePlacement(g) })
	return c.q.err()
}

func deletePlacementGroup(c *call) error {
	name := c.q.str("GroupName")
	for g := range c.reg.Placements.each {
		if g.Name != name && g.ID != name {
			continue
		}
		for in := range c.reg.Instances.each {
			if in.GroupID == g.ID && in.alive() {
				return fail("InvalidPlacementGroup.InUse", "The placement group '%s' is in use and may not be deleted.", name)
			}
		}
		c.reg.Placements.delete(g.ID)
		c.x.bool("return", true)
		return nil
	}
	return fail("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", name)
}

func describeVolumes(c *call) error {
	all, err := pick[volume]{c.q.strs("VolumeId"), notFound("InvalidVolume.NotFound", "The volume '%s' does not exist."), func(v *volume) field {
		return func(name string, out []string) ([]string, bool) {
			switch name {
			case "attachment.instance-id":
				return append(out, v.Instance), true
			case "attachment.device":
				return append(out, v.Device), true
			case "volume-id":
				return append(out, v.ID), true
			case "availability-zone":
				return append(out, v.Zone), true
			case "volume-type":
				return append(out, v.Type), true
			case "status":
				return append(out, v.status()), true
			case "encrypted":
				return append(out, boolWord(v.Encrypted)), true
			}
			return tagField(v.Tags, name, out)
		}
	}}.from(c, c.reg.Volumes)
	if err != nil {
		return err
	}
	all, next, err := page(c, all, pages{5, 1000, 0})
	if err != nil {
		return err
	}
	c.x.in("volumeSet", func() {
		for _, v := range all {
			c.x.in("item", func() { writeVolume(c.x, v) })
		}
	})
	c.x.opt("nextToken", next)
	return nil
}

func (v *volume) status() string {
	if v.Instance == "" {
		return "available"
	}
	return "in-use"
}

func writeVolume(x *xmlWriter, v *volume) {
	x.str("volumeId", v.ID)
	x.int("size", v.SizeGB)
	x.str("snapshotId", v.Snapshot)
	x.str("availabilityZone", v.Zone)
	x.str("status", v.status())
	x.time("createTime", v.At)
	x.in("attachmentSet", func() {
		if v.Instance == "" {
			return
		}
		x.in("item", func() {
			x.str("volumeId", v.ID)
			x.str("instanceId", v.Instance)
			x.str("device", v.Device)
			x.str("status", "attached")
			x.time("attachTime", v.At)
			x.bool("deleteOnTermination", true)
		})
	})
	x.bool("encrypted", v.Encrypted)
	x.opt("kmsKeyId", v.KMSKey)
	x.str("volumeType", v.Type)
	x.optInt("iops", v.IOPS)
	x.optInt("throughput", v.Throughput)
	x.tagSet(v.Tags)
}

func describeSpotInstanceRequests(c *call) error {
	all, err := pick[spotRequest]{c.q.strs("SpotInstanceRequestId"), notFound("InvalidSpotInstanceRequestID.NotFound", "The spot instance request ID '%s' does not exist"), func(r *spotRequest) field {
		return func(name string, out []string) ([]string, bool) {
			switch name {
			case "state":
				return append(out, r.State), true
			case "status-code":
				return append(out, r.Status), true
			case "instance-id":
				return append(out, r.Instance), true
			case "launched-availability-zone":
				return append(out, r.Zone), true
			}
			return tagField(r.Tags, name, out)
		}
	}}.from(c, c.reg.SpotRequests)
	if err != nil {
		return err
	}
	all, next, err := page(c, all, pages{5, 1000, 0})
	if err != nil {
		return err
	}
	c.x.in("spotInstanceRequestSet", func() {
		for _, r := range all {
			c.x.in("item", func() {
				c.x.str("spotInstanceRequestId", r.ID)
				c.x.str("type", "one-time")
				c.x.str("state", r.State)
				c.x.in("status", func() {
					c.x.str("code", r.Status)
					c.x.time("updateTime", r.At)
					c.x.str("message", strings.ReplaceAll(r.Status, "-", " "))
				})
				c.x.str("instanceId", r.Instance)
				c.x.time("createTime", r.At)
				c.x.str("productDescription", "Linux/UNIX")
				c.x.str("launchedAvailabilityZone", r.Zone)
				c.x.str("instanceInterruptionBehavior", "terminate")
				c.x.tagSet(r.Tags)
			})
		}
	})
	c.x.opt("nextToken", next)
	return nil
}
