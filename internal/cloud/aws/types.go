package aws

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/cloud/kit"
	"karpenter/internal/cloud/aws/shape"
	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// reservedDiscount makes reserved capacity cheaper than anything else, since it is paid for already, and keeps the order of
// prices among reservations.
const reservedDiscount = 10_000_000

// typeCache has, per class, the types that were built last.
type typeCache struct {
	classes sync.Map // classKey → *classTypes
	version atomic.Uint64
}

// classTypes is one class's part of the cache.
type classTypes struct {
	mu  sync.Mutex // held while building, so that a change is worked out once
	now atomic.Pointer[builtTypes]
}

// builtTypes is what was built from what.
type builtTypes struct {
	from   inputs
	shapes []shaped
	types  *cloud.Types
}

// shaped is the part of a type that prices and stock do not change.
type shaped struct {
	described *shape.Type
	typ       world.InstanceType
	// usable says that nodes of the class can run on it.
	usable bool
}

// inputs is everything that types are made of. Two inputs that are equal give equal types.
type inputs struct {
	// class is what to launch from; declared is the object that it is, or was adjusted from.
	class     *awsv1.EC2NodeClass
	declared  *awsv1.EC2NodeClass
	offered   *regionTypes
	prices    *priceTable
	stock     *kit.StockView
	shifts    *shiftView
	placement *placement
	learned   *memories
}

// Resources names the entries of the resource vectors of all types, in their order.
func Resources() []string { return shape.Resources }

// Types returns what the class can launch. It allocates nothing while nothing has changed.
func (p *Provider) Types(class string) (*cloud.Types, error) { return p.TypesWith(class, "") }

// TypesWith returns what the class can launch for claims that have kubelet settings of their own, in the text of
// convert.KubeletAnnotation; they decide how much room a node has.
func (p *Provider) TypesWith(class, kubelet string) (*cloud.Types, error) {
	in, err := p.inputs(class, kubelet)
	if err != nil {
		return nil, err
	}
	key := classKey{class, kubelet}
	found, ok := p.types.classes.Load(key)
	if !ok {
		found, _ = p.types.classes.LoadOrStore(key, &classTypes{})
	}
	entry := found.(*classTypes)
	if built := entry.now.Load(); built != nil && built.from == in {
		return built.types, nil
	}
	entry.mu.Lock()
	defer entry.mu.Unlock()
	built := entry.now.Load()
	if built != nil && built.from == in {
		return built.types, nil
	}
	next := &builtTypes{from: in}
	if built != nil && built.from.class == in.class && built.from.offered == in.offered && built.from.placement == in.placement && built.from.learned == in.learned {
		next.shapes = built.shapes
	} else {
		next.shapes = p.shapes(in)
	}
	next.types = &cloud.Types{Resources: shape.Resources, List: p.offer(in, next.shapes), Version: p.types.version.Add(1)}
	entry.now.Store(next)
	return next.types, nil
}

// Forget drops what is kept for a class that is gone.
func (p *Provider) Forget(class string) {
	p.types.classes.Range(func(key, _ any) bool {
		if key.(classKey).class == class {
			p.types.classes.Delete(key)
		}
		return true
	})
	p.adjusted.forget(class)
	p.placements.Delete(class)
	p.tried.Delete(class)
	p.opt.Meter.Drop(UserDataBytes, "nodeclass", class)
}

func (p *Provider) inputs(class, kubelet string) (inputs, error) {
	declared := p.opt.Class(class)
	if declared == nil {
		return inputs{}, &cloud.Error{Class: cloud.NotReady, Op: "list instance types of class " + class, Reason: "NodeClassNotFound"}
	}
	c, err := p.adjusted.get(declared, kubelet)
	if err != nil {
		return inputs{}, err
	}
	m := p.catalogue.now.Load()
	if m == nil {
		return inputs{}, &cloud.Error{Class: cloud.Transient, Op: "list instance types of class " + class, Reason: cloud.ReasonNotLoaded}
	}
	in := inputs{class: c, declared: declared, offered: m, prices: p.prices.table(), stock: p.stock.Look(), shifts: p.shifts.look(), learned: p.learned.Load()}
	if group, ok := p.placements.Load(class); ok {
		in.placement = group.(*placement)
	}
	return in, nil
}

