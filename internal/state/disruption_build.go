package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"karpenter/internal/engine/world"
)

// BuildView makes a view from objects, as of a moment: what Build makes a world from, with the objects still behind it.
func BuildView(obj *Objects, catalog *Catalog, opt Options, now time.Time) (*View, []Problem) {
	resources, list, problems := catalog.types()
	m := NewMirror(MirrorOptions{
		Options: opt, Now: func() time.Time { return now },
		Types: func(string) ([]string, []*world.InstanceType, uint64, error) { return resources, list, 1, nil },
	})
	m.typesOf("") // nodes that no pool made have prices too
	pods := obj.Pods
	rest := *obj
	rest.Pods = nil
	problems = append(problems, m.load(&rest)...)
	for _, o := range pods {
		p := o.typed()
		if e := m.findPod(p.Namespace, p.Name); e.pod != nil {
			problems = append(problems, problem("Pod", spaced(p), "is listed twice; the second is left out"))
			continue
		}
		m.putPod(p)
	}
	v := m.View()
	for _, p := range v.World.Pools {
		p.Offers() // found out here, once, so that decisions need not
	}
	return v, append(problems, v.Problems...)
}

// typed is the pod as the API has it, as far as it is known; its spec is shared.
func (o *PodObject) typed() *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: o.Meta.Name, Namespace: o.Meta.Namespace, UID: types.UID(o.Meta.UID), Labels: o.Meta.Labels, Annotations: o.Meta.Annotations,
			CreationTimestamp: *o.Meta.CreationTimestamp.time(), DeletionTimestamp: o.Meta.DeletionTimestamp.time(),
		},
		Spec: *o.Spec,
		Status: corev1.PodStatus{
			Phase: o.Status.Phase, NominatedNodeName: o.Status.NominatedNodeName, StartTime: o.Status.StartTime.time(),
			ContainerStatuses: o.Status.ContainerStatuses, InitContainerStatuses: o.Status.InitContainerStatuses,
		},
	}
	if p.Namespace == "" {
		p.Namespace = metav1.NamespaceDefault
	}
	for _, r := range o.Meta.OwnerReferences {
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, Controller: r.Controller})
	}
	for _, c := range o.Status.Conditions {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodConditionType(c.Type), Status: corev1.ConditionStatus(c.Status), Reason: c.Reason})
	}
	return p
}

// time is the moment in the form of the API; nil stays nil.
func (s *stamp) time() *metav1.Time {
	if s == nil {
		return nil
	}
	t := metav1.Unix(int64(*s), 0)
	return &t
}
