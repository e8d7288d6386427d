package state

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "karpenter/api/karpenter/v1"
)

// sources is what a view is made from besides what it shows: with it the view can be written down and made again. A view shares
// it with the one before as far as nothing has changed.
type sources struct {
	// idle are the pods that are neither finished nor bound nor pending, in order of namespace and name.
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
	controllers  []*corev1.ReplicationController
	replicaSets  []*appsv1.ReplicaSet
	statefulSets []*appsv1.StatefulSet

	// types is what classes can launch, and resources how its vectors are numbered.
	types     map[string]*typeList
	resources []string
}

// staleSet is the lists of sources that have to be made again, as bits.
type staleSet uint16

const (
	staleIdle staleSet = 1 << iota
	staleUnshown
	staleDaemons
	staleVolumes
	staleUses
	staleStorage
	staleCSINodes
	staleSpaces
	staleWorkloads
)

// unshownKey names a node or a claim.
type unshownKey struct {
	claim bool
	name  string
}

// markStale notes that the list with objects of this kind is outdated.
func (m *Mirror) markStale(obj Object) {
	switch obj.(type) {
	case *appsv1.DaemonSet:
		m.stale |= staleDaemons
	case *corev1.PersistentVolume:
		m.stale |= staleVolumes
	case *corev1.PersistentVolumeClaim:
		m.stale |= staleUses
	case *storagev1.StorageClass:
		m.stale |= staleStorage
	case *storagev1.CSINode:
		m.stale |= staleCSINodes
	case *corev1.Namespace:
		m.stale |= staleSpaces
	case *corev1.Service, *corev1.ReplicationController, *appsv1.ReplicaSet, *appsv1.StatefulSet:
		m.stale |= staleWorkloads
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
	m.stale |= staleIdle
	m.changed = true
}

// setUnshown notes whether a host's node and the claims that go with it are shown by some node of the view.
func (m *Mirror) setUnshown(h *host) {
	m.markUnshown(unshownKey{false, h.name}, h.node != nil && h.unit == nil)
	if h.node != nil {
		for _, c := range m.claimsBy[h.node.Spec.ProviderID] {
			m.claimUnshown(c)
		}
	}
	for _, c := range m.claimsAt[h.name] {
		m.claimUnshown(c)
	}
}

func (m *Mirror) claimUnshown(c *claimEntry) {
	shown, _ := m.byClaim.get(c.name)
	m.markUnshown(unshownKey{true, c.name}, c.obj != nil && shown == nil)
}

func (m *Mirror) markUnshown(key unshownKey, is bool) {
	if is {
		m.unshown[key] = true
	} else if m.unshown[key] {
		delete(m.unshown, key)
	} else {
		return
	}
	m.stale |= staleUnshown
	m.changed = true
}

// refreshSources makes the outdated lists again, for the next view.
func (m *Mirror) refreshSources() *sources {
	if m.sources != nil && m.stale == 0 && maps.Equal(m.types, m.sources.types) {
		return m.sources
	}
	b := &sources{}
	if m.sources != nil {
		*b = *m.sources
	}
	if m.stale&staleIdle != 0 {
		b.idle = m.idlePods()
	}
	if m.stale&staleUnshown != 0 {
		m.refreshUnshown(b)
	}
	if m.stale&staleDaemons != 0 {
		b.daemons = nil
		for _, d := range m.daemons {
			b.daemons = append(b.daemons, d.obj)
		}
	}
	if m.stale&staleVolumes != 0 {
		b.volumes = m.volumes.volumes.list()
	}
	if m.stale&staleUses != 0 {
		b.uses = m.volumes.claims.list()
	}
	if m.stale&staleStorage != 0 {
		b.storage = m.volumes.storage.list()
	}
	if m.stale&staleCSINodes != 0 {
		b.csiNodes = m.csiNodes.list()
	}
	if m.stale&staleSpaces != 0 {
		b.spaces = table[*corev1.Namespace](m.conv.Namespaces).list()
	}
	if m.stale&staleWorkloads != 0 {
		m.refreshWorkloads(b)
	}
	b.types, b.resources = maps.Clone(m.types), m.conv.Names.List()
	m.sources, m.stale = b, 0
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

func (m *Mirror) refreshUnshown(b *sources) {
	b.nodes, b.claims = nil, nil
	for key := range m.unshown {
		if key.claim {
			b.claims = append(b.claims, m.claims[key.name].obj)
		} else {
			b.nodes = append(b.nodes, m.hosts[key.name].node)
		}
	}
}

// refreshWorkloads writes down what is remembered of services and workloads, which is their selectors.
func (m *Mirror) refreshWorkloads(b *sources) {
	b.services, b.controllers, b.replicaSets, b.statefulSets = nil, nil, nil, nil
	for space, list := range m.conv.Services {
		for _, s := range list {
			b.services = append(b.services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: s.Name}, Spec: corev1.ServiceSpec{Selector: s.Selector}})
		}
	}
	for key, w := range m.conv.Workloads {
		meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
		switch key.Kind {
		case "StatefulSet":
			b.statefulSets = append(b.statefulSets, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: w.Selector}})
		case "ReplicaSet":
			b.replicaSets = append(b.replicaSets, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: w.Selector}})
		default:
			b.controllers = append(b.controllers, &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Selector: w.Selector.MatchLabels}})
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
