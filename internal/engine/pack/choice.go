package pack

import (
	"slices"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

const (
	// choiceMargin is how much dearer than the cheapest a choice may be: stock runs out, and spot is picked by depth as well.
	choiceMargin = 0.3
	// fewChoices are listed whatever they cost.
	fewChoices = 20
)

// fitting lists the options of one variant that can host the items, cheapest first. Options on which daemons occupy a port
// that the items need are left out.
func (p *problem) fitting(items []itemCount, variant int32) []int32 {
	cells, size, ports := p.content(items)
	var lists [][]int32
	for c := range cells.each {
		lists = append(lists, p.cells[c].options)
	}
	var out []int32
	at := make([]int, len(lists))
	for {
		best := -1
		for k, l := range lists {
			if at[k] < len(l) && (best < 0 || p.m.cheaper(l[at[k]], lists[best][at[best]])) {
				best = k
			}
		}
		if best < 0 {
			return out
		}
		o := lists[best][at[best]]
		at[best]++
		if p.canHost(o, variant, size, ports) {
			out = append(out, o)
		}
	}
}

// canHost says whether an option of the variant has room for that much, and the ports.
func (p *problem) canHost(o, variant int32, size []int64, ports []world.Port) bool {
	opt := &p.m.options[o]
	if (variant >= 0 && opt.variant != variant) || portsConflict(ports, opt.ports) {
		return false
	}
	for r, d := range p.dimIndex {
		if size[r] > opt.net[d] {
			return false
		}
	}
	return true
}

// cheaper orders options by cost, then as listed.
func (m *Model) cheaper(a, b int32) bool {
	if m.options[a].cost != m.options[b].cost {
		return m.options[a].cost < m.options[b].cost
	}
	return m.sizeTie(a, b) < 0
}

// minValues lists the requirements of a pool that ask for a choice.
func minValues(need req.Set) []req.Requirement {
	var out []req.Requirement
	for _, r := range need {
		if r.MinValues > 0 {
			out = append(out, r)
		}
	}
	return out
}

// distinct counts the values of a label among options.
func (m *Model) distinct(key string, options []int32) int {
	col := m.optCols.column(key)
	seen := map[int32]bool{}
	for _, o := range options {
		if v := col.of[o]; v >= 0 {
			seen[v] = true
		}
	}
	return len(seen)
}

// enoughChoice says whether the options left for these items offer as many distinct values as the pool asks for. With best
// effort, a pool asks for no more than any one of the items could have by itself.
func (p *problem) enoughChoice(items []itemCount, option int32) bool {
	variant := p.m.options[option].variant
	if !hasMinValues(p.m.variants[variant].pool) {
		return true
	}
	need := minValues(p.m.variants[variant].pool.Need)
	if p.m.opt.BestEffortMinValues {
		for k := range need {
			for _, g := range items {
				need[k].MinValues = min(need[k].MinValues, p.m.distinct(need[k].Key, p.fitting([]itemCount{{g.item, 1}}, variant)))
			}
		}
	}
	return p.offers(items, variant, need)
}

// offers says whether the options that can host the items have enough values. It looks no further than it must, which is
// seldom far: this is asked for every node that packing thinks of.
func (p *problem) offers(items []itemCount, variant int32, need []req.Requirement) bool {
	short := 0
	for _, r := range need {
		if r.MinValues > 0 {
			short++
		}
	}
	seen := make([][]int32, len(need))
	cells, size, ports := p.content(items)
	for c := range cells.each {
		for _, o := range p.cells[c].options {
			if short == 0 {
				return true
			}
			if !p.canHost(o, variant, size, ports) {
				continue
			}
			for k, r := range need {
				v := p.m.optCols.column(r.Key).of[o]
				if v < 0 || len(seen[k]) >= r.MinValues || slices.Contains(seen[k], v) {
					continue
				}
				if seen[k] = append(seen[k], v); len(seen[k]) == r.MinValues {
					short--
				}
			}
		}
	}
	return short == 0
}

// choices lists what may be launched for a node, cheapest first: within the margin and the bound on types, but always enough
// for the pool's minValues, and no more than a claim can say. fit is how many types there were to choose from; relaxed says
// that there was less choice than the pool asks for.
func (p *problem) choices(b *bin) (list []int32, fit int, relaxed bool) {
	m := p.m
	chosen := &m.options[b.option]
	fitting := p.fitting(b.items, chosen.variant)
	fit = m.countTypes(fitting)
	if chosen.off.Reservation != "" {
		return []int32{b.option}, fit, false
	}
	variant := &m.variants[chosen.variant]
	need := minValues(variant.pool.Need)
	have := make([]map[int32]bool, len(need))
	for k := range have {
		have[k] = map[int32]bool{}
	}
	var reserve, rest []int32
	types := map[string]bool{chosen.typ.Name: true}
	for _, o := range fitting {
		x := &m.options[o]
		if o == b.option || x.off.Reservation != "" || !p.sparesLimits(chosen, x) || p.bars(o, chosen.variant) {
			continue
		}
		if x.price <= chosen.price*(1+choiceMargin) || len(types) < fewChoices {
			types[x.typ.Name] = true
			rest = append(rest, o)
		} else {
			reserve = append(reserve, o)
		}
	}
	at := 0 // where minValues or limits stood in the way of something cheaper elsewhere, there may be something cheaper here
	for at < len(rest) && m.options[rest[at]].price < chosen.price {
		at++
	}
	list = slices.Insert(rest, at, b.option)
	list, reserve = p.boxed(b, list, reserve, need)
	list = p.truncate(list, reserve, need, have)
	for k, r := range need {
		relaxed = relaxed || len(have[k]) < r.MinValues
	}
	return list, fit, relaxed
}

// bars says whether a spread forbids to launch the option in place of a chosen one. A pool with minValues leaves nothing out, and
// was reckoned with like that.
func (p *problem) bars(option, variant int32) bool {
	return p.barred != nil && p.barred.has(int(option)) && !hasMinValues(p.m.variants[variant].pool)
}

// countTypes counts the instance types among options.
func (m *Model) countTypes(options []int32) int {
	seen := newBitset(len(m.typeIDs))
	for _, o := range options {
		seen.add(int(m.options[o].typeID))
	}
	return seen.count()
}

// truncate cuts the list to the bound on types without losing values that minValues needs, adding from reserve if it must.
func (p *problem) truncate(list, reserve []int32, need []req.Requirement, have []map[int32]bool) []int32 {
	keep := map[string]bool{}
	for _, pool := range [][]int32{list, reserve} { // first whatever adds a value that is still missing
		for _, o := range pool {
			adds := len(keep) == 0
			for k, r := range need {
				v := p.m.optCols.column(r.Key).of[o]
				if v >= 0 && !have[k][v] && len(have[k]) < r.MinValues {
					have[k][v], adds = true, true
				}
			}
			if adds {
				keep[p.m.options[o].typ.Name] = true
			}
		}
	}
	var out []int32
	for _, o := range list {
		name := p.m.options[o].typ.Name
		if keep[name] || len(keep) < p.m.opt.MaxTypes {
			keep[name] = true
			out = append(out, o)
		}
	}
	for _, o := range reserve {
		if keep[p.m.options[o].typ.Name] {
			out = append(out, o)
		}
	}
	return out
}

// sparesLimits says whether launching x instead of the chosen option stays within the pool's limits. The chosen one is paid
// for already.
func (p *problem) sparesLimits(chosen, x *option) bool {
	pool := p.m.variants[chosen.variant].pool
	for _, l := range pool.Limits {
		if capacity(x).Get(l.Resource) > capacity(chosen).Get(l.Resource) {
			return false
		}
	}
	return true
}
