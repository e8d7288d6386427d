package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/test/workloads"
)

// watched is what watches have shown of claims, nodes and pods since the cluster's start.
type watched struct {
	prices func(instanceType string) float64

	mu     sync.Mutex
	claims map[string]*claimSeen
	// nodes are those of pools, with whether they have the taint of a disruption.
	nodes map[string]bool
	pods  map[types.UID]*podSeen
	// plans says for which claim a pod was planned last, by its short key.
	plans map[string]*claimSeen

	// What follows counts from the start of a phase.
	firstPod, lastPod                       time.Time
	made, removed, disrupted, bound, launch int
	evicted                                 map[string]int // by Deployment
	evictions                               int
	peakNodes                               int
	peakPrice                               float64
	// changed is when a claim was last made or deleted, a node tainted, or a pod bound; ready is when a pod last became ready.
	changed, ready time.Time
}

type claimSeen struct {
	name, node                string
	price                     float64
	launched, up, going, gone bool
}

type podSeen struct {
	app, node                   string
	ready, going, gone, evicted bool
	// boundNow says that it was bound in this phase.
	boundNow bool
}

func newWatched(prices func(string) float64) *watched {
	w := &watched{prices: prices, claims: map[string]*claimSeen{}, nodes: map[string]bool{}, pods: map[types.UID]*podSeen{}, plans: map[string]*claimSeen{}}
	w.begin(time.Now())
	return w
}

// run takes events until ctx ends.
func (w *watched) run(ctx context.Context, events <-chan seen) {
	for {
		select {
		case e := <-events:
			w.note(e)
		case <-ctx.Done():
			return
		}
	}
}

// begin starts to count anew.
func (w *watched) begin(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.firstPod, w.lastPod, w.changed, w.ready = time.Time{}, time.Time{}, at, at
	w.made, w.removed, w.disrupted, w.bound, w.launch, w.evictions = 0, 0, 0, 0, 0, 0
	w.evicted = map[string]int{}
	for _, p := range w.pods {
		p.boundNow = false
	}
	w.peakNodes, w.peakPrice = w.fleet()
}

func (w *watched) note(e seen) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch obj := e.obj.(type) {
	case *karpv1.NodeClaim:
		w.noteClaim(obj, e)
	case *corev1.Node:
		if obj.Labels[karpv1.NodePoolLabelKey] != "" {
			w.noteNode(obj, e)
		}
	case *corev1.Pod:
		if obj.Namespace == metav1.NamespaceDefault {
			w.notePod(obj, e)
		}
	}
}

func (w *watched) noteClaim(claim *karpv1.NodeClaim, e seen) {
	c := w.claims[claim.Name]
	if c == nil {
		c = &claimSeen{name: claim.Name}
		w.claims[claim.Name] = c
		w.made++
		w.changed = e.at
		// Watches show claims in the order in which they were made, so the last one that names a pod is the newest.
		for _, key := range strings.Split(claim.Annotations[karpv1.PlannedPodsAnnotationKey], ",") {
			w.plans[key] = c
		}
	}
	if claim.Status.NodeName != "" {
		c.node = claim.Status.NodeName
	}
	c.up = claim.StatusConditions().IsTrue(karpv1.ConditionInitialized)
	if claim.DeletionTimestamp != nil && !c.going {
		c.going = true
		w.changed = e.at
	}
	if e.event == watch.Deleted {
		c.gone = true
		w.removed++
		w.changed = e.at
		return
	}
	if claim.Status.ProviderID != "" && !c.launched {
		c.launched = true
		c.price = w.prices(claim.Labels[corev1.LabelInstanceTypeStable])
		w.launch++
		nodes, price := w.fleet()
		w.peakNodes, w.peakPrice = max(w.peakNodes, nodes), max(w.peakPrice, price)
	}
}

func (w *watched) noteNode(node *corev1.Node, e seen) {
	if e.event == watch.Deleted {
		delete(w.nodes, node.Name)
		return
	}
	tainted := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey })
	if tainted && !w.nodes[node.Name] {
		w.disrupted++
		w.changed = e.at
	}
	w.nodes[node.Name] = tainted
}

