package simaws

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

type launchTemplate struct {
	ID, Name  string
	Created   time.Time
	CreatedBy string
	Tags      tagSet
	Versions  []launchVersion
	Default   int
	// VisibleAt is when describes begin to show it.
	VisibleAt time.Time
}

type launchVersion struct {
	Number      int
	Description string
	At          time.Time
	By          string
	Data        launchData
}

func errTemplateName(name string) *apiError {
	return fail("InvalidLaunchTemplateName.NotFoundException", "At least one of the launch templates specified in the request does not exist. (%s)", name)
}

func errTemplateID(id string) *apiError {
	return fail("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", id)
}

// template finds a template by id or name.
func (c *call) template(id, name string) (*launchTemplate, error) {
	if id != "" && name != "" {
		return nil, fail("InvalidParameterCombination", "Either LaunchTemplateId or LaunchTemplateName may be given, not both")
	}
	if id != "" {
		if t := c.reg.Templates.get(id); t != nil {
			return t, nil
		}
		return nil, errTemplateID(id)
	}
	if name == "" {
		return nil, missing("LaunchTemplateId or LaunchTemplateName")
	}
	if t := c.reg.templateNamed(name); t != nil {
		return t, nil
	}
	return nil, errTemplateName(name)
}

func (r *region) templateNamed(name string) *launchTemplate {
	for t := range r.Templates.each {
		if t.Name == name {
			return t
		}
	}
	return nil
}

