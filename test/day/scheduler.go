package day

import (
	"math"
	"slices"

	"karpenter/internal/engine/world"
)

// schedule is kube-scheduler: pending pods in the order in which they came, each on the node with the best score among those
// that take it. It does not know what was planned, unless pods are nominated.
func (s *sim) schedule() {
	s.pending = slices.DeleteFunc(s.pending, func(p *pod) bool {
		n := s.best(p)
		if n == nil {
			return false
		}
		wait := s.now.Sub(p.born).Seconds()
		s.out.Wait += wait
		s.hour.wait += wait
		s.out.Bound++
		s.out.WaitMost = max(s.out.WaitMost, s.now.Sub(p.born))
		if p.pin != nil && p.pin != n {
			s.out.Strayed++
		}
		s.bind(p, n)
		return true
	})
}

// best is the node that a pod goes to. Of nodes with equal scores, the scheduler takes any.
func (s *sim) best(p *pod) *node {
	var out *node
	most, equal := -1, 0
	low, lone := s.spread(p.set)
	if n := p.pin; s.Nominate && n != nil && n.up && !n.leaving && s.admits(p.set, n, low, lone) {
		return n
	}
	for _, n := range s.nodes {
		if !n.up || n.leaving || !s.admits(p.set, n, low, lone) {
			continue
		}
		score := s.score(p.set.class, n)
		switch {
		case score > most:
			out, most, equal = n, score, 1
		case score == most:
			if equal++; s.rng.IntN(equal) == 0 {
				out = n
			}
		}
	}
	return out
}

// spread is the least number of the set's pods in any zone and on any node, over nodes that have joined.
func (s *sim) spread(r *replicaSet) (zone, host int) {
	zone, host = math.MaxInt, math.MaxInt
	for _, n := range s.nodes {
		if n.up {
			zone, host = min(zone, r.byZone[n.zone]), min(host, n.count[r.class])
		}
	}
	return zone, host
}

// admits says whether the node takes a pod of the set.
func (s *sim) admits(r *replicaSet, n *node, zone, host int) bool {
	for i, v := range s.classes[r.class].Requests {
		if n.used[i]+v > n.typ.Allocatable[i] {
			return false
		}
	}
	here := n.count[r.class]
	return !(r.apart && here > 0) && !(r.perHost && here > host) && !(r.zonal && r.byZone[n.zone] > zone)
}

// score is kube-scheduler's LeastAllocated plus BalancedAllocation, 0 to 200.
func (s *sim) score(class int32, n *node) int {
	cpu, memory := s.classes[class].ScoreRequests()
	a := float64(n.used[world.CPU]+cpu) / float64(n.typ.Allocatable[world.CPU])
	b := float64(n.used[world.Memory]+memory) / float64(n.typ.Allocatable[world.Memory])
	least := (int(100*(1-a)) + int(100*(1-b))) / 2
	balanced := int(100 * (1 - math.Abs(a-b)/2))
	return least + balanced
}
