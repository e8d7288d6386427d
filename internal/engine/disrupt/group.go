package disrupt

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

const (
	// groupSize is how many nodes are looked at together: enough that their pods pack well, few enough that a question about them is
	// a matter of milliseconds.
	groupSize = 40
	// fewNodes is up to where every number of removals in a group is tried.
	fewNodes = 6
)

// group is some candidates, worst first, and the room that belongs to them.
type group struct {
	nodes []int32
	open  []int32 // other nodes whose room only this group counts on
	// deletes says that nothing may be launched for the group.
	deletes bool
}

// consolidate removes nodes whose pods can be had for less.
func (d *decider) consolidate() {
	candidates := d.candidates()
	if len(candidates) == 0 {
		return
	}
	d.settle()
	quick := d.opt.Pack
	quick.Quick = true
	v := values(d.in.World, candidates, quick)
	d.sortByWaste(candidates, v)
	d.weighPools()
	var found []*Move
	for _, m := range d.explore(d.deal(candidates)) {
		found = append(found, m...)
	}
	slices.SortStableFunc(found, func(a, b *Move) int { return -cmp.Compare(d.rate(a), d.rate(b)) })
	before := len(d.moves)
	for _, m := range found {
		d.offer(m)
	}
	d.singles(candidates, v, before)
}

// candidates lists the nodes that consolidation may take (D6, D21, D25).
func (d *decider) candidates() []int32 {
	var out []int32
	for i, n := range d.in.World.Nodes {
		node := int32(i)
		if d.bare(node) || !d.free(node, Underutilized) || !d.quiet(node) {
			continue
		}
		switch {
		case d.pools[n.Pool].Policy == WhenEmpty:
			d.keep(node, why.Refused, "pool %s consolidates empty nodes only, and this one has pods", n.Pool)
		case n.Price <= 0 || math.IsNaN(n.Price):
			d.keep(node, why.Refused, "its price is not known, so that nothing can be said to be cheaper")
		case d.room(n.Pool, Underutilized) == 0:
			d.keep(node, why.Limit, "pool %s's disruption budget allows no node to go for %s now", n.Pool, Underutilized)
		default:
			out = append(out, node)
		}
	}
	return out
}

// settle goes on from where pods that are under way are expected to be.
func (d *decider) settle() {
	if s := d.in.World; len(s.Pending) > 0 || slices.ContainsFunc(s.Nodes, func(n *world.Node) bool { return n.Deleting }) {
		d.rebase(settled(s, d.model.Solve(s.Over())))
	}
	if len(d.moves) > 0 {
		d.rebase(committed(d.in.World, d.moves...))
	}
}

// rebase makes a snapshot the one that further questions are about.
func (d *decider) rebase(s *world.Snapshot) {
	in := *d.in
	in.World = s
	d.in = &in
	quick := d.opt.Pack
	quick.Quick = true
	d.model = pack.Prepare(s, quick)
}

// sortByWaste puts first the nodes that cost most beyond what their pods are worth, for each dollar and each restart.
func (d *decider) sortByWaste(nodes []int32, v []float64) {
	score := map[int32]float64{}
	for _, i := range nodes {
		n := d.in.World.Nodes[i]
		score[i] = (n.Price - worth(n, v)) / n.Price / math.Sqrt(d.in.Nodes[i].Cost)
	}
	slices.SortStableFunc(nodes, func(a, b int32) int {
		return cmp.Or(-cmp.Compare(score[a], score[b]), cmp.Compare(a, b))
	})
}

