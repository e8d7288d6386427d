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
	groupSize = 40
	// whole is up to how many nodes, and wholePods up to how many pods, are looked at together all the same: nothing is lost between groups
	// then.
	whole     = 1000
	wholePods = 5000
	// maxWaves bounds how often what did not fit together with other moves is looked at anew.
	maxWaves = 3
)

// consolidate removes nodes whose pods can be had for less. What moves of one wave do not allow may be possible in the next, which
// starts from what they leave.
func (d *decider) consolidate() {
	candidates := d.candidates()
	if len(candidates) == 0 {
		d.done(Groups)
		return
	}
	v := d.values(candidates)
	d.value = v
	d.sortByWaste(candidates, v)
	d.wasteful = candidates
	for range maxWaves {
		chosen := d.afford(Underutilized, candidates)
		if len(chosen) == 0 {
			break
		}
		took, refused := d.survey(d.deal(chosen))
		candidates = d.left(candidates)
		if took == 0 || refused == 0 {
			break
		}
	}
	d.done(Groups)
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

// afford lists the candidates that budgets allow to go together for the reason, in their order.
func (d *decider) afford(reason Reason, candidates []int32) []int32 {
	quota := d.quota(reason)
	var out []int32
	for _, node := range candidates {
		if _, ok := quota.take(node); ok {
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

// kind is what tells groups apart: the pool, whether nothing may be launched, and whether pods have rules for each other.
type kind struct {
	pool         string
	stays, bound bool
}

func (k kind) compare(o kind) int {
	return cmp.Or(last(k.bound, o.bound), last(k.stays, o.stays), strings.Compare(k.pool, o.pool))
}

// last puts what is so behind what is not.
func last(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// group is some candidates, worst first, and the room that belongs to them.
type group struct {
	kind
	nodes []int32
	open  []int32 // other nodes whose room only this group counts on
}

// deal makes groups. A fleet that is not large is one: pods may go to every node that takes them, whatever kind it is of.
func (d *decider) deal(chosen []int32) []group {
	all, pods := group{kind: kind{stays: true}, nodes: chosen}, 0
	for _, i := range chosen {
		k := d.kind(i)
		all.stays, all.bound = all.stays && k.stays, all.bound || k.bound
		pods += len(d.nodes[i].Pods)
	}
	groups := []group{all}
	if len(d.nodes) > d.opt.whole || pods > wholePods {
		groups = d.dealKinds(chosen)
	}
	d.dealRoom(groups, chosen)
	return groups
}

// dealKinds makes groups of nodes that are alike. Each gets nodes from the whole range between the worst and the best. Kinds with few
// nodes are dealt together.
func (d *decider) dealKinds(chosen []int32) []group {
	count := map[kind]int{}
	for _, i := range chosen {
		count[d.kind(i)]++
	}
	lists := map[kind][]int32{}
	for _, i := range chosen {
		k := d.kind(i)
		if 2*count[k] < d.opt.group {
			k.pool = ""
		}
		lists[k] = append(lists[k], i)
	}
	kinds := make([]kind, 0, len(lists))
	for k := range lists {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, kind.compare)
	var groups []group
	for _, k := range kinds {
		some := make([]group, (len(lists[k])+d.opt.group-1)/d.opt.group)
		for j, node := range lists[k] {
			g := &some[j%len(some)]
			g.kind, g.nodes = k, append(g.nodes, node)
		}
		groups = append(groups, some...)
	}
	return groups
}

func (d *decider) kind(node int32) kind {
	return kind{pool: d.nodes[node].Pool, stays: d.stays(node), bound: d.bound(d.nodes, []int32{node})}
}

// stays says whether a node can only go: spot nodes are replaced only where that is allowed.
func (d *decider) stays(node int32) bool {
	market, _ := d.in.World.Nodes[node].Labels.Get(world.LabelCapacityType)
	return market == world.CapacitySpot && !d.opt.SpotToSpot
}

// dealRoom gives every node that stays to one of the groups, those of a pool to groups of the pool if there are any.
func (d *decider) dealRoom(groups []group, chosen []int32) {
	taken := make([]bool, len(d.nodes))
	for _, i := range chosen {
		taken[i] = true
	}
	byPool := map[string][]int{}
	var all []int
	for k := range groups {
		byPool[groups[k].pool] = append(byPool[groups[k].pool], k)
		all = append(all, k)
	}
	next := map[string]int{}
	for _, i := range d.room(func(node int32) bool { return !taken[node] }) {
		pool := d.nodes[i].Pool
		fit := byPool[pool]
		if len(fit) == 0 {
			pool, fit = "", all
		}
		g := &groups[fit[next[pool]%len(fit)]]
		g.open = append(g.open, i)
		next[pool]++
	}
}
