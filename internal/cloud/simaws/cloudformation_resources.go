package simaws

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"karpenter/internal/cloud/simaws/policy"
)

// resourceKind knows how to make and remove one type of resource.
type resourceKind struct {
	// put makes the resource or, when old has the same name, changes it.
	put  func(*resourceProps) error
	drop func(*call, *stackResource) error
}

// resourceProps is a resource being made.
type resourceProps struct {
	*call
	stack *stack
	now   *stackResource
	props map[string]any
	// old is the resource as it was, in an update.
	old *stackResource
}

func (p *resourceProps) str(name string) string {
	switch v := p.props[name].(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

func (p *resourceProps) strs(name string) []string {
	var out []string
	list, _ := p.props[name].([]any)
	for _, v := range list {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

// document is a policy given as text or as a mapping.
func (p *resourceProps) document(name string) string {
	if s, ok := p.props[name].(string); ok {
		return strings.TrimSpace(s)
	}
	raw, err := json.Marshal(p.props[name])
	if err != nil {
		return ""
	}
	return string(raw)
}

func (p *resourceProps) tags() tagSet {
	var out tagSet
	list, _ := p.props["Tags"].([]any)
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			out = out.with(Tag{fmt.Sprint(m["Key"]), fmt.Sprint(m["Value"])})
		}
	}
	return out
}

// name is the given name or one made from stack and resource.
func (p *resourceProps) name(property string) string {
	if n := p.str(property); n != "" {
		return n
	}
	if p.old != nil {
		return p.old.Physical
	}
	return p.stack.Name + "-" + p.now.Logical + "-" + strings.ToUpper(strings.ReplaceAll(p.uuid(), "-", "")[:12])
}

var resourceKinds = map[string]*resourceKind{
	"AWS::IAM::Role":            {putRole, dropRole},
	"AWS::IAM::ManagedPolicy":   {putManagedPolicy, dropManagedPolicy},
	"AWS::IAM::InstanceProfile": {putInstanceProfile, dropInstanceProfile},
	"AWS::SQS::Queue":           {putQueue, dropQueue},
	"AWS::SQS::QueuePolicy":     {putQueuePolicy, dropQueuePolicy},
	"AWS::Events::Rule":         {putEventRule, dropEventRule},
}

func putRole(p *resourceProps) error {
	name := p.name("RoleName")
	r := &role{
		Name: name, Path: orDefault(p.str("Path"), "/"), Trust: p.document("AssumeRolePolicyDocument"), Description: p.str("Description"),
		Created: p.at, Inline: map[string]string{}, Attached: p.strs("ManagedPolicyArns"), Tags: p.tags(),
	}
	inline, _ := p.props["Policies"].([]any)
	for _, v := range inline {
		m, _ := v.(map[string]any)
		text, err := json.Marshal(m["PolicyDocument"])
		if err != nil {
			return err
		}
		if _, err := policy.Parse(string(text)); err != nil {
			return fail("MalformedPolicyDocument", "%v", err)
		}
		r.Inline[fmt.Sprint(m["PolicyName"])] = string(text)
	}
	for _, arn := range r.Attached {
		short, aws := strings.CutPrefix(arn, awsPolicyPrefix)
		if _, known := awsPolicies[short]; p.acct.IAM.Policies.get(arn) == nil && (!aws || !known) {
			return fail("NoSuchEntity", "Policy %s does not exist or is not attachable.", arn)
		}
	}
	if p.old != nil && p.old.Physical == name {
		old := p.acct.IAM.Roles.get(name)
		if old == nil {
			return noEntity("The role with name", name)
		}
		r.ID, r.ARN, r.Created = old.ID, old.ARN, old.Created
		p.acct.IAM.Roles.put(name, r)
	} else if err := p.acct.addRole(p.Sim, r); err != nil {
		return err
	}
	p.now.Physical = name
	p.now.Attributes = map[string]string{"Arn": r.ARN, "RoleId": r.ID}
	return nil
}

func dropRole(c *call, r *stackResource) error {
	o := c.acct.IAM.Roles.get(r.Physical)
	if o == nil {
		return nil
	}
	// What the stack attached goes with it; what others hold stops it.
	attached, inline := o.Attached, o.Inline
	o.Attached, o.Inline = nil, nil
	if err := c.acct.removeRole(o); err != nil {
		o.Attached, o.Inline = attached, inline
		return err
	}
	return nil
}

func putManagedPolicy(p *resourceProps) error {
	text := p.document("PolicyDocument")
	m := &managedPolicy{
		Name: p.name("ManagedPolicyName"), Path: orDefault(p.str("Path"), "/"), Description: p.str("Description"),
		Versions: []string{text}, Default: 1, Created: p.at,
	}
	// A physical id is an ARN here, so a made-up name comes back as one.
	m.Name = m.Name[strings.LastIndexByte(m.Name, '/')+1:]
	arn := "arn:aws:iam::" + p.acct.ID + ":policy" + m.Path + m.Name
	if p.old != nil && p.old.Physical == arn {
		old := p.acct.IAM.Policies.get(arn)
		if old == nil {
			return noEntity("Policy", arn)
		}
		if err := checkPolicyText(text); err != nil {
			return err
		}
		old.Versions = append(old.Versions, text)
		old.Default = len(old.Versions)
	} else if err := p.acct.addPolicy(p.Sim, m); err != nil {
		return err
	}
	for r := range p.acct.IAM.Roles.each {
		wanted := slices.Contains(p.strs("Roles"), r.Name)
		has := slices.Contains(r.Attached, arn)
		switch {
		case wanted && !has:
			r.Attached = append(r.Attached, arn)
		case !wanted && has && p.old != nil && strings.Contains(p.old.Properties, strconv.Quote(r.Name)):
			r.Attached = slices.DeleteFunc(r.Attached, func(a string) bool { return a == arn })
		}
	}
	p.now.Physical = arn
	p.now.Attributes = map[string]string{"PolicyArn": arn}
	return nil
}

func dropManagedPolicy(c *call, r *stackResource) error {
	var props struct{ Roles []string }
	if err := json.Unmarshal([]byte(r.Properties), &props); err == nil {
		for _, name := range props.Roles {
			if o := c.acct.IAM.Roles.get(name); o != nil {
				o.Attached = slices.DeleteFunc(o.Attached, func(a string) bool { return a == r.Physical })
			}
		}
	}
	if c.acct.IAM.Policies.get(r.Physical) == nil {
		return nil
	}
	return c.acct.removePolicy(r.Physical)
}

func putInstanceProfile(p *resourceProps) error {
	name := p.name("InstanceProfileName")
	ip := p.acct.IAM.Profiles.get(name)
	if ip != nil && (p.old == nil || p.old.Physical != name) {
		return alreadyExists("Instance Profile %s already exists.", name)
	}
	if ip == nil {
		if err := iamName("instanceProfileName", name, 128); err != nil {
			return err
		}
		path := orDefault(p.str("Path"), "/")
		ip = &instanceProfile{Name: name, Path: path, ID: strings.ToUpper(p.id("AIPA", 16)), ARN: "arn:aws:iam::" + p.acct.ID + ":instance-profile" + path + name, Created: p.at, VisibleAt: p.at}
		p.acct.IAM.Profiles.put(name, ip)
	}
	ip.Role = strings.Join(p.strs("Roles"), "")
	p.now.Physical = name
	p.now.Attributes = map[string]string{"Arn": ip.ARN}
	return nil
}

func dropInstanceProfile(c *call, r *stackResource) error {
	c.acct.IAM.Profiles.delete(r.Physical)
	return nil
}

func putQueue(p *resourceProps) error {
	name := p.name("QueueName")
	if p.old != nil && p.str("QueueName") == "" {
		name = name[strings.LastIndexByte(name, '/')+1:]
	}
	q := p.reg.Queues.get(name)
	if q != nil && (p.old == nil || p.old.Physical != p.queueURL(name)) {
		return fail("AlreadyExistsException", "Resource of type 'AWS::SQS::Queue' with identifier '%s' already exists.", name)
	}
	if q == nil {
		q = &queue{Name: name, Attributes: map[string]string{}, Tags: map[string]string{}, Created: p.at}
		p.reg.Queues.put(name, q)
	}
	for _, a := range []string{"MessageRetentionPeriod", "VisibilityTimeout", "DelaySeconds", "ReceiveMessageWaitTimeSeconds", "SqsManagedSseEnabled", "KmsMasterKeyId"} {
		if v := p.str(a); v != "" {
			q.Attributes[a] = v
		}
	}
	p.now.Physical = p.queueURL(name)
	p.now.Attributes = map[string]string{"Arn": p.queueARN(name), "QueueName": name, "QueueUrl": p.now.Physical}
	return nil
}

func dropQueue(c *call, r *stackResource) error {
	c.reg.Queues.delete(r.Physical[strings.LastIndexByte(r.Physical, '/')+1:])
	return nil
}

func putQueuePolicy(p *resourceProps) error {
	text := p.document("PolicyDocument")
	if _, err := policy.Parse(text); err != nil {
		return fail("MalformedPolicyDocument", "%v", err)
	}
	for _, url := range p.strs("Queues") {
		q := p.reg.Queues.get(url[strings.LastIndexByte(url, '/')+1:])
		if q == nil {
			return errQueue()
		}
		q.Attributes["Policy"] = text
	}
	p.now.Physical = p.name("")
	return nil
}

func dropQueuePolicy(c *call, r *stackResource) error {
	var props struct{ Queues []string }
	if err := json.Unmarshal([]byte(r.Properties), &props); err != nil {
		return err
	}
	for _, url := range props.Queues {
		if q := c.reg.Queues.get(url[strings.LastIndexByte(url, '/')+1:]); q != nil {
			delete(q.Attributes, "Policy")
		}
	}
	return nil
}

func putEventRule(p *resourceProps) error {
	name := p.name("Name")
	if p.reg.Rules.get(name) != nil && (p.old == nil || p.old.Physical != name) {
		return fail("AlreadyExistsException", "Rule %s already exists.", name)
	}
	pattern, err := json.Marshal(p.props["EventPattern"])
	if err != nil {
		return err
	}
	r := &rule{Name: name, Description: p.str("Description"), Pattern: string(pattern), State: orDefault(p.str("State"), "ENABLED")}
	targets, _ := p.props["Targets"].([]any)
	for _, v := range targets {
		m, _ := v.(map[string]any)
		r.Targets = append(r.Targets, ruleTarget{fmt.Sprint(m["Id"]), fmt.Sprint(m["Arn"])})
	}
	p.reg.Rules.put(name, r)
	p.now.Physical = name
	p.now.Attributes = map[string]string{"Arn": p.arn("events", "rule/"+name)}
	return nil
}

func dropEventRule(c *call, r *stackResource) error {
	c.reg.Rules.delete(r.Physical)
	return nil
}
