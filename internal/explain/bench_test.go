package explain_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/explain"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

// fleet is a thousand nodes with twenty pods each, a pod too large for anything, and a catalogue of 600 types.
func fleet(b *testing.B) *state.View {
	b.Helper()
	catalog := &dump.Catalog{}
	for i := range 600 {
		cores := 2 << (i % 6)
		t := dump.CatalogType{
			Name: fmt.Sprintf("f%02d.s%d", i/6, i%6), Labels: map[string]string{"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"},
			Allocatable: map[string]string{"cpu": fmt.Sprint(cores), "memory": fmt.Sprintf("%dGi", cores*(2+i/6%7)), "pods": "110"},
		}
		for _, zone := range []string{"a", "b", "c"} {
			t.Offerings = append(t.Offerings, dump.CatalogOffering{Zone: zone, CapacityType: "on-demand", Price: float64(cores) * (0.04 + 0.0001*float64(i/6))})
		}
		catalog.InstanceTypes = append(catalog.InstanceTypes, t)
	}
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("110")}
	}
	after := v1.NewNillableDuration(0)
	o := &dump.Objects{Pools: []*v1.NodePool{{ObjectMeta: metav1.ObjectMeta{Name: "general"}, Spec: v1.NodePoolSpec{Disruption: v1.Disruption{ConsolidateAfter: after, Budgets: []v1.Budget{{Nodes: "10%"}}}}}}}
	for i := range 1000 {
		name := fmt.Sprintf("n%04d", i)
		labels := map[string]string{v1.NodePoolLabelKey: "general", corev1.LabelInstanceTypeStable: "f10.s3", corev1.LabelTopologyZone: string(rune('a' + i%3)), v1.CapacityTypeLabelKey: "on-demand", v1.NodeInitializedLabelKey: "true"}
		claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		claim.Status.ProviderID = "p/" + name
		for _, c := range []string{v1.ConditionLaunched, v1.ConditionRegistered, v1.ConditionInitialized, v1.ConditionConsolidatable} {
			claim.Status.Conditions = append(claim.Status.Conditions, v1.Condition{Type: c, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-3600e9))})
		}
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.NodeSpec{ProviderID: "p/" + name}}
		n.Status.Allocatable, n.Status.Capacity = list("16", "48Gi"), list("16", "48Gi")
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		o.Claims, o.Nodes = append(o.Claims, claim), append(o.Nodes, n)
		for k := range 20 {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d-%d", i, k), Namespace: "default", UID: types.UID(fmt.Sprintf("u%d-%d", i, k)), Labels: map[string]string{"app": fmt.Sprint(k)}}}
			p.Spec.NodeName = name
			p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprintf("%dm", 300+(i*7+k)%40*20)), corev1.ResourceMemory: resource.MustParse("1Gi")}}}}
			p.Status.Phase = corev1.PodRunning
			if i == 500 && k == 0 {
				p.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: "true"}
			}
			o.Pods = append(o.Pods, p)
		}
	}
	huge := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "huge", Namespace: "default", UID: "huge"}}
	huge.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: list("100", "100Gi")}}}
	huge.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}}
	o.Pods = append(o.Pods, huge)
	view, problems := state.BuildView(o, catalog, state.Options{}, noon)
	if len(problems) > 0 {
		b.Fatal(problems)
	}
	return view
}

// BenchmarkAnswer asks about one object of a fleet of 1,000 nodes and 20,000 pods: the first time, when plan and decision have to
// be made, and from then on.
func BenchmarkAnswer(b *testing.B) {
	view := fleet(b)
	questions := map[string]func(*explain.Cluster) (*explain.Answer, error){
		"node": func(c *explain.Cluster) (*explain.Answer, error) { return c.Node("n0500") },
		"pod":  func(c *explain.Cluster) (*explain.Answer, error) { return c.Pod("default", "huge") },
		"pool": func(c *explain.Cluster) (*explain.Answer, error) { return c.Pool("general") },
	}
	for _, kind := range []string{"node", "pod", "pool"} {
		ask := func(b *testing.B, c *explain.Cluster) {
			if _, err := questions[kind](c); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(kind+"/first", func(b *testing.B) {
			for b.Loop() {
				ask(b, explain.New(view, nil, explain.Options{Now: noon}))
			}
		})
		b.Run(kind+"/next", func(b *testing.B) {
			c := explain.New(view, nil, explain.Options{Now: noon})
			ask(b, c)
			for b.Loop() {
				ask(b, c)
			}
		})
	}
}