func createLaunchTemplate(c *call) error {
	name := c.q.str("LaunchTemplateName")
	if len(name) < 3 || len(name) > 128 || strings.Trim(name, templateNameChars) != "" {
		return fail("InvalidLaunchTemplateName.MalformedException", "A launch template name must be 3 to 128 characters of a-z, A-Z, 0-9 and ().-/_ (got %q)", name)
	}
	data, err := parseLaunchData(c.q.at("LaunchTemplateData"))
	if err != nil {
		return err
	}
	tags := c.tagsFor("launch-template")
	if err := c.allowCreate("ec2:CreateLaunchTemplate", []resource{{arn: c.arn("ec2", "launch-template/*"), requested: tags}}); err != nil {
		return err
	}
	if c.q.bool("DryRun") {
		return errDryRun
	}
	return c.once("CreateLaunchTemplate", func() error {
		if c.reg.templateNamed(name) != nil {
			return fail("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
		}
		if c.reg.Templates.len() >= c.acct.Quotas.LaunchTemplates {
			return fail("MaxTemplateLimitExceeded", "You have reached the maximum number of launch templates (%d) for this region.", c.acct.Quotas.LaunchTemplates)
		}
		t := &launchTemplate{
			ID: c.id("lt-", 17), Name: name, Created: c.at, CreatedBy: c.who.ARN, Tags: tags, Default: 1,
			VisibleAt: c.visibleAt(),
			Versions:  []launchVersion{{Number: 1, Description: c.q.str("VersionDescription"), At: c.at, By: c.who.ARN, Data: data}},
		}
		c.reg.Templates.put(t.ID, t)
		c.x.in("launchTemplate", func() { c.writeTemplate(t) })
		return nil
	})
}

const templateNameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789().-/_"

func createLaunchTemplateVersion(c *call) error {
	t, err := c.template(c.q.str("LaunchTemplateId"), c.q.str("LaunchTemplateName"))
	if err != nil {
		return err
	}
	data, err := parseLaunchData(c.q.at("LaunchTemplateData"))
	if err != nil {
		return err
	}
	if src := c.q.str("SourceVersion"); src != "" {
		v, err := t.version(src)
		if err != nil {
			return err
		}
		data = v.Data.merged(data)
	}
	v := launchVersion{Number: len(t.Versions) + 1, Description: c.q.str("VersionDescription"), At: c.at, By: c.who.ARN, Data: data}
	t.Versions = append(t.Versions, v)
	c.x.in("launchTemplateVersion", func() { c.writeVersion(t, &v) })
	return nil
}

func (c *call) writeTemplate(t *launchTemplate) {
	c.x.str("launchTemplateId", t.ID)
	c.x.str("launchTemplateName", t.Name)
	c.x.time("createTime", t.Created)
	c.x.str("createdBy", t.CreatedBy)
	c.x.int("defaultVersionNumber", t.Default)
	c.x.int("latestVersionNumber", len(t.Versions))
	c.x.tagSet(t.Tags)
}

// version resolves $Latest, $Default or a number.
func (t *launchTemplate) version(v string) (*launchVersion, error) {
	n := t.Default
	switch v {
	case "", "$Default":
	case "$Latest":
		n = len(t.Versions)
	default:
		var err error
		if n, err = strconv.Atoi(v); err != nil || n < 1 || n > len(t.Versions) {
			return nil, fail("InvalidLaunchTemplateId.VersionNotFound", "Could not find launch template version %s of %s", v, t.ID)
		}
	}
	return &t.Versions[n-1], nil
}

func describeLaunchTemplates(c *call) error {
	ids, names := c.q.strs("LaunchTemplateId"), c.q.strs("LaunchTemplateName")
	seen := func(t *launchTemplate) bool { return t != nil && !t.VisibleAt.After(c.at) && !c.empty }
	for _, n := range names {
		t := c.reg.templateNamed(n)
		if !seen(t) {
			return errTemplateName(n)
		}
		ids = append(ids, t.ID)
	}
	all, err := pick[launchTemplate]{ids, errTemplateID, func(t *launchTemplate) field {
		return func(name string, out []string) ([]string, bool) {
			switch name {
			case "launch-template-name":
				return append(out, t.Name), true
			case "create-time":
				return append(out, t.Created.Format(xmlTime)), true
			}
			return tagField(t.Tags, name, out)
		}
	}}.from(c, c.reg.Templates)
	if err != nil {
		return err
	}
	kept := all[:0]
	for _, t := range all {
		if seen(t) {
			kept = append(kept, t)
		}
	}
	part, next, err := page(c, kept, pages{1, 200, 200})
	if err != nil {
		return err
	}
	c.x.in("launchTemplates", func() {
		for _, t := range part {
			c.x.in("item", func() { c.writeTemplate(t) })
		}
	})
	c.x.opt("nextToken", next)
	return nil
}

func describeLaunchTemplateVersions(c *call) error {
	t, err := c.template(c.q.str("LaunchTemplateId"), c.q.str("LaunchTemplateName"))
	if err != nil {
		return err
	}
	var out []*launchVersion
	for _, v := range c.q.strs("LaunchTemplateVersion") {
		got, err := t.version(v)
		if err != nil {
			return err
		}
		out = append(out, got)
	}
	if len(out) == 0 {
		for i := range t.Versions {
			out = append(out, &t.Versions[i])
		}
	}
	c.x.in("launchTemplateVersionSet", func() {
		for _, v := range out {
			c.x.in("item", func() { c.writeVersion(t, v) })
		}
	})
	return nil
}

func (c *call) writeVersion(t *launchTemplate, v *launchVersion) {
	x := c.x
	x.str("launchTemplateId", t.ID)
	x.str("launchTemplateName", t.Name)
	x.int("versionNumber", v.Number)
	x.opt("versionDescription", v.Description)
	x.time("createTime", v.At)
	x.str("createdBy", v.By)
	x.bool("defaultVersion", v.Number == t.Default)
	x.in("launchTemplateData", func() { writeLaunchData(x, &v.Data) })
}

func writeLaunchData(x *xmlWriter, d *launchData) {
	x.opt("imageId", d.ImageID)
	x.opt("instanceType", d.InstanceType)
	if d.Attributes != nil {
		x.in("instanceRequirements", func() { d.Attributes.write(x, ec2Attributes) })
	}
	x.opt("keyName", d.KeyName)
	x.opt("userData", d.UserData)
	if d.ProfileARN != "" || d.ProfileName != "" {
		x.in("iamInstanceProfile", func() {
			x.opt("arn", d.ProfileARN)
			x.opt("name", d.ProfileName)
		})
	}
	x.in("monitoring", func() { x.bool("enabled", d.Monitoring) })
	if len(d.Groups) > 0 {
		x.strs("securityGroupIdSet", "item", d.Groups)
	}
	x.in("blockDeviceMappingSet", func() {
		for _, b := range d.Devices {
			x.in("item", func() {
				x.str("deviceName", b.Name)
				x.in("ebs", func() {
					x.opt("encrypted", b.Encrypted)
					x.opt("deleteOnTermination", b.DeleteOnTermination)
					x.optInt("iops", b.IOPS)
					x.opt("kmsKeyId", b.KMSKey)
					x.opt("snapshotId", b.SnapshotID)
					x.optInt("volumeSize", b.SizeGB)
					x.opt("volumeType", b.Type)
					x.optInt("throughput", b.Throughput)
				})
			})
		}
	})
	x.in("networkInterfaceSet", func() {
		for _, n := range d.Interfaces {
			x.in("item", func() {
				x.opt("associatePublicIpAddress", n.PublicIP)
				x.int("deviceIndex", n.Device)
				x.int("networkCardIndex", n.Card)
				x.opt("interfaceType", n.Kind)
				x.opt("subnetId", n.SubnetID)
				x.strs("groupSet", "groupId", n.Groups)
			})
		}
	})
	x.in("metadataOptions", func() { writeMetadata(x, d.Metadata) })
	x.in("tagSpecificationSet", func() {
		for _, kind := range sortedKeys(d.Tags) {
			x.in("item", func() {
				x.str("resourceType", kind)
				x.tagSet(d.Tags[kind])
			})
		}
	})
}

func writeMetadata(x *xmlWriter, m metadataOptions) {
	x.opt("httpTokens", m.Tokens)
	x.optInt("httpPutResponseHopLimit", m.HopLimit)
	x.opt("httpEndpoint", m.Endpoint)
	x.opt("httpProtocolIpv6", m.IPv6)
	x.opt("instanceMetadataTags", m.Tags)
}

func deleteLaunchTemplate(c *call) error {
	t, err := c.template(c.q.str("LaunchTemplateId"), c.q.str("LaunchTemplateName"))
	if err != nil {
		return err
	}
	if err := c.allow("ec2:DeleteLaunchTemplate", c.arn("ec2", "launch-template/"+t.ID), conditionTags(t.Tags, nil)); err != nil {
		return err
	}
	if c.q.bool("DryRun") {
		return errDryRun
	}
	c.reg.Templates.delete(t.ID)
	c.x.in("launchTemplate", func() { c.writeTemplate(t) })
	return nil
}

// once makes an operation answer a repeated client token with its first answer.
func (c *call) once(action string, do func() error) error {
	token := c.q.str("ClientToken")
	if token == "" {
		return do()
	}
	if len(token) > 128 {
		return badValue("ClientToken", token, "It may have at most 128 characters.")
	}
	key, hash := action+"/"+token, c.parameterHash()
	if old := c.reg.Tokens.get(key); old != nil && c.at.Sub(old.At) < tokenLife {
		if old.Hash != hash {
			return fail("IdempotentParameterMismatch", "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
		}
		answer := old.Answer
		if at := strings.Index(answer, "</fleetId>"); c.bare && at >= 0 {
			answer = answer[:at] + "</fleetId>"
		}
		c.x.raw(answer)
		return nil
	}
	start := len(c.x.b)
	if err := do(); err != nil {
		return err
	}
	c.reg.remember(key, &remembered{hash, string(c.x.b[start:]), c.at})
	return nil
}

// tokenLife is how long a client token is remembered, and maxTokens how many
// are; beyond that the oldest goes.
const (
	tokenLife = 24 * time.Hour
	maxTokens = 20000
)

func (r *region) remember(key string, v *remembered) {
	r.Tokens.delete(key)
	r.Tokens.put(key, v)
	for r.Tokens.len() > maxTokens {
		r.Tokens.delete(r.Tokens.Order[0])
	}
}

// parameterHash identifies what a request asks for, whatever its order.
func (c *call) parameterHash() string {
	flat := map[string]string{}
	c.q.flatten(flat)
	delete(flat, "ClientToken")
	raw, _ := json.Marshal(flat)
	return strconv.FormatUint(hashString(string(raw)), 16)
}

// flatten collects all values by full name.
func (n *node) flatten(into map[string]string) {
	if n.set {
		into[n.path] = n.value
	}
	for _, k := range n.kids {
		k.flatten(into)
	}
}
