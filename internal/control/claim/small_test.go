package claim

import (
	"context"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/meter"
)

func TestD57_Expiration(t *testing.T) {
	b := newBench(t)
	r := &Expire{Client: b.client, Class: class, Clock: b.clock, Meter: b.meter, Log: slog.New(slog.DiscardHandler)}
	b.claim("old", func(c *karpv1.NodeClaim) {
		c.Spec.ExpireAfter = karpv1.NewNillableDuration(time.Hour)
		c.Finalizers = []string{karpv1.TerminationFinalizer}
		c.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	})
	b.claim("ageless")
	left := b.run(r, "old")
	if left <= 57*time.Minute-time.Second || left > time.Hour {
		t.Errorf("expires in %v", left)
	}
	b.clock.Step(left - time.Second)
	b.run(r, "old")
	if b.going("old") {
		t.Error("expired too early")
	}
	b.clock.Step(time.Second)
	b.run(r, "old")
	if !b.going("old") || b.counted(meter.NodeClaimsDisrupted, "reason", "expired", "nodepool", "general") != 1 {
		t.Error("not expired, or not counted")
	}
	b.run(r, "old") // it is being drained: nothing more to do
	b.clock.Step(1000 * time.Hour)
	if after := b.run(r, "ageless"); after != 0 || b.going("ageless") {
		t.Error("Never has passed")
	}
}

// Budgets bind what is done by choice. A claim expires whatever its pool's budgets and its pods say (D57).
func TestD18_ExpiryKeepsToNoBudget(t *testing.T) {
	b := newBench(t)
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "frozen"}}
	pool.Spec.Template.Spec = karpv1.NodeClaimTemplateSpec{
		NodeClassRef: &karpv1.NodeClassReference{Group: class.Group, Kind: class.Kind, Name: "default"},
		Requirements: []karpv1.NodeSelectorRequirementWithMinValues{}, ExpireAfter: karpv1.NeverDuration(),
	}
	pool.Spec.Disruption = karpv1.Disruption{ConsolidateAfter: karpv1.NeverDuration(), Budgets: []karpv1.Budget{{Nodes: "0"}}}
	b.must(b.client.Create(t.Context(), pool))
	t.Cleanup(func() { b.must(b.client.Delete(context.Background(), pool)) })
	b.claim("old", func(c *karpv1.NodeClaim) {
		c.Labels[karpv1.NodePoolLabelKey] = pool.Name
		c.Spec.ExpireAfter = karpv1.NewNillableDuration(time.Hour)
		c.Finalizers = []string{karpv1.TerminationFinalizer}
	})
	b.clock.Step(time.Hour)
	if b.run(&Expire{Client: b.client, Class: class, Clock: b.clock, Meter: b.meter, Log: slog.New(slog.DiscardHandler)}, "old"); !b.going("old") {
		t.Error("a budget has kept a claim from expiring")
	}
}

func TestL16_Consistency(t *testing.T) {
	b := newBench(t)
	r := &Consistency{Client: b.client, Class: class, Clock: b.clock, Recorder: b.recorder, Meter: b.meter}
	b.registered("shrunk", instance(1).ProviderID)
	b.node("shrunk-node", b.get("shrunk"))
	claim := b.get("shrunk")
	claim.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("29")}
	b.must(b.client.Status().Update(t.Context(), claim))
	b.report("shrunk-node", corev1.ConditionTrue, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourcePods: resource.MustParse("29")})
	b.run(r, "shrunk")
	if got := b.condition("shrunk", karpv1.ConditionConsistentStateFound); got != "" {
		t.Errorf("before it is initialized: %s", got)
	}
	claim = b.get("shrunk")
	claim.StatusConditions().SetTrue(karpv1.ConditionInitialized, b.clock.Now())
	b.must(b.client.Status().Update(t.Context(), claim))
	if after := b.run(r, "shrunk"); after != 10*time.Minute {
		t.Errorf("again in %v", after)
	}
	c := b.get("shrunk").StatusConditions().Get(karpv1.ConditionConsistentStateFound)
	if c.Status != metav1.ConditionFalse || c.Message != "Node shrunk-node has less than its instance type promised: 2 of 4 cpu" {
		t.Errorf("condition %+v", c) // memory is short too, but nobody asked for it
	}
	b.expectEvent("FailedConsistencyCheck")
	b.run(r, "shrunk")
	if n := b.counted(meter.ConsistencyErrors, "check", "NodeShape"); n != 1 {
		t.Errorf("A76: %v errors are counted, want one for each time that a node is found to be too small", n)
	}
	b.report("shrunk-node", corev1.ConditionTrue, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3900m"), corev1.ResourcePods: resource.MustParse("29")})
	b.run(r, "shrunk")
	if got := b.condition("shrunk", karpv1.ConditionConsistentStateFound); got != "True/ConsistentStateFound" {
		t.Errorf("got %s", got)
	}
}

