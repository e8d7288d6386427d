package state

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"karpenter/internal/state/toworld"
)

// putNamespace looks again at pods whose terms pick namespaces by label.
func (m *Mirror) putNamespace(n *corev1.Namespace) {
	old := m.conv.Namespaces[n.Name]
	if table[*corev1.Namespace](m.conv.Namespaces).put(n.Name, n) && (old == nil || !maps.Equal(old.Labels, n.Labels)) {
		m.spacesChanged()
	}
}

func (m *Mirror) dropNamespace(n *corev1.Namespace) {
	if table[*corev1.Namespace](m.conv.Namespaces).drop(n.Name, n) {
		m.spacesChanged()
	}
}

func (m *Mirror) spacesChanged() {
	if m.drafts.Spaces > 0 {
		m.queueAll(reread, func(e *podEntry) bool { return e.draft != nil && e.draft.Spaces })
	}
	for _, d := range m.daemons {
		d.dirty = true
	}
}

// putWorkload learns the selector of a workload, which default topology spread goes by.
func (m *Mirror) putWorkload(obj Object) {
	if len(m.opt.DefaultSpread) == 0 {
		return
	}
	switch o := obj.(type) {
	case *corev1.Service:
		m.conv.PutService(o)
	case *appsv1.ReplicaSet:
		if !m.learnSelector("ReplicaSet/"+spaced(o), o.Spec.Selector) {
			return
		}
	case *appsv1.StatefulSet:
		if !m.learnSelector("StatefulSet/"+spaced(o), o.Spec.Selector) {
			return
		}
	}
	m.rereadSpace(toworld.Space(obj))
}

func (m *Mirror) dropWorkload(obj Object) {
	if len(m.opt.DefaultSpread) == 0 {
		return
	}
	switch o := obj.(type) {
	case *corev1.Service:
		m.conv.DropService(o)
	case *appsv1.ReplicaSet:
		delete(m.conv.Workloads, "ReplicaSet/"+spaced(o))
	case *appsv1.StatefulSet:
		delete(m.conv.Workloads, "StatefulSet/"+spaced(o))
	}
	m.rereadSpace(toworld.Space(obj))
}

// learnSelector says whether the selector was news; that of a workload never changes.
func (m *Mirror) learnSelector(key string, s *metav1.LabelSelector) bool {
	_, known := m.conv.Workloads[key]
	m.conv.Workloads[key] = s
	return !known
}

func (m *Mirror) rereadSpace(space string) {
	for _, e := range m.pods[space] {
		m.enqueue(e, reread)
	}
}
