package pack

import (
	"slices"

	"karpenter/internal/engine/world"
)

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

// soft is which preferences a level still holds.
type soft struct {
	affinity, anti, node, spread int // how many of each kind have been given up
	taints                       int // hardOnly or softToo
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
