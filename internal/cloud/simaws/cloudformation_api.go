package simaws

import (
	"slices"

	"karpenter/internal/cloud/simaws/cfn"
)

// stackPage is how much CloudFormation lists at a time; callers cannot choose.
const stackPage = 100

// writePage writes a page of a list of CloudFormation and the token of what
// follows.
func writePage[T any](c *call, list string, all []T, write func(T)) error {
	part, next, err := pageOf(all, paging{token: c.q.str("NextToken"), limit: stackPage, bad: invalidStack("")})
	if err != nil {
		return err
	}
	c.x.in(list, func() {
		for _, v := range part {
			c.x.in("member", func() { write(v) })
		}
	})
	c.x.opt("NextToken", next)
	return nil
}

func createChangeSet(c *call) error {
	name, kind := c.q.str("StackName"), orDefault(c.q.str("ChangeSetType"), "UPDATE")
	var s *stack
	for o := range c.reg.Stacks.each {
		if o.Name == name || o.ID == name {
			s = o
		}
	}
	switch {
	case kind == "CREATE" && s != nil && s.Status != "REVIEW_IN_PROGRESS":
		return invalidStack("Stack [%s] already exists and cannot be created again with the changeSet [%s].", name, c.q.str("ChangeSetName"))
	case kind == "UPDATE" && s == nil:
		return invalidStack("Stack [%s] does not exist", name)
	case kind == "UPDATE" && s.Status == rolledBack:
		return s.cannotUpdate()
	case kind == "CREATE":
		if err := checkStackName(name); err != nil {
			return err
		}
	}
	req, err := c.stackRequest(s)
	if err != nil {
		return err
	}
	if s == nil {
		s = c.newStack(name)
		s.Status = "REVIEW_IN_PROGRESS"
	}
	cs := &changeSet{
		Name: c.q.str("ChangeSetName"), Status: "CREATE_COMPLETE", Kind: kind, Template: req.text, Parameters: req.parameters,
		Capabilities: req.capabilities, Tags: req.tags, At: c.at, Changes: c.changes(s, req),
	}
	cs.ID = c.arn("cloudformation", "changeSet/"+cs.Name+"/"+c.uuid())
	if len(cs.Changes) == 0 {
		cs.Status, cs.Reason = "FAILED", "The submitted information didn't contain changes. Submit different information to create a change set."
	}
	s.ChangeSets = append(s.ChangeSets, cs)
	c.x.str("Id", cs.ID)
	c.x.str("StackId", s.ID)
	return nil
}

// changeSet finds a change set by name within a stack, or by id.
func (c *call) changeSet() (*stack, *changeSet, error) {
	name, of := c.q.str("ChangeSetName"), c.q.str("StackName")
	for s := range c.reg.Stacks.each {
		for _, cs := range s.ChangeSets {
			if cs.ID == name || cs.Name == name && (s.Name == of || s.ID == of) {
				return s, cs, nil
			}
		}
	}
	return nil, nil, fail("ChangeSetNotFound", "ChangeSet [%s] does not exist", name)
}

func describeChangeSet(c *call) error {
	s, cs, err := c.changeSet()
	if err != nil {
		return err
	}
	x := c.x
	x.str("ChangeSetName", cs.Name)
	x.str("ChangeSetId", cs.ID)
	x.str("StackId", s.ID)
	x.str("StackName", s.Name)
	x.time("CreationTime", cs.At)
	x.str("Status", cs.Status)
	x.opt("StatusReason", cs.Reason)
	x.str("ExecutionStatus", cs.execution())
	x.strs("Capabilities", "member", cs.Capabilities)
	writeParameters(x, cs.Parameters)
	x.tagsAs("Tags", "member", cs.Tags)
	return writePage(c, "Changes", cs.Changes, func(ch stackChange) {
		x.str("Type", "Resource")
		x.in("ResourceChange", func() {
			x.str("Action", ch.Action)
			x.str("LogicalResourceId", ch.Logical)
			x.opt("PhysicalResourceId", ch.Physical)
			x.str("ResourceType", ch.Type)
		})
	})
}

// execution says whether a change set can be executed.
func (cs *changeSet) execution() string {
	if cs.Status == "FAILED" {
		return "UNAVAILABLE"
	}
	return "AVAILABLE"
}

