package provision

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/dump"
)

// yesMan is a client that takes every claim and stores none.
func yesMan() client.Client {
	return interceptor.NewClient(cluster.Client, interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			obj.SetCreationTimestamp(metav1.NewTime(epoch))
			return nil
		},
	})
}

// again creates what a plan asks for, and plans once more over what is then in flight: as the same process would, and as one that
// starts anew.
func again(t testing.TB, s *fixture) (first, second, restarted *pack.Plan) {
	c := &Creator{Client: yesMan(), Mirror: s, Clock: s.clock, Log: silent}
	view := s.View()
	first = pack.Solve(view.World, pack.Options{})
	for _, err := range c.Create(t.Context(), c.Drafts(view, first.Nodes, ReasonProvisioned)) {
		if err != nil {
			t.Fatal(err)
		}
	}
	anew := &Creator{Client: yesMan(), Mirror: s, Clock: s.clock, Log: silent}
	return first, pack.Solve(c.World(s.View()), pack.Options{}), pack.Solve(anew.World(s.View()), pack.Options{})
}

func labelled(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }

func spreadOver(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		labelled(p)
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		})
	}
}

func together(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		labelled(p)
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
		}}}}
	}
}

func port(p *corev1.Pod) {
	p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
}

func daemon(name, cpu string, change ...func(*corev1.PodSpec)) *appsv1.DaemonSet {
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("64Mi")},
	}}}
	for _, f := range change {
		f(&d.Spec.Template.Spec)
	}
	return d
}

func on(key string, values ...string) func(*corev1.PodSpec) {
	return func(s *corev1.PodSpec) {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}}},
		}}}
	}
}

// TestP71_WhatIsCreatedIsNotPlannedAgain: claims that are in flight are the place of the pods they were made for.
func TestP71_WhatIsCreatedIsNotPlannedAgain(t *testing.T) {
	dear := func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Taints = []karpv1.Taint{{Key: "dear", Effect: corev1.TaintEffectPreferNoSchedule}}
	}
	cases := []struct {
		name    string
		catalog *dump.Catalog
		pools   []*karpv1.NodePool
		daemons []*appsv1.DaemonSet
		pods    []*corev1.Pod
	}{
		{name: "plain", pods: pods(40, "700m")},
		{name: "alone", pods: pods(7, "100m", alone)},
		{name: "zone spread", pods: pods(9, "700m", spreadOver(world.LabelZone))},
		{name: "host spread", pods: pods(9, "700m", spreadOver(corev1.LabelHostname))},
		{name: "capacity type spread", pods: pods(9, "700m", spreadOver(world.LabelCapacityType))},
		{name: "together in a zone", pods: pods(9, "700m", together(world.LabelZone))},
		{name: "together on a host", pods: pods(3, "700m", together(corev1.LabelHostname))},
		{name: "ports", pods: pods(4, "100m", port)},
		{name: "custom labels", pools: []*karpv1.NodePool{newPool("a", needs("tier", "In", 0, "x", "y"), needs("rack", "Exists", 0))}, pods: append(pods(3, "1", selects("tier", "y")), newPod("r", "1", selects("rack", "r7")))},
		{name: "spread over a label", pools: []*karpv1.NodePool{newPool("a", needs("rack", "In", 0, "r1", "r2", "r3"))}, pods: pods(6, "1", spreadOver("rack"))},
		{name: "limits", pools: []*karpv1.NodePool{newPool("a", limits(map[corev1.ResourceName]string{"cpu": "8"}))}, pods: pods(8, "900m")},
		{name: "soft taint", pools: []*karpv1.NodePool{newPool("a", dear)}, pods: pods(3, "1")},
		{name: "reserved", catalog: reservedCatalog(), pods: pods(3, "1500m")},
		{name: "min values", pools: []*karpv1.NodePool{newPool("a", needs(world.LabelInstanceType, "Exists", 2))}, pods: pods(5, "700m")},
		{name: "daemons", daemons: []*appsv1.DaemonSet{daemon("agent", "150m"), daemon("proxy", "100m")}, pods: pods(20, "700m")},
		{
			name: "daemons of some types", daemons: []*appsv1.DaemonSet{daemon("agent", "150m", on(world.LabelInstanceType, "m5.4x", "m5.8x")), daemon("zonal", "50m", on(world.LabelZone, "us-east-1a"))},
			pods: pods(20, "700m"),
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.catalog == nil {
				c.catalog = typesOf(twoZones, 2, 4, 8)
			}
			if c.pools == nil {
				c.pools = []*karpv1.NodePool{newPool("a")}
			}
			s := newFixture(c.catalog, c.pools...)
			for _, d := range c.daemons {
				s.Put(d)
			}
			s.put(c.pods...)
			first, second, restarted := again(t, s)
			if first.Placed == 0 || len(second.Nodes) > 0 || second.Pods != first.Pods-first.Placed {
				t.Errorf("of %d pods %d had a place on %d nodes; then %d want one, on %d more nodes", first.Pods, first.Placed, len(first.Nodes), second.Pods, len(second.Nodes))
			}
			if len(restarted.Nodes) > 0 || restarted.Pods != second.Pods {
				t.Errorf("of %d pods %d had a place on %d nodes; after a restart %d want one, on %d more nodes", first.Pods, first.Placed, len(first.Nodes), restarted.Pods, len(restarted.Nodes))
			}
		})
	}
}

// TestP71_AnyMixIsPlannedOnce does the same for mixes of pods and daemons.
func TestP71_AnyMixIsPlannedOnce(t *testing.T) {
	kinds := []func(*corev1.Pod){func(*corev1.Pod) {}, selects(world.LabelZone, "us-east-1b"), selects(world.LabelCapacityType, "on-demand"), selects("tier", "x"), port, alone}
	rapid.Check(t, func(r *rapid.T) {
		s := newFixture(typesOf(twoZones, 2, 4, 8, 16), newPool("a", needs("tier", "In", 0, "x", "y")), newPool("b", limits(map[corev1.ResourceName]string{"nodes": "3"})))
		for i := range rapid.IntRange(0, 2).Draw(r, "daemons") {
			s.Put(daemon(fmt.Sprint("d", i), fmt.Sprintf("%dm", rapid.IntRange(10, 300).Draw(r, "cpu"))))
		}
		for i := range rapid.IntRange(1, 4).Draw(r, "groups") {
			kind := kinds[rapid.IntRange(0, len(kinds)-1).Draw(r, "kind")]
			cpu := fmt.Sprintf("%dm", rapid.IntRange(50, 3000).Draw(r, "cpu"))
			for k := range rapid.IntRange(1, 15).Draw(r, "pods") {
				s.put(newPod(fmt.Sprintf("g%d-%d", i, k), cpu, kind))
			}
		}
		first, second, restarted := again(t, s)
		if len(second.Nodes) > 0 || second.Pods != first.Pods-first.Placed {
			r.Fatalf("of %d pods %d had a place on %d nodes; then %d want one, on %d more nodes", first.Pods, first.Placed, len(first.Nodes), second.Pods, len(second.Nodes))
		}
		if len(restarted.Nodes) > 0 || restarted.Pods != second.Pods {
			r.Fatalf("of %d pods %d had a place on %d nodes; after a restart %d want one, on %d more nodes", first.Pods, first.Placed, len(first.Nodes), restarted.Pods, len(restarted.Nodes))
		}
	})
}
