package disrupt

import (
	"slices"
	"time"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// Check holds moves that were decided on earlier against the state of one moment.
type Check struct {
	d       *decider
	index   map[string]int32
	classes []*world.Class
}

// NewCheck makes ready to hold moves against a state.
func NewCheck(in *Input, opt Options, now time.Time) *Check {
	opt.Found, opt.Done = nil, nil // it has been told already
	c := &Check{d: newDecider(in, opt, now), index: make(map[string]int32, len(in.World.Nodes))}
	for i, n := range in.World.Nodes {
		c.index[n.Name] = int32(i)
	}
	c.d.settle()
	return c
}

// Holds says whether a move that was decided on earlier may be carried out in the state of this moment, and if not why not.
func Holds(in *Input, m *Move, opt Options, now time.Time) (why.Reason, bool) {
	return NewCheck(in, opt, now).Holds(m)
}

// Holds says whether a move may be carried out (D50, D51): its nodes are there and may still go for its reason, budgets allow it,
// no pod has come to them, and their pods have a place on exactly the nodes that the move names. What a move that holds uses up
// is not there for the next.
func (c *Check) Holds(m *Move) (why.Reason, bool) {
	d := c.d
	now := &Move{Reason: m.Reason, TerminateFirst: m.TerminateFirst, Add: make([]*pack.NewNode, 0, len(m.Add))}
	for _, name := range m.Nodes {
		i, ok := c.index[name]
		if !ok || d.gone[i] {
			return why.New(why.Refused, "node %s was deleted", name), false
		}
		now.Remove = append(now.Remove, i)
	}
	for _, i := range now.Remove {
		if r, ok := d.may(i, m.Reason); !ok {
			return about(d.in.World.Nodes[i].Name, r), false
		}
	}
	if r, ok := d.affordable(now); !ok {
		return r, false
	}
	if m.Reboot {
		return c.reboots(now)
	}
	if m.Static {
		return c.replaces(m, now.Remove[0])
	}
	if m.Reason == Unhealthy {
		defer c.free(now.Remove)()
	}
	if r, ok := c.same(m, now.Remove); !ok {
		return r, false
	}
	if r, ok := c.stock(m, now); !ok {
		return r, false
	}
	if r, ok := c.place(m, now); !ok {
		return r, false
	}
	return d.take(now)
}

// reboots says whether a node is still to be rebooted.
func (c *Check) reboots(now *Move) (why.Reason, bool) {
	now.Reboot = true
	for _, i := range now.Remove {
		if !c.d.in.Nodes[i].Illness.Reboot {
			return why.New(why.Refused, "node %s is not to be rebooted any more", c.d.in.World.Nodes[i].Name), false
		}
	}
	c.d.takeReboot(now)
	return why.Reason{}, true
}

// replaces says whether a node of a static pool may still be replaced like that.
func (c *Check) replaces(m *Move, node int32) (why.Reason, bool) {
	now, r, ok := c.d.oneForOne(m.Reason, node)
	switch {
	case !ok:
		return r, false
	case now.TerminateFirst && !m.TerminateFirst:
		return why.New(why.Limit, "it cannot be replaced before it is removed any more"), false
	case m.TerminateFirst && !now.TerminateFirst:
		return why.New(why.Refused, "it need not be removed before it is replaced any more"), false
	}
	for _, n := range m.Add {
		if !slices.ContainsFunc(n.Choices, func(x pack.Choice) bool { _, ok := current(now.Add[0].Pool, x); return ok }) {
			return why.New(why.Stock, "nothing that was to be launched as %s is to be had any more", n.Name), false
		}
	}
	return c.d.take(now)
}

// free has all pods of nodes that are drained by force looked for. What it returns undoes that, if the nodes stay.
func (c *Check) free(nodes []int32) (undo func()) {
	was := make([]*world.Node, len(nodes))
	for k, i := range nodes {
		was[k] = c.d.nodes[i]
		c.d.release(i)
	}
	return func() {
		for k, i := range nodes {
			if !c.d.gone[i] {
				c.d.nodes[i] = was[k]
			}
		}
	}
}

func about(name string, r why.Reason) why.Reason {
	r.Text = "node " + name + ": " + r.Text
	return r
}

// same says whether no pod that needs a node has come since, apart from those that count for nothing.
func (c *Check) same(m *Move, remove []int32) (why.Reason, bool) {
	if m.Reason == Empty {
		return why.Reason{}, true
	}
	known := make(map[string]bool, len(m.Order))
	for _, p := range m.Order {
		known[p.UID] = true
	}
	for _, i := range remove {
		for _, p := range c.d.in.World.Nodes[i].Pods {
			if p.Movable && !known[p.UID] {
				return why.New(why.Refused, "pod %s was bound to node %s", c.d.in.World.PodName(p), c.d.in.World.Nodes[i].Name), false
			}
		}
		for _, p := range c.d.nodes[i].Pods {
			if p.Spare && !known[p.UID] && m.Reason == Underutilized {
				return why.New(why.Spare, "node %s holds %s now", c.d.in.World.Nodes[i].Name, world.HeldWords(c.d.spares[i])), false
			}
		}
	}
	return why.Reason{}, true
}

// stock finds the choices of the new nodes as they are now, and says whether the move still saves something.
func (c *Check) stock(m, now *Move) (why.Reason, bool) {
	pools := c.d.in.World.Pools
	if m.TerminateFirst {
		if pools, _ = c.d.credited(now.Remove[0]); pools == nil || !c.d.mayTerminateFirst(m.Reason) {
			return why.New(why.Refused, "it need not be removed before it is replaced any more"), false
		}
		if r, ok := c.d.awaited(m.Reason, now.Remove[0]); !ok {
			return r, false
		}
	}
	for _, n := range m.Add {
		i := slices.IndexFunc(pools, func(p *world.Pool) bool { return p.Name == n.Pool.Name })
		if i < 0 || pools[i].Refused != "" {
			return why.New(why.NoPool, "pool %s cannot be used any more", n.Pool.Name), false
		}
		fresh := *n
		fresh.Pool, fresh.Pods, fresh.Choices = pools[i], nil, nil
		for _, x := range n.Choices {
			if y, ok := current(fresh.Pool, x); ok {
				fresh.Choices = append(fresh.Choices, y)
			}
		}
		if len(fresh.Choices) == 0 {
			return why.New(why.Stock, "nothing that was to be launched as %s is to be had any more", n.Name), false
		}
		slices.SortStableFunc(fresh.Choices, func(a, b pack.Choice) int {
			switch {
			case a.Offering.Price < b.Offering.Price:
				return -1
			case a.Offering.Price > b.Offering.Price:
				return 1
			}
			return 0
		})
		now.Add = append(now.Add, &fresh)
		now.Saves -= fresh.Price()
	}
	now.Saves += c.d.price(now)
	if m.Reason != Underutilized {
		return why.Reason{}, true
	}
	if now.Saves <= 0 {
		return why.New(why.NextBest, "prices have changed, and it saves nothing any more"), false
	}
	return c.d.balanced(now)
}

// current is a choice as it is to be had now.
func current(p *world.Pool, c pack.Choice) (pack.Choice, bool) {
	i := slices.IndexFunc(p.Types, func(t *world.InstanceType) bool { return t.Name == c.Type.Name })
	if i < 0 {
		return pack.Choice{}, false
	}
	t := p.Types[i]
	for k := range t.Offerings {
		o := &t.Offerings[k]
		if o.Zone == c.Offering.Zone && o.CapacityType == c.Offering.CapacityType && o.Reservation == c.Offering.Reservation {
			return pack.Choice{Type: t, Offering: o}, o.Launchable()
		}
	}
	return pack.Choice{}, false
}

// place finds the pods of the removed nodes again and says whether they fit where the move puts them: each on its node, as far as
// that node alone decides. What pods ask of each other is checked when the move is taken.
func (c *Check) place(m, now *Move) (why.Reason, bool) {
	if m.Reason == Empty {
		return why.Reason{}, true
	}
	there := map[string]*world.Pod{}
	for _, i := range now.Remove {
		for _, p := range c.d.nodes[i].Pods {
			if p.Movable {
				there[p.UID] = p
			}
		}
	}
	now.Order = present(there, m.Order)
	var seats []*world.Node
	var pods [][]*world.Pod
	for k, n := range m.Add {
		now.Add[k].Pods = present(there, n.Pods)
		if len(now.Add[k].Pods) == 0 {
			return why.New(why.Refused, "the pods that were planned for %s are gone", n.Name), false
		}
		up := planned(now.Add[k])
		up.Pods, up.InFlight, up.Initialized = nil, false, true
		seats, pods = append(seats, up), append(pods, now.Add[k].Pods)
	}
	for _, f := range m.Filled {
		some := present(there, f.Pods)
		if len(some) == 0 {
			continue
		}
		i, ok := c.index[f.Node.Name]
		switch {
		case !ok || c.d.nodes[i] == nil || c.d.nodes[i].Deleting:
			return why.New(why.Refused, "node %s, which was to receive pods, is deleted or being deleted", f.Node.Name), false
		case c.d.closed(i, c.d.nodes[i]):
			return why.New(why.Refused, "node %s, which was to receive pods, is no longer healthy", f.Node.Name), false
		}
		if held := c.d.held(c.d.nodes[i].Pool); held != "" && m.Reason == Underutilized {
			return why.New(why.Moving, "pool %s of node %s, which was to receive pods, is not at rest: %s", c.d.nodes[i].Pool, f.Node.Name, held), false
		}
		now.Filled, now.filled = append(now.Filled, &pack.Filled{Node: c.d.nodes[i], Pods: some}), append(now.filled, i)
		seats, pods = append(seats, c.d.nodes[i]), append(pods, some)
	}
	return c.fit(seats, pods)
}

// present is the pods of a list that are still there, as they are now.
func present(there map[string]*world.Pod, list []*world.Pod) []*world.Pod {
	var out []*world.Pod
	for _, p := range list {
		if now := there[p.UID]; now != nil {
			out = append(out, now)
		}
	}
	return out
}

// fit says whether pods fit on nodes, each list on its own.
func (c *Check) fit(seats []*world.Node, pods [][]*world.Pod) (why.Reason, bool) {
	snap := *c.d.in.World
	snap.Nodes, snap.Pending, snap.Spare, snap.Classes = seats, nil, nil, c.alone()
	opt := c.d.opt.Pack
	opt.NoNewNodes, opt.Workers = true, 1
	model := pack.Prepare(&snap, opt)
	for k := range seats {
		ov := snap.Over().WithPending(pods[k])
		ov.Closed = make([]bool, len(seats))
		for j := range ov.Closed {
			ov.Closed[j] = j != k
		}
		for _, u := range model.Solve(ov).Unplaced {
			r := why.New(why.Refused, "%s no longer fits on node %s", c.d.podWords(u.Pods[0]), seats[k].Name)
			r.Because = u.Reasons
			return r, false
		}
	}
	return why.Reason{}, true
}

// alone is the classes without what their pods ask of others.
func (c *Check) alone() []*world.Class {
	if c.classes == nil {
		c.classes = make([]*world.Class, len(c.d.in.World.Classes))
		for i, x := range c.d.in.World.Classes {
			y := *x
			y.Spread, y.Affinity, y.AntiAffinity, y.Prefers = nil, nil, nil, nil
			c.classes[i] = &y
		}
	}
	return c.classes
}
