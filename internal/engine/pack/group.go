package pack

import (
	"slices"
	"strconv"
	"strings"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

type reqSet = req.Set

type groupKind byte

const (
	spreadGroup   groupKind = 's'
	affinityGroup groupKind = 'a'
	antiGroup     groupKind = 'x'
)

// group is one counting rule that any number of classes share: how many pods that a selector picks are in each domain of a
// node label. Its seed counts what runs already; a solve counts on from there.
type group struct {
	id    int
	kind  groupKind
	key   string
	host  bool // the label is the hostname: every node is a domain of its own
	hard  bool // required; a preferred anti-affinity keeps only its owner away
	skew  int32
	least int32 // minDomains
	topo  *topology
	// lingers says that a node which is removed counts as a domain until it is gone.
	lingers bool
	// selected holds the classes whose pods count; owners those that carry the rule.
	selected bitset
	owners   bitset

	seeded  bool
	sel     []int32 // selected pods per domain (per node for host groups)
	own     []int32 // pods that carry a required anti-affinity, likewise
	inNodes []int32 // nodes per domain
}

// topology maps options and nodes to the domains of a label key, as seen through a filter; -1 is outside. Options have no host
// yet: for the hostname, counts holds those that pass the filter.
type topology struct {
	counts  bitset
	id      int
	key     string
	domains []string
	option  []int32
	node    []int32
}

// spreadGroup finds the counting rule of a topology spread constraint.
func (m *Model) spreadGroup(c *world.Class, s *world.Spread) *group {
	var clauses []world.Clause
	if s.HonorAffinity {
		clauses = slices.Clone(c.Needs)
	}
	for i := range c.Spread { // a node counts only if it has the labels of every constraint
		if o := &c.Spread[i]; o.Hard && o.Key != s.Key && o.Key != world.LabelHostname {
			if has, err := req.New(o.Key, req.Exists); err == nil {
				clauses = append(clauses, world.Clause{Terms: []req.Set{{has}}})
			}
		}
	}
	var tols []world.Toleration
	if s.HonorTaints {
		tols = c.Tolerations
	}
	g := &group{kind: spreadGroup, key: s.Key, hard: true, skew: s.MaxSkew, least: s.MinDomains, lingers: s.Lingers()}
	g.topo = m.topology(s.Key, clauses, s.HonorTaints, tols)
	scope := podScope{selector: s.Selector, namespaces: []string{c.Namespace}}
	if len(s.Selector.Need) == 0 { // kube-scheduler counts nothing for an empty selector; the node needs the label all the same
		scope.selector = world.Selector{}
	}
	return m.intern(g, []podScope{scope}, c)
}

// affinityGroups finds the rules of a class's affinity terms, of which dropped preferred ones are given up. A pod counts
// for required terms only if it matches all of them, as kube-scheduler has it.
func (m *Model) affinityGroups(c *world.Class, dropped int) []*group {
	var required []podScope
	for i := range c.Affinity {
		if t := &c.Affinity[i]; t.Weight == 0 {
			required = append(required, scopeOf(t))
		}
	}
	var out []*group
	for i := range c.Affinity {
		t := &c.Affinity[i]
		scope := required
		if t.Weight > 0 {
			if dropped > 0 {
				dropped--
				continue
			}
			scope = []podScope{scopeOf(t)}
		}
		g := &group{kind: affinityGroup, key: t.Key, hard: t.Weight == 0, topo: m.topology(t.Key, nil, false, nil)}
		out = append(out, m.intern(g, scope, c))
	}
	return out
}

func (m *Model) antiGroup(c *world.Class, t *world.PodTerm) *group {
	g := &group{kind: antiGroup, key: t.Key, hard: t.Weight == 0, topo: m.topology(t.Key, nil, false, nil)}
	return m.intern(g, []podScope{scopeOf(t)}, c)
}

// podScope picks pods by labels and namespace.
type podScope struct {
	selector   world.Selector
	namespaces []string
	all        bool
}

func scopeOf(t *world.PodTerm) podScope {
	return podScope{selector: t.Selector, namespaces: t.Namespaces, all: t.AllNamespaces}
}

func (s podScope) picks(c *world.Class) bool {
	return (s.all || slices.Contains(s.namespaces, c.Namespace)) && s.selector.Matches(c.Labels)
}

func (s podScope) appendKey(b []byte) []byte {
	if s.all {
		b = append(b, '*')
	}
	b = append(b, strings.Join(s.namespaces, ",")...)
	if !s.selector.Some {
		return append(b, '!')
	}
	return s.selector.Need.AppendKey(b)
}

// intern returns the group that equals g, noting that c carries it.
func (m *Model) intern(g *group, scopes []podScope, c *world.Class) *group {
	g.host = g.key == world.LabelHostname
	key := []byte{byte(g.kind), byte('0' + boolInt(g.hard))}
	for _, n := range []int64{int64(g.topo.id), int64(g.skew), int64(g.least)} {
		key = append(strconv.AppendInt(key, n, 10), '/')
	}
	for _, s := range scopes {
		key = s.appendKey(key)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old, ok := m.groups[string(key)]
	if !ok {
		g.id = len(m.groups)
		g.selected, g.owners = m.picked(scopes), newBitset(len(m.snap.Classes))
		m.groups[string(key)] = g
		old = g
	}
	old.owners.add(int(c.ID))
	return old
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// picked is the set of classes that every scope picks. A selector that names a label value is looked up by it.
func (m *Model) picked(scopes []podScope) bitset {
	out := newBitset(len(m.snap.Classes))
	candidates := m.candidates(scopes[0].selector)
	for _, id := range candidates {
		c := m.snap.Classes[id]
		if !slices.ContainsFunc(scopes, func(s podScope) bool { return !s.picks(c) }) {
			out.add(int(id))
		}
	}
	return out
}

// candidates lists classes that a selector could pick, by its most telling requirement.
func (m *Model) candidates(s world.Selector) []int32 {
	if m.byLabel == nil {
		m.byLabel = map[world.Label][]int32{}
		for _, c := range m.snap.Classes {
			m.allClasses = append(m.allClasses, c.ID)
			for _, l := range c.Labels {
				m.byLabel[l] = append(m.byLabel[l], c.ID)
			}
		}
	}
	for _, r := range s.Need {
		if values, ok := r.Values(); ok && len(values) == 1 && !r.AdmitsAbsent() {
			return m.byLabel[world.Label{Key: r.Key, Value: values[0]}]
		}
	}
	return m.allClasses
}

// topology maps the domains of a key as seen through node affinity and taints.
func (m *Model) topology(key string, clauses []world.Clause, taints bool, tols []world.Toleration) *topology {
	id := []byte(key)
	optFilter, nodeFilter := fullBitset(len(m.options)), fullBitset(len(m.nodes))
	for _, c := range clauses {
		cm := m.clause(c)
		optFilter.and(cm.options)
		nodeFilter.and(cm.nodes)
		id = append(id, '#')
		id = strconv.AppendInt(id, int64(cm.id), 10)
	}
	if taints {
		tm := m.toleration(tols)
		optFilter.and(tm.options[hardOnly])
		nodeFilter.and(tm.nodes[hardOnly])
		id = append(id, '!')
		id = strconv.AppendInt(id, int64(tm.id), 10)
	}
	m.mu.Lock()
	t, ok := m.topologies[string(id)]
	m.mu.Unlock()
	if ok {
		return t
	}
	t = &topology{key: key, option: make([]int32, len(m.options)), node: make([]int32, len(m.nodes))}
	index := map[string]int32{}
	if key == world.LabelHostname {
		m.hostTopology(t, nodeFilter)
		t.counts = optFilter
	} else {
		t.fill(m.optCols.column(key), optFilter, t.option, index)
		t.fill(m.nodeCols.column(key), nodeFilter, t.node, index)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.topologies[string(id)]; ok {
		return old
	}
	t.id = len(m.topologies)
	m.topologies[string(id)] = t
	return t
}

// hostTopology makes every node a domain of its own; options have none until they are nodes.
func (m *Model) hostTopology(t *topology, nodeFilter bitset) {
	for i := range t.node {
		t.node[i] = -1
		if nodeFilter.has(i) {
			t.node[i] = int32(i)
		}
	}
	for i := range t.option {
		t.option[i] = -1
	}
}

func (t *topology) fill(col *column, filter bitset, of []int32, index map[string]int32) {
	for i, v := range col.of {
		of[i] = -1
		if v < 0 || !filter.has(i) {
			continue
		}
		d, ok := index[col.values[v]]
		if !ok {
			d = int32(len(t.domains))
			index[col.values[v]] = d
			t.domains = append(t.domains, col.values[v])
		}
		of[i] = d
	}
}

// seed counts the pods that run already. It is called once per group, under the model's lock.
func (m *Model) seed(g *group) {
	m.locate()
	m.mu.Lock()
	defer m.mu.Unlock()
	if g.seeded {
		return
	}
	g.seeded = true
	n := len(g.topo.domains)
	if g.host {
		n = len(m.nodes)
	}
	g.sel, g.own, g.inNodes = make([]int32, n), make([]int32, n), make([]int32, n)
	for _, d := range g.topo.node {
		if d >= 0 { // a node that is going away counts while it is there
			g.inNodes[d]++
		}
	}
	g.tally(g.selected, m.byClass, g.sel)
	if g.kind == spreadGroup {
		return
	}
	g.tally(g.selected, m.byGoing, g.sel)
	if g.kind == antiGroup && g.hard {
		g.tally(g.owners, m.byClass, g.own)
		g.tally(g.owners, m.byGoing, g.own)
	}
}

// tally adds the pods of some classes to their domains.
func (g *group) tally(classes bitset, where [][]classOnNode, into []int32) {
	for c := range classes.each {
		for _, on := range where[c] {
			if d := g.topo.node[on.node]; d >= 0 {
				into[d] += on.n
			}
		}
	}
}
