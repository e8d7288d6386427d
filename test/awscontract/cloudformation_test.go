package awscontract

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// waitTime is more than any waiter needs: the world answers at once.
const waitTime = time.Minute

var iamAllowed = []types.Capability{types.CapabilityCapabilityNamedIam}

func karpenterTemplate(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "karpenter-cloudformation.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// queueTemplate is a template of one queue, or of many.
func queueTemplate(name, extra string, n int) string {
	var b strings.Builder
	b.WriteString("Description: queues\nResources:\n")
	for i := range n {
		fmt.Fprintf(&b, "  Q%d: {Type: AWS::SQS::Queue, Properties: {QueueName: %s-%d%s}}\n", i, name, i, extra)
	}
	return b.String()
}

func (w *world) stack(name string) types.Stack {
	w.t.Helper()
	return must[*cloudformation.DescribeStacksOutput](w.t)(w.stacks.DescribeStacks(w.ctx, &cloudformation.DescribeStacksInput{StackName: &name})).Stacks[0]
}

// proposal is a change set on its way.
type proposal struct {
	kind      types.ChangeSetType
	set, body string
}

const ownStack = "Karpenter-my"

func (w *world) propose(p proposal) error {
	_, err := w.stacks.CreateChangeSet(w.ctx, &cloudformation.CreateChangeSetInput{
		StackName: aws.String(ownStack), ChangeSetName: &p.set, ChangeSetType: p.kind, TemplateBody: &p.body, Capabilities: iamAllowed,
		Parameters: []types.Parameter{{ParameterKey: aws.String("ClusterName"), ParameterValue: aws.String("my")}},
		Tags:       []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}},
	})
	return err
}

// ready waits until a change set can be executed.
func (w *world) ready(set string) error {
	return cloudformation.NewChangeSetCreateCompleteWaiter(w.stacks).Wait(w.ctx, &cloudformation.DescribeChangeSetInput{StackName: aws.String(ownStack), ChangeSetName: &set}, waitTime)
}

func (w *world) execute(set string) error {
	_, err := w.stacks.ExecuteChangeSet(w.ctx, &cloudformation.ExecuteChangeSetInput{StackName: aws.String(ownStack), ChangeSetName: &set})
	return err
}

// TestSDKStackByChangeSet takes the shipped kind of stack through its life the
// way deploying tools do: a change set, the waiters, an update, the end.
func TestSDKStackByChangeSet(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	this, text := &cloudformation.DescribeStacksInput{StackName: aws.String(ownStack)}, karpenterTemplate(t)
	refuses(t, w.propose(proposal{"UPDATE", "early", text}), "ValidationError")
	if err := errors.Join(w.propose(proposal{"CREATE", "first", text}), w.ready("first")); err != nil {
		t.Fatal(err)
	}
	cs := must[*cloudformation.DescribeChangeSetOutput](t)(w.stacks.DescribeChangeSet(w.ctx, &cloudformation.DescribeChangeSetInput{StackName: this.StackName, ChangeSetName: aws.String("first")}))
	if cs.ExecutionStatus != "AVAILABLE" || len(cs.Changes) < 8 || cs.Changes[0].ResourceChange.Action != "Add" || *cs.Tags[0].Value != "b" || !cs.CreationTime.Equal(start) {
		t.Errorf("change set: %+v", cs)
	}
	if err := errors.Join(w.execute("first"), cloudformation.NewStackCreateCompleteWaiter(w.stacks).Wait(w.ctx, this, waitTime)); err != nil {
		t.Fatal(err)
	}
	if s := w.stack(ownStack); s.LastUpdatedTime != nil || *s.Parameters[0].ParameterValue != "my" || len(s.Outputs) == 0 || *s.Tags[0].Key != "a" {
		t.Errorf("stack: %+v", s)
	}
	w.proposeTheSame(text)

	w.clock.Advance(time.Hour)
	longer := strings.Replace(text, "MessageRetentionPeriod: 300", "MessageRetentionPeriod: 600", 1)
	if err := errors.Join(w.propose(proposal{"UPDATE", "more", longer}), w.execute("more"), cloudformation.NewStackUpdateCompleteWaiter(w.stacks).Wait(w.ctx, this, waitTime)); err != nil {
		t.Fatal(err)
	}
	if s := w.stack(ownStack); s.LastUpdatedTime == nil || !s.LastUpdatedTime.Equal(start.Add(time.Hour)) {
		t.Errorf("updated at %v", s.LastUpdatedTime)
	}
	url := must[*sqs.GetQueueUrlOutput](t)(w.sqs.GetQueueUrl(w.ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("my")})).QueueUrl
	if a := must[*sqs.GetQueueAttributesOutput](t)(w.sqs.GetQueueAttributes(w.ctx, &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: []sqstypes.QueueAttributeName{"All"}})); a.Attributes["MessageRetentionPeriod"] != "600" {
		t.Errorf("the queue after the update: %v", a.Attributes)
	}
	must[*cloudformation.DeleteStackOutput](t)(w.stacks.DeleteStack(w.ctx, &cloudformation.DeleteStackInput{StackName: this.StackName}))
	if err := cloudformation.NewStackDeleteCompleteWaiter(w.stacks).Wait(w.ctx, this, waitTime); err != nil {
		t.Fatal(err)
	}
	_, err := w.sqs.GetQueueUrl(w.ctx, &sqs.GetQueueUrlInput{QueueName: aws.String("my")})
	refuses(t, err, "AWS.SimpleQueueService.NonExistentQueue")
}

