package capi

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	capiv1alpha1 "karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/local"
	"karpenter/internal/local/infra"
	"karpenter/test/harness"
	"karpenter/test/harness/clusterapi"
)

const (
	clusterName = "my-cluster"
	namespace   = metav1.NamespaceDefault
	// glance is how often claims and Machines are looked at. Both last for seconds at least.
	glance = 200 * time.Millisecond
	// calm is how long the cluster may take to put itself right. Mostly that is a minute. A Machine that no claim has is removed after two
	// looks, two minutes apart, and a look at far fewer claims than before counts for nothing.
	calm = 9 * time.Minute
)

// slots has room for as many clusters as run at once: each takes about a core while it starts.
var slots = make(chan struct{}, 2)

// world is a cluster with the whole product on Cluster API, one workload, and a memory of which Machines each claim ever had.
type world struct {
	*local.Cluster
	t *testing.T

	mu sync.Mutex
	// machines are all Machines that there ever were and the claims that they said they were for, by the Machine's name; claims are the
	// claims that there ever were, by their UIDs.
	machines map[string]map[string]bool
	claims   map[string]string
}

// newWorld starts a cluster whose pool consolidates after the given time.
func newWorld(t *testing.T, consolidateAfter string, apart bool) *world {
	t.Helper()
	slots <- struct{}{}
	t.Cleanup(func() { <-slots })
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clusterapi.Files(); err != nil {
		t.Fatal(err)
	}
	kube, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	karpenter := filepath.Join(root, "bin", "karpenter")
	if _, err := os.Stat(karpenter); err != nil {
		t.Fatalf("%v; run make build", err)
	}
	cluster, err := local.Start(t.Context(), local.Options{
		Binary: kube, Dir: filepath.Join(t.TempDir(), "cluster"), ClusterName: clusterName, BootTime: 2 * time.Second, Program: karpenter,
		Provider: local.ProviderClusterAPI, ManagementApart: apart,
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Cluster: cluster, t: t, machines: map[string]map[string]bool{}, claims: map[string]string{}}
	watching, end := context.WithCancel(t.Context())
	var remembering sync.WaitGroup
	remembering.Go(func() { w.remember(watching) })
	t.Cleanup(func() {
		end()
		remembering.Wait()
		if t.Failed() {
			t.Logf("the end of the controller's log:\n%s", cluster.LogTail(150))
		}
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	w.must(cluster.Client.Patch(t.Context(), pool, client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"spec":{"disruption":{"consolidateAfter":%q,"budgets":[{"nodes":"100%%"}]}}}`, consolidateAfter))))
	w.must(cluster.Client.Create(t.Context(), workload()))
	return w
}

// workload is a deployment whose pods take most of a core each.
func workload() *appsv1.Deployment {
	labels := map[string]string{"app": "swing"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "swing"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: new(int64(0)),
				Containers: []corev1.Container{{
					Name: "main", Image: "registry.k8s.io/pause:3.10",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("900m"), corev1.ResourceMemory: resource.MustParse("1Gi")}},
				}},
			}},
		},
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// scale changes how many pods there shall be.
func (w *world) scale(replicas int) {
	w.t.Helper()
	w.must(w.Client.Patch(w.t.Context(), workload(), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))))
}

func (w *world) pause(d time.Duration) {
	w.t.Helper()
	select {
	case <-time.After(d):
	case <-w.t.Context().Done():
		w.t.Fatal("interrupted")
	}
}

// list lists objects of Cluster API's or of the simulated infrastructure's kinds.
func (w *world) list(ctx context.Context, kind schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	err := w.Management.List(ctx, list, client.InNamespace(namespace))
	return list.Items, err
}

func coreKind(kind string) schema.GroupVersionKind { return capi("v1beta2", kind).GroupVersionKind() }

func infraKind(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: infra.Group, Version: infra.Version, Kind: kind}
}

// remember notes claims and Machines until ctx ends.
func (w *world) remember(ctx context.Context) {
	ticker := time.NewTicker(glance)
	defer ticker.Stop()
	for {
		_, _, _ = w.look(ctx) // the management cluster may be away
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// look notes what there is now.
func (w *world) look(ctx context.Context) ([]karpv1.NodeClaim, []unstructured.Unstructured, error) {
	var claims karpv1.NodeClaimList
	if err := w.Client.List(ctx, &claims); err != nil {
		return nil, nil, err
	}
	found, err := w.list(ctx, coreKind("MachineList"))
	if err != nil {
		return nil, nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range claims.Items {
		w.claims[string(claims.Items[i].UID)] = claims.Items[i].Name
	}
	for i := range found {
		name := found[i].GetName()
		if w.machines[name] == nil {
			w.machines[name] = map[string]bool{}
		}
		if uid := found[i].GetAnnotations()[capiv1alpha1.ClaimUIDAnnotationKey]; uid != "" {
			w.machines[name][uid] = true
		}
	}
	return claims.Items, found, nil
}

// settled says what is still wrong, or nothing: every pod runs, every claim has its Machine and every Machine its claim and its node, and
// every MachineDeployment has as many Machines as it asks for.
func (w *world) settled(replicas int) string {
	ctx := w.t.Context()
	claims, found, err := w.look(ctx)
	if err != nil {
		return err.Error()
	}
	var pods corev1.PodList
	if err := w.Client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return err.Error()
	}
	running := 0
	for i := range pods.Items {
		if pods.Items[i].Status.Phase == corev1.PodRunning && pods.Items[i].DeletionTimestamp == nil {
			running++
		}
	}
	if running != replicas || len(pods.Items) != replicas {
		return fmt.Sprintf("%d of %d pods run, %d should", running, len(pods.Items), replicas)
	}
	owned, made := map[string]string{}, map[string]int64{}
	for i := range found {
		m := &found[i]
		if m.GetDeletionTimestamp() != nil {
			return "Machine " + m.GetName() + " is being deleted"
		}
		owned[m.GetName()] = m.GetAnnotations()[capiv1alpha1.ClaimUIDAnnotationKey]
		made[m.GetLabels()["cluster.x-k8s.io/deployment-name"]]++
	}
	for i := range claims {
		machine := claims[i].Annotations[capiv1alpha1.MachineAnnotationKey]
		if uid, ok := owned[machine]; !ok || uid != string(claims[i].UID) {
			return fmt.Sprintf("claim %s (%s) names Machine %q, which is for %q", claims[i].Name, claims[i].UID, machine, uid)
		}
		delete(owned, machine)
	}
	if len(owned) > 0 {
		return fmt.Sprintf("Machines without a claim: %v", slices.Sorted(maps.Keys(owned)))
	}
	return w.unsettledGroups(ctx, made, len(claims))
}

// unsettledGroups says which MachineDeployment has another number of Machines than it asks for, or that there are other nodes than claims.
func (w *world) unsettledGroups(ctx context.Context, made map[string]int64, claims int) string {
	groups, err := w.list(ctx, coreKind("MachineDeploymentList"))
	if err != nil {
		return err.Error()
	}
	for i := range groups {
		if want, _, _ := unstructured.NestedInt64(groups[i].Object, "spec", "replicas"); want != made[groups[i].GetName()] {
			return fmt.Sprintf("MachineDeployment %s asks for %d and has %d Machines", groups[i].GetName(), want, made[groups[i].GetName()])
		}
	}
	var nodes corev1.NodeList
	if err := w.Client.List(ctx, &nodes); err != nil {
		return err.Error()
	}
	if len(nodes.Items) != claims+1 { // and the system's
		return fmt.Sprintf("%d nodes for %d claims", len(nodes.Items), claims)
	}
	return ""
}

// awaitSettled waits until nothing is wrong any more, and more that is asked of it is so.
func (w *world) awaitSettled(replicas int, more ...func() string) {
	w.t.Helper()
	began := time.Now()
	for {
		wrong := w.settled(replicas)
		for _, ask := range more {
			if wrong == "" {
				wrong = ask()
			}
		}
		if wrong == "" {
			break
		}
		if time.Since(began) > calm {
			w.t.Fatalf("after %v: %s", calm, wrong)
		}
		w.pause(glance)
	}
	w.t.Logf("%d pods run and nothing is left over after %.1f s", replicas, time.Since(began).Seconds())
}

// checkHistory fails if a claim ever had two Machines, a Machine two claims, or if there were Machines that no claim there was asked for.
func (w *world) checkHistory() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	had := map[string][]string{}
	var unowned []string
	for _, name := range slices.Sorted(maps.Keys(w.machines)) {
		owners := slices.Sorted(maps.Keys(w.machines[name]))
		switch len(owners) {
		case 0:
			unowned = append(unowned, name)
		case 1:
			had[owners[0]] = append(had[owners[0]], name)
		default:
			w.t.Errorf("Machine %s had the claims %v", name, owners)
		}
	}
	without := 0
	for _, uid := range slices.Sorted(maps.Keys(w.claims)) {
		switch n := len(had[uid]); {
		case n > 1:
			w.t.Errorf("claim %s had the Machines %v", w.claims[uid], had[uid])
		case n == 0:
			without++
		}
	}
	if len(unowned) > without {
		w.t.Errorf("the Machines %v were made for nobody: only %d claims had none", unowned, without)
	}
	w.t.Logf("%d claims and %d Machines came; not seen together: %d and %d", len(w.claims), len(w.machines), without, len(unowned))
}
