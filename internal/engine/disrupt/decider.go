package disrupt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// decider is one decision in the making.
type decider struct {
	in  *Input
	opt Options
	now time.Time

	// nodes are those of the snapshot as they will be after what has been decided, nil for those that will be gone, and behind
	// them those that will be made.
	nodes []*world.Node
	// order lists the snapshot's nodes by name.
	order []int32
	// awaits marks nodes on which pods are expected that wait now, and due those on which pods of leaving nodes are.
	awaits, due []bool
	// spares are the spare pods that nodes hold room for, by index.
	spares map[int32][]world.Held

	pools map[string]*Pool
	taken map[string]int // nodes of the pool that moves remove
	made  map[string]int // and add
	guard []int32        // evictions left under each budget
	cost  map[string]poolCost

	sick    bool              // some node is unhealthy
	broken  map[string]string // by pool: why none of its nodes is repaired
	moving  map[string]string // by pool: what is going on
	waiting map[string]bool   // by pool: pending pods are to be placed on its nodes
	value   []float64         // what a pod of each class would cost an hour in a fresh plan, once that is known
	// wasteful are the candidates of consolidation, those first that cost most beyond what their pods are worth.
	wasteful []int32

	rules  *domainCounts
	crowd  *crowd
	ledger *ledger
	static map[string]*static // by pool, once asked for

	looked int // groups in which pods have rules for each other
	moves  []*Move
	reject []Score
	gone   []bool       // nodes that a move removes
	target []bool       // nodes that a move fills
	why    []why.Reason // why a node stays, as far as found out
}

func newDecider(in *Input, opt Options, now time.Time) *decider {
	n := len(in.World.Nodes)
	d := &decider{
		in: in, opt: opt, now: now, nodes: slices.Clone(in.World.Nodes), awaits: make([]bool, n), due: make([]bool, n), spares: map[int32][]world.Held{},
		pools: map[string]*Pool{}, taken: map[string]int{}, made: map[string]int{}, guard: slices.Clone(in.Guarded), gone: make([]bool, n), target: make([]bool, n), why: make([]why.Reason, n),
	}
	d.opt.Pack.Quick = true
	d.opt.group, d.opt.whole = cmp.Or(opt.group, groupSize), cmp.Or(opt.whole, whole)
	for i := range in.Pools {
		d.pools[in.Pools[i].Name] = &in.Pools[i]
	}
	for i := range n {
		d.order = append(d.order, int32(i))
	}
	slices.SortFunc(d.order, func(a, b int32) int { return strings.Compare(in.World.Nodes[a].Name, in.World.Nodes[b].Name) })
	d.sick = slices.ContainsFunc(in.Nodes, func(n Node) bool { return n.Illness != nil })
	d.broken = d.breakers()
	d.weighPools()
	return d
}

// start makes ready for moves, once everything that is under way has its place.
func (d *decider) start() {
	d.rules = newDomainCounts(d.in.World.Classes, d.nodes)
	d.crowd = newCrowd(d.rules, d.nodes)
	d.ledger = newLedger(d.in.World.Pools, d.nodes)
}

// keep notes why a node stays. The first reason found counts.
func (d *decider) keep(node int32, code why.Code, format string, args ...any) {
	d.keepFor(node, why.New(code, format, args...))
}

func (d *decider) keepFor(node int32, r why.Reason) {
	if d.why[node].Text == "" {
		d.why[node] = r
	}
}

// free says whether the node may be touched for the reason at all, apart from budgets.
func (d *decider) free(node int32, reason Reason) (why.Reason, bool) {
	n, facts := d.in.World.Nodes[node], &d.in.Nodes[node]
	pool := d.pools[n.Pool]
	switch {
	case d.gone[node]:
		return why.New(why.Refused, "it is part of another move"), false
	case facts.Fixed != "":
		return why.New(why.Refused, "%s", facts.Fixed), false
	case pool == nil:
		return why.New(why.NoPool, "its pool %q is not there", n.Pool), false
	case pool.Static && reason != Drifted:
		return why.New(why.Refused, "pool %s is static: it keeps its nodes whether or not pods need them", pool.Name), false
	case d.awaits[node]:
		return why.New(why.Refused, "pending pods are expected on it"), false
	case d.target[node]:
		return why.New(why.Refused, "it receives pods of nodes that are removed"), false
	case facts.PodsFixed != "" && !d.forced(node, reason):
		return why.New(why.Refused, "%s", facts.PodsFixed), false
	}
	return why.Reason{}, true
}

