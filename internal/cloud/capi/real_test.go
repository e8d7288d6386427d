package capi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/cloud/cloudtest"
	"karpenter/internal/cloud/capi"
	"karpenter/internal/cloud/capi/kinds"
	"karpenter/internal/local/infra"
	"karpenter/test/harness"
	"karpenter/test/harness/clusterapi"
)

// patience is how long something may take on a busy computer, boot how long an instance takes to become a node.
const (
	patience = 5 * time.Minute
	boot     = 200 * time.Millisecond
)

// TestCAPI_RealControllers runs everything that needs Cluster API's own controllers, on one control plane; each part has a namespace and a
// Cluster of its own.
func TestCAPI_RealControllers(t *testing.T) {
	t.Parallel()
	cluster := harness.Start(t, harness.Options{Controllers: true})
	clusterapi.Start(t, cluster, boot)
	t.Run("conformance", func(t *testing.T) {
		t.Parallel()
		cloudtest.Run(t, func(t *testing.T) cloudtest.Harness { return newWorld(t, cluster).harness() })
	})
	for name, test := range map[string]func(*testing.T, *world){
		"R1 a launch that is cut off at any step is finished by the next process":   cutLaunches,
		"R1 a deletion that is cut off at any step is finished by the next process": cutDeletions,
		"R1 lost answers and conflicts double and lose nothing":                     lostAnswers,
		"R1 two processes at once double nothing":                                   twoProcesses,
		"somebody else scales meanwhile":                                            scaledByOthers,
		"somebody else deletes a Machine":                                           deletedByOthers,
		"a rollout: the right Machine is removed, and drift is seen":                rollout,
		"a Machine that cannot be provisioned is given up for another one":          failed,
		"min and max size hold":                                                     sizes,
		"one hundred Machines are asked for within ten seconds":                     hundred,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait for Cluster API most of the time
			test(t, newWorld(t, cluster))
		})
	}
}

// world is a Cluster of its own with MachineDeployments.
type world struct {
	*testing.T
	cluster   *harness.Cluster
	namespace string
	kube      client.Client // knows Cluster API's kinds
	scheme    *runtime.Scheme
	class     *v1alpha1.ClusterAPINodeClass
}

var worlds atomic.Int64

func newWorld(t *testing.T, cluster *harness.Cluster) *world {
	t.Helper()
	w := &world{T: t, cluster: cluster, namespace: fmt.Sprintf("w%d", worlds.Add(1)), scheme: runtime.NewScheme()}
	w.must(kinds.AddToScheme("v1beta2")(w.scheme))
	var err error
	w.kube, err = client.New(cluster.Config, client.Options{Scheme: w.scheme})
	w.must(err)
	w.must(cluster.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}))
	kubeconfig, err := os.ReadFile(cluster.Kubeconfig)
	w.must(err)
	w.must(infra.CreateCluster(t.Context(), cluster.Client, infra.Cluster{Namespace: w.namespace, Name: w.namespace, FailureDomains: []string{"zone-a", "zone-b"}, Kubeconfig: kubeconfig}))
	w.class = &v1alpha1.ClusterAPINodeClass{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "class"}}
	w.deployment("large", "8", nil)
	w.deployment("small", "2", nil)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) deployment(name, cpu string, annotations map[string]string) {
	w.Helper()
	w.must(infra.CreateMachineDeployment(w.Context(), w.cluster.Client, infra.MachineDeployment{
		Name: name, Cluster: w.namespace, Namespace: w.namespace, Labels: map[string]string{v1alpha1.LabelMember: ""}, Annotations: annotations,
		FailureDomain: "zone-a", InstanceType: name, Capacity: map[string]string{"cpu": cpu, "memory": "16Gi", "pods": "110"},
	}))
}

