package disruption

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
)

// Nodes that leave come first, then those that have drifted, then the others, within the pool's budgets.
func TestN9_Ranks(t *testing.T) {
	after := karpv1.NewNillableDuration(0)
	view := fleet(&after, time.Hour, time.Hour, time.Hour, time.Hour).View()
	in := &disrupt.Input{
		World: view.World, Nodes: make([]disrupt.Node, len(view.Nodes)),
		Pools: []disrupt.Pool{{Name: "general", Policy: disrupt.WhenEmptyOrUnderutilized, Allowed: map[disrupt.Reason]int{disrupt.Drifted: 1, disrupt.Underutilized: 1}}},
	}
	view.Nodes[0].Object.Spec.Taints = []corev1.Taint{{Key: karpv1.DisruptedTaintKey, Effect: corev1.TaintEffectNoSchedule}}
	in.Nodes[2].Drift = "AMIDrift"
	want := map[string]int32{"n00": math.MinInt32, "n02": -2, "n01": -1}
	got := map[string]int32{}
	for n, cost := range rank(view, in) {
		got[n.World.Name] = cost
	}
	for name, cost := range want {
		if got[name] != cost {
			t.Errorf("%s: %d, want %d", name, got[name], cost)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What a pod's owner has written stays.
func TestN9_OwnersWordsStay(t *testing.T) {
	pod := owned("a", "web", monday)
	for _, c := range []struct {
		has, ours, want string
		writes          bool
	}{
		{"", "", "", false},
		{"", "", "-1", true},
		{"-1", "-1", "-1", false},
		{"-1", "-1", "-2", true},
		{"-1", "-1", "", true},
		{"7", "", "-1", false},
		{"7", "-1", "-1", false},
	} {
		pod.Annotations = map[string]string{}
		if c.has != "" {
			pod.Annotations[corev1.PodDeletionCost] = c.has
		}
		if c.ours != "" {
			pod.Annotations[karpv1.DeletionCostAnnotationKey] = c.ours
		}
		if got := rankable(pod, c.want); got != c.writes {
			t.Errorf("%+v: %t", c, got)
		}
	}
	pod.OwnerReferences[0].Kind = "StatefulSet"
	pod.Annotations = map[string]string{}
	if rankable(pod, "-1") {
		t.Error("only ReplicaSets look at it")
	}
	pod.OwnerReferences[0].Kind, pod.DeletionTimestamp = "ReplicaSet", &metav1.Time{Time: monday}
	if rankable(pod, "-1") {
		t.Error("it is being deleted already")
	}
}
