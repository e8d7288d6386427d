package oracle

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"karpenter/internal/sim/filters"
)

// Which nodes the simulator's scheduler chooses from for a pod is what kube-scheduler's filters say.
func TestTheSimulatorsSchedulerAllowsWhatTheFiltersAllow(t *testing.T) {
	answers, allowed := 0, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		nodes, pods := simulated(r)
		judge, err := NewJudge(t.Context(), nodes, pods, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range []*corev1.Pod{workloadPod(r, "next-a", "a"), workloadPod(r, "next-b", "b")} {
			takes := filters.Takes(pod, nodes, pods)
			for _, node := range nodes {
				refusal, err := judge.Refuses(context.Background(), pod, node.Name)
				if err != nil {
					t.Fatal(err)
				}
				answers++
				if refusal == "" {
					allowed++
				}
				if takes(node) != (refusal == "") {
					t.Errorf("seed %d: pod %s on %s: the simulator says %v, kube-scheduler %q", seed, pod.Name, node.Name, takes(node), refusal)
				}
			}
		}
	}
	t.Logf("| The simulator's scheduler against kube-scheduler's filters, answers | %d | 0 |", answers)
	if 5*allowed < answers || 5*allowed > 4*answers {
		t.Errorf("%d of %d answers are yes: both should be frequent", allowed, answers)
	}
}

// simulated are nodes as the simulator's, and pods of two workloads on them, wherever these may be by now.
func simulated(r *rand.Rand) (nodes []*corev1.Node, pods []*corev1.Pod) {
	for i := range 2 + r.IntN(6) {
		name := fmt.Sprint("node-", i)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{corev1.LabelHostname: name}}}
		if r.IntN(8) > 0 {
			node.Labels[corev1.LabelTopologyZone] = fmt.Sprint("zone-", r.IntN(3))
		}
		if r.IntN(4) == 0 {
			node.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
		}
		node.Spec.Unschedulable = r.IntN(10) == 0
		node.Status.Allocatable = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(fmt.Sprint(2 + r.IntN(6))), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse(fmt.Sprint(3 + r.IntN(8))),
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		nodes = append(nodes, node)
	}
	for i := range r.IntN(12) {
		pod := workloadPod(r, fmt.Sprint("pod-", i), []string{"a", "b"}[r.IntN(2)])
		pod.Spec.NodeName = nodes[r.IntN(len(nodes))].Name
		if r.IntN(5) == 0 {
			now := metav1.Now()
			pod.DeletionTimestamp = &now
		}
		pods = append(pods, pod)
	}
	return nodes, pods
}

// workloadPod is a pod of a workload, with rules about the others of it, and now and then about another.
func workloadPod(r *rand.Rand, name, app string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse([]string{"500m", "1", "3"}[r.IntN(3)]), corev1.ResourceMemory: resource.MustParse("1Gi"),
		}}}}},
	}
	about := func() *metav1.LabelSelector {
		if r.IntN(6) == 0 {
			return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "b"}}
		}
		return &metav1.LabelSelector{MatchLabels: pod.Labels}
	}
	keys := []string{corev1.LabelTopologyZone, corev1.LabelHostname}
	for _, key := range keys {
		if r.IntN(4) == 0 {
			pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				MaxSkew: int32(1 + r.IntN(2)), TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: about(),
			})
		}
	}
	if r.IntN(4) == 0 {
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: keys[r.IntN(2)], LabelSelector: about()}},
		}}
	}
	if r.IntN(6) == 0 {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: fmt.Sprint("zone-", r.IntN(3))}
	}
	return pod
}
