package pack

import (
	"slices"
)

// maxHosts bounds how many nodes are asked whether they have room for what another gives up.
const maxHosts = 48

// room is a node of the plan that may take more.
type room struct {
	at    int // index in the plan
	free  []int64
	items []itemCount
	host  []hostCount
	known bool // host is filled in
	ports []port
	dirty bool
}

// dissolve spreads what is on one node over the free room of others, and buys something smaller for what does not fit. It
// returns what that saved and how many placements it looked at.
func (s *search) dissolve() (gain float64, looked int) {
	at := s.pickSmall()
	b := &s.bins[at]
	if len(s.bins) < 2 {
		return 0, 1
	}
	hosts := s.hosts(at)
	var rest []itemCount
	for _, g := range s.bySize(b.items) {
		left := g.n
		for left > 0 {
			looked += len(hosts)
			h := s.roomiest(hosts, g.item)
			if h == nil {
				break
			}
			h.add(s.p, g.item)
			left--
		}
		if left > 0 {
			rest = append(rest, itemCount{g.item, left})
		}
	}
	gain = b.cost
	var smaller bin
	if len(rest) > 0 {
		cells, size, ports := s.p.content(rest)
		cell, k := s.p.price(cells, size, ports)
		if k < 0 {
			return 0, looked
		}
		cd := &s.p.cells[cell].cands[k]
		smaller = bin{cell: int32(cell), option: cd.option, items: rest, cost: cd.cost}
		gain -= smaller.cost
	}
	if gain < 1e-9 || !s.affordable(hosts, &smaller, rest) {
		return 0, looked
	}
	for _, h := range hosts {
		if h.dirty {
			s.bins[h.at].items = h.items
		}
	}
	s.p.ledger.take(s.p.m, &s.p.m.options[b.option], -1)
	if len(rest) > 0 {
		s.p.ledger.take(s.p.m, &s.p.m.options[smaller.option], 1)
		s.bins[at] = smaller
	} else {
		s.bins = slices.Delete(s.bins, at, at+1)
	}
	return gain, looked
}

// affordable checks the pools' minValues, the one rule that room on a node does not show.
func (s *search) affordable(hosts []*room, smaller *bin, rest []itemCount) bool {
	if s.p.plain {
		return true
	}
	for _, h := range hosts {
		if o := s.bins[h.at].option; h.dirty && hasMinValues(s.p.poolOf(o)) && !s.p.enoughChoice(h.items, o) {
			return false
		}
	}
	return len(rest) == 0 || !hasMinValues(s.p.poolOf(smaller.option)) || s.p.enoughChoice(rest, smaller.option)
}

// pickSmall chooses a node to dissolve: of a few, the one that wastes the largest share of its cost.
func (s *search) pickSmall() int {
	best, at := -1.0, 0
	for range 6 {
		k := s.next(len(s.bins))
		if w := s.waste(&s.bins[k]) / s.bins[k].cost; w > best {
			best, at = w, k
		}
	}
	return at
}

// bySize lists items with the most valuable first: they are hardest to place.
func (s *search) bySize(items []itemCount) []itemCount {
	out := slices.Clone(items)
	slices.SortStableFunc(out, func(a, b itemCount) int {
		x, y := s.x.value[a.item], s.x.value[b.item]
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return int(a.item) - int(b.item)
	})
	return out
}

// hosts opens other nodes for what is to be spread, at most maxHosts of them from a random start.
func (s *search) hosts(except int) []*room {
	var out []*room
	start := s.next(len(s.bins))
	for i := range s.bins {
		k := (start + i) % len(s.bins)
		if k == except {
			continue
		}
		out = append(out, s.open(k))
		if len(out) == maxHosts {
			break
		}
	}
	return out
}

func (s *search) open(k int) *room {
	b := &s.bins[k]
	o := &s.p.m.options[b.option]
	r := &room{at: k, items: b.items, free: project(o.net, s.p.dimIndex), ports: o.ports}
	_, size, ports := s.p.content(b.items)
	subFrom(r.free, size)
	if len(ports) > 0 {
		r.ports = slices.Concat(r.ports, ports)
	}
	return r
}

// roomiest is the node with least left over that may take one more of the item, or nil.
func (s *search) roomiest(hosts []*room, i int32) *room {
	it := &s.p.items[i]
	var best *room
	bestLeft := 0.0
	for _, h := range hosts {
		if !fits(it.size, h.free) || !it.cells.has(int(s.bins[h.at].cell)) || !h.may(s.p, it, i) {
			continue
		}
		left := 0.0
		w := s.fillers[0].weight[s.p.cells[s.bins[h.at].cell].market]
		for r, v := range it.size {
			left += float64(w[r] * float64(h.free[r]-v))
		}
		if best == nil || left < bestLeft {
			best, bestLeft = h, left
		}
	}
	return best
}

// may checks everything but resources.
func (h *room) may(p *problem, it *item, i int32) bool {
	if len(it.host) > 0 {
		if !h.known {
			h.known = true
			for _, g := range h.items {
				h.host = addHosts(h.host, &p.items[g.item], g.n)
			}
		}
		if !hostsMay(h.host, it) {
			return false
		}
	}
	n := int32(0)
	for _, g := range h.items {
		if g.item == i {
			n = g.n
		}
	}
	if int(n) >= it.most {
		return false
	}
	if it.once != nil && n == 0 {
		for r, v := range it.once {
			if it.size[r]+v > h.free[r] && v > 0 {
				return false
			}
		}
	}
	return len(it.ports) == 0 || !portsConflict(it.ports, h.ports)
}

func (h *room) add(p *problem, i int32) {
	it := &p.items[i]
	if !h.dirty {
		h.items, h.dirty = slices.Clone(h.items), true
	}
	subFrom(h.free, it.size)
	k := slices.IndexFunc(h.items, func(g itemCount) bool { return g.item == i })
	if k < 0 {
		h.items = append(h.items, itemCount{item: i})
		k = len(h.items) - 1
		if it.once != nil {
			subFrom(h.free, it.once)
		}
	}
	h.items[k].n++
	if h.known {
		h.host = addHosts(h.host, it, 1)
	}
	if len(it.ports) > 0 {
		h.ports = slices.Concat(h.ports, it.ports)
	}
}

func (p *problem) poolOf(option int32) *pool { return p.m.variants[p.m.options[option].variant].pool }
