package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/simaws/catalog"
)

const (
	barWide     = "wide"
	widePods    = 1000
	wideBoot    = 5 * time.Second
	wideSeconds = 40.0
	// widePatience is when to give up.
	widePatience = 10 * time.Minute

	barSettle     = "settle"
	settlePods    = 700
	settleSeconds = 120.0
	// settleQuiet is how long no claim and no pod must change for the cluster to count as settled.
	settleQuiet = 25 * time.Second
)

// The thirty shapes of the wide workload: thousandths of a core, and MiB.
var (
	wideCPU = []int{
		240, 450, 650, 900, 1400, 1900, 2400, 2800, 3300, 3700, 2300, 900, 1300, 2800, 1800,
		1850, 3300, 3800, 225, 450, 700, 900, 1300, 1800, 2400, 2800, 3400, 3800, 3300, 2800,
	}
	wideMiB = []int{
		300, 400, 700, 1024, 2048, 4096, 8192, 4096, 16384, 10240, 65536, 30720, 32768, 32768, 30720,
		20480, 30720, 300, 500, 750, 1024, 2048, 4096, 8192, 16384, 32768, 28672, 65536, 13312, 24576,
	}
)

// wideShape is one of the deployments: all spread over zones, the first three keep to nodes of their own, the next three
// spread over nodes too.
func wideShape(i, replicas int) *appsv1.Deployment {
	name := fmt.Sprintf("wide-%d", i)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(replicas)), Selector: selector,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: selector.MatchLabels},
				Spec:       podSpec(fmt.Sprintf("%dm", wideCPU[i]), fmt.Sprintf("%dMi", wideMiB[i])),
			},
		},
	}
	spec := &d.Spec.Template.Spec
	keys := []string{corev1.LabelTopologyZone}
	if i >= 3 && i < 6 {
		keys = append(keys, corev1.LabelHostname)
	}
	if i < 3 {
		spec.Affinity = apart(name)
	}
	for _, key := range keys {
		spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
		})
	}
	return d
}

// share is how many of n replicas the deployment gets.
func share(i, n int) int {
	count := n / len(wideCPU)
	if i < n%len(wideCPU) {
		count++
	}
	return count
}

// widely measures a thousand pods of many shapes that come at once, and what is left of their nodes when a third goes.
func (b *bench) widely(ctx context.Context) error {
	s, err := b.open(ctx, wideBoot)
	if err != nil {
		return err
	}
	defer s.close()
	watching, end := context.WithCancel(ctx)
	defer end()
	events, err := s.follow(watching, &karpv1.NodeClaim{}, &corev1.Node{}, &corev1.Pod{})
	if err != nil {
		return err
	}
	p := &progress{
		pods: map[string]bool{}, waiting: map[string]bool{}, claims: map[string]bool{}, launched: map[string]bool{}, ready: map[string]bool{}, bound: map[string]bool{},
		joined: map[string]time.Time{}, up: map[string]time.Time{}, free: map[string]time.Time{}, begun: map[string]time.Time{},
	}
	if err := b.wide(ctx, s, events, p); err != nil || !b.wants(barSettle) {
		return err
	}
	return b.settle(ctx, s, events, p)
}

