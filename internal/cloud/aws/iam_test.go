package aws

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"

	"karpenter/internal/cloud/simaws"
)

// Who the controller and its nodes are in tests. The controller's policies are the shipped documents and nothing else.
const (
	controllerKey  = "AKIACONTROLLER"
	controllerRole = "KarpenterController-test"
	nodeRole       = "KarpenterNodeRole-test"
	policyFolder   = "../../../deploy/iam"
)

// refusals are the codes by which services say that IAM does not allow a call.
var refusals = []string{"UnauthorizedOperation", "AccessDenied", "AccessDeniedException"}

// policyDocument is an IAM policy, as far as tests take one apart.
type policyDocument struct {
	Version   string
	Statement []*policyStatement
}

type policyStatement struct {
	Sid, Effect      string
	Action, Resource []string
	Condition        map[string]map[string]any `json:",omitempty"`
}

// text is the document as IAM takes it.
func (d *policyDocument) text(t testing.TB) string {
	t.Helper()
	raw, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// shippedPolicies reads the controller's documents with the placeholders filled in, by name.
func shippedPolicies(t testing.TB, region string) map[string]*policyDocument {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(policyFolder, "KarpenterController*Policy.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no policies in %s: %v", policyFolder, err)
	}
	fill := strings.NewReplacer("${AWS_PARTITION}", "aws", "${AWS_REGION}", region, "${AWS_ACCOUNT_ID}", simaws.DefaultAccount, "${CLUSTER_NAME}", "test")
	docs := map[string]*policyDocument{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		d := &policyDocument{}
		if err := json.Unmarshal([]byte(fill.Replace(string(raw))), d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		docs[strings.TrimSuffix(filepath.Base(file), ".json")] = d
	}
	return docs
}

// policies makes the controller's role with these policies and no others.
func (w *testWorld) policies(docs map[string]*policyDocument) {
	w.t.Helper()
	w.role(controllerRole)
	for name, d := range docs {
		if len(d.Statement) > 0 {
			w.grant(name, d.text(w.t))
		}
	}
	w.must(w.sim.RegisterKey(controllerKey, controllerRole))
}

// grant adds a policy to the controller's, as a user would who needs more.
func (w *testWorld) grant(name, document string) {
	w.t.Helper()
	_, err := w.admin.IAM.PutRolePolicy(w.ctx, &iam.PutRolePolicyInput{RoleName: aws.String(controllerRole), PolicyName: aws.String(name), PolicyDocument: aws.String(document)})
	w.must(err)
}

// deny takes one action from the controller, for as long as the world lives.
func (w *testWorld) deny(action string) {
	w.t.Helper()
	w.grant("deny", `{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"`+action+`","Resource":"*"}]}`)
}
