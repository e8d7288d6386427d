package disrupt

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"karpenter/internal/engine/world"
)

const (
	// groupSize is how many nodes are looked at together: enough that their pods pack well, few enough that a question about them is
	// a matter of milliseconds and that what comes of it can be carried out in one go.
	groupSize = 30
	// maxWaves bounds how often what did not fit together with other moves is looked at anew.
	maxWaves = 3
)

// consolidate removes nodes whose pods can be had for less. What moves of one wave do not allow may be possible in the next, which
// starts from what they leave.
func (d *decider) consolidate() {
	candidates := d.candidates()
	if len(candidates) == 0 {
		return
	}
	v := d.values(candidates)
	d.sortByWaste(candidates, v)
	for range maxWaves {
		chosen := d.afford(candidates)
		if len(chosen) == 0 {
			break
		}
		took, refused := d.survey(d.deal(chosen))
		candidates = d.left(candidates)
		if took == 0 || refused == 0 {
			break
		}
	}
	d.singles(candidates, v)
}

// candidates lists the nodes that consolidation may take (D6, D21, D25).
func (d *decider) candidates() []int32 {
	var out []int32
	for _, node := range d.order {
		if d.gone[node] || d.bare(node) || d.why[node].Text != "" {
			continue
		}
		if r, ok := d.may(node, Underutilized); ok {
			out = append(out, node)
		} else {
			d.keepFor(node, r)
		}
	}
	return out
}

// left are the candidates that no move has removed or filled.
func (d *decider) left(candidates []int32) []int32 {
	return slices.DeleteFunc(slices.Clone(candidates), func(node int32) bool {
		_, ok := d.free(node, Underutilized)
		return !ok
	})
}

// afford lists the candidates that budgets allow to go together, worst first.
func (d *decider) afford(candidates []int32) []int32 {
	purse := d.purse(Underutilized)
	var out []int32
	for _, node := range candidates {
		if _, ok := purse.take(node); ok {
			out = append(out, node)
		}
	}
	return out
}

// sortByWaste puts first the nodes that cost most beyond what their pods are worth, for each dollar and each restart.
func (d *decider) sortByWaste(nodes []int32, v []float64) {
	score := make(map[int32]float64, len(nodes))
	for _, i := range nodes {
		n := d.nodes[i]
		score[i] = (n.Price - worth(n, v)) / n.Price / math.Sqrt(d.in.Nodes[i].Cost)
	}
	slices.SortStableFunc(nodes, func(a, b int32) int { return -cmp.Compare(score[a], score[b]) })
}

// group is some candidates, worst first, and the room that belongs to them.
type group struct {
	nodes []int32
	open  []int32 // other nodes whose room only this group counts on
	// stays says that nothing may be launched for the group.
	stays bool
	kind  string
}

// deal makes groups of nodes that are alike: of one pool and, where spot nodes must not be replaced, of one market. Each gets nodes
// from the whole range between the worst and the best. Kinds with few nodes are dealt together.
func (d *decider) deal(chosen []int32) []group {
	kinds := map[string][]int32{}
	for _, i := range chosen {
		kinds[d.kind(i)] = append(kinds[d.kind(i)], i)
	}
	lists := map[string][]int32{}
	for _, i := range chosen { // in order, so that lists are
		kind := d.kind(i)
		if 2*len(kinds[kind]) < d.opt.group {
			kind, _, _ = strings.Cut(kind, "/")
		}
		lists[kind] = append(lists[kind], i)
	}
	names := make([]string, 0, len(lists))
	for name := range lists {
		names = append(names, name)
	}
	slices.Sort(names)
	var groups []group
	for _, name := range names {
		list := lists[name]
		count := (len(list) + d.opt.group - 1) / d.opt.group
		some := make([]group, count)
		for j, node := range list {
			some[j%count].nodes = append(some[j%count].nodes, node)
		}
		for k := range some {
			some[k].kind, some[k].stays = name, strings.HasPrefix(name, "stays")
		}
		groups = append(groups, some...)
	}
	d.dealRoom(groups, chosen)
	return groups
}

// kind is what tells groups apart.
func (d *decider) kind(node int32) string {
	n := d.nodes[node]
	if market, _ := n.Labels.Get(world.LabelCapacityType); market == world.CapacitySpot && !d.opt.SpotToSpot {
		return "stays/" + n.Pool
	}
	return "goes/" + n.Pool
}

// dealRoom gives every node that stays to one of the groups, those of a pool to groups of the pool if there are any.
func (d *decider) dealRoom(groups []group, chosen []int32) {
	taken := make([]bool, len(d.nodes))
	for _, i := range chosen {
		taken[i] = true
	}
	next := map[string]int{}
	for _, i := range d.openNodes(func(node int32) bool { return !taken[node] }) {
		pool := d.nodes[i].Pool
		var fit []int
		for k := range groups {
			if _, own, _ := strings.Cut(groups[k].kind, "/"); own == pool {
				fit = append(fit, k)
			}
		}
		if len(fit) == 0 {
			pool = ""
			for k := range groups {
				fit = append(fit, k)
			}
		}
		g := &groups[fit[next[pool]%len(fit)]]
		g.open = append(g.open, i)
		next[pool]++
	}
}
