package explain

import (
	"fmt"
	"slices"
	"strings"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// steps of quantities that people write: 10 millicores, 16 MiB.
const (
	cpuStep    = 10
	memoryStep = 16 << 20
)

// requests makes the pod ask for less: of one resource as much as would still be had, else of all.
func (q *podQuestion) requests(class *world.Class) []tweak {
	var out []tweak
	for d, v := range class.Requests {
		if v > 0 && d != world.PodSlot && !strings.HasPrefix(q.c.world.Resources[d], world.AttachPrefix) {
			out = append(out, q.request(d, v))
		}
	}
	if len(out) < 2 {
		return out
	}
	percent := int64(-1)
	scaled := func(n int64) world.Resources {
		r := slices.Clone(class.Requests)
		for d := range r {
			if d != world.PodSlot {
				r[d] = r[d] / 100 * n
			}
		}
		return r
	}
	return append(out, tweak{
		last: true, alone: true,
		what: func(l *landing) string {
			if l == nil || percent <= 0 {
				return "Requesting less of everything"
			}
			return fmt.Sprintf("Requesting at most %s of everything (%s)", why.Percent(float64(percent)/100), q.c.amounts(scaled(percent)))
		},
		do: func(t *trial) {
			if percent < 0 {
				percent = q.largest(100, func(t *trial, n int64) { t.class.Requests = scaled(n) })
			}
			t.class.Requests = scaled(percent)
		},
	})
}

// request makes the pod ask for less of one resource.
func (q *podQuestion) request(d int, v int64) tweak {
	step := int64(1)
	switch d {
	case world.CPU:
		step = cpuStep
	case world.Memory, world.Storage:
		step = memoryStep
	}
	most := int64(-1) // found out when it is tried for the first time
	set := func(t *trial, n int64) { t.class.Requests = slices.Clone(t.class.Requests).Set(d, n*step) }
	name := q.c.world.Resources[d]
	return tweak{
		alone: true,
		weak:  func() bool { return most*step < v/2 },
		what: func(l *landing) string {
			if l == nil || most <= 0 {
				return "Requesting less " + name
			}
			return fmt.Sprintf("Requesting at most %s %s (now %s)", q.c.amount(d, most*step), name, q.c.amount(d, v))
		},
		do: func(t *trial) {
			if most < 0 {
				most = q.largest((v-1)/step+1, set)
			}
			set(t, most)
		},
	}
}

// largest is the largest number below high with which the pod fits; 0 if there is none.
func (q *podQuestion) largest(high int64, set func(*trial, int64)) int64 {
	fits := func(n int64) bool {
		l, _ := q.try(&tweak{do: func(t *trial) { set(t, n) }})
		return l != nil
	}
	low := int64(0)
	if !fits(low) {
		return 0
	}
	for high--; low < high; {
		if mid := (low + high + 1) / 2; fits(mid) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// limits raises the limits of a pool by what a node for the pod takes.
func (q *podQuestion) limits(p *world.Pool) []tweak {
	if len(p.Limits) == 0 && p.MaxNodes < 0 {
		return nil
	}
	return []tweak{{
		what: func(l *landing) string {
			if l == nil || l.node == nil {
				return "Raising the limits of pool " + p.Name
			}
			return q.raise(p, l)
		},
		do: func(t *trial) {
			x := t.pool(p.Name)
			x.Limits, x.MaxNodes = nil, -1
		},
	}}
}

// raise says which limits have to be raised, and how far.
func (q *podQuestion) raise(p *world.Pool, l *landing) string {
	var used world.Resources
	nodes := int64(0)
	for _, n := range q.base.Nodes {
		if n.Pool == p.Name && !n.Deleting {
			used = used.Plus(n.Capacity)
			nodes++
		}
	}
	x := l.node.Choices[0]
	capacity := x.Type.Capacity
	if x.Offering.Capacity != nil {
		capacity = x.Offering.Capacity
	}
	var parts []string
	for _, lim := range p.Limits {
		if needs := used.Get(lim.Resource) + capacity.Get(lim.Resource); needs > lim.Max {
			parts = append(parts, fmt.Sprintf("%s from %s to %s", q.c.world.Resources[lim.Resource], q.c.amount(lim.Resource, lim.Max), q.c.amount(lim.Resource, needs)))
		}
	}
	if p.MaxNodes >= 0 && nodes+1 > p.MaxNodes {
		parts = append(parts, fmt.Sprintf("nodes from %d to %d", p.MaxNodes, nodes+1))
	}
	if len(parts) == 0 {
		return "Raising the limits of pool " + p.Name
	}
	return fmt.Sprintf("Raising the limit of pool %s for %s", p.Name, strings.Join(parts, " and for "))
}

// poolTweaks changes what a pool may make.
func poolTweaks(p *world.Pool) []tweak {
	if p.Refused != "" {
		return []tweak{{what: saying(fmt.Sprintf("Making pool %s usable (it %s)", p.Name, p.Refused)), do: func(t *trial) { t.pool(p.Name).Refused = "" }}}
	}
	var out []tweak
	few := false
	for _, r := range p.Need {
		few = few || hasMinValues(r)
		if _, fixed := p.Labels.Get(r.Key); fixed || r.Key == world.LabelPool {
			continue
		}
		out = append(out, tweak{
			what: func(l *landing) string {
				if l != nil {
					if v, ok := l.label(r.Key); ok {
						return fmt.Sprintf("Letting pool %s use %s %s (now %s)", p.Name, r.Key, v, relation(r))
					}
				}
				return fmt.Sprintf("Dropping %s from pool %s", r.String(), p.Name)
			},
			do: func(t *trial) {
				x := t.pool(p.Name)
				x.Need = slices.DeleteFunc(slices.Clone(x.Need), func(y req.Requirement) bool { return y.Key == r.Key })
			},
		})
	}
	if few {
		out = append([]tweak{{what: saying("Dropping minValues from pool " + p.Name), do: func(t *trial) { dropMinValues(t.pool(p.Name)) }}}, out...)
	}
	return append(out, tweak{
		what: func(l *landing) string {
			if l == nil || l.node == nil {
				return "More stock for pool " + p.Name
			}
			x := l.node.Choices[0]
			return fmt.Sprintf("Stock of %s in %s (%s), which is out now,", x.Type.Name, x.Offering.Zone, x.Offering.CapacityType)
		},
		do: func(t *trial) { restock(t.pool(p.Name)) },
	})
}

func dropMinValues(p *world.Pool) {
	p.Need = slices.Clone(p.Need)
	for i := range p.Need {
		p.Need[i].MinValues = 0
	}
}

// restock makes everything available that the pool lists.
func restock(p *world.Pool) {
	p.Types = slices.Clone(p.Types)
	for i, t := range p.Types {
		if !outOfStock(t) {
			continue
		}
		c := *t
		c.Offerings = slices.Clone(t.Offerings)
		for k := range c.Offerings {
			o := &c.Offerings[k]
			o.Available = true
			if o.Full() {
				o.Remaining = 1
			}
		}
		p.Types[i] = &c
	}
}

func hasMinValues(r req.Requirement) bool { return r.MinValues > 0 }

func outOfStock(t *world.InstanceType) bool {
	return slices.ContainsFunc(t.Offerings, func(o world.Offering) bool { return !o.Launchable() })
}
