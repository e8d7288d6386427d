package pack

import (
	"fmt"
	"slices"
	"strings"

	"karpenter/internal/engine/world"
)

// seat is a node with everything that would be on it if the plan were carried out.
type seat struct {
	name   string
	fresh  bool
	labels func(string) (string, bool)
	taints []world.Taint
	pods   []*world.Pod // planned, then those that run
	plans  int          // how many of pods are planned
}

// audit checks a plan against the rules from first principles: it shares no code with the solver beyond the world's own types.
func audit(s *world.Snapshot, plan *Plan) []string {
	a := &auditor{s: s}
	a.everyPodOnce(plan)
	a.prices(plan)
	a.limits(plan)
	var seats []*seat
	for _, n := range plan.Nodes {
		seats = append(seats, a.newSeats(n)...)
	}
	planned := map[*world.Node][]*world.Pod{}
	for _, e := range plan.Existing {
		planned[e.Node] = e.Pods
	}
	for _, n := range s.Nodes {
		if n.Deleting {
			if len(planned[n]) > 0 {
				a.fail("node %s is going away but gets pods", n.Name)
			}
		}
		st := &seat{name: n.Name, taints: n.Taints, pods: slices.Concat(planned[n], n.Pods), plans: len(planned[n])}
		st.labels = func(k string) (string, bool) {
			if k == world.LabelHostname {
				return n.Hostname(), true
			}
			return n.Labels.Get(k)
		}
		a.fits("node "+n.Name, st, n.Allocatable, len(planned[n]) > 0)
		seats = append(seats, st)
	}
	a.replay(plan, seats)
	return a.faults
}

// replay binds the pods one after the other, in the plan's order, and checks each against those before it.
func (a *auditor) replay(plan *Plan, seats []*seat) {
	at := map[*world.Pod]*seat{}
	for _, st := range seats {
		for _, p := range st.pods[:st.plans] {
			at[p] = st
		}
		st.pods = st.pods[st.plans:]
	}
	if len(plan.Order) != len(at) {
		a.fail("%d pods in order, %d placed", len(plan.Order), len(at))
	}
	for _, p := range plan.Order {
		st := at[p]
		if st == nil {
			a.fail("%s is in the order but has no place", p.Name)
			continue
		}
		a.pod(st, p, seats)
		st.pods = append(slices.Clip(st.pods), p)
	}
}

type auditor struct {
	s      *world.Snapshot
	faults []string
}

