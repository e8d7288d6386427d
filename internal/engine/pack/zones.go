package pack

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"karpenter/internal/engine/world"
)

// poolZone is a zone as one pool sees it.
type poolZone struct{ pool, zone string }

// zoneLoad is what a pool has in a zone: nodes, and of those planned here what they cost.
type zoneLoad struct {
	nodes int
	cost  float64
}

// balance spreads the new nodes of each pool evenly over the zones that have them at the same price: a zone that fails takes
// no more with it than it must. What exists, or is on its way, counts first. A node stays where its pods, or a spread that
// counts on where nodes are opened, need it.
func (r *run) balance(outcomes []outcome) {
	load := map[poolZone]zoneLoad{}
	add := func(p *problem, b *bin) {
		at := poolZone{p.poolOf(b.option).Name, r.m.options[b.option].off.Zone}
		l := load[at]
		load[at] = zoneLoad{l.nodes + 1, l.cost + b.cost}
	}
	type open struct {
		p       *problem
		b       *bin
		options []int32
	}
	var free []open
	barred := r.barred()
	for _, o := range outcomes {
		known := map[string][]int32{}
		for i := range o.bins {
			b := &o.bins[i]
			key := binKey(b)
			options, ok := known[key]
			if !ok {
				options = r.zoneOptions(o.p, b, barred)
				known[key] = options
			}
			if len(options) > 1 {
				free = append(free, open{o.p, b, options})
			} else {
				add(o.p, b)
			}
		}
	}
	if len(free) == 0 {
		return
	}
	for at, n := range r.zoneNodes() {
		l := load[at]
		load[at] = zoneLoad{l.nodes + n, l.cost}
	}
	slices.SortStableFunc(free, func(a, b open) int { return cmp.Compare(b.b.cost, a.b.cost) })
	for _, x := range free {
		pool := x.p.poolOf(x.b.option).Name
		x.b.option = slices.MinFunc(x.options, func(a, b int32) int {
			za, zb := r.m.options[a].off.Zone, r.m.options[b].off.Zone
			la, lb := load[poolZone{pool, za}], load[poolZone{pool, zb}]
			return cmp.Or(cmp.Compare(la.nodes, lb.nodes), cmp.Compare(la.cost, lb.cost), strings.Compare(za, zb))
		})
		x.b.cell = r.cells.of[x.b.option]
		add(x.p, x.b)
	}
}

// zoneOptions lists the options that differ from a new node's in nothing but the zone and may take its place.
func (r *run) zoneOptions(p *problem, b *bin, barred bitset) []int32 {
	m := r.m
	chosen := &m.options[b.option]
	if chosen.off.Reservation != "" {
		return nil
	}
	var cells bitset
	var size []int64
	var ports []port
	out := []int32{b.option}
	from := b.option // options of a type in a variant are next to each other
	for from > 0 && m.options[from-1].typ == chosen.typ && m.options[from-1].variant == chosen.variant {
		from--
	}
	for o := from; int(o) < len(m.options) && m.options[o].typ == chosen.typ && m.options[o].variant == chosen.variant; o++ {
		x := &m.options[o]
		if x.off.Zone == chosen.off.Zone || x.off.CapacityType != chosen.off.CapacityType || x.off.Reservation != "" || x.price != chosen.price {
			continue
		}
		if cells == nil {
			cells, size, ports = p.content(b.items)
		}
		if c := r.cells.of[o]; c < 0 || !cells.has(int(c)) || (barred != nil && barred.has(int(o))) {
			continue
		}
		if p.canHost(o, chosen.variant, size, ports) && p.sparesLimits(chosen, x) {
			out = append(out, o)
		}
	}
	return out
}

// zoneNodes counts the nodes that each pool has, or has asked for, in each zone.
func (r *run) zoneNodes() map[poolZone]int {
	m := r.m
	m.zonesOnce.Do(func() {
		m.zones = map[poolZone]int{}
		for i := range m.nodes {
			if at, ok := zoneOf(m.nodes[i].node); ok {
				m.zones[at]++
			}
		}
	})
	out := maps.Clone(m.zones)
	for _, n := range r.ov.Removed {
		if at, ok := zoneOf(m.nodes[n].node); ok {
			out[at]--
		}
	}
	return out
}

// zoneOf is where a node counts, unless it is no pool's, its zone is not known or it is being deleted.
func zoneOf(n *world.Node) (poolZone, bool) {
	zone := n.Zone()
	return poolZone{n.Pool, zone}, n.Pool != "" && zone != "" && !n.Deleting
}
