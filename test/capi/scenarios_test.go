package capi

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	capiv1alpha1 "karpenter/api/capi/v1alpha1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/local/infra"
	"karpenter/test/harness"
)

// TestLocalCommand plays a scenario with the command that users have.
func TestLocalCommand(t *testing.T) {
	t.Parallel()
	slots <- struct{}{}
	defer func() { <-slots }()
	root, err := harness.Root()
	if err != nil {
		t.Fatal(err)
	}
	kube, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "karpenter"), "local", "--provider", "cluster-api", "--kube", kube, "--boot-time", "2s", "--scenario", filepath.Join("testdata", "walk-through.txt"))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestWorkload has pods come and go, stock run out and a template change on one cluster.
func TestWorkload(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "0s", false)
	w.scale(10)
	w.awaitSettled(10)
	many := w.count()

	t.Log("consolidation: fewer pods have fewer nodes")
	w.scale(2)
	w.awaitSettled(2, func() string {
		if n := w.count(); n > 2 || n >= many {
			return fmt.Sprintf("%d nodes, and there were %d before", n, many)
		}
		return ""
	})

	t.Log("drift: Machines of an older template are replaced")
	w.changeTemplates()
	w.awaitSettled(2, w.outdated)

	t.Log("out of stock: what is refused is taken elsewhere")
	w.stock(map[string]int64{"small": 0, "medium": 0})
	w.scale(30)
	w.awaitSettled(30, func() string {
		kinds := w.kinds()
		if kinds["large"]+kinds["xlarge"]+kinds["memory"] == 0 {
			return fmt.Sprintf("nodes are %v", kinds)
		}
		return ""
	})
	w.stock(map[string]int64{"large": 0, "xlarge": 0, "memory": 0, "small": 0, "medium": 0})
	w.scale(31 + 16)
	until(t, "an event that says what is out of stock", func() (bool, string) {
		var events corev1.EventList
		if err := w.Client.List(t.Context(), &events); err != nil {
			return false, err.Error()
		}
		var seen []string
		for i := range events.Items {
			if e := &events.Items[i]; e.InvolvedObject.Kind == "NodeClaim" {
				seen = append(seen, e.Reason+": "+e.Message)
				if strings.Contains(e.Message, " left in zone-") {
					return true, ""
				}
			}
		}
		return false, strings.Join(seen, "\n")
	})
	w.stock(nil)
	w.awaitSettled(47)

	t.Log("a MachineSet is scaled as a MachineDeployment is, up to its size")
	const set, most = "set-a", 3
	w.must(infra.CreateMachineDeployment(t.Context(), w.Management, infra.MachineDeployment{
		Name: set, Cluster: clusterName, Namespace: namespace, FailureDomain: "zone-a", InstanceType: set, Set: true,
		Labels: map[string]string{capiv1alpha1.LabelMember: ""}, Capacity: map[string]string{"cpu": "16", "memory": "64Gi", "pods": "110"},
		Annotations: map[string]string{
			capiv1alpha1.PriceAnnotationKey:                               "0.01",
			"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": fmt.Sprint(most),
			"capacity.cluster-autoscaler.kubernetes.io/labels":            corev1.LabelInstanceTypeStable + "=" + set,
		},
	}))
	w.awaitSettled(47, func() string { return w.inSet(set, most, most) })
	w.scale(2)
	w.awaitSettled(2, func() string { return w.inSet(set, 1, most-1) })
}

// inSet says what is wrong if a MachineSet does not ask for as many Machines as there are nodes of it, from least to most.
func (w *world) inSet(name string, least, most int) string {
	object := capi("v1beta2", "MachineSet")
	w.must(w.Management.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object))
	asked, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
	if kinds := w.kinds(); kinds[name] < least || kinds[name] > most || asked != int64(kinds[name]) {
		return fmt.Sprintf("the MachineSet asks for %d Machines; nodes are %v", asked, kinds)
	}
	return ""
}

// TestManagementClusterAway takes the management cluster away and brings it back: what runs goes on, and what was asked for meanwhile is
// there afterwards.
func TestManagementClusterAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "Never", true)
	w.scale(6)
	w.awaitSettled(6)
	before, _, err := w.look(t.Context())
	w.must(err)
	w.must(w.StopManagement())
	w.scale(12)
	w.pause(15 * time.Second)
	var claims karpv1.NodeClaimList
	w.must(w.Client.List(t.Context(), &claims))
	still := map[string]bool{}
	for i := range claims.Items {
		still[claims.Items[i].Name] = claims.Items[i].DeletionTimestamp == nil
	}
	for i := range before {
		if !still[before[i].Name] {
			t.Errorf("claim %s was deleted while the management cluster was away", before[i].Name)
		}
	}
	var nodes corev1.NodeList
	w.must(w.Client.List(t.Context(), &nodes))
	if len(nodes.Items) != len(before)+1 {
		t.Errorf("%d nodes while the management cluster is away, %d before", len(nodes.Items), len(before)+1)
	}
	w.must(w.StartManagement(t.Context()))
	w.awaitSettled(12)
	w.checkHistory()
}

var killed = flag.Int("kills", 15, "how often TestT1_KilledAtRandom kills the controller; make simlong does it 50 times")

