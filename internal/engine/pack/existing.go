package pack

import (
	"container/heap"
	"encoding/binary"
	"slices"

	"karpenter/internal/engine/world"
)

// nodeTuple is the existing nodes that share their domains.
type nodeTuple struct {
	doms  []int32
	fresh []int32 // untouched nodes, best first
	hot   nodeHeap
}

type parkedNode struct {
	tuple *nodeTuple
	node  int32
}

// splitNodes sorts the nodes that could take the class by their domains.
func (p *placer) splitNodes() {
	for _, t := range p.r.m.nodeTuples(p.rc.c.ID, p.dom) {
		p.nodes = append(p.nodes, &t)
	}
	for _, n := range p.r.order {
		if !p.lv.nodes.has(int(n)) || !fits(p.rc.info.size, p.r.touched[n].free) {
			continue
		}
		var at *nodeTuple
		for _, t := range p.nodes {
			if sameDoms(t.doms, p.dom, n) {
				at = t
			}
		}
		if at == nil {
			at = &nodeTuple{doms: domsOf(p.dom, n)}
			p.nodes = append(p.nodes, at)
		}
		p.heat(at, n)
	}
}

func domsOf(dom []groupUse, n int32) []int32 {
	doms := make([]int32, len(dom))
	for i, u := range dom {
		doms[i] = u.gs.g.topo.node[n]
	}
	return doms
}

func sameDoms(doms []int32, dom []groupUse, n int32) bool {
	for i, u := range dom {
		if doms[i] != u.gs.g.topo.node[n] {
			return false
		}
	}
	return true
}

