package disrupt

import (
	"slices"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
)

// settle goes on from where everything is that is under way: pods that are pending and pods of nodes that are leaving are where
// they are expected to go, so that no move counts on room that they need (D26). Spare pods are on the nodes that have room for them
// then: whatever becomes of these nodes, the spare pods need room elsewhere (P112).
func (d *decider) settle() {
	s := d.in.World
	if len(s.Pending)+len(s.Spare) == 0 && !leavers(s) {
		d.notice(nil, nil)
		d.start()
		return
	}
	plan := pack.Prepare(s, d.opt.Pack).Solve(s.Over())
	waiting := make(map[*world.Pod]bool, len(s.Pending))
	for _, p := range s.Pending {
		waiting[p] = true
	}
	d.notice(plan, waiting)
	for i, n := range d.nodes {
		if n.Deleting {
			d.nodes[i] = withPods(n, slices.DeleteFunc(slices.Clone(n.Pods), func(p *world.Pod) bool { return p.Movable }))
		}
	}
	index := make(map[*world.Node]int, len(s.Nodes))
	for i, n := range s.Nodes {
		index[n] = i
	}
	for _, f := range plan.Existing {
		i := index[f.Node]
		d.nodes[i] = d.joined(d.nodes[i], f.Pods)
		d.due[i] = slices.ContainsFunc(f.Pods, func(p *world.Pod) bool { return !p.Spare })
		d.awaits[i] = slices.ContainsFunc(f.Pods, func(p *world.Pod) bool { return waiting[p] })
		if held := s.SparePods(f.Pods); held != nil {
			d.spares[int32(i)] = held
		}
	}
	for _, n := range plan.Nodes {
		n.Name = "pending " + n.Name // no move's
		d.nodes = append(d.nodes, planned(n))
	}
	d.start()
	for _, n := range plan.Nodes {
		d.ledger.reserve(n, 1)
	}
}

// commit makes the nodes what they will be after a move.
func (d *decider) commit(m *Move) {
	for _, i := range m.Remove {
		d.crowd.count(i, d.nodes[i], -1)
		d.nodes[i] = nil
	}
	for k, f := range m.Filled {
		i := m.filled[k]
		d.crowd.count(i, d.nodes[i], -1)
		d.nodes[i] = d.joined(d.nodes[i], f.Pods)
		d.crowd.count(i, d.nodes[i], 1)
	}
	for _, n := range m.Add {
		up := planned(n)
		d.nodes = append(d.nodes, up)
		d.crowd.seat(up)
		d.crowd.count(int32(len(d.nodes)-1), up, 1)
	}
}

// planned is a node that is to be made, if the cheapest choice is had. It takes no other pods until it is up.
func planned(n *pack.NewNode) *world.Node {
	c := n.Choices[0]
	out := &world.Node{
		Name: n.Name, Pool: n.Pool.Name, Labels: world.NewLabels(n.NodeLabels()), Taints: n.Pool.Taints, Capacity: c.Type.Capacity, Allocatable: c.Type.Allocatable,
		Pods: n.Pods, InFlight: true, Price: n.Price(), ListPrice: c.Offering.ListPrice, PricedBy: c.Offering.PricedBy,
	}
	if c.Offering.Capacity != nil {
		out.Capacity = c.Offering.Capacity
	}
	if c.Offering.Allocatable != nil {
		out.Allocatable = c.Offering.Allocatable
	}
	return out
}

// joined is the node with more pods.
func (d *decider) joined(n *world.Node, pods []*world.Pod) *world.Node {
	out := withPods(n, slices.Concat(n.Pods, pods))
	for _, p := range pods {
		for _, v := range d.in.World.Classes[p.Class].Shared {
			out.Attached = append(slices.Clip(out.Attached), v.Claim)
		}
	}
	slices.Sort(out.Attached)
	out.Attached = slices.Compact(out.Attached)
	return out
}

// withPods is the node with other pods.
func withPods(n *world.Node, pods []*world.Pod) *world.Node {
	return &world.Node{
		Name: n.Name, Claim: n.Claim, Pool: n.Pool, Labels: n.Labels, Taints: n.Taints, Capacity: n.Capacity, Allocatable: n.Allocatable,
		Pods: pods, Initialized: n.Initialized, InFlight: n.InFlight, Deleting: n.Deleting, Attached: slices.Clone(n.Attached), Price: n.Price, ListPrice: n.ListPrice, PricedBy: n.PricedBy,
	}
}
