package simaws

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

type fleet struct {
	ID, Kind  string
	At        time.Time
	Tags      tagSet
	Instances []string
}

// override is one way a fleet may launch.
type override struct {
	template *launchTemplate
	version  *launchVersion
	spec     *node
	typ      string
	subnet   string
	zone     string
	image    string
	maxPrice float64
	weight   float64
	priority float64
	// index is the position in the request, the last tie breaker.
	index  int
	target *target
	err    *apiError
	ids    []string
}

// fleetRequest is a parsed CreateFleet.
type fleetRequest struct {
	capacityType        string
	strategy            string
	want, minimum       float64
	overrides           []*override
	tags                map[string]tagSet
	singleType, oneZone bool
}

// maxFleet is the largest capacity one instant fleet may ask for.
const maxFleet = 10000

func createFleet(c *call) error {
	req, err := c.parseFleet()
	if err != nil {
		return err
	}
	if err := c.authorizeFleet(req); err != nil {
		return err
	}
	if c.q.bool("DryRun") {
		return errDryRun
	}
	return c.once("CreateFleet", func() error { return c.runFleet(req) })
}

func (c *call) parseFleet() (*fleetRequest, error) {
	if kind := c.q.str("Type"); kind != "instant" {
		return nil, fail("InvalidParameterValue", "The simulator supports fleets of type instant only, not %q.", orDefault(kind, "maintain"))
	}
	spec := c.q.at("TargetCapacitySpecification")
	if spec == nil {
		return nil, missing("TargetCapacitySpecification")
	}
	req := &fleetRequest{capacityType: spec.str("DefaultTargetCapacityType"), want: float64(spec.int("TotalTargetCapacity", 0)), tags: map[string]tagSet{}}
	switch n := spec.int("SpotTargetCapacity", 0); {
	case req.capacityType == "" && n > 0:
		req.capacityType = "spot"
	case req.capacityType == "":
		req.capacityType = "on-demand"
	}
	options := "OnDemandOptions"
	switch req.capacityType {
	case "spot":
		options = "SpotOptions"
		req.strategy = orDefault(c.q.str("SpotOptions.AllocationStrategy"), "lowest-price")
	case "on-demand", "capacity-block", "reserved-capacity":
		req.strategy = orDefault(c.q.str("OnDemandOptions.AllocationStrategy"), "lowest-price")
	default:
		return nil, badValue("DefaultTargetCapacityType", req.capacityType, "It must be spot, on-demand, capacity-block or reserved-capacity.")
	}
	if !slices.Contains(strategies[options], req.strategy) {
		return nil, badValue(options+".AllocationStrategy", req.strategy, "It is not a strategy of this kind of capacity.")
	}
	req.minimum = float64(c.q.int(options+".MinTargetCapacity", 0))
	req.singleType, req.oneZone = c.q.bool(options+".SingleInstanceType"), c.q.bool(options+".SingleAvailabilityZone")
	if req.want < 1 || req.want > maxFleet {
		return nil, badValue("TotalTargetCapacity", spec.str("TotalTargetCapacity"), "It must be between 1 and 10000.")
	}
	for _, t := range c.q.items("TagSpecification") {
		kind := t.str("ResourceType")
		req.tags[kind] = req.tags[kind].with(t.tags("Tag")...)
	}
	if err := c.parseOverrides(req); err != nil {
		return nil, err
	}
	return req, c.q.err()
}

var strategies = map[string][]string{
	"SpotOptions":     {"lowest-price", "lowestPrice", "diversified", "capacity-optimized", "capacityOptimized", "capacity-optimized-prioritized", "capacityOptimizedPrioritized", "price-capacity-optimized", "priceCapacityOptimized"},
	"OnDemandOptions": {"lowest-price", "lowestPrice", "prioritized"},
}

// maxOverrides is what one instant fleet request may carry.
const maxOverrides = 1000

