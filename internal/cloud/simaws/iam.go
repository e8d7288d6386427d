package simaws

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"karpenter/internal/cloud/simaws/policy"
)

// iamState is an account's IAM.
type iamState struct {
	Account  string
	Roles    *table[role]
	Profiles *table[instanceProfile]
	Policies *table[managedPolicy]
}

type role struct {
	Name, Path, ID, ARN, Description, Trust string
	Created                                 time.Time
	// Attached are ARNs of managed policies, Inline texts by name.
	Attached []string
	Inline   map[string]string
	Tags     tagSet
}

type instanceProfile struct {
	Name, Path, ID, ARN, Role string
	Created                   time.Time
	// VisibleAt is when EC2 begins to know it.
	VisibleAt time.Time
	Tags      tagSet
}

type managedPolicy struct {
	Name, Path, ID, ARN, Description string
	Versions                         []string
	Default                          int
	Created                          time.Time
	Tags                             tagSet
}

func newIAMState(account string) *iamState {
	return &iamState{Account: account, Roles: newTable[role](), Profiles: newTable[instanceProfile](), Policies: newTable[managedPolicy]()}
}

// awsPolicies are the AWS managed policies that can be attached. What a node's
// own policies allow does not matter here, so they allow nothing.
var awsPolicies = map[string]string{
	"AdministratorAccess":                `{"Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}`,
	"ReadOnlyAccess":                     `{"Statement":{"Effect":"Allow","Action":["ec2:Describe*","iam:Get*","iam:List*","eks:Describe*","eks:List*","autoscaling:Describe*","ssm:Get*","sqs:Get*","pricing:Get*"],"Resource":"*"}}`,
	"AmazonEKSWorkerNodePolicy":          nothing,
	"AmazonEKS_CNI_Policy":               nothing,
	"AmazonEC2ContainerRegistryReadOnly": nothing,
	"AmazonEC2ContainerRegistryPullOnly": nothing,
	"AmazonSSMManagedInstanceCore":       nothing,
	"AmazonEKSClusterPolicy":             nothing,
	"AmazonEBSCSIDriverPolicy":           nothing,
	"CloudWatchAgentServerPolicy":        nothing,
}

const nothing = `{"Statement":{"Effect":"Deny","Action":"simulator:Never","Resource":"*"}}`

const awsPolicyPrefix = "arn:aws:iam::aws:policy/"

// documents are all policies of a role.
func (s *iamState) documents(name string, parse func(string) policy.Document) []policy.Document {
	r := s.Roles.get(name)
	if r == nil {
		return nil
	}
	var out []policy.Document
	for _, arn := range r.Attached {
		if p := s.Policies.get(arn); p != nil {
			out = append(out, parse(p.Versions[p.Default-1]))
		} else if short, ok := strings.CutPrefix(arn, awsPolicyPrefix); ok {
			out = append(out, parse(awsPolicies[short]))
		}
	}
	for _, n := range sortedKeys(r.Inline) {
		out = append(out, parse(r.Inline[n]))
	}
	return out
}

func noEntity(kind, name string) *apiError {
	return fail("NoSuchEntity", "%s %s cannot be found.", kind, name).withStatus(http.StatusNotFound)
}

func alreadyExists(format string, args ...any) *apiError {
	return fail("EntityAlreadyExists", format, args...).withStatus(http.StatusConflict)
}

func conflict(format string, args ...any) *apiError {
	return fail("DeleteConflict", format, args...).withStatus(http.StatusConflict)
}

func (c *call) role(name string) (*role, error) {
	if name == "" {
		return nil, invalidInput("roleName", "must not be null")
	}
	r := c.acct.IAM.Roles.get(name)
	if r == nil {
		return nil, noEntity("The role with name", name)
	}
	return r, nil
}

func invalidInput(param, why string) *apiError {
	return fail("ValidationError", "1 validation error detected: Value at '%s' failed to satisfy constraint: %s", param, why)
}