func (b *bench) wide(ctx context.Context, s *site, events <-chan seen, p *progress) error {
	n := b.sized(widePods)
	before, err := cpuTime(s.Pids()["controller"])
	if err != nil {
		return err
	}
	others := s.computed()
	began := time.Now()
	for i := range wideCPU {
		if err := s.Client.Create(ctx, wideShape(i, share(i, n))); err != nil {
			return fmt.Errorf("creating a deployment: %w", err)
		}
	}
	patience := time.After(widePatience)
	for len(p.bound) < n {
		select {
		case e := <-events:
			p.note(e)
		case <-patience:
			return fmt.Errorf("%d of %d pods are bound after %v", len(p.bound), n, widePatience)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	after, err := cpuTime(s.Pids()["controller"])
	if err != nil {
		return err
	}
	now, most, err := resident(s.Pids()["controller"])
	if err != nil {
		return err
	}
	price, err := s.price(ctx)
	if err != nil {
		return err
	}
	since := func(t time.Time) float64 { return t.Sub(began).Seconds() }
	b.note("%s: pods made from %.1f to %.1f s, found unschedulable (%d) from %.1f to %.1f s", barWide,
		since(p.firstPod), since(p.lastPod), len(p.waiting), since(p.firstWaiting), since(p.lastWaiting))
	b.note("%s: claims from %.1f to %.1f s, the last instance at %.1f s, nodes ready from %.1f to %.1f s, the last pod at %.1f s", barWide,
		since(p.firstClaim), since(p.lastClaim), since(p.lastLaunch), since(p.firstReady), since(p.lastReady), since(p.lastBound))
	b.note("%s: of the nodes, %s", barWide, p.stages())
	b.note("%s: %d claims, $%.2f/h; the controller took %.1f s of CPU and has %.0f MB resident, %.0f at most", barWide, len(p.claims), price, (after - before).Seconds(), now, most)
	b.note("%s: CPU of the others: %s", barWide, s.computed().since(others))
	if b.wants(barWide) {
		b.say(figure{barWide, "s", since(p.lastBound), wideSeconds}, "%d pods of %d shapes bound, machines up in %v", n, len(wideCPU), wideBoot)
	}
	return nil
}

// settle takes pods away and waits until nothing changes any more.
func (b *bench) settle(ctx context.Context, s *site, events <-chan seen, p *progress) error {
	n := b.sized(settlePods)
	nodes := len(p.claims)
	price, err := s.price(ctx)
	if err != nil {
		return err
	}
	if err := s.changePool(ctx, func(pool *karpv1.NodePool) {
		pool.Spec.Disruption.ConsolidateAfter = karpv1.NewNillableDuration(0)
		pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
	}); err != nil {
		return err
	}
	began := time.Now()
	p.changed = began
	for i := range wideCPU {
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, share(i, n)))
		if err := s.Client.Patch(ctx, wideShape(i, 0), patch); err != nil {
			return fmt.Errorf("scaling a deployment: %w", err)
		}
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for time.Since(p.changed) < settleQuiet {
		if time.Since(began) > widePatience {
			return errors.New("it does not settle")
		}
		select {
		case e := <-events:
			p.note(e)
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	left, err := s.price(ctx)
	if err != nil {
		return err
	}
	b.note("%s: %d claims came and %d went; $%.2f/h became $%.2f/h; %d pods were bound once more", barSettle, p.came-nodes, p.gone, price, left, p.rebound)
	took := p.changed.Sub(began).Seconds()
	if p.gone == 0 {
		b.note("%s: no node went at all", barSettle)
		took = widePatience.Seconds()
	}
	b.say(figure{barSettle, "s", took, settleSeconds}, "%d pods scaled to %d, %d nodes to %d", b.sized(widePods), n, nodes, len(p.claims))
	return nil
}

// price is what the nodes of pools cost an hour, by the price list of the pocket AWS.
func (s *site) price(ctx context.Context) (float64, error) {
	all, err := catalog.Load()
	if err != nil {
		return 0, err
	}
	table, err := all.Region("us-west-2")
	if err != nil {
		return 0, err
	}
	var nodes corev1.NodeList
	if err := s.Client.List(ctx, &nodes, client.HasLabels{karpv1.NodePoolLabelKey}); err != nil {
		return 0, fmt.Errorf("listing nodes: %w", err)
	}
	sum := 0.0
	for i := range nodes.Items {
		labels := nodes.Items[i].Labels
		offer, _ := table.Offer(labels[corev1.LabelInstanceTypeStable])
		if labels[karpv1.CapacityTypeLabelKey] == karpv1.CapacityTypeSpot {
			sum += offer.Spot
		} else {
			sum += offer.OnDemand
		}
	}
	return sum, nil
}

// progress is what a watch has shown of claims, nodes and pods, and when.
type progress struct {
	pods, waiting, claims, launched, ready, bound map[string]bool
	// joined, up, free and begun are when nodes were first seen: at all, ready, without a taint, with Karpenter's word that they are.
	joined, up, free, begun map[string]time.Time
	came, gone, rebound     int

	firstPod, lastPod, firstWaiting, lastWaiting, firstClaim, lastClaim, lastLaunch, firstReady, lastReady, lastBound time.Time
	// changed is when a claim came or went or a workload's pod was bound or went.
	changed time.Time
}

func (p *progress) note(e seen) {
	switch obj := e.obj.(type) {
	case *karpv1.NodeClaim:
		p.noteClaim(obj, e)
	case *corev1.Node:
		if obj.Labels[karpv1.NodePoolLabelKey] != "" {
			p.noteNode(obj, e)
		}
	case *corev1.Pod:
		if obj.Namespace == metav1.NamespaceDefault {
			p.notePod(obj, e)
		}
	}
}

func (p *progress) noteNode(node *corev1.Node, e seen) {
	first := func(set map[string]time.Time, is bool) {
		if _, known := set[node.Name]; is && !known {
			set[node.Name] = e.at
		}
	}
	first(p.joined, true)
	first(p.up, isReady(node))
	first(p.free, len(node.Spec.Taints) == 0)
	first(p.begun, node.Labels[karpv1.NodeInitializedLabelKey] != "")
	if isReady(node) {
		stamp(p.ready, node.Name, &p.firstReady, &p.lastReady, e.at)
	}
}

// stages says how long nodes took from one stage to the next.
func (p *progress) stages() string {
	between := func(from, to map[string]time.Time) string {
		var all []float64
		for name, at := range to {
			all = append(all, at.Sub(from[name]).Seconds())
		}
		slices.Sort(all)
		if len(all) == 0 {
			return "never"
		}
		return fmt.Sprintf("%.1f s (nine of ten within %.1f)", all[len(all)/2], all[len(all)*9/10])
	}
	return fmt.Sprintf("from joining to ready %s, to having no taint %s, to initialized %s", between(p.joined, p.up), between(p.joined, p.free), between(p.joined, p.begun))
}

func (p *progress) noteClaim(claim *karpv1.NodeClaim, e seen) {
	if e.event == watch.Deleted {
		delete(p.claims, claim.Name)
		p.gone++
		p.changed = e.at
		return
	}
	if stamp(p.claims, claim.Name, &p.firstClaim, &p.lastClaim, e.at) {
		p.came++
		p.changed = e.at
	}
	if claim.StatusConditions().IsTrue(karpv1.ConditionLaunched) {
		stamp(p.launched, claim.Name, new(time.Time), &p.lastLaunch, e.at)
	}
}

func (p *progress) notePod(pod *corev1.Pod, e seen) {
	if e.event == watch.Deleted {
		delete(p.bound, pod.Name)
		p.changed = e.at
		return
	}
	stamp(p.pods, pod.Name, &p.firstPod, &p.lastPod, e.at)
	if pod.Spec.NodeName == "" && len(pod.Status.Conditions) > 0 {
		stamp(p.waiting, pod.Name, &p.firstWaiting, &p.lastWaiting, e.at)
	}
	if pod.Spec.NodeName != "" && !p.bound[pod.Name] && pod.DeletionTimestamp == nil {
		if p.gone > 0 {
			p.rebound++
		}
		stamp(p.bound, pod.Name, new(time.Time), &p.lastBound, e.at)
		p.changed = e.at
	}
}

// stamp notes a name the first time that it is seen.
func stamp(set map[string]bool, name string, first, last *time.Time, at time.Time) bool {
	if set[name] {
		return false
	}
	if len(set) == 0 {
		*first = at
	}
	set[name], *last = true, at
	return true
}

func isReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
