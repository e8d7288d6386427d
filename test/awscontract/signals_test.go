package awscontract

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	shifttypes "github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/fis"
	fistypes "github.com/aws/aws-sdk-go-v2/service/fis/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"karpenter/internal/cloud/simaws"
)

// bodies takes the messages out of a queue.
func (w *world) bodies(queue string) []string {
	w.t.Helper()
	url := must[*sqs.GetQueueUrlOutput](w.t)(w.sqs.GetQueueUrl(w.ctx, &sqs.GetQueueUrlInput{QueueName: &queue})).QueueUrl
	var out []string
	for {
		got := must[*sqs.ReceiveMessageOutput](w.t)(w.sqs.ReceiveMessage(w.ctx, &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10})).Messages
		if len(got) == 0 {
			return out
		}
		for _, m := range got {
			out = append(out, *m.Body)
		}
	}
}

func TestSDKEventRules(t *testing.T) {
	w := newWorld(t, "sdk", func(o *simaws.Options) { o.Queue = "" })
	must[*sqs.CreateQueueOutput](t)(w.sqs.CreateQueue(w.ctx, &sqs.CreateQueueInput{QueueName: aws.String("q")}))
	rule := aws.String("r-0")
	_, err := w.events.DescribeRule(w.ctx, &eventbridge.DescribeRuleInput{Name: rule})
	var none *eventtypes.ResourceNotFoundException
	if !errors.As(err, &none) {
		t.Errorf("a rule that is not there: %v", err)
	}
	_, err = w.events.PutRule(w.ctx, &eventbridge.PutRuleInput{Name: rule, EventPattern: aws.String("{")})
	refuses(t, err, "InvalidEventPatternException")
	_, err = w.events.PutRule(w.ctx, &eventbridge.PutRuleInput{Name: rule, EventPattern: aws.String("{}"), EventBusName: aws.String("other")})
	refuses(t, err, "ResourceNotFoundException")
	put := must[*eventbridge.PutRuleOutput](t)(w.events.PutRule(w.ctx, &eventbridge.PutRuleInput{Name: rule, Description: aws.String("d"), EventPattern: aws.String(`{"source":["my.app"],"detail":{"n":[{"prefix":"a"}]}}`)}))
	if *put.RuleArn != "arn:aws:events:us-west-2:111122223333:rule/r-0" {
		t.Errorf("ARN %s", *put.RuleArn)
	}
	if d := must[*eventbridge.DescribeRuleOutput](t)(w.events.DescribeRule(w.ctx, &eventbridge.DescribeRuleInput{Name: rule})); d.State != "ENABLED" || *d.Description != "d" || *d.EventBusName != "default" {
		t.Errorf("rule: %+v", d)
	}
	targets := must[*eventbridge.PutTargetsOutput](t)(w.events.PutTargets(w.ctx, &eventbridge.PutTargetsInput{Rule: rule, Targets: []eventtypes.Target{{Id: aws.String("1"), Arn: aws.String("arn:aws:sqs:us-west-2:111122223333:q")}, {Id: aws.String("2"), Arn: aws.String("arn:aws:sqs:us-west-2:111122223333:other")}}}))
	if targets.FailedEntryCount != 0 {
		t.Errorf("targets: %+v", targets)
	}

	sent := must[*eventbridge.PutEventsOutput](t)(w.events.PutEvents(w.ctx, &eventbridge.PutEventsInput{Entries: []eventtypes.PutEventsRequestEntry{
		{Source: aws.String("my.app"), DetailType: aws.String("t"), Detail: aws.String(`{"n":"abc"}`), Resources: []string{"arn:x"}, Time: aws.Time(start.Add(-time.Hour))},
		{Source: aws.String("my.app"), DetailType: aws.String("t"), Detail: aws.String(`{"n":"xyz"}`)},
		{Source: aws.String("my.app"), DetailType: aws.String("t"), Detail: aws.String(`{`)},
		{DetailType: aws.String("t"), Detail: aws.String(`{}`)},
		{Source: aws.String("aws.ec2"), DetailType: aws.String("t"), Detail: aws.String(`{}`)},
	}}))
	if sent.FailedEntryCount != 3 || sent.Entries[0].EventId == nil || *sent.Entries[2].ErrorCode != "MalformedDetail" || *sent.Entries[3].ErrorCode != "InvalidArgument" || *sent.Entries[4].ErrorCode != "NotAuthorizedForSourceException" {
		t.Fatalf("sent: %+v", sent)
	}
	got := w.bodies("q")
	var e struct {
		ID, Time  string
		Resources []string
	}
	if len(got) != 1 || json.Unmarshal([]byte(got[0]), &e) != nil || e.ID != *sent.Entries[0].EventId || e.Time != "2025-10-01T11:00:00Z" || e.Resources[0] != "arn:x" {
		t.Errorf("the queue got %v, want event %s", got, *sent.Entries[0].EventId)
	}
	_, err = w.events.PutEvents(w.ctx, &eventbridge.PutEventsInput{Entries: make([]eventtypes.PutEventsRequestEntry, 11)})
	refuses(t, err, "ValidationException")

	_, err = w.events.DeleteRule(w.ctx, &eventbridge.DeleteRuleInput{Name: rule})
	refuses(t, err, "ValidationException")
	removed := must[*eventbridge.RemoveTargetsOutput](t)(w.events.RemoveTargets(w.ctx, &eventbridge.RemoveTargetsInput{Rule: rule, Ids: []string{"1", "2", "9"}}))
	if removed.FailedEntryCount != 1 || *removed.FailedEntries[0].TargetId != "9" {
		t.Errorf("removed: %+v", removed)
	}
	must[*eventbridge.DeleteRuleOutput](t)(w.events.DeleteRule(w.ctx, &eventbridge.DeleteRuleInput{Name: rule}))
}