func (a *auditor) fail(format string, args ...any) {
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

func (a *auditor) class(p *world.Pod) *world.Class { return a.s.Classes[p.Class] }

func (a *auditor) everyPodOnce(plan *Plan) {
	seen := map[*world.Pod]int{}
	for _, n := range plan.Nodes {
		for _, p := range n.Pods {
			seen[p]++
		}
	}
	for _, e := range plan.Existing {
		for _, p := range e.Pods {
			seen[p]++
		}
	}
	if len(seen) != plan.Placed {
		a.fail("%d pods are placed, plan says %d", len(seen), plan.Placed)
	}
	for _, u := range plan.Unplaced {
		if len(u.Reasons) == 0 {
			a.fail("pod %s has no place and no reason", u.Pods[0].Name)
		}
		for _, p := range u.Pods {
			seen[p]++
		}
	}
	for _, p := range a.s.Pending {
		if seen[p] != 1 {
			a.fail("pod %s appears %d times", p.Name, seen[p])
		}
	}
}

func (a *auditor) prices(plan *Plan) {
	sum := 0.0
	for _, n := range plan.Nodes {
		sum += n.Price()
		for _, c := range n.Choices {
			if c.Offering.Price < n.Price() {
				a.fail("node %s has a cheaper choice than its first", n.Name)
			}
			if !c.Offering.Available {
				a.fail("node %s may be launched from stock that is not there", n.Name)
			}
		}
	}
	nodeCost := 0.0
	for _, n := range plan.Nodes {
		nodeCost += n.Pool.NodeCost
	}
	if diff := plan.NodeCost - nodeCost; diff > 1e-9 || diff < -1e-9 {
		a.fail("node cost is %v, the nodes' is %v", plan.NodeCost, nodeCost)
	}
	if plan.CostBound > (sum+nodeCost)*(1+1e-9) || plan.CostBound < plan.Bound {
		a.fail("bound with node cost %v is above %v or below the bound on prices %v", plan.CostBound, sum+nodeCost, plan.Bound)
	}
	if plan.Bound > sum*(1+1e-9) {
		a.fail("bound %v is above the price %v", plan.Bound, sum)
	}
}

func (a *auditor) limits(plan *Plan) {
	for _, p := range a.s.Pools {
		count := int64(0)
		sums := make(world.Resources, len(a.s.Resources))
		for _, n := range a.s.Nodes {
			if n.Pool == p.Name && !n.Deleting {
				count++
				sums = sums.Plus(n.Capacity)
			}
		}
		fresh := false
		for _, n := range plan.Nodes {
			if n.Pool != p {
				continue
			}
			fresh = true
			count++
			var most world.Resources
			for _, c := range claimed(n) {
				most = most.Max(c.Type.Capacity)
			}
			sums = sums.Plus(most)
		}
		if fresh && p.MaxNodes >= 0 && count > p.MaxNodes {
			a.fail("pool %s has %d nodes of at most %d", p.Name, count, p.MaxNodes)
		}
		for _, l := range p.Limits {
			if fresh && sums.Get(l.Resource) > l.Max {
				a.fail("pool %s has %d of resource %d, of at most %d", p.Name, sums.Get(l.Resource), l.Resource, l.Max)
			}
		}
	}
}

// claimed lists what a claim for the node would let the cloud launch: every offering of the pool that its requirements admit, in
// stock or not. Only the first is what the plan has chosen.
func claimed(n *NewNode) []Choice {
	out := []Choice{n.Choices[0]}
	need := n.Requirements()
	offers, _ := n.Pool.Offers()
	for _, o := range offers {
		c := Choice{Type: o.Type, Offering: o.Offering}
		if c != out[0] && need.Admits(nodeLabels(n, c)) {
			out = append(out, c)
		}
	}
	return out
}

// nodeLabels are those of the node if it is launched as one of its choices.
func nodeLabels(n *NewNode, c Choice) func(string) (string, bool) {
	return func(k string) (string, bool) {
		switch k {
		case world.LabelZone:
			return c.Offering.Zone, true
		case world.LabelCapacityType:
			return c.Offering.CapacityType, true
		case world.LabelInstanceType:
			return c.Type.Name, true
		case world.LabelHostname:
			return n.Name, true
		}
		if v, ok := n.Labels.Get(k); ok {
			return v, true
		}
		return c.Type.Labels.Get(k)
	}
}

// newSeats checks everything that a new node may become and returns the first choice as a seat.
func (a *auditor) newSeats(n *NewNode) []*seat {
	var first *seat
	all := claimed(n)
	for _, c := range n.Choices {
		if !slices.Contains(all, c) {
			a.fail("node %s: its claim does not admit %s in %s", n.Name, c.Type.Name, c.Offering.Zone)
		}
	}
	for _, c := range all {
		st := &seat{name: n.Name, fresh: true, taints: n.Pool.Taints, pods: n.Pods, plans: len(n.Pods), labels: nodeLabels(n, c)}
		what := fmt.Sprintf("node %s as %s in %s, %s", n.Name, c.Type.Name, c.Offering.Zone, c.Offering.CapacityType)
		if first == nil {
			first = st
		}
		if !n.Pool.Need.Admits(st.labels) {
			a.fail("%s is not what pool %s asks for", what, n.Pool.Name)
		}
		for _, p := range n.Pods {
			a.own(st, p)
			for _, x := range a.class(p).Spread {
				if x.Hard && x.Selector.Some && x.Key != world.LabelHostname && !sameDomain(x.Key, st, first) {
					a.fail("%s is in another %s than pod %s was spread to", what, x.Key, p.Name)
				}
			}
		}
		a.fits(what, st, c.Type.Allocatable, true)
	}
	return []*seat{first}
}

// fits adds up what is on a node, with the daemons that will come.
func (a *auditor) fits(what string, st *seat, allocatable world.Resources, checked bool) {
	if !checked {
		return
	}
	sum := world.Resources{}
	for _, p := range st.pods {
		sum = sum.Plus(a.class(p).Requests)
	}
	if st.fresh {
		for _, d := range a.s.Daemons {
			if runs(d, st.taints, st.labels) {
				sum = sum.Plus(d.Class.Requests)
			}
		}
	}
	if !sum.Fits(allocatable) {
		a.fail("%s holds %v of %v", what, sum, allocatable)
	}
	for i, p := range st.pods {
		for j := range i {
			if (i < st.plans || j < st.plans) && world.PortsConflict(a.class(p).Ports, a.class(st.pods[j]).Ports) {
				a.fail("%s: ports of %s and %s conflict", what, p.Name, st.pods[j].Name)
			}
		}
	}
}

// runs says whether a daemon will be on a node.
func runs(d *world.Daemon, taints []world.Taint, labels func(string) (string, bool)) bool {
	if _, bad := world.Untolerated(taints, d.Class.Tolerations, false); bad {
		return false
	}
	return !slices.ContainsFunc(d.Class.Needs, func(cl world.Clause) bool { return !cl.Admits(labels) })
}

// own checks what a pod asks of its node alone.
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

// pod checks what a planned pod asks of its node and of the pods around it.
func (a *auditor) pod(st *seat, p *world.Pod, seats []*seat) {
	a.own(st, p)
	c := a.class(p)
	for _, t := range c.AntiAffinity {
		if t.Weight == 0 && a.matches(t, st, p, seats) > 0 {
			a.fail("%s on %s breaks its anti-affinity over %s", p.Name, st.name, t.Key)
		}
	}
	for _, t := range c.Affinity {
		if t.Weight == 0 && a.matches(t, st, p, seats) == 0 && !a.bootstraps(t, c, seats) {
			a.fail("%s on %s breaks its affinity over %s", p.Name, st.name, t.Key)
		}
	}
	for i := range c.Spread {
		if x := &c.Spread[i]; x.Hard && x.Selector.Some {
			a.spread(x, c, st, seats)
		}
	}
	for _, other := range seats {
		for _, q := range other.pods {
			for _, t := range a.class(q).AntiAffinity {
				if t.Weight == 0 && q != p && a.picks(t, p) && sameDomain(t.Key, st, other) {
					a.fail("%s on %s is kept away by %s on %s", p.Name, st.name, q.Name, other.name)
				}
			}
		}
	}
}

func (a *auditor) picks(t world.PodTerm, p *world.Pod) bool {
	c := a.class(p)
	return (t.AllNamespaces || slices.Contains(t.Namespaces, c.Namespace)) && t.Selector.Matches(c.Labels)
}

func sameDomain(key string, a, b *seat) bool {
	x, ok1 := a.labels(key)
	y, ok2 := b.labels(key)
	return ok1 && ok2 && x == y
}

// matches counts the pods other than p that a term picks in p's domain.
func (a *auditor) matches(t world.PodTerm, st *seat, p *world.Pod, seats []*seat) int {
	n := 0
	for _, other := range seats {
		if !sameDomain(t.Key, st, other) {
			continue
		}
		for _, q := range other.pods {
			if q != p && a.picks(t, q) {
				n++
			}
		}
	}
	return n
}

// bootstraps says whether a pod may be the first of its kind: it matches its own term, and nothing else does anywhere.
func (a *auditor) bootstraps(t world.PodTerm, c *world.Class, seats []*seat) bool {
	if !t.Selector.Matches(c.Labels) {
		return false
	}
	n := 0
	for _, st := range seats {
		if _, has := st.labels(t.Key); !has {
			continue // outside every domain
		}
		for _, q := range st.pods {
			if a.picks(t, q) {
				n++
			}
		}
	}
	return n == 0
}

// spread checks the skew of the domain that a pod was put into, over the nodes that count.
func (a *auditor) spread(x *world.Spread, c *world.Class, st *seat, seats []*seat) {
	count, domains := map[string]int32{}, map[string]bool{} // new nodes are domains too, by the time that pods go to others
	for _, other := range seats {
		v, ok := other.labels(x.Key)
		if !ok {
			continue
		}
		counted := true
		for _, cl := range c.Needs {
			counted = counted && (!x.HonorAffinity || cl.Admits(other.labels))
		}
		for _, o := range c.Spread {
			if _, has := other.labels(o.Key); o.Hard && !has {
				counted = false
			}
		}
		if _, bad := world.Untolerated(other.taints, c.Tolerations, false); bad && x.HonorTaints {
			counted = false
		}
		if !counted {
			continue
		}
		domain := v
		if x.Key == world.LabelHostname {
			domain = other.name
		}
		if domains[domain] = true; x.Key == world.LabelHostname && other.fresh != st.fresh {
			continue
		}
		count[v] += 0
		for _, q := range other.pods {
			if qc := a.class(q); qc.Namespace == c.Namespace && x.Selector.Matches(qc.Labels) && !q.Terminating {
				count[v]++
			}
		}
	}
	if st.fresh && x.Key != world.LabelHostname { // what a new node could open is a domain, whether or not there is a node yet
		for _, v := range a.reach(x, c) {
			domains[v] = true
			count[v] += 0
		}
	}
	own, _ := st.labels(x.Key)
	if x.Selector.Matches(c.Labels) {
		count[own]++ // the pod itself, which is not bound yet
	}
	least := int32(-1)
	for v, n := range count {
		if v == own && x.Selector.Matches(c.Labels) {
			n--
		}
		if least < 0 || n < least {
			least = n
		}
	}
	if x.MinDomains > int32(len(domains)) || least < 0 || (x.Key == world.LabelHostname && st.fresh) {
		least = 0
	}
	if count[own]-least > x.MaxSkew {
		a.fail("pods on %s are %d over the least %d of %s, of at most %d", st.name, count[own], least, x.Key, x.MaxSkew)
	}
}

// reach lists the values of a spread's key on the nodes that could be made for a pod, by what it requires.
func (a *auditor) reach(x *world.Spread, c *world.Class) []string {
	var out []string
	for _, p := range a.s.Pools {
		if _, bad := world.Untolerated(p.Taints, c.Tolerations, false); bad {
			continue
		}
		racks := []string{""}
		if r, ok := p.Need.Get(testRack); ok {
			racks, _ = r.Values()
		}
		offers, _ := p.Offers()
		for _, o := range offers {
			if !o.Offering.Available {
				continue
			}
			for _, rack := range racks {
				get := func(k string) (string, bool) {
					if k == testRack {
						return rack, rack != ""
					}
					return p.NodeLabel(o.Type, o.Offering, k)
				}
				sum := c.Requests
				for _, d := range a.s.Daemons {
					if runs(d, p.Taints, get) {
						sum = sum.Plus(d.Class.Requests)
					}
				}
				can := sum.Fits(o.Type.Allocatable)
				for _, cl := range slices.Concat(c.Needs, c.Volumes) {
					can = can && cl.Admits(get)
				}
				for _, other := range c.Spread {
					_, has := get(other.Key)
					can = can && (has || !other.Hard || other.Key == world.LabelHostname)
				}
				if v, ok := get(x.Key); can && ok {
					out = append(out, v)
				}
			}
		}
	}
	return out
}

// dump prints a plan so that two can be compared.
func dump(s *world.Snapshot, plan *Plan) string {
	var b strings.Builder
	names := func(pods []*world.Pod) string {
		var out []string
		for _, p := range pods {
			out = append(out, s.PodName(p))
		}
		return strings.Join(out, " ")
	}
	for _, n := range plan.Nodes {
		fmt.Fprintf(&b, "+ %s %s %s %s %.6f %v %s\n", n.Name, n.Choices[0].Type.Name, n.Choices[0].Offering.Zone, n.Choices[0].Offering.CapacityType, n.Price(), n.Types(), names(n.Pods))
	}
	for _, e := range plan.Existing {
		fmt.Fprintf(&b, "= %s %s\n", e.Node.Name, names(e.Pods))
	}
	for _, u := range plan.Unplaced {
		fmt.Fprintf(&b, "- %s %v\n", names(u.Pods), u.Reasons)
	}
	fmt.Fprintf(&b, "%.9f %.9f %d", plan.Price, plan.Bound, plan.Placed)
	return b.String()
}
