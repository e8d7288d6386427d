package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/cloud/kit"
	"karpenter/internal/engine/world"
)

// order is one request to EC2 for the instances of a batch.
type order struct {
	in    inputs
	batch cloud.Batch
	wish  *wish
	// resources names the entries of the resource vectors of choice.
	resources []string
	choice    kit.Choice
	tags      map[string]string
	subnets   map[string]string // by zone
	// debit is how many addresses were taken from each of the subnets.
	debit int64

	places    []place // of the options, in order, once asked for
	configs   []types.FleetLaunchTemplateConfigRequest
	templates []string
	// kubelets has kubelet settings by what they reserve; in all else but pods, which templates keep apart, they are equal.
	kubelets map[string]*awsv1.KubeletConfiguration
}

// groupKey is what options must share to share a launch template.
type groupKey struct {
	image       int
	pods, efas  int64
	reserved    string
	reservation string
	partition   string
}

// arrange picks subnets, makes the launch templates and writes the overrides.
func (p *Provider) arrange(ctx context.Context, o *order) error {
	images := imageNeeds(o.in.class.Status.AMIs)
	kubelets, _ := p.kubelets(p.settings(o.in))
	o.kubelets = map[string]*awsv1.KubeletConfiguration{}
	groups := map[groupKey][]kit.Option{}
	var keys []groupKey
	pods := int64(math.MaxInt32)
	for _, opt := range o.choice.Options {
		k := groupKey{image: pickImage(images, opt.Type.Labels), pods: opt.Type.Capacity.Get(world.PodSlot), reservation: opt.Offering.Reservation}
		described := o.in.offered.get(opt.Type.Name)
		if k.image < 0 || described == nil {
			continue
		}
		kubelet, problems := kubelets.of(described)
		if len(problems) > 0 {
			continue
		}
		k.reserved = reserves(kubelet)
		o.kubelets[k.reserved] = kubelet
		if o.wish.partitioned() {
			k.partition, _ = opt.Offering.Labels.Get(awsv1.LabelPlacementGroupPartition)
		}
		if o.wish.efa && len(o.in.class.Spec.NetworkInterfaces) == 0 {
			k.efas = opt.Type.Capacity.Get(slices.Index(o.resources, string(awsv1.ResourceEFA)))
		}
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], opt)
		pods = min(pods, k.pods)
	}
	o.debit = pods * int64(len(o.batch.Claims))
	o.subnets = p.addresses.choose(o.in.class.Status.Subnets, o.debit)
	keys = onePartition(keys)
	for _, k := range keys {
		if err := p.addConfig(ctx, o, k, groups[k]); err != nil {
			return err
		}
	}
	if len(o.configs) == 0 {
		return &cloud.Error{Class: cloud.NoCapacity, Op: "launch batch " + o.batch.ID, Reason: "InsufficientFreeAddressesInSubnet", Err: errors.New("every subnet in the zones that are left is full")}
	}
	return nil
}

// onePartition keeps the options of the lowest partition that the claim asks for: the instances of one request share it. Where it
// asks for none EC2 spreads them.
func onePartition(keys []groupKey) []groupKey {
	lowest := math.MaxInt
	for _, k := range keys {
		if n, err := strconv.Atoi(k.partition); err == nil {
			lowest = min(lowest, n)
		}
	}
	if lowest == math.MaxInt {
		return keys
	}
	return slices.DeleteFunc(keys, func(k groupKey) bool { return k.partition != strconv.Itoa(lowest) })
}

