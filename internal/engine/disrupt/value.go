package disrupt

import (
	"fmt"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
)

// maxSample bounds the pods from which prices are learned.
const maxSample = 5000

// values says what one pod of each class would cost an hour if every pod of the nodes were packed afresh: the price of each new
// node, shared among its pods by how much of it they take. Of many pods, some of each class stand for all.
func (d *decider) values(nodes []int32) []float64 {
	classes := d.in.World.Classes
	count, total := make([]int, len(classes)), 0
	for _, i := range nodes {
		for _, p := range d.nodes[i].Pods {
			if p.Movable {
				count[p.Class]++
				total++
			}
		}
	}
	fresh := *d.in.World
	fresh.Nodes, fresh.Pending, fresh.Spare = nil, nil, nil
	for c, n := range count {
		if total > maxSample {
			n = (n*maxSample + total - 1) / total
		}
		for k := range n {
			fresh.Pending = append(fresh.Pending, &world.Pod{UID: fmt.Sprintf("%06d-%06d", c, k), Class: int32(c), Movable: true})
		}
	}
	sum, seen := make([]float64, len(classes)), make([]int, len(classes))
	opt := d.opt.Pack
	opt.Quick = true
	for _, n := range pack.Solve(&fresh, opt).Nodes {
		total := 0.0
		shares := make([]float64, len(n.Pods))
		for k, p := range n.Pods {
			shares[k] = share(classes[p.Class].Requests, n.Choices[0].Type.Allocatable)
			total += shares[k]
		}
		for k, p := range n.Pods {
			if total > 0 {
				sum[p.Class] += n.Price() * shares[k] / total
			}
			seen[p.Class]++
		}
	}
	for c := range sum {
		if seen[c] > 0 {
			sum[c] /= float64(seen[c])
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
