package pack

import "slices"

// firstFit is the classical rule: largest first, each into the first open node that takes it, or with worst into the one
// that holds fewest. It serves as a second opinion, so that no plan is dearer than what that rule gives.
func (p *problem) firstFit(left []int, worst bool) []bin {
	order := make([]int32, len(p.items))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return sizeOrder(p.items[a].size, p.items[b].size) })
	var open []*openNode
	for _, i := range order {
		for left[i] > 0 {
			if !p.putFirst(&open, i, left, worst) {
				break
			}
		}
	}
	out := make([]bin, 0, len(open))
	for _, n := range open {
		out = p.accept(out, n.cheapest(), left)
	}
	return append(out, p.rest(left)...)
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
func (p *problem) putFirst(open *[]*openNode, i int32, left []int, worst bool) bool {
	for k, n := range *open {
		if !n.may(i) {
			continue
		}
		for more := true; more; more = !worst && left[i] > 0 && n.may(i) {
			n.add(i)
			left[i]--
		}
		for j := k; worst && j+1 < len(*open) && (*open)[j+1].n < (*open)[j].n; j++ {
			(*open)[j], (*open)[j+1] = (*open)[j+1], (*open)[j]
		}
		return true
	}
	n := p.newNode(p.items[i].cells)
	if !n.may(i) {
		return false
	}
	n.add(i)
	left[i]--
	at := len(*open)
	if worst {
		if k := slices.IndexFunc(*open, func(o *openNode) bool { return o.n > n.n }); k >= 0 {
			at = k
		}
	}
	*open = slices.Insert(*open, at, n)
	return true
}
