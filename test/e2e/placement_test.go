package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
)

// only has the default pool launch one type, on demand.
func (w *world) only(instanceType string) {
	w.t.Helper()
	w.must(w.Client.Patch(w.t.Context(), &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"template":{"spec":{"requirements":[
		{"key":"node.kubernetes.io/instance-type","operator":"In","values":[%q]},{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]}]}}}}`, instanceType))))
}

// zones counts the pods of the workload in each zone, by the labels of their nodes.
func (w *world) zones() map[string]int {
	w.t.Helper()
	nodes := &corev1.NodeList{}
	w.must(w.Client.List(w.t.Context(), nodes))
	zone := map[string]string{}
	for i := range nodes.Items {
		zone[nodes.Items[i].Name] = nodes.Items[i].Labels[corev1.LabelTopologyZone]
	}
	pods, _ := w.placed()
	count := map[string]int{}
	for node, here := range pods {
		count[zone[node]] += len(here)
	}
	return count
}

// together fails unless all claims that there are were made before the first of them had a node: by one plan, and not because a
// pod did not fit where it was thought to.
func (w *world) together(want int) {
	w.t.Helper()
	fleet := w.fleet()
	var made, joined time.Time
	for _, c := range fleet {
		if c.CreationTimestamp.After(made) {
			made = c.CreationTimestamp.Time
		}
		if at := c.StatusConditions().Get(karpv1.ConditionRegistered).LastTransitionTime.Time; joined.IsZero() || at.Before(joined) {
			joined = at
		}
	}
	if len(fleet) != want || made.After(joined) {
		w.t.Errorf("there are %d nodes, want %d; the last claim was made at %s, the first node joined at %s", len(fleet), want, made, joined)
	}
}

// TestN1_DefaultSpreadOnTheWholeProduct has kube-scheduler give pods without constraints one that it enforces: at most one more in any
// zone than in another. Nodes are launched in the zones that it asks for, also for pods that come later. A node takes one pod, so
// that a node in the wrong zone would leave its pod pending.
func TestN1_DefaultSpreadOnTheWholeProduct(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, karpv1.NeverDuration(), map[string]string{
		"SCHEDULER_CONFIG": `{podTopologySpread: {defaultConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}}`,
	})
	w.healthyStart()
	w.only("c5.large")
	for _, step := range []struct{ pods, least, most int }{{6, 2, 2}, {7, 2, 3}, {12, 4, 4}} {
		w.scale(step.pods)
		w.awaitSettled(step.pods)
		if zones := w.zones(); len(zones) != 3 || slices.Min(slices.Collect(maps.Values(zones))) != step.least || slices.Max(slices.Collect(maps.Values(zones))) != step.most {
			t.Errorf("N1: %d pods are spread as %v", step.pods, zones)
		}
	}
	if n := len(w.fleet()); n != 12 {
		t.Errorf("N1: %d nodes for 12 pods", n)
	}
	w.checkHistory()
}

// healthyStart fails if the controller has found something wrong by now.
func (w *world) healthyStart() {
	w.t.Helper()
	for line := range strings.Lines(w.LogTail(1000)) {
		if strings.Contains(line, `"level":"WARN"`) || strings.Contains(line, `"level":"ERROR"`) {
			w.t.Errorf("the log of a healthy start has: %s", line)
		}
	}
}

// TestN2_VolumeLimitsOnTheWholeProduct has pods whose volumes fill a node long before anything else does. The driver says how many a
// node takes only once it is there; so many nodes are launched at once that nothing is left over then.
func TestN2_VolumeLimitsOnTheWholeProduct(t *testing.T) {
	t.Parallel()
	const pods, volumes = 12, 5
	w := newWorld(t, karpv1.NeverDuration(), "")
	w.only("c5.4xlarge")
	w.must(w.Client.Patch(t.Context(), workload(), client.RawPatch("application/strategic-merge-patch+json", fmt.Appendf(nil, `{"spec":{"template":{"spec":{
		"containers":[{"name":"main","resources":{"requests":{"cpu":"100m"}}}],"volumes":%s}}}}`, ephemeral(volumes)))))
	w.scale(pods)
	w.awaitSettled(pods)
	attached, most := map[string]int{}, int64(0)
	list := &corev1.PersistentVolumeClaimList{}
	w.must(w.Client.List(t.Context(), list))
	for i := range list.Items {
		attached[list.Items[i].Annotations["volume.kubernetes.io/selected-node"]]++
	}
	for node := range attached {
		driver := &storagev1.CSINode{}
		w.must(w.Client.Get(t.Context(), client.ObjectKey{Name: node}, driver))
		most = int64(*driver.Spec.Drivers[0].Allocatable.Count)
		if int64(attached[node]) > most {
			t.Errorf("N2: node %s has %d volumes, and takes %d", node, attached[node], most)
		}
	}
	each := int(most) / volumes
	if want := (pods + each - 1) / each; len(list.Items) != pods*volumes || want < 2 {
		t.Errorf("N2: there are %d volumes, want %d, and a node takes %d", len(list.Items), pods*volumes, most)
	} else {
		w.together(want)
	}
	w.checkHistory()
}

// ephemeral are volumes that come and go with their pod, as JSON.
func ephemeral(count int) string {
	var list []string
	for i := range count {
		list = append(list, fmt.Sprintf(`{"name":"v%d","ephemeral":{"volumeClaimTemplate":{"spec":{"accessModes":["ReadWriteOnce"],"storageClassName":"gp3","resources":{"requests":{"storage":"1Gi"}}}}}}`, i))
	}
	return "[" + strings.Join(list, ",") + "]"
}
