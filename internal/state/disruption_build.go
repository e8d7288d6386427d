package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BuildView makes a view from objects, as of a moment: what Build makes a world from, with the objects still behind it.
func BuildView(obj *Objects, catalog *Catalog, opt Options, now time.Time) (*View, []Problem) {
	return Rebuild(obj, Record{Classes: map[string]*Catalog{AnyClass: catalog}, Options: opt, Now: now})
}

// typed is the pod as the API has it, as far as it is known; its spec is shared.
func (o *PodObject) typed() *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: o.Meta.Name, Namespace: o.Meta.Namespace, UID: types.UID(o.Meta.UID), Labels: o.Meta.Labels, Annotations: o.Meta.Annotations,
			CreationTimestamp: *o.Meta.CreationTimestamp.time(), DeletionTimestamp: o.Meta.DeletionTimestamp.time(),
			DeletionGracePeriodSeconds: o.Meta.DeletionGracePeriodSeconds,
		},
		Spec: *o.Spec,
		Status: corev1.PodStatus{
			Phase: o.Status.Phase, NominatedNodeName: o.Status.NominatedNodeName, StartTime: o.Status.StartTime.time(), Resize: o.Status.Resize,
			ContainerStatuses: o.Status.ContainerStatuses, InitContainerStatuses: o.Status.InitContainerStatuses,
		},
	}
	if p.Namespace == "" {
		p.Namespace = metav1.NamespaceDefault
	}
	for _, r := range o.Meta.OwnerReferences {
		p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, Controller: r.Controller})
	}
	for i := range o.Status.Conditions {
		c := &o.Status.Conditions[i]
		x := corev1.PodCondition{Type: corev1.PodConditionType(c.Type), Status: corev1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message}
		if c.LastTransitionTime != 0 {
			x.LastTransitionTime = *c.LastTransitionTime.time()
		}
		p.Status.Conditions = append(p.Status.Conditions, x)
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
