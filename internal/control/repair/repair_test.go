package repair_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud"
	"karpenter/internal/control"
	"karpenter/internal/control/drain"
	"karpenter/internal/control/repair"
	"karpenter/internal/meter"
	"karpenter/internal/state"
	"karpenter/test/harness"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	log.SetLogger(logr.FromSlogHandler(slog.DiscardHandler))
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
	events *sink
	series *prometheus.Registry
	class  schema.GroupKind
	pool   string
	nodes  int
}

// sink keeps events.
type sink struct {
	mu   sync.Mutex
	told []string
}

func (s *sink) Event(obj runtime.Object, kind, reason, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, fmt.Sprintf("%T %s %s: %s", obj, kind, reason, message))
}

func (s *sink) Eventf(obj runtime.Object, kind, reason, format string, args ...any) {
	s.Event(obj, kind, reason, fmt.Sprintf(format, args...))
}

func (s *sink) AnnotatedEventf(obj runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	s.Event(obj, kind, reason, fmt.Sprintf(format, args...))
}

func (s *sink) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

func newWard(t *testing.T, change ...func(*repair.Repair)) *ward {
	t.Helper()
	name := strings.ToLower(strings.ReplaceAll(t.Name(), "_", "-"))
	w := &ward{
		t: t, clock: testingclock.NewFakeClock(time.Now()), events: &sink{}, series: prometheus.NewRegistry(), pool: name,
		class: schema.GroupKind{Group: "test.karpenter.sh", Kind: "Class" + name},
	}
	m, err := manager.New(cluster.Config, manager.Options{
		Scheme: harness.Scheme(), Logger: logr.FromSlogHandler(slog.DiscardHandler), Metrics: server.Options{BindAddress: "0"},
		Cache:      cache.Options{DefaultTransform: state.Trim}, // as the program does
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := drain.Index(t.Context(), m.GetFieldIndexer()); err != nil {
		t.Fatal(err)
	}
	r := &repair.Repair{
		Client: m.GetClient(), Policies: usual, Class: w.class, Clock: w.clock, Recorder: control.NewRecorder(w.events, w.clock.Now),
		Meter: meter.New(w.series), Log: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(r)
	}
	if err := r.Register(m); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
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
	want := obj.DeepCopyObject().(client.Object)
	if err := cluster.Client.Create(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
	switch from := want.(type) {
	case *corev1.Node:
		obj.(*corev1.Node).Status = from.Status
	case *karpv1.NodeClaim:
		obj.(*karpv1.NodeClaim).Status = from.Status
	}
	if err := cluster.Client.Status().Update(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := client.IgnoreNotFound(cluster.Client.Patch(context.Background(), obj, free)); err != nil {
			w.t.Error(err)
		}
		if err := client.IgnoreNotFound(cluster.Client.Delete(context.Background(), obj)); err != nil {
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
	deadline := time.After(60 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			w.t.Fatalf("waited in vain for: %s\nevents: %q", what, w.events.all())
		}
	}
}

func (w *ward) deleted(claim *karpv1.NodeClaim) bool {
	return !w.read(claim).DeletionTimestamp.IsZero()
}

// count is the value of a counter over all labels, and how its only series is labelled.
func (w *ward) count(name meter.Name) (total float64, labels string) {
	w.t.Helper()
	families, err := w.series.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "karpenter_"+string(name) {
			continue
		}
		for _, m := range f.GetMetric() {
			total += m.GetCounter().GetValue()
			if m.GetCounter().GetValue() == 0 {
				continue
			}
			for _, l := range m.GetLabel() {
				labels += l.GetName() + "=" + l.GetValue() + " "
			}
		}
	}
	return total, labels
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
	w.await("O3", func() bool { n, _ := w.count(meter.NodeClaimsDisrupted); return n == 1 })
	if n, labels := w.count(meter.NodeClaimsUnhealthyDisrupted); n != 1 || !strings.Contains(labels, "condition=accelerated_hardware_ready") ||
		!strings.Contains(labels, "image_id=ami-1") || !strings.Contains(labels, "capacity_type=spot") || !strings.Contains(labels, "nodepool="+w.pool) {
		t.Errorf("O8: %v %s", n, labels)
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
			return slices.ContainsFunc(w.events.all(), func(e string) bool {
				return strings.HasPrefix(e, kind+" Warning NodeRepairBlocked: ") && strings.Contains(e, "2 of 5")
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
	purse := control.NewPurse(time.Now)
	w := newWard(t, func(r *repair.Repair) { r.Purse = purse })
	w.healthy(14)
	broken := w.node(corev1.NodeReady, corev1.ConditionFalse, time.Hour)
	w.await("its end", func() bool { return w.deleted(broken) })
	w.await("O3", func() bool { n, _ := w.count(meter.NodeClaimsDisrupted); return n == 1 })
	if !purse.Take(15) { // two of fifteen
		t.Error("one repair has emptied a purse for two")
	}
}

func TestD58_ThePurseIsShared(t *testing.T) {
	purse := control.NewPurse(time.Now)
	w := newWard(t, func(r *repair.Repair) { r.Purse = purse })
	if !purse.Take(0) { // spent by others
		t.Fatal("a full purse is empty")
	}
	w.healthy(4)
	broken := w.node(corev1.NodeReady, corev1.ConditionFalse, time.Hour)
	w.await("event", func() bool {
		return slices.ContainsFunc(w.events.all(), func(e string) bool { return strings.Contains(e, "too many machines have been replaced") })
	})
	if w.deleted(broken) {
		t.Error("replaced with an empty purse")
	}
}