// start makes a provider of a process. wrap, if not nil, is between it and the API server.
func (w *world) start(wrap func(http.RoundTripper) http.RoundTripper, change ...func(*capi.Options)) *capi.Provider {
	w.Helper()
	config := rest.CopyConfig(w.cluster.Config)
	config.QPS, config.Burst = 200, 400
	caches, err := cache.New(config, cache.Options{Scheme: w.scheme, DefaultNamespaces: map[string]cache.Config{w.namespace: {}}})
	w.must(err)
	writes := rest.CopyConfig(config)
	if wrap != nil {
		writes.Wrap(wrap)
	}
	management, err := client.New(writes, client.Options{Scheme: w.scheme})
	w.must(err)
	options := capi.Options{
		Management: management, Clock: clock.RealClock{}, Namespace: w.namespace, Cluster: w.namespace,
		Class: func(name string) *v1alpha1.ClusterAPINodeClass {
			if name != w.class.Name {
				return nil
			}
			return w.class
		},
		Classes: func() []*v1alpha1.ClusterAPINodeClass { return []*v1alpha1.ClusterAPINodeClass{w.class} },
	}
	for _, c := range change {
		c(&options)
	}
	p := capi.New(options)
	ctx, stop := context.WithCancel(context.WithoutCancel(w.Context()))
	var running sync.WaitGroup
	w.Cleanup(func() {
		stop()
		running.Wait()
	})
	w.must(p.Follow(ctx, caches))
	running.Go(func() { _ = caches.Start(ctx) })
	w.until("the caches are filled", func() bool { return p.Synced() })
	w.until("the class is ready", func() bool {
		w.must(p.RefreshTemplates(ctx))
		ready := w.class.DeepCopy()
		p.Reconcile(ctx, ready)
		w.class = ready
		return len(ready.Status.ScalableResources) > 1 && ready.StatusConditions().IsTrue(karpv1.ConditionReady)
	})
	return p
}

func (w *world) until(what string, done func() bool) {
	w.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		if done() {
			return
		}
		if time.Now().After(end) {
			w.Fatalf("it did not come to this: %s", what)
		}
	}
}

func (w *world) spec(cpu string) karpv1.NodeClaimSpec {
	return karpv1.NodeClaimSpec{
		NodeClassRef: &karpv1.NodeClassReference{Group: v1alpha1.Group, Kind: v1alpha1.GroupKind.Kind, Name: "default"},
		Resources:    karpv1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
	}
}

func (w *world) harness() cloudtest.Harness {
	return cloudtest.Harness{
		Start: func() cloud.Provider { return w.start(nil) }, Class: "default", Spec: w.spec("1"), Impossible: w.spec("100000"),
		Now: time.Now, Advance: func(d time.Duration) { time.Sleep(min(d, 500*time.Millisecond)) },
		Left: w.left, Change: w.change, Cannot: map[cloudtest.Ability]string{cloudtest.Reboots: "Cluster API has no reboot"},
	}
}

// left has room for n more small nodes and for no large ones, or for any number.
func (w *world) left(n int) {
	for name, more := range map[string]int{"large": 0, "small": n} {
		var most any
		if n >= 0 {
			most = fmt.Sprint(w.replicas(name) + more)
		}
		w.patch(name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{kinds.MaxSizeAnnotation: most}}})
	}
	time.Sleep(time.Second) // until every cache shows it
}

// change changes the template of all MachineDeployments, and waits until Cluster API has seen it.
func (w *world) change() {
	for _, name := range []string{"large", "small"} {
		w.patch(name, map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"version": "v1.35.0"}}}})
		w.until("Machines of "+name+" are outdated", func() bool {
			for _, m := range w.machines(name) {
				if m.Status.Condition(kinds.ConditionUpToDate).Reason != kinds.ReasonNotUpToDate {
					return false
				}
			}
			return true
		})
	}
	time.Sleep(time.Second) // until every cache shows it
}

// batch is n claims that fit on large nodes alone.
func (w *world) batch(id string, n int) cloud.Batch {
	b := cloud.Batch{ID: id}
	for i := range n {
		name := fmt.Sprintf("%s-%d", id, i)
		b.Claims = append(b.Claims, &karpv1.NodeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: types.UID("uid-" + w.namespace + name), CreationTimestamp: metav1.Now(),
				Labels: map[string]string{karpv1.NodePoolLabelKey: "pool"}, Annotations: map[string]string{cloud.BatchAnnotationKey: id},
			},
			Spec: w.spec("4"),
		})
	}
	return b
}

