package aws

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/cloud/kit"
	"karpenter/internal/cloud/aws/shape"
)

// shapeResources names the entries of the vectors of instance types.
var shapeResources = shape.Resources

const (
	// lookAfter is the age of a claim from which its batch may have been launched by an earlier process, so that its
	// instances are looked for before anything is launched. For younger ones the client token alone prevents a second launch.
	lookAfter = 30 * time.Second
	// settled is the age from which everything that a launch made shows up when looked for by tag.
	settled = 2 * time.Minute
)

// Launch implements cloud.Launcher. One call makes at most one fleet, under a token that every repetition shares until an answer
// says that it made nothing.
func (p *Provider) Launch(ctx context.Context, batch cloud.Batch) []cloud.Result {
	results := make([]cloud.Result, len(batch.Claims))
	if err := batch.Check(); err != nil {
		return all(results, &cloud.Error{Class: cloud.Invalid, Op: "launch batch " + batch.ID, Reason: "BatchInvalid", Err: err})
	}
	unlock := p.launches.lock(p.opt.Clock, batch.ID)
	defer unlock()
	switch {
	case p.attempts.Spent(batch):
		p.attempts.Raise(batch.ID) // these have come late, when the others had been launched
	case p.age(batch) >= lookAfter:
		p.reach(StepLook, false)
		found, err := p.lookUp(ctx, batch.ID)
		p.reach(StepLook, true)
		if err != nil {
			return all(results, err)
		}
		if len(found) > 0 {
			return p.adopt(batch, found)
		}
	}
	o, err := p.order(batch)
	if err != nil {
		return all(results, err)
	}
	out, err := p.send(ctx, o)
	if codeOf(err) == codeTokenReused {
		return p.launchedBefore(ctx, batch, err)
	}
	if err != nil {
		return all(results, err)
	}
	if len(out.Instances) == 0 && len(out.Errors) == 0 {
		return p.unsaid(ctx, o, aws.ToString(out.FleetId))
	}
	p.reach(StepLearn, false)
	p.learn(o, out)
	p.reach(StepLearn, true)
	p.reach(StepHandOut, false)
	results = p.handOut(o, out)
	p.reach(StepHandOut, true)
	return results
}

// all gives every claim the same error.
func all(results []cloud.Result, err error) []cloud.Result {
	for i := range results {
		results[i] = cloud.Result{Err: err}
	}
	return results
}

