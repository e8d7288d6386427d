package charts

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"karpenter/internal/cloud/simaws"
)

// requireCLI, when set in the environment, turns the lack of the aws command from a skipped test into a failed one.
const requireCLI = "KARPENTER_TEST_AWSCLI"

// region is where the stack is deployed.
const region = "eu-west-2"

// policyBlock is a policy of the template, with its name and its document.
var policyBlock = regexp.MustCompile(`(?m)^      ManagedPolicyName: !Sub "(\w+)-\$\{ClusterName\}"\n      PolicyDocument: !Sub \|\n((?:        .*\n)+)`)

var placeholders = strings.NewReplacer("${AWS_PARTITION}", "${AWS::Partition}", "${AWS_REGION}", "${AWS::Region}", "${AWS_ACCOUNT_ID}", "${AWS::AccountId}", "${CLUSTER_NAME}", "${ClusterName}")

func policyFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(at("deploy", "iam", "KarpenterController*Policy.json"))
	if err != nil || len(files) != 6 {
		t.Fatalf("want six policies of the controller, found %v: %v", files, err)
	}
	return files
}

func TestTheTemplateHasTheShippedPolicies(t *testing.T) {
	path := at("deploy", "cloudformation", "karpenter.yaml")
	text := read(t, path)
	found := map[string]bool{}
	want := policyBlock.ReplaceAllStringFunc(text, func(block string) string {
		match := policyBlock.FindStringSubmatch(block)
		found[match[1]] = true
		document := onePolicy(t)
		if match[1] != "KarpenterControllerPolicy" {
			document = read(t, at("deploy", "iam", match[1]+".json"))
		}
		document = strings.TrimSpace(placeholders.Replace(document))
		return strings.TrimSuffix(block, match[2]) + "        " + strings.ReplaceAll(document, "\n", "\n        ") + "\n"
	})
	hold(t, path, want)
	for _, file := range policyFiles(t) {
		if name := strings.TrimSuffix(filepath.Base(file), ".json"); !found[name] {
			t.Errorf("the template lacks %s", name)
		}
	}
}

