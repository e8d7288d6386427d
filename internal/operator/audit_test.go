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
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/meter"
	"karpenter/internal/state"
)

// pages is an API server that has pods and nodes and hands them out page by page.
type pages struct {
	client.Reader
	pods  []corev1.Pod
	nodes []corev1.Node
	calls int
}

func (p *pages) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := client.ListOptions{}
	o.ApplyOptions(opts)
	from, _ := strconv.Atoi(o.Continue)
	p.calls++
	switch l := list.(type) {
	case *corev1.PodList:
		to := min(len(p.pods), from+int(o.Limit))
		for i := range p.pods[from:to] {
			l.Items = append(l.Items, *p.pods[from+i].DeepCopy())
		}
		if to < len(p.pods) {
			l.Continue = strconv.Itoa(to)
		}
	case *corev1.NodeList:
		for i := range p.nodes {
			l.Items = append(l.Items, *p.nodes[i].DeepCopy())
		}
	}
	return nil
}

// newPages is an API with two nodes, and pods on them for more than two pages.
func newPages() *pages {
	api := &pages{}
	for i := range 2 {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("n", i), UID: types.UID(fmt.Sprint("n", i)), ResourceVersion: "1", ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
		n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("64"), "pods": resource.MustParse("1000")}
		api.nodes = append(api.nodes, n)
	}
	for i := range 2*auditPage + 7 {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Namespace: "default", UID: types.UID(fmt.Sprint("p", i)), ResourceVersion: "1"}}
		p.Spec.NodeName = fmt.Sprint("n", i%2)
		p.Status.Phase = corev1.PodRunning
		api.pods = append(api.pods, p)
	}
	return api
}

func TestS12_TheMirrorIsHeldAgainstTheAPI(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	api := newPages()
	mirror := state.NewMirror(state.MirrorOptions{Now: time.Now})
	store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	for i := range api.nodes {
		mirror.Put(api.nodes[i].DeepCopy())
	}
	for i := range api.pods {
		p := api.pods[i].DeepCopy()
		mirror.Put(p)
		if err := store.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	log, registry := &bytes.Buffer{}, prometheus.NewRegistry()
	a := &auditor{
		mirror: mirror, live: api, scheme: scheme, set: meter.New(registry), log: slog.New(slog.NewTextHandler(log, nil)),
		kinds: []audited{{kind: &corev1.Pod{}, store: store}, {kind: &corev1.Node{}}},
	}
	look := func(when string, want bool) {
		t.Helper()
		differs, err := a.audit(t.Context())
		if err != nil || differs != want {
			t.Fatalf("%s: differs %v, want %v; %v", when, differs, want, err)
		}
	}
	if look("before the mirror is filled", false); api.calls != 0 {
		t.Errorf("%d lists are read", api.calls)
	}
	mirror.SetSynced()
	if look("all is well", false); api.calls != 4 || log.Len() > 0 {
		t.Errorf("%d pages; %s", api.calls, log)
	}

	api.pods, api.nodes[1].Status.Allocatable = api.pods[1:], corev1.ResourceList{"cpu": resource.MustParse("1")}
	if look("events are missing", true); log.Len() > 0 {
		t.Errorf("what may be on its way is told: %s", log)
	}
	look("they are still missing", false)
	for _, want := range []string{"kind=Node name=n0", "kind=Node name=n1"} {
		if strings.Count(log.String(), want) != 1 {
			t.Errorf("no %q in %s", want, log)
		}
	}
	err = testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP karpenter_cluster_state_differences_total Objects that Karpenter saw otherwise than the API server had them, in two audits in a row.
# TYPE karpenter_cluster_state_differences_total counter
karpenter_cluster_state_differences_total{kind="Node"} 2
`), "karpenter_cluster_state_differences_total")
	if err != nil {
		t.Error(err)
	}

	mirror.Drop(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p0", Namespace: "default", UID: "p0"}})
	n := api.nodes[1].DeepCopy()
	n.ResourceVersion = "2"
	mirror.Put(n)
	log.Reset()
	if look("they have come", false); log.Len() > 0 {
		t.Errorf("it is still told: %s", log)
	}
}
