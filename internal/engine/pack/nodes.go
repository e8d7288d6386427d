package pack

import (
	"slices"
	"strings"

	"karpenter/internal/engine/world"
)

func (m *Model) buildNodes() {
	m.nodes = make([]nodeInfo, len(m.snap.Nodes))
	free := make([]int64, len(m.nodes)*m.dims)
	for i, n := range m.snap.Nodes {
		l := n.Load(m.snap.Classes)
		m.nodes[i] = nodeInfo{node: n, target: !n.Deleting, free: free[:m.dims:m.dims], used: [2]int64{l.ScoreCPU, l.ScoreMemory}, load: l, ports: slices.Clip(l.Ports)}
		m.fillVector(m.nodes[i].free, n.Allocatable)
		subFrom(m.nodes[i].free, l.Requests)
		free = free[m.dims:]
		if n.Deleting {
			m.deleting = append(m.deleting, int32(i))
		}
	}
	m.rankNodes()
	m.nodeCols = newColumns(len(m.nodes), func(i int, key string) (string, bool) {
		n := m.snap.Nodes[i]
		if key == world.LabelHostname {
			return n.Hostname(), true
		}
		return n.Labels.Get(key)
	})
	for _, c := range m.snap.Classes {
		if slices.ContainsFunc(c.AntiAffinity, func(t world.PodTerm) bool { return t.Weight == 0 }) {
			m.guardians = append(m.guardians, c.ID)
		}
	}
	m.reserveDaemons()
}

// rankNodes orders nodes of equal score: those that are up first, then by name.
func (m *Model) rankNodes() {
	order := make([]int32, len(m.nodes))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		x, y := m.nodes[a].node, m.nodes[b].node
		if x.Initialized != y.Initialized {
			if x.Initialized {
				return -1
			}
			return 1
		}
		return strings.Compare(x.Name, y.Name)
	})
	m.nodeRank = make([]int32, len(order))
	for k, n := range order {
		m.nodeRank[n] = int32(k)
	}
}

// locate finds out where the pods of each class are; only topology rules need to know.
func (m *Model) locate() {
	m.where.Do(func() {
		m.byClass = m.locateBy(func(l *world.Load) []world.ClassCount { return l.Active })
		m.byGoing = m.locateBy(func(l *world.Load) []world.ClassCount { return l.Going })
	})
}

func (m *Model) locateBy(of func(*world.Load) []world.ClassCount) [][]classOnNode {
	sizes := make([]int32, len(m.snap.Classes))
	total := int32(0)
	for i := range m.nodes {
		for _, c := range of(m.nodes[i].load) {
			sizes[c.Class]++
			total++
		}
	}
	out, all := make([][]classOnNode, len(sizes)), make([]classOnNode, total)
	for c, n := range sizes {
		out[c], all = all[:0:n], all[n:]
	}
	for i := range m.nodes {
		for _, c := range of(m.nodes[i].load) {
			out[c.Class] = append(out[c.Class], classOnNode{int32(i), c.N})
		}
	}
	return out
}

// reserveDaemons keeps room and ports on each node for the daemons that are expected but not there yet; daemons that run although
// nobody expects them do not give room back.
func (m *Model) reserveDaemons() {
	if len(m.snap.Daemons) == 0 {
		return
	}
	expected := make([][]int64, len(m.nodes))
	for _, d := range m.snap.Daemons {
		mask := fullBitset(len(m.nodes))
		for _, c := range d.Class.Needs {
			mask.and(m.clause(c).nodes)
		}
		mask.and(m.toleration(d.Class.Tolerations).nodes[hardOnly])
		for i := range mask.each {
			if expected[i] == nil {
				expected[i] = make([]int64, m.dims)
			}
			addTo(expected[i], m.vector0(d.Class.Requests))
			for _, p := range d.Class.Ports {
				if !slices.Contains(m.nodes[i].ports, p) {
					m.nodes[i].ports = append(m.nodes[i].ports, p)
				}
			}
		}
	}
	for i, want := range expected {
		if want == nil {
			continue
		}
		subFrom(want, m.nodes[i].load.Daemons)
		for r, v := range want {
			m.nodes[i].free[r] = world.AddSat(m.nodes[i].free[r], -max(v, 0))
		}
	}
}

// score rates a node for a pod as kube-scheduler's defaults do: the emptier it is left, and the more evenly, the better. Nobody binds
// spare pods, so that they may go where they are least in the way: the fuller the node, the better. The result is a whole number so that
// no computer rounds it differently.
func score(c *world.Class, capacity world.Resources, used [2]int64) int64 {
	if c.Buffer != "" {
		return -leastAllocated(c, capacity, used)
	}
	return leastAllocated(c, capacity, used)
}

func leastAllocated(c *world.Class, capacity world.Resources, used [2]int64) int64 {
	cpu, mem := c.ScoreRequests()
	after := [2]int64{used[0] + cpu, used[1] + mem}
	var least int64
	var share [2]int64 // in 1/10000
	for i, r := range []int{world.CPU, world.Memory} {
		total := capacity.Get(r)
		if total <= 0 || after[i] >= total {
			share[i] = 10000
			continue
		}
		share[i] = int64(float64(after[i]) / float64(total) * 10000)
		least += (10000 - share[i]) / 2
	}
	gap := share[0] - share[1]
	if gap < 0 {
		gap = -gap
	}
	return least + 10000 - gap/2
}
