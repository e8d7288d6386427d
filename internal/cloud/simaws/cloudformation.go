package simaws

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"karpenter/internal/cloud/simaws/cfn"
)

// stack is a CloudFormation stack.
type stack struct {
	Name, ID, Status, Reason, Template, Description string
	Parameters                                      map[string]string
	Capabilities                                    []string
	Tags                                            tagSet
	Resources                                       []*stackResource
	Outputs                                         []cfn.Output
	Events                                          []stackEvent
	ChangeSets                                      []*changeSet
	Created, Updated                                time.Time
}

// rolledBack is the state of a stack whose creation failed; such a stack can
// only be deleted.
const rolledBack = "ROLLBACK_COMPLETE"

func (s *stack) cannotUpdate() *apiError {
	return invalidStack("Stack:%s is in %s state and can not be updated.", s.ID, s.Status)
}

type stackResource struct {
	Logical, Physical, Type, Status string
	// Properties are the evaluated properties as JSON.
	Properties string
	Attributes map[string]string
	At         time.Time
}

type stackEvent struct {
	ID, Logical, Physical, Type, Status, Reason string
	At                                          time.Time
}

type changeSet struct {
	Name, ID, Status, Reason, Kind, Template string
	Parameters                               map[string]string
	Capabilities                             []string
	Tags                                     tagSet
	Changes                                  []stackChange
	At                                       time.Time
}

type stackChange struct{ Action, Logical, Physical, Type string }

// maxStackEvents is how many events a stack remembers.
const maxStackEvents = 1000

// maxTemplate is the largest template that may be passed by value.
const maxTemplate = 51200

func invalidStack(format string, args ...any) *apiError {
	return fail("ValidationError", format, args...)
}

// stackNamed finds a stack by name or id.
func (c *call) stackNamed(name string) (*stack, error) {
	for s := range c.reg.Stacks.each {
		if (s.Name == name || s.ID == name) && s.Status != "REVIEW_IN_PROGRESS" || s.ID == name {
			return s, nil
		}
	}
	return nil, invalidStack("Stack with id %s does not exist", name)
}

// request is what CreateStack, UpdateStack and CreateChangeSet share.
type stackRequest struct {
	text         string
	template     *cfn.Template
	parameters   map[string]string
	capabilities []string
	tags         tagSet
}

// stackRequest reads and checks a template and its parameters. old gives the
// previous values for an update.
func (c *call) stackRequest(old *stack) (*stackRequest, error) {
	r := &stackRequest{text: c.q.str("TemplateBody"), capabilities: c.q.strs("Capabilities")}
	r.tags = r.tags.with(c.q.tags("Tags")...)
	if c.q.bool("UsePreviousTemplate") && old != nil {
		r.text = old.Template
	}
	if c.q.has("TemplateURL") {
		return nil, invalidStack("The simulator has no S3; pass the template by value.")
	}
	if len(r.text) > maxTemplate {
		return nil, invalidStack("1 validation error detected: Value at 'templateBody' failed to satisfy constraint: Member must have length less than or equal to %d", maxTemplate)
	}
	t, err := cfn.Parse(r.text)
	if err != nil {
		return nil, invalidStack("%v", err)
	}
	r.template = t
	if r.parameters, err = c.stackParameters(t, old); err != nil {
		return nil, err
	}
	for _, res := range t.Resources {
		if resourceKinds[res.Type] == nil {
			return nil, invalidStack("Template format error: Unrecognized resource types: [%s] (the simulator knows %s)", res.Type, strings.Join(slices.Sorted(maps.Keys(resourceKinds)), ", "))
		}
		if strings.HasPrefix(res.Type, "AWS::IAM::") && !slices.Contains(r.capabilities, "CAPABILITY_NAMED_IAM") {
			return nil, fail("InsufficientCapabilitiesException", "Requires capabilities : [CAPABILITY_NAMED_IAM]")
		}
	}
	return r, c.q.err()
}

func (c *call) stackParameters(t *cfn.Template, old *stack) (map[string]string, error) {
	given := map[string]string{}
	for _, p := range c.q.items("Parameters") {
		key := p.str("ParameterKey")
		given[key] = p.str("ParameterValue")
		if p.bool("UsePreviousValue") && old != nil {
			given[key] = old.Parameters[key]
		}
	}
	out := map[string]string{}
	var lacking []string
	for _, p := range t.Parameters {
		v, ok := given[p.Name]
		if !ok {
			v, ok = p.Default, p.HasDefault
		}
		if !ok {
			lacking = append(lacking, p.Name)
		}
		if len(p.Allowed) > 0 && ok && !slices.Contains(p.Allowed, v) {
			return nil, invalidStack("Parameter '%s' must be one of AllowedValues", p.Name)
		}
		delete(given, p.Name)
		out[p.Name] = v
	}
	if len(lacking) > 0 {
		return nil, invalidStack("Parameters: [%s] must have values", strings.Join(lacking, ", "))
	}
	if len(given) > 0 {
		return nil, invalidStack("Parameters: [%s] do not exist in the template", strings.Join(sortedKeys(given), ", "))
	}
	return out, nil
}

