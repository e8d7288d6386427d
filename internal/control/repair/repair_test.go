package repair_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
	"karpenter/internal/control/drain"
	"karpenter/internal/control/repair"
	"karpenter/internal/meter"
	"karpenter/test/harness"
	"karpenter/test/harness/rig"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{}, func(c *harness.Cluster) { cluster = c }))
}

// policies are those of a provider.
type policies []cloud.RepairPolicy

func (p policies) RepairPolicies() []cloud.RepairPolicy { return p }

var usual = policies{
	{Condition: corev1.NodeReady, Status: corev1.ConditionFalse, Tolerated: 30 * time.Minute},
	{Condition: "AcceleratedHardwareReady", Status: corev1.ConditionFalse, Tolerated: 10 * time.Minute},
}

type ward struct {
	t      *testing.T
	clock  *testingclock.FakeClock
	events *rig.Sink
	series *prometheus.Registry
	class  schema.GroupKind
	pool   string
	nodes  int
}

func newWard(t *testing.T, change ...func(*repair.Repair)) *ward {
	t.Helper()
	name := strings.NewReplacer("_", "-", "/", "-").Replace(strings.ToLower(t.Name()))
	w := &ward{
		t: t, clock: testingclock.NewFakeClock(time.Now()), events: &rig.Sink{}, series: prometheus.NewRegistry(), pool: name,
		class: schema.GroupKind{Group: "test.karpenter.sh", Kind: "Class" + name},
	}
	m := rig.Manager(t, cluster)
	if err := drain.Index(t.Context(), m.GetFieldIndexer()); err != nil {
		t.Fatal(err)
	}
	r := &repair.Repair{
		Client: m.GetClient(), Policies: usual, Class: w.class, Clock: w.clock, Recorder: control.NewRecorder(w.events, w.clock.Now),
		Meter: meter.New(w.series, meter.Cloud{}), Log: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(r)
	}
	if err := r.Register(m); err != nil {
		t.Fatal(err)
	}
	rig.Run(t, m)
	w.create(&karpv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: karpv1.NodePoolSpec{Template: karpv1.NodeClaimTemplate{Spec: karpv1.NodeClaimTemplateSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: w.class.Group, Kind: w.class.Kind, Name: "default"},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{}, ExpireAfter: karpv1.NeverDuration(),
		}}},
	})
	return w
}

func (w *ward) create(obj client.Object) {
	w.t.Helper()
	rig.Create(w.t, cluster.Client, obj)
	w.t.Cleanup(func() {
		if err := rig.Vanish(context.Background(), cluster.Client, obj); err != nil {
			w.t.Error(err)
		}
	})
}

// node makes a node with its claim whose condition stands like that since so long.
func (w *ward) node(condition corev1.NodeConditionType, status corev1.ConditionStatus, since time.Duration, change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	w.t.Helper()
	w.nodes++
	name := fmt.Sprintf("%s-%d", w.pool, w.nodes)
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Finalizers: []string{karpv1.TerminationFinalizer},
			Labels: map[string]string{karpv1.NodePoolLabelKey: w.pool, karpv1.CapacityTypeLabelKey: "spot"},
		},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: w.class.Group, Kind: w.class.Kind, Name: "default"},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{}, ExpireAfter: karpv1.NeverDuration(),
		},
		Status: karpv1.NodeClaimStatus{ProviderID: "test:///" + name, NodeName: name, ImageID: "ami-1"},
	}
	for _, c := range change {
		c(claim)
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: claim.Labels, Annotations: map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}},
		Spec:       corev1.NodeSpec{ProviderID: claim.Status.ProviderID},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: condition, Status: status, LastTransitionTime: metav1.NewTime(w.clock.Now().Add(-since)),
		}}},
	}
	w.create(claim)
	w.create(node)
	return claim
}

func (w *ward) healthy(count int) {
	w.t.Helper()
	for range count {
		w.node(corev1.NodeReady, corev1.ConditionTrue, time.Hour)
	}
}

func (w *ward) read(claim *karpv1.NodeClaim) *karpv1.NodeClaim {
	w.t.Helper()
	now := &karpv1.NodeClaim{}
	if err := cluster.Client.Get(w.t.Context(), client.ObjectKeyFromObject(claim), now); err != nil {
		w.t.Fatal(err)
	}
	return now
}

