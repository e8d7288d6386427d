package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/local"
	"karpenter/test/workloads"
)

const (
	// crowdLabel is on the nodes of the crowd's own pool, and on no others.
	crowdLabel = "example.com/crowd"
	// crowdWorkers create pods side by side.
	crowdWorkers = 16
	// crowdPatience is how long a crowd may take to come, on an instance with other things to do.
	crowdPatience = 15 * time.Minute
)

// crowd is a cluster full of nodes and pods. The nodes are Karpenter's own: each is there for a pod that wants no other of
// its kind beside it. The other pods are created on the nodes directly, since what kube-scheduler makes of twenty thousand
// pods is not in question here.
type crowd struct {
	*site
	b      *bench
	filled int
}

func (b *bench) newCrowd(ctx context.Context, s *site) (*crowd, error) {
	pool := &karpv1.NodePool{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: "default"}, pool); err != nil {
		return nil, fmt.Errorf("reading the default pool: %w", err)
	}
	pool.ObjectMeta = metav1.ObjectMeta{Name: "crowd"}
	pool.Status = karpv1.NodePoolStatus{}
	pool.Spec.Template.Labels = map[string]string{crowdLabel: "true"}
	small := karpv1.NodeSelectorRequirementWithMinValues{Key: awsv1.LabelInstanceCPU, Operator: corev1.NodeSelectorOpIn, Values: []string{"2"}}
	if b.provider == local.ProviderClusterAPI {
		small.Key, small.Values = corev1.LabelInstanceTypeStable, []string{"small"}
		if err := s.allowReplicas(ctx, b.sized(fullNodes)); err != nil {
			return nil, err
		}
	}
	pool.Spec.Template.Spec.Requirements = append(pool.Spec.Template.Spec.Requirements, small)
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "crowd"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "crowd"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "crowd"}}, Spec: workloads.PodSpec("200m", "128Mi")},
		},
	}
	deployment.Spec.Template.Spec.NodeSelector = map[string]string{crowdLabel: "true"}
	deployment.Spec.Template.Spec.Affinity = workloads.Apart("crowd")
	for _, object := range []client.Object{pool, deployment} {
		if err := s.Client.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("creating %s: %w", object.GetName(), err)
		}
	}
	return &crowd{site: s, b: b}, nil
}

// allowReplicas lets each MachineDeployment have so many Machines.
func (s *site) allowReplicas(ctx context.Context, n int) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta2", Kind: "MachineDeploymentList"})
	if err := s.Management.List(ctx, list); err != nil {
		return fmt.Errorf("listing MachineDeployments: %w", err)
	}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size":"%d"}}}`, n))
	for i := range list.Items {
		if err := s.Management.Patch(ctx, &list.Items[i], patch); err != nil {
			return fmt.Errorf("raising the size of MachineDeployment %s: %w", list.Items[i].Name, err)
		}
	}
	return nil
}

// grow brings the crowd to so many nodes and, with the pods of DaemonSets, so many pods, and returns when all run.
func (c *crowd) grow(ctx context.Context, nodes, pods int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, crowdPatience, errors.New("the crowd took too long to come"))
	defer cancel()
	began := time.Now()
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "crowd"}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, nodes))
	if err := c.Client.Patch(ctx, deployment, patch); err != nil {
		return fmt.Errorf("scaling the crowd: %w", err)
	}
	// The pods are counted, since what a Deployment says of them can be late when the computer is busy.
	if err := until(ctx, 2*time.Second, func() (bool, error) {
		running, err := c.count(ctx, client.MatchingLabels{"app": "crowd"}, client.MatchingFields{"status.phase": "Running"})
		return err == nil && running == nodes, nil // an API server that is that busy may give a request up
	}); err != nil {
		return fmt.Errorf("waiting for %d nodes: %w", nodes, err)
	}
	c.b.note("%d nodes after %.0f s", nodes, time.Since(began).Seconds())
	there, err := c.count(ctx)
	if err != nil {
		return err
	}
	if err := c.fill(ctx, pods-there); err != nil {
		return err
	}
	if err := until(ctx, 3*time.Second, func() (bool, error) { return c.calm(ctx) }); err != nil {
		return fmt.Errorf("waiting for %d pods to run: %w", pods, err)
	}
	c.b.note("%d pods after %.0f s (load %s)", pods, time.Since(began).Seconds(), loadAverage())
	return nil
}

// count is how many pods there are of a kind.
func (c *crowd) count(ctx context.Context, which ...client.ListOption) (int, error) {
	var pods metav1.PartialObjectMetadataList
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if err := c.Client.List(ctx, &pods, which...); err != nil {
		return 0, fmt.Errorf("counting pods: %w", err)
	}
	return len(pods.Items), nil
}

// calm is whether all pods run.
func (c *crowd) calm(ctx context.Context) (bool, error) {
	var pending corev1.PodList
	err := c.Client.List(ctx, &pending, client.MatchingFields{"status.phase": "Pending"}, client.Limit(1))
	return err == nil && len(pending.Items) == 0, err
}

// fill creates pods on the crowd's nodes, the same number on each.
func (c *crowd) fill(ctx context.Context, count int) error {
	var nodes corev1.NodeList
	if err := c.Client.List(ctx, &nodes, client.HasLabels{crowdLabel}); err != nil || len(nodes.Items) == 0 {
		return fmt.Errorf("listing the crowd's %d nodes: %w", len(nodes.Items), err)
	}
	work := make(chan *corev1.Pod)
	var workers sync.WaitGroup
	var failed error
	var once sync.Once
	for range crowdWorkers {
		workers.Go(func() {
			for pod := range work {
				if err := c.Client.Create(ctx, pod); err != nil {
					once.Do(func() { failed = fmt.Errorf("creating pod %s: %w", pod.Name, err) })
				}
			}
		})
	}
	for range max(0, count) {
		c.filled++
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("filler-%d", c.filled),
				Labels: map[string]string{"app": fmt.Sprintf("filler-%d", c.filled%50), "team": "live", "version": "v1"},
			},
			Spec: workloads.PodSpec("50m", "64Mi"),
		}
		pod.Spec.NodeName = nodes.Items[len(nodes.Items)-1-c.filled%len(nodes.Items)].Name
		work <- pod
	}
	close(work)
	workers.Wait()
	return failed
}
