package pack

import (
	"sync"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// columns holds, for things with labels (options or nodes), the value of a label key for all of them at once, so that a
// requirement is evaluated once per distinct value. Columns are made when first asked for.
type columns struct {
	n    int
	get  func(i int, key string) (string, bool)
	mu   *sync.Mutex
	keys map[string]*column
}

type column struct {
	values []string
	of     []int32 // index into values, -1 where the label is absent
}

func newColumns(n int, get func(i int, key string) (string, bool)) columns {
	return columns{n: n, get: get, mu: &sync.Mutex{}, keys: map[string]*column{}}
}

func (c columns) column(key string) *column {
	c.mu.Lock()
	defer c.mu.Unlock()
	if col, ok := c.keys[key]; ok {
		return col
	}
	col := &column{of: make([]int32, c.n)}
	index := map[string]int32{}
	for i := range col.of {
		v, ok := c.get(i, key)
		if !ok {
			col.of[i] = -1
			continue
		}
		k, seen := index[v]
		if !seen {
			k = int32(len(col.values))
			index[v] = k
			col.values = append(col.values, v)
		}
		col.of[i] = k
	}
	c.keys[key] = col
	return col
}

// requirement is the set of things whose label passes.
func (c columns) requirement(r req.Requirement) bitset {
	col := c.column(r.Key)
	pass := make([]bool, len(col.values)+1)
	for i, v := range col.values {
		pass[i] = r.Admits(v, true)
	}
	absent := r.Admits("", false)
	out := newBitset(c.n)
	for i, k := range col.of {
		if (k < 0 && absent) || (k >= 0 && pass[k]) {
			out.add(i)
		}
	}
	return out
}

// term is the set of things that pass every requirement.
func (c columns) term(s req.Set) bitset {
	out := fullBitset(c.n)
	for _, r := range s {
		out.and(c.requirement(r))
	}
	return out
}

// clause is the set of things that pass one of the terms.
func (c columns) clause(cl world.Clause) bitset {
	out := newBitset(c.n)
	for _, t := range cl.Terms {
		out.or(c.term(t))
	}
	return out
}

// clauseMask is where a clause holds.
type clauseMask struct {
	id      int
	options bitset
	nodes   bitset
}

// clause looks a clause up, evaluating it on first sight.
func (m *Model) clause(c world.Clause) *clauseMask {
	var key []byte
	for _, t := range c.Terms {
		key = t.AppendKey(key)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	cm, ok := m.clauses[string(key)]
	if !ok {
		cm = &clauseMask{id: len(m.clauses), options: m.optCols.clause(c)}
		m.clauses[string(key)] = cm
	}
	if cm.nodes == nil && m.nodeCols.get != nil {
		cm.nodes = m.nodeCols.clause(c)
	}
	return cm
}

// How PreferNoSchedule taints are read.
const (
	hardOnly = iota // they repel nobody
	softToo         // they repel like the others
)

// tolerationMask is what a list of tolerations gets past, with PreferNoSchedule read both ways.
type tolerationMask struct {
	id      int
	options [2]bitset
	nodes   [2]bitset
}

func (m *Model) toleration(ts []world.Toleration) *tolerationMask {
	var key []byte
	for _, t := range ts {
		key = append(key, t.Key+"\x00"+t.Operator+"\x00"+t.Value+"\x00"+string(t.Effect)+"\x01"...)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	tm, ok := m.tols[string(key)]
	if !ok {
		tm = &tolerationMask{id: len(m.tols)}
		m.tols[string(key)] = tm
		for _, soft := range []int{hardOnly, softToo} {
			tm.options[soft] = newBitset(len(m.options))
			pass := make([]bool, len(m.variants))
			for i, v := range m.variants {
				_, bad := world.Untolerated(v.pool.Taints, ts, soft == softToo)
				pass[i] = !bad
			}
			for i := range m.options {
				if pass[m.options[i].variant] {
					tm.options[soft].add(i)
				}
			}
		}
	}
	if tm.nodes[hardOnly] == nil && m.nodeCols.get != nil {
		for _, soft := range []int{hardOnly, softToo} {
			tm.nodes[soft] = newBitset(len(m.nodes))
			for i, n := range m.nodes {
				if _, bad := world.Untolerated(n.node.Taints, ts, soft == softToo); !bad {
					tm.nodes[soft].add(i)
				}
			}
		}
	}
	return tm
}
