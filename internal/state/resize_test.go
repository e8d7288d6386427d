package state

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"karpenter/internal/state/toworld"
	"karpenter/internal/state/trim"
)

// What a container has been given outlives trimming where it counts.
func TestP63_TrimmedPodsKeepWhatAnInfeasibleResizeLeavesThem(t *testing.T) {
	cpu := func(v string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(v)}
	}
	for _, c := range []struct {
		name   string
		status corev1.PodStatus
		want   string
	}{
		{"infeasible", corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}}, "2"},
		{"infeasible, as older kubelets say it", corev1.PodStatus{Resize: corev1.PodResizeStatusInfeasible}, "2"},
		{"deferred", corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonDeferred}}}, "3"},
		{"none", corev1.PodStatus{}, "3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: cpu("3")}}}}, Status: c.status}
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", AllocatedResources: cpu("2"), Resources: &corev1.ResourceRequirements{Requests: cpu("1")}}}
			trim.Object(p)
			got := toworld.PodRequests(&p.Spec, &p.Status)[corev1.ResourceCPU]
			if got.Cmp(resource.MustParse(c.want)) != 0 {
				t.Errorf("counts %s cpu, want %s", got.String(), c.want)
			}
		})
	}
}

// One container of a pod shrinks while another grows: the node holds what is asked for in all or what is given in all, whichever is
// more, trimmed or not.
func TestP63_AResizeCountsByThePod(t *testing.T) {
	cpu := func(v string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(v)}
	}
	container := func(name, asks string) corev1.Container {
		return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: cpu(asks)}}
	}
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container("shrinks", "1"), container("grows", "3")}}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "shrinks", AllocatedResources: cpu("2")}, {Name: "grows", AllocatedResources: cpu("1")}}
	for range 2 {
		if got := toworld.PodRequests(&p.Spec, &p.Status)[corev1.ResourceCPU]; got.Cmp(resource.MustParse("4")) != 0 {
			t.Errorf("counts %s cpu, want 4", got.String())
		}
		trim.Object(p)
	}
}

// A pod that asks for resources as a whole is resized as a whole: until the kubelet has taken them back, the larger amount counts.
func TestP63_AResizeOfTheWholePod(t *testing.T) {
	cpu := func(v string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(v)}
	}
	for _, c := range []struct {
		name   string
		asks   string
		status corev1.PodStatus
		want   string
	}{
		{"as it asks", "2", corev1.PodStatus{AllocatedResources: cpu("2"), Resources: &corev1.ResourceRequirements{Requests: cpu("2")}}, "2"},
		{"shrinks", "1", corev1.PodStatus{AllocatedResources: cpu("1"), Resources: &corev1.ResourceRequirements{Requests: cpu("2")}}, "2"},
		{"grows", "3", corev1.PodStatus{AllocatedResources: cpu("2"), Resources: &corev1.ResourceRequirements{Requests: cpu("2")}}, "3"},
		{"cannot grow", "3", corev1.PodStatus{
			AllocatedResources: cpu("2"), Resources: &corev1.ResourceRequirements{Requests: cpu("2")},
			Conditions: []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}},
		}, "2"},
	} {
		p := &corev1.Pod{Spec: corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: cpu(c.asks)}, Containers: []corev1.Container{{Name: "main"}}}, Status: c.status}
		for range 2 {
			if got := toworld.PodRequests(&p.Spec, &p.Status)[corev1.ResourceCPU]; got.Cmp(resource.MustParse(c.want)) != 0 {
				t.Errorf("%s: counts %s cpu, want %s", c.name, got.String(), c.want)
			}
			trim.Object(p)
		}
	}
}
