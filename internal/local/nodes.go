package local

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/cloud/simaws"
)

const (
	// nodeWorkers register and remove nodes side by side: a few hundred instances may join within one second.
	nodeWorkers = 32
	// nodeRetryFirst and nodeRetryMost bound how long a node that could not be registered or removed waits for the next try.
	nodeRetryFirst = 50 * time.Millisecond
	nodeRetryMost  = 5 * time.Second
	// nodeRetriesSilent is how many tries may fail before that is worth a line: conflicts pass.
	nodeRetriesSilent = 4
	// nodeLastTries is how long the end may be held up for nodes that have just come or gone.
	nodeLastTries = 3 * time.Second
	// nodeGone is how often it is looked whether the Node object of an instance that is no more is gone, and nodeSilent how long it may
	// be there before it is shown as one whose kubelet does not report.
	nodeGone   = 500 * time.Millisecond
	nodeSilent = 5 * time.Second
)

// shutdownTaint is what the cloud controller puts on nodes whose instance is stopped but exists.
var shutdownTaint = corev1.Taint{Key: "node.cloudprovider.kubernetes.io/shutdown", Effect: corev1.TaintEffectNoSchedule}

// unreachableTaint is what kube-controller-manager puts on nodes that do not report. It is set here, because until it is
// the scheduler would still use the node.
var unreachableTaint = corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}

// instanceEvent is the last that was heard of an instance.
type instanceEvent struct {
	instance simaws.Instance
	// left is why the instance is no longer in the cluster; empty while it is.
	left string
	at   time.Time
}

// nodeKeeper does what kubelets at their start and the cloud controller at an instance's end do: it makes and removes
// Node objects as instances of the AWS simulator join and leave. It is a simaws.Watcher.
type nodeKeeper struct {
	kube    client.Client
	cluster string
	kubelet kubeletFacts
	leases  *leaseKeeper
	// tell is told what happened, in one line.
	tell func(format string, args ...any)

	mu     sync.Mutex
	latest map[string]instanceEvent // by provider id
	queue  workqueue.TypedRateLimitingInterface[string]
}

func newNodeKeeper(kube client.Client, cluster string, tell func(string, ...any)) *nodeKeeper {
	return &nodeKeeper{
		kube: kube, cluster: cluster, leases: &leaseKeeper{kube: kube}, tell: tell, latest: map[string]instanceEvent{},
		queue: workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](nodeRetryFirst, nodeRetryMost)),
	}
}

// Joined notes that an instance's kubelet has come up.
func (n *nodeKeeper) Joined(m simaws.Instance) { n.note(instanceEvent{m, "", time.Now()}) }

// Left notes that an instance has stopped or ended.
func (n *nodeKeeper) Left(m simaws.Instance, reason string) {
	n.note(instanceEvent{m, reason, time.Now()})
}

// note puts the work aside: the AWS simulator waits for its watcher, and must not wait for the API server.
func (n *nodeKeeper) note(event instanceEvent) {
	n.mu.Lock()
	n.latest[event.instance.ProviderID] = event
	n.mu.Unlock()
	n.queue.Add(event.instance.ProviderID)
}

// run works until ctx ends, and then until what is in the queue has been tried once more.
func (n *nodeKeeper) run(ctx context.Context) {
	working, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var workers sync.WaitGroup
	for range nodeWorkers {
		workers.Go(func() {
			for {
				id, ended := n.queue.Get()
				if ended {
					return
				}
				n.handle(working, id)
				n.queue.Done(id)
			}
		})
	}
	<-ctx.Done()
	timer := time.AfterFunc(nodeLastTries, cancel)
	defer timer.Stop()
	n.queue.ShutDownWithDrain()
	workers.Wait()
}

