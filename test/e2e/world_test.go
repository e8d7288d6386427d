package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/local"
	"karpenter/test/harness"
)

const (
	region = "us-west-2"
	// calm is how long the cluster may take to put itself right. Mostly that is a minute. An instance that no claim has is ended after two
	// looks, two minutes apart, and a look at far fewer claims than before counts for nothing.
	calm = 9 * time.Minute
	// glance is how often claims and instances are looked at. Both last for seconds at least.
	glance = 200 * time.Millisecond
)

// world is a cluster with the whole product, one workload, and a memory of every claim and instance that there was.
type world struct {
	*local.Cluster
	t *testing.T

	mu sync.Mutex
	// system are the instances that were there before any claim.
	system map[string]bool
	// instances are all others that ever were, claims what each claim ever had as its instances, owners the claims that
	// each instance ever had.
	instances map[string]bool
	claims    map[string]map[string]bool
	owners    map[string]map[string]bool
}

// newWorld starts a cluster whose default pool consolidates after the given time, and whose controller has these feature gates, and those
// of the AWS provider if there are more.
func newWorld(t *testing.T, consolidateAfter karpv1.NillableDuration, gates string, awsGates ...string) *world {
	t.Helper()
	return newWorldWith(t, consolidateAfter, map[string]string{"FEATURE_GATES": gates, "AWS_FEATURE_GATES": strings.Join(awsGates, ",")})
}

// newWorldWith starts a cluster whose controller has settings.
func newWorldWith(t *testing.T, consolidateAfter karpv1.NillableDuration, settings map[string]string) *world {
	t.Helper()
	slot(t)
	root, err := harness.Root()
	if err != nil {
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
	dir := filepath.Join(t.TempDir(), "cluster")
	cluster, err := local.Start(t.Context(), local.Options{
		Binary: kube, Dir: dir, ClusterName: "my-cluster", Region: region, BootTime: 3 * time.Second,
		Program: karpenter, Settings: settings,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the controller's log:\n%s", cluster.LogTail(100))
		}
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	w := &world{
		Cluster: cluster, t: t, system: map[string]bool{}, instances: map[string]bool{}, claims: map[string]map[string]bool{}, owners: map[string]map[string]bool{},
	}
	for id := range w.alive() {
		w.system[id] = true
	}
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	w.must(cluster.Client.Patch(t.Context(), pool, client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"spec":{"disruption":{"consolidateAfter":%q,"budgets":[{"nodes":"100%%"}]}}}`, consolidateAfter.String()))))
	w.must(cluster.Client.Create(t.Context(), workload()))
	watching, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.remember(watching)
	}()
	t.Cleanup(func() {
		end()
		<-done
	})
	return w
}

// workload is a deployment whose pods take a core each.
func workload() *appsv1.Deployment {
	labels := map[string]string{"app": "swing"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "swing"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: new(int64(0)),
				Containers: []corev1.Container{{
					Name: "main", Image: "registry.k8s.io/pause:3.10",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
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

// alive are the instances that have not ended.
func (w *world) alive() map[string]bool {
	list, err := w.AWS.Instances(region)
	if err != nil {
		w.t.Error(err)
	}
	ids := map[string]bool{}
	for i := range list {
		if state := list[i].State; (state == "pending" || state == "running") && !w.system[list[i].ID] {
			ids[list[i].ID] = true
		}
	}
	return ids
}

// remember notes claims and instances until ctx ends.
func (w *world) remember(ctx context.Context) {
	ticker := time.NewTicker(glance)
	defer ticker.Stop()
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// look notes what there is now, and returns the claims if the API server has answered.
func (w *world) look(ctx context.Context) ([]karpv1.NodeClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var list karpv1.NodeClaimList
	err := w.Client.List(ctx, &list)
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.alive() {
		w.instances[id] = true
	}
	for i := range list.Items {
		claim := &list.Items[i]
		if w.claims[claim.Name] == nil {
			w.claims[claim.Name] = map[string]bool{}
		}
		if id := instanceOf(claim); id != "" {
			w.claims[claim.Name][id] = true
			if w.owners[id] == nil {
				w.owners[id] = map[string]bool{}
			}
			w.owners[id][claim.Name] = true
		}
	}
	return list.Items, err
}

// instanceOf is the id in aws:///us-west-2a/i-0123.
func instanceOf(claim *karpv1.NodeClaim) string {
	return claim.Status.ProviderID[strings.LastIndexByte(claim.Status.ProviderID, '/')+1:]
}

// settled says what is still wrong, or nothing: every pod runs, every claim has its instance and every instance its claim.
func (w *world) settled(replicas int) string {
	claims, err := w.look(w.t.Context())
	if err != nil {
		return err.Error()
	}
	var pods corev1.PodList
	if err := w.Client.List(w.t.Context(), &pods, client.InNamespace(metav1.NamespaceDefault)); err != nil {
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
	alive := w.alive()
	for i := range claims {
		id := instanceOf(&claims[i])
		if !alive[id] {
			return fmt.Sprintf("claim %s has no living instance but %q", claims[i].Name, id)
		}
		delete(alive, id)
	}
	if len(alive) > 0 {
		return fmt.Sprintf("instances without a claim: %v", slices.Sorted(maps.Keys(alive)))
	}
	return ""
}

// awaitSettled waits until nothing is wrong any more.
func (w *world) awaitSettled(replicas int) {
	w.t.Helper()
	began := time.Now()
	for wrong := "?"; wrong != ""; {
		if wrong = w.settled(replicas); wrong != "" && time.Since(began) > calm {
			w.t.Fatalf("after %v of calm: %s", calm, wrong)
		}
		w.pause(glance)
	}
	w.t.Logf("%d pods run and nothing is left over %.1f s after calm came", replicas, time.Since(began).Seconds())
}

// checkHistory fails if a claim ever had two instances, an instance two claims, or if there were more instances than claims to
// have them. An instance need not have been seen with its claim: one that is deleted while it is being launched ends with it.
func (w *world) checkHistory() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var unlaunched, unowned []string
	for _, name := range slices.Sorted(maps.Keys(w.claims)) {
		switch had := slices.Sorted(maps.Keys(w.claims[name])); {
		case len(had) == 0:
			unlaunched = append(unlaunched, name)
		case len(had) > 1:
			w.t.Errorf("claim %s had the instances %v", name, had)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(w.instances)) {
		switch owners := slices.Sorted(maps.Keys(w.owners[id])); {
		case len(owners) == 0:
			unowned = append(unowned, id)
		case len(owners) > 1:
			w.t.Errorf("instance %s had the claims %v", id, owners)
		}
	}
	if len(unowned) > len(unlaunched) {
		w.t.Errorf("the instances %v were launched for nobody: only the claims %v had none", unowned, unlaunched)
	}
	w.t.Logf("%d claims and %d instances came; not seen together: %d and %d", len(w.claims), len(w.instances), len(unlaunched), len(unowned))
}

// pause lets the cluster go on for a while.
func (w *world) pause(d time.Duration) {
	w.t.Helper()
	select {
	case <-time.After(d):
	case <-w.t.Context().Done():
		w.t.Fatal("interrupted")
	}
}
