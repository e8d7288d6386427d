package pack

import "slices"

// maxHosts bounds how many nodes are asked whether they have room for what another gives up.
const maxHosts = 48

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
			h.add(g.item)
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
		if smaller = s.p.cheapest(rest, cells, size, ports); smaller.option < 0 {
			return 0, looked
		}
		gain -= smaller.cost
	}
	if gain < 1e-9 || !s.enoughChoice(hosts, &smaller) {
		return 0, looked
	}
	for _, h := range hosts {
		if h.n > 0 {
			s.bins[h.at].items = h.items
		}
	}
	s.p.take(b.option, -1)
	if len(rest) > 0 {
		s.p.take(smaller.option, 1)
		s.bins[at] = smaller
	} else {
		s.bins = slices.Delete(s.bins, at, at+1)
	}
	return gain, looked
}

// enoughChoice checks the pools' minValues, which nodes that are taken more into may miss.
func (s *search) enoughChoice(hosts []*openNode, smaller *bin) bool {
	if s.p.plain {
		return true
	}
	for _, h := range hosts {
		if h.n > 0 && !s.p.enoughChoice(h.items, s.bins[h.at].option) {
			return false
		}
	}
	return len(smaller.items) == 0 || s.p.enoughChoice(smaller.items, smaller.option)
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
func (s *search) hosts(except int) []*openNode {
	var out []*openNode
	start := s.next(len(s.bins))
	for i := range s.bins {
		k := (start + i) % len(s.bins)
		if k == except {
			continue
		}
		out = append(out, s.p.reopen(&s.bins[k], k))
		if len(out) == maxHosts {
			break
		}
	}
	return out
}

// roomiest is the node with least left over that may take one more of the item, or nil.
func (s *search) roomiest(hosts []*openNode, i int32) *openNode {
	it := &s.p.items[i]
	var best *openNode
	bestLeft := 0.0
	for _, h := range hosts {
		if !h.may(i) {
			continue
		}
		left := 0.0
		w := s.fillers[0].weight[s.p.cells[h.cell].market]
		for r, v := range it.size {
			left += float64(w[r] * float64(h.free[r]-v))
		}
		if best == nil || left < bestLeft {
			best, bestLeft = h, left
		}
	}
	return best
}
