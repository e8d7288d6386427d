package disrupt

import (
	"cmp"
	"slices"

	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// chunk is how many nodes are looked at one after the other in one part of the cluster, with the room that belongs to them.
const chunk = 20

// drift replaces nodes that are no longer what their pool or class asks for: empty ones first, then those that drifted first
// (D48). Several may go at once, within budgets; one whose pods are unschedulable waits and holds nobody else up.
func (d *decider) drift() {
	for _, s := range d.inTurn(Drifted, d.driftedNodes(), d.replaceDrifted) {
		d.keep(s.node, s.why.Code, "it has drifted (%s), but %s", d.in.Nodes[s.node].Drift, s.why.Line())
	}
}

// inTurn replaces nodes in their order, as many as budgets allow, and returns those that it could not. One that cannot be replaced uses no
// budget up, so that it is the turn of those after it: first of a few, and, if these cannot be replaced either, of more and more.
func (d *decider) inTurn(reason Reason, nodes []int32, replace func(nodes []int32) []stuck) (rest []stuck) {
	for more := 0; len(nodes) > 0; more = max(chunk, 2*more) {
		quota, allowed := d.quota(reason), false
		var now, later []int32
		for _, node := range nodes {
			_, ok := quota.take(node)
			allowed = allowed || ok
			if ok || len(now) < more {
				now = append(now, node)
			} else {
				later = append(later, node)
			}
		}
		if !allowed {
			break
		}
		rest, nodes = append(rest, replace(now)...), later
	}
	for _, node := range nodes {
		r, _ := d.quota(reason).take(node)
		rest = append(rest, stuck{node, r})
	}
	return rest
}

// replaceDrifted replaces nodes that have drifted, and returns those that it could not.
func (d *decider) replaceDrifted(drifted []int32) []stuck {
	drifted, static := d.replaceStatic(Drifted, drifted)
	// Pods should not go where they would soon have to leave again. Only what finds no other place may.
	rest := d.replaceAll(Drifted, drifted, d.openNodes(func(node int32) bool { return d.in.Nodes[node].Drift == "" }))
	nodes := make([]int32, len(rest))
	for k, s := range rest {
		nodes[k] = s.node
	}
	if len(nodes) > 0 {
		rest = d.replaceAll(Drifted, nodes, d.openNodes(func(node int32) bool { return !slices.Contains(nodes, node) }))
	}
	return append(static, d.terminateFirst(Drifted, rest)...)
}

// driftedNodes lists the nodes that drift may take, in the order in which they go.
func (d *decider) driftedNodes() []int32 {
	var out []int32
	for _, node := range d.order {
		if d.gone[node] || d.in.Nodes[node].Drift == "" {
			continue
		}
		if r, ok := d.may(node, Drifted); !ok {
			d.keepFor(node, r)
			continue
		}
		out = append(out, node)
	}
	slices.SortStableFunc(out, func(a, b int32) int {
		return cmp.Or(last(!d.bare(a), !d.bare(b)), d.in.Nodes[a].DriftedAt.Compare(d.in.Nodes[b].DriftedAt))
	})
	return out
}

// openNodes lists nodes that may take pods, by name.
func (d *decider) openNodes(is func(node int32) bool) []int32 {
	var out []int32
	for _, node := range d.order {
		if n := d.nodes[node]; n != nil && !d.closed(node, n) && is(node) {
			out = append(out, node)
		}
	}
	return out
}

// stuck is a node that could not be replaced, and why.
type stuck struct {
	node int32
	why  why.Reason
}

// replaceAll replaces nodes one by one for a reason, each in a part of the room that is there, and returns those that it could not.
func (d *decider) replaceAll(reason Reason, nodes, room []int32) (rest []stuck) {
	parts, tries := (len(nodes)+chunk-1)/chunk, 0
	for part := range parts {
		some := nodes[part*chunk : min((part+1)*chunk, len(nodes))]
		var share []int32
		for k := part; k < len(room); k += parts {
			share = append(share, room[k])
		}
		w := d.walk(some, share)
		for _, node := range some {
			if r, ok := d.quota(reason).take(node); !ok {
				rest = append(rest, stuck{node, r})
				continue
			}
			m, r := w.move(reason, node)
			if m == nil {
				rest = append(rest, stuck{node, noPlace(r)})
				continue
			}
			m.Why = why.New(why.Chosen, "node %s %s; %s", d.in.World.Nodes[node].Name, d.fault(reason, node), replacement(m))
			r, ok := d.take(m)
			if !ok && r.Code == why.Limit && tries < chunk {
				tries++
				if m = d.within(reason, node, room); m != nil {
					r, ok = d.take(m)
				}
			}
			if ok {
				w.took(m)
			} else {
				rest = append(rest, stuck{node, r})
			}
		}
	}
	return rest
}

// within is the move that replaces a node within what limits leave, or nil. A part of the cluster does not show what pools have besides, so
// that a pool seems to have room that is used up: another one may have some.
func (d *decider) within(reason Reason, node int32, room []int32) *Move {
	at := append(slices.DeleteFunc(slices.Clone(room), func(i int32) bool { return i == node || d.nodes[i] == nil }), node)
	slices.Sort(at)
	part := d.sub(d.nodes, at, subOptions{bound: d.bound(d.nodes, []int32{node}), pools: d.unused(at)}).confined(room)
	m, _ := part.move(reason, []int32{node})
	if m == nil {
		return nil
	}
	for _, n := range m.Add { // with its own limits again
		n.Pool = d.in.World.Pools[slices.IndexFunc(d.in.World.Pools, func(p *world.Pool) bool { return p.Name == n.Pool.Name })]
	}
	m.Why = why.New(why.Chosen, "node %s %s; %s", d.in.World.Nodes[node].Name, d.fault(reason, node), replacement(m))
	return m
}

// unused is the pools with limits that are lower by what is in use outside of a part.
func (d *decider) unused(at []int32) []*world.Pool {
	nodes := make([]*world.Node, len(at))
	for k, i := range at {
		nodes[k] = d.nodes[i]
	}
	part := newLedger(d.in.World.Pools, nodes)
	pools := slices.Clone(d.in.World.Pools)
	for i, p := range pools {
		all, here := d.ledger.pools[p.Name], part.pools[p.Name]
		if all == nil || here == nil {
			continue
		}
		pools[i] = p.WithTypes(p.Types)
		pools[i].Limits = slices.Clone(p.Limits)
		for k := range pools[i].Limits {
			pools[i].Limits[k].Max = world.AddSat(p.Limits[k].Max, here.used[k]-all.used[k])
		}
		if p.MaxNodes >= 0 {
			pools[i].MaxNodes = max(0, p.MaxNodes+here.nodes-all.nodes)
		}
	}
	return pools
}

// fault says what is wrong with a node that is replaced.
func (d *decider) fault(reason Reason, node int32) string {
	if reason == Unhealthy {
		ill := d.in.Nodes[node].Illness
		if ill.Escalated {
			return "is unhealthy: " + ill.What + "; reboots of the last day have not helped (reboot-escalated)"
		}
		return "is unhealthy: " + ill.What
	}
	return "has drifted: " + d.in.Nodes[node].Drift
}

// noPlace is why pods have nowhere to go.
func noPlace(r why.Reason) why.Reason {
	r.Text = "its pods do not fit elsewhere: " + r.Text
	return r
}
