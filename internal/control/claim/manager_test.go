package claim

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	awscloud "karpenter/internal/cloud/aws"
	"karpenter/internal/control"
	"karpenter/test/harness/rig"
	"karpenter/test/harness/simcloud"
)

// startManager runs all reconcilers of the package with real caches and the real clock until the test ends.
func startManager(t *testing.T, w *simcloud.World) {
	t.Helper()
	t.Cleanup(func() { sweep(t) })
	m, ctx := rig.Manager(t, cluster), t.Context()
	index := func(obj client.Object, field string) error {
		return m.GetFieldIndexer().IndexField(ctx, obj, field, func(o client.Object) []string {
			value, _ := rig.Indexed(o, field)
			return []string{value}
		})
	}
	clock, log := clock.RealClock{}, slog.New(slog.DiscardHandler)
	lifecycle := &Lifecycle{Client: m.GetClient(), Launcher: w.Provider, InstanceID: awscloud.ParseProviderID, Class: class, Clock: clock, Log: log}
	collect := &Collect{
		Client: m.GetClient(), Live: m.GetAPIReader(), Fleet: w.Provider, InstanceID: awscloud.ParseProviderID, Class: class,
		Quota: control.NewQuota(clock.Now), Clock: clock, Log: log,
	}
	for _, err := range []error{
		index(&corev1.Pod{}, indexPodNode), index(&corev1.Node{}, indexNodeProviderID), index(&karpv1.NodeClaim{}, indexClaimProviderID), Index(ctx, m.GetFieldIndexer()),
		lifecycle.Register(m),
		(&Hydrate{Client: m.GetClient(), Class: class, Clock: clock}).Register(m),
		(&Consistency{Client: m.GetClient(), Class: class, Clock: clock}).Register(m),
		(&PodEvents{Client: m.GetClient(), Class: class, Clock: clock}).Register(m),
		(&Expire{Client: m.GetClient(), Class: class, Clock: clock, Log: log}).Register(m),
		m.Add(collect.Loop(nil)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	rig.Run(t, m)
}

// await watches the claims until every one of n is as wanted.
func await(t *testing.T, n int, what string, wanted func(*karpv1.NodeClaim) bool) map[string]*karpv1.NodeClaim {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	watcher, err := cluster.Client.Watch(ctx, &karpv1.NodeClaimList{})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	last, done := map[string]*karpv1.NodeClaim{}, map[string]bool{}
	for event := range watcher.ResultChan() {
		claim, ok := event.Object.(*karpv1.NodeClaim)
		if !ok {
			continue
		}
		last[claim.Name], done[claim.Name] = claim, wanted(claim)
		ready := 0
		for _, is := range done {
			if is {
				ready++
			}
		}
		if ready == n {
			return last
		}
	}
	for name, claim := range last {
		t.Logf("%s: %+v", name, claim.Status)
	}
	t.Fatalf("not all of %d claims are %s", n, what)
	return nil
}

// TestL1_ABurstOfClaims runs the reconcilers as the program does.
func TestL1_ABurstOfClaims(t *testing.T) {
	w := simcloud.Start(t, simcloud.Options{NoBoot: true})
	startManager(t, w)
	before := w.Called("CreateFleet")
	const n = 20
	for i := range n {
		claim := simcloud.NewClaim(fmt.Sprint("burst-", i))
		inBatch(fmt.Sprintf("%dx%d", i%2, n/2))(claim)
		claim.Spec.ExpireAfter = karpv1.NewNillableDuration(720 * time.Hour)
		if err := cluster.Client.Create(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
	}
	claims := await(t, n, "launched", func(c *karpv1.NodeClaim) bool { return c.Status.ProviderID != "" })
	for name, claim := range claims {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-" + name},
			Spec:       corev1.NodeSpec{ProviderID: claim.Status.ProviderID, Taints: []corev1.Taint{karpv1.UnregisteredTaint()}},
		}
		if err := cluster.Client.Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	claims = await(t, n, "registered", func(c *karpv1.NodeClaim) bool { return c.StatusConditions().IsTrue(karpv1.ConditionRegistered) })
	for _, claim := range claims {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: claim.Status.NodeName}}
		if err := cluster.Client.Patch(t.Context(), node, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"taints":null}}`))); err != nil {
			t.Fatal(err)
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		node.Status.Capacity, node.Status.Allocatable = claim.Status.Capacity, claim.Status.Allocatable
		if err := cluster.Client.Status().Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
	}
	await(t, n, "ready and consistent", func(c *karpv1.NodeClaim) bool {
		return c.StatusConditions().IsTrue(karpv1.ConditionReady, karpv1.ConditionConsistentStateFound)
	})
	if fleets, living := w.Called("CreateFleet")-before, len(w.Living()); fleets != 2 || living != n {
		t.Errorf("%d fleets for 2 batches, %d instances for %d claims", fleets, living, n)
	}
}
