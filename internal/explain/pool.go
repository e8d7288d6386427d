package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/req"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// Pool says whether a pool can make nodes, what it has and may have, and what its budgets allow.
func (c *Cluster) Pool(name string) (*Answer, error) {
	ref := ledger.Ref{Kind: "NodePool", Name: name}
	p := c.view.Pool(name)
	if p == nil {
		var names []string
		for _, w := range c.world.Pools {
			names = append(names, w.Name)
		}
		return nil, &NotFound{Kind: "NodePool", Name: name, Similar: why.Similar(name, names)}
	}
	a := &Answer{Subject: ref}
	w := p.World
	if i := slices.IndexFunc(c.world.Pools, func(x *world.Pool) bool { return x.Name == name }); i >= 0 {
		w = c.world.Pools[i] // it may be held back
	}
	nodes := c.poolNodes(a, name)
	offers, _ := w.Offers()
	types := typesOf(offers)
	switch {
	case w.Static:
		c.staticPool(a, name)
	case w.Refused != "":
		a.Verdict = "makes no nodes: it " + w.Refused
		a.Why = append(a.Why, why.New(why.NoPool, "it %s", w.Refused))
	case len(w.Types) == 0:
		a.Verdict = "makes no nodes: no instance types of its class are known"
	case types == 0:
		a.Verdict = fmt.Sprintf("makes no nodes: none of %s satisfies its requirements", why.Count(len(w.Types), "type"))
		c.poolMisfit(a, w)
	default:
		a.Verdict = fmt.Sprintf("can make nodes of %s", why.Count(types, "type"))
		if full := c.full(w, offers); full != "" {
			a.Verdict = "makes no more nodes: " + full
		}
	}
	a.Verdict += "; has " + nodes
	c.conditions(a, p.Object)
	c.limitFacts(a, w)
	c.stock(a, offers)
	c.overlayFacts(a, offers)
	c.budgetFacts(a, p)
	c.poolDecision(a, name)
	a.History = c.history(ref)
	return a, nil
}

// staticPool says how many nodes a static pool has of those that it is to have, and what is done about it.
func (c *Cluster) staticPool(a *Answer, name string) {
	s := c.scaling(name)
	if s == nil {
		return
	}
	m := model.NewScalings(c.world, []*disrupt.Scaling{s}, 1)[0]
	a.Verdict = fmt.Sprintf("is static: %d of %d nodes", s.Have(), s.Replicas)
	if words := m.Words(); words != "" {
		a.Verdict += "; " + words
	}
	if s.Moving > 0 {
		a.fact("being replaced", why.Count(s.Moving, "node"))
	}
	for i, n := range s.Add {
		if i == maxNamed {
			a.Why = append(a.Why, why.New(why.Chosen, "%s", why.More(len(s.Add)-i)))
			break
		}
		a.Why = append(a.Why, why.Reason{Code: why.Chosen, Text: "launches " + alternative(name, n.Choices[0]).Text, Because: n.Why})
	}
	for i, l := range s.Remove {
		if i == maxNamed {
			a.Why = append(a.Why, why.New(why.Chosen, "%s", why.More(len(s.Remove)-i)))
			break
		}
		a.Why = append(a.Why, why.Reason{Code: why.Chosen, Text: "removes " + c.world.Nodes[l.Node].Name, Because: []why.Reason{l.Why}})
	}
	if s.Short > 0 {
		a.Why = append(a.Why, s.Why)
	}
}

// overlayFacts says which overlays have changed what the pool could launch, and how, and of how many offerings no price is known.
func (c *Cluster) overlayFacts(a *Answer, offers []world.Offer) {
	prices, rooms := map[string]int{}, map[string]map[string]bool{}
	var last *world.InstanceType
	guessed := 0
	for _, o := range offers {
		if o.Offering.Estimated {
			guessed++
		}
		if by := o.Offering.PricedBy; by != "" {
			prices[by]++
		}
		if o.Type == last {
			continue
		}
		last = o.Type
		for _, x := range last.Added {
			if rooms[x.Overlay] == nil {
				rooms[x.Overlay] = map[string]bool{}
			}
			rooms[x.Overlay][c.world.Resources[x.Resource]] = true
		}
	}
	if guessed > 0 {
		a.fact("prices", "of "+why.Count(guessed, "offering")+" not known: estimated from what a node has, so that the type that wastes least is chosen")
	}
	for _, o := range c.view.Overlays {
		name := o.Object.Name
		var does []string
		if n := prices[name]; n > 0 {
			does = append(does, "changes the price of "+why.Count(n, "offering"))
		}
		if list := slices.Sorted(maps.Keys(rooms[name])); len(list) > 0 {
			does = append(does, "adds "+why.List(list, maxNamed))
		}
		if len(does) > 0 {
			a.fact("NodeOverlay "+name, strings.Join(does, "; "))
		}
	}
}

