package kube

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func podRules(r *rules) {
	r.generation = true
	r.defaults = of(func(p *corev1.Pod) {
		if g := p.Spec.TerminationGracePeriodSeconds; g != nil && *g < 0 {
			p.Spec.TerminationGracePeriodSeconds = new(int64(1))
		}
		defaultSpec(&p.Spec)
		for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range list {
				requestLimits(&list[i].Resources)
			}
		}
		orElse(&p.Spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	})
	r.create = func(s *Server, o client.Object) { s.admitPod(o.(*corev1.Pod)) }
	r.update = func(_ *Server, o, old client.Object) {
		pod, was := o.(*corev1.Pod), old.(*corev1.Pod)
		if pod.Spec.Priority == nil {
			pod.Spec.Priority = was.Spec.Priority
		}
		if pod.Spec.PreemptionPolicy == nil {
			pod.Spec.PreemptionPolicy = was.Spec.PreemptionPolicy
		}
		tolerateBriefly(pod)
	}
	r.statusUpdate = func(o, old client.Object) {
		pod, was := o.(*corev1.Pod), old.(*corev1.Pod)
		pod.DeletionTimestamp, pod.OwnerReferences = nil, was.OwnerReferences
		if pod.Status.QOSClass == "" {
			pod.Status.QOSClass = was.Status.QOSClass
		}
		if pod.Status.ObservedGeneration == 0 {
			pod.Status.ObservedGeneration = was.Status.ObservedGeneration
		}
	}
	r.check = func(o client.Object) field.ErrorList {
		return checkContainers(&o.(*corev1.Pod).Spec, field.NewPath("spec"))
	}
	r.checkChange = checkPodChange
	r.checkStatus = func(o, old client.Object) (errs field.ErrorList) {
		is, was := o.(*corev1.Pod), old.(*corev1.Pod)
		if is.Spec.NodeName != "" && is.Status.NominatedNodeName != "" && is.Status.NominatedNodeName != was.Status.NominatedNodeName {
			errs = append(errs, field.Forbidden(field.NewPath("status", "nominatedNodeName"), "may not be set on a pod that has a node"))
		}
		return errs
	}
	r.grace = func(o client.Object, asked *int64) int64 {
		pod := o.(*corev1.Pod)
		period := int64(0)
		switch {
		case pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		case asked != nil:
			period = *asked
		case pod.Spec.TerminationGracePeriodSeconds != nil:
			period = *pod.Spec.TerminationGracePeriodSeconds
		}
		if period < 0 {
			period = 1
		}
		return period
	}
	pod := func(get func(*corev1.Pod) string) func(client.Object) string {
		return func(o client.Object) string { return get(o.(*corev1.Pod)) }
	}
	r.fields = map[string]func(client.Object) string{
		"spec.nodeName":            pod(func(p *corev1.Pod) string { return p.Spec.NodeName }),
		"spec.restartPolicy":       pod(func(p *corev1.Pod) string { return string(p.Spec.RestartPolicy) }),
		"spec.schedulerName":       pod(func(p *corev1.Pod) string { return p.Spec.SchedulerName }),
		"spec.serviceAccountName":  pod(func(p *corev1.Pod) string { return p.Spec.ServiceAccountName }),
		"spec.hostNetwork":         pod(func(p *corev1.Pod) string { return strconv.FormatBool(p.Spec.HostNetwork) }),
		"status.phase":             pod(func(p *corev1.Pod) string { return string(p.Status.Phase) }),
		"status.nominatedNodeName": pod(func(p *corev1.Pod) string { return p.Status.NominatedNodeName }),
		"status.podIP": pod(func(p *corev1.Pod) string {
			if len(p.Status.PodIPs) == 0 {
				return ""
			}
			return p.Status.PodIPs[0].IP
		}),
	}
}

// admitPod is what admission and the strategy do to a new pod.
func (s *Server) admitPod(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodPending
	if len(pod.Spec.SchedulingGates) > 0 {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates", LastTransitionTime: s.time(),
		}}
	}
	priority, policy := int32(0), corev1.PreemptLowerPriority
	classes := s.mustKind(&schedulingv1.PriorityClass{})
	if class, ok := classes.objects[types.NamespacedName{Name: pod.Spec.PriorityClassName}].(*schedulingv1.PriorityClass); ok {
		priority = class.Value
		if class.PreemptionPolicy != nil {
			policy = *class.PreemptionPolicy
		}
	}
	pod.Spec.Priority, pod.Spec.PreemptionPolicy = &priority, &policy
	tolerateBriefly(pod)
	pod.Status.QOSClass = quality(pod)
}

