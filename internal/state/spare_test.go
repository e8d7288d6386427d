package state

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/toworld"
)

func spareTemplate() *corev1.PodTemplateSpec {
	t := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	t.Spec.NodeName = "n1"
	t.Spec.Volumes = []corev1.Volume{
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
		{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	t.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("500m")}}}}
	return t
}

func TestP111_P113_SparePodsInTheMirror(t *testing.T) {
	b := &bufferv1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	now := time.Unix(1e9, 0)
	m := NewMirror(MirrorOptions{Now: func() time.Time { return now }})
	pod := toworld.BufferPod(b, spareTemplate(), 3)
	if len(pod.Spec.Volumes) != 1 || pod.Spec.NodeName != "" || pod.Labels["app"] != "web" {
		t.Errorf("the pod is %+v", pod)
	}
	m.Put(pod)
	s := m.View().World
	if len(s.Spare) != 3 || len(s.Pending) != 0 || s.PodName(s.Spare[2]) != "shop/web-spare-2" || s.Spare[2].UID != "capacity-buffer/shop/web/2" {
		t.Fatalf("spare pods: %+v", s.Spare)
	}
	if c := s.Classes[s.Spare[0].Class]; c.Buffer != "shop/web" || c.Priority != world.SparePriority || c.Requests.Get(world.CPU) != 500 {
		t.Errorf("their class is %+v", c)
	}
	if all, _ := m.All(&corev1.Pod{}); len(all) != 0 {
		t.Errorf("the mirror shows %d pods that the API server does not have", len(all))
	}
	if again, problems := Rebuild(m.View().Objects(), Record{Now: now}); len(again.World.Spare) != 3 || len(problems) > 0 {
		t.Errorf("a recording has %d spare pods: %v", len(again.World.Spare), problems)
	}
	m.Put(toworld.BufferPod(b, spareTemplate(), 5))
	if n := len(m.View().World.Spare); n != 5 {
		t.Errorf("%d spare pods after the buffer has grown", n)
	}
	m.Drop(toworld.BufferPod(b, spareTemplate(), 5))
	if n := len(m.View().World.Spare); n != 0 {
		t.Errorf("%d spare pods after the buffer is gone", n)
	}
	// A pod of a user does not become one by its annotations.
	m.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "mine", UID: "b0a3",
		Annotations: map[string]string{v1.BufferPodAnnotationKey: "true", v1.BufferReplicasAnnotationKey: "9"},
	}})
	if n := len(m.View().World.Spare); n != 0 {
		t.Errorf("%d spare pods from a pod of a user", n)
	}
}

func TestP110_Replicas(t *testing.T) {
	list := func(cpu string) corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse(cpu)} }
	for _, c := range []struct {
		name                 string
		replicas, percentage *int32
		limits               corev1.ResourceList
		scaled               *int32
		want                 int32
	}{
		{name: "fixed", replicas: new(int32(4)), want: 4},
		{name: "share is rounded up", percentage: new(int32(10)), scaled: new(int32(11)), want: 2},
		{name: "share of nothing is one", percentage: new(int32(10)), scaled: new(int32(0)), want: 1},
		{name: "B10 the larger counts", replicas: new(int32(4)), percentage: new(int32(50)), scaled: new(int32(20)), want: 10},
		{name: "limits cap", replicas: new(int32(9)), limits: list("2200m"), want: 4},
		{name: "limits alone", limits: list("2"), want: 4},
		{name: "limits below one pod", replicas: new(int32(9)), limits: list("100m"), want: 0},
		{name: "share of no workload", replicas: new(int32(3)), percentage: new(int32(500)), want: 3},
		{name: "bounded", replicas: new(int32(2_000_000_000)), want: toworld.MaxSparePods},
	} {
		b := &bufferv1.CapacityBuffer{Spec: bufferv1.CapacityBufferSpec{Replicas: c.replicas, Percentage: c.percentage, Limits: c.limits}}
		if got, err := toworld.BufferReplicas(b, toworld.Shape{Template: spareTemplate(), Scaled: c.scaled}); err != nil || got != c.want {
			t.Errorf("%s: %d, %v; want %d", c.name, got, err, c.want)
		}
	}
}
