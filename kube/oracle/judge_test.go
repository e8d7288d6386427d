package oracle

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

func node(name, zone string) *corev1.Node {
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("10")}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: zone}},
		Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
}

func pod(name, on, cpu string, change func(*corev1.PodSpec)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
		}}},
	}
	if change != nil {
		change(&p.Spec)
	}
	return p
}

// The judge itself is held against cases whose answer is plain, so that a plugin that was silently left out shows.
func TestJudgeKnowsThePlainCases(t *testing.T) {
	spread := func(s *corev1.PodSpec) {
		s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
	}
	alone := func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}}}
	}
	port := func(s *corev1.PodSpec) {
		s.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
	}
	claim := func(s *corev1.PodSpec) {
		s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "claim"},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"b"}}},
		}}}},
	}}
	bound := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "claim", Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	cases := []struct {
		name    string
		pod     *corev1.Pod
		objects []runtime.Object
		onA     string // what the refusal of node a mentions; empty if it may go there
		onB     string
	}{
		{"fits", pod("p", "", "1", nil), nil, "", ""},
		{"too large", pod("p", "", "3", nil), nil, "Insufficient cpu", ""},
		{"spread", pod("p", "", "1", spread), nil, "PodTopologySpread", ""},
		{"anti-affinity", pod("p", "", "1", alone), nil, "InterPodAffinity", ""},
		{"host port", pod("p", "", "1", port), nil, "NodePorts", ""},
		{"zone of a volume", pod("p", "", "1", claim), []runtime.Object{volume, bound}, "VolumeBinding", ""},
		{"missing claim", pod("p", "", "1", claim), nil, "not found", "not found"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			there := []*corev1.Pod{pod("there", "a", "2", port)}
			judge, err := NewJudge(t.Context(), []*corev1.Node{node("a", "a"), node("b", "b")}, there, c.objects)
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{"a": c.onA, "b": c.onB} {
				got, err := judge.Refuses(t.Context(), c.pod, name)
				if err != nil {
					t.Fatal(err)
				}
				if want == "" && got != "" || !strings.Contains(got, want) {
					t.Errorf("node %s: %q, want %q", name, got, want)
				}
			}
		})
	}
}

func BenchmarkJudge(b *testing.B) {
	var nodes []*corev1.Node
	for i := range 20 {
		nodes = append(nodes, node(fmt.Sprint("n", i), fmt.Sprint("z", i%3)))
	}
	for b.Loop() {
		judge, err := NewJudge(b.Context(), nodes, nil, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := judge.Refuses(b.Context(), pod("p", "", "1", nil), "n0"); err != nil {
			b.Fatal(err)
		}
	}
}
