package drain_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/meter"
)

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

// budget makes a disruption budget over all pods labelled app=app, which allows so many evictions now.
func (w *world) budget(name string, allowed int32) *policyv1.PodDisruptionBudget {
	w.t.Helper()
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "app"}}},
	}
	w.create(b)
	w.allow(b, allowed)
	return b
}

// allow does what the disruption controller would.
func (w *world) allow(b *policyv1.PodDisruptionBudget, allowed int32) {
	w.t.Helper()
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptionsAllowed: allowed, CurrentHealthy: 5, DesiredHealthy: 5 - allowed, ExpectedPods: 5}
	if err := cluster.Client.Status().Update(w.t.Context(), b); err != nil {
		w.t.Fatal(err)
	}
}

func TestL26_BudgetBlocksThenFrees(t *testing.T) {
	w := newWorld(t)
	claim, node := w.pair("n")
	w.pod("web", node)
	b := w.budget("budget", 0)
	w.delete(claim)
	w.await("event", func() bool { return w.events.Has(node, "Warning FailedDraining") })
	w.await("D65 it is tried again", func() bool { return w.count(meter.PodsEvictionRequests, "code", "429") > 3 })
	if len(w.left()) != 0 {
		t.Error("the pod is gone")
	}
	w.allow(b, 1)
	w.finish(node, claim)
	if got := w.count(meter.PodsEvictionRequests, "code", "200"); got != 1 {
		t.Errorf("O23: the eviction was counted %v times", got)
	}
}

func TestL26_TwoBudgetsOnOnePod(t *testing.T) {
	w := newWorld(t)
	claim, node := w.pair("n", grace(time.Hour))
	w.pod("web", node)
	w.budget("one", 5)
	w.budget("two", 5)
	w.delete(claim)
	w.await("event", func() bool {
		return w.events.Has(node, "Warning FailedDraining: Failed to drain node: pod "+w.name+"/web cannot be removed, it has more than one disruption budget")
	})
	w.clock.skip(time.Hour)
	w.finish(node, claim)
}

func TestL27_APodThatComesAfterIsAnotherOne(t *testing.T) {
	w := newWorld(t)
	claim, node := w.pair("n")
	old := w.pod("web-0", node)
	b := w.budget("budget", 0)
	w.delete(claim)
	w.await("the budget blocks", func() bool { return w.count(meter.PodsEvictionRequests, "code", "429") > 0 })
	w.release(old)
	young := w.pod("web-0", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
	w.allow(b, 5)
	w.finish(node, claim)
	w.clock.skip(time.Hour)
	if now := w.read("web-0"); now.UID != young.UID || !now.DeletionTimestamp.IsZero() {
		t.Error("the pod that came after was told to go")
	}
	if w.count(meter.PodsEvictionRequests, "code", "200") != 0 {
		t.Error("something was evicted")
	}
}

// crowd makes pods quickly.
func (w *world) crowd(node *corev1.Node, count int, change func(int, *corev1.Pod)) {
	w.t.Helper()
	var group sync.WaitGroup
	next := make(chan int)
	for range 16 {
		group.Go(func() {
			for i := range next {
				pod := newPod(w.name, fmt.Sprintf("%s-%d", node.Name[len(w.name)+1:], i), node.Name)
				change(i, pod)
				status := pod.Status
				if err := cluster.Client.Create(w.t.Context(), pod); err != nil {
					w.t.Error(err)
					continue
				}
				pod.Status = status
				if err := cluster.Client.Status().Update(w.t.Context(), pod); err != nil {
					w.t.Error(err)
				}
			}
		})
	}
	for i := range count {
		next <- i
	}
	close(next)
	group.Wait()
}

func TestL26_FiveHundredPodsOnOneNode(t *testing.T) {
	w := newWorld(t)
	claim, node := w.pair("n")
	w.crowd(node, 500, func(i int, p *corev1.Pod) { ownedBy("ReplicaSet", fmt.Sprint("set-", i%20))(p) })
	began := time.Now()
	w.delete(claim)
	w.await("all pods are told to go", func() bool { return w.told() == 500 })
	took := time.Since(began)
	t.Logf("500 pods were told to go in %v", took.Round(time.Millisecond))
	if took > 30*time.Second {
		t.Errorf("500 pods took %v", took)
	}
	w.await("they are gone", func() bool { return len(w.left()) == 500 })
	w.finish(node, claim)
	if got := w.count(meter.PodsEvictionRequests, "code", "200"); got > 500 {
		t.Errorf("%v evictions of 500 pods", got)
	}
}

// The API server asks clients to wait for ten seconds while nobody has looked at a budget. Other pods must not wait for that.
func TestL26_ABudgetThatNobodyHasLookedAt(t *testing.T) {
	w := newWorld(t)
	claim, node := w.pair("n")
	w.create(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "new", Namespace: w.name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "app"}}},
	})
	w.crowd(node, 100, func(int, *corev1.Pod) {})
	w.delete(claim)
	w.await("node is tainted", func() bool { return strings.Contains(w.logged(), "tainted node") })
	other, otherNode := w.pair("other")
	w.crowd(otherNode, 20, func(_ int, p *corev1.Pod) { p.Labels = nil })
	began := time.Now()
	w.delete(other)
	w.await("the other node's pods are gone", func() bool { return len(w.left()) == 20 })
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("20 pods took %v", took)
	}
	w.finish(otherNode, other)
	w.forget(node)
	w.forget(claim)
}

// A node that cannot be drained, and a hundred pods that are refused again and again, must not slow down others.
func TestL26_OneStuckNodeDelaysNoOther(t *testing.T) {
	w := newWorld(t)
	w.budget("none", 0)
	stuck, stuckNode := w.pair("stuck", grace(time.Hour))
	w.crowd(stuckNode, 200, func(int, *corev1.Pod) {})
	w.delete(stuck)
	w.await("the budget blocks", func() bool { return w.count(meter.PodsEvictionRequests, "code", "429") > 100 })

	var claims []*karpv1.NodeClaim
	for i := range 5 {
		claim, node := w.pair(fmt.Sprint("n", i))
		w.crowd(node, 20, func(_ int, p *corev1.Pod) { p.Labels = nil })
		claims = append(claims, claim)
	}
	began := time.Now()
	for _, claim := range claims {
		w.delete(claim)
	}
	w.await("the others' pods are told to go", func() bool { return w.told() == 100 })
	took := time.Since(began)
	t.Logf("100 pods were told to go in %v beside 200 that cannot", took.Round(time.Millisecond))
	if took > 15*time.Second {
		t.Errorf("100 pods took %v", took)
	}
	w.await("they are gone", func() bool { return len(w.left()) >= 100 })
	for _, claim := range claims {
		w.finish(claim)
	}
	if len(w.left()) != 100 || slices.ContainsFunc(w.left(), func(p string) bool { return p[0] == 's' }) {
		t.Errorf("%d pods are gone", len(w.left()))
	}
	w.clock.skip(time.Hour)
	w.finish(stuck)
}
