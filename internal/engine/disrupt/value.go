package disrupt

import (
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
)

// values says what one pod of each class would cost an hour if every pod of the nodes were packed afresh: the price of each new
// node, shared among its pods by how much of it they take. The shares add up to the price of the fresh packing, so that the
// sum of prices less the sum of values is what could be saved at most.
func values(s *world.Snapshot, nodes []int32, opt pack.Options) []float64 {
	fresh := *s
	fresh.Nodes, fresh.Pending = nil, nil
	for _, i := range nodes {
		for _, p := range s.Nodes[i].Pods {
			if p.Movable {
				fresh.Pending = append(fresh.Pending, p)
			}
		}
	}
	sum, count := make([]float64, len(s.Classes)), make([]int, len(s.Classes))
	for _, n := range pack.Solve(&fresh, opt).Nodes {
		total := 0.0
		shares := make([]float64, len(n.Pods))
		for k, p := range n.Pods {
			shares[k] = share(s.Classes[p.Class].Requests, n.Choices[0].Type.Allocatable)
			total += shares[k]
		}
		for k, p := range n.Pods {
			if total > 0 {
				sum[p.Class] += n.Price() * shares[k] / total
			}
			count[p.Class]++
		}
	}
	for c := range sum {
		if count[c] > 0 {
			sum[c] /= float64(count[c])
		}
	}
	return sum
}

// share is how much of a node a pod takes, over the resources that it asks for.
func share(requests, allocatable world.Resources) float64 {
	sum := 0.0
	for r, v := range requests {
		if has := allocatable.Get(r); v > 0 && has > 0 && has < world.Unlimited {
			sum += float64(v) / float64(has)
		}
	}
	return sum
}

// worth is what the node's pods would cost afresh.
func worth(n *world.Node, values []float64) float64 {
	sum := 0.0
	for _, p := range n.Pods {
		if p.Movable {
			sum += values[p.Class]
		}
	}
	return sum
}