// tolerateBriefly lets pods stay for five minutes on a node that is not ready.
func tolerateBriefly(pod *corev1.Pod) {
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		}) {
			pod.Spec.Tolerations = append(slices.Clone(pod.Spec.Tolerations), corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(300)),
			})
		}
	}
}

func quality(pod *corev1.Pod) corev1.PodQOSClass {
	guaranteed, any := true, false
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
				request, limit := c.Resources.Requests[name], c.Resources.Limits[name]
				any = any || !request.IsZero() || !limit.IsZero()
				guaranteed = guaranteed && !limit.IsZero() && request.Cmp(limit) == 0
			}
		}
	}
	switch {
	case !any:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

func requestLimits(r *corev1.ResourceRequirements) {
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; !ok {
			if r.Requests == nil {
				r.Requests = corev1.ResourceList{}
			}
			r.Requests[name] = limit.DeepCopy()
		}
	}
}

func defaultTemplate(t *corev1.PodTemplateSpec) { defaultSpec(&t.Spec) }

func defaultSpec(s *corev1.PodSpec) {
	if s.ServiceAccountName == "" {
		s.ServiceAccountName = s.DeprecatedServiceAccount
	}
	s.DeprecatedServiceAccount = s.ServiceAccountName
	if s.DNSPolicy == "" {
		s.DNSPolicy = corev1.DNSClusterFirst
	}
	if s.RestartPolicy == "" {
		s.RestartPolicy = corev1.RestartPolicyAlways
	}
	if s.SecurityContext == nil {
		s.SecurityContext = &corev1.PodSecurityContext{}
	}
	orElse(&s.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
	if s.SchedulerName == "" {
		s.SchedulerName = corev1.DefaultSchedulerName
	}
	for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			defaultContainer(&list[i])
		}
	}
}

func defaultContainer(c *corev1.Container) {
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = corev1.PullIfNotPresent
		if name := c.Image[strings.LastIndex(c.Image, "/")+1:]; !strings.ContainsAny(name, ":@") || strings.HasSuffix(name, ":latest") {
			c.ImagePullPolicy = corev1.PullAlways
		}
	}
	if c.TerminationMessagePath == "" {
		c.TerminationMessagePath = corev1.TerminationMessagePathDefault
	}
	if c.TerminationMessagePolicy == "" {
		c.TerminationMessagePolicy = corev1.TerminationMessageReadFile
	}
	for i := range c.Ports {
		if c.Ports[i].Protocol == "" {
			c.Ports[i].Protocol = corev1.ProtocolTCP
		}
	}
}

// checkContainers looks at what everybody needs; the rest of a pod is taken as it comes.
func checkContainers(s *corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	if len(s.Containers) == 0 {
		errs = append(errs, field.Required(path.Child("containers"), ""))
	}
	for i, c := range s.Containers {
		at := path.Child("containers").Index(i)
		if c.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		if c.Image == "" {
			errs = append(errs, field.Required(at.Child("image"), ""))
		}
	}
	return errs
}

// checkTemplate looks at what workloads have in common.
func checkTemplate(selector *metav1.LabelSelector, template *corev1.PodTemplateSpec, replicas *int32, needed bool) (errs field.ErrorList) {
	path := field.NewPath("spec")
	if replicas != nil && *replicas < 0 {
		errs = append(errs, field.Invalid(path.Child("replicas"), *replicas, "must be greater than or equal to 0"))
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	switch {
	case selector == nil && needed:
		errs = append(errs, field.Required(path.Child("selector"), ""))
	case selector != nil && s != nil && s.Empty():
		errs = append(errs, field.Invalid(path.Child("selector"), selector, "empty selector is invalid"))
	case err != nil:
		errs = append(errs, field.Invalid(path.Child("selector"), selector, "invalid label selector"))
	}
	if err == nil && !s.Matches(labels.Set(template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), template.Labels, "`selector` does not match template `labels`"))
	}
	return append(errs, checkContainers(&template.Spec, path.Child("template", "spec"))...)
}