func (w *watched) notePod(pod *corev1.Pod, e seen) {
	p := w.pods[pod.UID]
	if p == nil {
		p = &podSeen{app: pod.Labels[workloads.Label]}
		w.pods[pod.UID] = p
		if w.firstPod.IsZero() {
			w.firstPod = e.at
		}
		w.lastPod = e.at
	}
	if pod.Spec.NodeName != "" && p.node == "" {
		p.node, p.boundNow = pod.Spec.NodeName, true
		w.bound++
		w.changed = e.at
	}
	ready := false
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch {
		case c.Type == corev1.PodReady:
			ready = true
		case c.Type == corev1.DisruptionTarget && c.Reason == evictedReason && !p.evicted:
			p.evicted = true
			w.evictions++
			w.evicted[p.app]++
		}
	}
	if ready && !p.ready {
		w.ready = e.at
	}
	p.ready, p.going, p.gone = ready, pod.DeletionTimestamp != nil, e.event == watch.Deleted
}

// evictedReason is what the API server says of a pod that was evicted through it.
const evictedReason = "EvictionByEvictionAPI"

// fleet is how many instances there are, and what they cost an hour.
func (w *watched) fleet() (nodes int, price float64) {
	for _, c := range w.claims {
		if c.launched && !c.gone {
			nodes++
			price += c.price
		}
	}
	return nodes, price
}

// tally is the cluster at one moment.
type tally struct {
	pods, bound, ready      map[string]int // by Deployment, without those that are being deleted
	allPods, allBound       int
	nodes, instances        int
	inFlight                int
	price                   float64
	evictions, made         int
	changed, becameReady    time.Time
	firstPod, lastPod       time.Time
	removed, disrupted      int
	peakNodes, bindings     int
	peakPrice               float64
	again                   map[string]int
	asPlanned, notAsPlanned int
	// alike are pods on nodes that were made for a pod of their Deployment, each of which counts once.
	alike int
}

// look reads what has been seen.
func (w *watched) look() tally {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := tally{
		pods: map[string]int{}, bound: map[string]int{}, ready: map[string]int{}, again: map[string]int{}, nodes: len(w.nodes), evictions: w.evictions, made: w.made,
		changed: w.changed, becameReady: w.ready, firstPod: w.firstPod, lastPod: w.lastPod, removed: w.removed, disrupted: w.disrupted,
		peakNodes: w.peakNodes, peakPrice: w.peakPrice, bindings: w.bound,
	}
	t.instances, t.price = w.fleet()
	for app, n := range w.evicted {
		t.again[app] = n
	}
	for _, c := range w.claims {
		if !c.gone && !c.going && !c.up {
			t.inFlight++
		}
	}
	w.compare(&t)
	for _, p := range w.pods {
		if p.going || p.gone {
			continue
		}
		t.pods[p.app]++
		t.allPods++
		if p.node != "" {
			t.bound[p.app]++
			t.allBound++
		}
		if p.ready {
			t.ready[p.app]++
		}
	}
	return t
}

// compare holds where pods were bound against where they were planned.
func (w *watched) compare(t *tally) {
	type place struct{ app, node string }
	planned, is := map[place]int{}, map[place]int{}
	for uid, p := range w.pods {
		c := w.plans[podKey(uid)]
		if !p.boundNow || c == nil {
			continue
		}
		planned[place{p.app, c.node}]++
		is[place{p.app, p.node}]++
		if c.node == p.node {
			t.asPlanned++
		} else {
			t.notAsPlanned++
		}
	}
	for at, n := range is {
		t.alike += min(n, planned[at])
	}
}

// podKey is how claims name the pods that they were made for.
func podKey(uid types.UID) string {
	sum := sha256.Sum256([]byte(uid))
	return hex.EncodeToString(sum[:5])
}

// has is whether the Deployments have exactly so many pods, of which as many are counted.
func (t *tally) has(w *workloads.Workload, s workloads.Stage, counted map[string]int) bool {
	for i := range w.Shapes {
		name := w.Shapes[i].Name
		if t.pods[name] != s.Replicas[i] || counted[name] != s.Replicas[i] {
			return false
		}
	}
	return true
}
