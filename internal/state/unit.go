package state

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
)

// unitEdit is a node of the view that has come, changed or gone.
type unitEdit struct {
	inFlight bool
	name     string
	was, is  *Node
}

// refreshUnits builds the nodes again whose objects or pods have changed.
func (m *Mirror) refreshUnits() {
	var edits []unitEdit
	var moved []*podEntry
	slices.SortFunc(m.dirtyHosts, func(x, y *host) int { return strings.Compare(x.name, y.name) })
	slices.SortFunc(m.dirtyClaims, func(x, y *claimEntry) int { return strings.Compare(x.name, y.name) })
	for _, h := range m.dirtyHosts {
		h.dirty = false
		is := m.hostUnit(h)
		moved = append(moved, m.settleNominees(h, is != nil)...)
		if is != h.unit {
			edits = append(edits, unitEdit{false, h.name, h.unit, is})
			h.unit = is
		}
		if h.node == nil && len(h.pods)+len(h.nominees) == 0 {
			delete(m.hosts, h.name)
		}
	}
	for _, c := range m.dirtyClaims {
		c.dirty = false
		is := m.claimUnit(c)
		if is != c.unit {
			edits = append(edits, unitEdit{true, c.name, c.unit, is})
			c.unit = is
		}
		if c.obj == nil {
			delete(m.claims, c.name)
		}
	}
	m.applyUnits(edits)
	slices.SortFunc(moved, comparePods)
	m.movePending(moved)
	for _, h := range m.dirtyHosts {
		m.setUnshown(h)
	}
	for _, c := range m.dirtyClaims {
		m.claimUnshown(c)
	}
	clear(m.dirtyHosts)
	clear(m.dirtyClaims)
	m.dirtyHosts, m.dirtyClaims = m.dirtyHosts[:0], m.dirtyClaims[:0]
}

// applyUnits changes the list of nodes, which is in order of name, those in flight last.
func (m *Mirror) applyUnits(edits []unitEdit) {
	if len(edits) == 0 {
		return
	}
	m.changed = true
	slices.SortFunc(edits, func(x, y unitEdit) int { return compareUnits(x.inFlight, x.name, y.inFlight, y.name) })
	nodes, worlds := make([]edit[*Node], len(edits)), make([]edit[*world.Node], len(edits))
	for i, e := range edits {
		at, found := slices.BinarySearchFunc(m.nodes, e, func(n *Node, e unitEdit) int { return compareUnits(n.World.InFlight, n.World.Name, e.inFlight, e.name) })
		nodes[i] = edit[*Node]{at, found, e.is != nil, e.is}
		worlds[i] = edit[*world.Node]{at: at, out: found, in: e.is != nil}
		if e.is != nil {
			worlds[i].item = e.is.World
		}
		m.worldChanged = m.worldChanged || e.is == nil || e.was == nil || e.is.World != e.was.World
	}
	m.nodes = splice(m.nodes, nodes)
	if m.worldChanged {
		m.worlds = splice(m.worlds, worlds)
	}
	for _, e := range edits {
		if e.was != nil && e.was.Claim != nil {
			if n, _ := m.byClaim.get(e.was.Claim.Name); n == e.was {
				m.byClaim.del(e.was.Claim.Name)
			}
		}
	}
	for _, e := range edits {
		if e.is != nil && e.is.Claim != nil {
			m.byClaim.set(e.is.Claim.Name, e.is)
		}
	}
}

func compareUnits(xFlight bool, x string, yFlight bool, y string) int {
	if xFlight != yFlight {
		if xFlight {
			return 1
		}
		return -1
	}
	return strings.Compare(x, y)
}