func (n *nodeKeeper) handle(ctx context.Context, id string) {
	n.mu.Lock()
	event, ok := n.latest[id]
	n.mu.Unlock()
	if !ok {
		return
	}
	var again time.Duration
	var err error
	switch {
	case event.instance.Node.ClusterName != n.cluster && event.left == "":
	case event.left == "":
		err = n.register(ctx, &event.instance)
	case event.left == "stopped":
		err = n.switchOff(ctx, &event.instance, true)
	case event.left == "rebooting":
		err = n.switchOff(ctx, &event.instance, false)
	default:
		again, err = n.remove(ctx, &event.instance, event.at)
	}
	if err != nil && ctx.Err() == nil {
		if n.queue.NumRequeues(id) == nodeRetriesSilent {
			n.tell("instance %s: %v", event.instance.InstanceID, err)
		}
		n.queue.AddRateLimited(id)
		return
	}
	n.queue.Forget(id)
	if again > 0 {
		n.queue.AddAfter(id, again)
		return
	}
	n.mu.Lock()
	if n.latest[id].left == event.left {
		delete(n.latest, id)
	}
	n.mu.Unlock()
}

// register makes the Node object, or switches on the one that the instance had before it was stopped.
func (n *nodeKeeper) register(ctx context.Context, m *simaws.Instance) error {
	node, err := registration(m, n.kubelet)
	if err != nil {
		return err
	}
	err = n.kube.Create(ctx, node)
	if apierrors.IsAlreadyExists(err) {
		return n.switchOn(ctx, m)
	}
	if err != nil {
		return fmt.Errorf("registering node %s: %w", m.NodeName, err)
	}
	if err := n.registerDriver(ctx, m, node); err != nil {
		return err
	}
	if err := n.leases.touch(ctx, &node.ObjectMeta); err != nil {
		return err
	}
	n.tell("node %s joined: %s", m.NodeName, describe(m))
	return nil
}

func describe(m *simaws.Instance) string {
	if m.Type == "" { // of a Machine
		return "its instance is gone"
	}
	capacityType := m.Lifecycle
	if capacityType == "" {
		capacityType = "on-demand"
	}
	return fmt.Sprintf("%s %s in %s", m.Type, capacityType, m.Zone)
}

// registerDriver announces the driver for volumes on a node, as its pod there would.
func (n *nodeKeeper) registerDriver(ctx context.Context, m *simaws.Instance, node *corev1.Node) error {
	driver := storagev1.CSINodeDriver{
		Name: volumeDriver, NodeID: m.InstanceID, TopologyKeys: []string{corev1.LabelTopologyZone, volumeZoneLabel},
		Allocatable: &storagev1.VolumeNodeResources{Count: new(attachable(m))},
	}
	object := &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
		}},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{driver}},
	}
	if err := n.kube.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("registering the volume driver on node %s: %w", node.Name, err)
	}
	return nil
}

// switchOn lets kwok have a node again whose instance was stopped and started, or rebooted.
func (n *nodeKeeper) switchOn(ctx context.Context, m *simaws.Instance) error {
	node, err := n.own(ctx, m)
	if err != nil {
		return err
	}
	if node == nil {
		return errors.New("another instance's node has this name; it has to be deleted first")
	}
	if node.Annotations[kwokAnnotation] == managed {
		return nil
	}
	if boot := bootID(m); node.Status.NodeInfo.BootID != boot {
		status := node.DeepCopy()
		status.Status.NodeInfo.BootID = boot
		// Whatever else reports on the node begins anew with it.
		status.Status.Conditions = conditions("KubeletNotReady", "container runtime network not ready", corev1.ConditionFalse, metav1.Now())
		if err := n.kube.Status().Update(ctx, status); err != nil {
			return fmt.Errorf("starting node %s: %w", node.Name, err)
		}
		node.ResourceVersion = status.ResourceVersion
	}
	before := node.DeepCopy()
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, kwokAnnotation, managed)
	node.Spec.Taints = withoutTaint(withoutTaint(node.Spec.Taints, shutdownTaint), unreachableTaint)
	if err := n.kube.Patch(ctx, node, client.StrategicMergeFrom(before)); err != nil {
		return fmt.Errorf("switching on node %s: %w", node.Name, err)
	}
	n.tell("node %s is back: %s", m.NodeName, describe(m))
	return nil
}

