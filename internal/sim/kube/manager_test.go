package kube

import (
	"context"
	"fmt"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/test/harness"
)

// settled is how long kube-controller-manager may take to do what our steps do at once.
const settled = time.Minute

// world is what the same commands make of a cluster.
type world struct {
	t *testing.T
	c client.Client
	// managed says that kube-controller-manager is at work.
	managed bool
}

// create waits for the service account that pods need, which kube-controller-manager makes.
func (w *world) create(obj client.Object) {
	w.t.Helper()
	err := w.c.Create(w.t.Context(), obj)
	for end := time.Now().Add(settled); apierrors.IsForbidden(err) && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		err = w.c.Create(w.t.Context(), obj)
	}
	must(w.t, err)
}

// config creates a ConfigMap that others own.
func (w *world) config(name string, owners ...client.Object) *corev1.ConfigMap {
	obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	for i, o := range owners {
		obj.OwnerReferences = append(obj.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: o.GetName(), UID: o.GetUID(), BlockOwnerDeletion: new(i == 0)})
	}
	w.create(obj)
	return obj
}

// collecting waits until garbage is collected: what kube-controller-manager finds when it starts, it sees in no order, and an object
// that it sees after its owner has begun to wait for others keeps that owner.
func (w *world) collecting() {
	w.t.Helper()
	head := w.config("first-head")
	child := w.config("first-child", head)
	must(w.t, w.c.Delete(w.t.Context(), head, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	for end := time.Now().Add(settled); ; time.Sleep(100 * time.Millisecond) {
		switch err := w.c.Get(w.t.Context(), client.ObjectKeyFromObject(child), child); {
		case apierrors.IsNotFound(err):
			return
		case err != nil || time.Now().After(end):
			w.t.Fatalf("%s is not collected after %v (error: %v)", child.Name, settled, err)
		}
	}
}

// owners makes families of objects and deletes their heads, each in another way.
func (w *world) owners() {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		n := "own-" + string(policy[0]+'a'-'A')
		head, other := w.config(n+"-head"), w.config(n+"-other")
		child := w.config(n+"-child", head)
		w.config(n+"-grandchild", child)
		w.config(n+"-shared", other, head)
		held := w.config(n+"-held", head)
		held.Finalizers = []string{"example.com/hold"}
		must(w.t, w.c.Update(w.t.Context(), held))
		must(w.t, w.c.Delete(w.t.Context(), head, client.PropagationPolicy(policy)))
	}
}

// budgets makes pods with and without a workload, and budgets of each form for them.
func (w *world) budgets() {
	for app, ready := range map[string]int{"bare": 3, "set": 2} {
		var owner []metav1.OwnerReference
		labels := map[string]string{"app": app}
		if app == "set" {
			rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app}, Spec: appsv1.ReplicaSetSpec{
				Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
			}}
			w.create(rs)
			owner = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: rs.Name, UID: rs.UID, Controller: new(true), BlockOwnerDeletion: new(true)}}
		}
		for i := range 3 {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%s-%d", app, i), Labels: labels, OwnerReferences: owner},
				Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			}
			w.create(pod)
			pod.Status.Phase = corev1.PodRunning
			if i < ready {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			}
			must(w.t, w.c.Status().Update(w.t.Context(), pod))
		}
		if app == "set" && w.managed {
			w.complete(app)
		}
		for form, spec := range map[string]policyv1.PodDisruptionBudgetSpec{
			"min": {MinAvailable: new(intstr.FromInt32(2))}, "percent": {MinAvailable: new(intstr.FromString("34%"))},
			"max": {MaxUnavailable: new(intstr.FromInt32(2))}, "share": {MaxUnavailable: new(intstr.FromString("50%"))},
		} {
			spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
			w.create(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app + "-" + form}, Spec: spec})
		}
	}
}

// complete waits until a ReplicaSet has the pods that were made for it, and none of its own: of several budgets for a pod only one is told
// when the pod goes.
func (w *world) complete(name string) {
	w.t.Helper()
	for end := time.Now().Add(settled); ; time.Sleep(100 * time.Millisecond) {
		var rs appsv1.ReplicaSet
		var pods corev1.PodList
		must(w.t, w.c.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &rs))
		must(w.t, w.c.List(w.t.Context(), &pods, client.InNamespace("default"), client.MatchingLabels{"app": name}))
		if rs.Status.Replicas == 3 && len(pods.Items) == 3 {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("ReplicaSet %s has %d pods in its status and %d in all after %v, want 3", name, rs.Status.Replicas, len(pods.Items), settled)
		}
	}
}

// picture is what there is, as far as it can be the same.
func (w *world) picture(ctx context.Context) map[string]string {
	out := map[string]string{}
	var configs corev1.ConfigMapList
	var budgets policyv1.PodDisruptionBudgetList
	must(w.t, w.c.List(ctx, &configs, client.InNamespace("default")))
	must(w.t, w.c.List(ctx, &budgets, client.InNamespace("default")))
	for _, c := range configs.Items {
		var owners []string
		for _, o := range c.OwnerReferences {
			owners = append(owners, o.Name)
		}
		out[c.Name] = fmt.Sprintf("owned by %v, finalizers %v, going %v", owners, c.Finalizers, c.DeletionTimestamp != nil)
	}
	for _, b := range budgets.Items {
		s := b.Status
		out[b.Name] = fmt.Sprintf("allowed %d, current %d, desired %d, expected %d, seen %d", s.DisruptionsAllowed, s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods, s.ObservedGeneration)
		for _, c := range s.Conditions {
			out[b.Name] += fmt.Sprintf(", %s %s %s", c.Type, c.Status, c.Reason)
			if c.Message != "" {
				out[b.Name] += " with a message"
			}
		}
	}
	delete(out, "kube-root-ca.crt")
	return out
}

// TestSameAsManager lets kube-controller-manager collect garbage and keep budgets, and holds our steps against it.
func TestSameAsManager(t *testing.T) {
	if testing.Short() {
		t.Skip("needs kube-controller-manager")
	}
	s := NewServer(harness.Scheme(), time.Now)
	cluster := harness.Start(t, harness.Options{Controllers: true})
	ours, theirs := &world{t: t, c: s.Client("test")}, &world{t: t, c: cluster.Client, managed: true}
	theirs.collecting()
	for _, w := range []*world{ours, theirs} {
		w.owners()
		w.budgets()
	}
	for s.CollectOrphans() || s.SyncBudgets() {
	}
	want := ours.picture(t.Context())
	diff := "never looked"
	for end := time.Now().Add(settled); diff != "" && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		diff = gocmp.Diff(theirs.picture(t.Context()), want)
	}
	if diff != "" {
		t.Errorf("after %v (-kube-controller-manager +ours):\n%s", settled, diff)
	}
	if len(want) < 8+3*3 {
		t.Errorf("too little is left to compare: %v", want)
	}
}
