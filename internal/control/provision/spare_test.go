package provision

import (
	"maps"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	"karpenter/internal/engine/world"
	"karpenter/internal/meter"
	"karpenter/internal/state"
)

// keep shows the mirror a buffer of so many spare pods.
func (s *fixture) keep(name string, pods int32, cpu string, change ...func(*corev1.Pod)) {
	like := newPod(name, cpu, change...)
	s.Put(state.BufferPod(&bufferv1.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}},
		&corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: like.Labels}, Spec: like.Spec}, pods))
}

// Nodes are launched for spare pods, and nobody hears of them but their buffer: no event, no nomination, no place that is kept, and no metric
// of pods.
func TestP113_P28_SparePodsAreNobodysPods(t *testing.T) {
	s := newFixture(typesOf(twoZones, 8), newPool("spares", limits(map[corev1.ResourceName]string{"cpu": "16"})))
	s.keep("web", 20, "1")
	d := newRunner(t, s)
	registry := prometheus.NewRegistry()
	d.Meter = meter.New(registry, meter.Cloud{})
	d.Creator.Meter = d.Meter
	d.prepare()
	var told []Fared
	d.Buffers = func(list []Fared) { told = list }
	events, lines := d.pass()
	claims := stored(t, "spares")
	if len(claims) != 2 || len(events) > 0 {
		t.Fatalf("%d claims, events %q", len(claims), events)
	}
	if len(told) != 1 || told[0].Buffer != "default/web" || told[0].New != 16 || told[0].Refused != 4 || !told[0].Limited() {
		t.Errorf("P112: the buffer fares as %+v", told)
	}
	want(t, 1, lines, "found spare pod(s) of buffers", "pod-count=16", "16 spare pods of buffer default/web")
	want(t, 0, lines, "could not schedule")
	for _, c := range claims {
		if until := d.NominatedUntil(c.Name); !until.IsZero() {
			t.Errorf("P28: claim %s is nominated until %s", c.Name, until)
		}
		for key, value := range c.Annotations {
			if strings.Contains(value, "-spare-") {
				t.Errorf("claim %s names a spare pod: %s=%s", c.Name, key, value)
			}
		}
	}
	if n := d.Creator.pins.count(); n != 0 {
		t.Errorf("%d places are kept for spare pods", n)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			of[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	for _, name := range []meter.Name{meter.SchedulerUnschedulable, meter.SchedulerPendingZones, meter.SchedulerQueueDepth} {
		if got := of[meter.Metric{Name: name}.Full()]; got != 0 {
			t.Errorf("%s is %v", name, got)
		}
	}
	for name, value := range maps.All(of) {
		if strings.HasPrefix(name, "karpenter_pods_") && value != 0 {
			t.Errorf("%s is %v", name, value)
		}
	}

	// A pod that exists takes the room at once, and is told of as any other.
	s.put(newPod("real", "4"))
	d.podChanged(nil, s.pods[0])
	events, _ = d.pass()
	want(t, 1, events, "Normal Nominated", "expected on nodeclaim/")
	if len(events) != 1 || len(stored(t, "spares")) != 2 {
		t.Errorf("%d claims, events %q", len(stored(t, "spares")), events)
	}
	if told[0].Fits != 12 || told[0].Refused != 8 {
		t.Errorf("P112: the buffer fares as %+v", told)
	}
}

// Spare pods of several buffers and shapes are refused beyond the limits in the same pass, and no pod that exists is worse off for them.
func TestP111_BuffersOfSeveralShapesStayWithinLimits(t *testing.T) {
	s := newFixture(typesOf(twoZones, 2, 4, 8, 16), newPool("shapes", limits(map[corev1.ResourceName]string{"cpu": "48", "nodes": "5"})))
	s.keep("small", 40, "300m")
	s.keep("large", 4, "7")
	s.keep("alone", 6, "500m", alone)
	s.keep("never", 3, "100")
	s.put(pods(10, "1500m")...)
	d := newRunner(t, s)
	var told []Fared
	d.Buffers = func(list []Fared) { told = list }
	events, _ := d.pass()
	want(t, 10, events, "Normal Nominated")
	claims := stored(t, "shapes")
	if len(claims) > 5 {
		t.Errorf("%d claims; limits.nodes is 5", len(claims))
	}
	if len(told) != 4 {
		t.Fatalf("%d buffers are told of: %+v", len(told), told)
	}
	for i, n := range []int{6, 4, 3, 40} {
		if f := told[i]; f.Fits+f.New+f.Refused != n {
			t.Errorf("buffer %s has %d spare pods in %+v", f.Buffer, n, f)
		}
	}
	if f := told[2]; f.Refused != 3 || f.Limited() {
		t.Errorf("no instance is large enough for it, whatever the limit: %+v, limited: %t", f, f.Limited())
	}
	before := 0
	for pass := range 4 {
		d.clock.Step(d.clock.Since(epoch) + 1)
		d.pass()
		if pass == 0 { // there is nothing that the first pass has to leave over, but where limits are this tight one more node may be found
			before = len(stored(t, "shapes"))
		}
		if use := s.View().Usage("shapes"); use.Nodes > 5 || use.Capacity.Get(world.CPU) > 48_000 {
			t.Errorf("%d nodes with %d millicores; the limits are 5 and 48", use.Nodes, use.Capacity.Get(world.CPU))
		}
	}
	if n := len(stored(t, "shapes")); n != before {
		t.Errorf("%d claims became %d", before, n)
	}
}