// proposeTheSame makes a change set without changes, which fails.
func (w *world) proposeTheSame(text string) {
	t := w.t
	t.Helper()
	if err := w.propose(proposal{"UPDATE", "same", text}); err != nil {
		t.Fatal(err)
	}
	if err := w.ready("same"); err == nil {
		t.Error("a change set without changes became ready")
	}
	refuses(t, w.execute("same"), "InvalidChangeSetStatus")
	name, set := aws.String(ownStack), aws.String("same")
	sets := must[*cloudformation.ListChangeSetsOutput](t)(w.stacks.ListChangeSets(w.ctx, &cloudformation.ListChangeSetsInput{StackName: name}))
	if len(sets.Summaries) != 1 || sets.Summaries[0].ExecutionStatus != "UNAVAILABLE" || sets.Summaries[0].StatusReason == nil || sets.Summaries[0].CreationTime == nil {
		t.Errorf("change sets: %+v", sets.Summaries)
	}
	must[*cloudformation.DeleteChangeSetOutput](t)(w.stacks.DeleteChangeSet(w.ctx, &cloudformation.DeleteChangeSetInput{StackName: name, ChangeSetName: set}))
	_, err := w.stacks.DescribeChangeSet(w.ctx, &cloudformation.DescribeChangeSetInput{StackName: name, ChangeSetName: set})
	var gone *types.ChangeSetNotFoundException
	if !errors.As(err, &gone) {
		t.Errorf("a deleted change set: %v", err)
	}
}

// TestSDKStackDirectly creates and updates without change sets, and meets the
// errors on the way.
func TestSDKStackDirectly(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	create := func(name, body string, caps ...types.Capability) error {
		_, err := w.stacks.CreateStack(w.ctx, &cloudformation.CreateStackInput{StackName: &name, TemplateBody: &body, Capabilities: caps})
		return err
	}
	update := func(name, body string) error {
		_, err := w.stacks.UpdateStack(w.ctx, &cloudformation.UpdateStackInput{StackName: &name, TemplateBody: &body})
		return err
	}
	const role = "Resources: {R: {Type: AWS::IAM::Role, Properties: {AssumeRolePolicyDocument: {}}}}"
	refuses(t, create("1st", queueTemplate("a", "", 1)), "ValidationError")
	refuses(t, create("roles", role), "InsufficientCapabilitiesException")
	refuses(t, create("broken", "Resources: ["), "ValidationError")
	refuses(t, create("unknown", "Resources: {B: {Type: AWS::S3::Bucket}}"), "ValidationError")
	if err := create("small", queueTemplate("a", "", 1)); err != nil {
		t.Fatal(err)
	}
	err := create("small", queueTemplate("b", "", 1))
	var exists *types.AlreadyExistsException
	if !errors.As(err, &exists) {
		t.Errorf("creating twice: %v", err)
	}
	refuses(t, update("small", queueTemplate("a", "", 1)), "ValidationError")
	refuses(t, update("none", queueTemplate("a", "", 1)), "ValidationError")
	if err := update("small", queueTemplate("a", ", DelaySeconds: 5", 1)); err != nil {
		t.Fatal(err)
	}
	if s := w.stack("small"); s.StackStatus != "UPDATE_COMPLETE" || *s.Description != "queues" {
		t.Errorf("stack: %+v", s)
	}

	// A second stack with the same queue fails and is rolled back; then it can
	// only be deleted.
	if err := create("twice", queueTemplate("a", "", 1)); err != nil {
		t.Fatal(err)
	}
	if err := cloudformation.NewStackCreateCompleteWaiter(w.stacks).Wait(w.ctx, &cloudformation.DescribeStacksInput{StackName: aws.String("twice")}, waitTime); err == nil {
		t.Error("the failed stack was created")
	}
	refuses(t, update("twice", queueTemplate("z", "", 1)), "ValidationError")
	failed := must[*cloudformation.ListStacksOutput](t)(w.stacks.ListStacks(w.ctx, &cloudformation.ListStacksInput{StackStatusFilter: []types.StackStatus{"ROLLBACK_COMPLETE", "CREATE_FAILED"}}))
	if len(failed.StackSummaries) != 1 || *failed.StackSummaries[0].StackName != "twice" || failed.StackSummaries[0].StackStatusReason == nil {
		t.Errorf("failed stacks: %+v", failed.StackSummaries)
	}
	must[*cloudformation.DeleteStackOutput](t)(w.stacks.DeleteStack(w.ctx, &cloudformation.DeleteStackInput{StackName: aws.String("none")}))
}

