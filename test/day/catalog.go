package day

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/internal/cloud/aws/shape"
	"karpenter/internal/cloud/simaws/catalog"
	"karpenter/internal/engine/world"
)

const (
	region = "us-west-2"
	zones  = 3
	// belowCPU and newerThan are the pool's requirements.
	belowCPU  = 32
	newerThan = 4
	// overhead is the default of VM_MEMORY_OVERHEAD_PERCENT.
	overhead = 0.075
)

// instanceTypes are the AWS simulator's, as far as the pool allows them, with on-demand prices. A type that another one of the
// same zones matches for less is left out: no pod here asks for anything that only it has.
var instanceTypes = sync.OnceValues(func() ([]*world.InstanceType, error) {
	all, err := catalog.Load()
	if err != nil {
		return nil, err
	}
	table, err := all.Region(region)
	if err != nil {
		return nil, err
	}
	var out []*world.InstanceType
	for _, o := range table.Offers {
		if t := instanceType(all.Type(o.Type), table, o); t != nil {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no instance type of %s is allowed", region)
	}
	return undominated(out), nil
})

// instanceType is one type with what it gives a node and where it is sold, or nil if the pool does not want it.
func instanceType(t *catalog.Type, table *catalog.Region, o catalog.Offer) *world.InstanceType {
	if t == nil || t.BareMetal || t.VCPUs >= belowCPU || !(o.OnDemand > 0) || len(t.Network.Cards) == 0 {
		return nil
	}
	m := &shape.Type{
		Name: t.Name, Arch: shape.AMD64, Hypervisor: t.Hypervisor, VCPUs: int64(t.VCPUs), MemoryMiB: int64(t.MemoryMiB),
		IPv4PerENI: int64(t.Network.IPv4PerENI), DefaultCard: t.Network.DefaultCard,
	}
	if slices.Contains(t.Architectures, "arm64") {
		m.Arch = shape.ARM64
	}
	for i, c := range t.Network.Cards {
		m.Cards = append(m.Cards, shape.Card{Index: i, MaxENIs: int64(c.MaxENIs)})
	}
	labels := shape.Labels(m, awsv1.AMIFamilyAL2023, "")
	category, _ := labels.Get(awsv1.LabelInstanceCategory)
	generation, _ := labels.Get(awsv1.LabelInstanceGeneration)
	if n, err := strconv.Atoi(generation); err != nil || n <= newerThan || !wanted(category) {
		return nil
	}
	set := &shape.Settings{Family: awsv1.AMIFamilyAL2023, MemoryOverhead: overhead}
	capacity := shape.Capacity(m, set)
	allocatable := shape.Allocatable(m, set, capacity)
	const kept = world.Storage // nothing here asks for storage or devices
	out := &world.InstanceType{Name: t.Name, Capacity: capacity[:kept:kept], Allocatable: allocatable[:kept:kept]}
	for i, z := range table.Zones[:zones] {
		if o.ZoneMask&(1<<i) != 0 {
			out.Offerings = append(out.Offerings, world.Offering{Zone: z.Name, CapacityType: world.CapacityOnDemand, Price: o.OnDemand, Available: true})
		}
	}
	if len(out.Offerings) == 0 {
		return nil
	}
	return out
}

func wanted(category string) bool {
	return category == "c" || category == "m" || category == "r"
}

func undominated(types []*world.InstanceType) []*world.InstanceType {
	better := func(a, b *world.InstanceType) bool {
		if a.Offerings[0].Price > b.Offerings[0].Price || !b.Allocatable.Fits(a.Allocatable) {
			return false
		}
		for _, o := range b.Offerings {
			if !slices.ContainsFunc(a.Offerings, func(x world.Offering) bool { return x.Zone == o.Zone }) {
				return false
			}
		}
		return a.Offerings[0].Price < b.Offerings[0].Price || a.Name < b.Name
	}
	var out []*world.InstanceType
	for _, t := range types {
		if !slices.ContainsFunc(types, func(x *world.InstanceType) bool { return x != t && better(x, t) }) {
			out = append(out, t)
		}
	}
	return out
}