// nodeTuples sorts the nodes that could take a class, as things stand, by their domains in some groups; equal questions share the
// answer.
func (m *Model) nodeTuples(class int32, dom []groupUse) []nodeTuple {
	order := m.nodeOrder(class)
	if len(order) == 0 {
		return nil
	}
	if len(dom) == 0 {
		return []nodeTuple{{fresh: order}}
	}
	key := binary.AppendVarint(nil, int64(class))
	for _, u := range dom {
		key = binary.AppendVarint(key, int64(u.gs.g.topo.id))
	}
	m.mu.Lock()
	out, ok := m.tuples[string(key)]
	m.mu.Unlock()
	if ok {
		return out
	}
	index := map[string]int{}
	var doms []byte
	for _, n := range order {
		doms = doms[:0]
		for _, u := range dom {
			doms = binary.AppendVarint(doms, int64(u.gs.g.topo.node[n]))
		}
		k, seen := index[string(doms)]
		if !seen {
			k = len(out)
			index[string(doms)] = k
			out = append(out, nodeTuple{doms: domsOf(dom, n)})
		}
		out[k].fresh = append(out[k].fresh, n)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tuples[string(key)] = out
	return out
}

// onNode places the pod on the best existing node that may take it.
func (p *placer) onNode(pod *world.Pod) bool {
	for {
		var from *nodeTuple
		var best hotNode
		for _, t := range p.nodes {
			if !p.legal(t.doms) {
				continue
			}
			if h, ok := p.top(t); ok && (from == nil || p.r.m.hotter(h, best)) {
				from, best = t, h
			}
		}
		if from == nil {
			if !p.unpark() {
				return false
			}
			continue
		}
		heap.Pop(&from.hot)
		if !p.nodeMay(best.node) {
			if len(p.host) > 0 { // without rules about the pods beside it, what a node lacks now it will lack later
				p.parked = append(p.parked, parkedNode{from, best.node})
			}
			continue
		}
		p.bind(pod, best.node, from)
		return true
	}
}

// unpark lets refused nodes compete again if pods have been bound since.
func (p *placer) unpark() bool {
	if !p.moved || len(p.parked) == 0 {
		return false
	}
	for _, k := range p.parked {
		p.heat(k.tuple, k.node)
	}
	p.parked, p.moved = nil, false
	return true
}

// top is the best node of a tuple, moving untouched nodes into the heap as they come up.
func (p *placer) top(t *nodeTuple) (hotNode, bool) {
	for len(t.fresh) > 0 {
		n := t.fresh[0]
		if p.r.ov.Shut(n) || !p.lv.nodes.has(int(n)) {
			t.fresh = t.fresh[1:]
			continue
		}
		if _, touched := p.r.touched[n]; touched {
			t.fresh = t.fresh[1:]
			continue
		}
		h := p.rate(n)
		if len(t.hot.list) > 0 && p.r.m.hotter(t.hot.list[0], h) {
			break
		}
		t.fresh = t.fresh[1:]
		p.push(t, h)
		break
	}
	if len(t.hot.list) == 0 {
		return hotNode{}, false
	}
	return t.hot.list[0], true
}

// heat puts a node into the heap.
func (p *placer) heat(t *nodeTuple, n int32) { p.push(t, p.rate(n)) }

func (p *placer) rate(n int32) hotNode {
	return hotNode{n, score(p.rc.c, p.r.m.nodes[n].node.Allocatable, p.r.existing(n).used)}
}

func (p *placer) push(t *nodeTuple, h hotNode) {
	t.hot.m = p.r.m
	heap.Push(&t.hot, h)
}

// existingNode is a node that exists, with what this run puts on it.
type existingNode struct {
	free     []int64
	used     [2]int64
	ports    []world.Port
	attached []string
	pods     []*world.Pod
}

// existing is a node as it stands in this run; what is in it may be the model's.
func (r *run) existing(n int32) existingNode {
	if x, ok := r.touched[n]; ok {
		return *x
	}
	ni := &r.m.nodes[n]
	return existingNode{free: ni.free, used: ni.used, ports: slices.Clip(ni.ports), attached: slices.Clip(ni.node.Attached)}
}

// touch starts changing a node.
func (r *run) touch(n int32) *existingNode {
	if r.touched[n] == nil {
		x := r.existing(n)
		x.free = slices.Clone(x.free)
		r.touched[n] = &x
		r.order = append(r.order, n)
	}
	return r.touched[n]
}

// attaches is what volumes that the class shares take on the node: one attachment for each that is not there yet; nil for none.
func (x *existingNode) attaches(c *world.Class) (once []int64) {
	for _, s := range c.Shared {
		if !slices.Contains(x.attached, s.Claim) {
			if once == nil {
				once = make([]int64, len(x.free))
			}
			once[s.Resource]++
		}
	}
	return once
}

// nodeMay says whether an existing node can take one more pod: size, volumes, ports and the pods beside it.
func (p *placer) nodeMay(n int32) bool {
	x := p.r.existing(n)
	if portsConflict(p.rc.c.Ports, x.ports) || !fitsWith(p.rc.info.size, x.attaches(p.rc.c), x.free) {
		return false
	}
	for i := range p.host {
		if u := &p.host[i]; !p.may(u, u.gs.g.topo.node[n]) {
			return false
		}
	}
	return true
}

// bind puts the pod on the node and lets the node compete again if it may still take more.
func (p *placer) bind(pod *world.Pod, n int32, t *nodeTuple) {
	x := p.r.touch(n)
	subFrom(x.free, p.rc.info.size)
	subFrom(x.free, x.attaches(p.rc.c))
	for _, s := range p.rc.c.Shared {
		if !slices.Contains(x.attached, s.Claim) {
			x.attached = append(x.attached, s.Claim)
		}
	}
	cpu, mem := p.rc.c.ScoreRequests()
	x.used[0], x.used[1] = x.used[0]+cpu, x.used[1]+mem
	x.ports = append(x.ports, p.rc.c.Ports...)
	x.pods = append(x.pods, pod)
	p.moved = true
	p.count(t.doms)
	for i := range p.host {
		if u := &p.host[i]; u.gs.g.topo.node[n] >= 0 {
			p.countIn(u, u.gs.g.topo.node[n])
		}
	}
	if fits(p.rc.info.size, x.free) {
		p.heat(t, n)
	}
}

// hotNode is a node with its score for the class in question.
type hotNode struct {
	node  int32
	score int64
}

func (m *Model) hotter(a, b hotNode) bool {
	if a.score != b.score {
		return a.score > b.score
	}
	return m.nodeRank[a.node] < m.nodeRank[b.node]
}

// nodeHeap keeps the best node on top.
type nodeHeap struct {
	m    *Model
	list []hotNode
}

func (h *nodeHeap) Len() int           { return len(h.list) }
func (h *nodeHeap) Less(i, j int) bool { return h.m.hotter(h.list[i], h.list[j]) }
func (h *nodeHeap) Swap(i, j int)      { h.list[i], h.list[j] = h.list[j], h.list[i] }
func (h *nodeHeap) Push(x any)         { h.list = append(h.list, x.(hotNode)) }
func (h *nodeHeap) Pop() any {
	x := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return x
}