func (c *call) parseOverrides(req *fleetRequest) error {
	configs := c.q.items("LaunchTemplateConfigs")
	if len(configs) == 0 {
		return missing("LaunchTemplateConfigs")
	}
	for _, cfg := range configs {
		spec := cfg.at("LaunchTemplateSpecification")
		t, err := c.template(spec.str("LaunchTemplateId"), spec.str("LaunchTemplateName"))
		if err != nil {
			return err
		}
		v, err := t.version(spec.str("Version"))
		if err != nil {
			return err
		}
		overrides := cfg.items("Overrides")
		if len(overrides) == 0 {
			overrides = []*node{{fault: c.q.fault}}
		}
		for _, o := range overrides {
			if o.has("InstanceRequirements") {
				return fail("InvalidParameterValue", "The simulator does not support InstanceRequirements in overrides; name instance types.")
			}
			ov := &override{
				template: t, version: v, spec: o, typ: o.str("InstanceType"), subnet: o.str("SubnetId"),
				zone: o.str("AvailabilityZone"), image: o.str("ImageId"), maxPrice: o.float("MaxPrice"),
				weight: o.float("WeightedCapacity"), priority: o.float("Priority"), index: len(req.overrides),
			}
			if ov.weight <= 0 {
				ov.weight = 1
			}
			if id := o.str("AvailabilityZoneId"); id != "" && ov.zone == "" {
				ov.zone = c.reg.zoneName(id)
			}
			req.overrides = append(req.overrides, ov)
		}
	}
	if len(req.overrides) > maxOverrides {
		return fail("InvalidParameterValue", "The request has %d overrides; at most %d are allowed.", len(req.overrides), maxOverrides)
	}
	return nil
}

// runFleet launches until the capacity is reached or no override is left, and
// answers with both what it got and what it could not get.
func (c *call) runFleet(req *fleetRequest) error {
	f := &fleet{ID: "fleet-" + c.uuid(), Kind: "instant", At: c.at, Tags: req.tags["fleet"]}
	var ready []*override
	for _, o := range req.overrides {
		data := o.version.Data.merged(launchData{Tags: req.tags})
		if pl := o.spec.at("Placement"); pl != nil {
			data = data.merged(launchData{Placement: parsePlacement(pl)})
		}
		o.target, o.err = c.prepare(wish{data: data, typ: o.typ, zone: o.zone, subnet: o.subnet, image: o.image, capacityType: req.capacityType})
		if o.err == nil {
			o.err = c.authorizeRun(o.target, "CreateFleet")
		}
		if o.err == nil && o.maxPrice > 0 && o.target.price > o.maxPrice {
			o.err = fail("SpotMaxPriceTooLow", "Your Spot request price of %g is lower than the minimum required Spot request fulfillment price of %g.", o.maxPrice, o.target.price)
		}
		if o.err == nil {
			o.target.template, o.target.version, o.target.fleet = o.template, o.version.Number, f.ID
			ready = append(ready, o)
		}
	}
	c.order(ready, req.strategy)
	got := c.fill(slices.Clone(ready), req)
	if got < req.minimum {
		for _, o := range ready {
			for _, id := range o.ids {
				c.terminate(c.reg.Instances.get(id), c.at)
			}
			o.ids = nil
		}
	}
	for _, o := range req.overrides {
		f.Instances = append(f.Instances, o.ids...)
	}
	if len(f.Instances) > 0 {
		c.reg.Fleets.put(f.ID, f)
	}
	c.writeFleet(f, req)
	return nil
}

// fill launches from the front of the order; an override that fails is noted
// and left. It uses up the slice.
func (c *call) fill(ready []*override, req *fleetRequest) float64 {
	got := 0.0
	spread := req.strategy == "diversified"
	var first *override
	for i := 0; got < req.want && len(ready) > 0; {
		o := ready[i%len(ready)]
		if first != nil && (req.singleType && o.target.typ != first.target.typ || req.oneZone && o.target.subnet.Zone != first.target.subnet.Zone) {
			ready = slices.Delete(ready, i%len(ready), i%len(ready)+1)
			continue
		}
		in, err := c.launch(o.target)
		if err != nil {
			o.err = err
			ready = slices.Delete(ready, i%len(ready), i%len(ready)+1)
			continue
		}
		if first == nil {
			first = o
		}
		o.ids = append(o.ids, in.ID)
		got += o.weight
		if spread {
			i++
		}
	}
	return got
}

