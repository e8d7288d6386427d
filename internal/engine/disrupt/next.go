package disrupt

import (
	"slices"
	"time"
)

// Next lists the nodes that are to be removed next, in the order in which they should lose their pods: first those that are unhealthy,
// then those that have drifted, then the others; of each, first what would be decided if every pool were at rest and every node had been quiet for long enough,
// then what the decision after that would begin with, as far as budgets reach. Nodes that such a decision moves pods to are not
// among them. It asks what is planned, not what may be done now: no move comes of it.
func Next(in *Input, opt Options, now time.Time) []int32 {
	opt.Found, opt.Done, opt.Turn = nil, nil, 0 // the same question has the same answer, whenever it is asked
	d := newDecider(rested(in), opt, now)
	d.settle()
	d.repair()
	d.empty()
	d.drift()
	d.consolidate()
	out := append(d.removed(Unhealthy), d.removed(Drifted)...)
	out = append(out, d.spend(Drifted, d.driftedNodes())...)
	out = append(out, d.removed(Empty)...)
	out = append(out, d.removed(Underutilized)...)
	out = append(out, d.spend(Underutilized, d.left(d.wasteful))...)
	return append(out, d.spend(Empty, d.emptied())...)
}

// rested is the input as it would be if nothing were going on.
func rested(in *Input) *Input {
	out := *in
	out.Nodes, out.Pools = slices.Clone(in.Nodes), slices.Clone(in.Pools)
	for i := range out.Nodes {
		out.Nodes[i].Consolidatable = true
	}
	for i := range out.Pools {
		out.Pools[i].Rested = true
	}
	return &out
}

// removed lists the nodes that moves remove for the reason.
func (d *decider) removed(reason Reason) (out []int32) {
	for _, m := range d.moves {
		if m.Reason == reason {
			out = append(out, m.Remove...)
		}
	}
	return out
}

// spend is what budgets allow of nodes that go for the reason. They do not allow it again.
func (d *decider) spend(reason Reason, nodes []int32) []int32 {
	out := d.afford(reason, nodes)
	for _, node := range out {
		d.taken[d.in.World.Nodes[node].Pool]++
	}
	return out
}

// emptied lists the nodes, most wasteful first, of pools that give up only nodes that are empty: they do not go before others have
// taken their pods away.
func (d *decider) emptied() []int32 {
	var out []int32
	for _, node := range d.order {
		n := d.in.World.Nodes[node]
		if pool := d.pools[n.Pool]; pool == nil || pool.Policy != WhenEmpty || pool.Never || d.in.Nodes[node].Drift != "" || d.bare(node) {
			continue
		}
		if _, ok := d.free(node, Empty); !ok {
			continue
		}
		if _, ok := priced(n); ok {
			out = append(out, node)
		}
	}
	if len(out) > 0 {
		d.sortByWaste(out, d.values(out))
	}
	return out
}
