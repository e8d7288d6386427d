package operator

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/cloud/aws"
	"karpenter/internal/meter"
	"karpenter/internal/state"
)

// pages is an API server that has pods and nodes and hands out what is asked for, page by page.
type pages struct {
	client.Reader
	pods  []*corev1.Pod
	nodes []*corev1.Node
	// calls counts lists, most is the longest page that was handed out, and whole how many objects were read in full.
	calls, most, whole int
}

func (p *pages) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	p.calls++
	switch l := list.(type) {
	case *metav1.PartialObjectMetadataList:
		n, object := len(p.nodes), func(i int) *metav1.ObjectMeta { return &p.nodes[i].ObjectMeta }
		if l.Kind == "PodList" {
			n, object = len(p.pods), func(i int) *metav1.ObjectMeta { return &p.pods[i].ObjectMeta }
		}
		from, _ := strconv.Atoi(o.Continue)
		to := min(n, from+int(o.Limit))
		p.most = max(p.most, to-from)
		for i := from; i < to; i++ {
			l.Items = append(l.Items, metav1.PartialObjectMetadata{ObjectMeta: *object(i).DeepCopy()})
		}
		if to < n {
			l.Continue = strconv.Itoa(to)
		}
	case *corev1.PodList:
		p.whole++
		for _, pod := range p.pods {
			if o.FieldSelector.String() == "metadata.name="+pod.Name {
				l.Items = append(l.Items, *pod.DeepCopy())
			}
		}
	case *corev1.NodeList:
		p.whole++
		for _, node := range p.nodes {
			if o.FieldSelector.String() == "metadata.name="+node.Name {
				l.Items = append(l.Items, *node.DeepCopy())
			}
		}
	}
	return nil
}

// newPages is an API with nodes, and pods on them.
func newPages(nodes, pods int) *pages {
	api := &pages{}
	for i := range nodes {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), UID: types.UID(fmt.Sprint("n", i)), ResourceVersion: "1"}}
		n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("64"), "pods": resource.MustParse("1000")}
		api.nodes = append(api.nodes, n)
	}
	for i := range pods {
		api.pods = append(api.pods, newAuditPod(i, fmt.Sprint("n", i%nodes)))
	}
	return api
}

func newAuditPod(i int, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprint("p", i), Namespace: "default", UID: types.UID(fmt.Sprint("p", i)), ResourceVersion: "1",
		Labels:        map[string]string{"app": fmt.Sprint("app-", i%100)},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet", FieldsV1: &metav1.FieldsV1{}}},
	}}
	p.ManagedFields[0].FieldsV1.SetRawBytes(bytes.Repeat([]byte("x"), 1000))
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}}}}
	p.Spec.NodeName, p.Status.Phase = node, corev1.PodRunning
	return p
}

// newAuditor is one over a mirror that has what the API has.
func newAuditor(tb testing.TB, api *pages) (*auditor, *testingclock.FakeClock) {
	scheme, err := NewScheme(aws.Kind())
	if err != nil {
		tb.Fatal(err)
	}
	clock := testingclock.NewFakeClock(time.Unix(1_700_000_000, 0))
	a := &auditor{
		mirror: state.NewMirror(state.MirrorOptions{Now: clock.Now}), live: api, scheme: scheme, clock: clock, set: meter.New(prometheus.NewRegistry(), meter.Cloud{}),
		log: slog.New(slog.DiscardHandler), kinds: []audited{{kind: &corev1.Pod{}}, {kind: &corev1.Node{}}},
	}
	for _, n := range api.nodes {
		a.mirror.Put(n.DeepCopy())
	}
	for _, p := range api.pods {
		a.mirror.Put(p.DeepCopy())
	}
	return a, clock
}

// walk goes once over everything, and returns how many slices that took.
func walk(tb testing.TB, a *auditor) (slices int) {
	for {
		slices++
		if done, err := a.step(tb.Context()); err != nil {
			tb.Fatal(err)
		} else if done {
			return slices
		}
	}
}

