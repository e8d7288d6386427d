package simaws

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"
)

func runInstances(c *call) error {
	over, err := parseLaunchData(c.q)
	if err != nil {
		return err
	}
	minimum, maximum := c.q.int("MinCount", 0), c.q.int("MaxCount", 0)
	if err := c.q.err(); err != nil {
		return err
	}
	if minimum < 1 || maximum < minimum || maximum > maxFleet {
		return fail("InvalidParameterValue", "MinCount (%d) must be at least 1 and at most MaxCount (%d), which is at most %d.", minimum, maximum, maxFleet)
	}
	data := over
	var tmpl *launchTemplate
	number := 0
	if spec := c.q.at("LaunchTemplate"); spec != nil {
		if tmpl, err = c.template(spec.str("LaunchTemplateId"), spec.str("LaunchTemplateName")); err != nil {
			return err
		}
		v, err := tmpl.version(spec.str("Version"))
		if err != nil {
			return err
		}
		data, number = v.Data.merged(over), v.Number
	}
	capacityType := "on-demand"
	if data.MarketType != "" {
		capacityType = data.MarketType
	}
	t, perr := c.prepare(wish{data: data, capacityType: capacityType})
	if perr != nil {
		return perr
	}
	t.template, t.version = tmpl, number
	if err := c.authorizeRun(t, "RunInstances"); err != nil {
		return err
	}
	if c.q.bool("DryRun") {
		return errDryRun
	}
	return c.once("RunInstances", func() error { return c.launchMany(t, minimum, maximum) })
}

// launchMany launches at least minimum instances or none.
func (c *call) launchMany(t *target, minimum, maximum int) error {
	var made []*instance
	for range maximum {
		in, err := c.launch(t)
		if err != nil && len(made) < minimum {
			for _, m := range made {
				c.terminate(m, c.at)
			}
			return err
		}
		if err != nil {
			break
		}
		made = append(made, in)
	}
	r := made[0].Reservation
	for _, in := range made {
		in.Reservation = r
	}
	c.x.str("reservationId", r)
	c.x.str("ownerId", c.acct.ID)
	c.x.in("groupSet", func() {})
	c.x.in("instancesSet", func() {
		for _, in := range made {
			c.x.in("item", func() { c.writeInstance(in, in.state()) })
		}
	})
	return nil
}

// errInstances names all instances that a describe does not find, as EC2 does.
func errInstances(ids []string) *apiError {
	if len(ids) == 1 {
		return errInstance(ids[0])
	}
	return fail("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", strings.Join(ids, ", "))
}

func errInstance(id string) *apiError {
	return fail("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
}

// view is the time that a describe shows: now, or earlier by a fault.
func (c *call) view() time.Time { return c.at.Add(-c.behind) }

// sees says whether a describe shows the instance yet.
func (c *call) sees(in *instance) bool {
	return in != nil && !c.empty && !in.VisibleAt.After(c.view()) && !in.Launched.After(c.view())
}

// tagsOf is what a describe shows of the instance's tags.
func (c *call) tagsOf(in *instance) tagSet {
	if c.at.Sub(in.Launched) < c.untagged {
		return nil
	}
	return in.Tags
}

func (c *call) instanceField(in *instance) field {
	return func(name string, out []string) ([]string, bool) {
		switch name {
		case "instance-state-name":
			return append(out, in.stateAt(c.view())), true
		case "instance-state-code":
			return append(out, strconv.Itoa(stateCodes[in.stateAt(c.view())])), true
		case "instance-id":
			return append(out, in.ID), true
		case "instance-type":
			return append(out, in.Type), true
		case "image-id":
			return append(out, in.ImageID), true
		case "availability-zone", "placement.availability-zone":
			return append(out, in.Zone), true
		case "availability-zone-id":
			return append(out, in.ZoneID), true
		case "subnet-id", "network-interface.subnet-id":
			return append(out, in.Subnet), true
		case "vpc-id":
			return append(out, in.VPC), true
		case "instance-lifecycle":
			if in.Lifecycle == "" {
				return append(out, "scheduled"), true
			}
			return append(out, in.Lifecycle), true
		case "spot-instance-request-id":
			return append(out, in.SpotRequest), true
		case "reservation-id":
			return append(out, in.Reservation), true
		case "capacity-reservation-id":
			return append(out, in.CapacityReservation), true
		case "private-dns-name":
			return append(out, in.PrivateDNS), true
		case "private-ip-address":
			return append(out, in.PrivateIP), true
		case "iam-instance-profile.arn":
			return append(out, in.ProfileARN), true
		case "iam-instance-profile.id":
			return append(out, in.ProfileID), true
		case "instance.group-id", "group-id", "network-interface.group-id":
			return append(out, in.Groups...), true
		case "placement-group-name":
			return append(out, in.GroupName), true
		case "architecture":
			return append(out, in.Arch), true
		case "platform":
			return append(out, in.Platform), true
		case "tenancy":
			return append(out, in.Tenancy), true
		case "client-token":
			return append(out, in.ClientToken), true
		case "owner-id":
			return append(out, c.acct.ID), true
		case "launch-time":
			return append(out, in.Launched.Format(xmlTime)), true
		}
		return tagField(c.tagsOf(in), name, out)
	}
}

// found lists the instances that ids and filters leave and that are visible.
func (c *call) found() ([]*instance, error) {
	ids := c.q.strs("InstanceId")
	var lacking []string
	for _, id := range ids {
		if !c.empty && !c.sees(c.reg.Instances.get(id)) {
			lacking = append(lacking, id)
		}
	}
	if len(lacking) > 0 {
		return nil, errInstances(lacking)
	}
	all, err := pick[instance]{ids, errInstance, c.instanceField}.from(c, c.reg.Instances)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(in *instance) bool { return !c.sees(in) }), nil
}