// addConfig adds a launch template with the overrides that use it.
func (p *Provider) addConfig(ctx context.Context, o *order, k groupKey, options []kit.Option) error {
	overrides := o.overrides(options, k)
	if len(overrides) == 0 {
		return nil
	}
	b := blueprint{
		class: o.in.class, claim: o.batch.Claims[0], tags: o.templateTags(), capacityType: o.choice.CapacityType, tenancy: o.wish.tenancy(),
		image: o.in.class.Status.AMIs[k.image], pods: k.pods, kubelet: o.kubelets[k.reserved], efas: k.efas, enclave: o.wish.enclave,
		reservation: k.reservation, kind: reservationKind(options[0].Offering),
	}
	if o.in.placement != nil {
		b.group = o.in.placement.id
		if n, err := strconv.ParseInt(k.partition, 10, 32); err == nil {
			b.partition = int32(n)
		}
	}
	t, err := p.newTemplate(b)
	if err != nil {
		return &cloud.Error{Class: cloud.Invalid, Op: "launch batch " + o.batch.ID, Reason: "LaunchTemplateInvalid", Err: err}
	}
	if err := p.templates.ensure(ctx, t); err != nil {
		return err
	}
	o.templates = append(o.templates, t.name)
	o.configs = append(o.configs, types.FleetLaunchTemplateConfigRequest{
		LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String(t.name), Version: aws.String("$Latest")},
		Overrides:                   overrides,
	})
	return nil
}

// overrides lists each type and zone once, with the subnet that was chosen for the zone.
func (o *order) overrides(options []kit.Option, k groupKey) []types.FleetLaunchTemplateOverridesRequest {
	type pair struct{ typ, zone string }
	seen := map[pair]bool{}
	var out []types.FleetLaunchTemplateOverridesRequest
	for _, opt := range options {
		subnet, ok := o.subnets[opt.Offering.Zone]
		if at := (pair{opt.Type.Name, opt.Offering.Zone}); !ok || seen[at] {
			continue
		} else {
			seen[at] = true
		}
		out = append(out, types.FleetLaunchTemplateOverridesRequest{
			InstanceType: types.InstanceType(opt.Type.Name), AvailabilityZone: aws.String(opt.Offering.Zone), SubnetId: aws.String(subnet),
			ImageId: aws.String(o.in.class.Status.AMIs[k.image].ID), Priority: aws.Float64(o.priority(opt)),
		})
	}
	return out
}

// byZone says whether EC2 is told which zone to take where prices are equal. On-demand prices are the same all over a region, and
// the strategy for the lowest price takes any of them, mostly the same for every instance.
func (o *order) byZone() bool {
	return o.choice.CapacityType == karpv1.CapacityTypeOnDemand && len(o.wish.Zones) > 1
}

// priority is what EC2 orders an option by where a strategy heeds priorities, the lowest first: its price, or with zones to tell
// apart its place among the options by price and zone.
func (o *order) priority(opt kit.Option) float64 {
	if !o.byZone() {
		return opt.Offering.Price
	}
	if o.places == nil {
		for _, x := range o.choice.Options {
			o.places = append(o.places, o.place(x))
		}
		slices.SortFunc(o.places, place.compare)
		o.places = slices.Compact(o.places)
	}
	i, _ := slices.BinarySearchFunc(o.places, o.place(opt), place.compare)
	return float64(i)
}

// place is what the order of options at one launch goes by.
type place struct {
	price float64
	zone  int
}

func (o *order) place(opt kit.Option) place {
	return place{opt.Offering.Price, o.wish.ZoneRank(opt.Offering.Zone)}
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.price, q.price), cmp.Compare(p.zone, q.zone))
}

// templateTags are those of the order without what names the batch: a template serves many.
func (o *order) templateTags() map[string]string {
	tags := maps.Clone(o.tags)
	delete(tags, cloud.BatchAnnotationKey)
	delete(tags, awsv1.TagNodeClaim)
	return tags
}

