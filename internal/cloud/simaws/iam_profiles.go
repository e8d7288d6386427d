package simaws

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"karpenter/internal/cloud/simaws/policy"
)

func (c *call) profile(action string) (*instanceProfile, error) {
	name := c.q.str("InstanceProfileName")
	p := c.acct.IAM.Profiles.get(name)
	arn := "arn:aws:iam::" + c.acct.ID + ":instance-profile/" + name
	var tags tagSet
	if p != nil {
		arn, tags = p.ARN, p.Tags
	}
	if err := c.allow("iam:"+action, arn, conditionTags(tags, c.q.tags("Tags"))); err != nil {
		return nil, err
	}
	if p == nil {
		return nil, noEntity("Instance Profile", name)
	}
	return p, nil
}

func createInstanceProfile(c *call) error {
	p := &instanceProfile{Name: c.q.str("InstanceProfileName"), Created: c.at}
	p.VisibleAt = c.at.Add(c.opt.Timing.IAMConsistency)
	var err error
	if p.Path, err = iamPath(c.q.str("Path")); err != nil {
		return err
	}
	if err := iamName("instanceProfileName", p.Name, 128); err != nil {
		return err
	}
	p.Tags = p.Tags.with(c.q.tags("Tags")...)
	p.ARN = "arn:aws:iam::" + c.acct.ID + ":instance-profile" + p.Path + p.Name
	if err := c.allow("iam:CreateInstanceProfile", p.ARN, conditionTags(nil, p.Tags)); err != nil {
		return err
	}
	if len(p.Tags) > 0 {
		if err := c.allow("iam:TagInstanceProfile", p.ARN, conditionTags(p.Tags, p.Tags)); err != nil {
			return err
		}
	}
	if c.acct.IAM.Profiles.get(p.Name) != nil {
		return alreadyExists("Instance Profile %s already exists.", p.Name)
	}
	if q := c.acct.Quotas.InstanceProfiles; q > 0 && c.acct.IAM.Profiles.len() >= q {
		return fail("LimitExceeded", "Cannot exceed quota for InstanceProfilesPerAccount: %d", q).withStatus(http.StatusConflict)
	}
	p.ID = strings.ToUpper(c.id("AIPA", 16))
	c.acct.IAM.Profiles.put(p.Name, p)
	c.x.in("InstanceProfile", func() { c.writeProfile(p) })
	return nil
}

func (c *call) writeProfile(p *instanceProfile) {
	c.x.str("Path", p.Path)
	c.x.str("InstanceProfileName", p.Name)
	c.x.str("InstanceProfileId", p.ID)
	c.x.str("Arn", p.ARN)
	c.x.time("CreateDate", p.Created)
	c.x.in("Roles", func() {
		if r := c.acct.IAM.Roles.get(p.Role); r != nil {
			c.x.in("member", func() { writeRole(c.x, r) })
		}
	})
	if len(p.Tags) > 0 {
		c.x.tagsAs("Tags", "member", p.Tags)
	}
}

func getInstanceProfile(c *call) error {
	p, err := c.profile("GetInstanceProfile")
	if err != nil {
		return err
	}
	c.x.in("InstanceProfile", func() { c.writeProfile(p) })
	return nil
}

func deleteInstanceProfile(c *call) error {
	p, err := c.profile("DeleteInstanceProfile")
	if err != nil {
		return err
	}
	if p.Role != "" {
		return conflict("Cannot delete entity, must remove roles from instance profile first.")
	}
	c.acct.IAM.Profiles.delete(p.Name)
	return nil
}

func addRoleToInstanceProfile(c *call) error {
	p, err := c.profile("AddRoleToInstanceProfile")
	if err != nil {
		return err
	}
	r, err := c.role(c.q.str("RoleName"))
	if err != nil {
		return err
	}
	if err := c.allow("iam:PassRole", r.ARN, keys{"iam:passedtoservice": {"ec2.amazonaws.com"}}); err != nil {
		return err
	}
	if p.Role != "" {
		return fail("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1").withStatus(http.StatusConflict)
	}
	p.Role = r.Name
	return nil
}

func removeRoleFromInstanceProfile(c *call) error {
	p, err := c.profile("RemoveRoleFromInstanceProfile")
	if err != nil {
		return err
	}
	if p.Role == "" || p.Role != c.q.str("RoleName") {
		return noEntity("The role with name", c.q.str("RoleName"))
	}
	p.Role = ""
	return nil
}

func listInstanceProfiles(c *call) error {
	prefix := orDefault(c.q.str("PathPrefix"), "/")
	var all []*instanceProfile
	for p := range c.acct.IAM.Profiles.each {
		if strings.HasPrefix(p.Path, prefix) {
			all = append(all, p)
		}
	}
	return iamPage(c, "InstanceProfiles", all, func(p *instanceProfile) { c.x.in("member", func() { c.writeProfile(p) }) })
}