// shifted says whether the cluster is shifted away from a zone.
func (in *inputs) shifted(z zone) bool {
	_, away := in.shifts.until[z.id]
	return away
}

// settings are the class's, with the controller's options.
func (p *Provider) settings(in inputs) shape.Settings {
	s := shape.ForClass(in.class)
	s.MemoryOverhead, s.ReservedENIs, s.Learned = p.opt.MemoryOverhead, p.opt.ReservedENIs, in.learned.forClass(in.class)
	if in.placement != nil {
		s.Placement = in.placement.strategy
	}
	return s
}

// shapes works out what every instance gives a node of the class.
func (p *Provider) shapes(in inputs) []shaped {
	s := p.settings(in)
	kubelets, _ := p.kubelets(s) // problems are said in the class's status
	images := imageNeeds(in.class.Status.AMIs)
	labels := in.offered.labelsOf(s.Family, p.opt.Region)
	list := make([]shaped, len(in.offered.list))
	for i, m := range in.offered.list {
		kubelet, problems := kubelets.of(m)
		s.Kubelet = kubelet
		t := world.InstanceType{Name: m.Name, Labels: labels[i], Capacity: shape.Capacity(m, &s)}
		t.Allocatable = shape.Allocatable(m, &s, t.Capacity)
		list[i] = shaped{described: m, typ: t, usable: len(problems) == 0 && shape.Incompatible(m, &s) == "" && pickImage(images, t.Labels) >= 0}
	}
	return list
}

// offer adds what is sold where, at which price, and whether it is in stock.
func (p *Provider) offer(in inputs, shapes []shaped) []*world.InstanceType {
	zones := classZones(in.class)
	reserved := map[string][]*awsv1.CapacityReservation{}
	if p.opt.ReservedCapacity {
		for i := range in.class.Status.CapacityReservations {
			r := &in.class.Status.CapacityReservations[i]
			reserved[r.InstanceType] = append(reserved[r.InstanceType], r)
		}
	}
	types := make([]world.InstanceType, len(shapes))
	list := make([]*world.InstanceType, len(shapes))
	for i, s := range shapes {
		o := offers{in: in, described: s.described, usable: s.usable, list: make([]world.Offering, 0, 2*len(zones))}
		for _, zone := range zones {
			if in.offered.zones[s.described.Name][zone.name] {
				o.addZone(zone)
			}
		}
		for _, r := range reserved[s.described.Name] {
			o.addReservation(r, zones)
		}
		types[i] = s.typ
		types[i].Offerings = o.list
		list[i] = &types[i]
	}
	return list
}

// zone is a zone that the class has subnets in.
type zone struct {
	name, id string
	labels   world.Labels // of offerings in the zone
}

// classZones lists the zones of the class's subnets by name.
func classZones(class *awsv1.EC2NodeClass) []zone {
	var zones []zone
	for _, s := range class.Status.Subnets {
		if !slices.ContainsFunc(zones, func(z zone) bool { return z.name == s.Zone }) {
			z := zone{name: s.Zone, id: s.ZoneID}
			if z.id != "" {
				z.labels = world.Labels{{Key: awsv1.LabelZoneID, Value: z.id}}
			}
			zones = append(zones, z)
		}
	}
	slices.SortFunc(zones, func(a, b zone) int { return cmp.Compare(a.name, b.name) })
	return zones
}

// offers collects the offerings of one instance.
type offers struct {
	in        inputs
	described *shape.Type
	usable    bool
	list      []world.Offering
}