// deal makes groups that are alike: each gets nodes from the whole range between the worst and the best. Spot nodes that must
// not be replaced are dealt apart.
func (d *decider) deal(candidates []int32) []group {
	var replace, remove []int32
	for _, i := range candidates {
		if market, _ := d.in.World.Nodes[i].Labels.Get(world.LabelCapacityType); market == world.CapacitySpot && !d.opt.SpotToSpot {
			remove = append(remove, i)
		} else {
			replace = append(replace, i)
		}
	}
	var groups []group
	for k, list := range [][]int32{replace, remove} {
		if len(list) == 0 {
			continue
		}
		count := (len(list) + groupSize - 1) / groupSize
		from := len(groups)
		groups = append(groups, make([]group, count)...)
		for j, node := range list {
			g := &groups[from+j%count]
			g.nodes, g.deletes = append(g.nodes, node), k == 1
		}
	}
	if len(remove) > 0 {
		still := d.opt.Pack
		still.Quick, still.NoNewNodes = true, true
		d.still = pack.Prepare(d.in.World, still)
	}
	candidate := make([]bool, len(d.in.World.Nodes))
	for _, i := range candidates {
		candidate[i] = true
	}
	next := 0
	for i, n := range d.in.World.Nodes {
		if candidate[i] || n.Deleting || n.InFlight || !n.Initialized {
			continue
		}
		groups[next%len(groups)].open = append(groups[next%len(groups)].open, int32(i))
		next++
	}
	return groups
}

// explore finds the moves in each group. The first group shows how many of its nodes are best removed; the others, being alike,
// look around there only, and at once.
func (d *decider) explore(groups []group) [][]*Move {
	out := make([][]*Move, len(groups))
	var part float64
	out[0], part = d.search(groups[0], d.probes(groups[0], -1))
	work := make(chan int)
	var wg sync.WaitGroup
	for range max(1, d.opt.Pack.Workers) {
		wg.Go(func() {
			for k := range work {
				out[k], _ = d.search(groups[k], d.probes(groups[k], part))
			}
		})
	}
	for k := 1; k < len(groups); k++ {
		work <- k
	}
	close(work)
	wg.Wait()
	return out
}

// probes lists how many of a group's nodes to try to remove. part is the share that was best elsewhere, or negative.
func (d *decider) probes(g group, part float64) []int {
	most := d.most(g)
	var out []int
	switch {
	case most <= fewNodes:
		for j := range most {
			out = append(out, j+1)
		}
	case part < 0:
		for j := most; j > 0; j = j * 2 / 3 {
			out = append(out, j)
		}
	default:
		for _, f := range []float64{1, 0.75, 1.25} {
			out = append(out, min(most, max(1, int(math.Round(float64(len(g.nodes))*part*f)))))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// most is how many of the group's nodes, worst first, budgets allow to go.
func (d *decider) most(g group) int {
	count := map[string]int{}
	for j, node := range g.nodes {
		pool := d.in.World.Nodes[node].Pool
		if count[pool]++; count[pool] > d.room(pool, Underutilized) {
			return j
		}
	}
	return len(g.nodes)
}

// search tries to remove different numbers of a group's nodes and returns the moves that save most, and the share removed.
func (d *decider) search(g group, probes []int) ([]*Move, float64) {
	var best []*Move
	most, part := 0.0, 0.0
	for _, j := range probes {
		moves := d.removing(g, j)
		saves := 0.0
		for _, m := range moves {
			saves += m.Saves
		}
		if saves > most+1e-9 {
			best, most, part = moves, saves, float64(j)/float64(len(g.nodes))
		}
	}
	return best, part
}

// removing is what comes of removing the group's first j nodes: moves that pay, each on its own.
func (d *decider) removing(g group, j int) []*Move {
	remove := slices.Clone(g.nodes[:j])
	slices.Sort(remove)
	plan := d.without(remove, &g)
	var out []*Move
	for _, m := range d.split(plan, remove) {
		if _, ok := d.pays(m); ok {
			out = append(out, m)
		}
	}
	return out
}

// without asks what becomes of the pods of nodes that are gone. For a group, only its own nodes and room take them.
func (d *decider) without(remove []int32, g *group) *pack.Plan {
	closed := make([]bool, len(d.in.World.Nodes))
	for i, n := range d.in.World.Nodes {
		closed[i] = g != nil || n.InFlight || !n.Initialized && n.Pool != ""
	}
	ov := d.in.World.Over().WithPending(nil).Without(remove...)
	ov.Closed = closed
	if g == nil {
		return d.model.Solve(ov)
	}
	for _, i := range slices.Concat(g.nodes, g.open) {
		closed[i] = false
	}
	if g.deletes {
		return d.still.Solve(ov)
	}
	return d.model.Solve(ov)
}
