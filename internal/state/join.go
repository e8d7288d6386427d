package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
)

// host is a node's name with everything that goes by it: the Node object, which may be missing, and the pods bound to it.
type host struct {
	name string
	node *corev1.Node
	pods []*podEntry // not finished, in order of namespace and name
	// nominees are pods that need a node and are nominated for this node, in the same order.
	nominees []*podEntry
	// facts is what the node and its claim say, without pods; nil when they must be read again.
	facts *world.Node
	unit  *Node
	dirty bool
	// podEvent is when a pod last came or went.
	podEvent time.Time
}

// claimEntry is a claim.
type claimEntry struct {
	name  string
	obj   *v1.NodeClaim // nil once it is gone
	facts *world.Node
	unit  *Node // while no node stands for it
	dirty bool
	// assumed is until when the claim counts although the API has not shown it; zero once it has.
	assumed time.Time
}

// hostOf finds a host, or makes it.
func (m *Mirror) hostOf(name string) *host {
	h := m.hosts[name]
	if h == nil {
		h = &host{name: name}
		m.hosts[name] = h
	}
	return h
}

func (m *Mirror) putNode(n *corev1.Node) {
	h := m.hostOf(n.Name)
	switch {
	case h.node == nil || !outdated(h.node, n):
		m.setNode(h, n)
	case h.node != n && sameVersion(h.node, n):
		h.node = n // what we have written comes back: the informer keeps it, so that our copy need not be kept
		m.markHost(h)
	}
}

func (m *Mirror) dropNode(n *corev1.Node) {
	if h := m.hosts[n.Name]; h != nil && h.node != nil && sameUID(h.node, n) {
		m.setNode(h, nil)
	}
}

// setNode replaces the Node object of a host. Whatever the old or the new one could be joined with is looked at again.
func (m *Mirror) setNode(h *host, n *corev1.Node) {
	if h.node != nil && h.node.Spec.ProviderID != "" {
		m.touchProvider(h.node.Spec.ProviderID)
		remove(m.hostsBy, h.node.Spec.ProviderID, h)
	}
	h.node = n
	if n != nil && n.Spec.ProviderID != "" {
		m.hostsBy[n.Spec.ProviderID] = append(m.hostsBy[n.Spec.ProviderID], h)
		m.touchProvider(n.Spec.ProviderID)
	}
	m.touchHost(h)
}

func (m *Mirror) putClaim(c *v1.NodeClaim) {
	e := m.claims[c.Name]
	switch {
	case e == nil:
		e = &claimEntry{name: c.Name}
		m.claims[c.Name] = e
	case e.obj != nil && outdated(e.obj, c):
		if e.assumed.IsZero() || !sameUID(e.obj, c) {
			m.adopt(e, c)
			return
		}
		if !sameVersion(e.obj, c) {
			c = e.obj // the API shows an earlier version of what we have written: it exists
		}
	}
	e.assumed = time.Time{}
	delete(m.assumed, c.Name)
	if c.DeletionTimestamp != nil {
		delete(m.leaving, c.Name)
	}
	m.setClaim(e, c)
}

// adopt takes the informer's object in place of the copy of what we have written, if they are the same.
func (m *Mirror) adopt(e *claimEntry, c *v1.NodeClaim) {
	if e.obj == c || !sameVersion(e.obj, c) {
		return
	}
	e.obj = c
	m.markClaim(e)
	for _, h := range m.hostsBy[c.Status.ProviderID] {
		m.markHost(h)
	}
	if h := m.hosts[c.Status.NodeName]; h != nil {
		m.markHost(h)
	}
}

func (m *Mirror) dropClaim(c *v1.NodeClaim) {
	if c.UID != "" {
		m.gone[c.UID] = m.clock().Add(assumeFor)
		m.wakeBy(m.gone[c.UID])
	}
	e := m.claims[c.Name]
	if e == nil || e.obj == nil || !sameUID(e.obj, c) {
		return
	}
	delete(m.assumed, c.Name)
	delete(m.leaving, c.Name)
	m.setClaim(e, nil)
}

// setClaim replaces a claim. Whatever the old or the new one could be joined with is looked at again.
func (m *Mirror) setClaim(e *claimEntry, c *v1.NodeClaim) {
	if e.obj != nil {
		m.touchJoined(e)
		remove(m.claimsBy, e.obj.Status.ProviderID, e)
		remove(m.claimsAt, e.obj.Status.NodeName, e)
	}
	e.obj = c
	if c != nil {
		if c.Status.ProviderID != "" {
			m.claimsBy[c.Status.ProviderID] = append(m.claimsBy[c.Status.ProviderID], e)
		}
		if c.Status.NodeName != "" {
			m.claimsAt[c.Status.NodeName] = append(m.claimsAt[c.Status.NodeName], e)
		}
		m.touchJoined(e)
	}
	m.touchClaim(e)
}

// touchJoined looks again at everything that a claim could be joined with.
func (m *Mirror) touchJoined(e *claimEntry) {
	if e.obj.Status.ProviderID != "" {
		m.touchProvider(e.obj.Status.ProviderID)
	}
	if h := m.hosts[e.obj.Status.NodeName]; h != nil {
		m.touchHost(h)
	}
}