// onePolicy is what the six policies say, in one, without the names of statements, for which there is no room.
func onePolicy(t *testing.T) string {
	t.Helper()
	type document struct {
		Version   string
		Statement []map[string]any
	}
	all := document{Version: "2012-10-17"}
	for _, file := range policyFiles(t) {
		var one document
		if err := json.Unmarshal([]byte(read(t, file)), &one); err != nil {
			t.Fatal(err)
		}
		for _, statement := range one.Statement {
			delete(statement, "Sid")
			all.Statement = append(all.Statement, statement)
		}
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// mostName is the longest name of a cluster that the one policy has room for, in the region with the longest name.
const mostName = 35

func TestTheOnePolicyFits(t *testing.T) {
	const most = 6144 // characters of a managed policy, without blanks
	fill := func(n int) int {
		text := strings.NewReplacer("${AWS_PARTITION}", "aws", "${AWS_REGION}", "ap-southeast-2", "${AWS_ACCOUNT_ID}", simaws.DefaultAccount, "${CLUSTER_NAME}", strings.Repeat("x", n)).Replace(onePolicy(t))
		return len(strings.Join(strings.Fields(text), ""))
	}
	if fill(mostName) > most || fill(mostName+1) <= most {
		t.Errorf("%d characters for a cluster name of %d, %d for one more; IAM has room for %d", fill(mostName), mostName, fill(mostName+1), most)
	}
	if !strings.Contains(read(t, at("deploy", "cloudformation", "karpenter.yaml")), "cluster names of more than 35 characters") {
		t.Error("the template does not say how long the name may be")
	}
}

// cloud is an AWS simulator, the aws command, and clients to look at what it has done.
type cloud struct {
	t      *testing.T
	path   string
	env    []string
	config aws.Config
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	if testing.Short() {
		t.Skip("each aws command takes seconds; not with -short")
	}
	path, err := exec.LookPath("aws")
	if err != nil {
		if os.Getenv(requireCLI) != "" {
			t.Fatal("the aws command is missing; on Debian: apt-get install -y awscli")
		}
		t.Skip("the aws command is missing; on Debian: apt-get install -y awscli")
	}
	sim, err := simaws.New(simaws.Options{
		Clock: simaws.NewManual(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), Seed: 1, Region: region, Clusters: []simaws.Cluster{{Name: "production"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(sim.Handler())
	t.Cleanup(server.Close)
	pyenv := os.Getenv("PYENV_ROOT")
	if pyenv == "" {
		pyenv = filepath.Join(os.Getenv("HOME"), ".pyenv")
	}
	return &cloud{
		t: t, path: path,
		config: aws.Config{
			Region: region, BaseEndpoint: aws.String(server.URL),
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
			}),
		},
		env: []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PYENV_ROOT=" + pyenv, "AWS_ENDPOINT_URL=" + server.URL,
			"AWS_REGION=" + region, "AWS_DEFAULT_REGION=" + region, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_PAGER=",
			"AWS_EC2_METADATA_DISABLED=true", "AWS_MAX_ATTEMPTS=1", "CLUSTER_NAME=production",
		},
	}
}

// run runs shell lines in which aws is the real command. Versions of it that do not read AWS_ENDPOINT_URL are told.
func (c *cloud) run(script string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "bash", "-euo", "pipefail", "-c", `aws() { command `+c.path+` --endpoint-url "$AWS_ENDPOINT_URL" "$@"; }`+"\n"+script)
	cmd.Env, cmd.Dir = c.env, at("deploy", "cloudformation")
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("%s: %v\n%s", script, err, out)
	}
}

// same compares a policy document of AWS, which is in percent encoding, with one of deploy/iam for the cluster production.
func same(t *testing.T, name string, got *string) {
	t.Helper()
	text, err := url.PathUnescape(aws.ToString(got))
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("${AWS_PARTITION}", "aws", "${AWS_REGION}", region, "${AWS_ACCOUNT_ID}", simaws.DefaultAccount, "${CLUSTER_NAME}", "production")
	if d := cmp.Diff(decode(t, fill.Replace(read(t, at("deploy", "iam", name+".json")))), decode(t, text)); d != "" {
		t.Errorf("%s differs from deploy/iam:\n%s", name, d)
	}
}

func decode(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return value
}

// must ends the test on an error and hands the value on.
func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// The command is that of a published walk-through, with the name of our file.
const deploy = `aws cloudformation deploy \
--stack-name Karpenter-${CLUSTER_NAME} \
--template-file karpenter.yaml \
--capabilities CAPABILITY_NAMED_IAM \
--parameter-overrides ClusterName=${CLUSTER_NAME}`

func TestTheStackDeploys(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.run(deploy)
	ctx, roles := t.Context(), iam.NewFromConfig(c.config)
	for _, file := range policyFiles(t) {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		arn := "arn:aws:iam::" + simaws.DefaultAccount + ":policy/" + name + "-production"
		made := must[*iam.GetPolicyVersionOutput](t)(roles.GetPolicyVersion(ctx, &iam.GetPolicyVersionInput{PolicyArn: &arn, VersionId: aws.String("v1")}))
		same(t, name, made.PolicyVersion.Document)
	}
	for role, want := range map[string]struct {
		trust    string
		policies int
	}{"KarpenterNodeRole-production": {"KarpenterNodeRole-trust", 4}, "KarpenterControllerRole-production": {"KarpenterController-trust", 6}} {
		same(t, want.trust, must[*iam.GetRoleOutput](t)(roles.GetRole(ctx, &iam.GetRoleInput{RoleName: &role})).Role.AssumeRolePolicyDocument)
		attached := must[*iam.ListAttachedRolePoliciesOutput](t)(roles.ListAttachedRolePolicies(ctx, &iam.ListAttachedRolePoliciesInput{RoleName: &role}))
		if len(attached.AttachedPolicies) != want.policies {
			t.Errorf("%s has %d policies, want %d", role, len(attached.AttachedPolicies), want.policies)
		}
	}
	rules := must[*eventbridge.ListRulesOutput](t)(eventbridge.NewFromConfig(c.config).ListRules(ctx, &eventbridge.ListRulesInput{}))
	if len(rules.Rules) != 5 {
		t.Errorf("%d event rules, want 5", len(rules.Rules))
	}
	queues := sqs.NewFromConfig(c.config)
	at := must[*sqs.GetQueueUrlOutput](t)(queues.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("production")})).QueueUrl
	queue := must[*sqs.GetQueueAttributesOutput](t)(queues.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: at, AttributeNames: []sqstypes.QueueAttributeName{"All"}})).Attributes
	if queue["MessageRetentionPeriod"] != "300" || queue["SqsManagedSseEnabled"] != "true" || !strings.Contains(queue["Policy"], "events.amazonaws.com") || !strings.Contains(queue["Policy"], "aws:SecureTransport") {
		t.Errorf("the queue: %v", queue)
	}
	c.run("aws cloudformation delete-stack --stack-name Karpenter-production; aws cloudformation wait stack-delete-complete --stack-name Karpenter-production")
}

