package disrupt

import (
	"cmp"
	"slices"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// sub is a part of the cluster about which questions are asked: a question about thirty nodes need not look at thousands. Where
// pods have rules for each other, some more nodes stand for all the others. It does not change with what is decided later.
type sub struct {
	d     *decider
	snap  *world.Snapshot
	model *pack.Model
	at    []int32         // indexes of its nodes in the whole
	place map[int32]int32 // the other way round
	// shut marks nodes that take no pods.
	shut []bool
}

// subOptions says what a part is for: whether nothing may be launched, whether pods have rules for each other, and which pools there are
// if not those of the snapshot.
type subOptions struct {
	stays, bound bool
	pools        []*world.Pool
}

// sub is the part of the cluster with the nodes at some indexes.
func (d *decider) sub(all []*world.Node, at []int32, opt subOptions) *sub {
	s := &sub{d: d, at: at, place: make(map[int32]int32, len(at))}
	snap := *d.in.World
	snap.Nodes, snap.Pending, snap.Spare = make([]*world.Node, len(at)), nil, nil
	for k, i := range at {
		snap.Nodes[k] = all[i]
		s.place[i] = int32(k)
		s.shut = append(s.shut, d.closed(i, all[i]))
	}
	if opt.bound {
		for _, n := range d.crowd.without(all, at) {
			snap.Nodes, s.shut = append(snap.Nodes, n), append(s.shut, true)
		}
	}
	if opt.pools != nil {
		snap.Pools = opt.pools
	}
	how := d.opt.Pack
	how.NoNewNodes, how.Workers = opt.stays, 1
	s.snap, s.model = &snap, pack.Prepare(&snap, how)
	return s
}

// closed says whether a node is no place for pods that are moved: it is leaving, nobody knows yet whether it will come up, or it is
// unhealthy, so that it is repaired soon (D26, N6). The node as it is now is n.
func (d *decider) closed(node int32, n *world.Node) bool {
	return n.Deleting || n.InFlight || !n.Initialized || d.ill(node)
}

// bound says whether any pod of the nodes has rules for others, or others for it.
func (d *decider) bound(all []*world.Node, nodes []int32) bool {
	for _, i := range nodes {
		for _, p := range all[i].Pods {
			if p.Movable && d.rules.touches(p.Class) {
				return true
			}
		}
	}
	return false
}

// confined is the part with every node shut but these.
func (s *sub) confined(lists ...[]int32) *sub {
	c := *s
	c.shut = make([]bool, len(s.shut))
	for k := range c.shut {
		c.shut[k] = true
	}
	for _, list := range lists {
		for _, i := range list {
			if k, ok := s.place[i]; ok {
				c.shut[k] = s.shut[k]
			}
		}
	}
	return &c
}

// node is the node at an index of the whole.
func (s *sub) node(i int32) *world.Node { return s.snap.Nodes[s.place[i]] }

// without asks what becomes of the pods of nodes that are gone. Of equal pods those get the room that is there whose nodes cost most for
// each pod that has to move.
func (s *sub) without(remove []int32) *pack.Plan {
	gone, each := make([]int32, len(remove)), make(map[int32]float64, len(remove))
	for k, i := range remove {
		gone[k] = s.place[i]
		each[gone[k]] = s.node(i).Price / float64(max(1, s.d.evicts(i, Underutilized)))
	}
	slices.SortStableFunc(gone, func(a, b int32) int { return -cmp.Compare(each[a], each[b]) })
	ov := s.snap.Over().Without(gone...)
	ov.Closed, ov.Ranked = s.shut, gone
	return s.model.Solve(ov)
}

// move is what a plan about removing nodes comes to, as one move; or why a pod does not fit in it.
func (s *sub) move(reason Reason, remove []int32) (*Move, why.Reason) {
	plan := s.without(remove)
	for _, u := range plan.Unplaced {
		if u.Pods[0].Spare && reason != Underutilized {
			continue // what has to be replaced does not wait for room that nobody uses; provisioning looks for it again
		}
		r := why.New(why.Refused, "%s", s.d.podWords(u.Pods[0]))
		r.Because = u.Reasons
		return nil, r
	}
	m := &Move{Reason: reason, Remove: slices.Clone(remove), Add: plan.Nodes, Order: plan.Order}
	for _, i := range remove {
		m.Evicts += s.d.evicts(i, reason)
		m.Saves += s.node(i).Price
	}
	for _, n := range plan.Nodes {
		m.Saves -= n.Price()
	}
	index := s.index()
	for _, f := range plan.Existing {
		m.Filled = append(m.Filled, f)
		m.filled = append(m.filled, index[f.Node])
	}
	return m, why.Reason{}
}

// podWords names a pod.
func (d *decider) podWords(p *world.Pod) string {
	if p.Spare {
		return "spare pod " + d.in.World.PodName(p)
	}
	return "pod " + d.in.World.PodName(p)
}

// index finds the nodes of the part in the whole.
func (s *sub) index() map[*world.Node]int32 {
	out := make(map[*world.Node]int32, len(s.at))
	for k, i := range s.at {
		out[s.snap.Nodes[k]] = i
	}
	return out
}

// moves takes a plan for removed nodes apart into moves that share no new node. A node whose pods do not all have a place stays,
// together with those it shares new nodes with.
func (s *sub) moves(remove []int32) []*Move {
	plan := s.without(remove)
	t := newTies(s, remove)
	for _, n := range plan.Nodes {
		for _, p := range n.Pods[1:] {
			t.tie(t.from[n.Pods[0]], t.from[p])
		}
	}
	for _, u := range plan.Unplaced {
		for _, p := range u.Pods {
			t.bad[t.root(t.from[p])] = true
		}
	}
	var out []*Move
	for k, node := range remove {
		root := t.root(k)
		if t.bad[root] {
			continue
		}
		m := t.moves[root]
		if m == nil {
			m = &Move{Reason: Underutilized}
			t.moves[root] = m
			out = append(out, m)
		}
		m.Remove = append(m.Remove, node)
		m.Evicts += s.d.evicts(node, Underutilized)
		m.Saves += s.node(node).Price
	}
	for _, n := range plan.Nodes {
		if m := t.of(n.Pods[0]); m != nil {
			m.Add = append(m.Add, n)
			m.Saves -= n.Price()
		}
	}
	for _, p := range plan.Order {
		if m := t.of(p); m != nil {
			m.Order = append(m.Order, p)
		}
	}
	s.fill(plan, t)
	return out
}

// fill notes with each move the nodes that take its pods.
func (s *sub) fill(plan *pack.Plan, t *ties) {
	index := s.index()
	for _, f := range plan.Existing {
		parts := map[*Move][]*world.Pod{}
		var order []*Move
		for _, p := range f.Pods {
			m := t.of(p)
			if m == nil {
				continue
			}
			if parts[m] == nil {
				order = append(order, m)
			}
			parts[m] = append(parts[m], p)
		}
		for _, m := range order {
			m.Filled = append(m.Filled, &pack.Filled{Node: f.Node, Pods: parts[m]})
			m.filled = append(m.filled, index[f.Node])
		}
	}
}

// ties says which removed nodes belong to one move.
type ties struct {
	from   map[*world.Pod]int // position of the node that a pod comes from
	parent []int
	bad    map[int]bool
	moves  map[int]*Move
}

func newTies(s *sub, remove []int32) *ties {
	t := &ties{from: map[*world.Pod]int{}, parent: make([]int, len(remove)), bad: map[int]bool{}, moves: map[int]*Move{}}
	for k, node := range remove {
		t.parent[k] = k
		for _, p := range s.node(node).Pods {
			t.from[p] = k
		}
	}
	return t
}

func (t *ties) root(k int) int {
	for t.parent[k] != k {
		t.parent[k] = t.parent[t.parent[k]]
		k = t.parent[k]
	}
	return k
}

func (t *ties) tie(a, b int) {
	a, b = t.root(a), t.root(b)
	t.parent[max(a, b)] = min(a, b)
}

// of is the move of the node that a pod comes from, or nil if that node stays.
func (t *ties) of(p *world.Pod) *Move { return t.moves[t.root(t.from[p])] }