// quiet says whether the node may be consolidated by its pool's words. A pool in motion may do without a node that has no pods and that
// none is expected on, if it is known what the pods need that come, and no pod waits for a node.
func (d *decider) quiet(node int32, reason Reason) (why.Reason, bool) {
	n, facts := d.in.World.Nodes[node], &d.in.Nodes[node]
	pool := d.pools[n.Pool]
	switch {
	case pool.Never:
		return why.New(why.Refused, "pool %s has consolidateAfter: Never", n.Pool), false
	case d.held(n.Pool) != "" && (reason != Empty || pool.Blind || d.waiting[n.Pool] || d.evicts(node, Empty) > 0):
		return why.New(why.Moving, "pool %s is not at rest: %s", n.Pool, d.held(n.Pool)), false
	case facts.Consolidatable:
		return why.Reason{}, true
	case facts.NotYet != "":
		return why.New(why.Refused, "%s", facts.NotYet), false
	}
	return why.New(why.Refused, "it is not Consolidatable yet"), false
}

// may says whether a node may go for the reason, budgets apart.
func (d *decider) may(node int32, reason Reason) (why.Reason, bool) {
	if reason == Unhealthy {
		return d.repairable(node)
	}
	r, ok := d.free(node, reason)
	if !ok {
		return r, false
	}
	switch n := d.in.World.Nodes[node]; reason {
	case Drifted:
		if d.in.Nodes[node].Drift == "" {
			return why.New(why.Refused, "it has not drifted"), false
		}
	case Empty:
		if held := d.spares[node]; held != nil && d.in.Nodes[node].Cost <= 1 {
			return why.New(why.Spare, "it holds %s", world.HeldWords(held)), false
		}
		if !d.bare(node) {
			return why.New(why.Refused, "pods on it have to be rescheduled"), false
		}
		if d.due[node] {
			return why.New(why.Refused, "pods of nodes that are being removed are expected on it"), false
		}
		return d.quiet(node, Empty)
	case Unhealthy: // above
	case Underutilized:
		if held := d.spares[node]; held != nil && d.in.Nodes[node].Cost <= 1 && d.pools[n.Pool].Policy == WhenEmpty {
			return why.New(why.Spare, "it holds %s, and pool %s consolidates empty nodes only", world.HeldWords(held), n.Pool), false
		}
		if d.pools[n.Pool].Policy == WhenEmpty {
			return why.New(why.Refused, "pool %s consolidates empty nodes only, and this one has pods", n.Pool), false
		}
		if r, ok := d.quiet(node, Underutilized); !ok {
			return r, false
		}
		if unpaid := d.in.Nodes[node].Unpaid; unpaid != "" {
			return why.New(why.Moving, "%s", unpaid), false
		}
		return priced(n)
	}
	return why.Reason{}, true
}

// priced says whether it is known what the node costs (D10, D12).
func priced(n *world.Node) (why.Reason, bool) {
	for _, key := range []string{world.LabelInstanceType, world.LabelZone, world.LabelCapacityType} {
		if v, ok := n.Labels.Get(key); !ok || v == "" {
			return why.New(why.Refused, "it has no label %s, so that nothing can be said to be cheaper", key), false
		}
	}
	if !(n.Price > 0) {
		return why.New(why.Refused, "its price is not known, so that nothing can be said to be cheaper"), false
	}
	return why.Reason{}, true
}

// bare says whether nothing on the node would have to move (D20). Pods that say by their priority or deletion cost that they
// may go first do not count. A node that holds room for spare pods is not bare (P112).
func (d *decider) bare(node int32) bool { return d.in.Nodes[node].Cost <= 1 && d.spares[node] == nil }

// spare is how many more nodes of the pool may go for the reason.
func (d *decider) spare(pool string, reason Reason) int {
	return max(0, d.pools[pool].Allowed[reason]-d.taken[pool])
}

// quota is what budgets still allow, as far as a pass has spent it.
type quota struct {
	d      *decider
	reason Reason
	nodes  map[string]int
	guard  []int32
}