// age is the time since the first claim of the batch was written.
func (p *Provider) age(batch cloud.Batch) time.Duration {
	first := slices.MinFunc(batch.Claims, func(a, b *karpv1.NodeClaim) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	if first.CreationTimestamp.IsZero() {
		return settled
	}
	return p.opt.Clock.Now().Sub(first.CreationTimestamp.Time)
}

// order works out what to ask EC2 for. It makes no calls.
func (p *Provider) order(batch cloud.Batch) (*order, error) {
	op := "launch batch " + batch.ID
	claim := batch.Claims[0]
	ref := claim.Spec.NodeClassRef
	if ref == nil {
		return nil, &cloud.Error{Class: cloud.Invalid, Op: op, Reason: "NodeClassRefMissing", Err: errors.New("spec.nodeClassRef is not given")}
	}
	list := batch.Types
	resources := shapeResources
	if list != nil {
		resources = list.Resources
	}
	w, err := newWish(claim, resources)
	if err != nil {
		return nil, &cloud.Error{Class: cloud.Invalid, Op: op, Reason: "RequirementsInvalid", Err: err}
	}
	in, err := p.inputs(ref.Name, w.kubelet)
	if err != nil {
		return nil, err
	}
	if err := usable(in.class, p.opt.ReservedCapacity); err != nil {
		return nil, err
	}
	if list == nil {
		if list, err = p.TypesWith(ref.Name, w.kubelet); err != nil {
			return nil, err
		}
	}
	c, err := choose(list.List, w)
	if err != nil {
		return nil, &cloud.Error{Class: cloud.NoCapacity, Op: op, Reason: "InsufficientCapacity", Err: err}
	}
	return &order{in: in, batch: batch, wish: w, resources: resources, choice: c, tags: p.birthTags(in.class, batch)}, nil
}

// usable says why nothing can be launched for a class now, or returns nil.
func usable(class *awsv1.EC2NodeClass, reservedCapacity bool) error {
	fail := func(kind cloud.Class, reason, why string) error {
		return &cloud.Error{Class: kind, Op: "use class " + class.Name, Reason: reason, Err: errors.New(why)}
	}
	ready := class.StatusConditions(reservedCapacity).Root()
	switch {
	case class.DeletionTimestamp != nil:
		return fail(cloud.NotReady, karpv1.ReasonNodeClassTerminating, "the class is being deleted")
	case ready.Status == metav1.ConditionFalse:
		return fail(cloud.NotReady, "NodeClassNotReady", ready.Message)
	case ready.Status != metav1.ConditionTrue:
		return fail(cloud.Transient, karpv1.ReasonNodeClassReadinessUnknown, "the class is not Ready yet: "+ready.Message)
	case ready.ObservedGeneration != class.Generation:
		return fail(cloud.NotReady, "NodeClassNotReady", fmt.Sprintf("generation %d of the class has not been looked at yet", class.Generation))
	}
	return nil
}

// birthTags are on the instance from its first moment, so that it can be found again whatever happens next.
func (p *Provider) birthTags(class *awsv1.EC2NodeClass, batch cloud.Batch) map[string]string {
	tags := maps.Clone(class.Spec.Tags)
	if tags == nil {
		tags = map[string]string{}
	}
	claim := batch.Claims[0]
	maps.Copy(tags, map[string]string{
		awsv1.TagClusterPrefix + p.opt.Cluster.Name: awsv1.TagClusterOwned,
		awsv1.TagEKSClusterName:                     p.opt.Cluster.Name,
		awsv1.TagNodePool:                           claim.Labels[karpv1.NodePoolLabelKey],
		awsv1.TagNodeClass:                          class.Name,
		cloud.BatchAnnotationKey:                    batch.ID,
	})
	if p.opt.Cluster.UID != "" {
		tags[TagClusterUID] = p.opt.Cluster.UID
	}
	if len(batch.Claims) == 1 {
		tags[awsv1.TagNodeClaim] = claim.Name
	}
	return tags
}

// send makes what the order needs and asks for the fleet; a launch template that is gone is made once more.
func (p *Provider) send(ctx context.Context, o *order) (*ec2.CreateFleetOutput, error) {
	for attempt := 0; ; attempt++ {
		if err := p.arrange(ctx, o); err != nil {
			return nil, err
		}
		out, err := p.createFleet(ctx, o)
		if err == nil {
			return out, nil
		}
		for _, id := range o.subnets {
			p.addresses.giveBack(id, o.debit)
		}
		p.launchFailed(o, "", cloud.ReasonOf(err))
		if cloud.ReasonOf(err) != reasonTemplateNotFound || attempt > 0 {
			return nil, err
		}
		p.templates.forget(o.templates)
		o.configs, o.templates = nil, nil
	}
}

// once keeps the SDK from repeating a call: what is paced is repeated in its turn, and what had no answer is looked into.
func once(o *ec2.Options) { o.RetryMaxAttempts = 1 }

func (p *Provider) createFleet(ctx context.Context, o *order) (out *ec2.CreateFleetOutput, err error) {
	request, begun := p.request(o), p.opt.Clock.Now()
	err = p.fleets.Do(ctx, "launch batch "+o.batch.ID, func() (err error) {
		p.gathered(batcherFleet, len(o.batch.Claims), p.opt.Clock.Now().Sub(begun))
		p.reach(StepFleet, false)
		out, err = p.opt.Clients.EC2.CreateFleet(ctx, request, once)
		p.reach(StepFleet, true)
		return err
	})
	return out, err
}

// handOut gives the instances of an answer to claims in order, and says to the others why there is none.
func (p *Provider) handOut(o *order, out *ec2.CreateFleetOutput) []cloud.Result {
	var got []*cloud.Instance
	var ids []string
	for _, i := range out.Instances {
		got, ids = append(got, p.launched(o, i)...), append(ids, i.InstanceIds...)
	}
	// A repeated call is answered with the same fleet, of which other claims may have instances on record by now.
	got = slices.DeleteFunc(got, func(in *cloud.Instance) bool { return o.batch.Taken[in.ID] })
	slices.SortFunc(got, byID)
	results := make([]cloud.Result, len(o.batch.Claims))
	for i := range results {
		results[i].Advice = kit.Advice(o.choice, &o.wish.Wish)
		if i < len(got) {
			p.recent.Add(got[i].ID)
			p.describe(got[i], o.in, o.wish)
			results[i].Instance = got[i]
		} else {
			results[i].Err = refusal(o.batch.ID, out.Errors)
		}
	}
	if len(got) == 0 {
		p.attempts.Raise(o.batch.ID)
	} else {
		p.attempts.Answered(o.batch.ID, ids)
	}
	return results
}

// launched are the instances of one line of the answer.
func (p *Provider) launched(o *order, i types.CreateFleetInstance) []*cloud.Instance {
	at := overridden(i.LaunchTemplateAndOverrides)
	zone := aws.ToString(at.AvailabilityZone)
	opt, _ := o.option(at)
	var out []*cloud.Instance
	for _, id := range i.InstanceIds {
		in := &cloud.Instance{
			ID: id, ProviderID: providerID(zone, id), State: cloud.Pending, Launched: p.opt.Clock.Now(),
			Type: string(i.InstanceType), Zone: zone, CapacityType: o.choice.CapacityType, ImageID: aws.ToString(at.ImageId),
			Batch: o.batch.ID, Pool: o.tags[awsv1.TagNodePool], Class: o.in.class.Name, Tags: o.tags, Labels: map[string]string{},
		}
		if opt.Offering != nil {
			for _, l := range opt.Offering.Labels {
				in.Labels[l.Key] = l.Value
			}
		}
		if !o.wish.partitioned() {
			delete(in.Labels, awsv1.LabelPlacementGroupPartition) // EC2 chooses, see Provider.Partition
		}
		in.Labels[awsv1.LabelInstanceTenancy] = o.wish.tenancy()
		out = append(out, in)
	}
	return out
}