// iamPath checks a path.
func iamPath(p string) (string, error) {
	if p == "" {
		return "/", nil
	}
	if !strings.HasPrefix(p, "/") || !strings.HasSuffix(p, "/") || len(p) > 512 {
		return "", fail("ValidationError", "The specified value for path is invalid. It must begin and end with / and contain only alphanumeric characters and/or / characters.")
	}
	return p, nil
}

const iamNameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+=,.@_-"

func iamName(param, name string, limit int) error {
	if name == "" || len(name) > limit || strings.Trim(name, iamNameChars) != "" {
		return fail("ValidationError", "The specified value for %s is invalid. It must contain only alphanumeric characters and/or the following: +=,.@_- and have 1 to %d characters.", param, limit)
	}
	return nil
}

func createRole(c *call) error {
	r := &role{Name: c.q.str("RoleName"), Description: c.q.str("Description"), Trust: c.q.str("AssumeRolePolicyDocument"), Created: c.at, Inline: map[string]string{}}
	var err error
	if r.Path, err = iamPath(c.q.str("Path")); err != nil {
		return err
	}
	r.Tags = r.Tags.with(c.q.tags("Tags")...)
	if err := c.acct.addRole(c.Sim, r); err != nil {
		return err
	}
	c.x.in("Role", func() { writeRole(c.x, r) })
	return nil
}

// addRole stores a role after checking it; CloudFormation uses it too.
func (a *account) addRole(s *Sim, r *role) error {
	if err := iamName("roleName", r.Name, 64); err != nil {
		return err
	}
	if a.IAM.Roles.get(r.Name) != nil {
		return alreadyExists("Role with name %s already exists.", r.Name)
	}
	if _, err := policy.Parse(r.Trust); err != nil {
		return fail("MalformedPolicyDocument", "This policy contains invalid Json: %v", err)
	}
	r.ID = strings.ToUpper(s.id("AROA", 16))
	r.ARN = "arn:aws:iam::" + a.ID + ":role" + r.Path + r.Name
	a.IAM.Roles.put(r.Name, r)
	return nil
}

func writeRole(x *xmlWriter, r *role) {
	x.str("Path", r.Path)
	x.str("RoleName", r.Name)
	x.str("RoleId", r.ID)
	x.str("Arn", r.ARN)
	x.time("CreateDate", r.Created)
	// IAM gives policies back URL-encoded.
	x.str("AssumeRolePolicyDocument", strings.ReplaceAll(url.QueryEscape(r.Trust), "+", "%20"))
	x.opt("Description", r.Description)
	x.int("MaxSessionDuration", 3600)
	if len(r.Tags) > 0 {
		x.tagsAs("Tags", "member", r.Tags)
	}
}

func getRole(c *call) error {
	r, err := c.role(c.q.str("RoleName"))
	if err != nil {
		return err
	}
	c.x.in("Role", func() { writeRole(c.x, r) })
	return nil
}

// iamPage cuts a listing by IAM's own paging words.
func iamPage[T any](c *call, name string, all []T, write func(T)) error {
	size := c.q.int("MaxItems", 100)
	if err := c.q.err(); err != nil {
		return err
	}
	part, next, err := cut(all, min(max(size, 1), 1000), c.q.str("Marker"))
	if err != nil {
		return err
	}
	c.x.bool("IsTruncated", next != "")
	c.x.opt("Marker", next)
	c.x.in(name, func() {
		for _, v := range part {
			write(v)
		}
	})
	return nil
}

func listRoles(c *call) error {
	prefix := orDefault(c.q.str("PathPrefix"), "/")
	var all []*role
	for r := range c.acct.IAM.Roles.each {
		if strings.HasPrefix(r.Path, prefix) {
			all = append(all, r)
		}
	}
	return iamPage(c, "Roles", all, func(r *role) { c.x.in("member", func() { writeRole(c.x, r) }) })
}