func writeParameters(x *xmlWriter, params map[string]string) {
	x.in("Parameters", func() {
		for _, k := range sortedKeys(params) {
			x.in("member", func() {
				x.str("ParameterKey", k)
				x.str("ParameterValue", params[k])
			})
		}
	})
}

func executeChangeSet(c *call) error {
	s, cs, err := c.changeSet()
	if err != nil {
		return err
	}
	if cs.Status != "CREATE_COMPLETE" {
		return fail("InvalidChangeSetStatus", "ChangeSet [%s] cannot be executed in its current status of [%s]", cs.ID, cs.Status)
	}
	t, err := cfn.Parse(cs.Template)
	if err != nil {
		return invalidStack("%v", err)
	}
	s.ChangeSets = nil
	c.deploy(s, &stackRequest{cs.Template, t, cs.Parameters, cs.Capabilities, cs.Tags})
	return nil
}

func deleteChangeSet(c *call) error {
	s, cs, err := c.changeSet()
	if err != nil {
		return err
	}
	s.ChangeSets = slices.DeleteFunc(s.ChangeSets, func(o *changeSet) bool { return o == cs })
	return nil
}

func listChangeSets(c *call) error {
	s, err := c.stackNamed(c.q.str("StackName"))
	if err != nil {
		return err
	}
	return writePage(c, "Summaries", s.ChangeSets, func(cs *changeSet) {
		c.x.str("StackId", s.ID)
		c.x.str("StackName", s.Name)
		c.x.str("ChangeSetId", cs.ID)
		c.x.str("ChangeSetName", cs.Name)
		c.x.str("Status", cs.Status)
		c.x.opt("StatusReason", cs.Reason)
		c.x.str("ExecutionStatus", cs.execution())
		c.x.time("CreationTime", cs.At)
	})
}

func describeStacks(c *call) error {
	var all []*stack
	if name := c.q.str("StackName"); name != "" {
		s, err := c.stackNamed(name)
		if err != nil {
			return err
		}
		all = append(all, s)
	} else {
		for s := range c.reg.Stacks.each {
			all = append(all, s)
		}
	}
	return writePage(c, "Stacks", all, func(s *stack) { writeStack(c.x, s) })
}

func writeStack(x *xmlWriter, s *stack) {
	x.str("StackId", s.ID)
	x.str("StackName", s.Name)
	x.opt("Description", s.Description)
	x.time("CreationTime", s.Created)
	x.time("LastUpdatedTime", s.Updated)
	x.str("StackStatus", s.Status)
	x.opt("StackStatusReason", s.Reason)
	x.bool("DisableRollback", false)
	x.strs("Capabilities", "member", s.Capabilities)
	writeParameters(x, s.Parameters)
	x.in("Outputs", func() {
		for _, o := range s.Outputs {
			x.in("member", func() {
				x.str("OutputKey", o.Key)
				x.str("OutputValue", o.Value)
				x.opt("Description", o.Description)
				x.opt("ExportName", o.Export)
			})
		}
	})
	x.tagsAs("Tags", "member", s.Tags)
}

func listStacks(c *call) error {
	want := c.q.strs("StackStatusFilter")
	var all []*stack
	for s := range c.reg.Stacks.each {
		if len(want) == 0 || slices.Contains(want, s.Status) {
			all = append(all, s)
		}
	}
	if err := c.q.err(); err != nil {
		return err
	}
	return writePage(c, "StackSummaries", all, func(s *stack) {
		c.x.str("StackId", s.ID)
		c.x.str("StackName", s.Name)
		c.x.opt("TemplateDescription", s.Description)
		c.x.time("CreationTime", s.Created)
		c.x.time("LastUpdatedTime", s.Updated)
		c.x.str("StackStatus", s.Status)
		c.x.opt("StackStatusReason", s.Reason)
	})
}

func describeStackEvents(c *call) error {
	s, err := c.stackNamed(c.q.str("StackName"))
	if err != nil {
		return err
	}
	latestFirst := slices.Clone(s.Events)
	slices.Reverse(latestFirst)
	return writePage(c, "StackEvents", latestFirst, func(e stackEvent) {
		c.x.str("EventId", e.ID)
		c.x.str("StackId", s.ID)
		c.x.str("StackName", s.Name)
		c.x.str("LogicalResourceId", e.Logical)
		c.x.opt("PhysicalResourceId", e.Physical)
		c.x.str("ResourceType", e.Type)
		c.x.str("ResourceStatus", e.Status)
		c.x.opt("ResourceStatusReason", e.Reason)
		c.x.time("Timestamp", e.At)
	})
}

