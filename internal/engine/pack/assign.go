package pack

import (
	"math"
	"slices"

	"karpenter/internal/engine/world"
)

// assign gives every pod that it can a place on an existing node, or a demand for a new one in a topology domain that is
// allowed. Classes that wait for others to be placed first (affinity) are tried again until nothing moves.
func (r *run) assign() {
	waiting := true
	for {
		progress := false
		for _, rc := range r.classes {
			if rc.done == len(rc.pods) || rc.c.Refused != "" || (waiting && r.waits(rc)) {
				continue
			}
			if r.place(rc) > 0 {
				progress = true
			}
		}
		if !progress {
			if !waiting {
				return
			}
			waiting = false
		}
	}
}

// waits says whether the class asks for the company of pods that have no place yet but may get one.
func (r *run) waits(rc *runClass) bool {
	for _, g := range rc.info.levels[0].refs {
		gs := r.index[g]
		if g.kind != affinityGroup || gs.total > 0 || g.selected.has(int(rc.c.ID)) {
			continue
		}
		for _, other := range r.classes {
			if other != rc && other.done < len(other.pods) && other.c.Refused == "" && g.selected.has(int(other.c.ID)) {
				return true
			}
		}
	}
	return false
}

// place tries the pods of a class that are left, giving up preferences one by one only for pods that cannot be placed with
// them.
func (r *run) place(rc *runClass) int {
	start := rc.done
	for l := range rc.info.levels {
		if rc.done == len(rc.pods) {
			break
		}
		p := r.newPlacer(rc, l)
		if p == nil {
			continue
		}
		p.place()
	}
	return rc.done - start
}

// placer places pods of one class at one level.
type placer struct {
	r    *run
	rc   *runClass
	lv   *level
	l    int
	size []int64
	// dom and host are the groups that constrain or count the class: host those in which each node is a domain of its own.
	dom, host []groupUse
	// together says that host affinity ties the class to other pods on the same node.
	together bool
	nodes    []*nodeTuple
	cells    []*cellTuple
	// parked nodes were refused for the pods beside them, which may change once more pods are bound.
	parked []parkedNode
	moved  bool
}

type parkedNode struct {
	tuple *nodeTuple
	node  int32
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

// nodeTuple is the existing nodes that share their domains.
type nodeTuple struct {
	doms  []int32
	fresh []int32 // untouched nodes, best first
	hot   nodeHeap
}

// cellTuple is the cells of one pool weight that share their domains.
type cellTuple struct {
	doms   []int32
	weight int32
	place  string // the domains and the weight by name
	cells  bitset
	unit   float64 // what a pod costs there at best, roughly
	liked  int     // the first level at which the class may go there: the lower, the more of its preferences hold
	demand *demand
}

// newPlacer is nil when the class has nowhere to go at this level.
func (r *run) newPlacer(rc *runClass, l int) *placer {
	p := &placer{r: r, rc: rc, lv: &rc.info.levels[l], l: l, size: project(rc.info.size, r.cells.dims)}
	for _, gs := range rc.sel {
		p.note(gs, false, true)
	}
	for _, g := range p.lv.refs {
		p.note(r.index[g], true, g.selected.has(int(rc.c.ID)))
	}
	p.splitNodes()
	if !r.settling {
		p.splitCells()
	}
	if len(p.nodes) == 0 && len(p.cells) == 0 {
		return nil
	}
	for i := range p.dom {
		if u := &p.dom[i]; u.owned && u.gs.g.kind == spreadGroup {
			u.over = p.universe(u.gs)
		}
	}
	return p
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
		if yes || (!p.r.settling && p.r.lessons.domains[domainKey{p.rc.c.ID, gs.g.id, int32(d)}]) {
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
	case !p.r.settling && p.r.lessons.hosts[u.gs.g.id]:
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
			p.enter(u, d)
		}
	}
}

