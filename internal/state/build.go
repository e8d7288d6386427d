package state

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"karpenter/internal/engine/world"
	"karpenter/internal/state/dump"
	"karpenter/internal/state/toworld"
)

// Options says how objects are to be read.
type Options = toworld.Options

// Build makes a snapshot from objects and the instance types that pools may use: it is a mirror that is fed once. dump.Objects that
// make no sense are left out and named in the problems.
func Build(obj *dump.Objects, catalog *dump.Catalog, opt Options) (*world.Snapshot, []dump.Problem) {
	resources, types, problems := catalog.Types()
	m := NewMirror(MirrorOptions{Options: opt, Types: func(string) ([]string, []*world.InstanceType, uint64, error) {
		return resources, types, 1, nil
	}})
	m.typesOf("") // nodes that no pool made have prices too
	problems = append(problems, m.load(obj)...)
	v := m.View()
	for _, p := range v.World.Pools {
		p.Offers() // found out here, once, so that decisions need not
	}
	return v.World, append(problems, v.Problems...)
}

// load feeds the mirror with objects. Of two with one name the second is left out.
func (m *Mirror) load(obj *dump.Objects) (problems []dump.Problem) {
	sortObjects(obj)
	feed(m, obj.Namespaces)
	feed(m, obj.Services)
	feed(m, obj.Controllers)
	feed(m, obj.ReplicaSets)
	feed(m, obj.StatefulSet)
	feed(m, obj.Overlays)
	feed(m, obj.Pools)
	feed(m, obj.Storage)
	feed(m, obj.Volumes)
	feed(m, obj.VolumeUses)
	feed(m, obj.Budgets)
	feed(m, obj.DaemonSets)
	feed(m, obj.CSINodes)
	feed(m, obj.Claims)
	for i, n := range obj.Nodes {
		if n.Name == "" || (i > 0 && obj.Nodes[i-1].Name == n.Name) {
			problems = append(problems, dump.NewProblem("Node", n.Name, "has no name or is listed twice; it is left out"))
			continue
		}
		m.putNode(n)
	}
	for _, o := range obj.Pods {
		if o.Namespace == "" {
			whole := *o
			whole.Namespace, o = toworld.Space(o), &whole
		}
		e := m.findPod(o.Namespace, o.Name)
		if e.pod != nil {
			problems = append(problems, dump.NewProblem("Pod", toworld.FullName(e.space, e.name), "is listed twice; the second is left out"))
			continue
		}
		e.pod = o
		m.enqueue(e, reread)
	}
	return append(problems, m.loadBuffers(obj)...)
}

func feed[T Object](m *Mirror, list []T) {
	for _, o := range list {
		m.put(o)
	}
}

// sortObjects puts everything into an order of its own, so that the order of the input cannot matter.
func sortObjects(o *dump.Objects) {
	slices.SortFunc(o.Pods, func(x, y *corev1.Pod) int {
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name), cmp.Compare(x.UID, y.UID))
	})
	slices.SortFunc(o.Nodes, func(x, y *corev1.Node) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.Spec.ProviderID, y.Spec.ProviderID))
	})
}

// wantsNode says whether the pod has no node and is one that the scheduler is to find one for.
func wantsNode(o *corev1.Pod) bool {
	if o.Spec.NodeName != "" || o.DeletionTimestamp != nil || terminal(o) {
		return false
	}
	owner := controller(o)
	return owner != "DaemonSet" && owner != "Node"
}

// refused says whether the scheduler has found the pod unschedulable. Whether a nomination gives it a node is found out with the
// node that it names.
func refused(o *corev1.Pod) bool {
	return wantsNode(o) && slices.ContainsFunc(o.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
	})
}

func terminal(o *corev1.Pod) bool {
	return o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed
}

// controller is the kind of the object that made the pod.
func controller(o *corev1.Pod) string {
	for _, r := range o.OwnerReferences {
		if r.Kind == "DaemonSet" || r.Kind == "Node" || (r.Controller != nil && *r.Controller) {
			return r.Kind
		}
	}
	return ""
}
