package disrupt

import (
	"slices"

	"karpenter/internal/engine/world"
)

// crowd adds up the pods that rules count, over nodes that no rule tells apart: those with the same values of the labels that rules
// read, and the same taints. One node of each such cell stands for all of them in questions about a few nodes. Only which node
// a pod shares with which is lost, and that matters to nobody on other nodes.
type crowd struct {
	rules *domainCounts
	keys  []string
	// hosts says that some rule spreads over nodes.
	hosts bool
	index map[string]int32
	cells []crowdCell
	of    []int32 // cell of each node, -1 for none
}

type crowdCell struct {
	labels world.Labels
	taints []world.Taint
	nodes  int
	count  [][2]int32 // by class: pods, and pods that are going
}

// newCrowd is nil where there are no rules.
func newCrowd(rules *domainCounts, nodes []*world.Node) *crowd {
	if rules == nil {
		return nil
	}
	c := &crowd{rules: rules, index: map[string]int32{}}
	for _, r := range rules.rules {
		c.hosts = c.hosts || r.kind == spreads && r.key == world.LabelHostname
		c.keys = append(c.keys, r.key)
		for _, cl := range r.owner.Needs {
			for _, term := range cl.Terms {
				for _, q := range term {
					c.keys = append(c.keys, q.Key)
				}
			}
		}
	}
	slices.Sort(c.keys)
	c.keys = slices.DeleteFunc(slices.Compact(c.keys), func(k string) bool { return k == world.LabelHostname })
	for i, n := range nodes {
		c.seat(n)
		c.count(int32(i), n, 1)
	}
	return c
}

// seat finds the cell of one more node.
func (c *crowd) seat(n *world.Node) {
	if c == nil {
		return
	}
	if n == nil {
		c.of = append(c.of, -1)
		return
	}
	labels := make(world.Labels, 0, len(c.keys))
	var key []byte
	for _, k := range c.keys {
		if v, ok := n.Labels.Get(k); ok {
			labels = append(labels, world.Label{Key: k, Value: v})
			key = append(append(append(append(key, k...), 0), v...), 0)
		}
	}
	for _, t := range n.Taints {
		key = append(append(key, t.String()...), 1)
	}
	id, known := c.index[string(key)]
	if !known {
		id = int32(len(c.cells))
		c.index[string(key)] = id
		c.cells = append(c.cells, crowdCell{labels: labels, taints: n.Taints, count: make([][2]int32, len(c.rules.classes))})
	}
	c.of = append(c.of, id)
}

// count adds the pods of a node, or with a sign of -1 removes them.
func (c *crowd) count(i int32, n *world.Node, sign int32) {
	if c == nil || n == nil {
		return
	}
	cell := &c.cells[c.of[i]]
	cell.nodes += int(sign)
	cell.add(c.rules, n, sign)
}

func (x *crowdCell) add(rules *domainCounts, n *world.Node, sign int32) {
	load := n.Load(rules.classes)
	for going, list := range [][]world.ClassCount{load.Active, load.Going} {
		for _, cc := range list {
			if len(rules.counted[cc.Class]) > 0 {
				x.count[cc.Class][going] += sign * cc.N
			}
		}
	}
}

// without are nodes that stand for all but some. Where rules spread over nodes, an empty one stands for those that have none of
// the pods in question.
func (c *crowd) without(all []*world.Node, at []int32) []*world.Node {
	if c == nil {
		return nil
	}
	cells := slices.Clone(c.cells)
	for k := range cells {
		cells[k].count = slices.Clone(cells[k].count)
	}
	for _, i := range at {
		cell := &cells[c.of[i]]
		cell.nodes--
		cell.add(c.rules, all[i], -1)
	}
	var out []*world.Node
	for k := range cells {
		if cells[k].nodes <= 0 {
			continue
		}
		out = append(out, cells[k].node())
		if c.hosts {
			out = append(out, &world.Node{Name: "elsewhere", Labels: cells[k].labels, Taints: cells[k].taints, Initialized: true})
		}
	}
	return out
}

// node stands for the nodes of a cell. Pods of a class are one pod many times over.
func (x *crowdCell) node() *world.Node {
	n := &world.Node{Name: "elsewhere", Labels: x.labels, Taints: x.taints, Initialized: true}
	for class, count := range x.count {
		for going, many := range count {
			p := &world.Pod{Class: int32(class), Terminating: going == 1}
			for range many {
				n.Pods = append(n.Pods, p)
			}
		}
	}
	return n
}
