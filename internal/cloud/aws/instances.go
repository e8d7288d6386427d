package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/meter"
)

// instancesPage is the page size for instances. What EC2 says of each takes 20 KiB until it is read, so that larger ones are what the process
// needs most memory for.
const instancesPage = 200

// providerID is the name that a node of the instance carries.
func providerID(zone, id string) string { return "aws:///" + zone + "/" + id }

// ParseProviderID returns the instance id in a provider ID such as aws:///us-east-1a/i-0123456789abcdef0. Whatever comes before the id
// is somebody's way to write it: other cloud controllers have other names for the provider.
func ParseProviderID(providerID string) (id string, err error) {
	prefix, path, ok := strings.Cut(providerID, ":///")
	slash := strings.LastIndexByte(path, '/')
	if id = path[slash+1:]; !ok || prefix == "" || slash < 0 || !strings.HasPrefix(id, "i-") {
		return "", fmt.Errorf("provider ID %q is not of the form aws:///ZONE/INSTANCE", providerID)
	}
	return id, nil
}

// InstanceID implements cloud.Provider.
func (p *Provider) InstanceID(providerID string) (string, error) { return ParseProviderID(providerID) }

// TagClusterUID tells apart the instances of clusters that have the same name, one after the other or at once.
const TagClusterUID = karpv1.Group + "/cluster-uid"

// owned are the filters that this cluster's instances pass: tags that every version has put on them at birth. The tag
// eks:eks-cluster-name is not among those, older versions do not know it.
func (p *Provider) owned() []types.Filter {
	return []types.Filter{filter("tag-key", awsv1.TagNodePool, awsv1.TagNodeClass), filter("tag:"+awsv1.TagClusterPrefix+p.opt.Cluster.Name, awsv1.TagClusterOwned)}
}

// living are the states of instances that are not gone.
var living = filter("instance-state-name", "pending", "running", "stopping", "stopped", "shutting-down")

// List implements cloud.Fleet.
func (p *Provider) List(ctx context.Context) (list []*cloud.Instance, err error) {
	all := map[string]ties{}
	err = p.eachInstance(ctx, append(p.owned(), living), func(i *types.Instance) {
		in := p.toShape(i)
		list, all[in.ID] = append(list, in), tiesOf(i)
	})
	if err != nil {
		return nil, readError("list instances", err)
	}
	p.listed.set(all)
	list = slices.DeleteFunc(list, func(in *cloud.Instance) bool { return in.Unmarked || p.foreign(in) })
	slices.SortFunc(list, func(a, b *cloud.Instance) int { return cmp.Or(a.Launched.Compare(b.Launched), byID(a, b)) })
	return list, nil
}

// Get implements cloud.Fleet. An instance that is terminated is not found, and the reason says so; one that was launched a moment
// ago and does not show yet is a Transient error. One that its tags give to another cluster is Denied: it is there.
func (p *Provider) Get(ctx context.Context, id string) (in *cloud.Instance, err error) {
	op := "get instance " + id
	raw, found, err := p.describing.Get(ctx, id)
	if err != nil {
		return nil, readError(op, err)
	}
	if !found {
		return nil, p.absent(op, id)
	}
	in = p.toShape(raw)
	if err := p.reachable(op, in); err != nil {
		return nil, err
	}
	return in, nil
}

// absent is the error for an instance that EC2 does not show. While a zone is shifted away from, EC2 may not show instances in
// it, so that absence then proves nothing.
func (p *Provider) absent(op, id string) error {
	if away := p.shifts.look(); len(away.until) > 0 {
		return &cloud.Error{Class: cloud.Transient, Op: op, Reason: "ZoneShiftedAway", Err: errors.New("EC2 does not show the instance, which proves nothing while a zone is shifted away from")}
	}
	return p.recent.Absent(op, id)
}

// reachable says why nothing may be done with an instance that was looked up by its id: it has ended, or is another cluster's.
func (p *Provider) reachable(op string, in *cloud.Instance) error {
	switch {
	case in.State == cloud.Terminated:
		return &cloud.Error{Class: cloud.NotFound, Op: op, Reason: cloud.ReasonTerminated}
	case p.foreign(in):
		return &cloud.Error{Class: cloud.Denied, Op: op, Reason: cloud.ReasonNotOurs, Err: fmt.Errorf("the tags of the instance give it to another cluster than %s (UID %s)", p.opt.Cluster.Name, p.opt.Cluster.UID)}
	}
	return nil
}

// marked says whether the instance carries the tags of this cluster's instances. A stand-alone claim's has no pool, and the value of
// its tag is empty; one that an older version made has no tag for the class.
func (p *Provider) marked(tags map[string]string) bool {
	_, pool := tags[awsv1.TagNodePool]
	_, class := tags[awsv1.TagNodeClass]
	cluster := tags[awsv1.TagEKSClusterName] == p.opt.Cluster.Name || tags[awsv1.TagClusterPrefix+p.opt.Cluster.Name] == awsv1.TagClusterOwned
	return cluster && (pool || class)
}