// TestSDKStackDetails reads templates, resources and events, page by page.
func TestSDKStackDetails(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	const many = 130
	name, text := aws.String("many"), queueTemplate("q", "", many)
	must[*cloudformation.CreateStackOutput](t)(w.stacks.CreateStack(w.ctx, &cloudformation.CreateStackInput{StackName: name, TemplateBody: &text}))
	for i := range 105 {
		must[*cloudformation.CreateStackOutput](t)(w.stacks.CreateStack(w.ctx, &cloudformation.CreateStackInput{
			StackName: aws.String(fmt.Sprintf("s-%d", i)), TemplateBody: aws.String(queueTemplate(fmt.Sprintf("s-%d", i), "", 1)),
		}))
	}
	counts := map[string]int{}
	rp := cloudformation.NewListStackResourcesPaginator(w.stacks, &cloudformation.ListStackResourcesInput{StackName: name})
	for rp.HasMorePages() {
		for _, r := range must[*cloudformation.ListStackResourcesOutput](t)(rp.NextPage(w.ctx)).StackResourceSummaries {
			if r.ResourceStatus != "CREATE_COMPLETE" || r.LastUpdatedTimestamp == nil {
				t.Fatalf("resource: %+v", r)
			}
			counts["resources"]++
		}
	}
	ep := cloudformation.NewDescribeStackEventsPaginator(w.stacks, &cloudformation.DescribeStackEventsInput{StackName: name})
	for ep.HasMorePages() {
		for _, e := range must[*cloudformation.DescribeStackEventsOutput](t)(ep.NextPage(w.ctx)).StackEvents {
			if counts["events"] == 0 && (e.ResourceStatus != "CREATE_COMPLETE" || *e.ResourceType != "AWS::CloudFormation::Stack") {
				t.Errorf("the latest event comes first, not %+v", e)
			}
			counts["events"]++
		}
	}
	sp := cloudformation.NewDescribeStacksPaginator(w.stacks, &cloudformation.DescribeStacksInput{})
	for sp.HasMorePages() {
		counts["stacks"] += len(must[*cloudformation.DescribeStacksOutput](t)(sp.NextPage(w.ctx)).Stacks)
	}
	lp := cloudformation.NewListStacksPaginator(w.stacks, &cloudformation.ListStacksInput{})
	for lp.HasMorePages() {
		counts["summaries"] += len(must[*cloudformation.ListStacksOutput](t)(lp.NextPage(w.ctx)).StackSummaries)
	}
	if counts["resources"] != many || counts["events"] != many+2 || counts["stacks"] != 106 || counts["summaries"] != 106 {
		t.Errorf("pages gave %v", counts)
	}
	_, err := w.stacks.ListStacks(w.ctx, &cloudformation.ListStacksInput{NextToken: aws.String("nonsense")})
	refuses(t, err, "ValidationError")

	one := must[*cloudformation.DescribeStackResourcesOutput](t)(w.stacks.DescribeStackResources(w.ctx, &cloudformation.DescribeStackResourcesInput{StackName: name, LogicalResourceId: aws.String("Q7")}))
	if len(one.StackResources) != 1 || !strings.HasSuffix(*one.StackResources[0].PhysicalResourceId, "/q-7") || one.StackResources[0].Timestamp == nil {
		t.Errorf("resource: %+v", one.StackResources)
	}
	_, err = w.stacks.DescribeStackResources(w.ctx, &cloudformation.DescribeStackResourcesInput{StackName: name, LogicalResourceId: aws.String("none")})
	refuses(t, err, "ValidationError")
	if got := must[*cloudformation.GetTemplateOutput](t)(w.stacks.GetTemplate(w.ctx, &cloudformation.GetTemplateInput{StackName: name})); *got.TemplateBody != text {
		t.Error("the template came back changed")
	}
	full := karpenterTemplate(t)
	v := must[*cloudformation.ValidateTemplateOutput](t)(w.stacks.ValidateTemplate(w.ctx, &cloudformation.ValidateTemplateInput{TemplateBody: &full}))
	if *v.Parameters[0].ParameterKey != "ClusterName" || len(v.Capabilities) != 1 || v.Description == nil {
		t.Errorf("validated: %+v", v)
	}
	_, err = w.stacks.ValidateTemplate(w.ctx, &cloudformation.ValidateTemplateInput{TemplateBody: aws.String("{}")})
	refuses(t, err, "ValidationError")
	sum := must[*cloudformation.GetTemplateSummaryOutput](t)(w.stacks.GetTemplateSummary(w.ctx, &cloudformation.GetTemplateSummaryInput{StackName: name}))
	if len(sum.ResourceTypes) != 1 || sum.ResourceTypes[0] != "AWS::SQS::Queue" || *sum.Description != "queues" {
		t.Errorf("summary: %+v", sum)
	}
}