// env is what the template's names stand for in a stack.
func (c *call) stackEnv(s *stack, params map[string]string, made map[string]*stackResource) cfn.Env {
	all := map[string]string{
		"AWS::Region": c.reg.Name, "AWS::AccountId": c.acct.ID, "AWS::Partition": "aws", "AWS::URLSuffix": "amazonaws.com",
		"AWS::StackName": s.Name, "AWS::StackId": s.ID,
	}
	maps.Copy(all, params)
	return cfn.Env{
		Parameters: all,
		Ref: func(name string) (string, bool) {
			if r := made[name]; r != nil {
				return r.Physical, true
			}
			return "", false
		},
		Attr: func(name, attr string) (string, bool) {
			r := made[name]
			if r == nil {
				return "", false
			}
			v, ok := r.Attributes[attr]
			return v, ok
		},
	}
}

func (c *call) stackEvent(s *stack, r *stackResource, reason string) {
	if len(s.Events) >= maxStackEvents {
		s.Events = s.Events[1:]
	}
	s.Events = append(s.Events, stackEvent{c.uuid(), r.Logical, r.Physical, r.Type, r.Status, reason, c.at})
}

func (c *call) stackStatus(s *stack, status, reason string) {
	s.Status, s.Reason = status, reason
	c.stackEvent(s, &stackResource{Logical: s.Name, Physical: s.ID, Type: "AWS::CloudFormation::Stack", Status: status}, reason)
}

// deploy makes the stack's resources what the request says. When something
// fails, what it was before is restored, and the status tells.
func (c *call) deploy(s *stack, req *stackRequest) {
	update := len(s.Resources) > 0
	verb := "CREATE"
	if update {
		verb = "UPDATE"
	}
	c.stackStatus(s, verb+"_IN_PROGRESS", "User Initiated")
	before := slices.Clone(s.Resources)
	made, err := c.applyResources(s, req)
	if err == nil {
		outputs, oerr := req.template.Outputs(c.stackEnv(s, req.parameters, made))
		if err = oerr; err == nil {
			s.Outputs = outputs
		}
	}
	if err != nil {
		c.rollback(s, before, made)
		status := rolledBack
		if update {
			status = "UPDATE_ROLLBACK_COMPLETE"
		}
		c.stackStatus(s, status, err.Error())
		return
	}
	for _, old := range slices.Backward(before) {
		if now := made[old.Logical]; now == nil || now.Physical != old.Physical {
			c.removeResource(s, old)
		}
	}
	s.Resources = nil
	for _, r := range req.template.Resources {
		if made[r.Name] != nil {
			s.Resources = append(s.Resources, made[r.Name])
		}
	}
	s.Template, s.Parameters, s.Capabilities, s.Tags, s.Description = req.text, req.parameters, req.capabilities, req.tags, req.template.Description
	if update {
		s.Updated = c.at
	}
	c.stackStatus(s, verb+"_COMPLETE", "")
}

// applyResources makes or changes the resources in order and returns what
// exists by name, also when it fails halfway.
func (c *call) applyResources(s *stack, req *stackRequest) (map[string]*stackResource, error) {
	made := map[string]*stackResource{}
	for _, r := range req.template.Resources {
		env := c.stackEnv(s, req.parameters, made)
		wanted, err := req.template.Wanted(r, env)
		if err != nil {
			return made, err
		}
		if !wanted {
			continue
		}
		props, err := req.template.Properties(r, env)
		if err != nil {
			return made, err
		}
		raw, err := json.Marshal(props)
		if err != nil {
			return made, err
		}
		now := &stackResource{Logical: r.Name, Type: r.Type, Properties: string(raw), At: c.at}
		var old *stackResource
		for _, o := range s.Resources {
			if o.Logical == r.Name && o.Type == r.Type {
				old = o
			}
		}
		if old != nil && old.Properties == now.Properties {
			made[r.Name] = old
			continue
		}
		res := &resourceProps{c, s, now, props, old}
		if err := resourceKinds[r.Type].put(res); err != nil {
			now.Status = "CREATE_FAILED"
			c.stackEvent(s, now, err.Error())
			return made, err
		}
		now.Status = "CREATE_COMPLETE"
		if old != nil {
			now.Status = "UPDATE_COMPLETE"
		}
		c.stackEvent(s, now, "")
		made[r.Name] = now
	}
	return made, nil
}

