package disrupt

import (
	"slices"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// domainCounts counts pods by the domains of the rules that pods make for each other: required affinity and anti-affinity, and hard
// topology spread. Moves are found independently of each other; the counts say whether one still holds after those that were
// taken before it. Whatever else a pod asks of its node does not change with what happens to other nodes.
type domainCounts struct {
	classes []*world.Class
	rules   []*rule
	// placed lists, for each class, the rules that say where a pod of it may go; counted those that it counts for.
	placed, counted [][]*rule
	places          map[string]*places
	journal         []entry
}

type ruleKind byte

const (
	spreads ruleKind = iota
	joins
	parts
)

// rule is a rule that pods of some class make.
type rule struct {
	kind  ruleKind
	owner *world.Class
	key   string
	skew  int32
	least int32 // minDomains
	where *places
	// lingers says that a node which is removed counts as a domain until it is gone.
	lingers bool
	// admits says which nodes count for a spread; nil for all that have the label.
	admits []bool
	// selected are the classes that the rule looks for; own those that carry it.
	selected []bool
	// sel and own are pods in each domain, in the nodes that count; total is the sum of sel.
	sel, own, in []int32
	total        int32
}

// places is the domains of a label key: for each node its domain, or -1.
type places struct {
	key   string
	of    []int32
	names map[string]int32
}

// newDomainCounts counts the pods on nodes. It is nil where no class makes a rule.
func newDomainCounts(classes []*world.Class, nodes []*world.Node) *domainCounts {
	c := &domainCounts{classes: classes, placed: make([][]*rule, len(classes)), counted: make([][]*rule, len(classes)), places: map[string]*places{}}
	for _, cl := range classes {
		c.learn(cl)
	}
	if len(c.rules) == 0 {
		return nil
	}
	for i, n := range nodes {
		c.seat(n)
		c.count(int32(i), n, 1)
	}
	c.journal = nil
	return c
}

// hasPodRules says whether a class makes rules of its own.
func hasPodRules(c *world.Class) bool {
	required := func(t world.PodTerm) bool { return t.Weight == 0 }
	return slices.ContainsFunc(c.Affinity, required) || slices.ContainsFunc(c.AntiAffinity, required) ||
		slices.ContainsFunc(c.Spread, func(s world.Spread) bool { return s.Hard })
}

// touches says whether where a pod of the class may go depends on other pods.
func (c *domainCounts) touches(class int32) bool { return c != nil && len(c.placed[class]) > 0 }

// learn notes the rules of a class.
func (c *domainCounts) learn(cl *world.Class) {
	if !hasPodRules(cl) {
		return
	}
	for i := range cl.Spread {
		if s := &cl.Spread[i]; s.Hard {
			r := c.rule(spreads, cl, s.Key)
			r.skew, r.least, r.lingers = s.MaxSkew, s.MinDomains, s.Lingers()
			if s.Selector.Some && len(s.Selector.Need) > 0 { // an empty selector counts nobody
				c.mark(r, func(x *world.Class) bool { return x.Namespace == cl.Namespace && s.Selector.Matches(x.Labels) })
			}
			c.placed[cl.ID] = append(c.placed[cl.ID], r)
		}
	}
	all := func(x *world.Class) bool { // a pod counts for affinity if it matches every required term
		return !slices.ContainsFunc(cl.Affinity, func(t world.PodTerm) bool { return t.Weight == 0 && !picks(&t, x) })
	}
	for i := range cl.Affinity {
		if t := &cl.Affinity[i]; t.Weight == 0 {
			r := c.rule(joins, cl, t.Key)
			c.mark(r, all)
			c.placed[cl.ID] = append(c.placed[cl.ID], r)
		}
	}
	for i := range cl.AntiAffinity {
		if t := &cl.AntiAffinity[i]; t.Weight == 0 {
			r := c.rule(parts, cl, t.Key)
			c.mark(r, func(x *world.Class) bool { return picks(t, x) })
			c.placed[cl.ID] = append(c.placed[cl.ID], r)
			for id, yes := range r.selected {
				if yes && int32(id) != cl.ID {
					c.placed[id] = append(c.placed[id], r)
				}
			}
			if !r.selected[cl.ID] {
				c.counted[cl.ID] = append(c.counted[cl.ID], r)
			}
		}
	}
}

func picks(t *world.PodTerm, c *world.Class) bool {
	return (t.AllNamespaces || slices.Contains(t.Namespaces, c.Namespace)) && t.Selector.Matches(c.Labels)
}

func (c *domainCounts) rule(kind ruleKind, owner *world.Class, key string) *rule {
	p := c.places[key]
	if p == nil {
		p = &places{key: key, names: map[string]int32{}}
		c.places[key] = p
	}
	r := &rule{kind: kind, owner: owner, key: key, where: p, selected: make([]bool, len(c.classes))}
	c.rules = append(c.rules, r)
	return r
}

func (c *domainCounts) mark(r *rule, is func(*world.Class) bool) {
	for _, x := range c.classes {
		if is(x) {
			r.selected[x.ID] = true
			c.counted[x.ID] = append(c.counted[x.ID], r)
		}
	}
}

// seat makes room for one more node. A nil node is in no domain.
func (c *domainCounts) seat(n *world.Node) {
	for _, p := range c.places {
		p.add(n)
	}
	for _, r := range c.rules {
		if r.kind == spreads {
			r.admits = append(r.admits, n != nil && r.counts(n))
		}
		for int(r.where.size()) > len(r.sel) {
			r.sel, r.own, r.in = append(r.sel, 0), append(r.own, 0), append(r.in, 0)
		}
	}
}

// unseat takes back the last node.
func (c *domainCounts) unseat() {
	for _, p := range c.places {
		p.of = p.of[:len(p.of)-1]
	}
	for _, r := range c.rules {
		if r.kind == spreads {
			r.admits = r.admits[:len(r.admits)-1]
		}
	}
}

func (p *places) add(n *world.Node) {
	domain := int32(-1)
	switch {
	case n == nil:
	case p.key == world.LabelHostname: // every node is a domain of its own
		domain = int32(len(p.of))
	default:
		if v, ok := n.Labels.Get(p.key); ok {
			d, known := p.names[v]
			if !known {
				d = int32(len(p.names))
				p.names[v] = d
			}
			domain = d
		}
	}
	p.of = append(p.of, domain)
}

// size is how many domains there are.
func (p *places) size() int32 {
	if p.key == world.LabelHostname {
		return int32(len(p.of))
	}
	return int32(len(p.names))
}

// counts says whether a spread looks at the node.
func (r *rule) counts(n *world.Node) bool {
	for i := range r.owner.Spread {
		s := &r.owner.Spread[i]
		if !s.Hard {
			continue
		}
		if _, has := n.Labels.Get(s.Key); !has && s.Key != world.LabelHostname {
			return false
		}
		if s.Key != r.key {
			continue
		}
		if s.HonorAffinity && slices.ContainsFunc(r.owner.Needs, func(c world.Clause) bool { return !c.Admits(labelsOf(n)) }) {
			return false
		}
		if _, bad := world.Untolerated(n.Taints, r.owner.Tolerations, false); bad && s.HonorTaints {
			return false
		}
	}
	return true
}

func labelsOf(n *world.Node) func(string) (string, bool) {
	return func(key string) (string, bool) {
		if key == world.LabelHostname {
			return n.Hostname(), true
		}
		return n.Labels.Get(key)
	}
}

// domain is the domain of a node under the rule, or -1.
func (r *rule) domain(node int32) int32 {
	if r.kind == spreads && !r.admits[node] {
		return -1
	}
	return r.where.of[node]
}

// entry is a change that can be taken back.
type entry struct {
	r            *rule
	domain       int32
	sel, own, in int32
}

func (c *domainCounts) enter(e entry) {
	e.r.sel[e.domain] += e.sel
	e.r.own[e.domain] += e.own
	e.r.in[e.domain] += e.in
	e.r.total += e.sel
	c.journal = append(c.journal, e)
}

// count adds a node with its pods, or with a sign of -1 removes them.
func (c *domainCounts) count(i int32, n *world.Node, sign int32) {
	if n == nil {
		return
	}
	for _, r := range c.rules {
		if d := r.domain(i); d >= 0 {
			c.enter(entry{r: r, domain: d, in: sign})
		}
	}
	load := n.Load(c.classes)
	for _, x := range load.Active {
		c.add(i, x.Class, sign*x.N, false)
	}
	for _, x := range load.Going {
		c.add(i, x.Class, sign*x.N, true)
	}
}

// add counts n pods of a class on a node. Pods that are going do not count for spread.
func (c *domainCounts) add(node, class, n int32, going bool) {
	for _, r := range c.counted[class] {
		d := r.domain(node)
		if d < 0 || going && r.kind == spreads {
			continue
		}
		e := entry{r: r, domain: d}
		if r.selected[class] {
			e.sel = n
		}
		if r.kind == parts && r.owner.ID == class {
			e.own = n
		}
		c.enter(e)
	}
}

// lets says whether a pod of the class may go to a node as things stand.
func (c *domainCounts) lets(node, class int32) bool {
	for _, r := range c.placed[class] {
		d := r.domain(node)
		owns, self := r.owner.ID == class, int32(0)
		if r.selected[class] {
			self = 1
		}
		switch {
		case r.kind == spreads && (d < 0 || r.sel[d]+self-r.lowest() > r.skew):
			return false
		case r.kind == joins && (d < 0 || r.sel[d] == 0 && !(self == 1 && c.first(class))):
			return false
		case r.kind == parts && d >= 0 && (owns && r.sel[d] > 0 || self == 1 && r.own[d] > 0):
			return false
		}
	}
	return true
}

// first says whether no pod that the class's affinity asks for is anywhere.
func (c *domainCounts) first(class int32) bool {
	return !slices.ContainsFunc(c.placed[class], func(r *rule) bool { return r.kind == joins && r.total > 0 })
}

// lowest is the smallest count over the domains that there are, or 0 if there are fewer than the rule asks for.
func (r *rule) lowest() int32 {
	low, domains := int32(-1), int32(0)
	for d, n := range r.in {
		if n == 0 {
			continue
		}
		domains++
		if low < 0 || r.sel[d] < low {
			low = r.sel[d]
		}
		if low == 0 && r.least == 0 {
			return 0
		}
	}
	if domains < r.least {
		return 0
	}
	return max(low, 0)
}

// try carries a move out in the counts, or says whose rule it would break and leaves them as they were.
func (c *domainCounts) try(d *decider, m *Move) (why.Reason, bool) {
	if c == nil {
		return why.Reason{}, true
	}
	c.journal = c.journal[:0]
	for _, i := range m.Remove {
		c.count(i, d.nodes[i], -1)
		c.linger(i)
	}
	at := make(map[*world.Pod]int32, len(m.Order))
	for k, n := range m.Add {
		bare := planned(n)
		bare.Pods = nil
		c.seat(bare)
		c.count(int32(len(d.nodes)+k), bare, 1)
		c.sit(at, n.Pods, int32(len(d.nodes)+k))
	}
	for k, f := range m.Filled {
		c.sit(at, f.Pods, m.filled[k])
	}
	for _, p := range m.Order {
		if !c.lets(at[p], p.Class) {
			c.undo(m.Add)
			return why.New(why.Refused, "after the moves before it, pod %s would violate a pod affinity or anti-affinity rule", d.in.World.PodName(p)), false
		}
		c.add(at[p], p.Class, 1, false)
	}
	return why.Reason{}, true
}

// linger counts a removed node as a domain of the rules that see it until it is gone.
func (c *domainCounts) linger(node int32) {
	for _, r := range c.rules {
		if d := r.domain(node); d >= 0 && r.lingers {
			c.enter(entry{r: r, domain: d, in: 1})
		}
	}
}

func (c *domainCounts) sit(at map[*world.Pod]int32, pods []*world.Pod, node int32) {
	for _, p := range pods {
		at[p] = node
	}
}

func (c *domainCounts) undo(add []*pack.NewNode) {
	for _, e := range slices.Backward(c.journal) {
		e.r.sel[e.domain] -= e.sel
		e.r.own[e.domain] -= e.own
		e.r.in[e.domain] -= e.in
		e.r.total -= e.sel
	}
	c.journal = c.journal[:0]
	for range add {
		c.unseat()
	}
}
