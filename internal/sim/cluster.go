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
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/cloud/simaws"
	"karpenter/internal/sim/filters"
	"karpenter/internal/wait"
)

// How long the parts of a cluster take.
const (
	// readyAfter is how long after its registration a node is ready.
	readyAfter = 3 * time.Second
	// lookEvery is how often what is not ours looks at the cluster at most.
	lookEvery = 200 * time.Millisecond
	// lookAnyway is how often they look although nothing has changed, and lostAfter how long a pod's node is gone before the pod is.
	lookAnyway = 20 * time.Second
	lostAfter  = 40 * time.Second
	// slowestEnd is how long pods take to end at most, if they may.
	slowestEnd = 20 * time.Second
)

// join has the kubelet of an instance register its node, which is ready a little later.
func (w *World) join(m simaws.Instance) error {
	ctx := context.Background()
	node := registration(&m)
	delete(w.sick, node.Name) // was another instance's
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
			NodeInfo:   corev1.NodeSystemInfo{BootID: bootID(m)},
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
				seen, wanted := w.server.Revision(), w.wanted
				if err := part(); err != nil {
					w.fatal = err
				}
				w.pause(lookEvery)
				w.loop.await(lookAnyway, func() bool { return w.server.Revision() != seen || w.wanted != wanted || w.closed })
			}
		})
	}
}

// housekeep does what kube-controller-manager does: objects whose owners are gone go, pods whose nodes are gone go, and budgets are
// counted.
func (w *World) housekeep() error {
	for more := true; more; {
		more = w.server.CollectOrphans()
	}
	w.server.SyncBudgets()
	nodes := map[string]bool{"": true}
	w.server.Each(&corev1.Node{}, func(o client.Object) { nodes[o.GetName()] = true })
	defer func() { w.noteEmpty(nodes) }()
	any := false
	for name := range w.pods.on {
		any = any || !nodes[name]
	}
	if !any {
		clear(w.lost)
		return nil
	}
	var lost []*corev1.Pod
	w.server.Each(&corev1.Pod{}, func(o client.Object) {
		pod := o.(*corev1.Pod)
		if nodes[pod.Spec.NodeName] || pod.Namespace != "default" {
			delete(w.lost, pod.UID)
			return
		}
		if w.lost[pod.UID].IsZero() {
			w.lost[pod.UID] = w.loop.now
		}
		if w.loop.now.Sub(w.lost[pod.UID]) >= lostAfter {
			lost = append(lost, pod)
		}
	})
	for _, pod := range lost {
		zero := int64(0)
		if err := w.kubelet.Delete(context.Background(), pod.DeepCopy(), &client.DeleteOptions{GracePeriodSeconds: &zero}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// noteEmpty keeps in mind since when nodes have no pods.
func (w *World) noteEmpty(nodes map[string]bool) {
	for name := range nodes {
		if w.pods.on[name] > 0 {
			delete(w.empty, name)
		} else if w.empty[name].IsZero() {
			w.empty[name] = w.loop.now
		}
	}
}

// schedule binds the pods that wait, each to a node that can take it: which one is drawn.
func (w *World) schedule() error {
	ctx := context.Background()
	pending := inOrderOfLists(w.pods.waiting)
	if len(pending) == 0 {
		return nil
	}
	var nodes []*corev1.Node
	w.server.Each(&corev1.Node{}, func(o client.Object) { nodes = append(nodes, o.(*corev1.Node)) })
	nowhere := map[string]bool{} // workloads whose pods, which are alike, have no node that can take one: binding others makes no room
	var others []*corev1.Pod
	for _, pod := range pending {
		var can []string
		asks := w.pods.needs[pod.UID]
		app := pod.Labels["app"]
		allowed := func(*corev1.Node) bool { return true }
		if w.pods.choosy > 0 {
			if others == nil {
				others = w.withNodes()
			}
			allowed = filters.Neighbours(pod, nodes, others)
		}
		for _, node := range nodes {
			if !nowhere[app] && filters.Fits(pod, asks, node, w.pods.used[node.Name]) && allowed(node) {
				can = append(can, node.Name)
			}
		}
		if len(can) == 0 {
			nowhere[app] = app != ""
			if err := w.refuse(ctx, pod); err != nil {
				return err
			}
			continue
		}
		node := can[w.draw.IntN(len(can))]
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
		if err := w.scheduler.SubResource("binding").Create(ctx, pod.DeepCopy(), binding); err != nil {
			return client.IgnoreNotFound(err)
		}
		if others != nil {
			pod = pod.DeepCopy()
			pod.Spec.NodeName = node
			others = append(others, pod)
		}
	}
	return nil
}

// withNodes are the pods that have a node and have not ended.
func (w *World) withNodes() []*corev1.Pod {
	out := []*corev1.Pod{}
	w.server.Each(&corev1.Pod{}, func(o client.Object) {
		if pod := o.(*corev1.Pod); pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
			out = append(out, pod)
		}
	})
	return out
}

// tally is what is known of pods without looking at all of them, kept up with what is stored.
type tally struct {
	// waiting are those that need a node, todo those that a kubelet has to start or end.
	waiting, todo map[types.NamespacedName]*corev1.Pod
	// needs is what each takes of a node, used what those of a node take, and on how many a node has.
	needs map[types.UID]corev1.ResourceList
	used  map[string]corev1.ResourceList
	on    map[string]int
	// ends is when those that are being deleted end.
	ends map[types.UID]time.Time
	// stay is how many pods of a workload are not being deleted, and choosy how many pods have rules about others.
	stay   map[string]int
	choosy int
}

func newTally() tally {
	return tally{
		waiting: map[types.NamespacedName]*corev1.Pod{}, todo: map[types.NamespacedName]*corev1.Pod{},
		needs: map[types.UID]corev1.ResourceList{}, ends: map[types.UID]time.Time{}, used: map[string]corev1.ResourceList{}, on: map[string]int{}, stay: map[string]int{},
	}
}

// note keeps up with a write.
func (t *tally) note(old, now client.Object) {
	was, _ := old.(*corev1.Pod)
	is, _ := now.(*corev1.Pod)
	if was != nil {
		key := client.ObjectKeyFromObject(was)
		delete(t.waiting, key)
		delete(t.todo, key)
		t.count(was, -1)
		if is == nil || is.UID != was.UID {
			delete(t.needs, was.UID)
			delete(t.ends, was.UID)
		}
	}
	if is == nil {
		return
	}
	if t.needs[is.UID] == nil {
		t.needs[is.UID] = filters.Needs(is)
	}
	switch key := client.ObjectKeyFromObject(is); {
	case is.Spec.NodeName == "" && is.DeletionTimestamp == nil:
		t.waiting[key] = is
	case is.Spec.NodeName != "" && (is.DeletionTimestamp != nil || is.Status.Phase == corev1.PodPending):
		t.todo[key] = is
	}
	t.count(is, 1)
}

// count adds a pod, or takes it away.
func (t *tally) count(pod *corev1.Pod, n int) {
	if filters.Choosy(pod) {
		t.choosy += n
	}
	if pod.DeletionTimestamp == nil {
		t.stay[pod.Labels["app"]] += n
	}
	node := pod.Spec.NodeName
	if t.on[node] += n; t.on[node] == 0 {
		delete(t.on, node)
	}
	if node == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	if t.used[node] == nil {
		t.used[node] = corev1.ResourceList{}
	}
	for name, q := range t.needs[pod.UID] {
		sum := t.used[node][name]
		if n > 0 {
			sum.Add(q)
		} else {
			sum.Sub(q)
		}
		t.used[node][name] = sum
	}
}

// inOrderOfLists are pods in the order in which they are listed.
func inOrderOfLists(pods map[types.NamespacedName]*corev1.Pod) []*corev1.Pod {
	keys := slices.SortedFunc(maps.Keys(pods), inOrder)
	out := make([]*corev1.Pod, len(keys))
	for i, key := range keys {
		out[i] = pods[key]
	}
	return out
}

// refuse says on a pod that no node can take it.
func (w *World) refuse(ctx context.Context, pod *corev1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return nil
		}
	}
	pod = pod.DeepCopy()
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(w.loop.now),
	})
	return client.IgnoreNotFound(w.scheduler.Status().Update(ctx, pod))
}

