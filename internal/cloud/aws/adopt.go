package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/engine/world"
)

// lookUp finds every instance that was made for a batch, in whatever state. Batches that are looked for at the same time share
// a call.
func (p *Provider) lookUp(ctx context.Context, batch string) ([]*cloud.Instance, error) {
	list, _, err := p.looking.Get(ctx, batch)
	return list, readError("look for batch "+batch, err)
}

// lookUpAll finds the instances of batches, by batch.
func (p *Provider) lookUpAll(ctx context.Context, batches []string) (map[string][]*cloud.Instance, error) {
	found := map[string][]*cloud.Instance{}
	err := p.eachInstance(ctx, append(p.owned(), filter("tag:"+cloud.BatchAnnotationKey, batches...)), func(i *types.Instance) {
		if in := p.toShape(i); !in.Unmarked && !p.foreign(in) {
			found[in.Batch] = append(found[in.Batch], in)
		}
	})
	return found, err
}

// launchedBefore handles EC2's word that the batch's token was used with other parameters: a fleet exists, so nothing more is
// launched. Its instances are adopted as soon as they show up; if none does in time, the fleet got none.
func (p *Provider) launchedBefore(ctx context.Context, batch cloud.Batch, used error) []cloud.Result {
	results := make([]cloud.Result, len(batch.Claims))
	found, err := p.lookUp(ctx, batch.ID)
	switch {
	case err != nil:
		return all(results, err)
	case len(found) > 0:
		return p.adopt(batch, found)
	case p.age(batch) < settled:
		return all(results, used)
	}
	return all(results, noneLeft(batch.ID))
}

// unsaid handles an answer that names neither instances nor errors. AWS promises of a repeated call only that it succeeds, so the fleet
// may have been filled all the same: its instances are looked for by their tags and by the fleet's own record, and until something
// turns up, or nothing can any more, the outcome is not known.
func (p *Provider) unsaid(ctx context.Context, o *order, fleet string) []cloud.Result {
	results, batch := make([]cloud.Result, len(o.batch.Claims)), o.batch
	found, err := p.lookUp(ctx, batch.ID)
	var refused []types.CreateFleetError
	if err == nil && len(found) == 0 && fleet != "" {
		found, refused, err = p.fleetRecord(ctx, o, fleet)
	}
	switch {
	case err != nil:
		return all(results, err)
	case len(found) > 0:
		return p.adopt(batch, found)
	case len(refused) > 0:
		p.attempts.Raise(batch.ID)
		return all(results, refusal(batch.ID, refused))
	case p.opt.Clock.Now().Sub(p.attempts.Unsaid(batch.ID, p.opt.Clock.Now())) < settled:
		return all(results, &cloud.Error{Class: cloud.Unknown, Op: "launch batch " + batch.ID, Reason: "LaunchedBefore", Err: fmt.Errorf("EC2 says neither what fleet %s has launched nor why it has not", fleet)})
	}
	return all(results, noneLeft(batch.ID))
}

// fleetRecord is what EC2 has on record for a fleet: its instances, and what it was refused. A role that may not ask, and a
// fleet that EC2 does not know any more, tell nothing.
func (p *Provider) fleetRecord(ctx context.Context, o *order, fleet string) (found []*cloud.Instance, refused []types.CreateFleetError, err error) {
	op := "look at fleet " + fleet
	out, err := p.opt.Clients.EC2.DescribeFleets(ctx, &ec2.DescribeFleetsInput{FleetIds: []string{fleet}})
	switch err = readError(op, err); cloud.ClassOf(err) {
	case "":
	case cloud.Denied, cloud.Invalid, cloud.NotFound:
		return nil, nil, nil
	default:
		return nil, nil, err
	}
	if len(out.Fleets) == 0 {
		return nil, nil, nil
	}
	var ids []string
	for _, i := range out.Fleets[0].Instances {
		ids = append(ids, i.InstanceIds...)
	}
	for _, e := range out.Fleets[0].Errors {
		refused = append(refused, types.CreateFleetError{ErrorCode: e.ErrorCode, ErrorMessage: e.ErrorMessage, LaunchTemplateAndOverrides: e.LaunchTemplateAndOverrides})
	}
	for _, id := range ids {
		raw, shown, err := p.describing.Get(ctx, id)
		if err != nil {
			return nil, nil, readError(op, err)
		}
		if !shown {
			return nil, nil, &cloud.Error{Class: cloud.Unknown, Op: op, Reason: "InstanceNotVisibleYet", Err: fmt.Errorf("instance %s is not shown yet", id)}
		}
		in := p.toShape(raw)
		in.Batch, in.Pool, in.Class = o.batch.ID, o.tags[awsv1.TagNodePool], o.in.class.Name // its tags may not show yet
		found = append(found, in)
	}
	return found, refused, nil
}

