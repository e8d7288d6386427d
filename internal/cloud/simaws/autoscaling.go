package simaws

import (
	"slices"
	"strings"
	"time"
)

// autoScalingGroup is a record of what a group should be: it launches nothing. Those who migrate away from groups read
// them, and nobody else here does.
type autoScalingGroup struct {
	Name, ARN, VPCZoneIdentifier string
	Min, Max, Desired            int
	Created                      time.Time
	// Template is what instances are made from; with Mixed it stands inside the policy.
	Template groupTemplate
	Mixed    bool
	// Config names a launch configuration, which stands in the place of a template.
	Config string
	// Overrides are the types that a mixed policy names instead of the template's.
	Overrides                 []groupOverride
	OnDemandBase, OnDemandPct int
	Tags                      tagSet
}

type groupTemplate struct{ ID, Name, Version string }

type groupOverride struct {
	Type, Weight string
	Attributes   *attributes
}

// groupPage is the largest page of Auto Scaling groups, and what is given unasked groupUnasked.
const (
	groupPage    = 100
	groupUnasked = 50
)

func errScaling(format string, args ...any) *apiError {
	return fail("ValidationError", format, args...)
}

func readGroupTemplate(n *node) groupTemplate {
	return groupTemplate{n.str("LaunchTemplateId"), n.str("LaunchTemplateName"), n.str("Version")}
}

func createAutoScalingGroup(c *call) error {
	name := c.q.str("AutoScalingGroupName")
	if name == "" || len(name) > 255 {
		return errScaling("AutoScalingGroupName %q must have 1 to 255 characters", name)
	}
	if c.reg.ScalingGroups.get(name) != nil {
		return fail("AlreadyExists", "AutoScalingGroup by this name already exists - A group with the name %s already exists", name)
	}
	g := &autoScalingGroup{
		Name: name, VPCZoneIdentifier: c.q.str("VPCZoneIdentifier"), Min: c.q.int("MinSize", 0), Max: c.q.int("MaxSize", 0), Created: c.at,
		OnDemandPct: 100, Config: c.q.str("LaunchConfigurationName"), Template: readGroupTemplate(c.q.at("LaunchTemplate")), Tags: tagSet(nil).with(c.q.tags("Tags")...),
	}
	g.Desired = c.q.int("DesiredCapacity", g.Min)
	g.ARN = c.arn("autoscaling", "autoScalingGroup:"+c.uuid()+":autoScalingGroupName/"+name)
	if policy := c.q.at("MixedInstancesPolicy"); policy != nil {
		g.Mixed, g.Template = true, readGroupTemplate(policy.at("LaunchTemplate.LaunchTemplateSpecification"))
		g.OnDemandBase = policy.int("InstancesDistribution.OnDemandBaseCapacity", 0)
		g.OnDemandPct = policy.int("InstancesDistribution.OnDemandPercentageAboveBaseCapacity", 100)
		for _, o := range policy.items("LaunchTemplate.Overrides") {
			g.Overrides = append(g.Overrides, groupOverride{o.str("InstanceType"), o.str("WeightedCapacity"), parseAttributes(o.at("InstanceRequirements"), "s")})
		}
	}
	if err := c.q.err(); err != nil {
		return err
	}
	if err := c.checkGroup(g); err != nil {
		return err
	}
	c.reg.ScalingGroups.put(name, g)
	return nil
}

// checkGroup finds what AWS refuses, and fills in the template's id or name.
func (c *call) checkGroup(g *autoScalingGroup) error {
	if g.Min < 0 || g.Min > g.Desired || g.Desired > g.Max {
		return errScaling("Desired capacity:%d must be between the specified min size:%d and max size:%d", g.Desired, g.Min, g.Max)
	}
	for _, id := range g.subnets() {
		if c.reg.Subnets.get(id) == nil {
			return errScaling("The subnet ID '%s' does not exist", id)
		}
	}
	templated := g.Template.ID != "" || g.Template.Name != ""
	switch {
	case templated == (g.Config != ""):
		return errScaling("Valid requests must contain either LaunchTemplate, LaunchConfigurationName, InstanceId or MixedInstancesPolicy parameter.")
	case templated:
		return c.checkGroupTemplate(g)
	case c.reg.LaunchConfigs.get(g.Config) == nil:
		return errScaling("Launch configuration name not found - Launch configuration %s not found", g.Config)
	}
	return nil
}

func (c *call) checkGroupTemplate(g *autoScalingGroup) error {
	t, err := c.template(g.Template.ID, g.Template.Name)
	if err != nil {
		return errScaling("You must use a valid fully-formed launch template. %v", err)
	}
	if _, err := t.version(g.Template.Version); err != nil {
		return errScaling("You must use a valid fully-formed launch template. %v", err)
	}
	g.Template.ID, g.Template.Name = t.ID, t.Name
	for _, o := range g.Overrides {
		if o.Attributes != nil && o.Type != "" {
			return errScaling("You cannot specify InstanceType and InstanceRequirements in the same override.")
		}
		if err := o.Attributes.check(); err != nil {
			return errScaling("%v", err)
		}
	}
	return nil
}