// addZone adds what is sold in a zone to everybody.
func (o *offers) addZone(z zone) {
	if price, ok := o.in.prices.onDemandPrice(o.described.Name); ok && sells(o.described, types.UsageClassTypeOnDemand) {
		o.add(world.Offering{Zone: z.name, CapacityType: karpv1.CapacityTypeOnDemand, Price: price}, z)
	}
	if price, ok := o.in.prices.spotPrice(o.described.Name, z.name); ok && sells(o.described, types.UsageClassTypeSpot) {
		o.add(world.Offering{Zone: z.name, CapacityType: karpv1.CapacityTypeSpot, Price: price}, z)
	}
}

// add completes an offering; in a placement group with partitions it becomes one for each.
func (o *offers) add(offering world.Offering, z zone) {
	offering.Labels = z.labels
	group := o.in.placement
	from := kit.Pool{CapacityType: offering.CapacityType, Type: o.described.Name, Zone: offering.Zone}
	left := o.usable && !o.in.shifted(z) && !(o.in.stock.NoSpot && offering.CapacityType == karpv1.CapacityTypeSpot)
	if group == nil {
		offering.Available = left && !o.in.stock.Out[from]
		o.list = append(o.list, offering)
		return
	}
	offering.Labels = offering.Labels.With(awsv1.LabelPlacementGroupID, group.id)
	for _, partition := range group.partitions() {
		one := offering
		if partition != "" {
			one.Labels = offering.Labels.With(awsv1.LabelPlacementGroupPartition, partition)
		}
		from.Group = group.id + "/" + partition
		one.Available = left && !o.in.stock.Out[from]
		o.list = append(o.list, one)
	}
}

// addReservation adds what is left of a capacity reservation.
func (o *offers) addReservation(r *awsv1.CapacityReservation, zones []zone) {
	i := slices.IndexFunc(zones, func(z zone) bool { return z.name == r.AvailabilityZone })
	if i < 0 {
		return
	}
	price, _ := o.in.prices.onDemandPrice(r.InstanceType) // what is paid for already is offered whether or not it has a list price
	left := o.in.stock.Reserved[r.ID]
	offering := world.Offering{
		Zone: r.AvailabilityZone, CapacityType: karpv1.CapacityTypeReserved, Price: price / reservedDiscount, Reservation: r.ID, Remaining: left,
		Available: o.usable && !o.in.shifted(zones[i]) && r.State != awsv1.CapacityReservationStateExpiring,
		Labels: world.NewLabels(map[string]string{
			awsv1.LabelCapacityReservationID: r.ID, awsv1.LabelCapacityReservationType: string(r.ReservationType),
			awsv1.LabelCapacityReservationInterruptible: strconv.FormatBool(r.Interruptible),
		}),
	}
	if zones[i].id != "" {
		offering.Labels = offering.Labels.With(awsv1.LabelZoneID, zones[i].id)
	}
	o.list = append(o.list, offering)
}

// imageNeeds are the requirements of the class's images, in their order.
func imageNeeds(images []awsv1.AMI) []req.Set {
	needs := make([]req.Set, len(images))
	for i, image := range images {
		set, err := needSet(image.Requirements)
		if err != nil {
			set = req.Set{req.Requirement{Key: corev1.LabelArchStable}} // unreadable: suits nothing
		}
		needs[i] = set
	}
	return needs
}

func needSet(requirements []corev1.NodeSelectorRequirement) (req.Set, error) {
	set := req.Set{}
	for _, r := range requirements {
		one, err := req.New(r.Key, req.Operator(r.Operator), r.Values...)
		if err != nil {
			return nil, fmt.Errorf("image requirement: %w", err)
		}
		set = set.With(one)
	}
	return set, nil
}

// pickImage is the index of the first image that a type with these labels can use, or -1.
func pickImage(needs []req.Set, labels world.Labels) int {
	return slices.IndexFunc(needs, func(need req.Set) bool { return need.Admits(labels.Get) })
}
