package pack

import (
	"math"
	"slices"
)

// together is the rule of every group but affinity: whether some pods, own of which carry the rule and sel of which it counts, may join
// others in a domain, be that a node or all nodes with a label.
func (k groupKind) together(skew, own, sel, hasOwn, hasSel int32) bool {
	switch k {
	case antiGroup:
		return (own == 0 || hasSel == 0) && (sel == 0 || hasOwn == 0)
	case spreadGroup:
		return (own == 0 && hasOwn == 0) || hasSel+sel <= skew
	case affinityGroup:
	}
	return true
}

// selfLimit is how many copies the group lets share a node.
func (h hostRef) selfLimit() int {
	switch {
	case h.own == 0 || h.sel == 0:
		return math.MaxInt32
	case h.kind == antiGroup:
		return 1
	case h.kind == spreadGroup:
		return int(h.skew / h.sel)
	}
	return math.MaxInt32
}

// groupUse is a group as it concerns one class.
type groupUse struct {
	gs    *groupState
	owned bool // the class carries the rule
	self  bool // the rule counts the class
	// over are the domains over which a spread's minimum is taken, unless they are nodes.
	over []int32
	// relied says of a spread that pods were put where only the pods in every other domain allow it.
	relied bool
}

// note adds a group, merging what is known about it.
func (p *placer) note(gs *groupState, owned, self bool) {
	list := &p.dom
	if gs.g.host {
		list = &p.host
		p.together = p.together || (owned && gs.g.kind == affinityGroup)
	}
	if k := slices.IndexFunc(*list, func(u groupUse) bool { return u.gs == gs }); k >= 0 {
		(*list)[k].owned = (*list)[k].owned || owned
		return
	}
	*list = append(*list, groupUse{gs: gs, owned: owned, self: self})
}

// universe lists the domains over which a spread's minimum is taken: those of nodes that count, and (until new nodes are
// decided) those that the class could open a node in. What the class only prefers takes no domain away: the skew is required.
func (p *placer) universe(gs *groupState) []int32 {
	in := make([]bool, len(gs.sel))
	for d, n := range gs.inNodes {
		in[d] = n > 0
	}
	if required := p.rc.info.required(); !p.r.settling {
		for k := range p.r.cells.cells {
			c := &p.r.cells.cells[k]
			if d := gs.g.topo.option[c.rep]; d >= 0 && !in[d] && required.has(int(c.rep)) && c.takes(p.size) {
				in[d] = true
			}
		}
	}
	var out []int32
	for d, yes := range in {
		if yes || (!p.r.settling && p.r.retry.domains[domainKey{p.rc.c.ID, gs.g.id, int32(d)}]) {
			out = append(out, int32(d))
		}
	}
	return out
}

// legal says whether one more pod may go where the domains are doms.
func (p *placer) legal(doms []int32) bool {
	for i := range p.dom {
		if !p.may(&p.dom[i], doms[i]) {
			return false
		}
	}
	return true
}

// may says whether a group lets one more pod into a domain: a node that exists, or nodes with a label. -1 is outside of all.
func (p *placer) may(u *groupUse, d int32) bool {
	gs, kind := u.gs, u.gs.g.kind
	switch {
	case d < 0:
		return !u.owned || kind == antiGroup
	case kind == affinityGroup:
		return !u.owned || gs.sel[d] > 0 || (u.self && p.first(gs))
	}
	skew, own, self := gs.g.skew, int32(boolInt(u.owned)), int32(boolInt(u.self))
	if kind == spreadGroup && u.owned && gs.sel[d]+self > skew {
		skew += p.least(u)
	}
	return kind.together(skew, own, self, gs.own[d], gs.sel[d])
}

// least is the count above which a spread measures its skew. That every node has some counts only as long as no empty node is opened.
func (p *placer) least(u *groupUse) int32 {
	switch {
	case !u.gs.g.host:
		return u.gs.least(u.over)
	case !p.r.settling && p.r.retry.hosts[u.gs.g.id]:
		return 0
	}
	return u.gs.leastHost()
}

// first says whether no pod that the affinity asks for is in any domain yet, so that one which matches itself may start. Required
// terms stand together: a pod in a domain of one of them counts for all.
func (p *placer) first(gs *groupState) bool {
	if !gs.g.hard {
		return gs.total == 0
	}
	for _, g := range p.lv.refs {
		if g.kind == affinityGroup && g.hard && p.r.index[g].total > 0 {
			return false
		}
	}
	return true
}

// least is the smallest count over the domains, or 0 when there are fewer than the constraint asks for.
func (gs *groupState) least(domains []int32) int32 {
	if len(domains) == 0 || int32(len(domains)) < gs.g.least {
		return 0
	}
	low := gs.sel[domains[0]]
	for _, d := range domains[1:] {
		low = min(low, gs.sel[d])
	}
	return low
}

// leastHost is the smallest count on any node that counts.
func (gs *groupState) leastHost() int32 {
	low, hosts := int32(-1), int32(len(gs.opened))
	for _, n := range gs.opened {
		if low < 0 || n < low {
			low = n
		}
	}
	for d, n := range gs.inNodes {
		if n <= 0 {
			continue
		}
		hosts++
		if low < 0 || gs.sel[d] < low {
			low = gs.sel[d]
		}
		if low == 0 {
			return 0
		}
	}
	if low < 0 || hosts < gs.g.least {
		return 0
	}
	return low
}

// count notes a pod where the domains are doms.
func (p *placer) count(doms []int32) {
	for i := range p.host {
		p.host[i].gs.total += int32(boolInt(p.host[i].self))
	}
	for i, d := range doms {
		if u := &p.dom[i]; d >= 0 {
			u.gs.total += int32(boolInt(u.self))
			p.countIn(u, d)
		}
	}
}

// countIn counts a pod in a domain of a group.
func (p *placer) countIn(u *groupUse, d int32) {
	gs := u.gs
	if u.self {
		gs.sel[d]++
	}
	switch {
	case !u.owned:
	case gs.g.kind == antiGroup && gs.g.hard:
		gs.own[d]++
	case gs.g.kind == spreadGroup && gs.sel[d] > gs.g.skew && !u.relied:
		u.relied = true
		if gs.g.host {
			gs.relied = true
		} else {
			p.r.rely(p.rc, gs, u.over)
		}
	}
}
