package disrupt

import (
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// Nodes of static pools are replaced one for one, whatever becomes of their pods: what the pool is to have does not depend on them. A
// replacement counts against the pool's limit beside the node that it replaces, and against its spread in that one's place.

// static is a static pool while decisions about its nodes are made.
type static struct {
	pool *world.Pool
	Size
	fixed *pack.Fixed
	up    int // active nodes that are initialized, apart from what is decided here
}

// isStatic says whether a node belongs to a static pool.
func (d *decider) isStatic(node int32) bool {
	pool := d.pools[d.in.World.Nodes[node].Pool]
	return pool != nil && pool.Static
}

// staticOf is the static pool of a node; nil if plans know of none.
func (d *decider) staticOf(node int32) *static {
	if d.static == nil {
		d.static = map[string]*static{}
		for _, size := range Sizes(d.in) {
			d.static[size.Pool] = &static{Size: size}
		}
		for _, p := range d.in.World.Pools {
			if p.Static {
				d.static[p.Name].pool = p
			}
		}
		for i, n := range d.in.World.Nodes {
			if s := d.static[n.Pool]; s != nil && n.Initialized && !d.in.Nodes[i].Going && !d.in.Nodes[i].Moving {
				s.up++
			}
		}
	}
	return d.static[d.in.World.Nodes[node].Pool]
}

// replaceStatic replaces those of the nodes that belong to static pools, in their order. It returns the other nodes, and those of static
// pools that it could not replace.
func (d *decider) replaceStatic(reason Reason, nodes []int32) (others []int32, rest []stuck) {
	for _, node := range nodes {
		if !d.isStatic(node) {
			others = append(others, node)
			continue
		}
		r, ok := d.quota(reason).take(node)
		if ok {
			var m *Move
			if m, r, ok = d.oneForOne(reason, node); ok {
				r, ok = d.take(m)
			}
		}
		if !ok {
			rest = append(rest, stuck{node, r})
		}
	}
	return others, rest
}

// What keeps a static pool from replacing a node first (N8).
const (
	atNodeLimit      = "static NodePool is at its node limit and cannot stage a replacement"
	reservationsFull = "static NodePool's capacity reservations are full and cannot stage a replacement"
)

// oneForOne is the move that replaces a node of a static pool by another one (P107). Where the pool is as large as it may be, or only a slot of a
// full reservation would do, the node is removed first, if that is allowed (N8).
func (d *decider) oneForOne(reason Reason, node int32) (*Move, why.Reason, bool) {
	s := d.staticOf(node)
	if s == nil || s.pool == nil {
		return nil, why.New(why.NoPool, "its pool is not there"), false
	}
	n, has := d.in.World.Nodes[node], int64(s.Active+s.Moving+s.Deleting)
	full, above := s.pool.Refused == "" && s.choice(d).Full(), s.Limit >= 0 && has > s.Limit
	blocked := ""
	switch {
	case full:
		blocked = reservationsFull
	case s.Limit >= 0 && has >= s.Limit:
		blocked = atNodeLimit
	}
	switch {
	case int64(s.Active) > s.Replicas:
		return nil, why.New(why.Moving, "pool %s has %s more than replicas, and these are removed first", s.Pool, why.Count(s.Active-int(s.Replicas), "node")), false
	case blocked != "" && (s.pool.Refused != "" || !d.mayTerminateFirst(reason)), full && !s.choice(d).Holds(n), above: // its end would make room for no other
		return nil, why.New(why.Refused, "%s", blocked), false
	case s.pool.Refused != "":
		return nil, why.New(why.NoPool, "pool %s %s", s.Pool, s.pool.Refused), false
	case full:
		return d.staticFirst(reason, node, blocked)
	case blocked != "":
		m, r, ok := d.staticFirst(reason, node, blocked)
		if ok { // there must be something to be had in its place
			_, r, ok = s.choice(d).Replace(n)
		}
		return m, r, ok
	}
	add, r, ok := s.choice(d).Replace(n)
	if !ok {
		return nil, r, false
	}
	m := &Move{Reason: reason, Static: true, Remove: []int32{node}, Add: []*pack.NewNode{add}, Evicts: d.evicts(node, reason), Saves: n.Price - add.Price()}
	m.Why = why.New(why.Chosen, "node %s %s; %s in static pool %s", n.Name, d.fault(reason, node), replacement(m), s.Pool)
	return m, why.Reason{}, true
}

// staticFirst removes a node before it is replaced. Nodes that are starting in place of others count as removed, so that budgets hold: so do
// those that are to be made in a moment.
func (d *decider) staticFirst(reason Reason, node int32, blocked string) (*Move, why.Reason, bool) {
	s, n := d.staticOf(node), d.in.World.Nodes[node]
	wanted := s.Replicas
	if s.Limit >= 0 {
		wanted = min(wanted, s.Limit)
	}
	down := int(wanted) - s.up
	if down > 0 && d.counts(node, reason) && d.spare(s.Pool, reason) <= down {
		return nil, why.New(why.Limit, "%s missing from pool %s, and its disruption budgets allow no more for %s", why.Plural(down, "node is", "nodes are"), s.Pool, reason), false
	}
	m := &Move{Reason: reason, Static: true, TerminateFirst: true, Slot: blocked == reservationsFull, Remove: []int32{node}, Evicts: d.evicts(node, reason)}
	m.Why = why.New(why.Chosen, "node %s %s; %s, so that it is removed first", n.Name, d.fault(reason, node), blocked)
	return m, why.Reason{}, true
}

// choice chooses the pool's next nodes.
func (s *static) choice(d *decider) *pack.Fixed {
	if s.fixed == nil {
		s.fixed = pack.NewFixed(d.in.World, s.pool, d.opt.Pack)
	}
	return s.fixed
}

// took notes a move of one of the pool's nodes. The node stays where it is in what comes after, and takes no more pods: those that it has are
// still the pool's to run.
func (s *static) took(d *decider, m *Move) {
	node := m.Remove[0]
	if m.TerminateFirst {
		s.Active--
		s.Deleting++
	} else {
		s.Moving++
	}
	shut := withPods(d.nodes[node], d.nodes[node].Pods)
	shut.Deleting = true
	d.nodes[node] = shut
}