// order sorts overrides the way the strategy prefers them. Ties go by price and
// then by the position in the request.
func (c *call) order(os []*override, strategy string) {
	depth := make(map[*override]float64, len(os))
	for _, o := range os {
		depth[o] = c.depth(o.target.typ.Name, o.target.subnet.Zone, c.at)
	}
	price := func(o *override) float64 { return o.target.price / o.weight }
	key := func(o *override) float64 { return price(o) }
	switch strategy {
	case "capacity-optimized", "capacityOptimized":
		key = func(o *override) float64 { return -depth[o] }
	case "capacity-optimized-prioritized", "capacityOptimizedPrioritized":
		// The pools are put into a few bands of depth, and within a band the
		// priority decides: capacity first, priority on a best-effort basis.
		key = func(o *override) float64 { return -1e6*band(depth[o]) + o.priority }
	case "price-capacity-optimized", "priceCapacityOptimized":
		// A shallow pool counts as dearer than it is, by up to a half.
		key = func(o *override) float64 { return price(o) * (1.5 - depth[o]/2) }
	case "prioritized":
		key = func(o *override) float64 { return o.priority }
	}
	slices.SortStableFunc(os, func(a, b *override) int {
		return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(price(a), price(b)), cmp.Compare(a.index, b.index))
	})
}

func band(depth float64) float64 {
	switch {
	case depth == 0:
		return 0
	case depth < 0.15:
		return 1
	}
	return 2
}

func (c *call) writeFleet(f *fleet, req *fleetRequest) {
	x := c.x
	x.str("fleetId", f.ID)
	lifecycle := req.capacityType
	if lifecycle != "spot" {
		lifecycle = "on-demand"
	}
	x.in("errorSet", func() {
		for _, o := range req.overrides {
			if o.err == nil {
				continue
			}
			x.in("item", func() {
				writeOverride(x, o)
				x.str("lifecycle", lifecycle)
				x.str("errorCode", o.err.Code)
				x.str("errorMessage", o.err.Message)
			})
		}
	})
	x.in("fleetInstanceSet", func() {
		for _, o := range req.overrides {
			if len(o.ids) == 0 {
				continue
			}
			x.in("item", func() {
				writeOverride(x, o)
				x.str("lifecycle", lifecycle)
				x.strs("instanceIds", "item", o.ids)
				x.str("instanceType", o.target.typ.Name)
				x.opt("platform", o.target.image.Platform)
			})
		}
	})
}

func writeOverride(x *xmlWriter, o *override) {
	x.in("launchTemplateAndOverrides", func() {
		x.in("launchTemplateSpecification", func() {
			x.str("launchTemplateId", o.template.ID)
			x.str("version", strconv.Itoa(o.version.Number))
		})
		x.in("overrides", func() {
			typ, zone, subnet := o.typ, o.zone, o.subnet
			if o.target != nil {
				typ, zone, subnet = o.target.typ.Name, o.target.subnet.Zone, o.target.subnet.ID
			}
			x.opt("instanceType", typ)
			x.opt("subnetId", subnet)
			x.opt("availabilityZone", zone)
			x.opt("imageId", o.image)
			if o.spec.has("WeightedCapacity") {
				x.float("weightedCapacity", o.weight)
			}
			if o.spec.has("Priority") {
				x.float("priority", o.priority)
			}
			x.opt("maxPrice", o.spec.str("MaxPrice"))
		})
	})
}

func describeFleets(c *call) error {
	all, err := pick[fleet]{c.q.strs("FleetId"), notFound("InvalidFleetId.NotFound", "The fleet ID '%s' does not exist"), func(f *fleet) field {
		return func(name string, out []string) ([]string, bool) {
			switch name {
			case "type":
				return append(out, f.Kind), true
			case "fleet-state":
				return append(out, "active"), true
			}
			return tagField(f.Tags, name, out)
		}
	}}.from(c, c.reg.Fleets)
	if err != nil {
		return err
	}
	all, next, err := page(c, all, pages{1, 100, 100})
	if err != nil {
		return err
	}
	c.x.in("fleetSet", func() {
		for _, f := range all {
			c.x.in("item", func() {
				c.x.str("fleetId", f.ID)
				c.x.str("type", f.Kind)
				c.x.str("fleetState", "active")
				c.x.time("createTime", f.At)
				c.x.in("fleetInstanceSet", func() {
					c.x.in("item", func() { c.x.strs("instanceIds", "item", f.Instances) })
				})
				c.x.tagSet(f.Tags)
			})
		}
	})
	c.x.opt("nextToken", next)
	return nil
}