func TestSDKEventPages(t *testing.T) {
	w := newWorld(t, "sdk", func(o *simaws.Options) { o.Queue = "" })
	const rules, targets = 23, 12
	for i := range rules {
		must[*eventbridge.PutRuleOutput](t)(w.events.PutRule(w.ctx, &eventbridge.PutRuleInput{Name: aws.String(fmt.Sprintf("r-%02d", i)), EventPattern: aws.String("{}"), State: "DISABLED"}))
	}
	var list []eventtypes.Target
	for i := range targets {
		list = append(list, eventtypes.Target{Id: aws.String(fmt.Sprint(i)), Arn: aws.String("arn:aws:sqs:us-west-2:111122223333:q")})
	}
	must[*eventbridge.PutTargetsOutput](t)(w.events.PutTargets(w.ctx, &eventbridge.PutTargetsInput{Rule: aws.String("r-00"), Targets: list}))
	names, in := map[string]bool{}, &eventbridge.ListRulesInput{NamePrefix: aws.String("r-"), Limit: aws.Int32(10)}
	for pages := 1; ; pages++ {
		out := must[*eventbridge.ListRulesOutput](t)(w.events.ListRules(w.ctx, in))
		for _, r := range out.Rules {
			names[*r.Name] = true
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			if pages != 3 || len(names) != rules {
				t.Errorf("%d rules on %d pages", len(names), pages)
			}
			break
		}
	}
	n, of := 0, &eventbridge.ListTargetsByRuleInput{Rule: aws.String("r-00"), Limit: aws.Int32(5)}
	for {
		out := must[*eventbridge.ListTargetsByRuleOutput](t)(w.events.ListTargetsByRule(w.ctx, of))
		n += len(out.Targets)
		if of.NextToken = out.NextToken; of.NextToken == nil {
			break
		}
	}
	if n != targets {
		t.Errorf("%d targets", n)
	}
	_, err := w.events.ListRules(w.ctx, &eventbridge.ListRulesInput{Limit: aws.Int32(101)})
	refuses(t, err, "ValidationException")
	_, err = w.events.ListRules(w.ctx, &eventbridge.ListRulesInput{NextToken: aws.String("nonsense")})
	refuses(t, err, "ValidationException")
	_, err = w.events.ListTargetsByRule(w.ctx, &eventbridge.ListTargetsByRuleInput{Rule: aws.String("none")})
	refuses(t, err, "ResourceNotFoundException")
}