// switchOff takes a node from kwok and shows it as one whose kubelet no longer reports.
func (n *nodeKeeper) switchOff(ctx context.Context, m *simaws.Instance, kept bool) error {
	node, err := n.own(ctx, m)
	if err != nil || node == nil || node.Annotations[kwokAnnotation] == switchedOff {
		return err
	}
	before := node.DeepCopy()
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, kwokAnnotation, switchedOff)
	node.Spec.Taints = append(withoutTaint(node.Spec.Taints, unreachableTaint), unreachableTaint)
	if kept {
		node.Spec.Taints = append(withoutTaint(node.Spec.Taints, shutdownTaint), shutdownTaint)
	}
	if err := n.kube.Patch(ctx, node, client.StrategicMergeFrom(before)); err != nil {
		return client.IgnoreNotFound(err)
	}
	status := node.DeepCopy()
	status.Status.Conditions = conditions("NodeStatusUnknown", "Kubelet stopped posting node status.", corev1.ConditionUnknown, metav1.Now())
	if err := n.kube.Status().Patch(ctx, status, client.StrategicMergeFrom(node)); err != nil {
		return client.IgnoreNotFound(err)
	}
	if kept {
		n.tell("node %s stopped: %s", m.NodeName, describe(m))
	}
	return nil
}

// remove deletes the Node object of an instance that is no more, unless somebody else does, and when it is gone the pods that were on it:
// nothing is left that could end them in order. again is when to look whether it is gone.
func (n *nodeKeeper) remove(ctx context.Context, m *simaws.Instance, left time.Time) (again time.Duration, err error) {
	node := &corev1.Node{}
	switch err := n.kube.Get(ctx, client.ObjectKey{Name: m.NodeName}, node); {
	case apierrors.IsNotFound(err):
		n.tell("node %s deleted: %s", m.NodeName, describe(m))
		return 0, n.removePods(ctx, m.NodeName)
	case err != nil:
		return 0, fmt.Errorf("reading node %s: %w", m.NodeName, err)
	case node.Spec.ProviderID != m.ProviderID:
		return 0, nil
	}
	leaving := !node.DeletionTimestamp.IsZero()
	if leaving && time.Since(left) < nodeSilent {
		return nodeGone, nil
	}
	if err := n.switchOff(ctx, m, false); err != nil {
		return 0, err
	}
	if !leaving {
		if err := n.kube.Delete(ctx, node, client.Preconditions{UID: &node.UID}); client.IgnoreNotFound(err) != nil {
			return 0, fmt.Errorf("deleting node %s: %w", m.NodeName, err)
		}
	}
	return nodeGone, nil
}

func (n *nodeKeeper) removePods(ctx context.Context, node string) error {
	var pods corev1.PodList
	if err := n.kube.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return fmt.Errorf("listing the pods of node %s: %w", node, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		err := n.kube.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting pod %s/%s of node %s: %w", pod.Namespace, pod.Name, node, err)
		}
	}
	return nil
}

// own returns the Node object of an instance, or nil if there is none: addresses, and with them names, are used again.
func (n *nodeKeeper) own(ctx context.Context, m *simaws.Instance) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := n.kube.Get(ctx, client.ObjectKey{Name: m.NodeName}, node)
	switch {
	case apierrors.IsNotFound(err), err == nil && node.Spec.ProviderID != m.ProviderID:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading node %s: %w", m.NodeName, err)
	}
	return node, nil
}

func withoutTaint(taints []corev1.Taint, drop corev1.Taint) []corev1.Taint {
	var kept []corev1.Taint
	for _, taint := range taints {
		if !taint.MatchTaint(&drop) {
			kept = append(kept, taint)
		}
	}
	return kept
}

// catchUp removes the nodes of an earlier run whose instances are gone, which can be where that run was killed.
func (n *nodeKeeper) catchUp(ctx context.Context, aws *awsSim) error {
	instances, err := aws.Instances(aws.region)
	if err != nil {
		return fmt.Errorf("listing the instances of the AWS simulator: %w", err)
	}
	alive := map[string]bool{}
	for i := range instances {
		if state := instances[i].State; state != "terminated" && state != "shutting-down" {
			alive["aws:///"+instances[i].Zone+"/"+instances[i].ID] = true
		}
	}
	var nodes corev1.NodeList
	if err := n.kube.List(ctx, &nodes); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if node.Annotations[kwokAnnotation] == "" || alive[node.Spec.ProviderID] {
			continue
		}
		n.Left(simaws.Instance{
			NodeName: node.Name, ProviderID: node.Spec.ProviderID, Type: node.Labels[corev1.LabelInstanceTypeStable], Zone: node.Labels[corev1.LabelTopologyZone],
		}, "terminated")
	}
	return nil
}