// request is the order in EC2's words.
func (p *Provider) request(o *order) *ec2.CreateFleetInput {
	in := &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant, ClientToken: aws.String(p.token(o.batch.ID)), LaunchTemplateConfigs: o.configs,
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(int32(len(o.batch.Claims)))},
	}
	for _, kind := range []types.ResourceType{types.ResourceTypeInstance, types.ResourceTypeVolume, types.ResourceTypeFleet} {
		in.TagSpecifications = append(in.TagSpecifications, types.TagSpecification{ResourceType: kind, Tags: toTags(o.tags)})
	}
	if !o.wish.Relaxed {
		in.Context = o.in.class.Spec.Context
	}
	onDemand := &types.OnDemandOptionsRequest{AllocationStrategy: types.FleetOnDemandAllocationStrategyLowestPrice}
	spot := &types.SpotOptionsRequest{AllocationStrategy: types.SpotAllocationStrategyPriceCapacityOptimized}
	if o.wish.Overlaid || o.byZone() {
		onDemand.AllocationStrategy = types.FleetOnDemandAllocationStrategyPrioritized
	}
	if o.wish.Overlaid {
		spot.AllocationStrategy = types.SpotAllocationStrategyCapacityOptimizedPrioritized
	}
	target := in.TargetCapacitySpecification
	kind := reservationKind(o.choice.Options[0].Offering)
	switch {
	case o.choice.CapacityType == karpv1.CapacityTypeSpot:
		target.DefaultTargetCapacityType, in.SpotOptions = types.DefaultTargetCapacityTypeSpot, spot
	case o.choice.CapacityType == karpv1.CapacityTypeReserved && kind == kindBlock:
		target.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeCapacityBlock
	case o.choice.CapacityType == karpv1.CapacityTypeReserved && kind == kindInterruptible:
		target.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeReservedCapacity
		in.ReservedCapacityOptions = &types.ReservedCapacityOptionsRequest{ReservationTypes: []types.FleetReservationType{types.FleetReservationTypeInterruptibleCapacityReservation}}
	default:
		target.DefaultTargetCapacityType, in.OnDemandOptions = types.DefaultTargetCapacityTypeOnDemand, onDemand
	}
	return in
}

// token is the client token of the batch's current attempt. Clusters of one name in one account are told apart by their UID.
func (p *Provider) token(batch string) string {
	return cloud.Token(cmp.Or(p.opt.Cluster.UID, p.opt.Cluster.Name), batch, p.attempts.Of(batch))
}

// learn takes over what an answer says of stock and addresses, once per answer however many claims share it.
func (p *Provider) learn(o *order, out *ec2.CreateFleetOutput) {
	var empty, had []kit.Pool
	full := map[string]bool{}
	for _, e := range out.Errors {
		m, _ := lookup(aws.ToString(e.ErrorCode), aws.ToString(e.ErrorMessage))
		at := overridden(e.LaunchTemplateAndOverrides)
		p.launchFailed(o, aws.ToString(at.AvailabilityZone), cmp.Or(m.reason, reasonWord(aws.ToString(e.ErrorCode))))
		switch m.scope {
		case scopeOffering:
			empty = append(empty, o.pools(at)...)
		case scopeSpot:
			p.stock.EmptySpot()
		case scopeSubnet:
			p.addresses.exhaust(aws.ToString(at.SubnetId))
			full[aws.ToString(at.AvailabilityZone)] = true
		case scopeReservation:
			p.emptyReservation(o, at)
		case scopeSpread:
			empty = append(empty, o.zonePools(aws.ToString(at.AvailabilityZone))...)
		case scopeNone:
		}
	}
	used := map[string]bool{}
	for _, i := range out.Instances {
		at := overridden(i.LaunchTemplateAndOverrides)
		used[aws.ToString(at.SubnetId)] = true
		had = append(had, o.pools(at)...)
		if opt, ok := o.option(at); ok && opt.Offering.Reservation != "" {
			p.stock.TakeReserved(opt.Offering.Reservation, len(i.InstanceIds))
		}
	}
	if len(full) > 0 {
		empty = append(empty, p.fullZones(o, full)...)
	}
	p.stock.Empty(empty...)
	p.stock.Had(had...)
	for _, id := range o.subnets {
		if !used[id] {
			p.addresses.giveBack(id, o.debit)
		}
	}
}

