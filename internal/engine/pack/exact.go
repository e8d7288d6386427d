package pack

import "slices"

// maxExact is the number of items up to which every way to divide them among nodes is compared: most batches are small.
const maxExact = 12

// divide finds the cheapest way to divide the items among nodes, as if nothing but size and price mattered between nodes.
func (p *problem) divide(left []int) []bin {
	var copies []int32
	for i, n := range left {
		for range n {
			copies = append(copies, int32(i))
		}
	}
	best := make([]share, 1<<len(copies))
	nodes := p.subsets(copies)
	for set := 1; set < len(best); set++ {
		first := set & -set
		best[set] = share{cost: best[set&^first].cost + unplacedCost, nodes: best[set&^first].nodes} // the first stays out
		others := set &^ first
		for sub := others; ; sub = (sub - 1) & others {
			with := sub | first
			if b := &nodes[with]; b.option >= 0 && b.items != nil {
				rest := &best[set&^with]
				if cost, n := rest.cost+b.cost, rest.nodes+1; fewer(cost, best[set].cost, n, best[set].nodes) {
					best[set] = share{cost: cost, nodes: n, with: with}
				}
			}
			if sub == 0 {
				break
			}
		}
	}
	clear(left)
	var out []bin
	for set := len(best) - 1; set > 0; {
		with := best[set].with
		if with == 0 {
			first := set & -set
			for k, i := range copies {
				if first>>k&1 == 1 {
					left[i]++
				}
			}
			set &^= first
			continue
		}
		out = append(out, nodes[with])
		set &^= with
	}
	return out
}

// freely divides the items as if there were no limits; ok says whether they allow it.
func (p *problem) freely() (bins []bin, ok bool) {
	before := p.ledger.clone()
	left := p.all()
	for _, b := range p.divide(left) {
		bins = p.accept(bins, b, left)
	}
	if slices.Max(left) > 0 {
		*p.ledger = *before
		return nil, false
	}
	return bins, true
}

// share is the cheapest way to divide a set: the node of its first item, and the rest.
type share struct {
	cost  float64
	nodes int
	with  int // what is on that node; 0 if the item has no place
}

// subsets lists the cheapest node for every set of copies; one without items cannot be.
func (p *problem) subsets(copies []int32) []bin {
	open := make([]*openNode, 1<<len(copies))
	out := make([]bin, len(open))
	open[0] = p.newNode(fullBitset(len(p.cells)))
	for set := 1; set < len(open); set++ {
		last := 0
		for k := range copies {
			if set>>k&1 == 1 {
				last = k
			}
		}
		before := open[set&^(1<<last)]
		if before == nil || !before.may(copies[last]) {
			continue
		}
		n := before.clone()
		n.add(copies[last])
		open[set] = n
		out[set] = n.cheapest()
	}
	return out
}
