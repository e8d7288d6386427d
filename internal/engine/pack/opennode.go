package pack

import (
	"math/bits"
	"slices"
)

// bin is a node of the plan: an option and what is on it.
type bin struct {
	cell   int32
	option int32
	items  []itemCount
	cost   float64 // price and node cost
}

type itemCount struct{ item, n int32 }

// openNode is a node under construction. Either its option is decided, or it may still become anything that holds what is on it. What
// may join it is said by may alone, and add is the only way to put something on it; whether the node may be launched at all is a
// matter for allows.
type openNode struct {
	p     *problem
	cell  int32   // of the option; -1 while that is open
	free  []int64 // what is left of the option
	cells bitset  // while the option is open, where all that is on the node may go
	size  []int64 // while the option is open, how large that is together
	items []itemCount
	hosts []hostCount
	ports []port // of what is on the node, and of daemons on the option
	n     int    // copies that add has put on it
	at    int    // index of the bin that it was made from
	// lazy says that items are still those of the bin, and that hosts have not been counted.
	lazy bool
	// taken is how many copies of each item are on the node. Only a node that is filled over and over has it, so that nothing needs
	// to be looked for, and its hosts are all groups of the problem in their order; otherwise they are those that count something.
	taken []int32
}

// hostCount is how many pods on a node a host group counts, and how many carry its rule.
type hostCount struct{ group, sel, own int32 }

// newNode is an empty node whose option is open, within some cells.
func (p *problem) newNode(cells bitset) *openNode {
	return &openNode{p: p, cell: -1, cells: cells, size: make([]int64, p.dims)}
}

// reopen is bin number at of the plan as a node that may take more.
func (p *problem) reopen(b *bin, at int) *openNode {
	o := &p.m.options[b.option]
	_, size, ports := p.content(b.items)
	n := &openNode{p: p, cell: b.cell, free: project(o.net, p.dimIndex), ports: o.ports, items: b.items, at: at, lazy: true}
	subFrom(n.free, size)
	if len(ports) > 0 {
		n.ports = slices.Concat(o.ports, ports)
	}
	return n
}

// reset makes an empty node of a candidate, in place.
func (n *openNode) reset(cell int, cd *cand) {
	for _, g := range n.items {
		n.taken[g.item] = 0
		for _, h := range n.p.items[g.item].host {
			n.hosts[h.group] = hostCount{}
		}
	}
	n.cell, n.items, n.ports, n.n = int32(cell), n.items[:0], n.p.m.options[cd.option].ports, 0
	copy(n.free, cd.net)
}

func (n *openNode) clone() *openNode {
	c := *n
	c.size, c.items, c.hosts = slices.Clone(n.size), slices.Clone(n.items), slices.Clone(n.hosts)
	return &c
}

// find is where an item is among items, or -1.
func (n *openNode) find(i int32) int {
	for k := range n.items {
		if n.items[k].item == i {
			return k
		}
	}
	return -1
}

// count is how many copies of an item are on the node.
func (n *openNode) count(i int32) int {
	if n.taken != nil {
		return int(n.taken[i])
	}
	if k := n.find(i); k >= 0 {
		return int(n.items[k].n)
	}
	return 0
}

// host is what a group counts on the node; nil for nothing.
func (n *openNode) host(group int32) *hostCount {
	if n.taken != nil {
		return &n.hosts[group]
	}
	for k := range n.hosts {
		if n.hosts[k].group == group {
			return &n.hosts[k]
		}
	}
	return nil
}

// may says whether one more copy of an item can join: by where it may go, its size, volumes and ports, and the pods beside it. Unless
// something is taken from the node, what is refused stays refused.
func (n *openNode) may(i int32) bool {
	it := &n.p.items[i]
	has := n.count(i)
	if has >= it.most || (n.cell >= 0 && (!fits(it.size, n.free) || !it.cells.has(int(n.cell)))) {
		return false
	}
	if (len(it.host) > 0 && !n.hostsMay(it)) || (len(it.ports) > 0 && portsConflict(it.ports, n.ports)) {
		return false
	}
	once := it.once
	if has > 0 {
		once = nil
	}
	if n.cell >= 0 {
		return once == nil || fitsWith(it.size, once, n.free)
	}
	var buf [16]int64
	size := append(buf[:0], n.size...)
	addTo(size, it.size)
	addTo(size, once)
	return n.p.holds(n.cells, it.cells, size)
}

