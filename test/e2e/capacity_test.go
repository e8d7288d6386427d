package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
)

const (
	// atRest is for how long nothing may move.
	atRest = 2*time.Minute + 5*time.Second
	base   = 20 // nodes of the static pool
)

// staticPool makes a static pool of c5.large on demand, with room for one node more while one is replaced.
func (w *world) staticPool(nodes int64) {
	w.t.Helper()
	pool := &karpv1.NodePool{}
	w.must(w.Client.Get(w.t.Context(), client.ObjectKey{Name: "default"}, pool))
	pool.ObjectMeta, pool.Status = metav1.ObjectMeta{Name: "base"}, karpv1.NodePoolStatus{}
	pool.Spec.Weight, pool.Spec.Replicas = nil, &nodes
	pool.Spec.Limits = karpv1.Limits{karpv1.LimitsNodes: *resource.NewQuantity(nodes+1, resource.DecimalSI)}
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"c5.large"}},
		{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.CapacityTypeOnDemand}},
	}
	w.must(w.Client.Create(w.t.Context(), pool))
}

// buffered waits until a buffer has room on nodes for so many spare pods.
func (w *world) buffered(name string, pods int32) {
	w.t.Helper()
	w.await(func() string {
		b := &bufferv1.CapacityBuffer{}
		w.must(w.Client.Get(w.t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, b))
		for _, c := range b.Status.Conditions {
			if c.Type == bufferv1.ConditionProvisioning && c.Status == metav1.ConditionTrue && b.Status.Replicas != nil && *b.Status.Replicas == pods {
				return ""
			}
		}
		return fmt.Sprintf("buffer %s is not filled with %d spare pods: %+v", name, pods, b.Status)
	})
}

// standing is everything that could move: claims and whether they are about to go, pods and where they are.
func (w *world) standing() (list []string) {
	w.t.Helper()
	var claims karpv1.NodeClaimList
	w.must(w.Client.List(w.t.Context(), &claims))
	for i := range claims.Items {
		c := &claims.Items[i]
		list = append(list, fmt.Sprintf("claim %s of pool %s, %s, deleted: %t", c.Name, c.Labels[karpv1.NodePoolLabelKey], c.Labels[corev1.LabelInstanceTypeStable], c.DeletionTimestamp != nil))
	}
	var nodes corev1.NodeList
	w.must(w.Client.List(w.t.Context(), &nodes, client.HasLabels{karpv1.NodePoolLabelKey}))
	for i := range nodes.Items {
		n := &nodes.Items[i]
		list = append(list, fmt.Sprintf("node %s, cordoned or tainted: %t", n.Name, n.Spec.Unschedulable || len(n.Spec.Taints) > 0))
	}
	var pods corev1.PodList
	w.must(w.Client.List(w.t.Context(), &pods, client.InNamespace(metav1.NamespaceDefault)))
	for i := range pods.Items {
		list = append(list, fmt.Sprintf("pod %s %s on %s", pods.Items[i].Name, pods.Items[i].UID, pods.Items[i].Spec.NodeName))
	}
	slices.Sort(list)
	return list
}

// rests waits until nothing has moved for a while.
func (w *world) rests() {
	w.t.Helper()
	began := time.Now()
	was, since := w.standing(), began
	for moves := 0; time.Since(since) < atRest; w.pause(time.Second) {
		is := w.standing()
		if slices.Equal(is, was) {
			continue
		}
		moves++
		if time.Since(began) > calm+atRest {
			w.t.Fatalf("after %v and %d changes something still moves:\n%s\nbecame\n%s", calm+atRest, moves, strings.Join(was, "\n"), strings.Join(is, "\n"))
		}
		was, since = is, time.Now()
	}
	w.t.Logf("at rest %.0f s after it was waited for", since.Sub(began).Seconds())
}

