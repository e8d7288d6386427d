package disrupt

import (
	"slices"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// What a restart costs and for how long a saving counts, unless a pool says otherwise.
const (
	// DefaultRestartCost is in dollars: about what a pod of one CPU and 4 GiB costs for an hour.
	DefaultRestartCost = 0.05
	// DefaultHorizon is in hours. Within it a move has to pay for the restarts that it causes.
	DefaultHorizon = 4.0
	// restartHours is how long a pod that is restarted costs without being of full use: it starts and warms up, its caches and
	// connections are made anew, and for a while it runs twice.
	restartHours = 1.0
	// leastStep is the share of what a pool costs that consolidation must save in all for it to begin: many small steps disturb as
	// much as a large one and are undone more easily.
	leastStep = 0.01
	// turnShare is the share of the horizon that counts while pods keep coming: what comes next may undo a move.
	turnShare = 0.25
)

// notice finds the pools in motion: those with nodes that are starting, and those whose nodes are about to take pods that are pending
// or have to leave other nodes, by the plan for these pods. What the room is for will be seen when they have come to rest. Pools whose
// nodes pending pods wait for have more urgent things to do than to remove others.
func (d *decider) notice(plan *pack.Plan, waiting map[*world.Pod]bool) {
	starting := map[string]int{}
	for _, n := range d.in.World.Nodes {
		if n.Pool != "" && !n.Deleting && (n.InFlight || !n.Initialized) {
			starting[n.Pool]++
		}
	}
	taking := map[string]int{}
	d.waiting = map[string]bool{}
	take := func(pool string, pods []*world.Pod) {
		real := world.Real(pods)
		taking[pool] += len(real)
		d.waiting[pool] = d.waiting[pool] || slices.ContainsFunc(real, func(p *world.Pod) bool { return waiting[p] })
	}
	if plan != nil {
		for _, f := range plan.Existing {
			take(f.Node.Pool, f.Pods)
		}
		for _, n := range plan.Nodes {
			take(n.Pool.Name, n.Pods)
		}
	}
	d.moving = map[string]string{}
	for i := range d.in.Pools {
		name := d.in.Pools[i].Name
		switch nodes, pods := starting[name], taking[name]; {
		case nodes > 0 && pods > 0:
			d.moving[name] = why.Plural(nodes, "node is", "nodes are") + " starting and " + why.Plural(pods, "pod is", "pods are") + " to be placed"
		case nodes > 0:
			d.moving[name] = why.Plural(nodes, "node is", "nodes are") + " starting"
		case pods > 0:
			d.moving[name] = why.Plural(pods, "pod is", "pods are") + " to be placed"
		}
	}
}

// held says why nothing of the pool is disrupted for its cost now, nor filled for that; "" if nothing stands in the way.
func (d *decider) held(pool string) string {
	p := d.pools[pool]
	switch {
	case p == nil || p.Turn || p.Rested:
		return ""
	case d.moving[pool] != "":
		return d.moving[pool]
	}
	return p.Hold
}

// room lists the nodes that may take pods that are moved for their cost, by name.
func (d *decider) room(is func(node int32) bool) []int32 {
	return d.openNodes(func(node int32) bool { return is(node) && d.held(d.nodes[node].Pool) == "" })
}

// restarts is what the restarts of a move cost in dollars, and for how many hours its saving counts against that.
func (d *decider) restarts(m *Move) (cost, horizon float64) {
	for k, node := range m.Remove {
		cost += d.restart(node)
		h := d.horizon(d.in.World.Nodes[node].Pool)
		if k == 0 || h < horizon {
			horizon = h
		}
	}
	return cost, horizon
}

// restart is what restarting the pods of a node costs: what each pod asks for, and what it costs to run for as long as a restart takes
// to be over.
func (d *decider) restart(node int32) float64 {
	own := d.in.Nodes[node].Restart
	if own <= 0 || d.value == nil {
		return own
	}
	return own + restartHours*worth(d.in.World.Nodes[node], d.value)
}

func (d *decider) horizon(pool string) float64 {
	p := d.pools[pool]
	if p == nil {
		return DefaultHorizon
	}
	if p.Turn {
		return p.Horizon * turnShare
	}
	return p.Horizon
}

// toll is what the restarts of a move cost for each hour of the horizon: what it has to save in each.
func (d *decider) toll(m *Move) float64 {
	cost, horizon := d.restarts(m)
	switch {
	case cost <= 0:
		return 0
	case horizon <= 0:
		return unpayable
	}
	return cost / horizon
}

// unpayable is more than any move saves.
const unpayable = 1e9

// worthBeginning drops the moves for cost of pools that would save too little in all.
func (d *decider) worthBeginning() {
	gain := map[string]float64{}
	pool := func(m *Move) string { return d.in.World.Nodes[m.Remove[0]].Pool }
	for _, m := range d.moves {
		if m.Reason == Underutilized {
			gain[pool(m)] += d.gain(m)
		}
	}
	d.moves = slices.DeleteFunc(d.moves, func(m *Move) bool {
		name := pool(m)
		least := leastStep * d.cost[name].price
		if m.Reason != Underutilized || d.in.Nodes[m.Remove[0]].Restart <= 0 || gain[name] >= least {
			return false
		}
		for _, node := range m.Remove {
			d.gone[node] = false
			d.keep(node, why.NextBest, "moves of pool %s could save %s in all now; consolidation begins when that is at least %s, %s of what the pool costs",
				name, why.Money(gain[name]), why.Money(least), why.Percent(leastStep))
		}
		for _, i := range m.filled {
			d.target[i] = false
		}
		return true
	})
}

// gain is what a move saves an hour: prices, and what each node costs besides.
func (d *decider) gain(m *Move) float64 {
	gain := m.Saves
	for _, node := range m.Remove {
		gain += d.nodeCost(d.in.World.Nodes[node].Pool)
	}
	for _, n := range m.Add {
		gain -= n.Pool.NodeCost
	}
	return gain
}

func (d *decider) nodeCost(pool string) float64 {
	for _, p := range d.in.World.Pools {
		if p.Name == pool {
			return p.NodeCost
		}
	}
	return 0
}

// worthRestarts says whether a move pays for its restarts within the horizon.
func (d *decider) worthRestarts(m *Move) (why.Reason, bool) {
	cost, horizon := d.restarts(m)
	gain := d.gain(m)
	if gain*horizon >= cost {
		return why.Reason{}, true
	}
	return why.New(why.NextBest, "moving its pods would save %s, which pays for %s worth %s only after %.1f h; savings count for %.1f h",
		why.Money(gain), why.Count(m.Evicts, "restart"), why.Dollars(cost), cost/gain, horizon), false
}

// leavers says whether any node that is being removed still has pods to place.
func leavers(s *world.Snapshot) bool {
	return slices.ContainsFunc(s.Nodes, func(n *world.Node) bool {
		return n.Deleting && slices.ContainsFunc(n.Pods, func(p *world.Pod) bool { return p.Movable })
	})
}