func (w *ward) await(what string, holds func() bool) {
	w.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(5 * time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			w.t.Fatalf("waited in vain for: %s\nevents: %q", what, w.events.All())
		}
	}
}

func (w *ward) deleted(claim *karpv1.NodeClaim) bool {
	return !w.read(claim).DeletionTimestamp.IsZero()
}

func (w *ward) count(name meter.Name, labels ...string) float64 {
	w.t.Helper()
	return rig.Count(w.t, w.series, name, labels...)
}

func TestD58_BrokenNodeIsReplaced(t *testing.T) {
	w := newWard(t)
	w.healthy(4)
	broken := w.node("AcceleratedHardwareReady", corev1.ConditionFalse, 11*time.Minute, func(c *karpv1.NodeClaim) {
		c.Spec.TerminationGracePeriod = &karpv1.Duration{Duration: time.Hour}
		c.Annotations = map[string]string{karpv1.TerminationTimestampAnnotationKey: w.clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)}
	})
	w.await("its end", func() bool { return w.deleted(broken) })
	if got, want := w.read(broken).Annotations[karpv1.TerminationTimestampAnnotationKey], w.clock.Now().UTC().Format(time.RFC3339); got != want {
		t.Errorf("the deadline is %s, want %s", got, want)
	}
	w.await("O3", func() bool { return w.count(meter.NodeClaimsDisrupted) == 1 })
	labels := []string{"condition", "accelerated_hardware_ready", "image_id", "ami-1", "capacity_type", "spot", "nodepool", w.pool}
	if all, ours := w.count(meter.NodeClaimsUnhealthyDisrupted), w.count(meter.NodeClaimsUnhealthyDisrupted, labels...); all != 1 || ours != 1 {
		t.Errorf("O8: %v counted, %v of them with %q", all, ours, labels)
	}
}

func TestD58_ToleratedForAWhile(t *testing.T) {
	w := newWard(t)
	w.healthy(4)
	broken := w.node(corev1.NodeReady, corev1.ConditionFalse, time.Minute)
	w.node("DiskPressure", corev1.ConditionTrue, 24*time.Hour) // no policy names it
	w.await("the timer", w.clock.HasWaiters)
	w.clock.Step(28 * time.Minute)
	if w.deleted(broken) {
		t.Error("replaced too early")
	}
	w.pass("its end", func() bool { return w.deleted(broken) })
}

// pass lets time pass until what holds.
func (w *ward) pass(what string, holds func() bool) {
	w.t.Helper()
	w.await(what, func() bool {
		w.clock.Step(5 * time.Second)
		return holds()
	})
}

func TestD58_TooManyAreUnhealthy(t *testing.T) {
	w := newWard(t)
	w.healthy(3)
	first := w.node(corev1.NodeReady, corev1.ConditionFalse, time.Hour)
	w.await("a fifth rounded up may be replaced", func() bool { return w.deleted(first) })
	second := w.node(corev1.NodeReady, corev1.ConditionFalse, time.Hour)
	for _, kind := range []string{"*v1.Node", "*v1.NodeClaim", "*v1.NodePool"} {
		w.await("B6 an event on "+kind, func() bool {
			return slices.ContainsFunc(w.events.All(), func(e string) bool {
				return strings.HasPrefix(e, kind+" ") && strings.Contains(e, " Warning NodeRepairBlocked: ") && strings.Contains(e, "2 of 5")
			})
		})
	}
	if w.deleted(second) {
		t.Error("two of five are being replaced")
	}
	w.healthy(1)
	w.pass("the retry after five minutes", func() bool { return w.deleted(second) })
}

func TestD58_StandAloneClaimsCountTheWholeCluster(t *testing.T) {
	w := newWard(t)
	alone := func(c *karpv1.NodeClaim) { delete(c.Labels, karpv1.NodePoolLabelKey) }
	w.healthy(4)
	broken := w.node(corev1.NodeReady, corev1.ConditionFalse, time.Hour, alone)
	w.await("its end", func() bool { return w.deleted(broken) })
}

// stubborn refuses to delete claims while it is told to.
type stubborn struct {
	client.Client
	refuses *atomic.Bool
	asked   *atomic.Int32
}

