package pack

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// finish turns bins into nodes with their pods and everything that may be launched for them.
func (r *run) finish(p *problem, bins []bin) []*NewNode {
	next := make([]cursor, len(p.items))
	known := map[string]*NewNode{}
	var out []*NewNode
	for i := range bins {
		b := &bins[i]
		key := binKey(b)
		like, ok := known[key]
		if !ok {
			like = r.describe(p, b)
			known[key] = like
		}
		n := *like
		given := map[string]int{}
		for _, g := range b.items {
			it := &p.items[g.item]
			for range g.n {
				n.Pods = next[g.item].draw(it, n.Pods, given)
			}
		}
		n.Why = slices.Concat(n.Why, relaxedReasons(given))
		if held := r.m.snap.SparePods(n.Pods); held != nil {
			n.Why = append(n.Why, why.New(why.Spare, "with room for %s", world.HeldWords(held)))
		}
		out = append(out, &n)
	}
	return out
}

// binKey is equal for nodes that differ only in the names of their pods.
func binKey(b *bin) string {
	k := binary.AppendVarint(nil, int64(b.option))
	for _, g := range b.items {
		k = binary.AppendVarint(k, int64(g.item))
		k = binary.AppendVarint(k, int64(g.n))
	}
	return string(k)
}

// cursor walks over the copies of an item.
type cursor struct{ demand, copy int }

// draw appends the pods of the next copy and counts the preferences that were given up for them.
func (c *cursor) draw(it *item, pods []*world.Pod, given map[string]int) []*world.Pod {
	for c.copy >= it.demands[c.demand].copies() {
		c.demand, c.copy = c.demand+1, 0
	}
	d := it.demands[c.demand]
	if d.bundle {
		for _, x := range d.parts {
			pods = append(pods, x.pods...)
		}
	} else {
		pods = append(pods, d.parts[0].pods[c.copy])
	}
	c.copy++
	for _, x := range d.parts {
		for _, text := range x.rc.info.levels[x.level].relaxed {
			given[text]++
		}
	}
	return pods
}

// relaxedReasons says which preferences were given up for pods on a node.
func relaxedReasons(given map[string]int) []why.Reason {
	texts := make([]string, 0, len(given))
	for text := range given {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	var out []why.Reason
	for _, text := range texts {
		out = append(out, why.Counted(why.Relaxed, given[text], 0, fmt.Sprintf("%s given up for %s", text, why.Count(given[text], "pod"))))
	}
	return out
}

// describe says what may be launched for a node and why the first choice is the first.
func (r *run) describe(p *problem, b *bin) *NewNode {
	m := r.m
	chosen := &m.options[b.option]
	v := &m.variants[chosen.variant]
	n := &NewNode{Pool: v.pool, Labels: v.labels}
	list, fit, relaxed := p.choices(b)
	chosen = &m.options[list[0]]
	n.MinValuesRelaxed = relaxed
	n.Choices = make([]Choice, len(list))
	for i, o := range list {
		n.Choices[i] = Choice{Type: m.options[o].typ, Offering: m.options[o].off}
	}
	_, size, _ := p.content(b.items)
	n.Requests = make(world.Resources, m.dims)
	for k, d := range p.dimIndex {
		n.Requests[d] = size[k]
	}
	if chosen.daemons != nil {
		addTo(n.Requests, chosen.daemons)
	}
	n.Why = append(n.Why, why.Counted(why.Chosen, 1, fit, "cheapest of "+why.Plural(fit, "type that fits", "types that fit")))
	if by := chosen.off.PricedBy; by != "" {
		n.Why = append(n.Why, why.New(why.Chosen, "NodeOverlay %s makes its price %s; the list price is %s", by, why.Money(chosen.price), why.Money(chosen.off.ListPrice)))
	}
	if chosen.off.Estimated {
		n.Why = append(n.Why, why.New(why.Chosen, "its price is not known; %s is an estimate from what it has, so that the type that wastes least is chosen", why.Money(chosen.price)))
	}
	for _, o := range list {
		x := &m.options[o]
		if x.typ != chosen.typ {
			n.Why = append(n.Why, why.New(why.NextBest, "next best is %s at %s, %s more", x.typ.Name, why.Money(x.price), why.Money(x.price-chosen.price)))
			break
		}
	}
	if relaxed {
		n.Why = append(n.Why, why.New(why.MinValues, "fewer distinct values than minValues asks for: best effort"))
	}
	return n
}

// plan puts the outcomes together.
func (r *run) plan(outcomes []outcome) *Plan {
	r.balance(outcomes)
	r.settle(outcomes)
	plan := &Plan{Order: r.decided}
	limits := []bounds{{by: byPrice}, {by: byCost}}
	if r.m.nodeCost == 0 { // both are the same
		limits = limits[:1]
	}
	barred := r.barred()
	for _, o := range outcomes {
		o.p.barred = barred
		q, _ := r.certain(o.p)
		for k := range limits {
			limits[k].add(q)
		}
		plan.Nodes = append(plan.Nodes, r.finish(o.p, o.bins)...)
	}
	plan.Bound, plan.CostBound = r.bound(limits)
	r.name(plan)
	r.fillExisting(plan)
	for _, rc := range r.classes {
		if rc.c.Buffer != "" {
			plan.Spare += len(rc.pods)
			plan.Kept += rc.done
		} else {
			plan.Pods += len(rc.pods)
			plan.Placed += rc.done
		}
		if rc.done == len(rc.pods) {
			continue
		}
		u := &Unplaced{Pods: rc.pods[rc.done:]}
		if !r.m.opt.Quick || len(plan.Unplaced) == 0 { // a what-if needs one reason to be dismissed
			u.Reasons = r.explain(rc)
		}
		plan.Unplaced = append(plan.Unplaced, u)
	}
	return plan
}

// name numbers the new nodes within their pools, dearest first.
func (r *run) name(plan *Plan) {
	slices.SortStableFunc(plan.Nodes, func(a, b *NewNode) int {
		if c := strings.Compare(a.Pool.Name, b.Pool.Name); c != 0 {
			return c
		}
		switch {
		case a.Price() > b.Price():
			return -1
		case a.Price() < b.Price():
			return 1
		}
		if c := strings.Compare(a.Choices[0].Type.Name, b.Choices[0].Type.Name); c != 0 {
			return c
		}
		if c := strings.Compare(a.Choices[0].Offering.Zone, b.Choices[0].Offering.Zone); c != 0 {
			return c
		}
		return podOrder(a.Pods[0], b.Pods[0])
	})
	next := map[string]int{}
	for _, n := range plan.Nodes {
		next[n.Pool.Name]++
		n.Name = fmt.Sprintf("%s-%d", n.Pool.Name, next[n.Pool.Name])
		plan.Price += n.Price()
		plan.NodeCost += n.Pool.NodeCost
	}
}

func (r *run) fillExisting(plan *Plan) {
	for _, n := range r.order {
		plan.Existing = append(plan.Existing, &Filled{Node: r.m.snap.Nodes[n], Pods: r.touched[n].pods})
	}
	slices.SortFunc(plan.Existing, func(a, b *Filled) int { return strings.Compare(a.Node.Name, b.Node.Name) })
}