func (m *Mirror) touchProvider(id string) {
	for _, h := range m.hostsBy[id] {
		m.touchHost(h)
	}
	for _, c := range m.claimsBy[id] {
		m.touchClaim(c)
		if h := m.hosts[c.obj.Status.NodeName]; h != nil {
			m.touchHost(h)
		}
	}
}

// touchHost looks again at a host and at the claims that were registered with it.
func (m *Mirror) touchHost(h *host) {
	h.facts = nil
	m.markHost(h)
	for _, c := range m.claimsAt[h.name] {
		m.markClaim(c)
	}
}

// markHost builds the host's unit again, from the same facts.
func (m *Mirror) markHost(h *host) {
	if !h.dirty {
		h.dirty = true
		m.dirtyHosts = append(m.dirtyHosts, h)
	}
	if h.node == nil {
		for _, c := range m.claimsAt[h.name] {
			m.markClaim(c)
		}
	}
}

func (m *Mirror) touchClaim(c *claimEntry) {
	c.facts = nil
	m.markClaim(c)
}

func (m *Mirror) markClaim(c *claimEntry) {
	if !c.dirty {
		c.dirty = true
		m.dirtyClaims = append(m.dirtyClaims, c)
	}
}

func remove[T comparable](index map[string][]T, key string, item T) {
	if index[key] = slices.DeleteFunc(index[key], func(x T) bool { return x == item }); len(index[key]) == 0 {
		delete(index, key)
	}
}

// ownerOf is the claim that an instance belongs to: the oldest that names it.
func (m *Mirror) ownerOf(provider string) *claimEntry {
	list := m.claimsBy[provider]
	if len(list) == 0 {
		return nil
	}
	return slices.MinFunc(list, func(x, y *claimEntry) int {
		return cmp.Or(x.obj.CreationTimestamp.Compare(y.obj.CreationTimestamp.Time), strings.Compare(x.name, y.name))
	})
}

// nodeOf is the host whose node stands for a claim: the one that it was registered with, or else the oldest that shows the claim's
// instance. A node under another name than the registered one is never joined, whatever it says it is.
func (m *Mirror) nodeOf(c *claimEntry) *host {
	id, name := c.obj.Status.ProviderID, c.obj.Status.NodeName
	if id != "" && m.ownerOf(id) != c {
		return nil
	}
	if name != "" {
		h := m.hosts[name]
		if h == nil || h.node == nil || (h.node.Spec.ProviderID != id && h.node.Spec.ProviderID != "" && id != "") || m.firstAt(name) != c {
			return nil
		}
		return h
	}
	if list := m.hostsBy[id]; id != "" && len(list) > 0 {
		return slices.MinFunc(list, func(x, y *host) int {
			return cmp.Or(x.node.CreationTimestamp.Compare(y.node.CreationTimestamp.Time), strings.Compare(x.name, y.name))
		})
	}
	return nil
}

// firstAt is the claim that a node's name belongs to where several were registered with it: the one whose instance the node shows,
// or else the oldest. A claim whose instance belongs to another has no say.
func (m *Mirror) firstAt(name string) *claimEntry {
	id := ""
	if h := m.hosts[name]; h != nil && h.node != nil {
		id = h.node.Spec.ProviderID
	}
	var first *claimEntry
	for _, c := range m.claimsAt[name] {
		own := c.obj.Status.ProviderID
		if own != "" && m.ownerOf(own) != c {
			continue
		}
		if first == nil || cmp.Or(rank(own == id)-rank(first.obj.Status.ProviderID == id), c.obj.CreationTimestamp.Compare(first.obj.CreationTimestamp.Time), strings.Compare(c.name, first.name)) < 0 {
			first = c
		}
	}
	return first
}

func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// claimFor is the claim that a host's node stands for, or an error for a node that shows an instance which is another's.
func (m *Mirror) claimFor(h *host) (*claimEntry, error) {
	if id := h.node.Spec.ProviderID; id != "" {
		if c := m.ownerOf(id); c != nil {
			other := m.nodeOf(c)
			switch {
			case other == h:
				return c, nil
			case other != nil || c.obj.Status.NodeName != "":
				return nil, fmt.Errorf("shows instance %s, which belongs to claim %s and node %s; it is not counted as that claim's node", id, c.name, nodeName(other, c))
			}
		}
	}
	for _, c := range m.claimsAt[h.name] {
		if m.nodeOf(c) == h {
			return c, nil
		}
	}
	return nil, nil
}

func nodeName(h *host, c *claimEntry) string {
	if h != nil {
		return h.name
	}
	return c.obj.Status.NodeName
}

func (m *Mirror) putCSINode(n *storagev1.CSINode) {
	if m.csiNodes.put(n.Name, n) && m.hosts[n.Name] != nil {
		m.touchHost(m.hosts[n.Name])
	}
}

func (m *Mirror) dropCSINode(n *storagev1.CSINode) {
	if m.csiNodes.drop(n.Name, n) && m.hosts[n.Name] != nil {
		m.touchHost(m.hosts[n.Name])
	}
}