func listInstanceProfilesForRole(c *call) error {
	r, err := c.role(c.q.str("RoleName"))
	if err != nil {
		return err
	}
	var all []*instanceProfile
	for p := range c.acct.IAM.Profiles.each {
		if p.Role == r.Name {
			all = append(all, p)
		}
	}
	return iamPage(c, "InstanceProfiles", all, func(p *instanceProfile) { c.x.in("member", func() { c.writeProfile(p) }) })
}

func tagInstanceProfile(c *call) error {
	p, err := c.profile("TagInstanceProfile")
	if err != nil {
		return err
	}
	p.Tags = p.Tags.with(c.q.tags("Tags")...)
	return nil
}

func listInstanceProfileTags(c *call) error {
	p, err := c.profile("ListInstanceProfileTags")
	if err != nil {
		return err
	}
	return iamPage(c, "Tags", p.Tags, func(t Tag) {
		c.x.in("member", func() {
			c.x.str("Key", t.Key)
			c.x.str("Value", t.Value)
		})
	})
}

func createPolicy(c *call) error {
	p := &managedPolicy{Name: c.q.str("PolicyName"), Description: c.q.str("Description"), Created: c.at, Default: 1, Versions: []string{c.q.str("PolicyDocument")}}
	var err error
	if p.Path, err = iamPath(c.q.str("Path")); err != nil {
		return err
	}
	p.Tags = p.Tags.with(c.q.tags("Tags")...)
	if err := c.acct.addPolicy(c.Sim, p); err != nil {
		return err
	}
	c.x.in("Policy", func() { c.writePolicy(p) })
	return nil
}

// maxPolicySize is IAM's limit for a managed policy, without white space.
const maxPolicySize = 6144

// addPolicy stores a policy after checking it; CloudFormation uses it too.
func (a *account) addPolicy(s *Sim, p *managedPolicy) error {
	if err := iamName("policyName", p.Name, 128); err != nil {
		return err
	}
	p.ARN = "arn:aws:iam::" + a.ID + ":policy" + p.Path + p.Name
	if a.IAM.Policies.get(p.ARN) != nil {
		return alreadyExists("A policy called %s already exists. Duplicate names are not allowed.", p.Name)
	}
	if err := checkPolicyText(p.Versions[0]); err != nil {
		return err
	}
	p.ID = strings.ToUpper(s.id("ANPA", 16))
	a.IAM.Policies.put(p.ARN, p)
	return nil
}

func checkPolicyText(text string) error {
	if _, err := policy.Parse(text); err != nil {
		return fail("MalformedPolicyDocument", "%v", err)
	}
	if n := len(strings.Join(strings.Fields(text), "")); n > maxPolicySize {
		return fail("LimitExceeded", "Cannot exceed quota for PolicySize: %d", maxPolicySize).withStatus(http.StatusConflict)
	}
	return nil
}

func (c *call) writePolicy(p *managedPolicy) {
	uses := 0
	for r := range c.acct.IAM.Roles.each {
		if slices.Contains(r.Attached, p.ARN) {
			uses++
		}
	}
	c.x.str("PolicyName", p.Name)
	c.x.str("PolicyId", p.ID)
	c.x.str("Arn", p.ARN)
	c.x.str("Path", p.Path)
	c.x.str("DefaultVersionId", "v"+strconv.Itoa(p.Default))
	c.x.int("AttachmentCount", uses)
	c.x.bool("IsAttachable", true)
	c.x.opt("Description", p.Description)
	c.x.time("CreateDate", p.Created)
	c.x.time("UpdateDate", p.Created)
	if len(p.Tags) > 0 {
		c.x.tagsAs("Tags", "member", p.Tags)
	}
}

func (c *call) managed() (*managedPolicy, error) {
	arn := c.q.str("PolicyArn")
	if p := c.acct.IAM.Policies.get(arn); p != nil {
		return p, nil
	}
	if short, ok := strings.CutPrefix(arn, awsPolicyPrefix); ok {
		if text, known := awsPolicies[short]; known {
			return &managedPolicy{Name: short, Path: "/", ID: "ANPA" + strings.ToUpper(short), ARN: arn, Default: 1, Versions: []string{text}, Created: time.Unix(1420070400, 0)}, nil
		}
	}
	return nil, fail("NoSuchEntity", "Policy %s was not found.", arn).withStatus(http.StatusNotFound)
}

func getPolicy(c *call) error {
	p, err := c.managed()
	if err != nil {
		return err
	}
	c.x.in("Policy", func() { c.writePolicy(p) })
	return nil
}

func getPolicyVersion(c *call) error {
	p, err := c.managed()
	if err != nil {
		return err
	}
	v := c.q.str("VersionId")
	n, perr := strconv.Atoi(strings.TrimPrefix(v, "v"))
	if perr != nil || n < 1 || n > len(p.Versions) {
		return noEntity("Policy version", v)
	}
	c.x.in("PolicyVersion", func() {
		c.x.str("Document", strings.ReplaceAll(url.QueryEscape(p.Versions[n-1]), "+", "%20"))
		c.x.str("VersionId", v)
		c.x.bool("IsDefaultVersion", n == p.Default)
		c.x.time("CreateDate", p.Created)
	})
	return nil
}

