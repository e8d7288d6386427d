package pack

import (
	"slices"
	"sync"

	"karpenter/internal/engine/world"
)

// classInfo is what the model knows about a class, found out when first asked.
type classInfo struct {
	once   sync.Once
	size   []int64
	levels []level

	nodesOnce sync.Once
	order     []int32 // nodes that could take one pod as things stand, best score first
}

// level is a class with some of its preferences given up. Level 0 has them all; each further one gives up one more.
type level struct {
	options bitset // where the labels, taints and volumes allow the class
	nodes   bitset
	mask    int         // identifies options among the model's masks
	prefer  *clauseMask // the node preference that counts as required; nil for none
	taints  int         // hardOnly or softToo
	// refs are the topology groups that constrain the class at this level.
	refs    []*group
	relaxed []string // what was given up, for people
}

// required is where the class may go with every preference given up.
func (ci *classInfo) required() bitset { return ci.levels[len(ci.levels)-1].options }

// soft is which preferences a level still holds.
type soft struct {
	affinity, anti, node, spread int // how many of each kind have been given up
	taints                       int // hardOnly or softToo
}

// class looks a class up.
func (m *Model) class(id int32) *classInfo {
	ci := m.classes[id]
	ci.once.Do(func() { m.fillClass(ci, m.snap.Classes[id]) })
	return ci
}

func (m *Model) fillClass(ci *classInfo, c *world.Class) {
	ci.size = m.vector0(c.Requests)
	tol := m.toleration(c.Tolerations)
	options, nodes := m.stock.clone(), fullBitset(len(m.nodes))
	var filter []world.Clause
	for _, cl := range c.Needs {
		cm := m.clause(cl)
		options.and(cm.options)
		nodes.and(cm.nodes)
		filter = append(filter, cl)
	}
	for _, cl := range c.Volumes {
		cm := m.clause(cl)
		options.and(cm.options)
		nodes.and(cm.nodes)
	}
	prefers := m.possible(c.Prefers, options, nodes)
	b := classBuilder{m: m, c: c, tol: tol, options: options, nodes: nodes, prefers: prefers, filter: filter}
	for _, s := range b.ladder() {
		ci.levels = append(ci.levels, b.level(s))
	}
}

// possible drops node preferences that nothing can satisfy, so that giving them up costs no other preference.
func (m *Model) possible(prefers []world.Preference, options, nodes bitset) []*clauseMask {
	if m.opt.IgnorePreferences {
		return nil
	}
	var out []*clauseMask
	for _, p := range prefers {
		cm := m.clause(world.Clause{Terms: []reqSet{p.Term}})
		if cm.options.meets(options) || cm.nodes.meets(nodes) {
			out = append(out, cm)
		}
	}
	return out
}

type classBuilder struct {
	m              *Model
	c              *world.Class
	tol            *tolerationMask
	options, nodes bitset
	prefers        []*clauseMask
	filter         []world.Clause
}

func preferred(ts []world.PodTerm) int {
	n := 0
	for _, t := range ts {
		if t.Weight > 0 {
			n++
		}
	}
	return n
}

// ladder lists which preferences to give up, in the documented order: pod affinity, pod anti-affinity, node affinity, spread
// that may be broken, and last the taints that only discourage.
func (b *classBuilder) ladder() []soft {
	s := soft{taints: softToo}
	softSpread := 0
	for _, x := range b.c.Spread {
		if !x.Hard {
			softSpread++
		}
	}
	out := []soft{s}
	if b.m.opt.IgnorePreferences {
		out[0].affinity, out[0].anti, out[0].spread = preferred(b.c.Affinity), preferred(b.c.AntiAffinity), softSpread
		s = out[0]
	} else {
		for _, step := range []struct {
			n  int
			at *int
		}{
			{preferred(b.c.Affinity), &s.affinity}, {preferred(b.c.AntiAffinity), &s.anti}, {len(b.prefers), &s.node}, {softSpread, &s.spread},
		} {
			for range step.n {
				*step.at++
				out = append(out, s)
			}
		}
	}
	if !slices.Equal(b.tol.options[hardOnly], b.tol.options[softToo]) || !slices.Equal(b.tol.nodes[hardOnly], b.tol.nodes[softToo]) {
		s.taints = hardOnly
		out = append(out, s)
	}
	return out
}

// level builds the class with the preferences that s leaves.
func (b *classBuilder) level(s soft) level {
	l := level{options: b.options.clone(), nodes: b.nodes.clone(), taints: s.taints}
	l.options.and(b.tol.options[s.taints])
	l.nodes.and(b.tol.nodes[s.taints])
	if s.node < len(b.prefers) { // only the heaviest preference left counts as required
		l.prefer = b.prefers[s.node]
		l.options.and(l.prefer.options)
		l.nodes.and(l.prefer.nodes)
	}
	l.mask = b.m.maskID(l.options)
	skip := s.spread
	for i := range b.c.Spread {
		x := &b.c.Spread[i]
		if !x.Hard && skip > 0 {
			skip--
			l.relaxed = append(l.relaxed, "spread over "+x.Key)
			continue
		}
		l.refs = append(l.refs, b.m.spreadGroup(b.c, x))
	}
	l.refs = append(l.refs, b.m.affinityGroups(b.c, s.affinity)...)
	skip = s.anti
	for i := range b.c.AntiAffinity {
		t := &b.c.AntiAffinity[i]
		if t.Weight > 0 && skip > 0 {
			skip--
			l.relaxed = append(l.relaxed, "pod anti-affinity over "+t.Key)
			continue
		}
		l.refs = append(l.refs, b.m.antiGroup(b.c, t))
	}
	if s.affinity > 0 {
		l.relaxed = append(l.relaxed, "preferred pod affinity")
	}
	if s.node > 0 {
		l.relaxed = append(l.relaxed, "preferred node affinity")
	}
	if s.taints == hardOnly {
		l.relaxed = append(l.relaxed, "PreferNoSchedule taints")
	}
	return l
}

// maskID numbers distinct option sets.
func (m *Model) maskID(b bitset) int {
	key := string(b.appendKey(nil))
	m.mu.Lock()
	defer m.mu.Unlock()
	id, ok := m.maskIDs[key]
	if !ok {
		id = len(m.masks)
		m.maskIDs[key] = id
		m.masks = append(m.masks, b)
	}
	return id
}

// nodeOrder lists the nodes that could take one pod of the class as things stand, best first. Levels only narrow it.
func (m *Model) nodeOrder(id int32) []int32 {
	ci := m.class(id)
	ci.nodesOnce.Do(func() {
		c := m.snap.Classes[id]
		union := newBitset(len(m.nodes))
		for _, l := range ci.levels {
			union.or(l.nodes)
		}
		type scored struct {
			node  int32
			score int64
		}
		var list []scored
		for i := range union.each {
			n := &m.nodes[i]
			if n.target && fits(ci.size, n.free) {
				list = append(list, scored{int32(i), score(c, n.node.Allocatable, n.used)})
			}
		}
		slices.SortFunc(list, func(a, b scored) int {
			if a.score != b.score {
				if a.score > b.score {
					return -1
				}
				return 1
			}
			return int(m.nodeRank[a.node]) - int(m.nodeRank[b.node])
		})
		ci.order = make([]int32, len(list))
		for i, s := range list {
			ci.order[i] = s.node
		}
	})
	return ci.order
}