// stopsNow says whether a pod that is being deleted has ended. Each takes as long as is drawn for it, and no longer than it may.
func (w *World) stopsNow(pod *corev1.Pod) bool {
	ends, known := w.pods.ends[pod.UID]
	if !known {
		ends = w.loop.now
		if left := pod.DeletionTimestamp.Sub(w.loop.now); left > 0 {
			ends = ends.Add(min(left, time.Duration(w.draw.Int64N(int64(slowestEnd)))))
		}
		w.pods.ends[pod.UID] = ends
		w.loop.call(ends, func() { w.wanted++ }) // has the kubelets look again
	}
	return !w.loop.now.Before(ends)
}

// runPods does what kubelets do: pods that are bound run, and those that are deleted end.
func (w *World) runPods() error {
	ctx := context.Background()
	for _, stored := range inOrderOfLists(w.pods.todo) {
		if w.stopped(stored.Spec.NodeName) {
			continue
		}
		pod := stored.DeepCopy()
		if pod.DeletionTimestamp != nil {
			if !w.stopsNow(pod) {
				continue
			}
			zero := int64(0)
			if err := w.kubelet.Delete(ctx, pod, &client.DeleteOptions{GracePeriodSeconds: &zero}); client.IgnoreNotFound(err) != nil {
				return err
			}
			continue
		}
		pod.Status.Phase = corev1.PodRunning
		now := metav1.NewTime(w.loop.now)
		pod.Status.StartTime = &now
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now})
		if err := w.kubelet.Status().Update(ctx, pod); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