// TestT1_KilledAtRandom kills the controller while load swings and claims are deleted: no Machine is made twice or left over.
// Every second time it is let come as far as a new claim, however slow the computer is: a controller that is killed before it does anything
// proves nothing.
func TestT1_KilledAtRandom(t *testing.T) {
	t.Parallel()
	const (
		low, high, last = 8, 40, 16
		seed            = 11
	)
	kills := *killed
	// leastClaims is how many claims must have come for the kills to mean anything.
	leastClaims := kills / 5
	w := newWorld(t, "0s", false)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range kills {
		before := w.seen()
		if i%2 == 0 {
			w.scale(random.IntN(low + 1))
		} else {
			w.scale(high - random.IntN(low+1))
			for waited := time.Duration(0); w.seen() == before && waited < actsWithin; waited += glance {
				w.pause(glance)
			}
		}
		if i%3 == 2 {
			w.deleteClaim(random)
		}
		w.pause(time.Duration(random.Int64N(int64(1300 * time.Millisecond))))
		for w.KillController() != nil { // it is on its way up
			w.pause(glance)
		}
	}
	w.scale(last)
	w.awaitSettled(last)
	w.checkHistory()
	if came := w.seen(); came < leastClaims {
		t.Errorf("only %d claims came while the controller was killed %d times: it did too little for this to show anything", came, kills)
	}
	t.Logf("| T1 SIGKILLs with Cluster API | %d | %d claims, %d Machines |", kills, w.seen(), w.made())
}

// actsWithin is how long a new claim is waited for before the controller is killed without one.
const actsWithin = 6 * time.Second

// seen is how many claims there ever were.
func (w *world) seen() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.claims)
}

// made is how many Machines there ever were.
func (w *world) made() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.machines)
}

// deleteClaim takes away one of the claims, as a user or a budget would.
func (w *world) deleteClaim(random *rand.Rand) {
	w.t.Helper()
	var list karpv1.NodeClaimList
	w.must(w.Client.List(w.t.Context(), &list))
	if len(list.Items) > 0 {
		w.must(client.IgnoreNotFound(w.Client.Delete(w.t.Context(), &list.Items[random.IntN(len(list.Items))])))
	}
}

// count is how many claims there are.
func (w *world) count() int {
	w.t.Helper()
	var list karpv1.NodeClaimList
	w.must(w.Client.List(w.t.Context(), &list))
	return len(list.Items)
}

// kinds are the nodes of pools by instance type.
func (w *world) kinds() map[string]int {
	w.t.Helper()
	var list corev1.NodeList
	w.must(w.Client.List(w.t.Context(), &list, client.HasLabels{karpv1.NodePoolLabelKey}))
	kinds := map[string]int{}
	for i := range list.Items {
		kinds[list.Items[i].Labels[corev1.LabelInstanceTypeStable]]++
	}
	return kinds
}

// stock says how many instances of types there are to be had; what is not named is never out of stock.
func (w *world) stock(available map[string]int64) {
	w.t.Helper()
	stock := []any{}
	for kind, n := range available {
		stock = append(stock, map[string]any{"instanceType": kind, "available": n})
	}
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(infraKind("SimCluster"))
	w.must(w.Management.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: clusterName}, cluster))
	before := cluster.DeepCopy()
	w.must(unstructured.SetNestedSlice(cluster.Object, stock, "spec", "stock"))
	w.must(w.Management.Patch(w.t.Context(), cluster, client.MergeFrom(before)))
}

// changeTemplates gives every MachineDeployment a new template, as users do: a copy under another name.
func (w *world) changeTemplates() {
	w.t.Helper()
	groups, err := w.list(w.t.Context(), coreKind("MachineDeploymentList"))
	w.must(err)
	for i := range groups {
		d := &groups[i]
		name, _, _ := unstructured.NestedString(d.Object, "spec", "template", "spec", "infrastructureRef", "name")
		template := &unstructured.Unstructured{}
		template.SetGroupVersionKind(infraKind("SimMachineTemplate"))
		w.must(w.Management.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, template))
		next := &unstructured.Unstructured{Object: map[string]any{"spec": template.Object["spec"]}}
		next.SetGroupVersionKind(infraKind("SimMachineTemplate"))
		next.SetNamespace(namespace)
		next.SetName(name + newTemplate)
		w.must(w.Management.Create(w.t.Context(), next))
		before := d.DeepCopy()
		w.must(unstructured.SetNestedField(d.Object, name+newTemplate, "spec", "template", "spec", "infrastructureRef", "name"))
		w.must(w.Management.Patch(w.t.Context(), d, client.MergeFrom(before)))
	}
}

// newTemplate is what changeTemplates adds to names.
const newTemplate = "-v2"

// outdated names an instance that is not made from a new template.
func (w *world) outdated() string {
	instances, err := w.list(w.t.Context(), infraKind("SimMachineList"))
	if err != nil {
		return err.Error()
	}
	for i := range instances {
		if from := instances[i].GetAnnotations()["cluster.x-k8s.io/cloned-from-name"]; !strings.HasSuffix(from, newTemplate) {
			return instances[i].GetName() + " is made from " + from
		}
	}
	return ""
}
