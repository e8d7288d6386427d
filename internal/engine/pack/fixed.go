package pack

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// zoneMargin is how many times as much as the cheapest a node of a static pool may cost, so that zones are used evenly and a launch has something to
// choose from: a zone in which only something far dearer is sold takes part when the others have nothing left.
const zoneMargin = 2

// Fixed chooses the nodes of a static pool one after the other: the cheapest that its requirements allow, evenly over its zones. What is left of
// capacity reservations comes first, as it is paid for already. No pods decide: a node only has to have room for its daemons.
type Fixed struct {
	m    *Model
	pool *world.Pool
	// zones counts the pool's nodes, and taken what has been chosen of each reservation.
	zones map[string]int
	taken map[string]int
	like  map[int32]*NewNode // what may be launched, by the chosen option
	types map[string]int     // how many types are in stock, by zone
}

// NewFixed makes ready to choose nodes of a static pool of the snapshot. Nodes of the pool that are being deleted do not count for the spread.
func NewFixed(s *world.Snapshot, pool *world.Pool, opt Options) *Fixed {
	alone := pool.WithTypes(pool.Types)
	alone.Static, alone.Refused = false, ""
	snap := &world.Snapshot{Resources: s.Resources, Pools: []*world.Pool{alone}, Daemons: s.Daemons}
	opt.NoNewNodes = false
	f := &Fixed{m: Prepare(snap, opt), pool: pool, zones: map[string]int{}, taken: map[string]int{}, like: map[int32]*NewNode{}, types: map[string]int{}}
	for _, n := range s.Nodes {
		if n.Pool == pool.Name && !n.Deleting {
			f.count(n.Zone(), 1)
		}
	}
	return f
}

// Replace chooses a node in place of one of the pool's that is there, or says why there is none.
func (f *Fixed) Replace(n *world.Node) (*NewNode, why.Reason, bool) {
	f.count(n.Zone(), -1)
	add, r, ok := f.Next()
	if !ok {
		f.count(n.Zone(), 1)
	}
	return add, r, ok
}

func (f *Fixed) count(zone string, n int) {
	if zone != "" {
		f.zones[zone] += n
	}
}

// Next chooses one more node, or says why there is none.
func (f *Fixed) Next() (*NewNode, why.Reason, bool) {
	chosen, ok := f.choose()
	if !ok {
		return nil, f.nothing(), false
	}
	like := f.like[chosen]
	if like == nil {
		var short why.Reason
		if like, short, ok = f.describe(chosen); !ok {
			return nil, short, false
		}
		f.like[chosen] = like
	}
	o := &f.m.options[chosen]
	n := *like
	n.Why = append([]why.Reason{f.because(chosen)}, n.Why...)
	f.count(o.off.Zone, 1)
	if o.off.Reservation != "" {
		f.taken[o.off.Reservation]++
	}
	return &n, why.Reason{}, true
}

// choose finds the option of the next node: of those that are cheapest in their zone, the one whose zone has the fewest nodes.
func (f *Fixed) choose() (int32, bool) {
	reserved, open := map[string]int32{}, map[string]int32{}
	for i := range f.m.stock.each {
		o := &f.m.options[i]
		best := open
		if o.off.Reservation != "" {
			if best = reserved; f.taken[o.off.Reservation] >= o.off.Remaining {
				continue
			}
		}
		if was, ok := best[o.off.Zone]; o.variant == 0 && (!ok || f.m.cheaper(int32(i), was)) {
			best[o.off.Zone] = int32(i)
		}
	}
	if len(reserved) > 0 {
		return f.emptiest(reserved), true
	}
	if len(open) == 0 {
		return 0, false
	}
	cheapest := f.m.options[slices.MinFunc(slices.Collect(maps.Values(open)), func(a, b int32) int {
		return cmp.Compare(f.m.options[a].cost, f.m.options[b].cost)
	})].cost
	maps.DeleteFunc(open, func(_ string, o int32) bool { return f.m.options[o].cost > zoneMargin*cheapest })
	return f.emptiest(open), true
}

// emptiest is the option of the zone with the fewest nodes of the pool; of those the cheapest.
func (f *Fixed) emptiest(byZone map[string]int32) int32 {
	zone := slices.MinFunc(slices.Collect(maps.Keys(byZone)), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.zones[a], f.zones[b]), cmp.Compare(f.m.options[byZone[a]].cost, f.m.options[byZone[b]].cost), strings.Compare(a, b))
	})
	return byZone[zone]
}

