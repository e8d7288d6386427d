package operator

import (
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/meter"
)

// podGauges shows every pod (O16), how long those that have not started have waited (O18), and how long starting took (O17).
type podGauges struct {
	set *meter.Set
	now func() time.Time

	mu sync.Mutex
	// nodes has the labels of nodes, pods all pods.
	nodes map[string]map[string]string
	pods  map[types.NamespacedName]*corev1.Pod
	// waiting has the pods that have not become ready since they were seen first.
	waiting map[types.NamespacedName]bool
}

func newPodGauges(set *meter.Set, now func() time.Time) *podGauges {
	g := &podGauges{
		set: set, now: now, nodes: map[string]map[string]string{}, pods: map[types.NamespacedName]*corev1.Pod{}, waiting: map[types.NamespacedName]bool{},
	}
	set.Live(meter.PodsState, g.states)
	set.Live(meter.PodsUnboundTime, func(show meter.Show) {
		g.waits(show, func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" })
	})
	set.Live(meter.PodsUnstartedTime, func(show meter.Show) {
		g.waits(show, func(pod *corev1.Pod) bool { return pod.Status.Phase != corev1.PodRunning })
	})
	return g
}

// nodeHandler takes note of nodes' labels, which metrics of their pods show.
func (g *podGauges) nodeHandler() toolscache.ResourceEventHandler {
	put := func(obj any) {
		if node, ok := obj.(*corev1.Node); ok {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.nodes[node.Name] = node.Labels
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: put, UpdateFunc: func(_, obj any) { put(obj) },
		DeleteFunc: func(obj any) {
			if node, ok := lastKnown(obj).(*corev1.Node); ok {
				g.mu.Lock()
				defer g.mu.Unlock()
				delete(g.nodes, node.Name)
			}
		},
	}
}

func (g *podGauges) handler() toolscache.ResourceEventHandler {
	put := func(obj any) {
		if pod, ok := obj.(*corev1.Pod); ok {
			g.put(pod)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: put, UpdateFunc: func(_, obj any) { put(obj) },
		DeleteFunc: func(obj any) {
			if pod, ok := lastKnown(obj).(*corev1.Pod); ok {
				g.drop(pod)
			}
		},
	}
}

// put keeps account of a pod until it is gone, and of its start until it is ready or has ended.
func (g *podGauges) put(pod *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	g.pods[name] = pod
	isReady, since := ready(pod)
	if !isReady && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		g.waiting[name] = true
		return
	}
	if g.waiting[name] && isReady {
		g.set.Observe(meter.PodsStartupDuration, max(since.Sub(pod.CreationTimestamp.Time).Seconds(), 0))
	}
	delete(g.waiting, name)
}

func (g *podGauges) drop(pod *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	delete(g.pods, name)
	delete(g.waiting, name)
}

func (g *podGauges) states(show meter.Show) {
	type placed struct {
		pod  *corev1.Pod
		node map[string]string
	}
	g.mu.Lock()
	all := make([]placed, 0, len(g.pods))
	for _, pod := range g.pods {
		all = append(all, placed{pod, g.nodes[pod.Spec.NodeName]})
	}
	g.mu.Unlock() // whoever is shown them may take his time
	for _, p := range all {
		pod, node := p.pod, p.node
		isReady, _ := ready(pod)
		pool := node[karpv1.NodePoolLabelKey]
		show(1, "name", pod.Name, "namespace", pod.Namespace, "owner", owner(pod), "node", pod.Spec.NodeName,
			"scheduled", strconv.FormatBool(pod.Spec.NodeName != ""), "nodepool", pool, "zone", node[corev1.LabelTopologyZone], "arch", node[corev1.LabelArchStable],
			"capacity_type", node[karpv1.CapacityTypeLabelKey], "instance_type", node[corev1.LabelInstanceTypeStable], "phase", string(pod.Status.Phase),
			"ready", strconv.FormatBool(isReady), "managed", strconv.FormatBool(pool != ""))
	}
}

// waits shows for how long pods have existed that still wait for something.
func (g *podGauges) waits(show meter.Show, still func(*corev1.Pod) bool) {
	g.mu.Lock()
	var all []*corev1.Pod
	for name := range g.waiting {
		if pod := g.pods[name]; still(pod) {
			all = append(all, pod)
		}
	}
	g.mu.Unlock()
	now := g.now()
	for _, pod := range all {
		show(max(now.Sub(pod.CreationTimestamp.Time).Seconds(), 0), "name", pod.Name, "namespace", pod.Namespace)
	}
}

func ready(pod *corev1.Pod) (bool, time.Time) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
		}
	}
	return false, time.Time{}
}

// owner is the controller of a pod in the form of a path.
func owner(pod *corev1.Pod) string {
	for _, o := range pod.OwnerReferences {
		if o.Controller != nil && *o.Controller {
			return "/apis/" + o.APIVersion + "/namespaces/" + pod.Namespace + "/" + o.Kind + "/" + o.Name
		}
	}
	return ""
}
