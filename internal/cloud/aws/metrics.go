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
	p.opt.Meter.Add(meter.LaunchFailures, 1, "zone", zone, "zone_id", zoneIDOf(o.in, zone), "capacity_type", o.choice.CapacityType, "reason", reason)
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
type offeringKey struct{ typ, capacityType, zone string }

// Report shows, whenever somebody looks at the metrics from now on, instance types and offerings that the classes can launch then.
// An offering is available if any class can have it.
func (p *Provider) Report(classes func() []string) {
	p.opt.Meter.Live(meter.OfferingPrice, func(show meter.Show) {
		price := map[offeringKey]float64{}
		p.eachType(classes(), func(t *world.InstanceType) {
			for i := range t.Offerings {
				price[keyOf(t, i)] = t.Offerings[i].Price
			}
		})
		for at, v := range price {
			show(v, at.labels()...)
		}
	})
	p.opt.Meter.Live(meter.OfferingAvailable, func(show meter.Show) {
		available := map[offeringKey]bool{}
		p.eachType(classes(), func(t *world.InstanceType) {
			for i := range t.Offerings {
				at := keyOf(t, i)
				available[at] = available[at] || t.Offerings[i].Launchable()
			}
		})
		for at, is := range available {
			show(oneIf(is), at.labels()...)
		}
	})
	p.reportTypes(meter.InstanceTypeCPU, classes, func(t *world.InstanceType) float64 { return float64(t.Capacity.Get(world.CPU)) / 1000 })
	p.reportTypes(meter.InstanceTypeMemory, classes, func(t *world.InstanceType) float64 { return float64(memoryOf(t)) })
}

func (p *Provider) reportTypes(name meter.Name, classes func() []string, value func(*world.InstanceType) float64) {
	p.opt.Meter.Live(name, func(show meter.Show) {
		types := map[string]float64{}
		p.eachType(classes(), func(t *world.InstanceType) { types[t.Name] = value(t) })
		for typ, v := range types {
			show(v, "instance_type", typ)
		}
	})
}

// eachType calls do with what each class can launch; a class that has no types yet has nothing to report.
func (p *Provider) eachType(classes []string, do func(*world.InstanceType)) {
	for _, class := range slices.Sorted(slices.Values(classes)) {
		list, err := p.Types(class)
		if err != nil {
			continue
		}
		for _, t := range list.List {
			do(t)
		}
	}
}

func keyOf(t *world.InstanceType, offering int) offeringKey {
	return offeringKey{t.Name, t.Offerings[offering].CapacityType, t.Offerings[offering].Zone}
}

func (k offeringKey) labels() []string {
	return []string{"instance_type", k.typ, "capacity_type", k.capacityType, "zone", k.zone}
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
