package disrupt

import (
	"fmt"
	"math"
	"slices"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
)

// seat is a node with the pods that are on it at one moment of a replay.
type seat struct {
	name     string
	fresh    bool
	deleted  bool
	labels   func(string) (string, bool)
	taints   []world.Taint
	size     world.Resources
	leaving  bool
	capacity world.Resources
	pods     []*world.Pod
}

// auditor carries moves out one after the other and checks each against the rules from first principles. It shares no code with
// the decider beyond the world's own types.
type auditor struct {
	s      *world.Snapshot
	in     *Input
	seats  []*seat
	gone   []*seat // that are removed
	byNode map[string]*seat
	faults []string

	reserved map[string]int
}

func (a *auditor) fail(format string, args ...any) {
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

func (a *auditor) class(p *world.Pod) *world.Class { return a.s.Classes[p.Class] }

// audit checks a whole decision.
func audit(in *Input, d *Decision) []string {
	a := &auditor{s: in.World, in: in, byNode: map[string]*seat{}, reserved: map[string]int{}}
	for _, n := range in.World.Nodes {
		st := &seat{name: n.Name, taints: n.Taints, size: n.Allocatable, leaving: n.Deleting, capacity: n.Capacity, pods: slices.Clone(n.Pods), labels: func(k string) (string, bool) {
			if k == world.LabelHostname {
				return n.Hostname(), true
			}
			return n.Labels.Get(k)
		}}
		if n.Deleting {
			st.pods = slices.DeleteFunc(st.pods, func(p *world.Pod) bool { return p.Movable })
		}
		a.seats, a.byNode[n.Name] = append(a.seats, st), st
	}
	a.settle()
	a.everyNode(d)
	a.budgets(d)
	a.money(d)
	for _, m := range d.Moves {
		a.replay(m)
	}
	return a.faults
}

// settle puts pods that are under way where they are expected: that plan has an auditor of its own.
func (a *auditor) settle() {
	plan := pack.Solve(a.s, pack.Options{Quick: true})
	for _, f := range plan.Existing {
		a.byNode[f.Node.Name].pods = append(a.byNode[f.Node.Name].pods, f.Pods...)
	}
	for _, n := range plan.Nodes {
		n.Name = "pending " + n.Name
		st := a.newSeat(n)
		st.pods, st.fresh = n.Pods, false
		if o := n.Choices[0].Offering; o.Reservation != "" {
			a.reserved[o.Reservation]++
		}
		a.seats = append(a.seats, st)
	}
}

// everyNode checks that each node is either removed once or kept with a reason, and that no removed node takes pods.
func (a *auditor) everyNode(d *Decision) {
	seen := map[int32]int{}
	gone := map[string]bool{}
	for _, m := range d.Moves {
		for k, i := range m.Remove {
			seen[i]++
			gone[m.Nodes[k]] = true
			f, pool := a.in.Nodes[i], a.s.Nodes[i].Pool
			p := a.in.Pools[slices.IndexFunc(a.in.Pools, func(x Pool) bool { return x.Name == pool })]
			if m.Reason == Unhealthy {
				a.repaired(i)
				continue
			}
			if f.Fixed != "" || p.Static || f.PodsFixed != "" && !(m.Reason == Drifted && f.Deadline) {
				a.fail("%s is removed although it may not be", m.Nodes[k])
			}
			if m.Reason != Drifted && (p.Never || !f.Consolidatable) || m.Reason == Underutilized && p.Policy == WhenEmpty || m.Reason == Drifted && f.Drift == "" {
				a.fail("%s is removed for %s against its pool's words", m.Nodes[k], m.Reason)
			}
		}
	}
	for _, k := range d.Kept {
		seen[k.Node]++
		if k.Why.Text == "" {
			a.fail("%s is kept without a reason", a.s.Nodes[k.Node].Name)
		}
	}
	for i, n := range a.s.Nodes {
		if seen[int32(i)] != 1 {
			a.fail("%s has %d answers", n.Name, seen[int32(i)])
		}
	}
	for _, m := range d.Moves {
		for _, f := range m.Filled {
			i := slices.IndexFunc(a.s.Nodes, func(n *world.Node) bool { return n.Name == f.Node.Name })
			if gone[f.Node.Name] || a.in.Nodes[i].Illness != nil {
				a.fail("%s is removed or unhealthy, and takes pods", f.Node.Name)
			}
		}
	}
}

// repaired checks that a node that is repaired may be: it is due, nobody forbids it, and of its pool no more than a fifth is ill.
func (a *auditor) repaired(i int32) {
	n, f := a.s.Nodes[i], a.in.Nodes[i]
	sick, all := 0, 0
	for k, x := range a.s.Nodes {
		if x.Pool == n.Pool && !x.InFlight {
			all++
			if a.in.Nodes[k].Illness != nil {
				sick++
			}
		}
	}
	ill := f.Illness
	if ill == nil || ill.Due.After(noon) || ill.Fixed != "" || f.PodsFixed != "" && ill.Grace == nil || 5*(sick-1) >= all {
		a.fail("%s is repaired although it may not be: %+v, %d of %d are unhealthy", n.Name, ill, sick, all)
	}
}

func (a *auditor) budgets(d *Decision) {
	taken, guard := map[string]int{}, slices.Clone(a.in.Guarded)
	for _, m := range d.Moves {
		for _, i := range m.Remove {
			pool := a.s.Nodes[i].Pool
			if m.Reason == Unhealthy && !a.s.Nodes[i].Initialized {
				continue
			}
			taken[pool]++
			p := a.in.Pools[slices.IndexFunc(a.in.Pools, func(x Pool) bool { return x.Name == pool })]
			if taken[pool] > p.Allowed[m.Reason] {
				a.fail("%d nodes of %s go for %s, of %d", taken[pool], pool, m.Reason, p.Allowed[m.Reason])
			}
		}
		for b := range guard { // the one that uses up most may begin last
			sum, most := int32(0), int32(-1)
			for _, i := range m.Remove {
				for _, g := range a.in.Nodes[i].Guards {
					if g.Budget != int32(b) {
						continue
					}
					sum += g.Pods
					ill := a.in.Nodes[i].Illness
					if !(m.Reason == Drifted && a.in.Nodes[i].Deadline) && !(m.Reason == Unhealthy && ill.Grace != nil) {
						most = max(most, g.Pods)
					}
				}
			}
			if most >= 0 && guard[b]-(sum-most) <= 0 {
				a.fail("budget %d is used up before %v", b, m.Nodes)
			}
			guard[b] -= sum
		}
	}
}

// money checks what moves claim to save, also if the cloud launches the dearest that it may.
func (a *auditor) money(d *Decision) {
	before, after := 0.0, 0.0
	for _, n := range a.s.Nodes {
		before += n.Price
	}
	after = before
	for _, m := range d.Moves {
		price, planned, worst := 0.0, 0.0, 0.0
		for _, i := range m.Remove {
			price += a.s.Nodes[i].Price
		}
		for _, n := range m.Add {
			planned += n.Price()
			worst += dearest(n)
		}
		if math.Abs(price-planned-m.Saves) > 1e-9 {
			a.fail("a move saves %v, and says %v", price-planned, m.Saves)
		}
		if m.Reason == Underutilized && (m.Saves < minShare*price || len(m.Add) > 0 && price-worst < -1e-9) {
			a.fail("a move of nodes for %v saves %v, or %v at worst", price, m.Saves, price-worst)
		}
		after -= m.Saves
	}
	if math.Abs(after-d.After) > 1e-6 || math.Abs(before-d.Before) > 1e-6 {
		a.fail("before %v after %v, and says %v %v", before, after, d.Before, d.After)
	}
}

// dearest is the most that a claim for the node can cost: the cloud combines types, zones and markets as it likes.
func dearest(n *pack.NewNode) float64 {
	if n.Choices[0].Offering.Reservation != "" {
		return n.Price()
	}
	need, most := n.Requirements(), 0.0
	for _, c := range n.Choices {
		for i := range c.Type.Offerings {
			o := &c.Type.Offerings[i]
			zone, _ := need.Get(world.LabelZone)
			market, _ := need.Get(world.LabelCapacityType)
			if o.Available && o.Reservation == "" && zone.Admits(o.Zone, true) && market.Admits(o.CapacityType, true) {
				most = max(most, o.Price)
			}
		}
	}
	return most
}

// replay carries a move out, pod by pod in its order.
func (a *auditor) replay(m *Move) {
	moving := map[*world.Pod]bool{}
	for _, name := range m.Nodes {
		for _, p := range a.byNode[name].pods {
			moving[p] = p.Movable
		}
		a.byNode[name].pods, a.byNode[name].deleted = nil, true
		a.gone = append(a.gone, a.byNode[name])
	}
	a.seats = slices.DeleteFunc(a.seats, func(s *seat) bool { return s.deleted })
	at := map[*world.Pod]*seat{}
	for _, n := range m.Add {
		st := a.newSeat(n)
		a.seats = append(a.seats, st)
		for _, p := range n.Pods {
			at[p] = st
		}
	}
	for _, f := range m.Filled {
		for _, p := range f.Pods {
			if at[p] != nil {
				a.fail("%s has two places", p.Name)
			}
			at[p] = a.byNode[f.Node.Name]
		}
	}
	if len(at) != len(m.Order) {
		a.fail("%d pods have places, %d are in order", len(at), len(m.Order))
	}
	for p, movable := range moving {
		if movable && at[p] == nil && m.Reason != Empty {
			a.fail("%s has no new place", p.Name)
		}
	}
	for _, p := range m.Order {
		a.pod(at[p], p)
		at[p].pods = append(at[p].pods, p)
		a.fits(at[p])
	}
	for _, st := range a.seats {
		st.fresh = false
	}
	a.limits(m)
}

// limits adds up what pools have after a move that adds to them.
func (a *auditor) limits(m *Move) {
	for _, n := range m.Add {
		count, sum := int64(0), world.Resources{}
		for _, st := range a.seats {
			if pool, _ := st.labels(world.LabelPool); pool == n.Pool.Name && !st.leaving {
				count++
				sum = sum.Plus(st.capacity)
			}
		}
		if n.Pool.MaxNodes >= 0 && count > n.Pool.MaxNodes {
			a.fail("pool %s has %d nodes of %d", n.Pool.Name, count, n.Pool.MaxNodes)
		}
		for _, l := range n.Pool.Limits {
			if sum.Get(l.Resource) > l.Max {
				a.fail("pool %s has %d of %d", n.Pool.Name, sum.Get(l.Resource), l.Max)
			}
		}
		if o := n.Choices[0].Offering; o.Reservation != "" {
			if a.reserved[o.Reservation]++; a.reserved[o.Reservation] > o.Remaining {
				a.fail("reservation %s is used %d times of %d", o.Reservation, a.reserved[o.Reservation], o.Remaining)
			}
		}
	}
}

// newSeat checks every choice of a new node and returns the first as a seat.
func (a *auditor) newSeat(n *pack.NewNode) *seat {
	var first *seat
	for _, c := range n.Choices {
		st := &seat{name: n.Name, fresh: true, taints: n.Pool.Taints, size: c.Type.Allocatable, capacity: c.Type.Capacity, pods: n.Pods, labels: func(k string) (string, bool) {
			if k == world.LabelHostname {
				return n.Name, true
			}
			if v, ok := n.Labels.Get(k); ok {
				return v, true
			}
			return n.Pool.NodeLabel(c.Type, c.Offering, k)
		}}
		if !n.Pool.Need.Admits(st.labels) || !c.Offering.Available {
			a.fail("%s as %s in %s is not what pool %s asks for", n.Name, c.Type.Name, c.Offering.Zone, n.Pool.Name)
		}
		for _, p := range n.Pods {
			a.own(st, p)
		}
		a.fits(st)
		if first == nil {
			st.pods = nil
			first = st
		}
	}
	return first
}

func (a *auditor) fits(st *seat) {
	sum := world.Resources{}
	for i, p := range st.pods {
		sum = sum.Plus(a.class(p).Requests)
		for j := range i {
			if world.PortsConflict(a.class(p).Ports, a.class(st.pods[j]).Ports) {
				a.fail("%s: ports conflict", st.name)
			}
		}
	}
	if st.fresh {
		for _, d := range a.s.Daemons {
			sum = sum.Plus(d.Class.Requests)
		}
	}
	if !sum.Fits(st.size) {
		a.fail("%s holds %v of %v", st.name, sum, st.size)
	}
}

func (a *auditor) own(st *seat, p *world.Pod) {
	c := a.class(p)
	if t, bad := world.Untolerated(st.taints, c.Tolerations, false); bad {
		a.fail("%s on %s does not tolerate %s", p.Name, st.name, t)
	}
	for _, cl := range slices.Concat(c.Needs, c.Volumes) {
		if !cl.Admits(st.labels) {
			a.fail("%s on %s: %s does not hold", p.Name, st.name, cl.Source)
		}
	}
}
