package toworld

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"karpenter/internal/engine/world"
)

// Service is what is kept of a Service: which pods it picks.
type Service struct {
	Name     string
	UID      types.UID
	Selector map[string]string
}

// picks says whether the Service picks pods with these labels.
func (s *Service) picks(labels map[string]string) bool {
	for k, v := range s.Selector {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// WorkloadKey names a workload whose selector default topology spread goes by. Kinds of other API groups with the same name are others.
type WorkloadKey struct{ APIVersion, Kind, Namespace, Name string }

// Workload is what is kept of one.
type Workload struct {
	UID      types.UID
	Selector *metav1.LabelSelector
}

// The kinds that pods inherit a selector from, as kube-scheduler has it.
const (
	replicationController = "ReplicationController"
	replicaSet            = "ReplicaSet"
	statefulSet           = "StatefulSet"
)

// KeyOf is the key of an object of such a kind, with what is kept of it.
func KeyOf(obj any) (WorkloadKey, Workload, bool) {
	switch o := obj.(type) {
	case *corev1.ReplicationController:
		return WorkloadKey{"v1", replicationController, Space(o), o.Name}, Workload{o.UID, &metav1.LabelSelector{MatchLabels: o.Spec.Selector}}, true
	case *appsv1.ReplicaSet:
		return WorkloadKey{"apps/v1", replicaSet, Space(o), o.Name}, Workload{o.UID, o.Spec.Selector}, true
	case *appsv1.StatefulSet:
		return WorkloadKey{"apps/v1", statefulSet, Space(o), o.Name}, Workload{o.UID, o.Spec.Selector}, true
	}
	return WorkloadKey{}, Workload{}, false
}

// OwnerKey is the key that the controller of a pod would have, whether or not it is of such a kind.
func OwnerKey(o *corev1.Pod) WorkloadKey {
	if r := metav1.GetControllerOfNoCopy(o); r != nil {
		return WorkloadKey{r.APIVersion, r.Kind, Space(o), r.Name}
	}
	return WorkloadKey{}
}

// PutService learns of a Service and returns the labels that it has picked pods by and picks them by now, if that is news.
func (b *Converter) PutService(svc *corev1.Service) (was, is *Service) {
	now := Service{svc.Name, svc.UID, svc.Spec.Selector}
	list := b.Services[Space(svc)]
	i, found := slices.BinarySearchFunc(list, svc.Name, func(s Service, name string) int { return strings.Compare(s.Name, name) })
	switch {
	case found && maps.Equal(list[i].Selector, now.Selector):
		list[i].UID = now.UID
		return nil, nil
	case found:
		old := list[i]
		list[i] = now
		return &old, &now
	}
	b.Services[Space(svc)] = slices.Insert(list, i, now)
	return nil, &now
}

// DropService forgets a Service and returns what it was; the end of an earlier one of its name is ignored.
func (b *Converter) DropService(svc *corev1.Service) (was *Service) {
	list := b.Services[Space(svc)]
	i, found := slices.BinarySearchFunc(list, svc.Name, func(s Service, name string) int { return strings.Compare(s.Name, name) })
	if !found || list[i].UID != svc.UID {
		return nil
	}
	old := list[i]
	if list = slices.Delete(list, i, i+1); len(list) == 0 {
		delete(b.Services, Space(svc))
	} else {
		b.Services[Space(svc)] = list
	}
	return &old
}

// Concerns says whether a Service has a say about pods with these labels. One without selector picks none.
func (s *Service) Concerns(labels map[string]string) bool {
	return s != nil && len(s.Selector) > 0 && s.picks(labels)
}

// DefaultSelector is the selector that default topology spread has for a pod, deduced as kube-scheduler does (N1): the labels that all
// Services of its namespace pick it by, with those of its ReplicationController, and whatever its ReplicaSet or StatefulSet asks for
// besides. It is nil if that is nothing: then no default applies.
func (b *Converter) DefaultSelector(o *corev1.Pod) *world.Selector {
	all := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := range b.Services[Space(o)] {
		if svc := &b.Services[Space(o)][i]; svc.Concerns(o.Labels) {
			maps.Copy(all.MatchLabels, svc.Selector)
		}
	}
	key := OwnerKey(o)
	if own, ok := b.Workloads[key]; ok {
		if key.Kind == replicationController {
			maps.Copy(all.MatchLabels, own.Selector.MatchLabels)
		} else if _, err := Selector(own.Selector, nil); err == nil {
			all.MatchExpressions = expressions(own.Selector)
		}
	}
	if len(all.MatchLabels)+len(all.MatchExpressions) == 0 {
		return nil
	}
	s, err := Selector(all, nil)
	if err != nil {
		return nil
	}
	return &s
}

// expressions is a selector as expressions alone, which hold besides labels that must be equal instead of replacing them.
func expressions(s *metav1.LabelSelector) (out []metav1.LabelSelectorRequirement) {
	if s == nil {
		return nil
	}
	for _, l := range world.NewLabels(s.MatchLabels) {
		out = append(out, metav1.LabelSelectorRequirement{Key: l.Key, Operator: metav1.LabelSelectorOpIn, Values: []string{l.Value}})
	}
	return append(out, s.MatchExpressions...)
}
