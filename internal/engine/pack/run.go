package pack

import (
	"slices"
	"strings"

	"karpenter/internal/engine/world"
)

// run is one question being answered. It starts from the model's counts and keeps its own from there.
type run struct {
	m       *Model
	ov      *world.Overlay
	groups  []*groupState
	index   map[*group]*groupState
	classes []*runClass
	cells   *cellSet
	touched map[int32]*existingNode
	order   []int32 // touched nodes in the order of first use
	demands []*demand
	ledger  *ledger
	decided []*world.Pod // in order
	retry   *retryConstraints
	spreads []spreadUse
	stamp   []int32 // per type, when it was last counted
	stamps  int32
	open    bitset // options that limits still allow, once asked
	busy    bitset // cells in which nodes will be opened anyway
	// settling says that new nodes are decided, and only nodes that exist are looked at.
	settling bool
}

// spreadUse is a spread whose minimum placed pods rely on, with the domains that it was taken over.
type spreadUse struct {
	class   int32
	gs      *groupState
	domains bitset
}

// groupState is a group's counts in one run.
type groupState struct {
	g       *group
	sel     []int32
	own     []int32
	inNodes []int32
	total   int32 // selected pods in any domain, placed on new nodes too
	// relied says that pods were put where only the pods on every other node allow it; a new node that counts takes that away.
	relied bool
	opened []int32 // selected pods on each new node that counts, known when settling
	local  int     // index among the run's host groups, -1 for others
}

// runClass is a class with the pods that want a place.
type runClass struct {
	c    *world.Class
	info *classInfo
	pods []*world.Pod
	// done counts pods that have a place or a demand. The rest are tried again, or stay unplaced.
	done int
	sel  []*groupState // groups that count its pods
	// asked counts pods by the place in which they ask for new nodes.
	asked map[string]int
}

// demand is a number of equal items for new nodes: pods of one class, or one bundle of pods that must share a node.
type demand struct {
	parts  []part
	cells  bitset
	weight int32
	size   []int64 // of one copy, by the cell set's dims
	bundle bool
}

// part is pods of one class in a demand, at a level of preference and in a place.
type part struct {
	rc    *runClass
	level int
	pods  []*world.Pod
	place string
}

// copies is how many items the demand stands for.
func (d *demand) copies() int {
	if d.bundle {
		return 1
	}
	return len(d.parts[0].pods)
}

func (m *Model) newRun(ov *world.Overlay, l *retryConstraints) *run {
	r := &run{m: m, ov: ov, retry: l, index: map[*group]*groupState{}, touched: map[int32]*existingNode{}}
	r.collect()
	r.activate()
	r.cutCells()
	r.busy = newBitset(len(r.cells.cells))
	r.ledger = m.newLedger(ov)
	return r
}

// collect gathers the pods that want a place by class, in the order in which classes are tried.
func (r *run) collect() {
	byClass := map[int32]*runClass{}
	for _, p := range r.wanting() {
		rc, ok := byClass[p.Class]
		if !ok {
			rc = &runClass{c: r.m.snap.Classes[p.Class], info: r.m.class(p.Class), asked: map[string]int{}}
			byClass[p.Class] = rc
			r.classes = append(r.classes, rc)
		}
		rc.pods = append(rc.pods, p)
	}
	if r.ov.Ranked == nil {
		for _, rc := range r.classes {
			sortPods(rc.pods)
		}
	}
	slices.SortFunc(r.classes, func(a, b *runClass) int { return classOrder(a, b) })
}

func (r *run) wanting() []*world.Pod {
	out := slices.Concat(r.ov.Pending, r.ov.Spare)
	removed := r.ov.Removed
	if r.ov.Ranked != nil {
		removed = r.ov.Ranked
	}
	for _, list := range [][]int32{r.m.deleting, removed} {
		for _, n := range list {
			for _, p := range r.m.snap.Nodes[n].Pods {
				if p.Movable {
					out = append(out, p)
				}
			}
		}
	}
	return out
}

