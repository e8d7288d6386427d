package disrupt

import (
	"cmp"
	"slices"
	"time"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// decider is one decision in the making.
type decider struct {
	in  *Input
	opt Options
	now time.Time

	model *pack.Model
	still *pack.Model // for questions about the nodes that there are
	pools map[string]*Pool
	taken map[string]int // nodes of the pool that moves remove
	guard []int32        // evictions left under each budget
	cost  map[string]poolCost

	moves []*Move
	gone  []bool       // nodes that a move removes
	why   []why.Reason // why a node stays, as far as found out
}

func newDecider(in *Input, opt Options, now time.Time) *decider {
	d := &decider{
		in: in, opt: opt, now: now, pools: map[string]*Pool{}, taken: map[string]int{}, guard: slices.Clone(in.Guarded),
		gone: make([]bool, len(in.World.Nodes)), why: make([]why.Reason, len(in.World.Nodes)),
	}
	for i := range in.Pools {
		d.pools[in.Pools[i].Name] = &in.Pools[i]
	}
	quick := opt.Pack
	quick.Quick = true
	d.model = pack.Prepare(in.World, quick)
	return d
}

// keep notes why a node stays. The first reason found counts.
func (d *decider) keep(node int32, code why.Code, format string, args ...any) {
	if d.why[node].Text == "" {
		d.why[node] = why.New(code, format, args...)
	}
}

// free says whether the node may be touched for the reason at all, apart from budgets, and notes why not.
func (d *decider) free(node int32, reason Reason) bool {
	n, facts := d.in.World.Nodes[node], &d.in.Nodes[node]
	pool := d.pools[n.Pool]
	switch {
	case d.gone[node]:
		return false
	case facts.Fixed != "":
		d.keep(node, why.Refused, "%s", facts.Fixed)
		return false
	case pool == nil:
		d.keep(node, why.NoPool, "its pool %q is not there", n.Pool)
		return false
	case pool.Static:
		d.keep(node, why.Refused, "pool %s keeps a fixed number of nodes", pool.Name)
		return false
	case facts.PodsFixed != "" && !(reason == Drifted && facts.Deadline):
		d.keep(node, why.Refused, "%s", facts.PodsFixed)
		return false
	}
	return true
}

// quiet says whether the node may be consolidated by its pool's words, and notes why not.
func (d *decider) quiet(node int32) bool {
	n, facts := d.in.World.Nodes[node], &d.in.Nodes[node]
	switch {
	case d.pools[n.Pool].Never:
		d.keep(node, why.Refused, "pool %s has consolidateAfter: Never", n.Pool)
		return false
	case !facts.Consolidatable:
		text := facts.NotYet
		if text == "" {
			text = "it is not Consolidatable yet"
		}
		d.keep(node, why.Refused, "%s", text)
		return false
	}
	return true
}

// bare says whether nothing on the node would have to move (D20).
func (d *decider) bare(node int32) bool { return d.in.Nodes[node].Cost <= 1 }

// room is how many more nodes of the pool may go for the reason.
func (d *decider) room(pool string, reason Reason) int {
	return max(0, d.pools[pool].Allowed[reason]-d.taken[pool])
}

// affordable says whether budgets allow a move, and which stands in the way if not.
func (d *decider) affordable(m *Move) (why.Reason, bool) {
	count := map[string]int{}
	for _, n := range m.Remove {
		pool := d.in.World.Nodes[n].Pool
		count[pool]++
		if count[pool] > d.room(pool, m.Reason) {
			return why.New(why.Limit, "pool %s's disruption budget allows no more nodes to go for %s now", pool, m.Reason), false
		}
	}
	for _, n := range m.Remove {
		for _, g := range d.in.Nodes[n].Guards {
			if m.Reason != Drifted && d.guard[g.Budget] <= 0 {
				return why.New(why.Limit, "a PodDisruptionBudget that covers its pods is used up by other moves of this pass"), false
			}
		}
	}
	return why.Reason{}, true
}

// take adds a move to the decision.
func (d *decider) take(m *Move) {
	slices.Sort(m.Remove)
	for _, n := range m.Remove {
		d.gone[n] = true
		d.taken[d.in.World.Nodes[n].Pool]++
		for _, g := range d.in.Nodes[n].Guards {
			d.guard[g.Budget] -= g.Pods
		}
	}
	d.moves = append(d.moves, m)
	if d.opt.Found != nil {
		d.opt.Found(m)
	}
}

// evicts counts the pods of a node that have to restart.
func evicts(n *world.Node) int {
	count := 0
	for _, p := range n.Pods {
		if p.Movable && !p.Terminating {
			count++
		}
	}
	return count
}

// finish lists why every other node stays.
func (d *decider) finish() *Decision {
	out := &Decision{Moves: d.moves}
	for i, n := range d.in.World.Nodes {
		out.Before += n.Price
		if d.gone[i] {
			continue
		}
		if d.in.Nodes[i].Fixed == "" || n.Pool != "" {
			d.keep(int32(i), why.Chosen, "nothing cheaper would take its pods")
			out.Kept = append(out.Kept, Kept{int32(i), d.why[i]})
		}
	}
	out.NodesBefore, out.After = len(d.in.World.Nodes), out.Before
	out.NodesAfter = out.NodesBefore
	for _, m := range d.moves {
		out.After -= m.Saves
		out.NodesAfter += len(m.Add) - len(m.Remove)
	}
	slices.SortStableFunc(out.Kept, func(a, b Kept) int { return cmp.Compare(a.Node, b.Node) })
	return out
}
