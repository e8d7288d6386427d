package pack

import "slices"

// settle gives pods that found no place one more chance, on nodes that exist. Where nodes are opened, a spread takes its
// minimum over every domain that the pools can reach, so that pods end up evenly over all of them. kube-scheduler takes it over
// the nodes that are there, and a pod that it would bind is not left over.
func (r *run) settle(outcomes []outcome) {
	left := false
	for _, rc := range r.classes {
		left = left || (rc.done < len(rc.pods) && rc.c.Refused == "")
	}
	if !left {
		return
	}
	r.countOpened(outcomes)
	r.settling = true
	for progress := true; progress; {
		progress = false
		for _, rc := range r.classes {
			if rc.c.Refused == "" && r.settleClass(rc) {
				progress = true
			}
		}
	}
	r.settling = false
}

func (r *run) settleClass(rc *runClass) bool {
	start := rc.done
	for l := range rc.info.levels {
		if rc.done == len(rc.pods) {
			break
		}
		p := r.newPlacer(rc, l)
		for p != nil && rc.done < len(rc.pods) && p.onNode(rc.pods[rc.done]) {
			r.decided = append(r.decided, rc.pods[rc.done])
			rc.done++
		}
	}
	return rc.done > start
}

// countOpened adds the new nodes to what spreads take their minimum over.
func (r *run) countOpened(outcomes []outcome) {
	for _, o := range outcomes {
		for i := range o.bins {
			b := &o.bins[i]
			options := o.p.launchable(b)
			for _, gs := range r.groups {
				if gs.g.kind == spreadGroup {
					gs.countOpened(b, o.p, options)
				}
			}
		}
	}
}

func (gs *groupState) countOpened(b *bin, p *problem, options []int32) {
	if gs.g.host {
		if slices.ContainsFunc(options, gs.g.topo.counted) {
			gs.opened = append(gs.opened, p.selected(b, gs))
		}
		return
	}
	for _, o := range options {
		if d := gs.g.topo.option[o]; d >= 0 {
			gs.inNodes[d]++
		}
	}
}

// selected is how many of the pods on a new node a host group counts.
func (p *problem) selected(b *bin, gs *groupState) int32 {
	var n int32
	for _, g := range b.items {
		for _, h := range p.items[g.item].host {
			if int(h.group) == gs.local {
				n += h.sel * g.n
			}
		}
	}
	return n
}

// launchable lists the options that a new node has to reckon with: the chosen one, or all that fit if minValues forbids
// leaving any of them out.
func (p *problem) launchable(b *bin) []int32 {
	variant := p.m.options[b.option].variant
	if !hasMinValues(p.m.variants[variant].pool) {
		return []int32{b.option}
	}
	return p.fitting(b.items, variant)
}

// counted says whether a node of the option has a place in a host topology.
func (t *topology) counted(option int32) bool { return t.counts.has(int(option)) }

// surprised notes domains of new nodes that a spread did not reckon with, and says whether there are any.
func (r *run) surprised(outcomes []outcome) bool {
	any := false
	for _, o := range outcomes {
		for i := range o.bins {
			options := o.p.launchable(&o.bins[i])
			for _, gs := range r.groups {
				if gs.relied && !r.retry.hosts[gs.g.id] && slices.ContainsFunc(options, gs.g.topo.counted) {
					r.retry.hosts[gs.g.id] = true
					any = true
				}
			}
			for _, sp := range r.spreads {
				for _, x := range options {
					key := domainKey{sp.class, sp.gs.g.id, sp.gs.g.topo.option[x]}
					if sp.lacks(x) && !r.retry.domains[key] {
						r.retry.domains[key] = true
						any = true
					}
				}
			}
		}
	}
	return any
}

// rely notes that pods are where only the pods in each of these domains allow them to be.
func (r *run) rely(rc *runClass, gs *groupState, domains []int32) {
	set := newBitset(len(gs.sel))
	for _, d := range domains {
		set.add(int(d))
	}
	r.spreads = append(r.spreads, spreadUse{rc.c.ID, gs, set})
}

// lacks says whether a node of the option would be in a domain that the spread did not reckon with.
func (sp *spreadUse) lacks(option int32) bool {
	d := sp.gs.g.topo.option[option]
	return d >= 0 && !sp.domains.has(int(d))
}

// barred is the options that would open a domain, or an empty node, that a spread did not reckon with. They may not be launched
// in place of others that the plan has chosen.
func (r *run) barred() bitset {
	var out bitset
	bar := func(option int) {
		if out == nil {
			out = newBitset(len(r.m.options))
		}
		out.add(option)
	}
	for _, gs := range r.groups {
		if gs.relied {
			for o := range gs.g.topo.counts.each {
				bar(o)
			}
		}
	}
	for _, sp := range r.spreads {
		if sp.domains.count() == len(sp.gs.g.topo.domains) {
			continue
		}
		for o := range r.m.options {
			if sp.lacks(int32(o)) {
				bar(o)
			}
		}
	}
	return out
}
