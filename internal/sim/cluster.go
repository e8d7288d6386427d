package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	corehelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/cloud/simaws"
	"karpenter/internal/wait"
)

// How long the parts of a cluster take.
const (
	// readyAfter is how long after its registration a node is ready.
	readyAfter = 3 * time.Second
	// lookEvery is how often what is not ours looks at the cluster at most.
	lookEvery = 200 * time.Millisecond
)

// join has the kubelet of an instance register its node, which is ready a little later.
func (w *World) join(m simaws.Instance) error {
	ctx := context.Background()
	node := registration(&m)
	if err := w.kubelet.Create(ctx, node); err != nil {
		return fmt.Errorf("registering node %s: %w", m.NodeName, err)
	}
	w.pause(readyAfter)
	if err := w.kubelet.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
		return client.IgnoreNotFound(err)
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: metav1.NewTime(w.loop.now), LastHeartbeatTime: metav1.NewTime(w.loop.now)}}
	if err := w.kubelet.Status().Update(ctx, node); err != nil {
		return client.IgnoreNotFound(err)
	}
	// kube-controller-manager takes the taint away that the API server gives to new nodes.
	before := node.DeepCopy()
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
	return client.IgnoreNotFound(w.kubelet.Patch(ctx, node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
}

func registration(m *simaws.Instance) *corev1.Node {
	labels := maps.Clone(m.Node.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, map[string]string{
		corev1.LabelHostname: m.NodeName, corev1.LabelArchStable: map[string]string{"x86_64": "amd64", "arm64": "arm64"}[m.Arch], corev1.LabelOSStable: "linux",
		corev1.LabelInstanceTypeStable: m.Type, corev1.LabelTopologyZone: m.Zone, corev1.LabelTopologyRegion: m.Region,
	})
	pods := int64(m.Node.MaxPods)
	if pods == 0 {
		pods = 29
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewQuantity(int64(m.Info.VCPUs), resource.DecimalSI),
		corev1.ResourceMemory:           *resource.NewQuantity(int64(float64(m.Info.MemoryMiB)*0.95)<<20, resource.BinarySI),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(m.VolumeGiB<<30, resource.BinarySI),
		corev1.ResourcePods:             *resource.NewQuantity(pods, resource.DecimalSI),
	}
	allocatable := capacity.DeepCopy()
	for name, text := range m.Node.KubeReserved {
		if q, err := resource.ParseQuantity(text); err == nil {
			if left, ok := allocatable[corev1.ResourceName(name)]; ok {
				left.Sub(q)
				allocatable[corev1.ResourceName(name)] = left
			}
		}
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.NodeName, Labels: labels},
		Spec:       corev1.NodeSpec{ProviderID: m.ProviderID},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: allocatable,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "KubeletNotReady"}},
		},
	}
	for _, taint := range m.Node.Taints {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: corev1.TaintEffect(taint.Effect)})
	}
	return node
}

func (w *World) pause(d time.Duration) { wait.For(context.Background(), simClock{w.loop, nil}, d) }

// Start has the parts of the cluster that are not ours work: kube-scheduler, kubelets and the controllers of workloads.
func (w *World) Start() {
	for _, part := range []func() error{w.schedule, w.runPods, w.keepApps, w.housekeep} {
		w.loop.start(func() {
			for w.fatal == nil {
				seen, wanted := w.server.Version(), w.wanted
				if err := part(); err != nil {
					w.fatal = err
				}
				w.pause(lookEvery)
				w.loop.await(wait.Forever, func() bool { return w.server.Version() != seen || w.wanted != wanted })
			}
		})
	}
}

// housekeep does what kube-controller-manager does: objects whose owners are gone go, and budgets are counted.
func (w *World) housekeep() error {
	for more := true; more; {
		more = w.server.CollectOrphans()
	}
	w.server.SyncBudgets()
	return nil
}

// schedule binds the pods that wait, each to a node that can take it: which one is drawn.
func (w *World) schedule() error {
	ctx := context.Background()
	var pods corev1.PodList
	var nodes corev1.NodeList
	if err := w.scheduler.List(ctx, &pods); err != nil {
		return err
	}
	used := map[string]corev1.ResourceList{}
	var pending []*corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch {
		case pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil:
			pending = append(pending, pod)
		case pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed:
			use(used, pod.Spec.NodeName, pod)
		}
	}
	if len(pending) == 0 {
		return nil
	}
	if err := w.scheduler.List(ctx, &nodes); err != nil {
		return err
	}
	for _, pod := range pending {
		var can []string
		for i := range nodes.Items {
			if fits(pod, &nodes.Items[i], used[nodes.Items[i].Name]) {
				can = append(can, nodes.Items[i].Name)
			}
		}
		if len(can) == 0 {
			if err := w.refuse(ctx, pod); err != nil {
				return err
			}
			continue
		}
		node := can[w.draw.IntN(len(can))]
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
		if err := w.scheduler.SubResource("binding").Create(ctx, pod, binding); err != nil {
			return client.IgnoreNotFound(err)
		}
		use(used, node, pod)
	}
	return nil
}

func use(used map[string]corev1.ResourceList, node string, pod *corev1.Pod) {
	if used[node] == nil {
		used[node] = corev1.ResourceList{}
	}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	requests[corev1.ResourcePods] = resource.MustParse("1")
	for name, q := range requests {
		sum := used[node][name]
		sum.Add(q)
		used[node][name] = sum
	}
}

// fits says whether kube-scheduler would accept a node for a pod, as far as its resources, taints and required node affinity go.
func fits(pod *corev1.Pod, node *corev1.Node, used corev1.ResourceList) bool {
	if node.Spec.Unschedulable || node.DeletionTimestamp != nil {
		return false
	}
	for i := range node.Status.Conditions {
		if c := node.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return false
		}
	}
	if _, untolerated := corehelper.FindMatchingUntoleratedTaint(discard, node.Spec.Taints, pod.Spec.Tolerations, func(t *corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoSchedule || t.Effect == corev1.TaintEffectNoExecute
	}, false); untolerated {
		return false
	}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !ok {
		return false
	}
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	requests[corev1.ResourcePods] = resource.MustParse("1")
	for name, q := range requests {
		left := node.Status.Allocatable[name]
		left.Sub(used[name])
		if left.Cmp(q) < 0 {
			return false
		}
	}
	return true
}

// refuse says on a pod that no node can take it.
func (w *World) refuse(ctx context.Context, pod *corev1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return nil
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(w.loop.now),
	})
	return client.IgnoreNotFound(w.scheduler.Status().Update(ctx, pod))
}

// runPods does what kubelets do: pods that are bound run, and those that are deleted end.
func (w *World) runPods() error {
	ctx := context.Background()
	var pods corev1.PodList
	if err := w.kubelet.List(ctx, &pods); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		switch {
		case pod.Spec.NodeName == "":
		case pod.DeletionTimestamp != nil:
			zero := int64(0) // it heeds the first signal
			if err := w.kubelet.Delete(ctx, pod, &client.DeleteOptions{GracePeriodSeconds: &zero}); client.IgnoreNotFound(err) != nil {
				return err
			}
		case pod.Status.Phase == corev1.PodPending:
			pod.Status.Phase = corev1.PodRunning
			now := metav1.NewTime(w.loop.now)
			pod.Status.StartTime = &now
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now})
			if err := w.kubelet.Status().Update(ctx, pod); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	return nil
}