// foreign says whether the instance's tags give it to another cluster. An instance without any such tag is nobody else's.
func (p *Provider) foreign(in *cloud.Instance) bool {
	if uid := in.Tags[TagClusterUID]; uid != "" && p.opt.Cluster.UID != "" && uid != p.opt.Cluster.UID {
		return true
	}
	if name := in.Tags[awsv1.TagEKSClusterName]; name != "" {
		return name != p.opt.Cluster.Name
	}
	if in.Tags[awsv1.TagClusterPrefix+p.opt.Cluster.Name] == awsv1.TagClusterOwned {
		return false
	}
	for key, value := range in.Tags {
		if strings.HasPrefix(key, awsv1.TagClusterPrefix) && value == awsv1.TagClusterOwned {
			return true
		}
	}
	return false
}

// Delete implements cloud.Fleet. It looks first, so that no instance of another cluster is ended, and none twice. An instance that
// EC2 does not show yet is ended all the same: it may have been made a moment ago.
func (p *Provider) Delete(ctx context.Context, id string) (err error) {
	op := "terminate instance " + id
	raw, found, err := p.describing.Get(ctx, id)
	if err != nil {
		return readError(op, err)
	}
	reservation, zone, zoneID := "", "", ""
	if found {
		in := p.toShape(raw)
		if err := p.reachable(op, in); err != nil || in.State.Ending() {
			return err
		}
		reservation, zone, zoneID = in.Labels[awsv1.LabelCapacityReservationID], in.Zone, in.Labels[awsv1.LabelZoneID]
	}
	outcome, answered, err := p.terminating.Get(ctx, id)
	if err == nil {
		err = outcome
	}
	switch err = writeError(op, err); {
	case cloud.ClassOf(err) == cloud.NotFound || codeOf(err) == codeMalformedID || err == nil && !answered:
		return p.absent(op, id)
	case err != nil:
		p.opt.Meter.Add(meter.TerminationFailures, 1, "zone", zone, "zone_id", zoneID)
	case reservation != "":
		p.stock.TakeReserved(reservation, -1)
	}
	return err
}

// Reboot implements cloud.Rebooter. EC2 reboots an instance once for requests that come together, so that asking again is safe. The
// operation is for clouds that tell requests apart.
func (p *Provider) Reboot(ctx context.Context, claim *karpv1.NodeClaim, _ string) error {
	id, err := ParseProviderID(claim.Status.ProviderID)
	if err != nil {
		return &cloud.NodeRebootFailedError{Err: err}
	}
	op := "reboot instance " + id
	raw, found, err := p.describing.Get(ctx, id)
	switch {
	case err != nil:
		return readError(op, err)
	case !found:
		return p.absent(op, id) // which proves nothing by itself
	}
	in := p.toShape(raw)
	if err := p.reachable(op, in); err != nil {
		return &cloud.NodeRebootFailedError{Err: err}
	}
	if in.State.Ending() {
		return &cloud.NodeRebootFailedError{Err: &cloud.Error{Class: cloud.NotFound, Op: op, Reason: cloud.ReasonTerminated}}
	}
	err = p.ends.Do(ctx, op, func() error {
		_, err := p.opt.Clients.EC2.RebootInstances(ctx, &ec2.RebootInstancesInput{InstanceIds: []string{id}}, once)
		return err
	})
	if err = writeError(op, err); cloud.ClassOf(err) == cloud.NotFound {
		return &cloud.NodeRebootFailedError{Err: err}
	}
	return err
}

// describeByID looks instances up by id, whoever they belong to.
func (p *Provider) describeByID(ctx context.Context, ids []string) (map[string]*types.Instance, error) {
	out := map[string]*types.Instance{}
	err := p.eachInstance(ctx, []types.Filter{filter("instance-id", ids...)}, func(i *types.Instance) { out[aws.ToString(i.InstanceId)] = i })
	return out, err
}

// terminate ends instances and says for each what came of it. One id that EC2 does not know, or that one may not end, fails a whole
// call, so after that each half is asked for alone. Any other failure says nothing of single ids.
func (p *Provider) terminate(ctx context.Context, ids []string) (map[string]error, error) {
	var out *ec2.TerminateInstancesOutput
	err := p.ends.Do(ctx, fmt.Sprintf("terminate %d instances", len(ids)), func() (err error) {
		out, err = p.opt.Clients.EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids}, once)
		return err
	})
	results := map[string]error{}
	switch class := cloud.ClassOf(err); {
	case err == nil:
		for _, i := range out.TerminatingInstances {
			results[aws.ToString(i.InstanceId)] = nil
		}
	case len(ids) > 1 && (class == cloud.NotFound || class == cloud.Invalid || class == cloud.Denied):
		for _, half := range [][]string{ids[:len(ids)/2], ids[len(ids)/2:]} {
			some, _ := p.terminate(ctx, half)
			maps.Copy(results, some)
		}
	default:
		for _, id := range ids {
			results[id] = err
		}
	}
	return results, nil
}

