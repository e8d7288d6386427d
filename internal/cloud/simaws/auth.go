package simaws

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"karpenter/internal/cloud/simaws/policy"
)

// principal is who makes a call.
type principal struct {
	ARN, Account, UserID string
	// Role is the name of the role whose policies apply. Without one the
	// principal is the account's root, who may do anything.
	Role string
	// Expires is when the key ends; never, if zero.
	Expires time.Time
}

// scope is the credential part of a SigV4 signature.
type scope struct{ key, region, service string }

var scopePattern = regexp.MustCompile(`Credential=([^/,\s]+)/(\d{8})/([^/,\s]+)/([^/,\s]+)/aws4_request`)

// credential reads the signature's scope from the header or a presigned URL.
// Signatures are not verified: the world has no secrets.
func credential(r *http.Request) scope {
	text := r.Header.Get("Authorization")
	if text == "" {
		if q := r.URL.Query().Get("X-Amz-Credential"); q != "" {
			text = "Credential=" + q
		}
	}
	m := scopePattern.FindStringSubmatch(text)
	if m == nil {
		return scope{}
	}
	return scope{m[1], m[3], m[4]}
}

var accountPattern = regexp.MustCompile(`^\d{12}$`)

// identify finds the principal. A registered key is who it was registered for,
// a key of twelve digits the root of that account, any other key the root of
// the default account.
func (c *call) identify(r *http.Request) error {
	cred := credential(r)
	if cred.key == "" {
		if c.service == "sts" && c.action == "AssumeRoleWithWebIdentity" {
			c.who = rootOf(c.opt.Account)
			return nil
		}
		return fail("MissingAuthenticationToken", "Request is missing Authentication Token").withStatus(http.StatusForbidden)
	}
	c.mu.RLock()
	known := c.st.Keys[cred.key]
	c.mu.RUnlock()
	switch {
	case known != nil && !known.Expires.IsZero() && !c.at.Before(known.Expires):
		c.who = known
		return c.expired()
	case known != nil:
		c.who = known
	case accountPattern.MatchString(cred.key):
		c.who = rootOf(cred.key)
	default:
		c.who = rootOf(c.opt.Account)
	}
	return nil
}

// expired is the refusal of a temporary key after its time.
func (c *call) expired() *apiError {
	code := "ExpiredToken"
	if c.proto == protoEC2 {
		code = "RequestExpired"
	} else if c.proto != protoQuery {
		code = "ExpiredTokenException"
	}
	return fail(code, "The security token included in the request is expired").withStatus(http.StatusForbidden)
}

func rootOf(account string) *principal {
	return &principal{ARN: "arn:aws:iam::" + account + ":root", Account: account, UserID: account}
}

// iamAction is the call as policies, faults and limits name it.
func (c *call) iamAction() string {
	return c.service + ":" + c.action
}

// policyCache keeps parsed policies by their text.
type policyCache struct {
	mu   sync.Mutex
	docs map[string]policy.Document
}

// maxPolicies is how many are kept before the cache starts afresh.
const maxPolicies = 2000

func (p *policyCache) parse(text string) policy.Document {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, ok := p.docs[text]
	if !ok {
		if len(p.docs) >= maxPolicies {
			clear(p.docs)
		}
		// What cannot be parsed was refused when it was stored.
		d, _ = policy.Parse(text)
		p.docs[text] = d
	}
	return d
}

// keys are condition keys, in lower case.
type keys map[string][]string

// allow checks the caller's policies for an action on a resource.
func (c *call) allow(action, resource string, more keys) error {
	if err := c.refused(action, resource, more); err != nil {
		return err
	}
	return nil
}

func (c *call) refused(action, resource string, more keys) *apiError {
	if c.who.Role == "" {
		return nil
	}
	ctx := keys{
		"aws:requestedregion": {c.region}, "aws:principalarn": {c.who.ARN}, "aws:principalaccount": {c.who.Account},
		"aws:securetransport": {"true"}, "aws:currenttime": {c.at.Format("2006-01-02T15:04:05Z")},
	}
	for k, v := range more {
		ctx[k] = v
	}
	decision, _ := policy.Evaluate(c.acct.IAM.documents(c.who.Role, c.policies.parse), policy.Request{Action: action, Resource: resource, Context: ctx})
	switch decision {
	case policy.Allowed:
		return nil
	case policy.ExplicitDeny:
		return c.denied(action, resource, "with an explicit deny in an identity-based policy")
	}
	return c.denied(action, resource, "because no identity-based policy allows the "+action+" action")
}

// denied is the refusal in the words of the service.
func (c *call) denied(action, resource, why string) *apiError {
	text := "User: " + c.who.ARN + " is not authorized to perform: " + action + " on resource: " + resource + " " + why
	switch c.proto {
	case protoEC2:
		return fail("UnauthorizedOperation", "You are not authorized to perform this operation. %s. Encoded authorization failure message: %s",
			text, strings.ReplaceAll(uuidFrom(hashString(text), 1), "-", "")).withStatus(http.StatusForbidden)
	case protoQuery:
		return fail("AccessDenied", "%s", text).withStatus(http.StatusForbidden)
	}
	return fail("AccessDeniedException", "%s", text)
}