// hostUnit is the node that a host stands for, or nil.
func (m *Mirror) hostUnit(h *host) *Node {
	if h.node == nil {
		var err error
		if len(h.pods) > 0 && m.firstAt(h.name) == nil {
			err = fmt.Errorf("is not in the snapshot, but pods are bound to it (%d); they are left out", len(h.pods))
		}
		m.problem("Node", h.name, "", err)
		m.problem("Node", h.name, "join", nil)
		return nil
	}
	owner, lie := m.claimFor(h)
	m.problem("Node", h.name, "join", lie)
	if owner == nil && lie == nil && unfinished(h.node) {
		m.problem("Node", h.name, "", nil)
		return nil
	}
	var claim *v1.NodeClaim
	if owner != nil {
		claim = owner.obj
	}
	if h.facts == nil {
		facts, err := m.nodeFacts(h.node, claim)
		m.problem("Node", h.name, "", err)
		if err != nil {
			return nil
		}
		if lie != nil {
			facts.Pool = "" // the pool is charged with the node that is the claim's
		}
		h.facts = facts
	}
	return m.unit(h.unit, h.facts, &Node{Object: h.node, Claim: claim, PodEvent: h.podEvent}, m.seat(h))
}

// claimUnit is the node that a claim promises, or nil once a node stands for it.
func (m *Mirror) claimUnit(c *claimEntry) *Node {
	var rival *claimEntry
	if c.obj != nil && c.obj.Status.ProviderID != "" {
		if rival = m.ownerOf(c.obj.Status.ProviderID); rival == c {
			rival = nil
		}
	}
	if rival != nil {
		m.problem("NodeClaim", c.name, "join", fmt.Errorf("has instance %s on record, which belongs to claim %s; it is left out", c.obj.Status.ProviderID, rival.name))
		return nil
	}
	m.problem("NodeClaim", c.name, "join", nil)
	if c.obj == nil || m.nodeOf(c) != nil {
		m.problem("NodeClaim", c.name, "", nil)
		return nil
	}
	if c.facts == nil {
		facts, err := m.claimFacts(c.obj)
		m.problem("NodeClaim", c.name, "", err)
		if err != nil {
			return nil
		}
		c.facts = facts
	}
	n := &Node{Claim: c.obj, Assumed: !c.assumed.IsZero()}
	var pods []*podEntry
	if h := m.hosts[c.obj.Status.NodeName]; h != nil && h.node == nil && m.firstAt(h.name) == c {
		pods, n.PodEvent = h.pods, h.podEvent // their node is late, or was removed
	}
	return m.unit(c.unit, c.facts, n, pods)
}

func (m *Mirror) nodeFacts(n *corev1.Node, claim *v1.NodeClaim) (w *world.Node, err error) {
	defer recovered(&err)
	w, err = m.conv.Node(n, claim, m.csiNodes[n.Name])
	if err != nil {
		return nil, err
	}
	m.attachFallback(w, claim)
	w.Deleting = w.Deleting || (claim != nil && m.isLeaving(claim.Name))
	m.price(w, claim).tell(w)
	return w, nil
}

func (m *Mirror) claimFacts(c *v1.NodeClaim) (w *world.Node, err error) {
	defer recovered(&err)
	w, err = m.conv.InFlight(c, m.largest)
	if err != nil {
		return nil, err
	}
	if len(c.Status.Allocatable) > 0 { // else it has room for the pods that it was made for, and no others
		m.attachFallback(w, c)
	}
	w.Deleting = w.Deleting || m.isLeaving(c.Name)
	m.price(w, c).tell(w)
	return w, nil
}

// unit completes a node of the view. What has not changed since the last one stays the same value, so that whoever has looked
// at it need not look again.
func (m *Mirror) unit(old *Node, facts *world.Node, n *Node, pods []*podEntry) *Node {
	var worlds []*world.Pod
	if len(pods) > 0 {
		worlds = make([]*world.Pod, len(pods))
	}
	for i, e := range pods {
		worlds[i] = e.world
		if e.pod != nil {
			n.Pods = append(n.Pods, e.pod)
		}
	}
	n.World = withPods(facts, worlds, m.classes.list)
	if old != nil && !m.fresh && sameNode(old.World, n.World) {
		n.World = old.World
	} else {
		n.World.Load(m.classes.list) // found out here, once, so that decisions need not
	}
	if old != nil && old.World == n.World && old.Object == n.Object && old.Claim == n.Claim && old.Assumed == n.Assumed &&
		old.PodEvent.Equal(n.PodEvent) && slices.Equal(old.Pods, n.Pods) {
		return old
	}
	return n
}

// space is the namespace of an object, which text may leave out.

// recovered turns a panic over one object into that object's error, so that no other suffers from it.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("cannot be read: %v", r)
	}
}