// rollback undoes a failed deployment: new resources go, changed ones are put
// back.
func (c *call) rollback(s *stack, before []*stackResource, made map[string]*stackResource) {
	was := map[string]*stackResource{}
	for _, o := range before {
		was[o.Logical] = o
	}
	for _, name := range sortedKeys(made) {
		now, old := made[name], was[name]
		if now == old {
			continue
		}
		if old == nil || old.Physical != now.Physical {
			c.removeResource(s, now)
			continue
		}
		var props map[string]any
		if json.Unmarshal([]byte(old.Properties), &props) == nil {
			if err := resourceKinds[old.Type].put(&resourceProps{c, s, old, props, now}); err != nil {
				c.stackEvent(s, old, "could not be rolled back: "+err.Error())
			}
		}
	}
	s.Resources = before
}

func (c *call) removeResource(s *stack, r *stackResource) {
	gone := *r
	gone.Status = "DELETE_COMPLETE"
	reason := ""
	if err := resourceKinds[r.Type].drop(c, r); err != nil {
		gone.Status, reason = "DELETE_FAILED", err.Error()
	}
	c.stackEvent(s, &gone, reason)
}

func (c *call) newStack(name string) *stack {
	s := &stack{Name: name, ID: c.arn("cloudformation", "stack/"+name+"/"+c.uuid()), Created: c.at, Parameters: map[string]string{}}
	c.reg.Stacks.put(s.ID, s)
	return s
}

// stackNameChars and the length are CloudFormation's.
const stackNameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"

func checkStackName(name string) error {
	if name == "" || len(name) > 128 || strings.Trim(name, stackNameChars) != "" || !strings.ContainsAny(name[:1], stackNameChars[:52]) {
		return invalidStack("1 validation error detected: Value '%s' at 'stackName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z][-a-zA-Z0-9]*", name)
	}
	return nil
}

func createStack(c *call) error {
	name := c.q.str("StackName")
	if err := checkStackName(name); err != nil {
		return err
	}
	if _, err := c.stackNamed(name); err == nil {
		return fail("AlreadyExistsException", "Stack [%s] already exists", name)
	}
	req, err := c.stackRequest(nil)
	if err != nil {
		return err
	}
	s := c.newStack(name)
	c.deploy(s, req)
	c.x.str("StackId", s.ID)
	return nil
}

func updateStack(c *call) error {
	s, err := c.stackNamed(c.q.str("StackName"))
	if err != nil {
		return err
	}
	if s.Status == rolledBack {
		return s.cannotUpdate()
	}
	req, err := c.stackRequest(s)
	if err != nil {
		return err
	}
	if len(c.changes(s, req)) == 0 {
		return invalidStack("No updates are to be performed.")
	}
	c.deploy(s, req)
	c.x.str("StackId", s.ID)
	return nil
}

func deleteStack(c *call) error {
	s, err := c.stackNamed(c.q.str("StackName"))
	if err != nil {
		// Deleting what is not there succeeds, as CloudFormation has it.
		return nil
	}
	for _, r := range slices.Backward(s.Resources) {
		if err := resourceKinds[r.Type].drop(c, r); err != nil {
			c.stackStatus(s, "DELETE_FAILED", "The following resource(s) failed to delete: ["+r.Logical+"]. "+err.Error())
			return nil
		}
	}
	c.reg.Stacks.delete(s.ID)
	return nil
}

// changes lists what a deployment would do, without doing it. References to
// resources that do not exist yet count as changes.
func (c *call) changes(s *stack, req *stackRequest) []stackChange {
	var out []stackChange
	made := map[string]*stackResource{}
	for _, r := range s.Resources {
		made[r.Logical] = r
	}
	seen := map[string]bool{}
	for _, r := range req.template.Resources {
		env := c.stackEnv(s, req.parameters, made)
		if ok, err := req.template.Wanted(r, env); err == nil && !ok {
			continue
		}
		seen[r.Name] = true
		old := made[r.Name]
		if old == nil {
			out = append(out, stackChange{"Add", r.Name, "", r.Type})
			continue
		}
		props, err := req.template.Properties(r, env)
		raw, jerr := json.Marshal(props)
		if err != nil || jerr != nil || string(raw) != old.Properties {
			out = append(out, stackChange{"Modify", r.Name, old.Physical, r.Type})
		}
	}
	for _, r := range s.Resources {
		if !seen[r.Logical] {
			out = append(out, stackChange{"Remove", r.Logical, r.Physical, r.Type})
		}
	}
	return out
}
