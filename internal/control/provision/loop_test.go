package provision

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/world"
	"karpenter/test/harness/rig"
)

const testIdle = 200 * time.Millisecond

// run runs a provisioner against the API server until the test ends.
func run(t *testing.T, s *fixture) *Provisioner {
	t.Helper()
	m := rig.Manager(t, cluster)
	for _, kind := range s.Kinds() {
		informer, err := m.GetCache().GetInformer(t.Context(), kind.(client.Object))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := informer.AddEventHandler(s.Handler()); err != nil {
			t.Fatal(err)
		}
	}
	now := clock.RealClock{}
	p := &Provisioner{
		Mirror: s, Batch: NewBatcher(now, testIdle, 10*testIdle), Clock: now, Log: silent,
		Events:  control.NewRecorder(record.NewFakeRecorder(1000), now.Now),
		Creator: &Creator{Client: m.GetClient(), Mirror: s, Clock: now, Log: silent},
	}
	if err := p.Register(m); err != nil {
		t.Fatal(err)
	}
	rig.Run(t, m)
	return p
}

// submit creates a pod that the scheduler has given up on.
func submit(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	pod.UID = ""
	rig.Create(t, cluster.Client, pod)
}

// awaitClaims returns the claims of a pool once there are so many.
func awaitClaims(t *testing.T, pool string, n int) []karpv1.NodeClaim {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	watcher, err := cluster.Client.Watch(ctx, &karpv1.NodeClaimList{}, client.MatchingLabels{karpv1.NodePoolLabelKey: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	for len(stored(t, pool)) < n {
		if _, more := <-watcher.ResultChan(); !more {
			t.Fatalf("%d claims of pool %s, want %d", len(stored(t, pool)), pool, n)
		}
	}
	return stored(t, pool)
}

// TestP1_FromPodToClaim runs everything but the cloud: pods in the API server become claims in the API server.
func TestP1_FromPodToClaim(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2, 4, 8))
	if (&Provisioner{}).Synced() {
		t.Error("a provisioner that watches nothing has seen all")
	}
	p := run(t, s)
	create := func(pool *karpv1.NodePool) {
		t.Helper()
		pool.UID = ""
		if err := cluster.Client.Create(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
	}
	submit(t, newPod("early", "1", selects(world.LabelPool, "loop"))) // there is no such pool yet
	create(newPool("loop"))
	awaitClaims(t, "loop", 1) // a pool that comes later triggers by itself

	var took []time.Duration
	for i := range 5 {
		// Each has a node of its own, so each needs a claim.
		pod := newPod(fmt.Sprintf("timed-%d", i), "1900m", selects(world.LabelPool, "loop"))
		submit(t, pod)
		begin := time.Now()
		awaitClaims(t, "loop", 2+i)
		took = append(took, time.Since(begin))
	}
	if !p.Synced() {
		t.Error("it makes nodes and has not seen what was there")
	}
	slices.Sort(took)
	t.Logf("from pod to claim, with a window of %s: %v", testIdle, took)
	// The bar of 50 ms over the window is held by a benchmark on a quiet computer; here, nothing may wait for the next look.
	if median := took[len(took)/2]; median > testIdle+time.Second {
		t.Errorf("median %s with a window of %s", median, testIdle)
	}

	// A claim that goes away without a node leaves its pods without a place, and they get another.
	claims := stored(t, "loop")
	for i := range claims {
		claims[i].Finalizers = nil
		if err := cluster.Client.Update(t.Context(), &claims[i]); err != nil {
			t.Fatal(err)
		}
	}
	gone := claims[0].Name
	if err := cluster.Client.Delete(t.Context(), &claims[0]); err != nil {
		t.Fatal(err)
	}
	again := awaitClaims(t, "loop", len(claims))
	if slices.ContainsFunc(again, func(c karpv1.NodeClaim) bool { return c.Name == gone }) {
		t.Errorf("claim %s is still there", gone)
	}

	// P2: pods of a node that is to go get their place before they have lost theirs.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "leaving", Labels: map[string]string{world.LabelPool: "loop", world.LabelRegistered: "true"}}}
	if err := cluster.Client.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	submit(t, newPod("bound", "1900m", selects(world.LabelPool, "loop"), func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status = "leaving", corev1.PodStatus{Phase: corev1.PodRunning}
	}))
	node.Spec.ProviderID = "aws:///us-east-1a/i-leaving"
	node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedTaint())
	owner := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "loop-leaving", Labels: map[string]string{world.LabelPool: "loop"}}, Spec: again[0].Spec}
	if err := cluster.Client.Create(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	owner.Status = karpv1.NodeClaimStatus{ProviderID: node.Spec.ProviderID, NodeName: "leaving"}
	if err := cluster.Client.Status().Update(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	awaitClaims(t, "loop", len(claims)+2)
}
