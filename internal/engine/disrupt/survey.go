package disrupt

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"karpenter/internal/engine/world"
)

// fewNodes is how many numbers of removals in a group are tried: every one, or all of its nodes, half of them and so on.
const fewNodes = 6

// maxBound bounds how many groups are looked at in one decision in which pods have rules for each other: those must wait for one
// another. Which they are goes round from turn to turn.
const maxBound = 48

// lanes is how many such groups are looked at side by side. It does not depend on the number of workers, as what is found does.
const lanes = 2

// survey looks at groups, many at once and each for itself, in the cluster as it was when it began.
type survey struct {
	d      *decider
	groups []group
	nodes  []*world.Node
}

// survey finds the moves in each group and takes them, in order. The first group of a kind shows how many of its nodes are best
// removed; the others, being alike, look around there only. It returns how many moves were taken, and how many did not go together
// with those before.
func (d *decider) survey(groups []group) (took, refused int) {
	s := &survey{d: d, groups: groups, nodes: slices.Clone(d.nodes)}
	var first, rest, bound []int
	for k := range groups {
		switch {
		case groups[k].bound:
			bound = append(bound, k)
		case k == 0 || groups[k].kind != groups[k-1].kind:
			first = append(first, k)
		default:
			rest = append(rest, k)
		}
	}
	parts := map[kind]float64{}
	take := func(f find) {
		for _, m := range f.moves {
			if d.offer(m) {
				took++
			} else {
				refused++
			}
		}
	}
	s.each(first, func(g *group) []int { return wide(len(g.nodes)) }, func(k int, f find) {
		parts[groups[k].kind] = f.part
		take(f)
	})
	s.each(rest, func(g *group) []int { return near(len(g.nodes), parts[g.kind]) }, func(_ int, f find) { take(f) })
	t, r := s.inTurn(bound, parts)
	return took + t, refused + r
}

// inTurn looks at groups in which pods have rules for each other: a few at a time, each lot as those before have left the cluster.
func (s *survey) inTurn(list []int, parts map[kind]float64) (took, refused int) {
	d := s.d
	probes := func(g *group) []int {
		if part, seen := parts[g.kind]; seen {
			return near(len(g.nodes), part)
		}
		return wide(len(g.nodes))
	}
	for k := 0; k < len(list) && d.looked < maxBound; {
		lot := []int{list[(k+d.opt.Turn*maxBound)%len(list)]}
		for k++; k < len(list) && len(lot) < lanes; k++ {
			if _, seen := parts[s.groups[lot[0]].kind]; !seen {
				break // the first of a kind shows the way
			}
			lot = append(lot, list[(k+d.opt.Turn*maxBound)%len(list)])
		}
		d.looked += len(lot)
		s.nodes = slices.Clone(d.nodes)
		var found []find
		s.each(lot, probes, func(_ int, f find) { found = append(found, f) })
		for j, f := range found { // not before all are done: they look at what this changes
			if _, seen := parts[s.groups[lot[j]].kind]; !seen && len(f.moves) > 0 {
				parts[s.groups[lot[j]].kind] = f.part
			}
			for _, m := range f.moves {
				if d.offer(m) {
					took++
				} else {
					refused++
				}
			}
		}
	}
	return took, refused
}

// find is what a group comes to: moves, best first, and the share of its nodes that was tried to remove.
type find struct {
	moves []*Move
	part  float64
}

// each searches some groups, as many at once as there are workers, and hands out what is found in their order.
func (s *survey) each(list []int, probes func(*group) []int, then func(k int, f find)) {
	found := make([]chan find, len(list))
	for k := range found {
		found[k] = make(chan find, 1)
	}
	next := make(chan int, len(list))
	for k := range list {
		next <- k
	}
	close(next)
	var wg sync.WaitGroup
	for range min(len(list), max(1, s.d.opt.Pack.Workers)) {
		wg.Go(func() {
			for k := range next {
				g := &s.groups[list[k]]
				found[k] <- s.search(g, probes(g))
			}
		})
	}
	for k := range found {
		then(list[k], <-found[k])
	}
	wg.Wait()
}

// wide lists numbers of nodes to try to remove, from all down.
func wide(n int) []int {
	var out []int
	for j := n; j > 0 && len(out) < fewNodes; {
		out = append(out, j)
		if n <= fewNodes {
			j--
		} else {
			j /= 2
		}
	}
	return out
}

// near lists numbers around a share that was best elsewhere.
func near(n int, part float64) []int {
	if n <= fewNodes || part <= 0 {
		return wide(n)
	}
	var out []int
	for _, f := range []float64{1, 0.75, 1.25} {
		out = append(out, min(n, max(1, int(math.Round(float64(n)*part*f)))))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// of is the part of the cluster that matters to a group.
func (s *survey) of(g *group) *sub {
	at := slices.Concat(g.nodes, g.open)
	slices.Sort(at)
	return s.d.sub(s.nodes, at, subOptions{stays: g.stays, bound: g.bound})
}

// search tries to remove different numbers of a group's nodes. What saves most wins, restarts counted.
func (s *survey) search(g *group, probes []int) find {
	part := s.of(g)
	var best attempt
	var moves []*Move
	most := 0
	for _, j := range probes {
		found := part.moves(g.nodes[:j])
		if a := s.worth(found); a.better(&best) {
			best, moves, most = a, found, j
		}
	}
	best = s.refine(part, g.nodes[:most], moves)
	slices.SortStableFunc(best.moves, func(a, b *Move) int { return -cmp.Compare(s.d.rate(a), s.d.rate(b)) })
	return find{best.moves, float64(most) / float64(len(g.nodes))}
}