func (g *autoScalingGroup) subnets() []string {
	return slices.DeleteFunc(strings.Split(g.VPCZoneIdentifier, ","), func(id string) bool { return id == "" })
}

func deleteAutoScalingGroup(c *call) error {
	name := c.q.str("AutoScalingGroupName")
	if c.reg.ScalingGroups.get(name) == nil {
		return errScaling("AutoScalingGroup name not found - AutoScalingGroup '%s' not found", name)
	}
	c.reg.ScalingGroups.delete(name)
	return nil
}

func describeAutoScalingGroups(c *call) error {
	names := c.q.strs("AutoScalingGroupNames")
	var filters []filter
	for _, f := range c.q.items("Filters") {
		filters = append(filters, filter{f.str("Name"), f.strs("Values")})
	}
	var all []*autoScalingGroup
	for g := range c.reg.ScalingGroups.each {
		ok, err := matches(filters, func(name string, out []string) ([]string, bool) { return tagField(g.Tags, name, out) })
		if err != nil {
			return errScaling("%v", err)
		}
		if ok && (len(names) == 0 || slices.Contains(names, g.Name)) {
			all = append(all, g)
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
	c.x.in("AutoScalingGroups", func() {
		for _, g := range part {
			c.x.in("member", func() { c.writeGroup(g) })
		}
	})
	c.x.opt("NextToken", next)
	return nil
}

func (c *call) writeGroup(g *autoScalingGroup) {
	x := c.x
	x.str("AutoScalingGroupName", g.Name)
	x.str("AutoScalingGroupARN", g.ARN)
	x.int("MinSize", g.Min)
	x.int("MaxSize", g.Max)
	x.int("DesiredCapacity", g.Desired)
	x.int("DefaultCooldown", 300)
	x.str("HealthCheckType", "EC2")
	x.time("CreatedTime", g.Created)
	x.str("VPCZoneIdentifier", g.VPCZoneIdentifier)
	x.in("AvailabilityZones", func() {
		for _, id := range g.subnets() {
			if s := c.reg.Subnets.get(id); s != nil {
				x.str("member", s.Zone)
			}
		}
	})
	x.raw("<Instances></Instances>")
	switch {
	case g.Mixed:
		x.in("MixedInstancesPolicy", func() { c.writeMixed(g) })
	case g.Config != "":
		x.str("LaunchConfigurationName", g.Config)
	default:
		x.in("LaunchTemplate", func() { writeGroupTemplate(x, g.Template) })
	}
	x.in("Tags", func() {
		for _, t := range g.Tags {
			x.in("member", func() {
				x.str("Key", t.Key)
				x.str("Value", t.Value)
				x.str("ResourceId", g.Name)
				x.str("ResourceType", "auto-scaling-group")
				x.bool("PropagateAtLaunch", true)
			})
		}
	})
}

func (c *call) writeMixed(g *autoScalingGroup) {
	x := c.x
	x.in("LaunchTemplate", func() {
		x.in("LaunchTemplateSpecification", func() { writeGroupTemplate(x, g.Template) })
		x.in("Overrides", func() {
			for _, o := range g.Overrides {
				x.in("member", func() {
					x.opt("InstanceType", o.Type)
					x.opt("WeightedCapacity", o.Weight)
					if o.Attributes != nil {
						x.in("InstanceRequirements", func() { o.Attributes.write(x, scalingAttributes) })
					}
				})
			}
		})
	})
	x.in("InstancesDistribution", func() {
		x.str("OnDemandAllocationStrategy", "prioritized")
		x.int("OnDemandBaseCapacity", g.OnDemandBase)
		x.int("OnDemandPercentageAboveBaseCapacity", g.OnDemandPct)
		x.str("SpotAllocationStrategy", "lowest-price")
	})
}

func writeGroupTemplate(x *xmlWriter, t groupTemplate) {
	x.str("LaunchTemplateId", t.ID)
	x.str("LaunchTemplateName", t.Name)
	x.opt("Version", t.Version)
}

// autoscalingOperations is the Auto Scaling part of the operation table.
var autoscalingOperations = map[string]*operation{
	"CreateAutoScalingGroup":    {query: createAutoScalingGroup, writes: true},
	"DeleteAutoScalingGroup":    {query: deleteAutoScalingGroup, writes: true},
	"DescribeAutoScalingGroups": {query: describeAutoScalingGroups},

	"CreateLaunchConfiguration":    {query: createLaunchConfiguration, writes: true},
	"DeleteLaunchConfiguration":    {query: deleteLaunchConfiguration, writes: true},
	"DescribeLaunchConfigurations": {query: describeLaunchConfigurations},
}
