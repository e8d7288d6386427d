package pack

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// A pool that leaves labels open is split into variants, one for each combination of values, and every variant has all offerings
// of the pool as options of its own. So many options bound what a model takes in memory; fewVariants are made whatever
// that takes. Values that pods without a place ask for come first, so that what is left out now has its turn when
// those pods have their nodes.
const (
	maxOptions  = 1 << 19
	fewVariants = 128
)

// cutValues is what a pool was not split by for lack of room.
type cutValues struct {
	pool   *world.Pool
	key    string
	values []string
	most   int
}

// variantsOf splits a pool with so many offerings by the labels that its requirements leave open: pods that ask for different values
// need different nodes. With every label fixed, requirements are plain bitsets from here on.
func (m *Model) variantsOf(p *world.Pool, open []string, offers int) []variant {
	bound := cmp.Or(m.opt.variants, max(fewVariants, maxOptions/max(offers, 1)))
	base := variant{pool: p, labels: p.Labels}
	out := []variant{base}
	for _, key := range open {
		r, _ := p.Need.Get(key)
		values := m.valuesFor(r)
		if most := max(1, bound/len(out)); len(values) > most {
			c := cutValues{pool: p, key: key, most: most}
			for _, v := range values[most:] {
				if v != nil {
					c.values = append(c.values, *v)
				}
			}
			m.later = append(m.later, c)
			values = values[:most]
		}
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

// laterTurn says that a pool has not been looked at for a class, because the class requires a value that it was not split by.
func (m *Model) laterTurn(p *world.Pool, c *world.Class) (why.Reason, bool) {
	for i := range m.later {
		x := &m.later[i]
		if x.pool != p {
			continue
		}
		for _, cl := range c.Needs {
			for _, t := range cl.Terms {
				if q, ok := t.Get(x.key); ok && slices.ContainsFunc(x.values, func(v string) bool { return q.Admits(v, true) }) {
					return why.New(why.Limit, "pool %s leaves label %s open, and pods ask for more values of it than the %d that are planned at once; the turn of %s comes when others have their nodes", p.Name, x.key, x.most, q), true
				}
			}
		}
	}
	return why.Reason{}, false
}

// cutOff says whether a pool could have nodes with the label, had it been split by all values.
func (m *Model) cutOff(key, value string) bool {
	return slices.ContainsFunc(m.later, func(x cutValues) bool { return x.key == key && slices.Contains(x.values, value) })
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

// mentions lists the values that pods name for a label key, those that pods without a place require first, otherwise sorted, and
// says whether some pod spreads over it.
func (m *Model) mentions(key string) (values []string, spreadOver bool) {
	wanting := make([]bool, len(m.snap.Classes))
	for _, p := range slices.Concat(m.snap.Over().Wanting(), m.snap.Spare) {
		wanting[p.Class] = true
	}
	first := map[string]bool{}
	note := func(s req.Set) {
		if r, ok := s.Get(key); ok {
			values = append(values, r.Mentions()...)
		}
	}
	for _, c := range m.snap.Classes {
		for _, cl := range slices.Concat(c.Needs, c.Volumes) {
			for _, t := range cl.Terms {
				note(t)
				if r, ok := t.Get(key); ok && wanting[c.ID] {
					for _, v := range r.Mentions() {
						first[v] = true
					}
				}
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
	slices.SortFunc(values, func(a, b string) int {
		return cmp.Or(boolInt(first[b])-boolInt(first[a]), strings.Compare(a, b))
	})
	return slices.Compact(values), spreadOver
}
