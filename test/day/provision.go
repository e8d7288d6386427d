package day

import (
	"slices"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
)

// provision launches nodes for pods that no node takes. Pods that were planned for a node in flight stay planned for it until it is
// up and they are elsewhere, as the controller has it.
func (s *sim) provision() {
	for _, p := range s.pending {
		if p.pin != nil && (p.pin.up || p.pin.leaving) {
			p.pin = nil
			s.version++
		}
	}
	if s.planned == s.version || !slices.ContainsFunc(s.pending, func(p *pod) bool { return p.pin == nil }) {
		return
	}
	byWorld := map[*world.Pod]*pod{}
	for _, p := range s.pending {
		byWorld[p.world] = p
	}
	byName := map[string]*node{}
	for _, n := range s.nodes {
		byName[n.name] = n
	}
	pin := func(pods []*world.Pod, n *node) {
		for _, p := range pods {
			if q := byWorld[p]; q != nil { // not one of a node that is leaving
				q.pin = n
				s.changed(n)
			}
		}
	}
	snap := s.snapshot(true)
	coming := s.coming()
	snap.Pending = append(snap.Pending, coming...)
	plan := pack.Solve(snap, s.Pack)
	for _, f := range plan.Existing {
		if n := byName[f.Node.Name]; !n.up {
			pin(f.Pods, n)
		}
	}
	for _, n := range plan.Nodes {
		if slices.ContainsFunc(n.Pods, func(p *world.Pod) bool { return !slices.Contains(coming, p) }) {
			pin(n.Pods, s.launch(n.Choices[0]))
		}
	}
	s.planned = s.version
}

// coming are the pods that workloads are expected to make in the time that provisioning looks ahead: as many as in the same time
// before.
func (s *sim) coming() []*world.Pod {
	var out []*world.Pod
	for _, r := range s.sets {
		for _, p := range r.pods {
			if s.now.Sub(p.born) < s.Ahead && p.evicted.IsZero() {
				id := "coming-" + p.world.UID
				out = append(out, &world.Pod{Name: id, UID: id, Class: r.class, Created: s.now.Unix() + 1, Movable: true})
			}
		}
	}
	return out
}

// snapshot is the cluster as the engine sees it; with pinned, pods are on the nodes in flight that they were planned for.
func (s *sim) snapshot(pinned bool) *world.Snapshot {
	out := &world.Snapshot{Resources: world.NewNames().List(), Pools: []*world.Pool{s.pool}, Classes: s.classes}
	pins := map[*node][]*world.Pod{}
	for _, p := range s.pending {
		if pinned && p.pin != nil {
			pins[p.pin] = append(pins[p.pin], p.world)
		} else {
			out.Pending = append(out.Pending, p.world)
		}
	}
	for _, n := range s.nodes {
		w := s.see(n)
		if more := pins[n]; len(more) > 0 {
			w = s.view(n)
			w.Pods = append(w.Pods, more...)
		}
		out.Nodes = append(out.Nodes, w)
	}
	return out
}

// see is a node as the engine sees it, made anew only when it has changed.
func (s *sim) see(n *node) *world.Node {
	if n.seen == nil {
		n.seen = s.view(n)
	}
	return n.seen
}

func (s *sim) view(n *node) *world.Node {
	out := &world.Node{
		Name: n.name, Claim: n.name, Pool: poolName, Labels: n.labels, Capacity: n.typ.Capacity, Allocatable: n.typ.Allocatable,
		Initialized: n.up, InFlight: !n.up, Deleting: n.leaving, Price: n.price, Pods: make([]*world.Pod, len(n.pods)),
	}
	for i, p := range n.pods {
		out.Pods[i] = p.world
	}
	return out
}