// conditionTags makes the keys about the tags a resource has and the tags a
// request sets.
func conditionTags(have tagSet, requested []Tag) keys {
	out := keys{}
	for _, t := range have {
		out["aws:resourcetag/"+strings.ToLower(t.Key)] = []string{t.Value}
		out["ec2:resourcetag/"+strings.ToLower(t.Key)] = []string{t.Value}
	}
	for _, t := range requested {
		out["aws:requesttag/"+strings.ToLower(t.Key)] = []string{t.Value}
		out["aws:tagkeys"] = append(out["aws:tagkeys"], t.Key)
	}
	return out
}

// resource is something a creating call touches: by its ARN, with the tags it
// has, or those that the call gives it.
type resource struct {
	arn       string
	have      tagSet
	requested tagSet
	// created says that the call makes it, so that giving it tags needs
	// ec2:CreateTags too.
	created bool
}

// allowCreate checks a creating action on everything it touches, and the
// tagging of what it makes.
func (c *call) allowCreate(action string, rs []resource) error {
	if c.who.Role == "" {
		return nil
	}
	for _, r := range rs {
		if err := c.allow(action, r.arn, conditionTags(r.have, r.requested)); err != nil {
			return err
		}
		if len(r.requested) == 0 || !r.created && !strings.HasSuffix(r.arn, "/*") {
			continue
		}
		more := conditionTags(r.have, r.requested)
		_, name, _ := strings.Cut(action, ":")
		more["ec2:createaction"] = []string{name}
		if err := c.allow("ec2:CreateTags", r.arn, more); err != nil {
			return err
		}
	}
	return nil
}

// authorizeFleet checks what CreateFleet itself touches. What a single launch
// needs is checked per override, because EC2 reports that per override.
func (c *call) authorizeFleet(req *fleetRequest) error {
	if c.who.Role == "" {
		return nil
	}
	rs := []resource{{arn: c.arn("ec2", "fleet/*"), requested: req.tags["fleet"], created: true}}
	var seen []*launchTemplate
	for _, o := range req.overrides {
		if slices.Contains(seen, o.template) {
			continue
		}
		seen = append(seen, o.template)
		rs = append(rs, resource{arn: c.arn("ec2", "launch-template/"+o.template.ID), have: o.template.Tags})
		for _, kind := range []string{"instance", "volume"} {
			tags := o.version.Data.Tags[kind].with(req.tags[kind]...)
			rs = append(rs, resource{arn: c.arn("ec2", kind+"/*"), requested: tags, created: true})
		}
	}
	return c.allowCreate("ec2:CreateFleet", rs)
}

// authorizeRun checks one launch: RunInstances on all it touches, and passing
// the role of its profile.
func (c *call) authorizeRun(t *target, via string) *apiError {
	if c.who.Role == "" {
		return nil
	}
	image := "arn:aws:ec2:" + c.reg.Name + "::image/" + t.image.ID
	rs := []resource{
		{arn: image, have: t.image.Tags},
		{arn: c.arn("ec2", "subnet/"+t.subnet.ID), have: t.subnet.Tags},
		{arn: c.arn("ec2", "instance/*"), requested: t.data.Tags["instance"], created: true},
		{arn: c.arn("ec2", "volume/*"), requested: t.data.Tags["volume"], created: true},
		{arn: c.arn("ec2", "network-interface/*"), requested: t.data.Tags["network-interface"], created: true},
	}
	groups := slices.Clone(t.data.Groups)
	for _, i := range t.data.Interfaces {
		groups = append(groups, i.Groups...)
	}
	for _, id := range groups {
		if g := c.reg.Groups.get(id); g != nil {
			rs = append(rs, resource{arn: c.arn("ec2", "security-group/"+id), have: g.Tags})
		}
	}
	if t.template != nil {
		rs = append(rs, resource{arn: c.arn("ec2", "launch-template/"+t.template.ID), have: t.template.Tags})
	}
	if t.capacityType == "spot" {
		rs = append(rs, resource{arn: c.arn("ec2", "spot-instances-request/*"), requested: t.data.Tags["spot-instances-request"], created: true})
	}
	if t.cr != nil && t.data.ReservationID != "" {
		rs = append(rs, resource{arn: c.arn("ec2", "capacity-reservation/"+t.cr.ID), have: t.cr.Tags})
	}
	if t.pg != nil {
		rs = append(rs, resource{arn: c.arn("ec2", "placement-group/"+t.pg.Name), have: t.pg.Tags})
	}
	for _, r := range rs {
		if err := c.refused("ec2:RunInstances", r.arn, conditionTags(r.have, r.requested)); err != nil {
			return err
		}
		if len(r.requested) > 0 {
			more := conditionTags(r.have, r.requested)
			more["ec2:createaction"] = []string{via}
			if err := c.refused("ec2:CreateTags", r.arn, more); err != nil {
				return err
			}
		}
	}
	if t.profile != nil {
		role := c.acct.IAM.Roles.get(t.profile.Role)
		if role != nil {
			return c.refused("iam:PassRole", role.ARN, keys{"iam:passedtoservice": {"ec2.amazonaws.com"}})
		}
	}
	return nil
}
