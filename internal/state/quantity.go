package state

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"karpenter/internal/engine/world"
)

// units is the quantity in the engine's smallest unit: millicores for CPU, whole units for the rest, rounded up.
func units(name string, q resource.Quantity) int64 {
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

// resources converts a list. A negative quantity is an error, except where negative says so.
func (b *converter) resources(list corev1.ResourceList) (world.Resources, error) {
	names := make([]string, 0, len(list))
	for k := range list {
		names = append(names, string(k))
	}
	slices.Sort(names)
	var out world.Resources
	for _, k := range names {
		v := units(k, list[corev1.ResourceName(k)])
		if v < 0 {
			return nil, fmt.Errorf("%s is negative (%s); give zero or more", k, quantityText(list, k))
		}
		out = out.Set(b.names.Index(k), v)
	}
	return out, nil
}

func quantityText(list corev1.ResourceList, k string) string {
	q := list[corev1.ResourceName(k)]
	return q.String()
}

// quantityOf is an amount of a resource in the form of the API.
func quantityOf(name string, n int64) *resource.Quantity {
	switch name {
	case "cpu":
		return resource.NewMilliQuantity(n, resource.DecimalSI)
	case "memory", "ephemeral-storage":
		return resource.NewQuantity(n, resource.BinarySI)
	}
	return newQuantity(n)
}

func newQuantity(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }

// podRequests is what the scheduler counts for a pod: containers and sidecars together, or the init container that needs
// most, whichever is more; pod-level requests instead where given; overhead on top; and one pod.
func podRequests(spec *corev1.PodSpec, status *corev1.PodStatus) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for i := range spec.Containers {
		c := &spec.Containers[i]
		addList(sum, containerRequests(c, status.ContainerStatuses, infeasible(status)))
	}
	sidecars, peak := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		need := containerRequests(c, status.InitContainerStatuses, infeasible(status))
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			addList(sum, need)
			addList(sidecars, need)
			maxList(peak, sidecars)
			continue
		}
		with := sidecars.DeepCopy()
		addList(with, need)
		maxList(peak, with)
	}
	maxList(sum, peak)
	if spec.Resources != nil {
		podLevel(sum, spec.Resources)
	}
	addList(sum, spec.Overhead)
	sum[corev1.ResourcePods] = *newQuantity(1)
	return sum
}

// podLevel puts what is asked for the pod as a whole in place of what its containers ask for. Where only a limit is given, the
// API server takes the containers' requests, and the limit if they have none; huge pages cannot be overcommitted, so
// for them it is always the limit. Other resources have no pod level.
func podLevel(sum corev1.ResourceList, whole *corev1.ResourceRequirements) {
	huge := func(k corev1.ResourceName) bool { return strings.HasPrefix(string(k), corev1.ResourceHugePagesPrefix) }
	known := func(k corev1.ResourceName) bool {
		return k == corev1.ResourceCPU || k == corev1.ResourceMemory || huge(k)
	}
	for k, q := range whole.Limits {
		if _, have := sum[k]; known(k) && (!have || huge(k)) {
			sum[k] = q
		}
	}
	for k, q := range whole.Requests {
		if known(k) {
			sum[k] = q
		}
	}
}

// infeasible says whether the node can never make the resize that the pod asks for: then what it has counts, not what it asks for.
func infeasible(s *corev1.PodStatus) bool {
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == corev1.PodResizePending {
			return c.Reason == corev1.PodReasonInfeasible
		}
	}
	return s.Resize == corev1.PodResizeStatusInfeasible
}

// containerRequests counts limits where requests are missing, and never less than what the kubelet has allocated: during
// a resize in place the larger of both is taken, and of an infeasible one only what is allocated.
func containerRequests(c *corev1.Container, statuses []corev1.ContainerStatus, infeasible bool) corev1.ResourceList {
	need := requestsOf(c.Resources)
	for i := range statuses {
		if statuses[i].Name != c.Name {
			continue
		}
		if infeasible && (statuses[i].AllocatedResources != nil || statuses[i].Resources != nil) {
			need = corev1.ResourceList{}
		}
		maxList(need, statuses[i].AllocatedResources)
		if r := statuses[i].Resources; r != nil {
			maxList(need, r.Requests)
		}
	}
	return need
}

func requestsOf(r corev1.ResourceRequirements) corev1.ResourceList {
	out := corev1.ResourceList{}
	for k, q := range r.Limits {
		out[k] = q
	}
	for k, q := range r.Requests {
		out[k] = q
	}
	return out
}

func addList(sum, more corev1.ResourceList) {
	for k, q := range more {
		have := sum[k]
		have.Add(q)
		sum[k] = have
	}
}

func maxList(sum, other corev1.ResourceList) {
	for k, q := range other {
		if have, ok := sum[k]; !ok || q.Cmp(have) > 0 {
			sum[k] = q
		}
	}
}
