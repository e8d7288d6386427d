package pack

import (
	"math/bits"
	"slices"
)

// openBin is a node whose type is still open: it may become anything that holds what is on it.
type openBin struct {
	cells bitset
	used  []int64
	items []itemCount
	host  []hostCount
	ports []port
	pods  int
}

type hostCount struct{ group, sel, own int32 }

// firstFit is the classical rule: largest first, each into the first open node that takes it, or with worst into the one
// that holds fewest. It serves as a second opinion, so that no plan is dearer than what that rule gives.
func (p *problem) firstFit(left []int, worst bool) []bin {
	order := make([]int32, len(p.items))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return sizeOrder(p.items[a].size, p.items[b].size) })
	var open []*openBin
	for _, i := range order {
		for left[i] > 0 {
			if !p.putFirst(&open, i, left, worst) {
				break
			}
		}
	}
	out := make([]bin, 0, len(open))
	for _, b := range open {
		out = p.accept(out, p.cheapest(b), left)
	}
	return append(out, p.rest(left)...)
}

// cheapest is the node that holds what is in an open one; it has no items if there is none, because daemons hold its ports wherever
// it could go, or because of limits.
func (p *problem) cheapest(b *openBin) bin {
	cell, k := p.price(b.cells, b.used, b.ports)
	if k < 0 {
		return bin{option: -1, items: b.items}
	}
	cd := &p.cells[cell].cands[k]
	return bin{cell: int32(cell), option: cd.option, items: b.items, cost: cd.cost}
}

// accept adds a node to the plan, if limits, reservations and minValues allow it, and otherwise gives back what is on it.
func (p *problem) accept(bins []bin, b bin, left []int) []bin {
	if len(b.items) == 0 {
		return bins
	}
	if b.option < 0 || !p.plain && (p.ledger.room(p.m, &p.m.options[b.option], 1) == 0 || hasMinValues(p.poolOf(b.option)) && !p.enoughChoice(b.items, b.option)) {
		for _, g := range b.items {
			left[g.item] += int(g.n)
		}
		return bins
	}
	p.ledger.take(p.m, &p.m.options[b.option], 1)
	return append(bins, b)
}

// rest packs what has been given back.
func (p *problem) rest(left []int) []bin {
	if p.plain || !slices.ContainsFunc(left, func(n int) bool { return n > 0 }) {
		return nil
	}
	return greedy(p, left)
}

func sizeOrder(a, b []int64) int {
	for r := range a {
		if a[r] != b[r] {
			if a[r] > b[r] {
				return -1
			}
			return 1
		}
	}
	return 0
}

// putFirst puts copies of item i into open nodes: with worst one copy, otherwise as many as the first node takes.
func (p *problem) putFirst(open *[]*openBin, i int32, left []int, worst bool) bool {
	for k, b := range *open {
		n := 0
		for left[i] > 0 && p.add(b, i) {
			left[i]--
			n++
			if worst {
				break
			}
		}
		if n > 0 {
			for j := k; worst && j+1 < len(*open) && (*open)[j+1].pods < (*open)[j].pods; j++ {
				(*open)[j], (*open)[j+1] = (*open)[j+1], (*open)[j]
			}
			return true
		}
	}
	b := &openBin{cells: p.items[i].cells, used: make([]int64, p.dims)}
	if !p.add(b, i) {
		return false
	}
	left[i]--
	at := len(*open)
	if worst {
		at = slices.IndexFunc(*open, func(o *openBin) bool { return o.pods > b.pods })
		if at < 0 {
			at = len(*open)
		}
	}
	*open = slices.Insert(*open, at, b)
	return true
}

// add puts one copy of item i into the node if it may go there.
func (p *problem) add(b *openBin, i int32) bool {
	it := &p.items[i]
	if !b.cells.meets(it.cells) || !hostsMay(b.host, it) || portsConflict(it.ports, b.ports) {
		return false
	}
	at := slices.IndexFunc(b.items, func(g itemCount) bool { return g.item == i })
	if at >= 0 && int(b.items[at].n) >= it.most {
		return false
	}
	var buf [16]int64
	size := append(buf[:0], b.used...)
	addTo(size, it.size)
	if it.once != nil && at < 0 {
		addTo(size, it.once)
	}
	if !p.holds(b.cells, it.cells, size) {
		return false
	}
	if !slices.Equal(b.cells, it.cells) {
		b.cells = b.cells.clone().and(it.cells)
	}
	copy(b.used, size)
	b.ports = append(b.ports, it.ports...)
	b.pods++
	b.host = addHosts(b.host, it, 1)
	if at < 0 {
		b.items = append(b.items, itemCount{item: i, n: 1})
	} else {
		b.items[at].n++
	}
	return true
}

// holds says whether some cell in both sets takes the size.
func (p *problem) holds(a, b bitset, size []int64) bool {
	for k, w := range a {
		for w &= b[k]; w != 0; w &= w - 1 {
			if p.cells[k<<6+bits.TrailingZeros64(w)].takes(size) {
				return true
			}
		}
	}
	return false
}

// addHosts counts n copies of the item.
func addHosts(host []hostCount, it *item, n int32) []hostCount {
	for _, h := range it.host {
		k := slices.IndexFunc(host, func(c hostCount) bool { return c.group == h.group })
		if k < 0 {
			k = len(host)
			host = append(host, hostCount{group: h.group})
		}
		host[k].sel += n * h.sel
		host[k].own += n * h.own
	}
	return host
}

// hostsMay says whether the item can join the pods counted in host.
func hostsMay(host []hostCount, it *item) bool {
	for i := range it.host {
		h := &it.host[i]
		var c hostCount
		for _, x := range host {
			if x.group == h.group {
				c = x
			}
		}
		if !h.kind.together(h.skew, h.own, h.sel, c.own, c.sel) {
			return false
		}
	}
	return true
}

// price finds the cheapest candidate in any of the cells that holds the size, leaves the ports free and may be launched.
func (p *problem) price(cells bitset, size []int64, ports []port) (cell, k int) {
	cell, k = -1, -1
	for c := range cells.each {
		for i := range p.cells[c].cands {
			cd := &p.cells[c].cands[i]
			if k >= 0 && cd.cost >= p.cells[cell].cands[k].cost {
				break
			}
			o := &p.m.options[cd.option]
			if fits(size, cd.net) && !portsConflict(ports, o.ports) && (p.plain || p.ledger.room(p.m, o, 1) > 0) {
				cell, k = c, i
				break
			}
		}
	}
	return cell, k
}
