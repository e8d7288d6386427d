package kinds

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyInto copies c.
func (c *Cluster) DeepCopyInto(out *Cluster) {
	*out = *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
}

// DeepCopyObject copies c.
func (c *Cluster) DeepCopyObject() runtime.Object {
	out := new(Cluster)
	c.DeepCopyInto(out)
	return out
}

// DeepCopyObject copies l.
func (l *ClusterList) DeepCopyObject() runtime.Object {
	out := &ClusterList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: make([]Cluster, len(l.Items))}
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}

// DeepCopyInto copies s.
func (s *Scalable) DeepCopyInto(out *Scalable) {
	*out = *s
	s.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if s.Spec.Replicas != nil {
		n := *s.Spec.Replicas
		out.Spec.Replicas = &n
	}
	s.Spec.Selector.DeepCopyInto(&out.Spec.Selector)
	out.Status.Told = s.Status.clone()
	if s.Spec.Template.Metadata.Labels != nil {
		out.Spec.Template.Metadata.Labels = map[string]string{}
		for k, v := range s.Spec.Template.Metadata.Labels {
			out.Spec.Template.Metadata.Labels[k] = v
		}
	}
	out.Spec.Template.Spec.Taints = slices.Clone(s.Spec.Template.Spec.Taints)
}

// DeepCopyObject copies d.
func (d *MachineDeployment) DeepCopyObject() runtime.Object {
	out := new(MachineDeployment)
	d.DeepCopyInto(&out.Scalable)
	return out
}

// DeepCopyObject copies l.
func (l *MachineDeploymentList) DeepCopyObject() runtime.Object {
	out := &MachineDeploymentList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: make([]MachineDeployment, len(l.Items))}
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i].Scalable)
	}
	return out
}

// DeepCopyObject copies s.
func (s *MachineSet) DeepCopyObject() runtime.Object {
	out := new(MachineSet)
	s.DeepCopyInto(&out.Scalable)
	return out
}

// DeepCopyObject copies l.
func (l *MachineSetList) DeepCopyObject() runtime.Object {
	out := &MachineSetList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: make([]MachineSet, len(l.Items))}
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i].Scalable)
	}
	return out
}

// DeepCopyInto copies m.
func (m *Machine) DeepCopyInto(out *Machine) {
	*out = *m
	m.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Taints = slices.Clone(m.Spec.Taints)
	out.Status.Told = m.Status.clone()
}

// DeepCopyObject copies m.
func (m *Machine) DeepCopyObject() runtime.Object {
	out := new(Machine)
	m.DeepCopyInto(out)
	return out
}

// DeepCopyObject copies l.
func (l *MachineList) DeepCopyObject() runtime.Object {
	out := &MachineList{TypeMeta: l.TypeMeta, ListMeta: *l.ListMeta.DeepCopy(), Items: make([]Machine, len(l.Items))}
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}