// classOrder tries important pods first, then large ones, which are harder to place.
func classOrder(a, b *runClass) int {
	if a.c.Priority != b.c.Priority {
		if a.c.Priority > b.c.Priority {
			return -1
		}
		return 1
	}
	for _, r := range []int{world.CPU, world.Memory} {
		if x, y := a.c.Requests.Get(r), b.c.Requests.Get(r); x != y {
			if x > y {
				return -1
			}
			return 1
		}
	}
	if c := podOrder(a.pods[0], b.pods[0]); c != 0 {
		return c
	}
	return strings.Compare(a.c.Namespace, b.c.Namespace)
}

// activate finds the groups that matter here: those that wanted pods carry, and those by which pods on nodes keep them away.
func (r *run) activate() {
	for _, rc := range r.classes {
		for _, l := range rc.info.levels {
			for _, g := range l.refs {
				r.state(g)
			}
		}
	}
	for _, id := range r.m.guardians {
		for _, g := range r.m.class(id).levels[0].refs {
			if g.kind == antiGroup && g.hard && slices.ContainsFunc(r.classes, func(rc *runClass) bool { return g.selected.has(int(rc.c.ID)) }) {
				r.state(g)
			}
		}
	}
	host := 0
	for _, gs := range r.groups {
		gs.local = -1
		if gs.g.host {
			gs.local = host
			host++
		}
		for _, rc := range r.classes {
			if gs.g.selected.has(int(rc.c.ID)) {
				rc.sel = append(rc.sel, gs)
			}
		}
	}
	for _, n := range r.ov.Removed {
		r.forget(n)
	}
	for _, gs := range r.groups {
		for _, n := range gs.sel {
			gs.total += n
		}
	}
}

func (r *run) state(g *group) *groupState {
	gs, ok := r.index[g]
	if !ok {
		r.m.seed(g)
		gs = &groupState{g: g, sel: slices.Clone(g.sel), own: slices.Clone(g.own), inNodes: slices.Clone(g.inNodes)}
		r.index[g] = gs
		r.groups = append(r.groups, gs)
	}
	return gs
}

// forget takes a removed node's pods out of the counts. kube-scheduler sees the node for as long as its pods look for another one: it
// is still a host that pods are spread over, with none of them.
func (r *run) forget(n int32) {
	for _, gs := range r.groups {
		d := gs.g.topo.node[n]
		if d < 0 {
			continue
		}
		if !gs.g.lingers {
			gs.inNodes[d]--
		}
		gone := r.m.nodes[n].load.Active
		if gs.g.kind != spreadGroup {
			gone = slices.Concat(gone, r.m.nodes[n].load.Going)
		}
		for _, cc := range gone {
			if gs.g.selected.has(int(cc.Class)) {
				gs.sel[d] -= cc.N
			}
			if gs.g.kind == antiGroup && gs.g.hard && gs.g.owners.has(int(cc.Class)) {
				gs.own[d] -= cc.N
			}
		}
	}
}

// cutCells cuts the options as finely as the wanted classes and their groups need.
func (r *run) cutCells() {
	var masks []int
	var topos []*topology
	asked := make([]bool, r.m.dims)
	asked[world.PodSlot] = true
	for _, rc := range r.classes {
		for _, l := range rc.info.levels {
			masks = append(masks, l.mask)
		}
		for d, v := range rc.info.size {
			asked[d] = asked[d] || v > 0
		}
		for _, s := range rc.c.Shared {
			asked[s.Resource] = true
		}
	}
	for _, gs := range r.groups {
		if !gs.g.host || gs.g.kind == spreadGroup {
			topos = append(topos, gs.g.topo)
		}
	}
	slices.Sort(masks)
	slices.SortFunc(topos, func(a, b *topology) int { return a.id - b.id })
	var dims []int
	for d, yes := range asked {
		if yes {
			dims = append(dims, d)
		}
	}
	r.cells = r.m.cellsFor(slices.Compact(masks), slices.Compact(topos), dims)
}