func typesOf(offers []world.Offer) int {
	seen := map[*world.InstanceType]bool{}
	for _, o := range offers {
		seen[o.Type] = true
	}
	return len(seen)
}

// poolNodes counts the pool's nodes and what they cost.
func (c *Cluster) poolNodes(a *Answer, name string) string {
	up, starting, leaving, drifted := 0, 0, 0, 0
	cost := 0.0
	for i, n := range c.view.Nodes {
		if n.World.Pool != name {
			continue
		}
		cost += n.World.Price
		switch {
		case n.World.Deleting:
			leaving++
		case n.World.InFlight || !n.World.Initialized:
			starting++
		default:
			up++
		}
		if c.in.Nodes[i].Drift != "" {
			drifted++
		}
	}
	a.fact("nodes", fmt.Sprintf("%d up, %d starting, %d deleting", up, starting, leaving))
	a.fact("cost", fmt.Sprintf("%s, %s a month", why.Money(cost), why.Dollars(cost*model.HoursPerMonth)))
	if drifted > 0 {
		a.fact("drifted", why.Count(drifted, "node"))
	}
	return fmt.Sprintf("%s for %s", why.Count(up+starting+leaving, "node"), why.Money(cost))
}

// poolMisfit finds the requirements without which the pool would have types.
func (c *Cluster) poolMisfit(a *Answer, w *world.Pool) {
	for _, r := range w.Need {
		if _, fixed := w.Labels.Get(r.Key); fixed {
			continue
		}
		t := &trial{world: world.Snapshot{Pools: []*world.Pool{w}}}
		x := t.pool(w.Name)
		x.Need = slices.DeleteFunc(slices.Clone(x.Need), func(y req.Requirement) bool { return y.Key == r.Key })
		offers, _ := x.Offers()
		n := typesOf(offers)
		a.Why = append(a.Why, why.Counted(why.Requirement, n, len(w.Types), fmt.Sprintf("%s: without it %s would do", r.String(), why.Count(n, "type"))))
		if n == 0 {
			continue
		}
		best := offers[0]
		for _, o := range offers {
			if o.Offering.Price < best.Offering.Price {
				best = o
			}
		}
		have := valuesOf(offers, x, r.Key)
		text := fmt.Sprintf("Dropping %s would let it make nodes of %s, from %s on", r.String(), why.Count(n, "type"), why.Money(best.Offering.Price))
		for _, v := range r.Mentions() {
			if like := why.Similar(v, have); like != "" {
				text = fmt.Sprintf("Writing %s instead of %s for %s would let it make nodes", like, v, r.Key)
			}
		}
		a.Change = append(a.Change, Change{Text: sentence(text), Costs: best.Offering.Price})
	}
}

