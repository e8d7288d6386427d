package kube

import (
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	unversioned "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// manager is who does what kube-controller-manager does.
const manager = "kube-controller-manager"

func budgetRules(r *rules) {
	r.generation, r.unconditional, r.name, r.loose = true, false, nil, true
	r.check = func(o client.Object) (errs field.ErrorList) {
		spec, path := o.(*policyv1.PodDisruptionBudget).Spec, field.NewPath("spec")
		if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
			errs = append(errs, field.Invalid(path, spec, "minAvailable and maxUnavailable cannot be both set"))
		}
		errs = append(errs, checkAmount(spec.MinAvailable, path.Child("minAvailable"))...)
		errs = append(errs, checkAmount(spec.MaxUnavailable, path.Child("maxUnavailable"))...)
		errs = append(errs, unversioned.ValidateLabelSelector(spec.Selector, unversioned.LabelSelectorValidationOptions{}, path.Child("selector"))...)
		policies := []policyv1.UnhealthyPodEvictionPolicyType{policyv1.AlwaysAllow, policyv1.IfHealthyBudget}
		if p := spec.UnhealthyPodEvictionPolicy; p != nil && !slices.Contains(policies, *p) {
			errs = append(errs, field.NotSupported(path.Child("unhealthyPodEvictionPolicy"), *p, policies))
		}
		return errs
	}
	r.checkChange = func(o, _ client.Object) field.ErrorList { return r.check(o) }
}

func checkAmount(v *intstr.IntOrString, path *field.Path) (errs field.ErrorList) {
	switch {
	case v == nil:
	case v.Type == intstr.Int:
		errs = apivalidation.ValidateNonnegativeField(int64(v.IntVal), path)
	default:
		for _, msg := range validation.IsValidPercent(v.StrVal) {
			errs = append(errs, field.Invalid(path, v, msg))
		}
		if n, err := intstr.GetScaledValueFromIntOrPercent(v, 100, true); err == nil && n > 100 {
			errs = append(errs, field.Invalid(path, v, "must not be greater than 100%"))
		}
	}
	return errs
}

// evictionTimeout is how long a pod that was evicted may be there before its budget counts it again.
const evictionTimeout = 2 * time.Minute

// stale knows which budgets' status may have to change.
type stale struct {
	selectors map[types.NamespacedName]labels.Selector
	look      map[types.NamespacedName]bool
	// pods are those that a budget is about, nil until somebody asks.
	pods map[types.NamespacedName]map[types.NamespacedName]*corev1.Pod
}

// note keeps up with a change: a budget is looked at again when it, a pod that it is about, or a workload of its namespace has changed.
func (b *stale) note(old, obj client.Object) {
	if b.look == nil {
		b.selectors, b.look, b.pods = map[types.NamespacedName]labels.Selector{}, map[types.NamespacedName]bool{}, map[types.NamespacedName]map[types.NamespacedName]*corev1.Pod{}
	}
	one := obj
	if one == nil {
		one = old
	}
	switch x := one.(type) {
	case *policyv1.PodDisruptionBudget:
		key := keyOf(x)
		b.look[key] = true
		if was, ok := old.(*policyv1.PodDisruptionBudget); ok && obj != nil && equality.Semantic.DeepEqual(was.Spec.Selector, x.Spec.Selector) {
			return
		}
		delete(b.pods, key)
		if delete(b.selectors, key); obj != nil {
			b.selectors[key], _ = metav1.LabelSelectorAsSelector(x.Spec.Selector)
		}
	case *corev1.Pod:
		for key, selector := range b.selectors {
			if key.Namespace != x.Namespace || selector == nil {
				continue
			}
			is := obj != nil && selector.Matches(labels.Set(x.Labels))
			if is || old != nil && selector.Matches(labels.Set(old.GetLabels())) {
				b.look[key] = true
			}
			if pods := b.pods[key]; is && pods != nil {
				pods[keyOf(x)] = x
			} else {
				delete(pods, keyOf(x))
			}
		}
	case *appsv1.ReplicaSet, *appsv1.Deployment, *appsv1.StatefulSet:
		for key := range b.selectors {
			b.look[key] = b.look[key] || key.Namespace == one.GetNamespace()
		}
	}
}

// SyncBudgets brings the status of PodDisruptionBudgets up to date, as the disruption controller does, and says whether it changed any.
func (s *Server) SyncBudgets() bool {
	k, changed := s.mustKind(&policyv1.PodDisruptionBudget{}), false
	for _, key := range slices.Clone(k.keys) {
		old, ok := k.objects[key].(*policyv1.PodDisruptionBudget)
		if !ok || !s.budgets.look[key] && len(old.Status.DisruptedPods) == 0 { // which are forgotten after a while
			continue
		}
		s.budgets.look[key] = false
		b := old.DeepCopy()
		if s.judge(b); equality.Semantic.DeepEqual(b.Status, old.Status) {
			continue
		}
		changed = true
		op := &Op{User: manager, Verb: "update", Kind: k.gvk, Key: key, Subresource: "status"}
		_, _ = s.do(op, func() (client.Object, error) { return s.store(k, b, old), nil })
	}
	return changed
}