func TestSDKZonalShift(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	const arn = "arn:aws:eks:us-west-2:111122223333:cluster/my-cluster"
	begin := func(resource, zone, expires string) (*arczonalshift.StartZonalShiftOutput, error) {
		return w.shifts.StartZonalShift(w.ctx, &arczonalshift.StartZonalShiftInput{ResourceIdentifier: &resource, AwayFrom: &zone, ExpiresIn: &expires, Comment: aws.String("c")})
	}
	_, err := begin(arn, "us-west-2a", "1h")
	var invalid *shifttypes.ValidationException
	if !errors.As(err, &invalid) || invalid.Reason != "InvalidAz" {
		t.Errorf("a zone's name instead of its id: %v", err)
	}
	if _, err = begin(arn, "usw2-az1", "4d"); !errors.As(err, &invalid) || invalid.Reason != "InvalidExpiresIn" {
		t.Errorf("four days: %v", err)
	}
	_, err = begin(arn+"s", "usw2-az1", "1h")
	refuses(t, err, "ResourceNotFoundException")
	s := must[*arczonalshift.StartZonalShiftOutput](t)(begin(arn, "usw2-az1", "2h"))
	if s.Status != "ACTIVE" || !s.ExpiryTime.Equal(start.Add(2*time.Hour)) || !s.StartTime.Equal(start) || *s.AwayFrom != "usw2-az1" {
		t.Errorf("shift: %+v", s)
	}
	var conflict *shifttypes.ConflictException
	if _, err = begin(arn, "usw2-az2", "1h"); !errors.As(err, &conflict) || conflict.Reason != "ZonalShiftAlreadyExists" {
		t.Errorf("a second shift: %v", err)
	}
	get := func() *arczonalshift.GetManagedResourceOutput {
		t.Helper()
		return must[*arczonalshift.GetManagedResourceOutput](t)(w.shifts.GetManagedResource(w.ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: aws.String(arn)}))
	}
	if g := get(); len(g.ZonalShifts) != 1 || g.ZonalShifts[0].AppliedStatus != "APPLIED" || g.AppliedWeights["usw2-az1"] != 0 || g.AppliedWeights["usw2-az2"] != 1 || *g.Name != "my-cluster" {
		t.Errorf("resource: %+v", g)
	}
	c := must[*arczonalshift.CancelZonalShiftOutput](t)(w.shifts.CancelZonalShift(w.ctx, &arczonalshift.CancelZonalShiftInput{ZonalShiftId: s.ZonalShiftId}))
	if c.Status != "CANCELED" || len(get().ZonalShifts) != 0 {
		t.Errorf("cancelled: %+v", c)
	}
	if _, err = w.shifts.CancelZonalShift(w.ctx, &arczonalshift.CancelZonalShiftInput{ZonalShiftId: s.ZonalShiftId}); !errors.As(err, &conflict) || conflict.Reason != "ZonalShiftStatusNotActive" {
		t.Errorf("cancelling twice: %v", err)
	}
	_, err = w.shifts.CancelZonalShift(w.ctx, &arczonalshift.CancelZonalShiftInput{ZonalShiftId: aws.String("6f2f8a2e-0000-0000-0000-000000000000")})
	refuses(t, err, "ResourceNotFoundException")
	_, err = w.shifts.GetManagedResource(w.ctx, &arczonalshift.GetManagedResourceInput{ResourceIdentifier: aws.String(arn + "s")})
	refuses(t, err, "ResourceNotFoundException")
	must[*arczonalshift.StartZonalShiftOutput](t)(begin(arn, "usw2-az2", "1h"))
	w.clock.Advance(time.Hour)
	if g := get(); len(g.ZonalShifts) != 0 {
		t.Errorf("an expired shift is still there: %+v", g.ZonalShifts)
	}
}

// TestSDKRESTPages lists clusters through both services that know them.
func TestSDKRESTPages(t *testing.T) {
	w := newWorld(t, "sdk", func(o *simaws.Options) {
		for i := range 21 {
			o.Clusters = append(o.Clusters, simaws.Cluster{Name: fmt.Sprintf("c-%02d", i)})
		}
	})
	const all = 23
	names, pages := map[string]bool{}, 0
	p := arczonalshift.NewListManagedResourcesPaginator(w.shifts, &arczonalshift.ListManagedResourcesInput{MaxResults: aws.Int32(10)})
	for p.HasMorePages() {
		pages++
		for _, r := range must[*arczonalshift.ListManagedResourcesOutput](t)(p.NextPage(w.ctx)).Items {
			names[*r.Name] = true
			if len(r.AvailabilityZones) != 4 || r.AppliedWeights["usw2-az1"] != 1 {
				t.Errorf("resource: %+v", r)
			}
		}
	}
	if pages != 3 || len(names) != all {
		t.Errorf("%d resources on %d pages", len(names), pages)
	}
	_, err := w.shifts.ListManagedResources(w.ctx, &arczonalshift.ListManagedResourcesInput{NextToken: aws.String("nonsense")})
	refuses(t, err, "ValidationException")
	n := 0
	cp := eks.NewListClustersPaginator(w.eks, &eks.ListClustersInput{MaxResults: aws.Int32(10)})
	for cp.HasMorePages() {
		n += len(must[*eks.ListClustersOutput](t)(cp.NextPage(w.ctx)).Clusters)
	}
	if n != all {
		t.Errorf("%d clusters", n)
	}
	_, err = w.eks.ListClusters(w.ctx, &eks.ListClustersInput{MaxResults: aws.Int32(101)})
	refuses(t, err, "InvalidParameterException")
}