// hostsMay says whether the item can join the pods on the node.
func (n *openNode) hostsMay(it *item) bool {
	if n.lazy {
		n.own()
	}
	for i := range it.host {
		h, has := &it.host[i], hostCount{}
		if c := n.host(h.group); c != nil {
			has = *c
		}
		if !h.kind.together(h.skew, h.own, h.sel, has.own, has.sel) {
			return false
		}
	}
	return true
}

// own makes the items the node's own, and counts hosts.
func (n *openNode) own() {
	n.lazy, n.items = false, slices.Clone(n.items)
	for _, g := range n.items {
		n.countHosts(&n.p.items[g.item], g.n)
	}
}

func (n *openNode) countHosts(it *item, copies int32) {
	for i := range it.host {
		h := &it.host[i]
		c := n.host(h.group)
		if c == nil {
			n.hosts = append(n.hosts, hostCount{group: h.group})
			c = &n.hosts[len(n.hosts)-1]
		}
		c.sel += copies * h.sel
		c.own += copies * h.own
	}
}

// add puts one copy of an item on the node, which may says can join.
func (n *openNode) add(i int32) {
	if n.lazy {
		n.own()
	}
	it := &n.p.items[i]
	once := it.once
	k := n.find(i)
	if k >= 0 {
		once = nil
	} else {
		k = len(n.items)
		n.items = append(n.items, itemCount{item: i})
	}
	if n.items[k].n++; n.taken != nil {
		n.taken[i]++
	}
	n.n++
	n.countHosts(it, 1)
	if len(it.ports) > 0 {
		n.ports = append(slices.Clip(n.ports), it.ports...)
	}
	if n.cell >= 0 {
		subFrom(n.free, it.size)
		subFrom(n.free, once)
		return
	}
	addTo(n.size, it.size)
	addTo(n.size, once)
	if !slices.Equal(n.cells, it.cells) {
		n.cells = n.cells.clone().and(it.cells)
	}
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

// cheapest makes a node that is open a bin: the cheapest that holds what is on it and may be launched. Its option is -1 if there is
// none, because daemons hold its ports wherever it could go, or because of limits.
func (n *openNode) cheapest() bin { return n.p.cheapest(n.items, n.cells, n.size, n.ports) }

// cheapest is the cheapest bin for some items, given where they may go, how large they are together and their ports.
func (p *problem) cheapest(items []itemCount, cells bitset, size []int64, ports []port) bin {
	best := bin{option: -1, items: items}
	for c := range cells.each {
		for i := range p.cells[c].cands {
			cd := &p.cells[c].cands[i]
			if best.option >= 0 && cd.cost >= best.cost {
				break
			}
			if fits(size, cd.net) && !portsConflict(ports, p.m.options[cd.option].ports) && (p.plain || p.room(cd.option, 1) > 0) {
				best.cell, best.option, best.cost = int32(c), cd.option, cd.cost
				break
			}
		}
	}
	return best
}

// allows says whether a node of the option with these items may be launched: limits, reservations and minValues.
func (p *problem) allows(option int32, items []itemCount) bool {
	return p.plain || p.room(option, 1) > 0 && p.enoughChoice(items, option)
}

// accept adds a node to the plan, if limits, reservations and minValues allow it, and otherwise gives back what is on it.
func (p *problem) accept(bins []bin, b bin, left []int) []bin {
	if len(b.items) == 0 {
		return bins
	}
	if b.option < 0 || !p.allows(b.option, b.items) {
		for _, g := range b.items {
			left[g.item] += int(g.n)
		}
		return bins
	}
	p.take(b.option, 1)
	return append(bins, b)
}

// room is how many nodes of the option may be added, at most want.
func (p *problem) room(option int32, want int) int {
	return p.ledger.room(p.m, &p.m.options[option], want)
}

// take enters n nodes of the option into the ledger; a negative n gives them back.
func (p *problem) take(option int32, n int) { p.ledger.take(p.m, &p.m.options[option], n) }

// content is where what is on a node may go, how large it is together, and its ports.
func (p *problem) content(items []itemCount) (cells bitset, size []int64, ports []port) {
	size = make([]int64, p.dims)
	for k, g := range items {
		it := &p.items[g.item]
		if k == 0 {
			cells = it.cells.clone()
		} else {
			cells.and(it.cells)
		}
		for r, v := range it.size {
			size[r] += v * int64(g.n)
		}
		if it.once != nil {
			addTo(size, it.once)
		}
		ports = append(ports, it.ports...)
	}
	return cells, size, ports
}
