package pack

import (
	"slices"
	"strconv"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// maxVariants bounds how many combinations of open labels one pool is split into; a pool that leaves more open is planned
// with the first values of each key.
const maxVariants = 128

// variantsOf splits a pool by the labels that its requirements leave open: pods that ask for different values need different
// nodes. With every label fixed, requirements are plain bitsets from here on.
func (m *Model) variantsOf(p *world.Pool, open []string) []variant {
	base := variant{pool: p, labels: p.Labels}
	out := []variant{base}
	for _, key := range open {
		r, _ := p.Need.Get(key)
		values := m.valuesFor(r)
		values = values[:min(len(values), max(1, maxVariants/len(out)))]
		var next []variant
		for _, v := range out {
			for _, val := range values {
				if val == nil {
					next = append(next, v)
					continue
				}
				w := v
				w.labels = v.labels.With(r.Key, *val)
				w.extra = v.extra.With(r.Key, *val)
				next = append(next, w)
			}
		}
		out = next
	}
	return out
}

// valuesFor lists the values worth telling apart for an open key; nil stands for a node without the label.
func (m *Model) valuesFor(r req.Requirement) []*string {
	mentioned, spreadOver := m.mentions(r.Key)
	var out []*string
	add := func(v string) {
		if r.Admits(v, true) && !slices.ContainsFunc(out, func(o *string) bool { return o != nil && *o == v }) {
			out = append(out, &v)
		}
	}
	if r.AdmitsAbsent() {
		out = append(out, nil)
	}
	enumerated, listed := r.Values()
	for _, v := range mentioned {
		add(v)
	}
	if listed {
		for _, v := range enumerated {
			if len(out) == 0 || spreadOver || !slices.Contains(mentioned, v) {
				add(v)
				if !spreadOver {
					break // one value that nobody names stands for all of them
				}
			}
		}
		return out
	}
	if !r.AdmitsAbsent() {
		for _, e := range (req.Set{r}).Entries() { // a bound admits itself
			for _, v := range e.Values {
				add(v)
			}
		}
		for n := 0; n <= len(mentioned) && len(out) <= len(mentioned); n++ {
			add(strconv.Itoa(n))
		}
	}
	return out
}

// mentions lists the values that pods name for a label key, sorted, and says whether some pod spreads over it.
func (m *Model) mentions(key string) (values []string, spreadOver bool) {
	note := func(s req.Set) {
		if r, ok := s.Get(key); ok {
			values = append(values, r.Mentions()...)
		}
	}
	for _, c := range m.snap.Classes {
		for _, cl := range slices.Concat(c.Needs, c.Volumes) {
			for _, t := range cl.Terms {
				note(t)
			}
		}
		for _, p := range c.Prefers {
			note(p.Term)
		}
		for _, s := range c.Spread {
			spreadOver = spreadOver || s.Key == key
		}
		for _, t := range slices.Concat(c.Affinity, c.AntiAffinity) {
			spreadOver = spreadOver || t.Key == key
		}
	}
	slices.Sort(values)
	return slices.Compact(values), spreadOver
}
