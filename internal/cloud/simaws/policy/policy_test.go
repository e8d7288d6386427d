package policy

import (
	"strings"
	"testing"
)

func must(t *testing.T, text string) Document {
	t.Helper()
	d, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEvaluate(t *testing.T) {
	const scoped = `{"Version":"2012-10-17","Statement":[
	 {"Sid":"launch","Effect":"Allow","Action":["ec2:RunInstances","ec2:CreateFleet"],"Resource":["arn:aws:ec2:us-west-2:*:instance/*"],
	  "Condition":{"StringEquals":{"aws:RequestTag/kubernetes.io/cluster/c1":"owned"},"StringLike":{"aws:RequestTag/karpenter.sh/nodepool":"*"}}},
	 {"Sid":"tag","Effect":"Allow","Action":"ec2:CreateTags","Resource":"*","Condition":{"ForAllValues:StringEquals":{"aws:TagKeys":["Name","a"]},"StringEqualsIfExists":{"aws:RequestTag/x":"y"}}},
	 {"Sid":"no","Effect":"Deny","Action":"sqs:*","Resource":"*","Condition":{"Bool":{"aws:SecureTransport":false}}},
	 {"Sid":"sqs","Effect":"Allow","Action":"sqs:Receive*","Resource":"arn:aws:sqs:*:*:c1"},
	 {"Sid":"not","Effect":"Allow","NotAction":["iam:*","ec2:*","sqs:*"],"Resource":"*","Condition":{"Null":{"aws:TokenIssueTime":"true"},"StringNotEquals":{"aws:RequestedRegion":"eu-west-1"}}}]}`
	doc := must(t, scoped)
	owned := map[string][]string{"aws:requesttag/kubernetes.io/cluster/c1": {"owned"}, "aws:requesttag/karpenter.sh/nodepool": {"default"}}
	for _, tc := range []struct {
		name             string
		action, resource string
		ctx              map[string][]string
		want             Decision
		sid              string
	}{
		{"tagged launch", "ec2:RunInstances", "arn:aws:ec2:us-west-2:1:instance/*", owned, Allowed, "launch"},
		{"action case", "ec2:runinstances", "arn:aws:ec2:us-west-2:1:instance/i", owned, Allowed, "launch"},
		{"untagged launch", "ec2:RunInstances", "arn:aws:ec2:us-west-2:1:instance/*", nil, ImplicitDeny, ""},
		{"other region", "ec2:RunInstances", "arn:aws:ec2:us-east-1:1:instance/*", owned, ImplicitDeny, ""},
		{"known keys", "ec2:CreateTags", "x", map[string][]string{"aws:tagkeys": {"Name"}}, Allowed, "tag"},
		{"foreign key", "ec2:CreateTags", "x", map[string][]string{"aws:tagkeys": {"Name", "b"}}, ImplicitDeny, ""},
		{"if exists", "ec2:CreateTags", "x", map[string][]string{"aws:tagkeys": {"a"}, "aws:requesttag/x": {"z"}}, ImplicitDeny, ""},
		{"deny wins", "sqs:ReceiveMessage", "arn:aws:sqs:r:1:c1", map[string][]string{"aws:securetransport": {"false"}}, ExplicitDeny, "no"},
		{"allow prefix", "sqs:ReceiveMessage", "arn:aws:sqs:r:1:c1", map[string][]string{"aws:securetransport": {"true"}}, Allowed, "sqs"},
		{"other queue", "sqs:ReceiveMessage", "arn:aws:sqs:r:1:c2", nil, ImplicitDeny, ""},
		{"not action", "ssm:GetParameter", "p", nil, Allowed, "not"},
		{"negated value", "ssm:GetParameter", "p", map[string][]string{"aws:requestedregion": {"eu-west-1"}}, ImplicitDeny, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, by := Evaluate([]Document{doc}, Request{tc.action, tc.resource, tc.ctx})
			sid := ""
			if by != nil {
				sid = by.Sid
			}
			if got != tc.want || sid != tc.sid {
				t.Errorf("got %v by %q, want %v by %q", got, sid, tc.want, tc.sid)
			}
		})
	}
}

func TestVariables(t *testing.T) {
	d := must(t, `{"Statement":{"Effect":"Allow","Action":"s3:Get","Resource":"arn:aws:s3:::b/${aws:PrincipalTag/team}/*"}}`)
	ctx := map[string][]string{"aws:principaltag/team": {"red"}}
	for resource, want := range map[string]Decision{"arn:aws:s3:::b/red/x": Allowed, "arn:aws:s3:::b/blue/x": ImplicitDeny} {
		if got, _ := Evaluate([]Document{d}, Request{"s3:Get", resource, ctx}); got != want {
			t.Errorf("%s: got %v, want %v", resource, got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                "syntax",
		`{"Statement":[]}`: "no Statement",
		`{"Statement":{"Effect":"Maybe","Action":"a:b"}}`:                                              "Effect",
		`{"Statement":{"Effect":"Allow"}}`:                                                             "no Action",
		`{"Statement":{"Effect":"Allow","Action":"Run"}}`:                                              "service prefix",
		`{"Version":"1999","Statement":{"Effect":"Allow","Action":"a:b"}}`:                             "Version",
		`{"Statement":{"Effect":"Allow","Action":"a:b","Condition":{"StringIsh":{"k":"v"}}}}`:          "StringIsh",
		`{"Statement":{"Effect":"Allow","Action":"a:b","Condition":{"StringEquals":{"k":{"a":"b"}}}}}`: "not a string",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
			t.Errorf("Parse(%s) = %v, want an error about %q", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"Statement":{"Effect":"Allow","Action":"a:b","Resource":"${aws:x","Condition":{"ForAnyValue:StringLike":{"k":["*",1,true]}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := Parse(text)
		if err != nil {
			return
		}
		Evaluate([]Document{d}, Request{"a:b", "arn:x", map[string][]string{"k": {"v"}}})
	})
}