// settle launches until every claim has an instance with a provider ID, and returns the instances' ids.
func (w *world) settle(p *capi.Provider, b cloud.Batch) (ids []string) {
	w.Helper()
	w.until("every claim has its instance", func() bool {
		ids = nil
		for _, r := range p.Launch(w.Context(), b) {
			if r.Err != nil && cloud.ClassOf(r.Err).Response().GiveUp {
				w.Fatal(r.Err)
			}
			if r.Instance != nil && r.Instance.ProviderID != "" {
				ids = append(ids, r.Instance.ID)
			}
		}
		return len(ids) == len(b.Claims)
	})
	return ids
}

// remove deletes an instance until it is gone.
func (w *world) remove(p *capi.Provider, id string) {
	w.Helper()
	w.until("instance "+id+" is gone", func() bool {
		err := p.Delete(w.Context(), id)
		if err != nil && cloud.ClassOf(err) != cloud.NotFound {
			w.Logf("deleting %s: %v", id, err)
		}
		return cloud.ClassOf(err) == cloud.NotFound
	})
}

// machines are those of a MachineDeployment that are not being deleted.
func (w *world) machines(deployment string) (out []kinds.Machine) {
	w.Helper()
	list := &kinds.MachineList{}
	w.must(w.kube.List(w.Context(), list, client.InNamespace(w.namespace), client.MatchingLabels{kinds.DeploymentNameLabel: deployment}))
	for _, m := range list.Items {
		if m.DeletionTimestamp.IsZero() {
			out = append(out, m)
		}
	}
	return out
}

func (w *world) replicas(deployment string) int {
	w.Helper()
	return int(*w.live(deployment).Spec.Replicas)
}

// live is a MachineDeployment as the API server has it.
func (w *world) live(deployment string) *kinds.MachineDeployment {
	w.Helper()
	d := &kinds.MachineDeployment{}
	w.must(w.kube.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: deployment}, d))
	return d
}

func (w *world) patch(deployment string, change any) {
	w.Helper()
	d := &kinds.MachineDeployment{}
	d.Namespace, d.Name = w.namespace, deployment
	body, err := json.Marshal(change)
	w.must(err)
	w.must(w.kube.Patch(w.Context(), d, client.RawPatch(types.MergePatchType, body)))
}

func (w *world) scale(deployment string, n int) {
	w.patch(deployment, map[string]any{"spec": map[string]any{"replicas": n}})
}

// holds says that a MachineDeployment has come to rest with so many Machines, of which so many belong to claims, one to each.
func (w *world) holds(deployment string, machines, claimed int) {
	w.Helper()
	seen := ""
	w.until(fmt.Sprintf("%s has %d Machines, %d of them claimed", deployment, machines, claimed), func() bool {
		list := w.machines(deployment)
		claims := map[string]bool{}
		n := 0
		for _, m := range list {
			if uid := m.Annotations[v1alpha1.ClaimUIDAnnotationKey]; uid != "" {
				n++
				claims[uid] = true
			}
		}
		if now := fmt.Sprintf("%d replicas, %d Machines, %d claimed by %d claims", w.replicas(deployment), len(list), n, len(claims)); now != seen {
			seen = now
			w.Log(seen)
		}
		return w.replicas(deployment) == machines && len(list) == machines && n == claimed && len(claims) == claimed
	})
}

var errCut = errors.New("the process has ended")

// cut ends a process at its n-th step, or after one of a kind: nothing it sends afterwards arrives.
type cut struct {
	at, steps int
	after     capi.Step
	dead      atomic.Bool
	mu        sync.Mutex
}

func (c *cut) onStep(step capi.Step, done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.after == "" && c.steps == c.at || done && step == c.after {
		c.dead.Store(true)
	}
	c.steps++
}

func (c *cut) wrap(next http.RoundTripper) http.RoundTripper {
	return transport(func(r *http.Request) (*http.Response, error) {
		if c.dead.Load() {
			return nil, errCut
		}
		return next.RoundTrip(r)
	})
}

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// process starts a provider that is cut.
func (w *world) process(c *cut) (*capi.Provider, *cut) {
	w.Helper()
	return w.start(c.wrap, func(o *capi.Options) { o.OnStep = c.onStep }), c
}