// TestA44_P103_P106_P112_ABaseABufferAndADiscountTogether has a static pool of twenty nodes, a buffer of a tenth of the workload and a discount
// play together, with consolidation on: the base stays as it is whatever happens around it, what does not fit on it gets nodes that are
// exchanged when others become cheaper, room for the buffer is always made again, and in the end nothing moves any more.
func TestA44_P103_P106_P112_ABaseABufferAndADiscountTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t, karpv1.NewNillableDuration(5*time.Second), "NodeOverlay=true")
	w.must(w.Client.Patch(t.Context(), &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"template":{"spec":{"requirements":[
		{"key":"node.kubernetes.io/instance-type","operator":"In","values":["c5.xlarge","m5.xlarge"]},{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]}]}}}}`))))
	w.staticPool(base)
	w.await(func() string {
		if up := w.of("base"); len(up) != base {
			return fmt.Sprintf("%d of %d nodes of the base are there", len(up), base)
		}
		return ""
	})
	fixed := names(w.of("base"))

	// The base takes a pod on each node; the rest and the room for the buffer is launched.
	w.must(w.Client.Create(t.Context(), &bufferv1.CapacityBuffer{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "swing"},
		Spec:       bufferv1.CapacityBufferSpec{ScalableRef: &bufferv1.ScalableRef{Kind: "Deployment", Name: "swing"}, Percentage: new(int32(10))},
	}))
	w.scale(30)
	w.awaitSettled(30)
	w.buffered("swing", 3)
	if types := w.claimTypes(); len(types["c5.large"]) != base || len(types["c5.xlarge"]) == 0 || len(types["m5.xlarge"]) != 0 {
		t.Fatalf("before the discount: %d c5.large, %d c5.xlarge, %d m5.xlarge", len(types["c5.large"]), len(types["c5.xlarge"]), len(types["m5.xlarge"]))
	}

	// Nodes of the other type cost less by the overlay: those above the base are exchanged, and pods and room with them.
	discounted := time.Now().Truncate(time.Second)
	w.overlay("discount", "m5", func(s *v1alpha1.NodeOverlaySpec) { s.PriceAdjustment = new("-60%") }, metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
	// One that kube-scheduler has put a moved pod on stays until that pod has paid for its move.
	w.await(func() string {
		types, moved := w.claimTypes(), w.podsSince(discounted)
		left := slices.DeleteFunc(types["c5.xlarge"], func(c karpv1.NodeClaim) bool { return moved[c.Status.NodeName] > 0 })
		if len(left) > 0 || len(types["m5.xlarge"]) == 0 {
			return fmt.Sprintf("%d nodes of the dearer type are left, %d of the cheaper are there", len(left), len(types["m5.xlarge"]))
		}
		return w.settled(30)
	})
	for _, c := range w.claimTypes()["m5.xlarge"] {
		if c.Annotations[karpv1.PriceOverlayAppliedAnnotationKey] != "true" {
			t.Errorf("P96: claim %s has no note of the overlay: %v", c.Name, c.Annotations)
		}
	}
	w.buffered("swing", 3)
	w.rests()
	w.buffered("swing", 3)

	// Nothing to do: what is above the base is removed, and the room for the one spare pod that a percentage leaves is on the base.
	w.scale(0)
	w.await(func() string {
		if types := w.claimTypes(); len(types["m5.xlarge"]) > 0 {
			return fmt.Sprintf("%d nodes above the base are left", len(types["m5.xlarge"]))
		}
		return w.settled(0)
	})
	w.buffered("swing", 1)
	if now := names(w.of("base")); !slices.Equal(now, fixed) {
		t.Errorf("P106: the base was\n%v\nand is\n%v", fixed, now)
	}
	w.checkHistory()
	w.mu.Lock()
	defer w.mu.Unlock()
	of := slices.Collect(maps.Keys(w.claims))
	if n := len(slices.DeleteFunc(of, func(name string) bool { return !strings.HasPrefix(name, "base-") })); n != base {
		t.Errorf("P103: the base has had %d claims, want %d", n, base)
	}
}

// podsSince are how many pods of the workload were created since then, by node.
func (w *world) podsSince(at time.Time) map[string]int {
	w.t.Helper()
	var pods corev1.PodList
	w.must(w.Client.List(w.t.Context(), &pods, client.InNamespace(metav1.NamespaceDefault)))
	out := map[string]int{}
	for i := range pods.Items {
		if p := &pods.Items[i]; !p.CreationTimestamp.Time.Before(at) {
			out[p.Spec.NodeName]++
		}
	}
	return out
}

func names(claims []karpv1.NodeClaim) (list []string) {
	for i := range claims {
		list = append(list, claims[i].Name)
	}
	return list
}
