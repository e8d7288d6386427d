package disrupt

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// repairShare is the part of a pool, one in so many, up to which unhealthy nodes are taken for broken instances. Where more are
// unhealthy the cause lies elsewhere, and new instances would suffer from it too.
const repairShare = 5

// agingMinutes is for how many minutes a repair has to wait to count as much as one of the next higher priority (N6).
const agingMinutes = 30

// Illness is what is wrong with a node, by the repair policies of the cloud.
type Illness struct {
	// What says it in words, and Condition is the node condition.
	What, Condition string
	// Due is when the node is to be repaired; before that it may recover.
	Due time.Time
	// Priority orders repairs; more is first.
	Priority int
	// Grace bounds the drain; nil lets it take as long as it takes.
	Grace *time.Duration
	// Reboot says that the node is rebooted rather than replaced, and Escalated that it would be, had that not been tried in vain.
	Reboot, Escalated bool
	// Fixed says why the node is not to be repaired, empty if nothing stands in the way.
	Fixed string
}

// MayRepair says whether a node may be replaced where that many of all nodes are unhealthy, this one included; otherwise why not
// (D58). A fifth may be, rounded up.
func MayRepair(unhealthy, total int) (ok bool, because string) {
	limit := (total + repairShare - 1) / repairShare
	if unhealthy <= limit {
		return true, ""
	}
	return false, fmt.Sprintf("more than %s of the nodes are unhealthy (%d of %d)", why.Percent(1.0/repairShare), unhealthy, total)
}

// ill says whether anything is wrong with a node, whether or not that is due.
func (d *decider) ill(node int32) bool { return d.in.Nodes[node].Illness != nil }

// breakers finds the pools of which so many nodes are unhealthy that none is repaired, and says why.
func (d *decider) breakers() map[string]string {
	out, total, sick := map[string]string{}, map[string]int{}, map[string]int{}
	for i, n := range d.in.World.Nodes {
		if n.InFlight {
			continue
		}
		total[n.Pool]++
		if d.ill(int32(i)) {
			sick[n.Pool]++
		}
	}
	for pool, count := range sick {
		if ok, because := MayRepair(count, total[pool]); !ok {
			out[pool] = because
		}
	}
	return out
}

// repairable says whether a node may be repaired now, budgets apart (N6). Neither do-not-disrupt on the node nor that it is starting
// stands in the way; what forbids evicting its pods does, unless the drain is bounded.
func (d *decider) repairable(node int32) (why.Reason, bool) {
	n, facts := d.in.World.Nodes[node], &d.in.Nodes[node]
	ill, pool := facts.Illness, d.pools[n.Pool]
	switch {
	case d.gone[node]:
		return why.New(why.Refused, "it is part of another move"), false
	case ill == nil:
		return why.New(why.Refused, "it is healthy"), false
	case ill.Fixed != "":
		return why.New(why.Refused, "%s", ill.Fixed), false
	case pool == nil:
		return why.New(why.NoPool, "its pool %q is not there", n.Pool), false
	case d.now.Before(ill.Due):
		return why.New(why.Refused, "that is tolerated until %s", ill.Due.UTC().Format(time.RFC3339)), false
	case d.broken[n.Pool] != "":
		return why.New(why.Breaker, "%s in pool %s", d.broken[n.Pool], n.Pool), false
	case facts.PodsFixed != "" && ill.Grace == nil:
		return why.New(why.Refused, "%s", facts.PodsFixed), false
	}
	return why.Reason{}, true
}

// forced says whether pods of a node are evicted within a time although something forbids it: drift does that where the claim has a
// termination grace period (D9), repair where its policy or the claim has one.
func (d *decider) forced(node int32, reason Reason) bool {
	facts := &d.in.Nodes[node]
	return reason == Drifted && facts.Deadline || reason == Unhealthy && facts.Illness != nil && facts.Illness.Grace != nil
}

// counts says whether a node counts against the budgets of its pool: one that has never been up does not (N6).
func (d *decider) counts(node int32, reason Reason) bool {
	return reason != Unhealthy || d.in.World.Nodes[node].Initialized
}

// repair replaces nodes that have been unhealthy for too long, the most urgent first. Several may go at once, within budgets; one whose
// pods are unschedulable waits and holds nobody else up.
func (d *decider) repair() {
	for _, s := range d.inTurn(Unhealthy, d.sickNodes(), d.rebootOrReplace) {
		d.keepIll(s.node, s.why)
	}
}