func writeResource(x *xmlWriter, r *stackResource) {
	x.str("LogicalResourceId", r.Logical)
	x.str("PhysicalResourceId", r.Physical)
	x.str("ResourceType", r.Type)
	x.str("ResourceStatus", r.Status)
}

// describeStackResources shows one resource or, up to a page, all of them.
func describeStackResources(c *call) error {
	s, err := c.stackNamed(c.q.str("StackName"))
	if err != nil {
		return err
	}
	only := c.q.str("LogicalResourceId")
	found := slices.DeleteFunc(slices.Clone(s.Resources), func(r *stackResource) bool { return only != "" && only != r.Logical })
	if only != "" && len(found) == 0 {
		return invalidStack("Resource %s does not exist for stack %s", only, s.Name)
	}
	c.x.in("StackResources", func() {
		for _, r := range found[:min(len(found), stackPage)] {
			c.x.in("member", func() {
				writeResource(c.x, r)
				c.x.str("StackId", s.ID)
				c.x.str("StackName", s.Name)
				c.x.time("Timestamp", r.At)
			})
		}
	})
	return nil
}

func listStackResources(c *call) error {
	s, err := c.stackNamed(c.q.str("StackName"))
	if err != nil {
		return err
	}
	return writePage(c, "StackResourceSummaries", s.Resources, func(r *stackResource) {
		writeResource(c.x, r)
		c.x.time("LastUpdatedTimestamp", r.At)
	})
}

func getTemplate(c *call) error {
	s, err := c.stackNamed(c.q.str("StackName"))
	if err != nil {
		return err
	}
	c.x.str("TemplateBody", s.Template)
	return nil
}

// validateTemplate serves ValidateTemplate and GetTemplateSummary, whose
// answers differ in little.
func validateTemplate(c *call) error {
	text := c.q.str("TemplateBody")
	if name := c.q.str("StackName"); name != "" {
		s, err := c.stackNamed(name)
		if err != nil {
			return err
		}
		text = s.Template
	}
	t, err := cfn.Parse(text)
	if err != nil {
		return invalidStack("%v", err)
	}
	c.x.opt("Description", t.Description)
	c.x.in("Parameters", func() {
		for _, p := range t.Parameters {
			c.x.in("member", func() {
				c.x.str("ParameterKey", p.Name)
				if c.action == "GetTemplateSummary" {
					c.x.str("ParameterType", p.Type)
				}
				if p.HasDefault {
					c.x.str("DefaultValue", p.Default)
				}
				c.x.opt("Description", p.Description)
				c.x.bool("NoEcho", false)
			})
		}
	})
	var kinds, caps []string
	for _, r := range t.Resources {
		if !slices.Contains(kinds, r.Type) {
			kinds = append(kinds, r.Type)
		}
		if len(caps) == 0 && len(r.Type) > 10 && r.Type[:10] == "AWS::IAM::" {
			caps = []string{"CAPABILITY_NAMED_IAM"}
		}
	}
	c.x.strs("Capabilities", "member", caps)
	if c.action == "GetTemplateSummary" {
		c.x.strs("ResourceTypes", "member", kinds)
	}
	return nil
}

// cloudformationOperations is the CloudFormation part of the operation table.
var cloudformationOperations = map[string]*operation{
	"CreateStack":            {query: createStack, writes: true},
	"UpdateStack":            {query: updateStack, writes: true},
	"DeleteStack":            {query: deleteStack, writes: true},
	"DescribeStacks":         {query: describeStacks},
	"ListStacks":             {query: listStacks},
	"DescribeStackEvents":    {query: describeStackEvents},
	"DescribeStackResources": {query: describeStackResources},
	"ListStackResources":     {query: listStackResources},
	"GetTemplate":            {query: getTemplate},
	"GetTemplateSummary":     {query: validateTemplate},
	"ValidateTemplate":       {query: validateTemplate},
	"CreateChangeSet":        {query: createChangeSet, writes: true},
	"DescribeChangeSet":      {query: describeChangeSet},
	"ExecuteChangeSet":       {query: executeChangeSet, writes: true},
	"DeleteChangeSet":        {query: deleteChangeSet, writes: true},
	"ListChangeSets":         {query: listChangeSets},
}