// checkPodChange lets through what may be changed of a pod: images, its deadline, tolerations and gates.
func checkPodChange(o, old client.Object) (errs field.ErrorList) {
	is, was := o.(*corev1.Pod), old.(*corev1.Pod)
	if equality.Semantic.DeepEqual(is.Spec, was.Spec) {
		return nil
	}
	errs = checkContainers(&is.Spec, field.NewPath("spec"))
	if len(is.Spec.Containers) != len(was.Spec.Containers) {
		return append(errs, field.Forbidden(field.NewPath("spec", "containers"), "pod updates may not add or remove containers"))
	}
	switch path, now, before := field.NewPath("spec", "activeDeadlineSeconds"), is.Spec.ActiveDeadlineSeconds, was.Spec.ActiveDeadlineSeconds; {
	case now == nil && before != nil:
		errs = append(errs, field.Invalid(path, nil, "must not update from a positive integer to nil value"))
	case now != nil && before != nil && *now > *before:
		return append(errs, field.Invalid(path, *now, "must be less than or equal to previous value"))
	}
	for _, t := range was.Spec.Tolerations {
		if !slices.ContainsFunc(is.Spec.Tolerations, func(x corev1.Toleration) bool { return x.MatchToleration(&t) }) {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "tolerations"), "existing toleration can not be modified except its tolerationSeconds"))
			break
		}
	}
	for i, g := range is.Spec.SchedulingGates {
		if !slices.Contains(was.Spec.SchedulingGates, g) {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "schedulingGates").Index(i).Child("name"), "only deletion is allowed, but found new scheduling gate '"+g.Name+"'"))
		}
	}
	spec := is.Spec.DeepCopy()
	for i := range spec.Containers {
		spec.Containers[i].Image = was.Spec.Containers[i].Image
	}
	spec.Tolerations, spec.SchedulingGates = was.Spec.Tolerations, was.Spec.SchedulingGates
	spec.ActiveDeadlineSeconds = was.Spec.ActiveDeadlineSeconds
	if !equality.Semantic.DeepEqual(*spec, was.Spec) {
		errs = append(errs, field.Forbidden(field.NewPath("spec"), "pod updates may not change fields other than images, activeDeadlineSeconds, tolerations and schedulingGates"))
	}
	return errs
}

// setCondition is how kube-apiserver itself writes a pod's condition.
func setCondition(p *corev1.Pod, c corev1.PodCondition) {
	p.Status.Conditions = slices.Clone(p.Status.Conditions)
	for i := range p.Status.Conditions {
		was := &p.Status.Conditions[i]
		if was.Type != c.Type {
			continue
		}
		if was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
		*was = c
		return
	}
	p.Status.Conditions = append(p.Status.Conditions, c)
}

// bind puts a pod on a node.
func (s *Server) bind(k *kind, key types.NamespacedName, b *corev1.Binding) (client.Object, error) {
	switch {
	case b.Name != "" && b.Name != key.Name:
		return nil, apierrors.NewBadRequest("name in URL does not match name in Binding object")
	case b.Target.Kind != "" && b.Target.Kind != "Node":
		return nil, unnamed(`target.kind: Unsupported value: "` + b.Target.Kind + `": supported values: "Node", "<empty>"`)
	case b.Target.Name == "":
		return nil, unnamed("target.name: Required value")
	}
	old, _ := k.objects[key].(*corev1.Pod)
	var refused error
	switch {
	case old == nil:
		return nil, k.notFound(key.Name)
	case b.UID != "" && b.UID != old.UID:
		return nil, k.precondition(key.Name, "UID", string(b.UID), string(old.UID))
	case b.ResourceVersion != "" && b.ResourceVersion != old.ResourceVersion:
		return nil, k.precondition(key.Name, "ResourceVersion", b.ResourceVersion, old.ResourceVersion)
	case old.DeletionTimestamp != nil:
		refused = fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", old.Name)
	case old.Spec.NodeName != "":
		refused = fmt.Errorf("pod %v is already assigned to node %q", old.Name, old.Spec.NodeName)
	case len(old.Spec.SchedulingGates) > 0:
		refused = fmt.Errorf("pod %v has non-empty .spec.schedulingGates", old.Name)
	}
	if refused != nil {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, key.Name, refused)
	}
	pod := old.DeepCopy()
	pod.Spec.NodeName, pod.Status.NominatedNodeName = b.Target.Name, ""
	if len(b.Annotations) > 0 && pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, b.Annotations)
	if len(b.Labels) > 0 && pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	maps.Copy(pod.Labels, b.Labels)
	setCondition(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: s.time()})
	return s.put(k, pod), nil
}

// unnamed is an error that kube-apiserver gives no reason for.
func unnamed(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: message}}
}

