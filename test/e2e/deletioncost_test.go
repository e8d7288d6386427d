package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/meter"
)

// await waits until nothing is wrong any more.
func (w *world) await(wrong func() string) {
	w.t.Helper()
	began := time.Now()
	for {
		what := wrong()
		if what == "" {
			return
		}
		if time.Since(began) > calm {
			w.t.Fatalf("after %v: %s", calm, what)
		}
		w.pause(glance)
	}
}

// placed are the pods of the workload that run, by node, and what the ReplicaSet has been told of each node; nodes whose pods
// have been told different things are left out of the latter.
func (w *world) placed() (pods map[string]map[string]bool, costs map[string]int) {
	w.t.Helper()
	list := &corev1.PodList{}
	w.must(w.Client.List(w.t.Context(), list, client.MatchingLabels{"app": "swing"}))
	pods, costs = map[string]map[string]bool{}, map[string]int{}
	differ := map[string]bool{}
	for _, p := range list.Items {
		node := p.Spec.NodeName
		if node == "" || p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
			continue
		}
		if pods[node] == nil {
			pods[node] = map[string]bool{}
		}
		cost, _ := strconv.Atoi(p.Annotations[corev1.PodDeletionCost])
		if len(pods[node]) > 0 && costs[node] != cost {
			differ[node] = true
		}
		pods[node][p.Name], costs[node] = true, cost
	}
	for node := range differ {
		delete(costs, node)
	}
	return pods, costs
}

// TestN9_AScaleDownEmptiesTheNodeThatIsToGo has kube-controller-manager delete the pods of the node that consolidation would remove
// first: the one with fewer pods, which it would spare if it were not told. Nothing is evicted, and the other node keeps its pods.
func TestN9_AScaleDownEmptiesTheNodeThatIsToGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, karpv1.NewNillableDuration(time.Hour), "PodDeletionCostManagement=true")
	w.only("c5.2xlarge")
	w.scale(7)
	w.awaitSettled(7)
	w.scale(9)
	w.awaitSettled(9)
	s := newScraper(w)
	small, large := "", ""
	w.await(func() string {
		pods, costs := w.placed()
		if len(pods) != 2 {
			return fmt.Sprintf("pods are on %d nodes, want 2: %v", len(pods), pods)
		}
		nodes := slices.SortedFunc(maps.Keys(pods), func(a, b string) int { return len(pods[a]) - len(pods[b]) })
		small, large = nodes[0], nodes[1]
		if costs[small] >= 0 || costs[small] >= costs[large] {
			return fmt.Sprintf("the pods of %s are not to be deleted first: %v of %v", small, costs, pods)
		}
		return ""
	})
	s.await("writes", meter.DeletionCostWrites, "result", "updated")
	s.await("nodes that had some", meter.DeletionCostPending, "nodepool", "default")
	before, _ := w.placed()
	if len(before[small]) >= len(before[large]) {
		t.Fatalf("%v: Kubernetes would choose the same pods by itself", before)
	}
	w.scale(9 - len(before[small]))
	w.await(func() string {
		pods, _ := w.placed()
		if len(pods[small]) > 0 {
			return fmt.Sprintf("%v are still there", pods[small])
		}
		return ""
	})
	if pods, _ := w.placed(); !maps.Equal(pods[large], before[large]) {
		t.Errorf("the other node has %v, had %v", pods[large], before[large])
	}
}
