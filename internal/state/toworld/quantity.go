// Package toworld says what Kubernetes objects mean in the engine's world, one object at a time.
package toworld

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	podresource "k8s.io/component-helpers/resource"

	"karpenter/internal/engine/world"
	"karpenter/internal/state/trim"
)

// Units is the quantity in the engine's smallest unit: millicores for CPU, whole units for the rest, rounded up.
func Units(name string, q resource.Quantity) int64 {
	if name == "cpu" {
		if q.CmpInt64(world.Unlimited/1000) > 0 {
			return world.Unlimited
		}
		return q.MilliValue()
	}
	if q.CmpInt64(world.Unlimited) > 0 {
		return world.Unlimited
	}
	return q.Value()
}

// Resources converts a list; its names are numbered in names. A negative quantity is an error.
func Resources(numbers *world.Names, list corev1.ResourceList) (world.Resources, error) {
	names := make([]string, 0, len(list))
	for k := range list {
		names = append(names, string(k))
	}
	slices.Sort(names)
	var out world.Resources
	for _, k := range names {
		v := Units(k, list[corev1.ResourceName(k)])
		if v < 0 {
			return nil, fmt.Errorf("%s is negative (%s); give zero or more", k, quantityText(list, k))
		}
		out = out.Set(numbers.Index(k), v)
	}
	return out, nil
}

func quantityText(list corev1.ResourceList, k string) string {
	q := list[corev1.ResourceName(k)]
	return q.String()
}

// Quantity is an amount of a resource in the form of the API.
func Quantity(name string, n int64) *resource.Quantity {
	switch {
	case name == "cpu":
		return resource.NewMilliQuantity(n, resource.DecimalSI)
	case world.InBytes(name):
		return resource.NewQuantity(n, resource.BinarySI)
	}
	return newQuantity(n)
}

func newQuantity(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }

// PodRequests is what the scheduler counts for a pod, computed as it does, and one pod. Templates and files have not been
// through the API server, so what it fills in is filled in here.
func PodRequests(spec *corev1.PodSpec, status *corev1.PodStatus) corev1.ResourceList {
	p := corev1.Pod{}
	p.Spec.Containers, p.Spec.InitContainers = withDefaults(spec.Containers), withDefaults(spec.InitContainers)
	p.Spec.Overhead = spec.Overhead
	p.Spec.Resources = podDefaults(&p, spec.Resources)
	given := trim.Resized(spec, status)
	if given { // else statuses say nothing new, and looking at them costs three times as much
		p.Status.ContainerStatuses, p.Status.InitContainerStatuses = status.ContainerStatuses, status.InitContainerStatuses
		p.Status.Resources, p.Status.AllocatedResources = status.Resources, status.AllocatedResources
		if trim.Infeasible(status) { // older kubelets say it in a field that the library does not read
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
		}
	}
	sum := podresource.PodRequests(&p, podresource.PodResourcesOptions{UseStatusResources: given, InPlacePodLevelResourcesVerticalScalingEnabled: given})
	sum[corev1.ResourcePods] = *newQuantity(1)
	return sum
}

// withDefaults takes limits where requests are missing, as the API server does.
func withDefaults(list []corev1.Container) []corev1.Container {
	copied := false
	for i := range list {
		r := list[i].Resources
		if !missesRequests(r) {
			continue
		}
		if !copied {
			list, copied = slices.Clone(list), true
		}
		list[i].Resources.Requests = maps.Clone(r.Limits)
		maps.Copy(list[i].Resources.Requests, r.Requests)
	}
	return list
}

func missesRequests(r corev1.ResourceRequirements) bool {
	for k := range r.Limits {
		if _, ok := r.Requests[k]; !ok {
			return true
		}
	}
	return false
}

// podDefaults is what is asked for the pod as a whole. Where only a limit is given, the API server takes the containers' requests,
// and the limit if they have none; huge pages cannot be overcommitted, so for them it is always the limit.
func podDefaults(p *corev1.Pod, whole *corev1.ResourceRequirements) *corev1.ResourceRequirements {
	if whole == nil || !missesRequests(*whole) {
		return whole
	}
	containers := podresource.AggregateContainerRequests(p, podresource.PodResourcesOptions{})
	requests := corev1.ResourceList{}
	for k, q := range whole.Limits {
		if _, have := containers[k]; !have || strings.HasPrefix(string(k), corev1.ResourceHugePagesPrefix) {
			requests[k] = q
		}
	}
	maps.Copy(requests, whole.Requests)
	return &corev1.ResourceRequirements{Requests: requests}
}

// List writes a vector in the form of the API.
func List(names []string, r world.Resources) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i, q := range r {
		if q != 0 && i < len(names) {
			out[corev1.ResourceName(names[i])] = *Quantity(names[i], q)
		}
	}
	return out
}

// FullName is the name of an object with its namespace, if it has one.
func FullName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// Space is the namespace of an object; one that was not given is the default one.
func Space(o interface{ GetNamespace() string }) string { return cmp.Or(o.GetNamespace(), "default") }