// rebootOrReplace reboots or replaces nodes, and returns those of which it could do neither.
func (d *decider) rebootOrReplace(sick []int32) (rest []stuck) {
	var replaced []int32
	for _, node := range sick {
		if !d.in.Nodes[node].Illness.Reboot {
			replaced = append(replaced, node)
		} else if r, ok := d.quota(Unhealthy).take(node); ok {
			d.takeReboot(d.reboot(node))
		} else {
			rest = append(rest, stuck{node, r})
		}
	}
	replaced, static := d.replaceStatic(Unhealthy, replaced)
	return slices.Concat(rest, static, d.replaceSick(replaced))
}

// reboot is the move that reboots a node: its pods restart, and the node stays (N7).
func (d *decider) reboot(node int32) *Move {
	n := d.in.World.Nodes[node]
	return &Move{
		Reason: Unhealthy, Reboot: true, Remove: []int32{node}, Evicts: d.evicts(node, Unhealthy),
		Why: why.New(why.Chosen, "node %s %s; its instance is rebooted", n.Name, d.fault(Unhealthy, node)),
	}
}

// takeReboot adds a reboot to the decision. Nothing else is done about its node, and its room counts as coming back.
func (d *decider) takeReboot(m *Move) {
	d.spent(m)
	d.moves = append(d.moves, m)
	if d.opt.Found != nil {
		d.opt.Found(m)
	}
}

// replaceSick replaces nodes, and returns those that it could not.
func (d *decider) replaceSick(nodes []int32) (rest []stuck) {
	if len(nodes) == 0 {
		return nil
	}
	was := map[int32]*world.Node{}
	for _, node := range nodes {
		was[node] = d.nodes[node]
		d.release(node)
	}
	// Pods should not go where they would soon have to leave again. Only what finds no other place may.
	rest = d.replaceAll(Unhealthy, nodes, d.openNodes(func(node int32) bool { return d.in.Nodes[node].Drift == "" }))
	if len(rest) > 0 {
		left := make([]int32, len(rest))
		for k, s := range rest {
			left[k] = s.node
		}
		rest = d.replaceAll(Unhealthy, left, d.openNodes(func(int32) bool { return true }))
	}
	rest = d.terminateFirst(Unhealthy, rest)
	for _, s := range rest {
		d.nodes[s.node] = was[s.node]
	}
	return rest
}

// release has the pods of a node that is drained by force looked for a place, also those that nothing else would move.
func (d *decider) release(node int32) {
	if d.forced(node, Unhealthy) {
		n := d.nodes[node]
		d.nodes[node] = withPods(n, freed(n.Pods))
	}
}

// freed is pods of which all need another node when theirs is gone, except those that are made for it.
func freed(pods []*world.Pod) []*world.Pod {
	out := slices.Clone(pods)
	for i, p := range out {
		if !p.Movable && !p.Daemon && !p.Mirror && !p.Terminating {
			moved := *p
			moved.Movable = true
			out[i] = &moved
		}
	}
	return out
}

// keepIll notes why a node stays although it is unhealthy.
func (d *decider) keepIll(node int32, r why.Reason) {
	d.keep(node, r.Code, "it is unhealthy (%s), but %s", d.in.Nodes[node].Illness.What, r.Line())
}

// sickNodes lists the nodes that are to be repaired now, in the order in which they are.
func (d *decider) sickNodes() []int32 {
	var out []int32
	for _, node := range d.order {
		ill := d.in.Nodes[node].Illness
		if ill == nil || d.now.Before(ill.Due) {
			continue
		}
		if r, ok := d.repairable(node); !ok {
			d.keepIll(node, r)
			continue
		}
		out = append(out, node)
	}
	return d.urgent(out)
}

// urgent sorts nodes by how urgent their repair is: the rank of their priority among those that there are, and what they have waited
// (N6).
func (d *decider) urgent(nodes []int32) []int32 {
	levels := map[int]bool{}
	for _, node := range nodes {
		levels[d.in.Nodes[node].Illness.Priority] = true
	}
	rank := map[int]float64{}
	for k, level := range slices.Sorted(maps.Keys(levels)) {
		rank[level] = float64(k)
	}
	score := func(node int32) float64 {
		ill := d.in.Nodes[node].Illness
		return rank[ill.Priority] + d.now.Sub(ill.Due).Minutes()/agingMinutes
	}
	slices.SortStableFunc(nodes, func(a, b int32) int {
		return cmp.Or(-cmp.Compare(score(a), score(b)), strings.Compare(d.in.World.Nodes[a].Name, d.in.World.Nodes[b].Name))
	})
	return nodes
}