func describeInstances(c *call) error {
	if c.q.has("InstanceId") && c.q.has("MaxResults") {
		return fail("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults")
	}
	all, err := c.found()
	if err != nil {
		return err
	}
	all, next, err := page(c, all, pages{5, 1000, 1000})
	if err != nil {
		return err
	}
	x := c.x
	x.open("reservationSet")
	for i := 0; i < len(all); {
		r := all[i].Reservation
		x.open("item")
		x.str("reservationId", r)
		x.str("ownerId", c.acct.ID)
		x.raw("<groupSet/>")
		x.open("instancesSet")
		for ; i < len(all) && all[i].Reservation == r; i++ {
			x.open("item")
			c.writeInstance(all[i], all[i].stateAt(c.view()))
			x.close("item")
		}
		x.close("instancesSet")
		x.close("item")
	}
	x.close("reservationSet")
	x.opt("nextToken", next)
	return nil
}

func writeState(x *xmlWriter, name, state string) {
	x.open(name)
	x.int("code", stateCodes[state])
	x.str("name", state)
	x.close(name)
}

// byID finds the instances an action names; all must exist.
func (c *call) byID() ([]*instance, error) {
	ids := c.q.strs("InstanceId")
	if len(ids) == 0 {
		return nil, missing("InstanceId")
	}
	var out []*instance
	for _, id := range ids {
		in := c.reg.Instances.get(id)
		if in == nil || in.VisibleAt.After(c.at) {
			return nil, errInstance(id)
		}
		if !slices.Contains(out, in) {
			out = append(out, in)
		}
	}
	return out, nil
}

// changeState is the common part of terminate, stop and start.
func (c *call) changeState(action, set string, do func(*instance, time.Time) string) error {
	all, err := c.byID()
	if err != nil {
		return err
	}
	for _, in := range all {
		if err := c.allow(action, c.arn("ec2", "instance/"+in.ID), conditionTags(in.Tags, nil)); err != nil {
			return err
		}
	}
	if c.q.bool("DryRun") {
		return errDryRun
	}
	c.x.in(set, func() {
		for _, in := range all {
			was := do(in, c.at)
			c.x.in("item", func() {
				c.x.str("instanceId", in.ID)
				writeState(c.x, "currentState", in.state())
				writeState(c.x, "previousState", was)
			})
		}
	})
	return nil
}

func terminateInstances(c *call) error {
	return c.changeState("ec2:TerminateInstances", "instancesSet", func(in *instance, at time.Time) string {
		if in.Reason == "" {
			in.Reason, in.ReasonCode = "Client.UserInitiatedShutdown: User initiated shutdown", "Client.UserInitiatedShutdown"
		}
		return c.terminate(in, at)
	})
}

// rebootInstances restarts instances. One that is not running is left as it is, as EC2 does with one that is stopped.
func rebootInstances(c *call) error {
	all, err := c.byID()
	if err != nil {
		return err
	}
	for _, in := range all {
		if !in.alive() {
			return fail("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be rebooted.", in.ID)
		}
		if err := c.allow("ec2:RebootInstances", c.arn("ec2", "instance/"+in.ID), conditionTags(in.Tags, nil)); err != nil {
			return err
		}
	}
	if c.q.bool("DryRun") {
		return errDryRun
	}
	for _, in := range all {
		c.reboot(in, c.at)
	}
	c.x.str("return", "true")
	return nil
}

// inState refuses a change for which an instance is in no fit state.
func (c *call) inState(verb string, fit ...string) error {
	all, err := c.byID()
	if err != nil {
		return err
	}
	for _, in := range all {
		if !slices.Contains(fit, in.state()) {
			return fail("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be %s.", in.ID, verb)
		}
	}
	return nil
}

func stopInstances(c *call) error {
	if err := c.inState("stopped", statePending, stateRunning, stateStopping, stateStopped); err != nil {
		return err
	}
	return c.changeState("ec2:StopInstances", "instancesSet", c.stop)
}

func startInstances(c *call) error {
	if err := c.inState("started", statePending, stateRunning, stateStopped); err != nil {
		return err
	}
	return c.changeState("ec2:StartInstances", "instancesSet", c.start)
}

func describeInstanceAttribute(c *call) error {
	in := c.reg.Instances.get(c.q.str("InstanceId"))
	if in == nil {
		return errInstance(c.q.str("InstanceId"))
	}
	c.x.str("instanceId", in.ID)
	value := func(name, v string) {
		c.x.in(name, func() { c.x.opt("value", v) })
	}
	switch a := c.q.str("Attribute"); a {
	case "userData":
		value("userData", in.UserData)
	case "instanceType":
		value("instanceType", in.Type)
	case "disableApiTermination", "ebsOptimized", "sourceDestCheck":
		value(a, "false")
	default:
		return badValue("Attribute", a, "The simulator answers userData, instanceType, disableApiTermination, ebsOptimized and sourceDestCheck.")
	}
	return nil
}

func getConsoleOutput(c *call) error {
	in := c.reg.Instances.get(c.q.str("InstanceId"))
	if in == nil {
		return errInstance(c.q.str("InstanceId"))
	}
	c.x.str("instanceId", in.ID)
	c.x.time("timestamp", in.History[len(in.History)-1].At)
	c.x.opt("output", base64.StdEncoding.EncodeToString([]byte(in.Console)))
	return nil
}
