package operator

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/meter"
	"karpenter/internal/state"
)

// nodeGauges shows nodes, what runs on them, and how full the cluster is (O12–O14).
type nodeGauges struct {
	set  *meter.Set
	view func() *state.View
	now  func() time.Time

	last *state.View
	// shown has the nodes that have series, as they were when they got them.
	shown map[string]shownNode
}

type shownNode struct {
	node        *state.Node
	requests    corev1.ResourceList
	allocatable corev1.ResourceList
}

var nodeMetrics = []meter.Name{
	meter.NodesAllocatable, meter.NodesTotalPodRequests, meter.NodesTotalPodLimits, meter.NodesTotalDaemonRequests,
	meter.NodesTotalDaemonLimits, meter.NodesSystemOverhead, meter.NodesCurrentLifetime,
}

// refresh shows what has changed since the last time; ages always do.
func (g *nodeGauges) refresh() {
	view := g.view()
	if g.shown == nil {
		g.shown = map[string]shownNode{}
	}
	seen := map[string]bool{}
	for _, n := range view.Nodes {
		if n.Object == nil {
			continue
		}
		name := n.Object.Name
		seen[name] = true
		if g.shown[name].node != n {
			g.drop(name)
			g.shown[name] = g.show(n)
		}
		g.set.Set(meter.NodesCurrentLifetime, g.now().Sub(n.Object.CreationTimestamp.Time).Seconds(), nodeLabels(n)...)
	}
	for name := range g.shown {
		if !seen[name] {
			g.drop(name)
			delete(g.shown, name)
		}
	}
	if view != g.last {
		g.utilization()
	}
	g.last = view
}

func (g *nodeGauges) drop(node string) {
	for _, name := range nodeMetrics {
		g.set.Drop(name, "node_name", node)
	}
}

func nodeLabels(n *state.Node) []string {
	managed := strconv.FormatBool(n.Object.Labels[karpv1.NodePoolLabelKey] != "")
	return meter.NodeLabels(n.Object.Labels, "node_name", n.Object.Name, "phase", string(n.Object.Status.Phase), "managed", managed)
}

func (g *nodeGauges) show(n *state.Node) shownNode {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	daemonRequests, daemonLimits := corev1.ResourceList{}, corev1.ResourceList{}
	for _, pod := range n.Pods {
		r, l := podTotals(&pod.Spec)
		plus(requests, r)
		plus(limits, l)
		if ofDaemonSet(pod) {
			plus(daemonRequests, r)
			plus(daemonLimits, l)
		}
	}
	overhead := n.Object.Status.Capacity.DeepCopy()
	for name, q := range n.Object.Status.Allocatable {
		if total, ok := overhead[name]; ok {
			total.Sub(q)
			overhead[name] = total
		}
	}
	labels := nodeLabels(n)
	for _, gauge := range []struct {
		name   meter.Name
		amount corev1.ResourceList
	}{
		{meter.NodesAllocatable, n.Object.Status.Allocatable},
		{meter.NodesTotalPodRequests, requests},
		{meter.NodesTotalPodLimits, limits},
		{meter.NodesTotalDaemonRequests, daemonRequests},
		{meter.NodesTotalDaemonLimits, daemonLimits},
		{meter.NodesSystemOverhead, overhead},
	} {
		for resource, q := range gauge.amount {
			g.set.Set(gauge.name, q.AsApproximateFloat64(), append(labels[:len(labels):len(labels)], "resource_type", meter.ResourceType(string(resource)))...)
		}
	}
	return shownNode{node: n, requests: requests, allocatable: n.Object.Status.Allocatable}
}

// utilization is what pods request of what nodes offer.
func (g *nodeGauges) utilization() {
	requested, offered := corev1.ResourceList{}, corev1.ResourceList{}
	for _, n := range g.shown {
		plus(requested, n.requests)
		plus(offered, n.allocatable)
	}
	g.set.Drop(meter.ClusterUtilization)
	for resource, q := range offered {
		if total := q.AsApproximateFloat64(); total > 0 {
			asked := requested[resource]
			g.set.Set(meter.ClusterUtilization, 100*asked.AsApproximateFloat64()/total, "resource_type", meter.ResourceType(string(resource)))
		}
	}
}

func ofDaemonSet(pod *corev1.Pod) bool {
	for _, o := range pod.OwnerReferences {
		if o.Kind == "DaemonSet" {
			return true
		}
	}
	return false
}

// podTotals is what a pod requests and its limits, as the scheduler counts: containers and sidecars run together, and each
// other init container runs with the sidecars before it.
func podTotals(spec *corev1.PodSpec) (requests, limits corev1.ResourceList) {
	sum := func(of func(*corev1.Container) corev1.ResourceList) corev1.ResourceList {
		total, starting, beside := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
		for i := range spec.Containers {
			plus(total, of(&spec.Containers[i]))
		}
		for i := range spec.InitContainers {
			c := &spec.InitContainers[i]
			if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
				plus(beside, of(c))
				atLeast(starting, beside)
				continue
			}
			alone := of(c).DeepCopy()
			if alone == nil {
				alone = corev1.ResourceList{}
			}
			plus(alone, beside)
			atLeast(starting, alone)
		}
		plus(total, beside)
		atLeast(total, starting)
		return total
	}
	requests = sum(func(c *corev1.Container) corev1.ResourceList { return c.Resources.Requests })
	limits = sum(func(c *corev1.Container) corev1.ResourceList { return c.Resources.Limits })
	plus(requests, spec.Overhead)
	return requests, limits
}

func plus(total, more corev1.ResourceList) {
	for name, q := range more {
		sum := total[name].DeepCopy()
		sum.Add(q)
		total[name] = sum
	}
}

func atLeast(total, least corev1.ResourceList) {
	for name, q := range least {
		if had, ok := total[name]; !ok || had.Cmp(q) < 0 {
			total[name] = q
		}
	}
}
