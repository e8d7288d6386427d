package pack

import (
	"slices"
	"sync"

	"karpenter/internal/engine/world"
)

// classInfo is what the model knows about a class, found out when first asked.
type classInfo struct {
	once   sync.Once
	size   []int64
	levels []level

	nodesOnce sync.Once
	order     []int32 // nodes that could take one pod as things stand, best score first
}

// required is where the class may go with every preference given up.
func (ci *classInfo) required() bitset { return ci.levels[len(ci.levels)-1].options }

// class looks a class up.
func (m *Model) class(id int32) *classInfo {
	ci := m.classes[id]
	ci.once.Do(func() { m.fillClass(ci, m.snap.Classes[id]) })
	return ci
}

func (m *Model) fillClass(ci *classInfo, c *world.Class) {
	ci.size = m.vector0(c.Requests)
	tol := m.toleration(c.Tolerations)
	options, nodes := m.stock.clone(), fullBitset(len(m.nodes))
	var filter []world.Clause
	for _, cl := range c.Needs {
		cm := m.clause(cl)
		options.and(cm.options)
		nodes.and(cm.nodes)
		filter = append(filter, cl)
	}
	for _, cl := range c.Volumes {
		cm := m.clause(cl)
		options.and(cm.options)
		nodes.and(cm.nodes)
	}
	prefers := m.possible(c.Prefers, options, nodes)
	b := classBuilder{m: m, c: c, tol: tol, options: options, nodes: nodes, prefers: prefers, filter: filter}
	for _, s := range b.ladder() {
		ci.levels = append(ci.levels, b.level(s))
	}
}

// maskID numbers distinct option sets.
func (m *Model) maskID(b bitset) int {
	key := string(b.appendKey(nil))
	m.mu.Lock()
	defer m.mu.Unlock()
	id, ok := m.maskIDs[key]
	if !ok {
		id = len(m.masks)
		m.maskIDs[key] = id
		m.masks = append(m.masks, b)
	}
	return id
}

// nodeOrder lists the nodes that could take one pod of the class as things stand, best first. Levels only narrow it.
func (m *Model) nodeOrder(id int32) []int32 {
	ci := m.class(id)
	ci.nodesOnce.Do(func() {
		c := m.snap.Classes[id]
		union := newBitset(len(m.nodes))
		for _, l := range ci.levels {
			union.or(l.nodes)
		}
		type scored struct {
			node  int32
			score int64
		}
		var list []scored
		for i := range union.each {
			n := &m.nodes[i]
			if n.target && fits(ci.size, n.free) {
				list = append(list, scored{int32(i), score(c, n.node.Allocatable, n.used)})
			}
		}
		slices.SortFunc(list, func(a, b scored) int {
			if a.score != b.score {
				if a.score > b.score {
					return -1
				}
				return 1
			}
			return int(m.nodeRank[a.node]) - int(m.nodeRank[b.node])
		})
		ci.order = make([]int32, len(list))
		for i, s := range list {
			ci.order[i] = s.node
		}
	})
	return ci.order
}
