package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
)

// fuse is a resource that nobody but an overlay tells of.
const fuse = corev1.ResourceName("example.com/fuse")

// overlay creates a NodeOverlay for a family of instances and waits until it has been judged.
func (w *world) overlay(name, family string, change func(*v1alpha1.NodeOverlaySpec), status metav1.ConditionStatus, reason string) {
	w.t.Helper()
	o := &v1alpha1.NodeOverlay{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeOverlaySpec{Requirements: []v1alpha1.Requirement{
		{Key: "karpenter.k8s.aws/instance-family", Operator: corev1.NodeSelectorOpIn, Values: []string{family}},
	}}}
	change(&o.Spec)
	w.must(w.Client.Create(w.t.Context(), o))
	w.await(func() string {
		w.must(w.Client.Get(w.t.Context(), client.ObjectKeyFromObject(o), o))
		if c := o.StatusConditions().Get(karpv1.ConditionValidationSucceeded); c.Status != status || c.Reason != reason {
			return fmt.Sprintf("overlay %s: %s %s %s", name, c.Status, c.Reason, c.Message)
		}
		return ""
	})
}

// plugin registers the resource on nodes that were made for it, as a device plugin does once it runs.
func (w *world) plugin() {
	w.t.Helper()
	nodes := &corev1.NodeList{}
	w.must(w.Client.List(w.t.Context(), nodes, client.HasLabels{karpv1.NodePoolLabelKey}))
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if q := n.Status.Allocatable[fuse]; !q.IsZero() {
			continue
		}
		w.must(client.IgnoreNotFound(w.Client.Status().Patch(w.t.Context(), n, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"status":{"capacity":{%q:"2"},"allocatable":{%q:"2"}}}`, fuse, fuse)))))
	}
}

// claimsOf are the claims by the instance type that they became.
func (w *world) claimTypes() map[string][]karpv1.NodeClaim {
	w.t.Helper()
	list, out := &karpv1.NodeClaimList{}, map[string][]karpv1.NodeClaim{}
	w.must(w.Client.List(w.t.Context(), list))
	for _, c := range list.Items {
		out[c.Labels[corev1.LabelInstanceTypeStable]] = append(out[c.Labels[corev1.LabelInstanceTypeStable]], c)
	}
	return out
}

// TestA44_A45_A47_P96_OverlaysOnTheWholeProduct has a discount change what is launched, a resource of an overlay be packed and waited
// for, and overlays that are wrong harm nobody.
func TestA44_A45_A47_P96_OverlaysOnTheWholeProduct(t *testing.T) {
	t.Parallel()
	w := newWorld(t, karpv1.NeverDuration(), "NodeOverlay=true")
	w.must(w.Client.Patch(t.Context(), &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"template":{"spec":{"requirements":[
		{"key":"node.kubernetes.io/instance-type","operator":"In","values":["c5.large","m5.large"]},{"key":"karpenter.sh/capacity-type","operator":"In","values":["on-demand"]}]}}}}`))))
	w.scale(1)
	w.awaitSettled(1)
	if types := w.claimTypes(); len(types["c5.large"]) != 1 || types["c5.large"][0].Annotations[karpv1.PriceOverlayAppliedAnnotationKey] != "" {
		t.Errorf("without overlays: %v", types)
	}

	w.overlay("broken", "c5", func(s *v1alpha1.NodeOverlaySpec) {
		s.Price, s.Capacity = new("0"), corev1.ResourceList{fuse: resource.MustParse("500m")}
	}, metav1.ConditionFalse, v1alpha1.ReasonRuntimeValidation)
	w.overlay("discount", "m5", func(s *v1alpha1.NodeOverlaySpec) { s.PriceAdjustment = new("-50%") }, metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
	w.overlay("a-tie", "m5", func(s *v1alpha1.NodeOverlaySpec) { s.PriceAdjustment = new("+500%") }, metav1.ConditionFalse, v1alpha1.ReasonConflict)
	w.scale(2)
	w.awaitSettled(2)
	types := w.claimTypes()
	if len(types["m5.large"]) != 1 || types["m5.large"][0].Annotations[karpv1.PriceOverlayAppliedAnnotationKey] != "true" {
		t.Fatalf("with a discount: %v", types)
	}

	// Both nodes have room for the pod but for the resource.
	w.overlay("fuse", "m5", func(s *v1alpha1.NodeOverlaySpec) { s.Capacity = corev1.ResourceList{fuse: resource.MustParse("2")} }, metav1.ConditionTrue, karpv1.ConditionValidationSucceeded)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "mounter"}}
	pod.Spec.Containers = []corev1.Container{{
		Name: "main", Image: "registry.k8s.io/pause:3.10",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{fuse: resource.MustParse("1")}, Limits: corev1.ResourceList{fuse: resource.MustParse("1")}},
	}}
	w.must(w.Client.Create(t.Context(), pod))
	var claim karpv1.NodeClaim
	w.await(func() string {
		for _, c := range w.claimTypes()["m5.large"] {
			if c.Annotations[karpv1.CapacityOverlayAppliedAnnotationKey] == "true" {
				claim = c
				if capacity := c.Status.Capacity[fuse]; capacity.Value() == 2 && c.StatusConditions().IsTrue(karpv1.ConditionRegistered) {
					return ""
				}
			}
		}
		return fmt.Sprintf("no registered claim with the resource: %+v", claim.Status)
	})
	if claim.StatusConditions().IsTrue(karpv1.ConditionInitialized) {
		t.Error("the node is initialized although it does not report the resource")
	}
	w.await(func() string {
		w.plugin()
		return w.settled(3)
	})
	if types := w.claimTypes(); len(types["m5.large"]) != 2 || len(types["c5.large"]) != 1 {
		t.Errorf("in the end: %v", types)
	}
	w.checkHistory()
}
