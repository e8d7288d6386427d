package aws

import (
	"slices"
	"strconv"
	"time"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/internal/engine/world"
	"karpenter/internal/meter"
)

// Names of what gathers requests into calls, as dashboards know them.
const (
	batcherFleet     = "create_fleet"
	batcherDescribe  = "describe_instances"
	batcherTerminate = "terminate_instances"
	batcherLook      = "find_batches"
)

// gathered counts a call that was made for several requests, the first of which had waited that long.
func (p *Provider) gathered(batcher string, size int, waited time.Duration) {
	p.opt.Meter.Observe(meter.BatchSize, float64(size), "batcher", batcher)
	p.opt.Meter.Observe(meter.BatchTime, waited.Seconds(), "batcher", batcher)
}

// launchFailed counts what EC2 refused, once per answer however many claims share it.
func (p *Provider) launchFailed(o *order, zone, reason string) {
	p.opt.Meter.Add(meter.LaunchFailures, 1, "zone", zone, "zone_id", zoneIDOf(o.in, zone), "capacity_type", o.choice.market, "reason", reason)
}

// zoneIDOf is the id of a zone as the class's subnets tell it, or "".
func zoneIDOf(in inputs, zone string) string {
	for _, s := range in.class.Status.Subnets {
		if s.Zone == zone {
			return s.ZoneID
		}
	}
	return ""
}

// offeringKey is an offering in metrics.
type offeringKey struct{ typ, market, zone string }

// reported is what the last report set, so that the next can drop what is gone.
type reported struct {
	offerings map[offeringKey]bool
	types     map[string]bool
}

// Report sets the gauges of instance types and offerings from what the classes can launch now. An offering is available if any
// class can have it.
func (p *Provider) Report(classes []string) {
	price, available := map[offeringKey]float64{}, map[offeringKey]bool{}
	types := map[string]*world.InstanceType{}
	for _, class := range slices.Sorted(slices.Values(classes)) {
		list, err := p.Types(class)
		if err != nil {
			continue // a class that has no types yet has nothing to report
		}
		for _, t := range list.List {
			types[t.Name] = t
			for i := range t.Offerings {
				at := offeringKey{t.Name, t.Offerings[i].CapacityType, t.Offerings[i].Zone}
				price[at], available[at] = t.Offerings[i].Price, available[at] || t.Offerings[i].Available
			}
		}
	}
	p.reporting.Lock()
	defer p.reporting.Unlock()
	m, now := p.opt.Meter, reported{offerings: available, types: map[string]bool{}}
	for at := range available {
		labels := []string{"instance_type", at.typ, "capacity_type", at.market, "zone", at.zone}
		m.Set(meter.OfferingPrice, price[at], labels...)
		m.Set(meter.OfferingAvailable, oneIf(available[at]), labels...)
	}
	for name, t := range types {
		now.types[name] = true
		m.Set(meter.InstanceTypeCPU, float64(t.Capacity.Get(world.CPU))/1000, "instance_type", name)
		m.Set(meter.InstanceTypeMemory, float64(memoryOf(t)), "instance_type", name)
	}
	p.dropReported(now)
	p.reported = now
}

// dropReported removes series of what is no longer sold.
func (p *Provider) dropReported(now reported) {
	m := p.opt.Meter
	for name := range p.reported.types {
		if !now.types[name] {
			m.Drop(meter.InstanceTypeCPU, "instance_type", name)
			m.Drop(meter.InstanceTypeMemory, "instance_type", name)
		}
	}
	for at := range p.reported.offerings {
		if _, still := now.offerings[at]; !still {
			labels := []string{"instance_type", at.typ, "capacity_type", at.market, "zone", at.zone}
			m.Drop(meter.OfferingPrice, labels...)
			m.Drop(meter.OfferingAvailable, labels...)
		}
	}
}

// memoryOf is what the type is sold with, in bytes, whatever nodes lack of it.
func memoryOf(t *world.InstanceType) int64 {
	text, _ := t.Labels.Get(awsv1.LabelInstanceMemory)
	mib, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return t.Capacity.Get(world.Memory)
	}
	return mib << 20
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
