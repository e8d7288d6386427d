package operator

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/meter"
	"karpenter/internal/state"
)

// nodeGauges shows nodes, what runs on them, and how full the cluster is (O12–O14).
type nodeGauges struct {
	view func() *state.View
	set  *meter.Set
	now  func() time.Time

	mu   sync.Mutex
	last *state.View
	// sums has what was added up for the nodes of that view, by their name.
	sums map[string]*nodeSums
}

// nodeSums is what a node has and what its pods ask for.
type nodeSums struct {
	of      *state.Node
	labels  []string
	amounts []nodeAmount
}

type nodeAmount struct {
	metric   meter.Name
	resource string
	v        float64
}

var nodeMetrics = []meter.Name{
	meter.NodesAllocatable, meter.NodesTotalPodRequests, meter.NodesTotalPodLimits, meter.NodesTotalDaemonRequests, meter.NodesTotalDaemonLimits, meter.NodesSystemOverhead,
}

// show has the metrics made from now on, whenever somebody looks.
func (g *nodeGauges) show() {
	set := g.set
	for _, name := range nodeMetrics {
		set.Live(name, func(show meter.Show) {
			var labels []string
			for _, sums := range g.current() {
				labels = append(append(labels[:0], sums.labels...), "resource_type", "")
				for _, a := range sums.amounts {
					if a.metric == name {
						labels[len(labels)-1] = a.resource
						show(a.v, labels...)
					}
				}
			}
		})
	}
	set.Live(meter.NodesCurrentLifetime, func(show meter.Show) {
		now := g.now()
		for _, sums := range g.current() {
			show(now.Sub(sums.of.Object.CreationTimestamp.Time).Seconds(), sums.labels...)
		}
	})
	set.Live(meter.ClusterUtilization, g.utilization)
}

// current is what the nodes that have joined have, and what runs on them. Only what has changed since the last look is added up.
func (g *nodeGauges) current() []*nodeSums {
	view := g.view()
	g.mu.Lock()
	defer g.mu.Unlock()
	if view != g.last {
		sums := make(map[string]*nodeSums, len(view.Nodes))
		for _, n := range view.Nodes {
			if n.Object == nil {
				continue
			}
			if had := g.sums[n.Object.Name]; had != nil && had.of == n {
				sums[n.Object.Name] = had
			} else {
				sums[n.Object.Name] = &nodeSums{of: n, labels: slices.Clip(g.labels(n)), amounts: addUp(n)}
			}
		}
		g.last, g.sums = view, sums
	}
	return slices.Collect(maps.Values(g.sums))
}

func (g *nodeGauges) labels(n *state.Node) []string {
	managed := strconv.FormatBool(n.Object.Labels[karpv1.NodePoolLabelKey] != "")
	return g.set.NodeLabels(n.Object.Labels, "node_name", n.Object.Name, "phase", string(n.Object.Status.Phase), "managed", managed)
}

func addUp(n *state.Node) []nodeAmount {
	requests, limits := corev1.ResourceList{}, corev1.ResourceList{}
	daemonRequests, daemonLimits := corev1.ResourceList{}, corev1.ResourceList{}
	for _, pod := range n.Pods {
		if pod.Spec.NodeName == "" { // it is only expected here
			continue
		}
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
	var all []nodeAmount
	for i, list := range []corev1.ResourceList{n.Object.Status.Allocatable, requests, limits, daemonRequests, daemonLimits, overhead} {
		for resource, q := range list {
			all = append(all, nodeAmount{nodeMetrics[i], meter.ResourceType(string(resource)), q.AsApproximateFloat64()})
		}
	}
	return slices.Clip(all)
}

// utilization is what pods request of what nodes offer.
func (g *nodeGauges) utilization(show meter.Show) {
	requested, offered := map[string]float64{}, map[string]float64{}
	for _, sums := range g.current() {
		for _, a := range sums.amounts {
			switch a.metric {
			case meter.NodesTotalPodRequests:
				requested[a.resource] += a.v
			case meter.NodesAllocatable:
				offered[a.resource] += a.v
			}
		}
	}
	for resource, total := range offered {
		if total > 0 {
			show(100*requested[resource]/total, "resource_type", resource)
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
	if spec.Resources != nil { // what the pod says for all of its containers replaces what they add up to
		maps.Copy(requests, spec.Resources.Requests)
		maps.Copy(limits, spec.Resources.Limits)
	}
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