// valuesOf lists the values that a label has over what could be launched.
func valuesOf(offers []world.Offer, p *world.Pool, key string) []string {
	var out []string
	for _, o := range offers {
		if v, ok := p.NodeLabel(o.Type, o.Offering, key); ok {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// full says which limit leaves no room for even the smallest instance; "" if there is room.
func (c *Cluster) full(w *world.Pool, offers []world.Offer) string {
	u := c.view.Usage(w.Name)
	if w.MaxNodes >= 0 && int64(u.Nodes) >= w.MaxNodes {
		return fmt.Sprintf("its limit of %s is reached", why.Count(int(w.MaxNodes), "node"))
	}
	for _, l := range w.Limits {
		least := int64(world.Unlimited)
		for _, o := range offers {
			capacity := o.Type.Capacity
			if o.Offering.Capacity != nil {
				capacity = o.Offering.Capacity
			}
			least = min(least, capacity.Get(l.Resource))
		}
		if used := u.Capacity.Get(l.Resource); used+least > l.Max {
			return fmt.Sprintf("its limit of %s %s is reached (%s in use, the smallest type has %s)",
				c.amount(l.Resource, l.Max), c.world.Resources[l.Resource], c.amount(l.Resource, used), c.amount(l.Resource, least))
		}
	}
	return ""
}

// conditions adds what the pool says about itself and is not as it should be.
func (c *Cluster) conditions(a *Answer, p *v1.NodePool) {
	for _, x := range p.Status.Conditions {
		if x.Type != v1.ConditionReady && x.Status != metav1.ConditionTrue && x.Message != "" {
			a.Why = append(a.Why, why.New(why.NoPool, "%s is %s: %s", x.Type, x.Status, x.Message))
		}
	}
}

// limitFacts lists limits with what is in use of them.
func (c *Cluster) limitFacts(a *Answer, w *world.Pool) {
	u := c.view.Usage(w.Name)
	for _, l := range w.Limits {
		a.fact("limit "+c.world.Resources[l.Resource], fmt.Sprintf("%s of %s in use", c.amount(l.Resource, u.Capacity.Get(l.Resource)), c.amount(l.Resource, l.Max)))
	}
	if w.MaxNodes >= 0 {
		a.fact("limit nodes", fmt.Sprintf("%d of %d in use", u.Nodes, w.MaxNodes))
	}
	if len(w.Limits) == 0 && w.MaxNodes < 0 && !w.Static {
		a.fact("limits", "none")
	}
}

// stock counts offerings that are out of stock.
func (c *Cluster) stock(a *Answer, offers []world.Offer) {
	out := 0
	var names []string
	for _, o := range offers {
		if !o.Offering.Launchable() {
			out++
			text := o.Offering.CapacityType
			if o.Offering.Available {
				text += ", full"
			}
			names = append(names, fmt.Sprintf("%s in %s (%s)", o.Type.Name, o.Offering.Zone, text))
		}
	}
	if out > 0 {
		a.Why = append(a.Why, why.Counted(why.Stock, out, len(offers), fmt.Sprintf("out of stock: %s", why.List(names, maxNamed))))
	}
}

// budgetFacts lists what budgets allow now and next.
func (c *Cluster) budgetFacts(a *Answer, p *state.Pool) {
	d := &p.Object.Spec.Disruption
	policy := d.ConsolidationPolicy
	if policy == "" {
		policy = v1.ConsolidationPolicy(disrupt.WhenEmptyOrUnderutilized)
	}
	if p.World.Static {
		a.fact("consolidation", "none: the pool is static")
	} else {
		a.fact("consolidation", fmt.Sprintf("%s after %s", policy, d.ConsolidateAfter.String()))
	}
	i := slices.IndexFunc(c.in.Pools, func(x disrupt.Pool) bool { return x.Name == p.World.Name })
	if i < 0 {
		return
	}
	pool := &c.in.Pools[i]
	if pool.Trouble != "" {
		a.Why = append(a.Why, why.New(why.Limit, "its disruption budgets cannot be understood, and allow nothing: %s", pool.Trouble))
	}
	a.Why = append(a.Why, c.budgetReasons(p.World.Name, func(disrupt.Reason) bool { return true })...)
	var texts []string
	for _, reason := range reasons {
		texts = append(texts, c.budgetText(p.Object, reason, pool.Allowed[reason]))
	}
	if len(slices.Compact(slices.Clone(texts))) == 1 {
		a.fact("may be out", texts[0])
		return
	}
	for i, reason := range reasons {
		a.fact("may be out, "+strings.ToLower(string(reason)), texts[i])
	}
}

// poolDecision says which of the pool's nodes go, and for which reasons the others stay.
func (c *Cluster) poolDecision(a *Answer, name string) {
	going, saves := 0, 0.0
	for _, m := range c.Decision().Moves {
		n := 0
		for _, i := range m.Remove {
			if c.world.Nodes[i].Pool == name {
				n++
			}
		}
		if n > 0 {
			going += n
			saves += m.Saves * float64(n) / float64(len(m.Remove))
		}
	}
	if going > 0 {
		a.fact("removable", fmt.Sprintf("%s, saving %s", why.Count(going, "node"), why.Money(saves)))
	}
	waits := 0
	for _, u := range c.Plan().Unplaced {
		for _, p := range u.Pods {
			if c.mayUse(p, name) {
				waits++
			}
		}
	}
	if waits > 0 {
		a.fact("pending pods", why.Count(waits, "pod")+" that ask for this pool")
	}
}

// mayUse says whether a pod asks for the pool by name.
func (c *Cluster) mayUse(p *world.Pod, pool string) bool {
	for _, cl := range c.world.Classes[p.Class].Needs {
		for _, t := range cl.Terms {
			if r, ok := t.Get(world.LabelPool); ok && r.Admits(pool, true) {
				return true
			}
		}
	}
	return false
}
