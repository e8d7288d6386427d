package oracle

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/controller/daemon"
)

// makeDaemon adds a DaemonSet. Most nodes that it is meant for have its pod already; to the others it is on its way.
func (w *world) makeDaemon(name string) {
	labels := map[string]string{"agent": name}
	spec := corev1.PodSpec{
		SchedulerName: corev1.DefaultSchedulerName,
		Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(fmt.Sprintf("%dm", 50*(1+w.IntN(6)))), corev1.ResourceMemory: resource.MustParse(fmt.Sprintf("%dMi", 64*(1+w.IntN(6)))),
		}}}},
	}
	if w.chance(40) {
		spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	if w.chance(25) {
		spec.NodeSelector = map[string]string{}
		w.selectNode(spec.NodeSelector)
	}
	if w.chance(20) {
		spec.Affinity = &corev1.Affinity{NodeAffinity: w.nodeAffinity()}
	}
	if w.chance(40) {
		spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: int32(8080 + w.IntN(2)), Protocol: corev1.ProtocolTCP}}
	}
	set := &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, UID: types.UID(name)},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
		},
	}
	w.daemons = append(w.daemons, set)
	for _, n := range w.nodes {
		for _, p := range w.daemonsOn(n, set) {
			if w.chance(85) {
				w.bound = append(w.bound, p)
			} else {
				w.coming = append(w.coming, p)
			}
		}
	}
}

// daemonsOn lists the pods that the DaemonSet controller would make for a node.
func (w *world) daemonsOn(n *corev1.Node, sets ...*appsv1.DaemonSet) []*corev1.Pod {
	var out []*corev1.Pod
	for _, set := range sets {
		if run, _ := daemon.NodeShouldRunDaemonPod(klog.Background(), n, set); !run {
			continue
		}
		p := daemon.NewPod(set, n.Name).DeepCopy()
		p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		p.Name = set.Name + "-" + n.Name
		p.UID = types.UID(p.Name)
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}}
		out = append(out, p)
	}
	return out
}