// judge works the status of a budget out.
func (s *Server) judge(b *policyv1.PodDisruptionBudget) {
	pods := s.podsOf(b)
	expected, desired, err := s.wanted(b, pods)
	if err != nil {
		b.Status.DisruptionsAllowed = 0
		s.setCondition(b, metav1.ConditionFalse, policyv1.SyncFailedReason, err.Error(), b.Status.ObservedGeneration)
		return
	}
	disrupted := map[string]metav1.Time{}
	healthy := int32(0)
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil {
			continue
		}
		if at, ok := b.Status.DisruptedPods[pod.Name]; ok && !at.Add(evictionTimeout).Before(s.now()) {
			disrupted[pod.Name] = at
			continue
		}
		if ready(pod) {
			healthy++
		}
	}
	allowed := healthy - desired
	if expected <= 0 || allowed <= 0 {
		allowed = 0
	}
	if len(disrupted) == 0 {
		disrupted = nil
	}
	b.Status = policyv1.PodDisruptionBudgetStatus{
		CurrentHealthy: healthy, DesiredHealthy: desired, ExpectedPods: expected, DisruptionsAllowed: allowed, DisruptedPods: disrupted,
		ObservedGeneration: b.Generation, Conditions: b.Status.Conditions,
	}
	s.setAllowed(b)
}

func (s *Server) setAllowed(b *policyv1.PodDisruptionBudget) {
	if b.Status.DisruptionsAllowed > 0 {
		s.setCondition(b, metav1.ConditionTrue, policyv1.SufficientPodsReason, "", b.Status.ObservedGeneration)
		return
	}
	s.setCondition(b, metav1.ConditionFalse, policyv1.InsufficientPodsReason, "", b.Status.ObservedGeneration)
}

func (s *Server) setCondition(b *policyv1.PodDisruptionBudget, status metav1.ConditionStatus, reason, message string, generation int64) {
	c := metav1.Condition{Type: policyv1.DisruptionAllowedCondition, Status: status, Reason: reason, Message: message, ObservedGeneration: generation, LastTransitionTime: s.time()}
	b.Status.Conditions = slices.Clone(b.Status.Conditions)
	meta.SetStatusCondition(&b.Status.Conditions, c)
}

func (s *Server) podsOf(b *policyv1.PodDisruptionBudget) (out []*corev1.Pod) {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return nil
	}
	pods := s.budgets.pods[keyOf(b)]
	if pods == nil {
		pods = map[types.NamespacedName]*corev1.Pod{}
		k := s.mustKind(&corev1.Pod{})
		for _, key := range k.keys {
			if pod := k.objects[key].(*corev1.Pod); key.Namespace == b.Namespace && selector.Matches(labels.Set(pod.Labels)) {
				pods[key] = pod
			}
		}
		s.budgets.pods[keyOf(b)] = pods
	}
	for _, key := range slices.SortedFunc(maps.Keys(pods), inOrder) {
		out = append(out, pods[key])
	}
	return out
}

// wanted is how many pods there should be and how many of them healthy.
func (s *Server) wanted(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod) (expected, desired int32, err error) {
	min, max := b.Spec.MinAvailable, b.Spec.MaxUnavailable
	if max == nil && min == nil {
		return 0, 0, nil
	}
	if max == nil && min.Type == intstr.Int {
		return int32(len(pods)), min.IntVal, nil
	}
	if expected, err = s.scale(pods); err != nil {
		return 0, 0, err
	}
	if max != nil {
		n, err := intstr.GetScaledValueFromIntOrPercent(max, int(expected), true)
		return expected, maxOf(0, expected-int32(n)), err
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(min, int(expected), true)
	return expected, int32(n), err
}

func maxOf(a, b int32) int32 { return max(a, b) }

// scale is how many pods the workloads of these want to have.
func (s *Server) scale(pods []*corev1.Pod) (sum int32, err error) {
	counted := map[types.UID]bool{}
	for _, pod := range pods {
		ref := metav1.GetControllerOf(pod)
		if ref == nil || counted[ref.UID] {
			continue
		}
		owner, replicas := s.workload(pod.Namespace, ref)
		if owner == nil {
			return 0, fmt.Errorf("found no controllers for pod %q", pod.Name)
		}
		if !counted[owner.GetUID()] {
			sum += replicas
		}
		counted[ref.UID], counted[owner.GetUID()] = true, true
	}
	return sum, nil
}

// workload finds who says how many pods there should be: a ReplicaSet's Deployment before the ReplicaSet.
func (s *Server) workload(namespace string, ref *metav1.OwnerReference) (client.Object, int32) {
	find := func(o client.Object, ref *metav1.OwnerReference) client.Object {
		found := s.mustKind(o).objects[types.NamespacedName{Namespace: namespace, Name: ref.Name}]
		if found == nil || found.GetUID() != ref.UID {
			return nil
		}
		return found
	}
	count := func(n *int32) int32 {
		if n == nil {
			return 1
		}
		return *n
	}
	switch ref.Kind {
	case "ReplicaSet":
		rs, ok := find(&appsv1.ReplicaSet{}, ref).(*appsv1.ReplicaSet)
		if !ok {
			return nil, 0
		}
		if up := metav1.GetControllerOf(rs); up != nil && up.Kind == "Deployment" {
			d, ok := find(&appsv1.Deployment{}, up).(*appsv1.Deployment)
			if !ok {
				return nil, 0
			}
			return d, count(d.Spec.Replicas)
		}
		return rs, count(rs.Spec.Replicas)
	case "StatefulSet":
		if set, ok := find(&appsv1.StatefulSet{}, ref).(*appsv1.StatefulSet); ok {
			return set, count(set.Spec.Replicas)
		}
	}
	return nil, 0
}
