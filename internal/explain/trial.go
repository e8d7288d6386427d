package explain

import (
	"slices"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// trial is the cluster with something changed, for the sake of one pod that waits. Nothing of the original is touched.
type trial struct {
	world world.Snapshot
	class world.Class
	opt   pack.Options
}

// tweak is one change.
type tweak struct {
	// what names the change, given what came of it: the beginning of a sentence about it.
	what func(*landing) string
	do   func(*trial)
	// last says that it is tried only if nothing before it helps, alone that it is not tried together with others.
	last, alone bool
	// weak says afterwards that it is a large change, which is named last.
	weak func() bool
}

// landing is where a pod would go.
type landing struct {
	node *pack.NewNode // a node to be made
	on   *world.Node   // or one that is there
}

// saying is a tweak's name that does not depend on what comes of it.
func saying(text string) func(*landing) string { return func(*landing) string { return text } }

// podQuestion is about one pod that waits, in the cluster as it is once everything else that is planned has been done.
type podQuestion struct {
	c    *Cluster
	pod  *world.Pod
	base *world.Snapshot
	// known is the labels that there are, once asked for.
	known map[string][]string
}

// try says where the pod would go with some changes made, or why it would still wait.
func (q *podQuestion) try(tweaks ...*tweak) (*landing, []why.Reason) {
	t := &trial{world: *q.base, class: *q.c.world.Classes[q.pod.Class], opt: q.c.opt.Pack}
	for _, w := range tweaks {
		w.do(t)
	}
	pod := *q.pod
	t.class.ID = int32(len(t.world.Classes)) // a class of its own: others may be on nodes
	pod.Class = t.class.ID
	t.world.Classes = append(slices.Clip(t.world.Classes), &t.class)
	t.world.Pending, t.world.Spare = []*world.Pod{&pod}, nil
	t.opt.Quick = true // one pod has nothing to search for
	plan := pack.Prepare(&t.world, t.opt).Solve(t.world.Over())
	for _, n := range plan.Nodes {
		if slices.Contains(n.Pods, &pod) {
			return &landing{node: n}, nil
		}
	}
	for _, f := range plan.Existing {
		if slices.Contains(f.Pods, &pod) {
			return &landing{on: f.Node}, nil
		}
	}
	for _, u := range plan.Unplaced {
		return nil, u.Reasons
	}
	return nil, nil
}

// pool is the pool with a name, made the trial's own.
func (t *trial) pool(name string) *world.Pool {
	i := slices.IndexFunc(t.world.Pools, func(p *world.Pool) bool { return p.Name == name })
	t.world.Pools = slices.Clone(t.world.Pools)
	p := t.world.Pools[i]
	t.world.Pools[i] = &world.Pool{
		Name: p.Name, Weight: p.Weight, Need: p.Need, Labels: p.Labels, Taints: p.Taints, Provided: p.Provided, Limits: p.Limits,
		MaxNodes: p.MaxNodes, Types: p.Types, NodeCost: p.NodeCost, Static: p.Static, Refused: p.Refused,
	}
	return t.world.Pools[i]
}

// label is what a node at the landing carries under a key.
func (l *landing) label(key string) (string, bool) {
	if l.on != nil {
		return l.on.Labels.Get(key)
	}
	if v, ok := l.node.Labels.Get(key); ok {
		return v, true
	}
	x := l.node.Choices[0]
	return l.node.Pool.NodeLabel(x.Type, x.Offering, key)
}

// text is the end of a sentence about a change: where it would put the pod.
func (l *landing) text() string {
	if l.on != nil {
		if l.on.InFlight {
			return "would let it share a " + typeOf(l.on) + " that is on its way, at no further cost"
		}
		return "would let it run on node " + l.on.Name + ", at no further cost"
	}
	return "would get it a new " + alternative(l.node.Pool.Name, l.node.Choices[0]).Text
}

func (l *landing) price() float64 {
	if l.on != nil {
		return 0
	}
	return l.node.Price()
}