func (s stubborn) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	s.asked.Add(1)
	if s.refuses.Load() {
		return errors.New("not today")
	}
	return s.Client.Delete(ctx, obj, opts...)
}

func TestS5_ANodeThatStaysHasNoDeadline(t *testing.T) {
	for name, end := range map[string]func(w *ward, sick *karpv1.NodeClaim){
		"well again": func(w *ward, sick *karpv1.NodeClaim) { w.say(sick, corev1.ConditionTrue) },
		"too many": func(w *ward, _ *karpv1.NodeClaim) {
			for range 2 {
				w.node(corev1.NodeReady, corev1.ConditionFalse, time.Minute)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var refuses atomic.Bool
			var asked atomic.Int32
			refuses.Store(true)
			w := newWard(t, func(r *repair.Repair) { r.Client = stubborn{r.Client, &refuses, &asked} })
			w.healthy(4)
			sick := w.node(corev1.NodeReady, corev1.ConditionFalse, time.Hour)
			w.await("a try to delete it", func() bool { return asked.Load() > 0 })
			if w.read(sick).Annotations[karpv1.TerminationTimestampAnnotationKey] == "" {
				t.Fatal("no deadline was written before the deletion")
			}
			end(w, sick)
			w.pass("the end of its deadline", func() bool { return w.read(sick).Annotations[karpv1.TerminationTimestampAnnotationKey] == "" })
			if w.deleted(sick) {
				t.Error("it was deleted")
			}
		})
	}
}

// say has the node of a claim say how it is from now on.
func (w *ward) say(claim *karpv1.NodeClaim, status corev1.ConditionStatus) {
	w.t.Helper()
	node := &corev1.Node{}
	if err := cluster.Client.Get(w.t.Context(), client.ObjectKey{Name: claim.Name}, node); err != nil {
		w.t.Fatal(err)
	}
	node.Status.Conditions[0].Status, node.Status.Conditions[0].LastTransitionTime = status, metav1.NewTime(w.clock.Now())
	if err := cluster.Client.Status().Update(w.t.Context(), node); err != nil {
		w.t.Fatal(err)
	}
}

func TestD58_WhatIsLeftAlone(t *testing.T) {
	w := newWard(t)
	w.healthy(20)
	foreign := w.node(corev1.NodeReady, corev1.ConditionFalse, time.Hour, func(c *karpv1.NodeClaim) { c.Spec.NodeClassRef.Kind = "Other" })
	earlier := w.clock.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	ours := w.node(corev1.NodeReady, corev1.ConditionFalse, time.Hour, func(c *karpv1.NodeClaim) {
		c.Annotations = map[string]string{karpv1.TerminationTimestampAnnotationKey: earlier}
	})
	w.await("the end of ours", func() bool { return w.deleted(ours) })
	if got := w.read(ours).Annotations[karpv1.TerminationTimestampAnnotationKey]; got != earlier {
		t.Errorf("an earlier deadline was moved to %s", got)
	}
	if w.deleted(foreign) {
		t.Error("L20: another controller's claim was deleted")
	}
}

func TestD58_ARepairIsPaidOnce(t *testing.T) {
	quota := control.NewQuota(time.Now)
	w := newWard(t, func(r *repair.Repair) { r.Quota = quota })
	w.healthy(14)
	broken := w.node(corev1.NodeReady, corev1.ConditionFalse, time.Hour)
	w.await("its end", func() bool { return w.deleted(broken) })
	w.await("O3", func() bool { return w.count(meter.NodeClaimsDisrupted) == 1 })
	if !quota.Take(15) { // two of fifteen
		t.Error("one repair has emptied a quota for two")
	}
}

func TestD58_TheQuotaIsShared(t *testing.T) {
	quota := control.NewQuota(time.Now)
	w := newWard(t, func(r *repair.Repair) { r.Quota = quota })
	if !quota.Take(0) { // spent by others
		t.Fatal("a full quota is empty")
	}
	w.healthy(4)
	broken := w.node(corev1.NodeReady, corev1.ConditionFalse, time.Hour)
	w.await("event", func() bool {
		return slices.ContainsFunc(w.events.All(), func(e string) bool { return strings.Contains(e, "too many nodes have been replaced") })
	})
	if w.deleted(broken) {
		t.Error("replaced with an empty quota")
	}
}