// enter counts a pod in a domain of a group.
func (p *placer) enter(u *groupUse, d int32) {
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

// place places as many pods as it can.
func (p *placer) place() {
	if len(p.dom) == 0 && len(p.host) == 0 && len(p.nodes) == 0 && len(p.rc.c.Ports) == 0 {
		t := p.bestCells()
		if t == nil {
			return
		}
		d := p.demandOf(t)
		some := p.rc.pods[p.rc.done:]
		some = some[:min(len(some), p.room(t))]
		d.parts[0].pods = append(d.parts[0].pods, some...)
		p.r.decided = append(p.r.decided, some...)
		p.rc.asked[t.place] += len(some)
		p.rc.done += len(some)
		if p.rc.done == len(p.rc.pods) {
			return
		}
	}
	for p.rc.done < len(p.rc.pods) {
		pod := p.rc.pods[p.rc.done]
		if !p.onNode(pod) && !p.onNew(pod) {
			return
		}
		p.r.decided = append(p.r.decided, pod)
		p.rc.done++
	}
}

// onNew adds the pod to a demand for new nodes.
func (p *placer) onNew(pod *world.Pod) bool {
	if p.together {
		return p.inBundle(pod)
	}
	t := p.bestCells()
	if t == nil {
		return false
	}
	d := p.demandOf(t)
	d.parts[0].pods = append(d.parts[0].pods, pod)
	p.ask(t)
	return true
}

// ask counts a pod that will be on a new node.
func (p *placer) ask(t *cellTuple) {
	p.count(t.doms)
	p.rc.asked[t.place]++
}

// room is how many more pods of the class may ask for new nodes in a place.
func (p *placer) room(t *cellTuple) int {
	q, ok := p.r.lessons.quota[quotaKey{p.rc.c.ID, t.place}]
	if !ok {
		return math.MaxInt
	}
	return max(0, q-p.rc.asked[t.place])
}

func (p *placer) demandOf(t *cellTuple) *demand {
	if t.demand == nil {
		t.demand = &demand{
			parts: []part{{rc: p.rc, level: p.l, place: t.place}}, cells: t.cells, weight: t.weight, size: p.size,
		}
		p.r.demands = append(p.r.demands, t.demand)
		if len(p.dom) > 0 || t.cells.count() == 1 {
			p.r.busy.or(t.cells)
		}
	}
	return t.demand
}

// priceTolerance is the relative difference in price below which domains are chosen by balance alone.
const priceTolerance = 0.02

// bestCells picks among the places where a new node may go: the heaviest pools that are allowed, then where most preferences
// hold, then price, then (for prices that hardly differ) the emptiest domain, preferably where nodes are opened anyway.
func (p *placer) bestCells() *cellTuple {
	var best *cellTuple
	var bestCount int32
	bestBusy, bestLean := false, false
	for _, t := range p.cells {
		if best != nil && t.weight < best.weight {
			break
		}
		if !p.legal(t.doms) || p.room(t) == 0 {
			continue
		}
		n, busy, lean := p.crowd(t.doms), t.cells.meets(p.r.busy), p.leans(t.doms)
		switch {
		case best == nil || t.liked < best.liked:
		case t.liked > best.liked:
			continue
		case lean && !bestLean:
		case bestLean && !lean:
			continue
		case t.unit < best.unit*(1-priceTolerance):
		case t.unit > best.unit*(1+priceTolerance):
			continue
		case n > bestCount || (n == bestCount && (bestBusy || !busy)):
			continue
		}
		best, bestCount, bestBusy, bestLean = t, n, busy, lean
	}
	return best
}

// leans says whether the domains include the one that this round prefers.
func (p *placer) leans(doms []int32) bool {
	l := p.r.lessons.lean
	if l == nil {
		return false
	}
	for i, u := range p.dom {
		if t := u.gs.g.topo; t.key == l.key && doms[i] >= 0 && t.domains[doms[i]] == l.domain {
			return true
		}
	}
	return false
}

// crowd is how many pods that a spread of the class counts are in these domains already.
func (p *placer) crowd(doms []int32) int32 {
	var n int32
	for i, u := range p.dom {
		if u.owned && u.gs.g.kind == spreadGroup && doms[i] >= 0 {
			n += u.gs.sel[doms[i]]
		}
	}
	return n
}
