package aws

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
)

// untag takes tags off an instance, whatever their values.
func (w *testWorld) untag(id string, keys ...string) {
	w.t.Helper()
	raw, found, err := w.describing.Get(w.ctx, id)
	w.must(err)
	if !found {
		w.t.Fatalf("no instance %s", id)
	}
	in := &ec2.DeleteTagsInput{Resources: []string{id}}
	for _, tag := range raw.Tags {
		if slices.Contains(keys, *tag.Key) {
			in.Tags = append(in.Tags, tag)
		}
	}
	_, err = w.admin.EC2.DeleteTags(w.ctx, in)
	w.must(err)
}

// aged makes an instance one that upstream's versions 0.33 to 0.37 have launched, by its tags.
func (w *testWorld) aged(id string) {
	w.t.Helper()
	w.untag(id, awsv1.TagEKSClusterName, awsv1.TagNodeClass, awsv1.TagNodeClaim, TagClusterUID, cloud.BatchAnnotationKey)
	_, err := w.admin.EC2.CreateTags(w.ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: toTags(map[string]string{"karpenter.sh/managed-by": "test"})})
	w.must(err)
}

// ends holds that an instance is listed, found and ended, as the controller's role allows.
func (w *testWorld) ends(id string) {
	w.t.Helper()
	if !slices.ContainsFunc(w.living(), func(in *cloud.Instance) bool { return in.ID == id }) {
		w.t.Error("the instance is not listed, so that nobody would miss it")
	}
	if _, err := w.Get(w.ctx, id); err != nil {
		w.t.Errorf("get: %v", err)
	}
	w.must(w.Tag(w.ctx, id, map[string]string{awsv1.TagEKSClusterName: "test"}))
	w.must(w.Delete(w.ctx, id))
	w.advance(10 * time.Minute)
	if _, err := w.Get(w.ctx, id); cloud.ReasonOf(err) != cloud.ReasonTerminated {
		w.t.Errorf("get after its end: %v, want that it is terminated", err)
	}
}

// TestA40_AStandAloneInstanceIsOurs ends the instance of a claim without a pool.
func TestA40_AStandAloneInstanceIsOurs(t *testing.T) {
	w := newWorld(t)
	w.load()
	b := w.batch("alone", 1, onDemandOnly, typeIs("m5.large"))
	delete(b.Claims[0].Labels, karpv1.NodePoolLabelKey)
	r := w.Launch(w.ctx, b)[0]
	w.must(r.Err)
	w.ends(r.Instance.ID)
}

// TestT33_InstancesOfOlderVersionsAreOurs takes over instances that do not have the tags of today.
func TestT33_InstancesOfOlderVersionsAreOurs(t *testing.T) {
	w := newWorld(t)
	w.load()
	in := w.one("old", onDemandOnly, typeIs("m5.large"))
	w.aged(in.ID)
	w.reborn()
	w.ends(in.ID)
}

// TestS6_WhatIsNotOursIsNotGone: an instance of another cluster, or of nobody, is not among ours, and still is not absent.
func TestS6_WhatIsNotOursIsNotGone(t *testing.T) {
	w := newWorld(t)
	w.load()
	theirs, nobodys := w.one("theirs", onDemandOnly, typeIs("m5.large")), w.one("nobodys", onDemandOnly, typeIs("m5.large"))
	w.untag(theirs.ID, awsv1.TagClusterPrefix+"test", awsv1.TagEKSClusterName, TagClusterUID)
	_, err := w.admin.EC2.CreateTags(w.ctx, &ec2.CreateTagsInput{Resources: []string{theirs.ID}, Tags: toTags(map[string]string{awsv1.TagClusterPrefix + "other": "owned"})})
	w.must(err)
	w.untag(nobodys.ID, awsv1.TagClusterPrefix+"test", awsv1.TagEKSClusterName, TagClusterUID)
	if list := w.living(); len(list) != 0 {
		t.Errorf("listed %+v", list)
	}
	for _, in := range []*cloud.Instance{theirs, nobodys} {
		if _, err := w.Get(w.ctx, in.ID); cloud.ClassOf(err) == cloud.NotFound {
			t.Errorf("get %s: %v, which says that it is gone", in.Batch, err)
		}
		if err := w.Delete(w.ctx, in.ID); cloud.ClassOf(err) != cloud.Denied {
			t.Errorf("delete %s: %v, want that it is denied, by us or by IAM", in.Batch, err)
		}
	}
	if err := w.Tag(w.ctx, theirs.ID, map[string]string{"Name": "x"}); cloud.ClassOf(err) != cloud.Denied {
		t.Errorf("tag: %v", err)
	}
	// What the operator has ended by hand is proven gone, whatever tags it has.
	_, err = w.admin.EC2.TerminateInstances(w.ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{theirs.ID, nobodys.ID}})
	w.must(err)
	w.advance(10 * time.Minute)
	for _, in := range []*cloud.Instance{theirs, nobodys} {
		if err := w.Delete(w.ctx, in.ID); cloud.ReasonOf(err) != cloud.ReasonTerminated {
			t.Errorf("delete %s after its end: %v", in.Batch, err)
		}
	}
}