func deleteRole(c *call) error {
	r, err := c.role(c.q.str("RoleName"))
	if err != nil {
		return err
	}
	return c.acct.removeRole(r)
}

func (a *account) removeRole(r *role) error {
	if len(r.Attached) > 0 || len(r.Inline) > 0 {
		return conflict("Cannot delete entity, must detach all policies first.")
	}
	for p := range a.IAM.Profiles.each {
		if p.Role == r.Name {
			return conflict("Cannot delete entity, must remove roles from instance profile first.")
		}
	}
	a.IAM.Roles.delete(r.Name)
	return nil
}

func attachRolePolicy(c *call) error {
	r, err := c.role(c.q.str("RoleName"))
	if err != nil {
		return err
	}
	arn := c.q.str("PolicyArn")
	short, aws := strings.CutPrefix(arn, awsPolicyPrefix)
	short = short[strings.LastIndexByte(short, '/')+1:]
	if _, known := awsPolicies[short]; c.acct.IAM.Policies.get(arn) == nil && (!aws || !known) {
		return fail("NoSuchEntity", "Policy %s does not exist or is not attachable.", arn).withStatus(http.StatusNotFound)
	}
	if !slices.Contains(r.Attached, arn) {
		r.Attached = append(r.Attached, arn)
	}
	return nil
}

func detachRolePolicy(c *call) error {
	r, err := c.role(c.q.str("RoleName"))
	if err != nil {
		return err
	}
	i := slices.Index(r.Attached, c.q.str("PolicyArn"))
	if i < 0 {
		return fail("NoSuchEntity", "Policy %s was not found.", c.q.str("PolicyArn")).withStatus(http.StatusNotFound)
	}
	r.Attached = slices.Delete(r.Attached, i, i+1)
	return nil
}

func listAttachedRolePolicies(c *call) error {
	r, err := c.role(c.q.str("RoleName"))
	if err != nil {
		return err
	}
	return iamPage(c, "AttachedPolicies", r.Attached, func(arn string) {
		c.x.in("member", func() {
			c.x.str("PolicyName", arn[strings.LastIndexByte(arn, '/')+1:])
			c.x.str("PolicyArn", arn)
		})
	})
}

func putRolePolicy(c *call) error {
	r, err := c.role(c.q.str("RoleName"))
	if err != nil {
		return err
	}
	if err := iamName("policyName", c.q.str("PolicyName"), 128); err != nil {
		return err
	}
	if _, err := policy.Parse(c.q.str("PolicyDocument")); err != nil {
		return fail("MalformedPolicyDocument", "%v", err)
	}
	r.Inline[c.q.str("PolicyName")] = c.q.str("PolicyDocument")
	return nil
}

func getRolePolicy(c *call) error {
	r, err := c.role(c.q.str("RoleName"))
	if err != nil {
		return err
	}
	name := c.q.str("PolicyName")
	text, ok := r.Inline[name]
	if !ok {
		return noEntity("The role policy with name", name)
	}
	c.x.str("RoleName", r.Name)
	c.x.str("PolicyName", name)
	c.x.str("PolicyDocument", strings.ReplaceAll(url.QueryEscape(text), "+", "%20"))
	return nil
}

func deleteRolePolicy(c *call) error {
	r, err := c.role(c.q.str("RoleName"))
	if err != nil {
		return err
	}
	if _, ok := r.Inline[c.q.str("PolicyName")]; !ok {
		return noEntity("The role policy with name", c.q.str("PolicyName"))
	}
	delete(r.Inline, c.q.str("PolicyName"))
	return nil
}

func listRolePolicies(c *call) error {
	r, err := c.role(c.q.str("RoleName"))
	if err != nil {
		return err
	}
	return iamPage(c, "PolicyNames", sortedKeys(r.Inline), func(n string) { c.x.str("member", n) })
}
