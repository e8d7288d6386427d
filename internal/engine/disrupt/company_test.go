package disrupt

import (
	"slices"

	"karpenter/internal/engine/world"
)

// pod checks what a pod that is about to be bound asks of its node and of the pods around it.
func (a *auditor) pod(st *seat, p *world.Pod) {
	a.own(st, p)
	c := a.class(p)
	for _, t := range c.AntiAffinity {
		if t.Weight == 0 && a.matches(t, st, p) > 0 {
			a.fail("%s on %s breaks its anti-affinity over %s", p.Name, st.name, t.Key)
		}
	}
	for _, t := range c.Affinity {
		if t.Weight == 0 && a.matches(t, st, p) == 0 && !a.bootstraps(t, c) {
			a.fail("%s on %s breaks its affinity over %s", p.Name, st.name, t.Key)
		}
	}
	for i := range c.Spread {
		if x := &c.Spread[i]; x.Hard {
			a.spread(x, c, st)
		}
	}
	for _, other := range a.seats {
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

func (a *auditor) matches(t world.PodTerm, st *seat, p *world.Pod) int {
	n := 0
	for _, other := range a.seats {
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

// bootstraps says whether a pod may be the first of its kind.
func (a *auditor) bootstraps(t world.PodTerm, c *world.Class) bool {
	if !t.Selector.Matches(c.Labels) {
		return false
	}
	for _, st := range a.seats {
		if _, has := st.labels(t.Key); !has {
			continue
		}
		for _, q := range st.pods {
			if a.picks(t, q) {
				return false
			}
		}
	}
	return true
}

// spread checks the skew of the domain that a pod is put into, over the nodes that count.
func (a *auditor) spread(x *world.Spread, c *world.Class, st *seat) {
	count := map[string]int32{}
	seats := a.seats
	if x.Key == world.LabelHostname && !x.HonorTaints {
		seats = slices.Concat(seats, a.gone) // kube-scheduler sees them until they are gone
	}
	for _, other := range seats {
		v, ok := other.labels(x.Key)
		if !ok || x.Key == world.LabelHostname && other.fresh && !st.fresh && other != st {
			continue // whether a node that has just been made is there yet is a matter of moments
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
		count[v] += 0
		for _, q := range other.pods {
			if qc := a.class(q); qc.Namespace == c.Namespace && x.Selector.Matches(qc.Labels) && !q.Terminating {
				count[v]++
			}
		}
	}
	own, has := st.labels(x.Key)
	least := int32(-1)
	for _, n := range count {
		if least < 0 || n < least {
			least = n
		}
	}
	if x.MinDomains > int32(len(count)) || least < 0 || x.Key == world.LabelHostname && st.fresh {
		least = 0
	}
	self := int32(0)
	if x.Selector.Matches(c.Labels) {
		self = 1
	}
	if !has || count[own]+self-least > x.MaxSkew {
		a.fail("pods on %s are %d over the least %d of %s, of at most %d", st.name, count[own]+self, least, x.Key, x.MaxSkew)
	}
}
