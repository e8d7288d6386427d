package pack

import (
	"maps"
	"slices"

	"karpenter/internal/engine/world"
)

// ledger keeps what pools may still launch and what reservations still hold. What is committed plus what this plan takes
// never exceeds a limit.
type ledger struct {
	pools    map[*world.Pool]*account
	order    []*world.Pool // those with limits
	reserved map[string]int
}

type account struct {
	limits []world.Limit // what is left of each
	nodes  int64         // -1 for no bound
}

// newLedger charges pools with the nodes that they have, except those that are going away.
func (m *Model) newLedger(ov *world.Overlay) *ledger {
	l := &ledger{pools: map[*world.Pool]*account{}, reserved: map[string]int{}}
	byName := map[string]*account{}
	for _, p := range m.snap.Pools {
		if p.MaxNodes < 0 && len(p.Limits) == 0 {
			continue
		}
		a := &account{limits: append([]world.Limit(nil), p.Limits...), nodes: p.MaxNodes}
		l.pools[p], byName[p.Name] = a, a
		l.order = append(l.order, p)
	}
	if len(byName) > 0 {
		for i, n := range m.snap.Nodes {
			a := byName[n.Pool]
			if a == nil || n.Deleting || ov.Gone(int32(i)) {
				continue
			}
			a.charge(n.Capacity, 1)
		}
	}
	for i := range m.options {
		off := m.options[i].off
		if off.Reservation == "" {
			continue
		}
		left, seen := l.reserved[off.Reservation]
		if !seen || off.Remaining < left {
			l.reserved[off.Reservation] = off.Remaining
		}
	}
	return l
}

func (a *account) charge(capacity world.Resources, n int64) {
	for i := range a.limits {
		a.limits[i].Max = world.AddSat(a.limits[i].Max, -world.MulSat(capacity.Get(a.limits[i].Resource), n))
	}
	if a.nodes >= 0 {
		a.nodes = max(0, a.nodes-n)
	}
}

// room is how many nodes of the option may be added, at most want.
func (l *ledger) room(m *Model, o *option, want int) int {
	if o.off.Reservation != "" {
		want = min(want, l.reserved[o.off.Reservation])
	}
	a := l.pools[m.variants[o.variant].pool]
	if a == nil {
		return want
	}
	if a.nodes >= 0 {
		want = min(want, int(a.nodes))
	}
	c := capacity(o)
	for _, x := range a.limits {
		each := c.Get(x.Resource)
		switch {
		case x.Max < 0 || each > x.Max:
			return 0
		case each > 0:
			want = int(min(int64(want), x.Max/each))
		}
	}
	return want
}

// share is the largest part of what is left of a limit that a node of the option would take.
func (l *ledger) share(m *Model, o *option) float64 {
	a := l.pools[m.variants[o.variant].pool]
	if a == nil {
		return 0
	}
	most := 0.0
	if a.nodes > 0 {
		most = 1 / float64(a.nodes)
	}
	c := capacity(o)
	for _, x := range a.limits {
		if x.Max > 0 {
			most = max(most, float64(c.Get(x.Resource))/float64(x.Max))
		}
	}
	return most
}

// take enters n nodes of the option; a negative n gives them back.
func (l *ledger) take(m *Model, o *option, n int) {
	if o.off.Reservation != "" {
		l.reserved[o.off.Reservation] -= n
	}
	a := l.pools[m.variants[o.variant].pool]
	if a == nil {
		return
	}
	c := capacity(o)
	for i := range a.limits {
		a.limits[i].Max = world.AddSat(a.limits[i].Max, -world.MulSat(c.Get(a.limits[i].Resource), int64(n)))
	}
	if a.nodes >= 0 {
		a.nodes -= int64(n)
	}
}

// rows lists what is left of everything that is limited, in an order that takes shares.
func (l *ledger) rows() []int64 {
	var out []int64
	for _, p := range l.order {
		a := l.pools[p]
		for _, x := range a.limits {
			out = append(out, max(x.Max, 0))
		}
		if a.nodes >= 0 {
			out = append(out, a.nodes)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.reserved)) {
		out = append(out, int64(max(l.reserved[id], 0)))
	}
	return out
}

// takes is what a node of the option takes of each row.
func (l *ledger) takes(m *Model, o *option) []int64 {
	out := []int64{}
	c := capacity(o)
	for _, p := range l.order {
		a, own := l.pools[p], int64(boolInt(m.variants[o.variant].pool == p))
		for _, x := range a.limits {
			out = append(out, own*c.Get(x.Resource))
		}
		if a.nodes >= 0 {
			out = append(out, own)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.reserved)) {
		out = append(out, int64(boolInt(o.off.Reservation == id)))
	}
	return out
}

func (l *ledger) clone() *ledger {
	c := &ledger{order: l.order, pools: make(map[*world.Pool]*account, len(l.pools)), reserved: make(map[string]int, len(l.reserved))}
	for p, a := range l.pools {
		c.pools[p] = &account{limits: slices.Clone(a.limits), nodes: a.nodes}
	}
	for k, v := range l.reserved {
		c.reserved[k] = v
	}
	return c
}
