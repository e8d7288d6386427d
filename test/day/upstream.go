package day

import (
	"cmp"
	"slices"
	"strings"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
)

// maxPrefix is how many nodes upstream looks at together.
const maxPrefix = 100

// decideUpstream is the policy of upstream Karpenter: one command at a time. First every empty node; else as many nodes as possible, in
// the order of their pods, for at most one cheaper node; else the first single node for which the same holds. Nothing is
// remembered, and a restart costs nothing.
func (s *sim) decideUpstream() {
	u := s.newUpstream()
	if len(u.empty) > 0 {
		s.start(&command{remove: u.empty})
		return
	}
	for _, f := range []func() *offer{u.prefix, u.single} {
		if o := f(); o != nil {
			s.start(&command{remove: o.remove, launch: o.add})
			return
		}
	}
}

// upstream is one decision.
type upstream struct {
	s *sim
	// candidates are those with fewest pods first; empty are those without pods, as far as the budget goes.
	candidates, empty []*node
	allowed           int
}

// offer is a command that would do.
type offer struct {
	remove []*node
	add    []pack.Choice
}

func (s *sim) newUpstream() *upstream {
	u := &upstream{s: s, allowed: s.allowed()}
	expected := s.expected()
	for _, n := range s.nodes {
		switch {
		case !s.consolidatable(n) || expected[n]:
		case len(n.pods) > 0:
			u.candidates = append(u.candidates, n)
		case len(u.empty) < u.allowed:
			u.empty = append(u.empty, n)
		}
	}
	slices.SortStableFunc(u.candidates, func(a, b *node) int {
		return cmp.Or(cmp.Compare(len(a.pods), len(b.pods)), strings.Compare(a.name, b.name))
	})
	return u
}

// prefix searches for the longest prefix of the candidates, of two nodes or more, that can go together, as if longer ones were
// never possible where a shorter one is not.
func (u *upstream) prefix() *offer {
	n := min(len(u.candidates), maxPrefix, u.allowed)
	var best *offer
	for low, high := 2, n; low <= high; {
		mid := (low + high) / 2
		if o := u.try(u.candidates[:mid]); o != nil {
			best, low = o, mid+1
		} else {
			high = mid - 1
		}
	}
	return best
}

// single is the first candidate that can go alone.
func (u *upstream) single() *offer {
	if u.allowed == 0 {
		return nil
	}
	for i := range u.candidates {
		if o := u.try(u.candidates[i : i+1]); o != nil {
			return o
		}
	}
	return nil
}

// try asks whether nodes can go: their pods, and those that are pending, fit on others that are up, or with one new node that
// costs less than they do, and less than any of them of the same type.
func (u *upstream) try(remove []*node) *offer {
	f := u.s.newFirstFit(remove)
	var pods []*pod
	for _, p := range u.s.pending {
		if p.pin == nil {
			pods = append(pods, p)
		}
	}
	for _, n := range remove {
		pods = append(pods, n.pods...)
	}
	request := func(p *pod, r int) int64 { return u.s.classes[p.set.class].Requests[r] }
	slices.SortStableFunc(pods, func(a, b *pod) int {
		return cmp.Or(cmp.Compare(request(b, world.CPU), request(a, world.CPU)), cmp.Compare(request(b, world.Memory), request(a, world.Memory)))
	})
	for _, p := range pods {
		if !f.place(p.set) {
			return nil
		}
	}
	out := &offer{remove: slices.Clone(remove)}
	if f.fresh == nil {
		return out
	}
	c, ok := f.cheapest()
	price := 0.0
	for _, n := range remove {
		price += n.price
		if n.typ == c.Type && ok && c.Offering.Price >= n.price {
			return nil
		}
	}
	if !ok || c.Offering.Price >= price {
		return nil
	}
	out.add = []pack.Choice{c}
	return out
}

