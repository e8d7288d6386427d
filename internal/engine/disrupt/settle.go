package disrupt

import (
	"slices"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
)

// settled is the snapshot after everything that is under way: pods that are pending and pods of nodes that are leaving are where
// they are expected to go, so that no move counts on room that they need. Indexes stay the same.
func settled(s *world.Snapshot, plan *pack.Plan) *world.Snapshot {
	out := *s
	out.Pending = nil
	out.Nodes = slices.Clone(s.Nodes)
	for i, n := range out.Nodes {
		if n.Deleting && len(n.Pods) > 0 {
			out.Nodes[i] = withPods(n, nil)
		}
	}
	index := make(map[*world.Node]int, len(plan.Existing))
	for i, n := range s.Nodes {
		index[n] = i
	}
	for _, f := range plan.Existing {
		i := index[f.Node]
		out.Nodes[i] = withPods(s.Nodes[i], slices.Concat(s.Nodes[i].Pods, f.Pods))
	}
	return &out
}

// committed is the snapshot after moves. The new nodes take no part: nothing is known of them until they are up.
func committed(s *world.Snapshot, moves ...*Move) *world.Snapshot {
	out := *s
	out.Nodes = slices.Clone(s.Nodes)
	byName := make(map[string]int, len(s.Nodes))
	for i, n := range s.Nodes {
		byName[n.Name] = i
	}
	for _, m := range moves {
		for _, i := range m.Remove {
			n := withPods(s.Nodes[i], nil)
			n.Deleting = true
			out.Nodes[i] = n
		}
	}
	for _, m := range moves {
		for _, f := range m.Filled {
			i := byName[f.Node.Name]
			if n := out.Nodes[i]; !n.Deleting {
				out.Nodes[i] = withPods(n, slices.Concat(n.Pods, f.Pods))
			}
		}
	}
	return &out
}

// withPods is the node with other pods.
func withPods(n *world.Node, pods []*world.Pod) *world.Node {
	return &world.Node{
		Name: n.Name, Claim: n.Claim, Pool: n.Pool, Labels: n.Labels, Taints: n.Taints, Capacity: n.Capacity, Allocatable: n.Allocatable,
		Pods: pods, Initialized: n.Initialized, InFlight: n.InFlight, Deleting: n.Deleting, Attached: n.Attached, Price: n.Price,
	}
}