// describe says what may be launched for a node: what costs little more than the chosen option, in its zone and of its capacity type,
// and as much more as minValues asks for.
func (f *Fixed) describe(chosen int32) (*NewNode, why.Reason, bool) {
	m := f.m
	c := &m.options[chosen]
	v := &m.variants[c.variant]
	list, reserve := []int32{chosen}, []int32(nil)
	need := minValues(v.pool.Need)
	asks := func(key string) bool {
		return slices.ContainsFunc(need, func(r req.Requirement) bool { return r.Key == key })
	}
	if c.off.Reservation == "" {
		list, reserve = f.alternatives(chosen, asks(world.LabelZone), asks(world.LabelCapacityType))
	}
	have := make([]map[int32]bool, len(need))
	for k := range have {
		have[k] = map[int32]bool{}
	}
	if c.off.Reservation == "" {
		list = (&problem{m: m}).truncate(list, reserve, need, have)
	}
	n := &NewNode{Pool: f.pool, Labels: v.labels, Requests: make(world.Resources, m.dims)}
	for k, r := range need {
		if len(have[k]) < r.MinValues && c.off.Reservation == "" {
			n.MinValuesRelaxed = true
			if !m.opt.BestEffortMinValues {
				return nil, why.Counted(why.MinValues, len(have[k]), r.MinValues, "minValues asks for "+why.Plural(r.MinValues, "value", "values")+" of "+r.Key+
					", and what is in stock has "+why.Plural(len(have[k]), "value", "values")), false
			}
		}
	}
	for _, o := range list {
		n.Choices = append(n.Choices, Choice{Type: m.options[o].typ, Offering: m.options[o].off})
	}
	if c.daemons != nil {
		addTo(n.Requests, c.daemons)
	}
	if next := slices.IndexFunc(list, func(o int32) bool { return m.options[o].typ != c.typ }); next > 0 {
		x := &m.options[list[next]]
		n.Why = append(n.Why, why.New(why.NextBest, "next best is %s at %s, %s more", x.typ.Name, why.Money(x.price), why.Money(x.price-c.price)))
	}
	if n.MinValuesRelaxed {
		n.Why = append(n.Why, why.New(why.MinValues, "fewer distinct values than minValues asks for: best effort"))
	}
	return n, why.Reason{}, true
}

// alternatives lists what may be launched in place of an option, cheapest first and the option before all, and what else there is.
func (f *Fixed) alternatives(chosen int32, anyZone, anyModel bool) (list, reserve []int32) {
	m := f.m
	c := &m.options[chosen]
	var all []int32
	for i := range m.stock.each {
		o := &m.options[i]
		if int32(i) == chosen || o.variant != c.variant || o.off.Reservation != "" {
			continue
		}
		if (o.off.Zone == c.off.Zone || anyZone) && (o.off.CapacityType == c.off.CapacityType || anyModel) {
			all = append(all, int32(i))
		}
	}
	slices.SortFunc(all, func(a, b int32) int {
		if m.cheaper(a, b) {
			return -1
		}
		return 1
	})
	list = []int32{chosen}
	types := map[string]bool{c.typ.Name: true}
	for _, i := range all {
		if o := &m.options[i]; o.price <= c.price*(1+choiceMargin) || len(types) < fewChoices && o.price <= c.price*zoneMargin {
			types[o.typ.Name] = true
			list = append(list, i)
		} else {
			reserve = append(reserve, i)
		}
	}
	return list, reserve
}

// because says why an option was chosen.
func (f *Fixed) because(chosen int32) why.Reason {
	o := &f.m.options[chosen]
	if o.off.Reservation != "" {
		return why.New(why.Chosen, "reservation %s has %d of %s left", o.off.Reservation, o.off.Remaining-f.taken[o.off.Reservation], why.Count(o.off.Remaining, "instance"))
	}
	zone := o.off.Zone
	if f.types[zone] == 0 {
		types := map[string]bool{}
		for i := range f.m.stock.each {
			if f.m.options[i].off.Zone == zone {
				types[f.m.options[i].typ.Name] = true
			}
		}
		f.types[zone] = len(types)
	}
	types := f.types[zone]
	return why.Counted(why.Chosen, 1, types, "cheapest of "+why.Plural(types, "type", "types")+" in zone "+zone+", in which pool "+f.pool.Name+" has "+why.Count(f.zones[zone], "node"))
}

// Full says whether the pool can only have nodes in capacity reservations, and all of these that can be used are full.
func (f *Fixed) Full() bool {
	full := false
	for i := range f.m.options {
		o := f.m.options[i].off
		if o.Reservation == "" && o.CapacityType != world.CapacityReserved || o.Available && o.Remaining > f.taken[o.Reservation] {
			return false
		}
		full = full || o.Available
	}
	return full
}

// Holds says whether a node has a slot of a capacity reservation that the pool can use.
func (f *Fixed) Holds(n *world.Node) bool {
	typ, _ := n.Labels.Get(world.LabelInstanceType)
	return slices.ContainsFunc(f.m.options, func(o option) bool { return o.typ.Name == typ && o.off.Available && n.Occupies(*o.off) })
}

// nothing says why there is no node to be had.
func (f *Fixed) nothing() why.Reason {
	switch {
	case len(f.pool.Types) == 0:
		return why.New(why.Stock, "no instance types of pool %s are known", f.pool.Name)
	case len(f.m.options) == 0:
		return why.New(why.Requirement, "none of the %s satisfies the requirements of pool %s", why.Count(len(f.pool.Types), "instance type"), f.pool.Name)
	case f.Full():
		return why.New(why.Stock, "the capacity reservations that pool %s may use are full", f.pool.Name)
	case !slices.ContainsFunc(f.m.options, func(o option) bool { return slices.Min(o.net) >= 0 }):
		return why.New(why.Resource, "no instance type that pool %s allows has room for its daemons", f.pool.Name)
	}
	return why.New(why.Stock, "everything that pool %s may launch is out of stock", f.pool.Name)
}