// fullZones are the pools of zones in which the class has no subnet with addresses left.
func (p *Provider) fullZones(o *order, full map[string]bool) []kit.Pool {
	open := p.addresses.choose(o.in.class.Status.Subnets, 0)
	var out []kit.Pool
	for _, opt := range o.choice.Options {
		if _, has := open[opt.Offering.Zone]; full[opt.Offering.Zone] && !has {
			out = append(out, kit.Pool{CapacityType: o.choice.CapacityType, Type: opt.Type.Name, Zone: opt.Offering.Zone})
		}
	}
	return out
}

func (p *Provider) emptyReservation(o *order, at types.FleetLaunchTemplateOverrides) {
	if opt, ok := o.option(at); ok && opt.Offering.Reservation != "" {
		p.stock.SetReserved(map[string]int{opt.Offering.Reservation: 0})
	}
}

func overridden(l *types.LaunchTemplateAndOverridesResponse) types.FleetLaunchTemplateOverrides {
	if l == nil || l.Overrides == nil {
		return types.FleetLaunchTemplateOverrides{}
	}
	return *l.Overrides
}

// pools is where an override takes its instances from. In a placement group it is the partition that was asked for, or else any.
func (o *order) pools(at types.FleetLaunchTemplateOverrides) []kit.Pool {
	p := kit.Pool{CapacityType: o.choice.CapacityType, Type: string(at.InstanceType), Zone: aws.ToString(at.AvailabilityZone)}
	if o.in.placement == nil {
		return []kit.Pool{p}
	}
	partitions := o.in.placement.partitions()
	if opt, ok := o.option(at); ok && o.wish.partitioned() {
		one, _ := opt.Offering.Labels.Get(awsv1.LabelPlacementGroupPartition)
		partitions = []string{one}
	}
	var out []kit.Pool
	for _, partition := range partitions {
		p.Group = o.in.placement.id + "/" + partition
		out = append(out, p)
	}
	return out
}

// zonePools are the pools of everything that the order offered in a zone.
func (o *order) zonePools(zone string) []kit.Pool {
	var out []kit.Pool
	for _, opt := range o.choice.Options {
		if opt.Offering.Zone == zone {
			out = append(out, o.pools(types.FleetLaunchTemplateOverrides{InstanceType: types.InstanceType(opt.Type.Name), AvailabilityZone: aws.String(zone)})...)
		}
	}
	return out
}

// option is the one that an override came from.
func (o *order) option(at types.FleetLaunchTemplateOverrides) (kit.Option, bool) {
	i := slices.IndexFunc(o.choice.Options, func(opt kit.Option) bool {
		return opt.Type.Name == string(at.InstanceType) && opt.Offering.Zone == aws.ToString(at.AvailabilityZone)
	})
	if i < 0 {
		return kit.Option{}, false
	}
	return o.choice.Options[i], true
}

// refusal sums up why a fleet did not give what was asked for: out of stock if every pool said so, or else the first other
// error.
func refusal(batch string, errs []types.CreateFleetError) error {
	out := &cloud.Error{Class: cloud.NoCapacity, Op: "launch batch " + batch, Reason: "InsufficientInstanceCapacity"}
	for i, e := range errs {
		code, message := aws.ToString(e.ErrorCode), aws.ToString(e.ErrorMessage)
		m, known := lookup(code, message)
		if !known {
			m = meaning{class: cloud.Invalid, reason: reasonWord(code)}
		}
		if i == 0 || m.class != cloud.NoCapacity {
			out.Class, out.Reason = m.class, m.reason
			out.Err = fmt.Errorf("%s: %s (%d offerings refused)", code, message, len(errs))
		}
		if m.class != cloud.NoCapacity {
			break
		}
	}
	return out
}