func (d *decider) quota(reason Reason) *quota {
	return &quota{d: d, reason: reason, nodes: map[string]int{}, guard: slices.Clone(d.guard)}
}

// take spends what a node costs, or says which budget stands in the way. A disruption budget that still allows something lets a
// node begin to go whatever number of its pods are on it: they go one after the other, as it allows. It does not let a second node
// begin before it has something left (W43).
func (p *quota) take(node int32) (why.Reason, bool) {
	pool := p.d.in.World.Nodes[node].Pool
	counts := p.d.counts(node, p.reason)
	if counts && p.nodes[pool] >= p.d.spare(pool, p.reason) {
		if trouble := p.d.pools[pool].Trouble; trouble != "" {
			return why.New(why.Limit, "pool %s's disruption budgets cannot be understood, and allow nothing: %s", pool, trouble), false
		}
		return why.New(why.Limit, "pool %s's disruption budgets allow no more nodes to be disrupted for %s now", pool, p.reason), false
	}
	facts := &p.d.in.Nodes[node]
	for _, g := range facts.Guards {
		if p.guard[g.Budget] <= 0 && !p.d.forced(node, p.reason) {
			return why.New(why.Limit, "a PodDisruptionBudget that covers its pods is used up by nodes that are removed first"), false
		}
	}
	if counts {
		p.nodes[pool]++
	}
	for _, g := range facts.Guards {
		p.guard[g.Budget] -= g.Pods
	}
	return why.Reason{}, true
}

// affordable says whether budgets allow a move, and which stands in the way if not.
func (d *decider) affordable(m *Move) (why.Reason, bool) {
	p := d.quota(m.Reason)
	covered := func(node int32) (n int32) {
		for _, g := range d.in.Nodes[node].Guards {
			n += g.Pods
		}
		return n
	}
	order := slices.Clone(m.Remove) // those that use up least first, so that as many as possible may begin
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(covered(a), covered(b)), strings.Compare(d.in.World.Nodes[a].Name, d.in.World.Nodes[b].Name))
	})
	for _, n := range order {
		if r, ok := p.take(n); !ok {
			return r, false
		}
	}
	return why.Reason{}, true
}

// take adds a move to the decision, if limits and what pods ask of each other still allow it.
func (d *decider) take(m *Move) (why.Reason, bool) {
	slices.Sort(m.Remove)
	if r, ok := d.ledger.try(d, m); !ok {
		return r, false
	}
	if m.Static {
		d.staticOf(m.Remove[0]).took(d, m)
	} else if r, ok := d.rules.try(d, m); !ok {
		d.ledger.undo(d, m)
		return r, false
	}
	d.spent(m)
	for _, n := range m.Add {
		d.made[n.Pool.Name]++
		n.Name = fmt.Sprintf("%s-%d", n.Pool.Name, d.made[n.Pool.Name])
	}
	for _, i := range m.filled {
		d.target[i] = true
	}
	m.From = d.trail(m)
	if !m.Static {
		d.commit(m)
	}
	d.moves = append(d.moves, m)
	if d.opt.Found != nil {
		d.opt.Found(m)
	}
	return why.Reason{}, true
}

// spent notes what a move uses up: its nodes, and what budgets allow.
func (d *decider) spent(m *Move) {
	m.Nodes = make([]string, len(m.Remove))
	for k, n := range m.Remove {
		d.gone[n] = true
		if d.counts(n, m.Reason) {
			d.taken[d.in.World.Nodes[n].Pool]++
		}
		for _, g := range d.in.Nodes[n].Guards {
			d.guard[g.Budget] -= g.Pods
		}
		m.Nodes[k] = d.in.World.Nodes[n].Name
	}
}

// done tells that a part of the decision has been made.
func (d *decider) done(p Part) {
	if d.opt.Done != nil {
		d.opt.Done(p)
	}
}

// evicts counts the pods of a node that have to restart when it goes for the reason.
func (d *decider) evicts(node int32, reason Reason) int {
	pods := d.in.World.Nodes[node].Pods
	if reason == Unhealthy && d.forced(node, reason) {
		pods = freed(pods)
	}
	count := 0
	for _, p := range pods {
		if p.Movable && !p.Terminating {
			count++
		}
	}
	return count
}