// firstFit places pods one after the other on the first node that takes them, or on one new node.
type firstFit struct {
	s       *sim
	removed map[*node]bool
	free    map[*node]world.Resources
	more    map[seat]int         // pods placed, by node and set
	zone    map[zoneOf]int       // and, with removed ones counted as less, by zone and set
	fresh   world.Resources      // what the new node's pods ask for; nil while there is none
	zoneSet string               // the new node's zone, once a pod has asked for one
	on      map[*replicaSet]bool // the sets that have pods on it
}

type seat struct {
	n *node
	r *replicaSet
}

type zoneOf struct {
	zone string
	r    *replicaSet
}

func (s *sim) newFirstFit(remove []*node) *firstFit {
	f := &firstFit{s: s, removed: map[*node]bool{}, free: map[*node]world.Resources{}, more: map[seat]int{}, zone: map[zoneOf]int{}, on: map[*replicaSet]bool{}}
	for _, n := range remove {
		f.removed[n] = true
		for _, p := range n.pods {
			f.zone[zoneOf{n.zone, p.set}]--
		}
	}
	return f
}

// place finds a place for a pod of the set; it is false if one new node is not enough, or if only a node in flight takes it.
func (f *firstFit) place(r *replicaSet) bool {
	least := f.least(r)
	asks := f.s.classes[r.class].Requests
	for _, n := range f.s.nodes {
		if n.leaving || f.removed[n] || !f.admits(r, n, asks, least) {
			continue
		}
		if !n.up {
			return false
		}
		if f.free[n] == nil {
			f.free[n] = n.typ.Allocatable.Minus(n.used)
		}
		f.free[n] = f.free[n].Minus(asks)
		f.more[seat{n, r}]++
		f.zone[zoneOf{n.zone, r}]++
		return true
	}
	return f.placeNew(r, asks, least)
}

// admits says whether a node takes a pod of the set besides what has been placed on it.
func (f *firstFit) admits(r *replicaSet, n *node, asks world.Resources, least int) bool {
	if r.zonal && f.inZone(r, n.zone) > least {
		return false
	}
	free := f.free[n]
	for i, v := range asks {
		left := n.typ.Allocatable[i] - n.used[i]
		if free != nil {
			left = free[i]
		}
		if v > left {
			return false
		}
	}
	return !(r.apart || r.perHost) || n.count[r.class]+f.more[seat{n, r}] == 0
}

// placeNew puts a pod of the set on the new node.
func (f *firstFit) placeNew(r *replicaSet, asks world.Resources, least int) bool {
	if (r.apart || r.perHost) && f.on[r] {
		return false
	}
	if r.zonal && f.zoneSet == "" {
		for _, z := range f.s.zones {
			if f.inZone(r, z) == least {
				f.zoneSet = z
				break
			}
		}
	}
	if r.zonal && f.inZone(r, f.zoneSet) > least {
		return false
	}
	f.fresh = f.fresh.Plus(asks)
	f.on[r] = true
	if f.zoneSet != "" {
		f.zone[zoneOf{f.zoneSet, r}]++
	}
	return true
}

func (f *firstFit) inZone(r *replicaSet, zone string) int {
	return r.byZone[zone] + f.zone[zoneOf{zone, r}]
}

// least is the least number of the set's pods in any zone.
func (f *firstFit) least(r *replicaSet) int {
	out := f.inZone(r, f.s.zones[0])
	for _, z := range f.s.zones[1:] {
		out = min(out, f.inZone(r, z))
	}
	return out
}

// cheapest is the cheapest that the new node may be.
func (f *firstFit) cheapest() (out pack.Choice, ok bool) {
	for _, t := range f.s.pool.Types {
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if f.zoneSet != "" && o.Zone != f.zoneSet || ok && o.Price >= out.Offering.Price || !f.fresh.Fits(t.Allocatable) {
				continue
			}
			out, ok = pack.Choice{Type: t, Offering: o}, true
		}
	}
	return out, ok
}
