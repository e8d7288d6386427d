package aws

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/simaws"
)

// untried are grants that no test can find missing, by statement and action or resource, each with the reason why it stays.
var untried = map[string]string{
	"AllowScopedEC2InstanceAccessActions ec2:CreateFleet": "EC2 may check CreateFleet on images, subnets and the like too; the AWS simulator checks only RunInstances on them",
	"AllowScopedEC2InstanceAccessActions snapshot/*":      "needed for volumes that are made from a snapshot, which the AWS simulator does not check",
}

// downloadActions are the actions of what a tour does not repeat.
var downloadActions = []string{"ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes", "ec2:DescribeSpotPriceHistory", "pricing:GetProducts"}

// tour does everything that the provider ever does beside downloads, for a class of that name, and returns what failed. Every name makes classes,
// templates, profiles and instances of its own.
func (w *testWorld) tour(name string) error {
	var errs []error
	try := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	_, err := FindCluster(w.ctx, w.opt.Clients, "test")
	try(err)
	_, _, _ = w.fleetRecord(w.ctx, nil, "fleet-00000000-0000-0000-0000-000000000000") // which there is none of
	_, err = w.RefreshShifts(w.ctx)
	try(err)
	try(w.Reach(w.ctx))
	class := w.addClass(name, func(c *awsv1.EC2NodeClass) {
		c.Spec.CapacityReservationSelectorTerms = []awsv1.CapacityReservationSelectorTerm{{Tags: map[string]string{"use": "yes"}}}
		c.Spec.PlacementGroupSelector = &awsv1.PlacementGroupSelector{Name: aws.String("group")}
	})
	for _, capacityType := range []string{karpv1.CapacityTypeSpot, karpv1.CapacityTypeReserved} {
		b := w.batch(name+"-"+capacityType, 1, need(karpv1.CapacityTypeLabelKey, capacityType), typeIs("m5.large"))
		b.Claims[0].Spec.NodeClassRef.Name = name
		r := w.Launch(w.ctx, b)[0]
		try(r.Err)
		if r.Instance == nil {
			continue
		}
		try(w.Tag(w.ctx, r.Instance.ID, map[string]string{awsv1.TagName: "node", awsv1.TagNodeClaim: name, awsv1.TagEKSClusterName: "test"}))
		b.Claims[0].Status.ProviderID = r.Instance.ProviderID
		try(w.Reboot(w.ctx, b.Claims[0], "operation"))
		try(w.Delete(w.ctx, r.Instance.ID))
	}
	try(w.readQueue())
	_, err = w.Ailing(w.ctx)
	try(err)
	w.advance(templateIdle)
	try(w.CollectTemplates(w.ctx))
	try(w.DeleteTemplates(w.ctx, name))
	try(w.CollectProfiles(w.ctx, class, nil))
	if ready := class.StatusConditions(true).Root(); ready.Status != "True" {
		try(errors.New("the class is not Ready: " + ready.Message))
	}
	return errors.Join(errs...)
}

