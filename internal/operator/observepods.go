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
	// nodes has the labels of nodes; early the pods that were seen before their node.
	nodes map[string]map[string]string
	early map[types.NamespacedName]*corev1.Pod
	// waiting has the pods that have not become ready since they were seen first, by name.
	waiting map[types.NamespacedName]waitingPod
}

type waitingPod struct {
	created        time.Time
	bound, started bool
}

func newPodGauges(set *meter.Set, now func() time.Time) *podGauges {
	return &podGauges{
		set: set, now: now, nodes: map[string]map[string]string{}, early: map[types.NamespacedName]*corev1.Pod{},
		waiting: map[types.NamespacedName]waitingPod{},
	}
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

func (g *podGauges) put(pod *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	node, known := g.nodes[pod.Spec.NodeName]
	if pod.Spec.NodeName != "" && !known {
		g.early[name] = pod
	} else {
		delete(g.early, name)
	}
	g.state(pod, node)
	g.follow(name, pod)
}

func (g *podGauges) state(pod *corev1.Pod, node map[string]string) {
	isReady, _ := ready(pod)
	pool := node[karpv1.NodePoolLabelKey]
	g.set.Drop(meter.PodsState, "name", pod.Name, "namespace", pod.Namespace)
	g.set.Set(meter.PodsState, 1, "name", pod.Name, "namespace", pod.Namespace, "owner", owner(pod), "node", pod.Spec.NodeName,
		"scheduled", strconv.FormatBool(pod.Spec.NodeName != ""), "nodepool", pool, "zone", node[corev1.LabelTopologyZone], "arch", node[corev1.LabelArchStable],
		"capacity_type", node[karpv1.CapacityTypeLabelKey], "instance_type", node[corev1.LabelInstanceTypeStable], "phase", string(pod.Status.Phase),
		"ready", strconv.FormatBool(isReady), "managed", strconv.FormatBool(pool != ""))
}

// follow keeps account of a pod until it is ready or has ended.
func (g *podGauges) follow(name types.NamespacedName, pod *corev1.Pod) {
	isReady, since := ready(pod)
	if isReady || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		if _, known := g.waiting[name]; known && isReady {
			g.set.Observe(meter.PodsStartupDuration, max(since.Sub(pod.CreationTimestamp.Time).Seconds(), 0))
		}
		delete(g.waiting, name)
		g.forget(name)
		return
	}
	g.waiting[name] = waitingPod{created: pod.CreationTimestamp.Time, bound: pod.Spec.NodeName != "", started: pod.Status.Phase == corev1.PodRunning}
	g.show(name)
}

func (g *podGauges) drop(pod *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	g.set.Drop(meter.PodsState, "name", pod.Name, "namespace", pod.Namespace)
	delete(g.waiting, name)
	delete(g.early, name)
	g.forget(name)
}

// refresh brings the times that pods have waited up to date, and shows the nodes that were not known.
func (g *podGauges) refresh() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for name := range g.waiting {
		g.show(name)
	}
	for name, pod := range g.early {
		if node, known := g.nodes[pod.Spec.NodeName]; known {
			g.state(pod, node)
			delete(g.early, name)
		}
	}
}

func (g *podGauges) show(name types.NamespacedName) {
	pod := g.waiting[name]
	waited := max(g.now().Sub(pod.created).Seconds(), 0)
	for _, gauge := range []struct {
		name meter.Name
		over bool
	}{{meter.PodsUnboundTime, pod.bound}, {meter.PodsUnstartedTime, pod.started}} {
		if gauge.over {
			g.set.Drop(gauge.name, "name", name.Name, "namespace", name.Namespace)
		} else {
			g.set.Set(gauge.name, waited, "name", name.Name, "namespace", name.Namespace)
		}
	}
}

func (g *podGauges) forget(name types.NamespacedName) {
	g.set.Drop(meter.PodsUnboundTime, "name", name.Name, "namespace", name.Namespace)
	g.set.Drop(meter.PodsUnstartedTime, "name", name.Name, "namespace", name.Namespace)
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
