package pack

import (
	"math/bits"
	"slices"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// maxBoxZones bounds the zones whose subsets are tried, so that there are a thousand at most. Of more, those with fewest choices
// are left out; no region has that many.
const maxBoxZones = 11

// box is what a claim can say: any of these zones and capacity types, for each of its types.
type box struct {
	zones, models []string // those that are in question, the chosen option's first
}

// slot is the bit of the pair of an option's zone and capacity type.
func (x *box) slot(o *option) (uint64, bool) {
	z, m := slices.Index(x.zones, o.off.Zone), slices.Index(x.models, o.off.CapacityType)
	if z < 0 || m < 0 {
		return 0, false
	}
	return 1 << (m*len(x.zones) + z), true
}

// boxed cuts what may be launched for a node to what a claim can say. A claim asks for types, zones and capacity types, and the
// cloud may combine them as it likes: an offering that exists in such a combination, but is none of those that may be
// launched, is one too many. Then the types, zones or capacity types that bring it in are left out, such that most of list
// is kept, and enough of list and reserve for minValues if that is possible at all.
func (p *problem) boxed(b *bin, list, reserve []int32, need []req.Requirement) (inList, inReserve []int32) {
	bad := p.unwanted(b, list, reserve)
	if len(bad) == 0 {
		return list, reserve
	}
	m := p.m
	x := newBox(m, b.option, list, reserve)
	badSlots := map[int32]uint64{}
	for _, o := range bad {
		if s, ok := x.slot(&m.options[o]); ok {
			badSlots[m.options[o].typeID] |= s
		}
	}
	keeps := func(o int32, slots uint64) bool {
		s, ok := x.slot(&m.options[o])
		return ok && s&slots != 0 && badSlots[m.options[o].typeID]&slots == 0
	}
	best, bestCount, bestEnough := uint64(0), 0, false
	for _, slots := range x.subsets() {
		if !keeps(b.option, slots) {
			continue
		}
		count := 0
		for _, o := range list {
			count += boolInt(keeps(o, slots))
		}
		if best != 0 && bestEnough && count <= bestCount {
			continue
		}
		enough := p.enough(slices.Concat(list, reserve), need, func(o int32) bool { return keeps(o, slots) })
		if best == 0 || (enough && !bestEnough) || (enough == bestEnough && count > bestCount) {
			best, bestCount, bestEnough = slots, count, enough
		}
	}
	cut := func(from []int32) []int32 {
		return slices.DeleteFunc(slices.Clone(from), func(o int32) bool { return !keeps(o, best) })
	}
	return cut(list), cut(reserve)
}

// newBox names the zones and capacity types in question, those with most choices first.
func newBox(m *Model, chosen int32, lists ...[]int32) *box {
	x := &box{zones: []string{m.options[chosen].off.Zone}, models: []string{m.options[chosen].off.CapacityType}}
	count := map[string]int{}
	for _, o := range slices.Concat(lists...) {
		off := m.options[o].off
		if !slices.Contains(x.zones, off.Zone) {
			x.zones = append(x.zones, off.Zone)
		}
		if !slices.Contains(x.models, off.CapacityType) {
			x.models = append(x.models, off.CapacityType)
		}
		count[off.Zone]++
	}
	slices.SortStableFunc(x.zones[1:], func(a, b string) int { return count[b] - count[a] })
	x.zones = x.zones[:min(len(x.zones), maxBoxZones)]
	return x
}

// subsets lists the boxes that hold the chosen zone and capacity type, large ones first.
func (x *box) subsets() []uint64 {
	var out []uint64
	for models := uint64(1); models < 1<<len(x.models); models += 2 {
		for zones := uint64(1); zones < 1<<len(x.zones); zones += 2 {
			slots := uint64(0)
			for k := range x.models {
				if models&(1<<k) != 0 {
					slots |= zones << (k * len(x.zones))
				}
			}
			out = append(out, slots)
		}
	}
	slices.SortStableFunc(out, func(a, b uint64) int { return bits.OnesCount64(b) - bits.OnesCount64(a) })
	return out
}

// enough says whether the options that are kept have as many distinct values as is asked for.
func (p *problem) enough(options []int32, need []req.Requirement, kept func(int32) bool) bool {
	for _, r := range need {
		col, seen := p.m.optCols.column(r.Key), map[int32]bool{}
		for _, o := range options {
			if v := col.of[o]; v >= 0 && kept(o) {
				seen[v] = true
			}
		}
		if len(seen) < r.MinValues {
			return false
		}
	}
	return true
}

// unwanted lists the offerings of the types, zones and capacity types of a node's choices that may not be launched for it.
func (p *problem) unwanted(b *bin, lists ...[]int32) []int32 {
	m := p.m
	chosen := &m.options[b.option]
	zone, model := m.optCols.column(world.LabelZone), m.optCols.column(world.LabelCapacityType)
	types, zones, models := newBitset(len(m.typeIDs)), newBitset(len(zone.values)+1), newBitset(len(model.values)+1) // 0 is a label that is absent
	wanted := newBitset(len(m.options))
	for _, list := range lists {
		for _, o := range list {
			wanted.add(int(o))
			types.add(int(m.options[o].typeID))
			zones.add(int(zone.of[o] + 1))
			models.add(int(model.of[o] + 1))
		}
	}
	var out []int32
	var absent bitset // what is out of stock, and may not be when the node is launched
	from := b.option  // options of a variant are next to each other
	for from > 0 && m.options[from-1].variant == chosen.variant {
		from--
	}
	for o := from; int(o) < len(m.options) && m.options[o].variant == chosen.variant; o++ {
		x := &m.options[o]
		if wanted.has(int(o)) || !types.has(int(x.typeID)) || !models.has(int(model.of[o]+1)) || !zones.has(int(zone.of[o]+1)) {
			continue
		}
		if x.off.Launchable() {
			out = append(out, o)
			continue
		}
		if absent == nil {
			absent = newBitset(len(m.options))
		}
		absent.add(int(o))
	}
	if absent == nil {
		return out
	}
	would := p.suits(b, absent.clone())
	_, size, ports := p.content(b.items)
	for o := range absent.each {
		if !would.has(o) || !p.canHost(int32(o), chosen.variant, size, ports) || !p.sparesLimits(chosen, &m.options[o]) || p.bars(int32(o), chosen.variant) {
			out = append(out, int32(o))
		}
	}
	return out
}

// suits drops the options on which the pods of a node could not be, by labels, taints and topology, whatever is in stock.
func (p *problem) suits(b *bin, options bitset) bitset {
	m := p.m
	sameDomain := func(g *group) {
		if g.host {
			return
		}
		for o := range options.each {
			if g.topo.option[o] != g.topo.option[b.option] {
				options.drop(o)
			}
		}
	}
	for _, g := range b.items {
		for _, d := range p.items[g.item].demands {
			for _, x := range d.parts {
				lv := &x.rc.info.levels[x.level]
				for _, list := range [][]world.Clause{x.rc.c.Needs, x.rc.c.Volumes} {
					for _, cl := range list {
						options.and(m.clause(cl).options)
					}
				}
				options.and(m.toleration(x.rc.c.Tolerations).options[lv.taints])
				if lv.prefer != nil {
					options.and(lv.prefer.options)
				}
				for _, gs := range x.rc.sel {
					sameDomain(gs.g)
				}
				for _, r := range lv.refs {
					sameDomain(r)
				}
			}
		}
	}
	return options
}