// readQueue takes one delivery from the interruption queue, in which there is something.
func (w *testWorld) readQueue() error {
	q := NewQueue(w.opt.Clients.SQS, "test")
	w.must(w.sim.SendHealthEvent("", "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", "i-0123"))
	messages, err := q.Receive(w.ctx)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if err := q.Delete(w.ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// touring is a world with everything that a tour needs, in which the controller has the shipped policies.
func touring(t *testing.T) *testWorld {
	w := newWorld(t, func(s *simaws.Options, o *Options) { s.Queue, o.ZonalShift = "test", true })
	w.opt.Cluster.ARN = "arn:aws:eks:us-west-2:" + simaws.DefaultAccount + ":cluster/test"
	w.restart()
	w.role(nodeRole)
	_, err := w.sim.AddReservation(simaws.ReservationSpec{Type: "m5.large", Zone: "us-west-2a", Count: 500, Tags: []simaws.Tag{{Key: "use", Value: "yes"}}})
	w.must(err)
	_, err = w.admin.EC2.CreatePlacementGroup(w.ctx, &ec2.CreatePlacementGroupInput{GroupName: aws.String("group"), Strategy: "spread"})
	w.must(err)
	w.refresh()
	return w
}

// TestAWS_7_1_WhatIsUsedIsGranted: the tour goes through under the shipped policies. (Every other test runs under them too.)
func TestAWS_7_1_WhatIsUsedIsGranted(t *testing.T) {
	t.Parallel()
	w := touring(t)
	w.must(w.RefreshTypes(w.ctx))
	w.must(w.RefreshOnDemand(w.ctx))
	w.must(w.RefreshSpot(w.ctx))
	if err := w.tour("default"); err != nil || len(w.denied) > 0 {
		t.Errorf("%v\ndenied:\n%s", err, strings.Join(w.denied, "\n"))
	}
	for _, action := range downloadActions {
		if !w.used[action] {
			t.Errorf("%s is granted and nothing needs it", action)
		}
	}
}

// TestAWS_7_1_WhatIsGrantedIsUsed takes one action or one resource after the other from the shipped policies and repeats the
// tour. A grant without which nothing is refused is one that nothing needs.
func TestAWS_7_1_WhatIsGrantedIsUsed(t *testing.T) {
	t.Parallel()
	w := touring(t)
	n := 0
	// lacking repeats the tour without the grant that take removes.
	lacking := func(grant, doc string, at int, take func(*policyStatement)) {
		docs := shippedPolicies(t, w.opt.Region)
		take(docs[doc].Statement[at])
		if s := docs[doc].Statement[at]; len(s.Action) == 0 || len(s.Resource) == 0 {
			docs[doc].Statement = slices.Delete(docs[doc].Statement, at, at+1)
		}
		if len(docs[doc].Statement) == 0 {
			docs[doc].Statement = []*policyStatement{{Sid: "Nothing", Effect: "Allow", Action: []string{"s3:GetObject"}, Resource: []string{"arn:aws:s3:::none"}}}
		}
		w.grant(doc, docs[doc].text(t))
		w.mu.Lock()
		w.denied = nil
		w.mu.Unlock()
		w.reborn()
		n++
		// A fleet says per offering what it may not do, in an answer that itself is a success.
		err := w.tour(fmt.Sprint("tour-", n))
		refused := len(w.denied) > 0 || err != nil && strings.Contains(err.Error(), "is not authorized to perform")
		_, excused := untried[grant]
		switch {
		case !refused && !excused:
			t.Errorf("%s: %s is granted and nothing needs it", doc, grant)
		case refused && excused:
			t.Errorf("%s: %s is needed, so it must not be in the list of what is not tried", doc, grant)
		}
		w.grant(doc, shippedPolicies(t, w.opt.Region)[doc].text(t))
	}
	shipped := shippedPolicies(t, w.opt.Region)
	for _, doc := range slices.Sorted(maps.Keys(shipped)) {
		for at, s := range shipped[doc].Statement {
			for i, action := range s.Action {
				if !slices.Contains(downloadActions, action) { // the test before this one uses them
					lacking(s.Sid+" "+action, doc, at, func(s *policyStatement) { s.Action = slices.Delete(s.Action, i, i+1) })
				}
			}
			for i, resource := range s.Resource {
				if len(s.Resource) > 1 {
					lacking(s.Sid+" "+resource[strings.LastIndex(resource, ":")+1:], doc, at, func(s *policyStatement) { s.Resource = slices.Delete(s.Resource, i, i+1) })
				}
			}
		}
	}
	t.Logf("%d grants were taken away, one at a time", n)
}

// TestAWS_7_1_WhatBelongsToOthersIsOutOfReach holds the scopes of the policies: what the cluster's tags are not on cannot be
// ended, tagged or launched from.
func TestAWS_7_1_WhatBelongsToOthersIsOutOfReach(t *testing.T) {
	w := newWorld(t)
	w.load()
	in := w.one("web", onDemandOnly, typeIs("m5.large"))
	client := w.opt.Clients.EC2
	_, err := w.admin.EC2.DeleteTags(w.ctx, &ec2.DeleteTagsInput{Resources: []string{in.ID}, Tags: toTags(map[string]string{awsv1.TagClusterPrefix + "test": "owned"})})
	w.must(err)
	for _, try := range []struct {
		what string
		call func() error
	}{
		{"end an instance without the cluster's tag", func() error {
			_, err := client.TerminateInstances(w.ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{in.ID}})
			return err
		}},
		{"N7 reboot an instance without the cluster's tag", func() error {
			_, err := client.RebootInstances(w.ctx, &ec2.RebootInstancesInput{InstanceIds: []string{in.ID}})
			return err
		}},
		{"tag an instance without the cluster's tag", func() error {
			_, err := client.CreateTags(w.ctx, &ec2.CreateTagsInput{Resources: []string{in.ID}, Tags: toTags(map[string]string{"Name": "x"})})
			return err
		}},
		{"make a launch template without the cluster's tag", func() error {
			_, err := client.CreateLaunchTemplate(w.ctx, &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("foreign"), LaunchTemplateData: &types.RequestLaunchTemplateData{ImageId: aws.String(in.ImageID)}})
			return err
		}},
		{"set another tag on an instance of its own", func() error {
			mine := w.one("mine", onDemandOnly, typeIs("m5.large"))
			_, err := client.CreateTags(w.ctx, &ec2.CreateTagsInput{Resources: []string{mine.ID}, Tags: toTags(map[string]string{"team": "x"})})
			return err
		}},
	} {
		if err := try.call(); cloud.ClassOf(readError(try.what, err)) != cloud.Denied {
			t.Errorf("%s: got %v, want that it is denied", try.what, err)
		}
	}
}

// TestAWS_7_1_PolicyDocuments holds what IAM refuses to store: documents beyond 6,144 characters.
func TestAWS_7_1_PolicyDocuments(t *testing.T) {
	docs := shippedPolicies(t, "ap-southeast-2")
	if len(docs) != 6 {
		t.Errorf("%d documents for the controller, want 6", len(docs))
	}
	for name, d := range docs {
		if n := len(d.text(t)); n > 6144 {
			t.Errorf("%s has %d characters; IAM takes 6144", name, n)
		}
	}
}
