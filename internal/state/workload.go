package state

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

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

// putService looks again at the pods that a Service has picked or picks now: default topology spread goes by its selector (N1).
func (m *Mirror) putService(svc *corev1.Service) {
	if len(m.opt.DefaultSpread) == 0 {
		return
	}
	if was, is := m.conv.PutService(svc); was != nil || is != nil {
		m.rereadSpace(toworld.Space(svc), func(p *corev1.Pod) bool { return was.Concerns(p.Labels) || is.Concerns(p.Labels) })
	}
}

func (m *Mirror) dropService(svc *corev1.Service) {
	if was := m.conv.DropService(svc); was != nil {
		m.rereadSpace(toworld.Space(svc), func(p *corev1.Pod) bool { return was.Concerns(p.Labels) })
	}
}

// putWorkload looks again at the pods of a workload whose selector is news.
func (m *Mirror) putWorkload(obj Object) {
	key, now, ok := toworld.KeyOf(obj)
	if !ok || len(m.opt.DefaultSpread) == 0 {
		return
	}
	was, known := m.conv.Workloads[key]
	m.conv.Workloads[key] = now
	if !known || !equality.Semantic.DeepEqual(was.Selector, now.Selector) {
		m.rereadSpace(key.Namespace, func(p *corev1.Pod) bool { return toworld.OwnerKey(p) == key })
	}
}

func (m *Mirror) dropWorkload(obj Object) {
	key, gone, _ := toworld.KeyOf(obj)
	if was, known := m.conv.Workloads[key]; known && was.UID == gone.UID {
		delete(m.conv.Workloads, key)
		m.rereadSpace(key.Namespace, func(p *corev1.Pod) bool { return toworld.OwnerKey(p) == key })
	}
}

// rereadSpace looks again at pods of a namespace that have no spread constraints of their own.
func (m *Mirror) rereadSpace(space string, is func(*corev1.Pod) bool) {
	for _, e := range m.pods[space] {
		if e.pod != nil && len(e.pod.Spec.TopologySpreadConstraints) == 0 && is(e.pod) {
			m.enqueue(e, reread)
		}
	}
}
