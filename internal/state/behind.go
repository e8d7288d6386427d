package state

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "karpenter/api/karpenter/v1"
)

// behind is what a view is made from besides what it shows: with it the view can be written down and made again. A view shares
// it with the one before as far as nothing has changed.
type behind struct {
	// idle are the pods that are neither finished nor bound nor in want of a place, in order of namespace and name.
	idle []*corev1.Pod
	// nodes and claims are those that no node of the view shows.
	nodes  []*corev1.Node
	claims []*v1.NodeClaim

	daemons      []*appsv1.DaemonSet
	volumes      []*corev1.PersistentVolume
	uses         []*corev1.PersistentVolumeClaim
	storage      []*storagev1.StorageClass
	csiNodes     []*storagev1.CSINode
	spaces       []*corev1.Namespace
	services     []*corev1.Service
	replicaSets  []*appsv1.ReplicaSet
	statefulSets []*appsv1.StatefulSet

	// types is what classes can launch, and resources how its vectors are numbered.
	types     map[string]*typeList
	resources []string
}

// shelf names a list of behind that has to be made again.
type shelf uint16

const (
	shelfIdle shelf = 1 << iota
	shelfAside
	shelfDaemons
	shelfVolumes
	shelfUses
	shelfStorage
	shelfCSINodes
	shelfSpaces
	shelfWorkloads
)

// asideKey names a node or a claim.
type asideKey struct {
	claim bool
	name  string
}

// unshelve notes that the list with objects of this kind is outdated.
func (m *Mirror) unshelve(obj Object) {
	switch obj.(type) {
	case *appsv1.DaemonSet:
		m.stale |= shelfDaemons
	case *corev1.PersistentVolume:
		m.stale |= shelfVolumes
	case *corev1.PersistentVolumeClaim:
		m.stale |= shelfUses
	case *storagev1.StorageClass:
		m.stale |= shelfStorage
	case *storagev1.CSINode:
		m.stale |= shelfCSINodes
	case *corev1.Namespace:
		m.stale |= shelfSpaces
	case *corev1.Service, *appsv1.ReplicaSet, *appsv1.StatefulSet:
		m.stale |= shelfWorkloads
	}
}

// setIdle notes whether a pod takes no part although it is not finished.
func (m *Mirror) setIdle(e *podEntry, idle bool) {
	if e.pod == nil || (!idle && !e.idle) {
		return
	}
	if e.idle = idle; idle {
		m.idle[e] = true
	} else {
		delete(m.idle, e)
	}
	m.stale |= shelfIdle
	m.changed = true
}

// setAside notes whether a host's node and the claims that go with it are shown by some node of the view.
func (m *Mirror) setAside(h *host) {
	m.markAside(asideKey{false, h.name}, h.node != nil && h.unit == nil)
	if h.node != nil {
		for _, c := range m.claimsBy[h.node.Spec.ProviderID] {
			m.claimAside(c)
		}
	}
	for _, c := range m.claimsAt[h.name] {
		m.claimAside(c)
	}
}

func (m *Mirror) claimAside(c *claimEntry) {
	shown, _ := m.byClaim.get(c.name)
	m.markAside(asideKey{true, c.name}, c.obj != nil && shown == nil)
}

func (m *Mirror) markAside(key asideKey, is bool) {
	if is {
		m.aside[key] = true
	} else if m.aside[key] {
		delete(m.aside, key)
	} else {
		return
	}
	m.stale |= shelfAside
	m.changed = true
}

// shelve makes the outdated lists again, for the next view.
func (m *Mirror) shelve() *behind {
	if m.behind != nil && m.stale == 0 && maps.Equal(m.types, m.behind.types) {
		return m.behind
	}
	b := &behind{}
	if m.behind != nil {
		*b = *m.behind
	}
	if m.stale&shelfIdle != 0 {
		b.idle = m.idlePods()
	}
	if m.stale&shelfAside != 0 {
		m.shelveAside(b)
	}
	if m.stale&shelfDaemons != 0 {
		b.daemons = nil
		for _, d := range m.daemons {
			b.daemons = append(b.daemons, d.obj)
		}
	}
	if m.stale&shelfVolumes != 0 {
		b.volumes = m.volumes.volumes.list()
	}
	if m.stale&shelfUses != 0 {
		b.uses = m.volumes.claims.list()
	}
	if m.stale&shelfStorage != 0 {
		b.storage = m.volumes.storage.list()
	}
	if m.stale&shelfCSINodes != 0 {
		b.csiNodes = m.csiNodes.list()
	}
	if m.stale&shelfSpaces != 0 {
		b.spaces = m.conv.namespaces.list()
	}
	if m.stale&shelfWorkloads != 0 {
		m.shelveWorkloads(b)
	}
	b.types, b.resources = maps.Clone(m.types), m.conv.names.List()
	m.behind, m.stale = b, 0
	return b
}

func (m *Mirror) idlePods() []*corev1.Pod {
	entries := slices.SortedFunc(maps.Keys(m.idle), comparePods)
	out := make([]*corev1.Pod, len(entries))
	for i, e := range entries {
		out[i] = e.pod
	}
	return out
}

func (m *Mirror) shelveAside(b *behind) {
	b.nodes, b.claims = nil, nil
	for key := range m.aside {
		if key.claim {
			b.claims = append(b.claims, m.claims[key.name].obj)
		} else {
			b.nodes = append(b.nodes, m.hosts[key.name].node)
		}
	}
}

// shelveWorkloads writes down what is remembered of services and workloads, which is their selectors.
func (m *Mirror) shelveWorkloads(b *behind) {
	b.services, b.replicaSets, b.statefulSets = nil, nil, nil
	for space, list := range m.conv.services {
		for _, s := range list {
			b.services = append(b.services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: s.name}, Spec: corev1.ServiceSpec{Selector: s.labels}})
		}
	}
	for key, selector := range m.conv.workloads {
		kind, rest, _ := strings.Cut(key, "/")
		space, name, _ := strings.Cut(rest, "/")
		meta := metav1.ObjectMeta{Namespace: space, Name: name}
		if kind == "StatefulSet" {
			b.statefulSets = append(b.statefulSets, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector}})
		} else {
			b.replicaSets = append(b.replicaSets, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector}})
		}
	}
}

// list is the table in any order.
func (t table[T]) list() []T {
	out := make([]T, 0, len(t))
	for _, o := range t {
		out = append(out, o)
	}
	return out
}
