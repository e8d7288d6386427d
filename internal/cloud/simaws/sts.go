package simaws

import (
	"maps"
	"net/http"
	"strings"
	"time"
)

func getCallerIdentity(c *call) error {
	c.x.str("Arn", c.who.ARN)
	c.x.str("UserId", c.who.UserID)
	c.x.str("Account", c.who.Account)
	return nil
}

// session is how long the key of an assumed role lasts.
const session = time.Hour

// assumeRole gives keys for a role. Trust policies and tokens are not checked:
// the world has no identity provider to ask.
func assumeRole(c *call) error {
	arn, name := c.q.str("RoleArn"), orDefault(c.q.str("RoleSessionName"), "session")
	parts := strings.Split(arn, ":")
	if len(parts) != 6 || !strings.HasPrefix(parts[5], "role/") {
		return invalidInput("roleArn", "must be the ARN of a role")
	}
	acct := c.account(parts[4])
	r := acct.IAM.Roles.get(parts[5][strings.LastIndexByte(parts[5], '/')+1:])
	if r == nil || r.ARN != arn {
		return fail("AccessDenied", "User: %s is not authorized to perform: sts:%s on resource: %s", c.who.ARN, c.action, arn).withStatus(http.StatusForbidden)
	}
	key := strings.ToUpper(c.id("ASIA", 16))
	p := &principal{
		ARN: "arn:aws:sts::" + acct.ID + ":assumed-role/" + r.Name + "/" + name, Account: acct.ID, UserID: r.ID + ":" + name, Role: r.Name,
		Expires: c.at.Add(session),
	}
	maps.DeleteFunc(c.st.Keys, func(_ string, o *principal) bool {
		return !o.Expires.IsZero() && c.at.Sub(o.Expires) > session
	})
	c.st.Keys[key] = p
	c.x.in("Credentials", func() {
		c.x.str("AccessKeyId", key)
		c.x.str("SecretAccessKey", "simulated/"+key)
		c.x.str("SessionToken", "simulated-token-"+key)
		c.x.time("Expiration", p.Expires)
	})
	c.x.in("AssumedRoleUser", func() {
		c.x.str("AssumedRoleId", p.UserID)
		c.x.str("Arn", p.ARN)
	})
	if c.action == "AssumeRoleWithWebIdentity" {
		c.x.str("SubjectFromWebIdentityToken", "simulated")
		c.x.str("Provider", "simulated")
	}
	return nil
}

// stsOperations is the STS part of the operation table. Anyone may ask who
// they are.
var stsOperations = map[string]*operation{
	"GetCallerIdentity":         {query: getCallerIdentity, authorizes: true},
	"AssumeRole":                {query: assumeRole, writes: true},
	"AssumeRoleWithWebIdentity": {query: assumeRole, writes: true, authorizes: true},
}