// Tag implements cloud.Fleet.
func (p *Provider) Tag(ctx context.Context, id string, tags map[string]string) error {
	op := "tag instance " + id
	raw, found, err := p.describing.Get(ctx, id)
	switch {
	case err != nil:
		return readError(op, err)
	case !found:
		return p.absent(op, id)
	}
	in := p.toShape(raw)
	if err := p.reachable(op, in); err != nil {
		return err
	}
	lacking := maps.Clone(tags)
	for key := range in.Tags {
		delete(lacking, key)
	}
	if len(lacking) == 0 {
		return nil
	}
	return p.tags.Do(ctx, op, func() error {
		_, err := p.opt.Clients.EC2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: toTags(lacking)}, once)
		return err
	})
}

// eachInstance visits the instances that filters name. Of each it has what toShape and tiesOf look at, and no more.
func (p *Provider) eachInstance(ctx context.Context, filters []types.Filter, visit func(*types.Instance)) error {
	pages := ec2.NewDescribeInstancesPaginator(p.opt.Clients.EC2, &ec2.DescribeInstancesInput{Filters: filters, MaxResults: aws.Int32(instancesPage)})
	for pages.HasMorePages() {
		var page *ec2.DescribeInstancesOutput
		err := p.reads.Do(ctx, "describe instances", func() (err error) {
			page, err = pages.NextPage(ctx, briefly)
			return err
		})
		if err != nil {
			return err
		}
		for _, r := range page.Reservations {
			for i := range r.Instances {
				visit(&r.Instances[i])
			}
		}
	}
	return nil
}

// toShape takes over what EC2 says of an instance.
func (p *Provider) toShape(i *types.Instance) *cloud.Instance {
	out := &cloud.Instance{
		ID: aws.ToString(i.InstanceId), Type: string(i.InstanceType), ImageID: aws.ToString(i.ImageId), Launched: aws.ToTime(i.LaunchTime).UTC().Truncate(time.Second),
		CapacityType: p.capacityType(i), Tags: fromTags(i.Tags), Labels: map[string]string{},
	}
	if i.State != nil {
		out.State = cloud.State(i.State.Name)
	}
	if pl := i.Placement; pl != nil {
		out.Zone = aws.ToString(pl.AvailabilityZone)
		put := func(key, value string) {
			if value != "" {
				out.Labels[key] = value
			}
		}
		put(awsv1.LabelInstanceTenancy, string(pl.Tenancy))
		put(awsv1.LabelZoneID, aws.ToString(pl.AvailabilityZoneId))
		put(awsv1.LabelPlacementGroupID, aws.ToString(pl.GroupId))
		if pl.PartitionNumber != nil {
			put(awsv1.LabelPlacementGroupPartition, fmt.Sprint(*pl.PartitionNumber))
		}
	}
	out.ProviderID, out.Unmarked = providerID(out.Zone, out.ID), !p.marked(out.Tags)
	out.Claim, out.Batch = out.Tags[awsv1.TagNodeClaim], out.Tags[cloud.BatchAnnotationKey]
	out.Pool, out.Class = out.Tags[awsv1.TagNodePool], out.Tags[awsv1.TagNodeClass]
	if out.CapacityType == karpv1.CapacityTypeReserved {
		out.Labels[awsv1.LabelCapacityReservationID] = aws.ToString(i.CapacityReservationId)
		kind, interruptible := string(awsv1.CapacityReservationTypeDefault), "false"
		switch i.InstanceLifecycle {
		case types.InstanceLifecycleTypeCapacityBlock:
			kind = string(awsv1.CapacityReservationTypeCapacityBlock)
		case types.InstanceLifecycleTypeInterruptibleCapacityReservation:
			interruptible = "true"
		}
		out.Labels[awsv1.LabelCapacityReservationType] = kind
		out.Labels[awsv1.LabelCapacityReservationInterruptible] = interruptible
	}
	return out
}

// capacityType is how the instance was bought. It counts as reserved only if it may run nowhere else.
func (p *Provider) capacityType(i *types.Instance) string {
	only := i.CapacityReservationSpecification != nil &&
		i.CapacityReservationSpecification.CapacityReservationPreference == types.CapacityReservationPreferenceCapacityReservationsOnly
	switch {
	case p.opt.ReservedCapacity && only && aws.ToString(i.CapacityReservationId) != "":
		return karpv1.CapacityTypeReserved
	case i.InstanceLifecycle == types.InstanceLifecycleTypeSpot || aws.ToString(i.SpotInstanceRequestId) != "":
		return karpv1.CapacityTypeSpot
	}
	return karpv1.CapacityTypeOnDemand
}
