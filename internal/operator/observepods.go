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
	"karpenter/internal/state"
)

// podGauges shows every pod (O16), how long those that have not started have waited (O18), and how long starting took (O17).
type podGauges struct {
	set *meter.Set
	now func() time.Time
	// mirror has all pods and nodes.
	mirror *state.Mirror

	mu sync.Mutex
	// waiting has the pods that have not become ready since they were seen first.
	waiting map[types.NamespacedName]*corev1.Pod
}

// show begins to show them, once this process leads.
func (g *podGauges) show() {
	g.set.Live(meter.PodsState, g.states)
	g.set.Live(meter.PodsUnboundTime, func(show meter.Show) {
		g.waits(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" }, func(pod *corev1.Pod, seconds float64) {
			show(seconds, "name", pod.Name, "namespace", pod.Namespace, "dynamic_resources", strconv.FormatBool(len(pod.Spec.ResourceClaims) > 0))
		})
	})
	g.set.Live(meter.PodsUnstartedTime, func(show meter.Show) {
		g.waits(func(pod *corev1.Pod) bool { return pod.Status.Phase != corev1.PodRunning }, func(pod *corev1.Pod, seconds float64) {
			show(seconds, "name", pod.Name, "namespace", pod.Namespace)
		})
	})
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

// put keeps account of a pod's start until it is ready or has ended.
func (g *podGauges) put(pod *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	isReady, since := ready(pod)
	if !isReady && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		g.waiting[name] = pod
		return
	}
	if g.waiting[name] != nil && isReady {
		g.set.Observe(meter.PodsStartupDuration, max(since.Sub(pod.CreationTimestamp.Time).Seconds(), 0))
	}
	delete(g.waiting, name)
}

func (g *podGauges) drop(pod *corev1.Pod) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.waiting, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
}

func (g *podGauges) states(show meter.Show) {
	labels := map[string]map[string]string{}
	nodes, _ := g.mirror.All(&corev1.Node{})
	for _, node := range nodes {
		labels[node.GetName()] = node.GetLabels()
	}
	pods, _ := g.mirror.All(&corev1.Pod{})
	for _, o := range pods {
		pod, ok := o.(*corev1.Pod)
		if !ok {
			continue
		}
		node := labels[pod.Spec.NodeName]
		isReady, _ := ready(pod)
		pool := node[karpv1.NodePoolLabelKey]
		show(1, "name", pod.Name, "namespace", pod.Namespace, "owner", owner(pod), "node", pod.Spec.NodeName,
			"scheduled", strconv.FormatBool(pod.Spec.NodeName != ""), "nodepool", pool, "zone", node[corev1.LabelTopologyZone], "arch", node[corev1.LabelArchStable],
			"capacity_type", node[karpv1.CapacityTypeLabelKey], "instance_type", node[corev1.LabelInstanceTypeStable], "phase", string(pod.Status.Phase),
			"ready", strconv.FormatBool(isReady), "managed", strconv.FormatBool(pool != ""))
	}
}

// waits shows for how long pods have existed that still wait for something.
func (g *podGauges) waits(still func(*corev1.Pod) bool, show func(pod *corev1.Pod, seconds float64)) {
	g.mu.Lock()
	var all []*corev1.Pod
	for _, pod := range g.waiting {
		if still(pod) {
			all = append(all, pod)
		}
	}
	g.mu.Unlock()
	now := g.now()
	for _, pod := range all {
		show(pod, max(now.Sub(pod.CreationTimestamp.Time).Seconds(), 0))
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