func TestO4_PodsOfAClaimThatGoes(t *testing.T) {
	b := newBench(t)
	r := &Expire{Client: b.client, Class: class, Clock: b.clock, Meter: b.meter, Log: slog.New(slog.DiscardHandler)}
	claim := b.claim("old", func(c *karpv1.NodeClaim) {
		c.Spec.ExpireAfter = karpv1.NewNillableDuration(time.Hour)
		c.Finalizers = []string{karpv1.TerminationFinalizer}
	})
	claim.Status.NodeName = "busy-node"
	b.must(b.client.Status().Update(t.Context(), claim))
	b.pod("daemon", &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "u", Controller: new(true)}, b.clock.Now())
	b.pod("web", nil, b.clock.Now())
	b.pod("done", nil, b.clock.Now())
	done := b.getPod("done")
	done.Status.Phase = corev1.PodSucceeded
	b.must(b.client.Status().Update(t.Context(), done))
	b.clock.Step(time.Hour)
	b.run(r, "old")
	if got := b.counted(meter.PodsDisruptionInitiated, "reason", "expired", "nodepool", "general"); got != 1 {
		t.Errorf("%v pods have to move, want 1: those of DaemonSets and those that have ended do not", got)
	}
}

func TestL17_PodEvents(t *testing.T) {
	b := newBench(t)
	r := &PodEvents{Client: b.client, Class: class, Clock: b.clock}
	b.registered("busy", instance(1).ProviderID)
	b.node("busy-node", b.get("busy"))
	last := func() time.Time { return b.get("busy").Status.LastPodEventTime.UTC() }
	run := func() {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: "busy-node"}}); err != nil {
			t.Fatal(err)
		}
	}
	bound := b.clock.Now()
	b.pod("daemon", &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "u", Controller: new(true)}, bound)
	run()
	if !last().IsZero() {
		t.Error("a daemon counts")
	}
	b.pod("web", nil, bound)
	run()
	if !last().Equal(bound) {
		t.Errorf("bound at %v, got %v", bound, last())
	}
	b.pod("web-2", nil, bound.Add(9*time.Second))
	run()
	if !last().Equal(bound) {
		t.Errorf("less than ten seconds later moved it to %v", last())
	}
	// A restart sees all pods again, and nothing changes.
	b.clock.Step(time.Hour)
	run()
	run()
	if !last().Equal(bound) {
		t.Errorf("seeing a pod again moved it to %v", last())
	}
	finished := bound.Add(time.Minute)
	pod := b.getPod("web-2")
	pod.Status.Phase = corev1.PodSucceeded
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "PodCompleted", LastTransitionTime: metav1.NewTime(finished)})
	b.must(b.client.Status().Update(t.Context(), pod))
	run()
	if !last().Equal(finished) {
		t.Errorf("finished at %v, got %v", finished, last())
	}
	b.must(b.client.Delete(t.Context(), b.getPod("web")))
	run()
	told := b.getPod("web").DeletionTimestamp.Add(-30 * time.Second)
	if !last().Equal(told) {
		t.Errorf("told to leave at %v, got %v", told, last())
	}
}

func (b *bench) pod(name string, owner *metav1.OwnerReference, bound time.Time) {
	b.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: "busy-node", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if owner != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	b.must(b.client.Create(b.Context(), pod))
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(bound)}}
	b.must(b.client.Status().Update(b.Context(), pod))
}

func (b *bench) getPod(name string) *corev1.Pod {
	b.Helper()
	pod := &corev1.Pod{}
	b.must(b.client.Get(context.WithoutCancel(b.Context()), client.ObjectKey{Namespace: "default", Name: name}, pod))
	return pod
}

func TestL18_Hydration(t *testing.T) {
	b := newBench(t)
	r := &Hydrate{Client: b.client, Class: class, Clock: b.clock}
	b.registered("dry", instance(1).ProviderID)
	b.node("dry-node", b.get("dry"))
	b.run(r, "dry")
	if got, node := b.get("dry").Labels[awsv1.LabelNodeClass], b.getNode("dry-node").Labels[awsv1.LabelNodeClass]; got != "default" || node != "default" {
		t.Errorf("claim %q, node %q", got, node)
	}
	b.claim("unlaunched")
	b.run(r, "unlaunched")
	if got := b.get("unlaunched").Labels[awsv1.LabelNodeClass]; got != "" {
		t.Errorf("R3: what a launch reads was changed: %q", got)
	}
}
