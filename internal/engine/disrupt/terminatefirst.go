package disrupt

import (
	"slices"

	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// A node in a capacity reservation that is full cannot be replaced first where nothing but the reservation would take its pods: the
// replacement needs its slot. With the gates TerminateFirstDrift and TerminateFirstRepair such a node is removed first (N8).

// mayTerminateFirst says whether nodes may be removed before their replacement is there, for the reason.
func (d *decider) mayTerminateFirst(reason Reason) bool {
	return reason == Drifted && d.opt.TerminateFirstDrift || reason == Unhealthy && d.opt.TerminateFirstRepair
}

// terminateFirst removes nodes that could not be replaced because the reservation that they are in is full, if its slot is all that their
// pods lack. It returns the others.
func (d *decider) terminateFirst(reason Reason, list []stuck) (rest []stuck) {
	if !d.mayTerminateFirst(reason) {
		return list
	}
	for _, s := range list {
		if !d.slotFirst(reason, &s) {
			rest = append(rest, s)
		}
	}
	return rest
}

// awaited says what keeps a node from being removed first while reserved nodes of its pool are missing in place of which others are starting:
// budgets do not count these, and allow no more than so many at a time all the same.
func (d *decider) awaited(reason Reason, node int32) (why.Reason, bool) {
	pool, missing := d.in.World.Nodes[node].Pool, 0
	for i, n := range d.in.World.Nodes {
		if facts := &d.in.Nodes[i]; n.Pool == pool && n.CapacityType() == world.CapacityReserved && int32(i) != node && (facts.Ending || !n.Initialized && !facts.Going) {
			missing++
		}
	}
	if missing == 0 || d.spare(pool, reason) > missing || !d.counts(node, reason) {
		return why.Reason{}, true
	}
	return why.New(why.Limit, "%s missing from pool %s, and its disruption budgets allow no more for %s", why.Plural(missing, "node is", "nodes are"), pool, reason), false
}

// slotFirst removes one node if its pods fit once its slot is free.
func (d *decider) slotFirst(reason Reason, s *stuck) bool {
	node := s.node
	pools, reservation := d.credited(node)
	if _, ok := d.quota(reason).take(node); !ok || pools == nil {
		return false
	}
	if r, ok := d.awaited(reason, node); !ok {
		s.why = r
		return false
	}
	room := d.openNodes(func(i int32) bool { return i != node })
	at := append(slices.Clone(room), node)
	slices.Sort(at)
	part := d.sub(d.nodes, at, subOptions{bound: d.bound(d.nodes, []int32{node}), pools: pools}).confined(room)
	m, _ := part.move(reason, []int32{node})
	if m == nil || len(m.Add) == 0 {
		return false
	}
	m.TerminateFirst, m.Slot = true, true
	m.Why = why.New(why.Chosen, "node %s %s; reservation %s is full, so that it is removed first, and its pods stay pending until its slot is free: %s",
		d.in.World.Nodes[node].Name, d.fault(reason, node), reservation, replacement(m))
	_, ok := d.take(m)
	return ok
}

// credited is the pools as they would be if a node had left the reservation that it is in, if that is full; nil otherwise.
func (d *decider) credited(node int32) (pools []*world.Pool, reservation string) {
	n := d.in.World.Nodes[node]
	if n.CapacityType() != world.CapacityReserved {
		return nil, ""
	}
	typ, _ := n.Labels.Get(world.LabelInstanceType)
	for i, p := range d.in.World.Pools {
		k := slices.IndexFunc(p.Types, func(t *world.InstanceType) bool { return t.Name == typ })
		if k < 0 || p.Refused != "" {
			continue
		}
		t := p.Types[k]
		at := slices.IndexFunc(t.Offerings, n.Occupies)
		if at < 0 || !t.Offerings[at].Available || t.Offerings[at].Remaining > 0 {
			continue
		}
		if pools == nil {
			pools = slices.Clone(d.in.World.Pools)
		}
		more := *t
		more.Offerings = slices.Clone(t.Offerings)
		more.Offerings[at].Remaining = 1
		types := slices.Clone(p.Types)
		types[k] = &more
		pools[i], reservation = p.WithTypes(types), t.Offerings[at].Reservation
	}
	return pools, reservation
}