func TestS12_TheMirrorIsHeldAgainstTheAPI(t *testing.T) {
	api := newPages(2, 2*auditPage+7)
	a, clock := newAuditor(t, api)
	log, registry := &bytes.Buffer{}, prometheus.NewRegistry()
	a.set, a.log = meter.New(registry, meter.Cloud{}), slog.New(slog.NewTextHandler(log, nil))
	if done, err := a.step(t.Context()); done || err != nil || api.calls != 0 {
		t.Errorf("before the mirror is filled %d lists are read; %v", api.calls, err)
	}
	a.mirror.SetSynced()
	if n := walk(t, a); n != 4 || api.calls != 4 || len(a.suspects) > 0 || log.Len() > 0 {
		t.Errorf("all is well: %d slices, %d pages, suspects %v, log %s", n, api.calls, a.suspects, log)
	}

	// Pages of a list are of the moment when it was begun: what has come or changed since then is not compared.
	if done, err := a.step(t.Context()); done || err != nil || a.page == "" {
		t.Fatalf("the first of several pages: done %t, %v", done, err)
	}
	young, newer := newAuditPod(90_000, "n0"), api.pods[2*auditPage].DeepCopy()
	newer.ResourceVersion = "9"
	a.mirror.Put(young)
	a.mirror.Put(newer)
	if walk(t, a); len(a.suspects) > 0 {
		t.Errorf("what has come or changed while the list was read is suspected: %v", a.suspects)
	}
	api.pods[2*auditPage] = newer
	api.pods = append(api.pods, young)

	// What is on its way while it is looked at is no difference, in whichever direction it goes.
	coming := newAuditPod(90_001, "n0")
	api.pods = append(api.pods[1:], coming)
	changed := api.nodes[0].DeepCopy()
	changed.ResourceVersion = "7"
	api.nodes[0] = changed
	walk(t, a)
	if len(a.suspects) != 3 {
		t.Fatalf("suspects are %v, want the pod that goes, the one that comes and the node", a.suspects)
	}
	a.mirror.Put(coming)
	a.mirror.Put(changed)
	a.mirror.Drop(newAuditPod(0, ""))
	clock.Step(auditSoon)
	if walk(t, a); len(a.suspects) > 0 || log.Len() > 0 {
		t.Errorf("what came late is told: %v %s", a.suspects, log)
	}

	// What does not come is told, and put right.
	api.pods = append(api.pods[1:], newAuditPod(90_002, "n1"))
	grown := api.nodes[1].DeepCopy()
	grown.ResourceVersion, grown.Status.Allocatable = "8", corev1.ResourceList{"cpu": resource.MustParse("96")}
	api.nodes[1] = grown
	walk(t, a)
	clock.Step(auditSoon)
	walk(t, a)
	for _, want := range []string{"kind=Pod name=default/p1 ", "kind=Pod name=default/p90002 ", "kind=Node name=/n1 "} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("no %q in %s", want, log)
		}
	}
	err := testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP karpenter_cluster_state_differences_total Objects that Karpenter still saw otherwise a minute after the API server had them, or that did not mean what they should.
# TYPE karpenter_cluster_state_differences_total counter
karpenter_cluster_state_differences_total{kind="Node"} 1
karpenter_cluster_state_differences_total{kind="Pod"} 2
`), "karpenter_cluster_state_differences_total")
	if err != nil {
		t.Error(err)
	}
	log.Reset()
	clock.Step(auditSoon)
	if walk(t, a); len(a.suspects) > 0 || log.Len() > 0 {
		t.Errorf("what was put right is found again: %v %s", a.suspects, log)
	}
}

// TestS12_AnAuditIsCheap: a slice is one page of names and a few nodes, with a pause after it; nothing is read in full unless it is
// suspected, and the whole costs little memory. How long it takes is measured by BenchmarkS12_Audit.
func TestS12_AnAuditIsCheap(t *testing.T) {
	const nodes, pods = 3 * auditNodes, 5 * auditPage
	api := newPages(nodes, pods)
	a, _ := newAuditor(t, api)
	a.mirror.SetSynced()
	a.mirror.View()
	do := a.loop().Do
	if wait, err := do(t.Context()); err != nil || wait < auditEvery || api.calls != 0 {
		t.Errorf("it begins with %d lists and waits %s, %v; want none for %s", api.calls, wait, err, auditEvery)
	}
	for slice, last := 1, ""; ; slice++ {
		wait, err := do(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if api.calls != slice || api.most > auditPage || api.whole > 0 {
			t.Fatalf("%d lists in %d slices, the longest of %d objects, %d in full", api.calls, slice, api.most, api.whole)
		}
		if slice < nodes/auditNodes && a.node <= last {
			t.Errorf("slice %d goes on from %q to %q, want some of the nodes", slice, last, a.node)
		}
		last = a.node
		if slice == pods/auditPage+1 {
			if wait < auditEvery {
				t.Errorf("after everything it waits %s, want %s at least", wait, auditEvery)
			}
			break
		}
		if wait != auditPause {
			t.Errorf("after slice %d it waits %s, want %s", slice, wait, auditPause)
		}
	}
	got := testing.AllocsPerRun(2, func() { walk(t, a) }) / (nodes + pods)
	t.Logf("%.1f allocations for each object", got)
	if got > 40 {
		t.Errorf("%.1f allocations for each object", got)
	}
}

// BenchmarkS12_Audit is one audit of five thousand nodes and a hundred thousand pods, without the API server's part: it must take less
// than a hundredth of the ten minutes between two, and no slice so long that a decision waits for it.
func BenchmarkS12_Audit(b *testing.B) {
	a, _ := newAuditor(b, newPages(5000, 100_000))
	a.mirror.SetSynced()
	a.mirror.View()
	b.ReportAllocs()
	for b.Loop() {
		longest, begin, took := time.Duration(0), time.Now(), 0
		for done, last := false, time.Now(); !done; last = time.Now() {
			var err error
			if done, err = a.step(b.Context()); err != nil {
				b.Fatal(err)
			}
			longest, took = max(longest, time.Since(last)), took+1
		}
		b.ReportMetric(100*time.Since(begin).Seconds()/auditEvery.Seconds(), "%core")
		b.ReportMetric(float64(longest.Milliseconds()), "ms/longest")
		b.ReportMetric(float64(took), "slices")
	}
}
