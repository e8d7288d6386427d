package pack

import "slices"

// merge puts what is on two nodes onto one of another type, where that costs less. It returns what that saved and how many nodes it
// looked at.
func (s *search) merge() (gain float64, looked int) {
	if len(s.bins) < 2 {
		return 0, 1
	}
	at := s.pickSmall()
	s.p.take(s.bins[at].option, -1)
	into, found := -1, bin{}
	cells, size, _ := s.p.content(s.bins[at].items)
	start := s.next(len(s.bins))
	for i := range min(len(s.bins), maxHosts) {
		k := (start + i) % len(s.bins)
		if k == at {
			continue
		}
		looked++
		more, extra, _ := s.p.content(s.bins[k].items)
		if addTo(extra, size); !s.p.holds(cells, more, extra) { // so it is with most pairs
			continue
		}
		s.p.take(s.bins[k].option, -1)
		if b, ok := s.merged(at, k); ok {
			if save := s.bins[at].cost + s.bins[k].cost - b.cost; save > gain+1e-9 {
				gain, into, found = save, k, b
			}
		}
		s.p.take(s.bins[k].option, 1)
	}
	if into < 0 {
		s.p.take(s.bins[at].option, 1)
		return 0, looked
	}
	s.p.take(s.bins[into].option, -1)
	s.p.take(found.option, 1)
	s.bins[into] = found
	s.bins = slices.Delete(s.bins, at, at+1)
	return gain, looked
}

// merged is the cheapest node that holds what is on two, if there is one that costs less than both. Neither is in the ledger.
func (s *search) merged(x, y int) (bin, bool) {
	a, b := &s.bins[x], &s.bins[y]
	n := s.p.newNode(fullBitset(len(s.p.cells)))
	for _, list := range [2][]itemCount{a.items, b.items} {
		for _, g := range list {
			for range g.n {
				if !n.may(g.item) {
					return bin{}, false
				}
				n.add(g.item)
			}
		}
	}
	out := n.cheapest()
	return out, out.option >= 0 && out.cost < a.cost+b.cost && s.p.allows(out.option, out.items)
}