// TestSDKExperiment interrupts spot instances by tag, and meets the errors.
func TestSDKExperiment(t *testing.T) {
	w := newWorld(t, "sdk", nil)
	w.nodeProfile()
	w.template("tpl-1", nil)
	ids := must[*ec2.CreateFleetOutput](t)(w.ec2.CreateFleet(w.ctx, fleetInput("tpl-1", "spot", 4, override("m5.large", "subnet-0abc123")))).Instances[0].InstanceIds
	w.advance(simaws.DefaultTiming.Pending)
	w.bodies("my-cluster")

	create := func(target fistypes.CreateExperimentTemplateTargetInput, action string) (*fis.CreateExperimentTemplateOutput, error) {
		return w.faults.CreateExperimentTemplate(w.ctx, &fis.CreateExperimentTemplateInput{
			Description: aws.String("d"), RoleArn: aws.String("arn:aws:iam::111122223333:role/fis"), ClientToken: aws.String("t"),
			StopConditions: []fistypes.CreateExperimentTemplateStopConditionInput{{Source: aws.String("none")}},
			Targets:        map[string]fistypes.CreateExperimentTemplateTargetInput{"nodes": target},
			Actions: map[string]fistypes.CreateExperimentTemplateActionInput{"a": {
				ActionId: &action, Parameters: map[string]string{"durationBeforeInterruption": "PT2M"}, Targets: map[string]string{"SpotInstances": "nodes"},
			}},
		})
	}
	const interrupt = "aws:ec2:send-spot-instance-interruptions"
	kind := aws.String("aws:ec2:spot-instance")
	byTag := fistypes.CreateExperimentTemplateTargetInput{ResourceType: kind, ResourceTags: map[string]string{"karpenter.sh/nodepool": "default"}, SelectionMode: aws.String("PERCENT(50)")}
	_, err := create(byTag, "aws:ec2:reboot-instances")
	refuses(t, err, "ValidationException")
	_, err = create(fistypes.CreateExperimentTemplateTargetInput{ResourceType: kind, ResourceTags: byTag.ResourceTags, SelectionMode: aws.String("SOME")}, interrupt)
	refuses(t, err, "ValidationException")
	_, err = create(fistypes.CreateExperimentTemplateTargetInput{ResourceType: kind, SelectionMode: aws.String("ALL")}, interrupt)
	refuses(t, err, "ValidationException")
	tpl := must[*fis.CreateExperimentTemplateOutput](t)(create(byTag, interrupt)).ExperimentTemplate
	if *tpl.Targets["nodes"].SelectionMode != "PERCENT(50)" || *tpl.Actions["a"].ActionId != interrupt || !tpl.CreationTime.Equal(start.Add(simaws.DefaultTiming.Pending)) {
		t.Errorf("template: %+v", tpl)
	}
	run := func(template *string) *fistypes.Experiment {
		t.Helper()
		return must[*fis.StartExperimentOutput](t)(w.faults.StartExperiment(w.ctx, &fis.StartExperimentInput{ExperimentTemplateId: template, ClientToken: aws.String("x")})).Experiment
	}
	first := run(tpl.Id)
	got := must[*fis.GetExperimentOutput](t)(w.faults.GetExperiment(w.ctx, &fis.GetExperimentInput{Id: first.Id})).Experiment
	if got.State.Status != "completed" || *got.ExperimentTemplateId != *tpl.Id || got.Actions["a"].State.Status != "completed" {
		t.Errorf("experiment: %+v", got)
	}
	if warned := len(w.bodies("my-cluster")); warned != 2 {
		t.Errorf("%d of 4 instances were warned, want half", warned)
	}
	w.advance(simaws.DefaultTiming.Notice + time.Minute)
	if a, b := w.instance(ids[0]).State.Name, w.instance(ids[3]).State.Name; a != "terminated" || b != "running" {
		t.Errorf("the first is %s, the last %s", a, b)
	}

	gone := must[*fis.CreateExperimentTemplateOutput](t)(create(fistypes.CreateExperimentTemplateTargetInput{
		ResourceType: kind, ResourceArns: []string{"arn:aws:ec2:us-west-2:111122223333:instance/" + ids[0]}, SelectionMode: aws.String("ALL"),
	}, interrupt)).ExperimentTemplate
	if e := run(gone.Id); e.State.Status != "failed" {
		t.Errorf("an experiment without a target is %s", e.State.Status)
	}
	must[*fis.DeleteExperimentTemplateOutput](t)(w.faults.DeleteExperimentTemplate(w.ctx, &fis.DeleteExperimentTemplateInput{Id: gone.Id}))
	_, err = w.faults.StartExperiment(w.ctx, &fis.StartExperimentInput{ExperimentTemplateId: gone.Id, ClientToken: aws.String("y")})
	refuses(t, err, "ResourceNotFoundException")
	_, err = w.faults.GetExperiment(w.ctx, &fis.GetExperimentInput{Id: tpl.Id})
	refuses(t, err, "ResourceNotFoundException")
}