func noneLeft(batch string) *cloud.Error {
	return &cloud.Error{Class: cloud.NoCapacity, Op: "launch batch " + batch, Reason: "InsufficientCapacity", Err: errors.New("an earlier launch of the batch left no instance for the claim")}
}

// adopt gives the instances of an earlier launch to the claims: first those that carry a claim's name, then any, since the
// claims are interchangeable. Instances that another claim has on record, and those that are ending, are nobody's. While the
// launch is so young that not all it made need show, a claim without an instance has to wait.
func (p *Provider) adopt(batch cloud.Batch, found []*cloud.Instance) []cloud.Result {
	slices.SortFunc(found, byID)
	var free []*cloud.Instance
	named := map[string]*cloud.Instance{}
	for _, in := range found {
		switch {
		case batch.Taken[in.ID] || in.State.Ending():
		case in.Claim != "":
			named[in.Claim] = in
		default:
			free = append(free, in)
		}
	}
	short := noneLeft(batch.ID)
	for _, in := range found {
		if p.opt.Clock.Now().Sub(in.Launched) < settled {
			short = &cloud.Error{Class: cloud.Unknown, Op: "launch batch " + batch.ID, Reason: "LaunchedBefore", Err: errors.New("more instances of an earlier launch may show up")}
		}
	}
	results := make([]cloud.Result, len(batch.Claims))
	for i, claim := range batch.Claims {
		in := named[claim.Name]
		if in == nil && len(free) > 0 {
			in, free = free[0], free[1:]
		}
		if in == nil {
			results[i].Err = short
			continue
		}
		p.complement(in, claim)
		results[i].Instance = in
	}
	return results
}

// complement adds to an instance that was found what its type has, as far as the type and the class are still known.
func (p *Provider) complement(in *cloud.Instance, claim *karpv1.NodeClaim) {
	w, err := newWish(claim, shapeResources)
	if err != nil {
		return
	}
	if now, err := p.inputs(in.Class, w.kubelet); err == nil {
		p.describe(in, now, w)
	}
}

// describe adds what a claim learns from having the instance: labels, annotations, capacity.
func (p *Provider) describe(in *cloud.Instance, now inputs, w *wish) {
	if in.Labels == nil {
		in.Labels = map[string]string{}
	}
	in.Labels[corev1.LabelTopologyZone] = in.Zone
	in.Labels[karpv1.CapacityTypeLabelKey] = in.CapacityType
	in.Labels[awsv1.LabelNodeClass] = in.Class
	in.Annotations = map[string]string{
		awsv1.EC2NodeClassHashAnnotationKey:        now.declared.Hash(p.opt.Cluster.CABundle),
		awsv1.EC2NodeClassHashVersionAnnotationKey: awsv1.EC2NodeClassHashVersion,
		awsv1.InstanceProfileAnnotationKey:         now.class.Status.InstanceProfile,
	}
	for _, s := range now.class.Status.Subnets {
		if s.Zone == in.Zone && s.ZoneID != "" {
			in.Labels[awsv1.LabelZoneID] = s.ZoneID
		}
	}
	list, err := p.TypesWith(in.Class, w.kubelet)
	if err != nil {
		return
	}
	i, ok := slices.BinarySearchFunc(list.List, in.Type, func(t *world.InstanceType, name string) int { return strings.Compare(t.Name, name) })
	if !ok {
		return
	}
	t := list.List[i]
	for _, l := range t.Labels {
		in.Labels[l.Key] = l.Value
	}
	enclaves := w.enclave || now.class.Enclaves()
	attached := map[corev1.ResourceName]bool{
		awsv1.ResourceEFA: w.efa || len(now.class.Spec.NetworkInterfaces) > 0, awsv1.ResourceNitroSandbox: enclaves, awsv1.ResourceNIPSlots: enclaves,
	}
	in.Capacity, in.Allocatable = resourceList(t.Capacity, attached), resourceList(t.Allocatable, attached)
}

// resourceList puts a vector into Kubernetes' form. What an instance has none of is left out, and so is what it has only if it
// was launched with it, and was not.
func resourceList(r world.Resources, attached map[corev1.ResourceName]bool) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i, v := range r {
		name := corev1.ResourceName(shapeResources[i])
		given, optional := attached[name]
		switch {
		case v == 0 || optional && !given || world.UnlimitedWhenAbsent(string(name)): // of volumes, drivers tell what a node takes
		case i == world.CPU:
			out[name] = *resource.NewMilliQuantity(v, resource.DecimalSI)
		case i == world.Memory || i == world.Storage:
			out[name] = *resource.NewQuantity(v, resource.BinarySI)
		default:
			out[name] = *resource.NewQuantity(v, resource.DecimalSI)
		}
	}
	return out
}

func byID(a, b *cloud.Instance) int { return strings.Compare(a.ID, b.ID) }