// evict deletes a pod if its budget allows it.
func (s *Server) evict(k *kind, key types.NamespacedName, e *policyv1.Eviction) (client.Object, error) {
	if e.Name != key.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	pod, _ := k.objects[key].(*corev1.Pod)
	if pod == nil {
		return nil, k.notFound(key.Name)
	}
	var options metav1.DeleteOptions
	if e.DeleteOptions != nil {
		options = *e.DeleteOptions
	}
	if !idle(pod) {
		if err := s.spend(pod); err != nil {
			return nil, err
		}
	}
	if p := options.Preconditions; p != nil {
		if err := k.expected(pod, p); err != nil {
			return nil, err
		}
	}
	marked := pod.DeepCopy()
	setCondition(marked, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting", LastTransitionTime: s.time(),
	})
	now := s.store(k, marked, pod)
	if options.Preconditions != nil && options.Preconditions.ResourceVersion != nil {
		options.Preconditions = &metav1.Preconditions{UID: options.Preconditions.UID, ResourceVersion: new(now.GetResourceVersion())}
	}
	return s.delete(k, key, options)
}

// idle says whether a pod's end disrupts nothing.
func idle(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodPending || p.DeletionTimestamp != nil
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
}

// maxDisrupted is how many evictions a budget may have that the disruption controller has not seen.
const maxDisrupted = 2000

// spend takes one disruption from a pod's budget.
func (s *Server) spend(pod *corev1.Pod) error {
	k := s.mustKind(&policyv1.PodDisruptionBudget{})
	var found []*policyv1.PodDisruptionBudget
	for _, key := range k.keys {
		budget := k.objects[key].(*policyv1.PodDisruptionBudget)
		if selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector); key.Namespace == pod.Namespace && err == nil && selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, budget)
		}
	}
	switch {
	case len(found) == 0:
		return nil
	case len(found) > 1:
		return unnamed("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.")
	}
	budget := found[0]
	if !ready(pod) {
		if p := budget.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
			return nil
		}
		if budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy && budget.Status.DesiredHealthy > 0 {
			return nil
		}
	}
	if err := overspent(budget); err != nil {
		return err
	}
	b := budget.DeepCopy()
	b.Status.DisruptionsAllowed--
	if b.Status.DisruptionsAllowed == 0 {
		s.setAllowed(b)
	}
	if b.Status.DisruptedPods == nil {
		b.Status.DisruptedPods = map[string]metav1.Time{}
	}
	b.Status.DisruptedPods[pod.Name] = s.time()
	s.put(k, b)
	return nil
}

// overspent says why a budget allows no eviction.
func overspent(b *policyv1.PodDisruptionBudget) error {
	refuse := func(err *apierrors.StatusError, format string, args ...any) error {
		cause := metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: "The disruption budget " + b.Name + " " + fmt.Sprintf(format, args...)}
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, cause)
		return err
	}
	const message = "Cannot evict pod as it would violate the pod's disruption budget."
	resource := schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"}
	is := &b.Status
	switch {
	case is.ObservedGeneration < b.Generation:
		return refuse(apierrors.NewTooManyRequests(message, 10), "is still being processed by the server.")
	case is.DisruptionsAllowed < 0:
		return refuse(apierrors.NewForbidden(resource, b.Name, errors.New("pdb disruptions allowed is negative")), "does not allow evicting pods currently: pdb disruptions allowed is negative")
	case len(is.DisruptedPods) > maxDisrupted:
		return refuse(apierrors.NewForbidden(resource, b.Name, errors.New("DisruptedPods map too big - too many evictions not confirmed by PDB controller")), "does not allow evicting pods currently: too many pending evictions not confirmed by PDB controller")
	case is.DisruptionsAllowed > 0:
		return nil
	}
	err := apierrors.NewTooManyRequests(message, 0)
	allowed := meta.FindStatusCondition(is.Conditions, policyv1.DisruptionAllowedCondition)
	told := allowed != nil && allowed.Status == metav1.ConditionFalse && allowed.Message != ""
	switch {
	case told && allowed.Reason == policyv1.SyncFailedReason:
		return refuse(err, "does not allow evicting pods currently because it failed sync: %s", allowed.Message)
	case is.CurrentHealthy <= is.DesiredHealthy:
		return refuse(err, "needs %d healthy pods and has %d currently", is.DesiredHealthy, is.CurrentHealthy)
	case told:
		return refuse(err, "does not allow evicting pods currently (%s): %s", allowed.Reason, allowed.Message)
	}
	return refuse(err, "does not allow evicting pods currently")
}
