package disrupt

import (
	"slices"
	"time"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// Question is about one node, looked at alone.
type Question struct {
	// Node is its index in the snapshot.
	Node int32
	// After are moves that have been decided on. What they use up is not there any more.
	After   []*Move
	Options Options
}

// Verdict is what a question about one node comes to.
type Verdict struct {
	// Goes says whether the node may go.
	Goes bool
	// Move is how it goes, or what was found not worth making; nil if nothing was found.
	Move *Move
	// Why is why it stays, if it does.
	Why why.Reason
}

// Ask looks at one node alone, by the rules of Decide: whether it may go because it is unhealthy, is empty, has drifted, or because its
// pods can be had for less elsewhere.
func Ask(in *Input, q Question, now time.Time) Verdict {
	opt := q.Options
	opt.Found = nil
	d := newDecider(in, opt, now)
	d.settle()
	for _, m := range q.After {
		if !slices.Contains(m.Remove, q.Node) {
			d.again(m)
		}
	}
	return d.ask(q.Node)
}

// again takes a move that was decided on before. One that does not hold in a changed world is left out.
func (d *decider) again(m *Move) {
	if m.Reboot {
		d.takeReboot(again(m))
		return
	}
	d.take(again(m))
}

// again is a move that can be taken once more: taking it names its nodes.
func again(m *Move) *Move {
	c := *m
	c.Remove = slices.Clone(m.Remove)
	c.Add = make([]*pack.NewNode, len(m.Add))
	for i, n := range m.Add {
		x := *n
		c.Add[i] = &x
	}
	return &c
}

func (d *decider) ask(node int32) Verdict {
	if ill := d.in.Nodes[node].Illness; ill != nil && !d.now.Before(ill.Due) {
		v := d.askUnhealthy(node)
		if v.Goes {
			return v
		}
		if w := d.askHealthy(node); w.Goes {
			return w
		}
		return v
	}
	return d.askHealthy(node)
}

func (d *decider) askUnhealthy(node int32) Verdict {
	if r, ok := d.repairable(node); !ok {
		return Verdict{Why: r}
	}
	if r, ok := d.quota(Unhealthy).take(node); !ok {
		return Verdict{Why: r}
	}
	if d.in.Nodes[node].Illness.Reboot {
		d.takeReboot(d.reboot(node))
		return Verdict{Goes: true, Move: d.moves[len(d.moves)-1]}
	}
	if rest := d.replaceSick([]int32{node}); len(rest) > 0 {
		return Verdict{Why: rest[0].why}
	}
	return Verdict{Goes: true, Move: d.moves[len(d.moves)-1]}
}

// askHealthy asks about a node apart from what is wrong with it.
func (d *decider) askHealthy(node int32) Verdict {
	drifted := d.in.Nodes[node].Drift != ""
	if d.bare(node) {
		v := d.askEmpty(node)
		if v.Goes || !drifted {
			return v
		}
		if w := d.askDrifted(node); w.Goes {
			return w
		}
		return v
	}
	if drifted {
		return d.askDrifted(node)
	}
	return d.askUnderutilized(node)
}

func (d *decider) askEmpty(node int32) Verdict {
	if r, ok := d.may(node, Empty); !ok {
		return Verdict{Why: r}
	}
	m := &Move{Reason: Empty, Remove: []int32{node}, Saves: d.in.World.Nodes[node].Price, Evicts: d.evicts(node, Empty)}
	r, ok := d.affordable(m)
	if ok {
		r, ok = d.take(m)
	}
	return Verdict{Goes: ok, Move: m, Why: r}
}

func (d *decider) askDrifted(node int32) Verdict {
	if r, ok := d.may(node, Drifted); !ok {
		return Verdict{Why: r}
	}
	if r, ok := d.quota(Drifted).take(node); !ok {
		return Verdict{Why: r}
	}
	rest := d.replaceAll(Drifted, []int32{node}, d.openNodes(func(i int32) bool { return d.in.Nodes[i].Drift == "" }))
	if len(rest) > 0 {
		rest = d.replaceAll(Drifted, []int32{node}, d.openNodes(func(i int32) bool { return i != node }))
	}
	rest = d.terminateFirst(Drifted, rest)
	if len(rest) > 0 {
		return Verdict{Why: rest[0].why}
	}
	return Verdict{Goes: true, Move: d.moves[len(d.moves)-1]}
}

func (d *decider) askUnderutilized(node int32) Verdict {
	if r, ok := d.may(node, Underutilized); !ok {
		return Verdict{Why: r}
	}
	if r, ok := d.quota(Underutilized).take(node); !ok {
		return Verdict{Why: r}
	}
	w := d.walk([]int32{node}, d.openNodes(func(int32) bool { return true }))
	m, r := w.move(Underutilized, node)
	if m == nil {
		return Verdict{Why: noPlace(r)}
	}
	r, ok := d.pays(m)
	if ok {
		m.Why = d.explain(m)
		r, ok = d.take(m)
	}
	return Verdict{Goes: ok, Move: m, Why: r}
}

// Settled is the snapshot once a plan for its pods has been carried out: pods are where the plan puts them, and its new nodes are
// on their way. Unschedulable pods are left out, and so are spare ones: whoever comes may have their room.
func Settled(s *world.Snapshot, plan *pack.Plan) *world.Snapshot {
	d := &decider{in: &Input{World: s}}
	out := *s
	out.Nodes, out.Pending, out.Spare = slices.Clone(s.Nodes), nil, nil
	index := make(map[string]int, len(s.Nodes))
	for i, n := range out.Nodes {
		index[n.Name] = i
		if n.Deleting {
			out.Nodes[i] = withPods(n, slices.DeleteFunc(slices.Clone(n.Pods), func(p *world.Pod) bool { return p.Movable }))
		}
	}
	for _, f := range plan.Existing {
		if i, ok := index[f.Node.Name]; ok {
			out.Nodes[i] = d.joined(out.Nodes[i], world.Real(f.Pods))
		}
	}
	for _, n := range plan.Nodes {
		up := planned(n)
		up.Pods = world.Real(n.Pods)
		out.Nodes = append(out.Nodes, up)
	}
	return &out
}