func TestTheStackWithoutAControllerRole(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.run(deploy + " ControllerRole=None")
	roles := iam.NewFromConfig(c.config)
	must[*iam.GetRoleOutput](t)(roles.GetRole(t.Context(), &iam.GetRoleInput{RoleName: aws.String("KarpenterNodeRole-production")}))
	if _, err := roles.GetRole(t.Context(), &iam.GetRoleInput{RoleName: aws.String("KarpenterControllerRole-production")}); err == nil {
		t.Error("the role was made all the same")
	}
}

// theirIDs are the resources of upstream Karpenter's stack by their ids (aws §7.1), with the names that they have.
const theirIDs = `
Parameters: {ClusterName: {Type: String}}
Resources:
  KarpenterNodeRole: {Type: "AWS::IAM::Role", Properties: {RoleName: !Sub "KarpenterNodeRole-${ClusterName}", AssumeRolePolicyDocument: {Version: "2012-10-17", Statement: [{Effect: Allow, Principal: {Service: ec2.amazonaws.com}, Action: "sts:AssumeRole"}]}}}
  NodeLifecyclePolicy: {Type: "AWS::IAM::ManagedPolicy", Properties: {ManagedPolicyName: !Sub "KarpenterControllerNodeLifecyclePolicy-${ClusterName}", PolicyDocument: DOCUMENT}}
  IAMIntegrationPolicy: {Type: "AWS::IAM::ManagedPolicy", Properties: {ManagedPolicyName: !Sub "KarpenterControllerIAMIntegrationPolicy-${ClusterName}", PolicyDocument: DOCUMENT}}
  EKSIntegrationPolicy: {Type: "AWS::IAM::ManagedPolicy", Properties: {ManagedPolicyName: !Sub "KarpenterControllerEKSIntegrationPolicy-${ClusterName}", PolicyDocument: DOCUMENT}}
  InterruptionPolicy: {Type: "AWS::IAM::ManagedPolicy", Properties: {ManagedPolicyName: !Sub "KarpenterControllerInterruptionPolicy-${ClusterName}", PolicyDocument: DOCUMENT}}
  ZonalShiftPolicy: {Type: "AWS::IAM::ManagedPolicy", Properties: {ManagedPolicyName: !Sub "KarpenterControllerZonalShiftPolicy-${ClusterName}", PolicyDocument: DOCUMENT}}
  ResourceDiscoveryPolicy: {Type: "AWS::IAM::ManagedPolicy", Properties: {ManagedPolicyName: !Sub "KarpenterControllerResourceDiscoveryPolicy-${ClusterName}", PolicyDocument: DOCUMENT}}
  KarpenterInterruptionQueue: {Type: "AWS::SQS::Queue", Properties: {QueueName: !Ref ClusterName, MessageRetentionPeriod: 300}}
  KarpenterInterruptionQueuePolicy: {Type: "AWS::SQS::QueuePolicy", Properties: {Queues: [!Ref KarpenterInterruptionQueue], PolicyDocument: {Version: "2012-10-17", Statement: [{Effect: Allow, Principal: {Service: events.amazonaws.com}, Action: "sqs:SendMessage", Resource: !GetAtt KarpenterInterruptionQueue.Arn}]}}}
  ScheduledChangeRule: {Type: "AWS::Events::Rule", Properties: {EventPattern: {source: [aws.health]}, Targets: [{Id: q, Arn: !GetAtt KarpenterInterruptionQueue.Arn}]}}
  SpotInterruptionRule: {Type: "AWS::Events::Rule", Properties: {EventPattern: {source: [aws.ec2]}, Targets: [{Id: q, Arn: !GetAtt KarpenterInterruptionQueue.Arn}]}}
  RebalanceRule: {Type: "AWS::Events::Rule", Properties: {EventPattern: {source: [aws.ec2]}, Targets: [{Id: q, Arn: !GetAtt KarpenterInterruptionQueue.Arn}]}}
  InstanceStateChangeRule: {Type: "AWS::Events::Rule", Properties: {EventPattern: {source: [aws.ec2]}, Targets: [{Id: q, Arn: !GetAtt KarpenterInterruptionQueue.Arn}]}}
  CapacityReservationInterruptionRule: {Type: "AWS::Events::Rule", Properties: {EventPattern: {source: [aws.ec2]}, Targets: [{Id: q, Arn: !GetAtt KarpenterInterruptionQueue.Arn}]}}
`