func createPolicyVersion(c *call) error {
	p, err := c.managed()
	if err != nil {
		return err
	}
	if err := checkPolicyText(c.q.str("PolicyDocument")); err != nil {
		return err
	}
	p.Versions = append(p.Versions, c.q.str("PolicyDocument"))
	if c.q.bool("SetAsDefault") {
		p.Default = len(p.Versions)
	}
	c.x.in("PolicyVersion", func() {
		c.x.str("VersionId", "v"+strconv.Itoa(len(p.Versions)))
		c.x.bool("IsDefaultVersion", c.q.bool("SetAsDefault"))
		c.x.time("CreateDate", c.at)
	})
	return nil
}

func deletePolicy(c *call) error {
	arn := c.q.str("PolicyArn")
	if c.acct.IAM.Policies.get(arn) == nil {
		return fail("NoSuchEntity", "Policy %s was not found.", arn).withStatus(http.StatusNotFound)
	}
	return c.acct.removePolicy(arn)
}

func (a *account) removePolicy(arn string) error {
	for r := range a.IAM.Roles.each {
		if slices.Contains(r.Attached, arn) {
			return conflict("Cannot delete a policy attached to entities.")
		}
	}
	a.IAM.Policies.delete(arn)
	return nil
}

func listPolicies(c *call) error {
	var all []*managedPolicy
	for p := range c.acct.IAM.Policies.each {
		all = append(all, p)
	}
	return iamPage(c, "Policies", all, func(p *managedPolicy) { c.x.in("member", func() { c.writePolicy(p) }) })
}

// createServiceLinkedRole is what users run once for spot.
func createServiceLinkedRole(c *call) error {
	service := c.q.str("AWSServiceName")
	short := map[string]string{"spot.amazonaws.com": "AWSServiceRoleForEC2Spot", "ec2fleet.amazonaws.com": "AWSServiceRoleForEC2Fleet"}[service]
	if short == "" {
		return fail("InvalidInput", "Service name %s is not one the simulator knows.", service)
	}
	if c.acct.IAM.Roles.get(short) != nil {
		return fail("InvalidInput", "Service role name %s has been taken in this account, please try a different suffix.", short)
	}
	r := &role{
		Name: short, Path: "/aws-service-role/" + service + "/", Created: c.at, Inline: map[string]string{},
		Trust: `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["sts:AssumeRole"],"Principal":{"Service":["` + service + `"]}}]}`,
	}
	if err := c.acct.addRole(c.Sim, r); err != nil {
		return err
	}
	c.x.in("Role", func() { writeRole(c.x, r) })
	return nil
}

// iamOperations is the IAM part of the operation table.
var iamOperations = map[string]*operation{
	"CreateRole":                    {query: createRole, writes: true},
	"GetRole":                       {query: getRole},
	"ListRoles":                     {query: listRoles},
	"DeleteRole":                    {query: deleteRole, writes: true},
	"AttachRolePolicy":              {query: attachRolePolicy, writes: true},
	"DetachRolePolicy":              {query: detachRolePolicy, writes: true},
	"ListAttachedRolePolicies":      {query: listAttachedRolePolicies},
	"PutRolePolicy":                 {query: putRolePolicy, writes: true},
	"GetRolePolicy":                 {query: getRolePolicy},
	"DeleteRolePolicy":              {query: deleteRolePolicy, writes: true},
	"ListRolePolicies":              {query: listRolePolicies},
	"CreateServiceLinkedRole":       {query: createServiceLinkedRole, writes: true},
	"CreateInstanceProfile":         {query: createInstanceProfile, writes: true, authorizes: true},
	"GetInstanceProfile":            {query: getInstanceProfile, authorizes: true},
	"DeleteInstanceProfile":         {query: deleteInstanceProfile, writes: true, authorizes: true},
	"AddRoleToInstanceProfile":      {query: addRoleToInstanceProfile, writes: true, authorizes: true},
	"RemoveRoleFromInstanceProfile": {query: removeRoleFromInstanceProfile, writes: true, authorizes: true},
	"ListInstanceProfiles":          {query: listInstanceProfiles},
	"ListInstanceProfilesForRole":   {query: listInstanceProfilesForRole},
	"TagInstanceProfile":            {query: tagInstanceProfile, writes: true, authorizes: true},
	"ListInstanceProfileTags":       {query: listInstanceProfileTags, authorizes: true},
	"CreatePolicy":                  {query: createPolicy, writes: true},
	"GetPolicy":                     {query: getPolicy},
	"GetPolicyVersion":              {query: getPolicyVersion},
	"CreatePolicyVersion":           {query: createPolicyVersion, writes: true},
	"DeletePolicy":                  {query: deletePolicy, writes: true},
	"ListPolicies":                  {query: listPolicies},
}
