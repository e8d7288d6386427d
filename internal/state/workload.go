package state

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// putNamespace looks again at pods whose terms pick namespaces by label.
func (m *Mirror) putNamespace(n *corev1.Namespace) {
	old := m.conv.namespaces[n.Name]
	if m.conv.namespaces.put(n.Name, n) && (old == nil || !maps.Equal(old.Labels, n.Labels)) {
		m.spacesChanged()
	}
}

func (m *Mirror) dropNamespace(n *corev1.Namespace) {
	if m.conv.namespaces.drop(n.Name, n) {
		m.spacesChanged()
	}
}

func (m *Mirror) spacesChanged() {
	if m.drafts.spaces > 0 {
		m.queueAll(reread, func(e *podEntry) bool { return e.draft != nil && e.draft.spaces })
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
		m.conv.putService(o)
	case *appsv1.ReplicaSet:
		if !m.learnSelector("ReplicaSet/"+spaced(o), o.Spec.Selector) {
			return
		}
	case *appsv1.StatefulSet:
		if !m.learnSelector("StatefulSet/"+spaced(o), o.Spec.Selector) {
			return
		}
	}
	m.rereadSpace(space(obj))
}

func (m *Mirror) dropWorkload(obj Object) {
	if len(m.opt.DefaultSpread) == 0 {
		return
	}
	switch o := obj.(type) {
	case *corev1.Service:
		m.conv.dropService(o)
	case *appsv1.ReplicaSet:
		delete(m.conv.workloads, "ReplicaSet/"+spaced(o))
	case *appsv1.StatefulSet:
		delete(m.conv.workloads, "StatefulSet/"+spaced(o))
	}
	m.rereadSpace(space(obj))
}

// learnSelector says whether the selector was news; that of a workload never changes.
func (m *Mirror) learnSelector(key string, s *metav1.LabelSelector) bool {
	_, known := m.conv.workloads[key]
	m.conv.workloads[key] = s
	return !known
}

func (m *Mirror) rereadSpace(space string) {
	for _, e := range m.pods[space] {
		m.enqueue(e, reread)
	}
}