// Ours is deployed over upstream's stack, with IRSA, and the role of nodes stays the one that nodes have.
func TestTheStackDeploysOverUpstreams(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	file := filepath.Join(t.TempDir(), "their.yaml")
	text := strings.ReplaceAll(theirIDs, "DOCUMENT", `{Version: "2012-10-17", Statement: [{Effect: Allow, Action: "ec2:DescribeImages", Resource: "*"}]}`)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.run(strings.Replace(deploy, "karpenter.yaml", file, 1))
	roles := iam.NewFromConfig(c.config)
	role := func(name string) *iam.GetRoleOutput {
		return must[*iam.GetRoleOutput](t)(roles.GetRole(t.Context(), &iam.GetRoleInput{RoleName: &name}))
	}
	before := aws.ToString(role("KarpenterNodeRole-production").Role.RoleId)
	const provider = "oidc.eks.eu-west-2.amazonaws.com/id/0123456789ABCDEF"
	c.run(deploy + " ControllerNamespace=karpenter OIDCProvider=" + provider)
	if after := aws.ToString(role("KarpenterNodeRole-production").Role.RoleId); after != before {
		t.Errorf("the role of nodes was made anew: %s, then %s", before, after)
	}
	trust, err := url.PathUnescape(aws.ToString(role("KarpenterControllerRole-production").Role.AssumeRolePolicyDocument))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"pods.eks.amazonaws.com", ":oidc-provider/" + provider, provider + `:sub`, "system:serviceaccount:karpenter:karpenter", "sts:AssumeRoleWithWebIdentity"} {
		if !strings.Contains(trust, want) {
			t.Errorf("the controller's role does not trust %s:\n%s", want, trust)
		}
	}
	arn := "arn:aws:iam::" + simaws.DefaultAccount + ":policy/KarpenterControllerPolicy-production"
	must[*iam.GetPolicyOutput](t)(roles.GetPolicy(t.Context(), &iam.GetPolicyInput{PolicyArn: &arn}))
	rules := must[*eventbridge.ListRulesOutput](t)(eventbridge.NewFromConfig(c.config).ListRules(t.Context(), &eventbridge.ListRulesInput{}))
	if len(rules.Rules) != 5 {
		t.Errorf("%d event rules, want 5", len(rules.Rules))
	}
}
