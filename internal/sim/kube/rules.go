package kube

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// rules are what kube-apiserver does differently from kind to kind. What is nil does nothing.
type rules struct {
	// status says that there is a status subresource, so that the rest cannot change it.
	status bool
	// statusMeta says that a write of the status changes no metadata.
	statusMeta bool
	// generation says that a change of the spec counts.
	generation bool
	// unconditional updates need no resourceVersion.
	unconditional bool
	// createOnUpdate lets an update create what is not there.
	createOnUpdate bool
	// loose kinds take any finalizer that has the form of one.
	loose bool
	// name checks names before everything else, if anything does.
	name apivalidation.ValidateNameFunc

	defaults     func(obj client.Object)
	create       func(s *Server, obj client.Object)
	update       func(s *Server, obj, old client.Object)
	statusUpdate func(obj, old client.Object)
	check        func(obj client.Object) field.ErrorList
	checkChange  func(obj, old client.Object) field.ErrorList
	checkStatus  func(obj, old client.Object) field.ErrorList
	// grace is for how many seconds an object that is deleted stays.
	grace func(obj client.Object, asked *int64) int64
	// fields are what objects can be selected by, besides their name and namespace.
	fields map[string]func(client.Object) string
}

// clusterScoped are Kubernetes' kinds without a namespace.
var clusterScoped = kindSet(
	corev1.SchemeGroupVersion, "Node", "Namespace", "PersistentVolume", "ComponentStatus",
	storagev1.SchemeGroupVersion, "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment", "VolumeAttributesClass",
	schedulingv1.SchemeGroupVersion, "PriorityClass",
	rbacv1.SchemeGroupVersion, "ClusterRole", "ClusterRoleBinding",
	resourcev1.SchemeGroupVersion, "ResourceSlice", "DeviceClass",
	nodev1.SchemeGroupVersion, "RuntimeClass",
	networkingv1.SchemeGroupVersion, "IngressClass", "IPAddress", "ServiceCIDR",
	certificatesv1.SchemeGroupVersion, "CertificateSigningRequest",
	flowcontrolv1.SchemeGroupVersion, "FlowSchema", "PriorityLevelConfiguration",
	apiextensionsv1.SchemeGroupVersion, "CustomResourceDefinition",
	admissionv1.SchemeGroupVersion, "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
)

func kindSet(list ...any) map[schema.GroupKind]bool {
	out, group := map[schema.GroupKind]bool{}, ""
	for _, x := range list {
		switch x := x.(type) {
		case schema.GroupVersion:
			group = x.Group
		case string:
			out[schema.GroupKind{Group: group, Kind: x}] = true
		}
	}
	return out
}

// rulesOf are the rules for a kind.
func rulesOf(k *kind) *rules {
	r := &rules{unconditional: true, name: apivalidation.NameIsDNSSubdomain, status: len(k.status) > 0}
	switch {
	case k.custom != nil:
		r.unconditional, r.status = false, k.custom.status
		r.create = func(_ *Server, obj client.Object) {
			delete(obj.(*unstructured.Unstructured).Object, "status")
			obj.SetGeneration(1)
		}
		return r
	case k.gvk.Group == corev1.GroupName || k.gvk.Group == appsv1.GroupName || builtin[k.gvk.Group]:
		special(k.gvk.Kind, r)
	}
	r.count(k)
	return r
}

// count keeps the generation where a kind has one, and the status apart.
func (r *rules) count(k *kind) {
	create, update := r.create, r.update
	r.create = func(s *Server, obj client.Object) {
		if r.generation {
			obj.SetGeneration(1)
		}
		if r.status && k.gvk.Kind != "Node" {
			part(obj, k.status).SetZero()
		}
		if create != nil {
			create(s, obj)
		}
	}
	if !r.generation {
		return
	}
	r.update = func(s *Server, obj, old client.Object) {
		if update != nil {
			update(s, obj, old)
		}
		if len(k.spec) > 0 && !equality.Semantic.DeepEqual(part(obj, k.spec).Addr().Interface(), part(old, k.spec).Addr().Interface()) {
			obj.SetGeneration(old.GetGeneration() + 1)
		}
	}
}

func of[T client.Object](do func(T)) func(client.Object) { return func(o client.Object) { do(o.(T)) } }

// builtin are the groups, besides the first two, that have kinds that are not like most.
var builtin = map[string]bool{
	policyv1.GroupName: true, batchv1.GroupName: true, coordinationv1.GroupName: true, storagev1.GroupName: true, schedulingv1.GroupName: true,
	resourcev1.GroupName: true, apiextensionsv1.GroupName: true,
}

// special sets the rules of kinds that are not like most.
func special(kind string, r *rules) {
	switch kind {
	case "Pod":
		podRules(r)
	case "Node":
		nodeRules(r)
	case "Namespace":
		namespaceRules(r)
	case "Event":
		eventRules(r)
	case "PersistentVolume":
		volumeRules(r)
	case "PersistentVolumeClaim":
		volumeClaimRules(r)
	case "Service":
		r.createOnUpdate, r.name = true, apivalidation.NameIsDNS1035Label
	case "PodDisruptionBudget":
		budgetRules(r)
	case "ReplicaSet":
		replicaSetRules(r)
	case "Deployment":
		deploymentRules(r)
	case "DaemonSet":
		daemonSetRules(r)
	case "StatefulSet":
		statefulSetRules(r)
	case "Job":
		r.generation = true
	case "Lease":
		leaseRules(r)
	case "CSINode":
		r.unconditional, r.statusMeta = false, true
	case "VolumeAttachment":
		attachmentRules(r)
	case "StorageClass":
		storageClassRules(r)
	case "PriorityClass":
		priorityRules(r)
	case "ResourceSlice":
		sliceRules(r)
	case "ResourceClaim":
		r.statusMeta = true
	case "CustomResourceDefinition":
		r.generation, r.unconditional = true, false
	}
}

func replicaSetRules(r *rules) {
	r.generation = true
	r.defaults = of(func(o *appsv1.ReplicaSet) { defaultReplicas(&o.Spec.Replicas, &o.Spec.Template) })
	r.check = func(o client.Object) field.ErrorList {
		rs := o.(*appsv1.ReplicaSet)
		return checkTemplate(rs.Spec.Selector, &rs.Spec.Template, rs.Spec.Replicas, true)
	}
	r.checkChange = func(o, old client.Object) field.ErrorList {
		return append(r.check(o), apivalidation.ValidateImmutableField(o.(*appsv1.ReplicaSet).Spec.Selector, old.(*appsv1.ReplicaSet).Spec.Selector, field.NewPath("spec", "selector"))...)
	}
}

func nodeRules(r *rules) {
	r.create = func(_ *Server, o client.Object) {
		node := o.(*corev1.Node)
		taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
		if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
			node.Spec.Taints = append(node.Spec.Taints, taint)
		}
	}
	r.defaults = of(func(n *corev1.Node) {
		if n.Status.Allocatable == nil && n.Status.Capacity != nil {
			n.Status.Allocatable = maps.Clone(n.Status.Capacity)
		}
	})
	r.checkChange = func(o, old client.Object) (errs field.ErrorList) {
		is, was := o.(*corev1.Node).Spec.ProviderID, old.(*corev1.Node).Spec.ProviderID
		switch path := field.NewPath("spec", "providerID"); {
		case was == "" || is == was:
		case is == "":
			errs = append(errs, field.Invalid(path, nil, "field cannot be cleared once set"))
		default:
			errs = append(errs, field.Invalid(path, nil, "field cannot be modified once set"))
		}
		return errs
	}
	r.fields = map[string]func(client.Object) string{
		"spec.unschedulable": func(o client.Object) string { return strconv.FormatBool(o.(*corev1.Node).Spec.Unschedulable) },
	}
}

func namespaceRules(r *rules) {
	r.name = apivalidation.ValidateNamespaceName
	r.create = func(_ *Server, o client.Object) {
		ns := o.(*corev1.Namespace)
		ns.Status.Phase = corev1.NamespaceActive
		if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
			ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
		}
	}
	r.defaults = of(func(ns *corev1.Namespace) {
		if ns.Name != "" && ns.Labels[corev1.LabelMetadataName] != ns.Name {
			ns.Labels = maps.Clone(ns.Labels)
			if ns.Labels == nil {
				ns.Labels = map[string]string{}
			}
			ns.Labels[corev1.LabelMetadataName] = ns.Name
		}
	})
	r.update = func(_ *Server, o, old client.Object) {
		o.(*corev1.Namespace).Spec.Finalizers = old.(*corev1.Namespace).Spec.Finalizers
	}
	r.fields = map[string]func(client.Object) string{
		"status.phase": func(o client.Object) string { return string(o.(*corev1.Namespace).Status.Phase) },
	}
}

func eventRules(r *rules) {
	r.createOnUpdate, r.name, r.loose = true, nil, true
	r.check = func(o client.Object) (errs field.ErrorList) {
		e := o.(*corev1.Event)
		if e.InvolvedObject.Namespace == "" && e.Namespace != metav1.NamespaceDefault && e.Namespace != metav1.NamespaceSystem || e.InvolvedObject.Namespace != "" && e.InvolvedObject.Namespace != e.Namespace {
			errs = append(errs, field.Invalid(field.NewPath("involvedObject", "namespace"), e.InvolvedObject.Namespace, "does not match event.namespace"))
		}
		return errs
	}
	event := func(get func(*corev1.Event) string) func(client.Object) string {
		return func(o client.Object) string { return get(o.(*corev1.Event)) }
	}
	r.fields = map[string]func(client.Object) string{
		"reason":                         event(func(e *corev1.Event) string { return e.Reason }),
		"type":                           event(func(e *corev1.Event) string { return e.Type }),
		"source":                         event(func(e *corev1.Event) string { return cmp.Or(e.Source.Component, e.ReportingController) }),
		"reportingComponent":             event(func(e *corev1.Event) string { return e.ReportingController }),
		"involvedObject.kind":            event(func(e *corev1.Event) string { return e.InvolvedObject.Kind }),
		"involvedObject.namespace":       event(func(e *corev1.Event) string { return e.InvolvedObject.Namespace }),
		"involvedObject.name":            event(func(e *corev1.Event) string { return e.InvolvedObject.Name }),
		"involvedObject.uid":             event(func(e *corev1.Event) string { return string(e.InvolvedObject.UID) }),
		"involvedObject.apiVersion":      event(func(e *corev1.Event) string { return e.InvolvedObject.APIVersion }),
		"involvedObject.resourceVersion": event(func(e *corev1.Event) string { return e.InvolvedObject.ResourceVersion }),
		"involvedObject.fieldPath":       event(func(e *corev1.Event) string { return e.InvolvedObject.FieldPath }),
	}
}

func volumeRules(r *rules) {
	r.defaults = of(func(v *corev1.PersistentVolume) {
		if v.Spec.PersistentVolumeReclaimPolicy == "" {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}
		if v.Spec.VolumeMode == nil {
			v.Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
		}
	})
	r.create = func(s *Server, o client.Object) {
		v := o.(*corev1.PersistentVolume)
		v.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: new(s.time())}
		protect(v, "kubernetes.io/pv-protection")
	}
}

func volumeClaimRules(r *rules) {
	r.defaults = of(func(c *corev1.PersistentVolumeClaim) {
		if c.Spec.VolumeMode == nil {
			c.Spec.VolumeMode = new(corev1.PersistentVolumeFilesystem)
		}
		if c.Status.Phase == "" {
			c.Status.Phase = corev1.ClaimPending
		}
	})
	r.create = func(_ *Server, o client.Object) {
		o.(*corev1.PersistentVolumeClaim).Status.Phase = corev1.ClaimPending
		protect(o, "kubernetes.io/pvc-protection")
	}
}

// protect adds a finalizer, as admission does to objects that something may still use.
func protect(o client.Object, finalizer string) {
	if !slices.Contains(o.GetFinalizers(), finalizer) {
		o.SetFinalizers(append(o.GetFinalizers(), finalizer))
	}
}

func deploymentRules(r *rules) {
	r.generation = true
	r.defaults = of(func(d *appsv1.Deployment) {
		defaultReplicas(&d.Spec.Replicas, &d.Spec.Template)
		if d.Spec.Strategy.Type == "" {
			d.Spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
		}
		if d.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
			if d.Spec.Strategy.RollingUpdate == nil {
				d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
			}
			orElse(&d.Spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
			orElse(&d.Spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
		}
		orElse(&d.Spec.RevisionHistoryLimit, 10)
		orElse(&d.Spec.ProgressDeadlineSeconds, 600)
	})
	r.update = func(_ *Server, o, old client.Object) {
		if !equality.Semantic.DeepEqual(o.GetAnnotations(), old.GetAnnotations()) {
			o.SetGeneration(old.GetGeneration() + 1)
		}
	}
	r.statusUpdate = func(o, old client.Object) { o.SetLabels(old.GetLabels()) }
	r.check = func(o client.Object) field.ErrorList {
		d := o.(*appsv1.Deployment)
		return checkTemplate(d.Spec.Selector, &d.Spec.Template, d.Spec.Replicas, true)
	}
	r.checkChange = func(o, old client.Object) field.ErrorList {
		return append(r.check(o), apivalidation.ValidateImmutableField(o.(*appsv1.Deployment).Spec.Selector, old.(*appsv1.Deployment).Spec.Selector, field.NewPath("spec", "selector"))...)
	}
}

func daemonSetRules(r *rules) {
	r.generation = true
	r.defaults = of(func(d *appsv1.DaemonSet) {
		defaultTemplate(&d.Spec.Template)
		u := &d.Spec.UpdateStrategy
		if u.Type == "" {
			u.Type = appsv1.RollingUpdateDaemonSetStrategyType
		}
		if u.Type == appsv1.RollingUpdateDaemonSetStrategyType {
			if u.RollingUpdate == nil {
				u.RollingUpdate = &appsv1.RollingUpdateDaemonSet{}
			}
			orElse(&u.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
			orElse(&u.RollingUpdate.MaxSurge, intstr.FromInt32(0))
		}
		orElse(&d.Spec.RevisionHistoryLimit, 10)
	})
	count := func(o client.Object, n int64) {
		a := maps.Clone(o.GetAnnotations())
		if a == nil {
			a = map[string]string{}
		}
		a[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(n, 10)
		o.SetAnnotations(a)
	}
	r.create = func(_ *Server, o client.Object) { count(o, 1) }
	r.update = func(_ *Server, o, old client.Object) {
		n, _ := strconv.ParseInt(old.GetAnnotations()[appsv1.DeprecatedTemplateGeneration], 10, 64)
		if !equality.Semantic.DeepEqual(o.(*appsv1.DaemonSet).Spec.Template, old.(*appsv1.DaemonSet).Spec.Template) {
			n++
		}
		count(o, n)
	}
	r.check = func(o client.Object) field.ErrorList {
		d := o.(*appsv1.DaemonSet)
		return checkTemplate(d.Spec.Selector, &d.Spec.Template, nil, false)
	}
}

func statefulSetRules(r *rules) {
	r.generation = true
	r.defaults = of(func(x *appsv1.StatefulSet) {
		defaultReplicas(&x.Spec.Replicas, &x.Spec.Template)
		if x.Spec.PodManagementPolicy == "" {
			x.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
		}
		u := &x.Spec.UpdateStrategy
		if u.Type == "" {
			u.Type = appsv1.RollingUpdateStatefulSetStrategyType
			if u.RollingUpdate == nil {
				u.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
			}
		}
		if u.Type == appsv1.RollingUpdateStatefulSetStrategyType && u.RollingUpdate != nil {
			orElse(&u.RollingUpdate.Partition, 0)
			orElse(&u.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		}
		if x.Spec.PersistentVolumeClaimRetentionPolicy == nil {
			x.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}
		}
		p := x.Spec.PersistentVolumeClaimRetentionPolicy
		for _, to := range []*appsv1.PersistentVolumeClaimRetentionPolicyType{&p.WhenDeleted, &p.WhenScaled} {
			if *to == "" {
				*to = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
			}
		}
		orElse(&x.Spec.RevisionHistoryLimit, 10)
	})
	r.check = func(o client.Object) field.ErrorList {
		x := o.(*appsv1.StatefulSet)
		return checkTemplate(x.Spec.Selector, &x.Spec.Template, x.Spec.Replicas, true)
	}
}

func leaseRules(r *rules) {
	r.unconditional, r.createOnUpdate, r.loose = false, true, true
	r.check = func(o client.Object) (errs field.ErrorList) {
		spec := o.(*coordinationv1.Lease).Spec
		if d := spec.LeaseDurationSeconds; d != nil && *d <= 0 {
			errs = append(errs, field.Invalid(field.NewPath("spec", "leaseDurationSeconds"), *d, "must be greater than 0"))
		}
		if n := spec.LeaseTransitions; n != nil && *n < 0 {
			errs = append(errs, field.Invalid(field.NewPath("spec", "leaseTransitions"), *n, "must be greater than or equal to 0"))
		}
		return errs
	}
	r.checkChange = func(o, _ client.Object) field.ErrorList { return r.check(o) }
}

func attachmentRules(r *rules) {
	r.unconditional, r.statusMeta = false, true
	r.check = func(o client.Object) (errs field.ErrorList) {
		spec, path := o.(*storagev1.VolumeAttachment).Spec, field.NewPath("spec")
		if spec.Attacher == "" {
			errs = append(errs, field.Required(path.Child("attacher"), ""))
		}
		if spec.Source.PersistentVolumeName == nil && spec.Source.InlineVolumeSpec == nil {
			errs = append(errs, field.Required(path.Child("source"), "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
		}
		if spec.NodeName == "" {
			errs = append(errs, field.Invalid(path.Child("nodeName"), "", "must be the name of a node"))
		}
		return errs
	}
	r.checkChange = func(o, old client.Object) field.ErrorList {
		is, was := o.(*storagev1.VolumeAttachment).Spec, old.(*storagev1.VolumeAttachment).Spec
		if errs := r.check(o); len(errs) > 0 || equality.Semantic.DeepEqual(is, was) {
			return errs
		}
		return field.ErrorList{field.Invalid(field.NewPath("spec"), is, "field is immutable")}
	}
}

func storageClassRules(r *rules) {
	r.defaults = of(func(c *storagev1.StorageClass) {
		orElse(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
		orElse(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
	})
}

func priorityRules(r *rules) {
	r.defaults = of(func(c *schedulingv1.PriorityClass) { orElse(&c.PreemptionPolicy, corev1.PreemptLowerPriority) })
	r.create = func(_ *Server, o client.Object) { o.SetGeneration(1) }
}

func sliceRules(r *rules) {
	r.generation = true
	r.fields = map[string]func(client.Object) string{
		resourcev1.ResourceSliceSelectorDriver: func(o client.Object) string { return o.(*resourcev1.ResourceSlice).Spec.Driver },
		resourcev1.ResourceSliceSelectorNodeName: func(o client.Object) string {
			if name := o.(*resourcev1.ResourceSlice).Spec.NodeName; name != nil {
				return *name
			}
			return ""
		},
	}
}

// orElse fills in what is missing.
func orElse[T any](at **T, value T) {
	if *at == nil {
		*at = &value
	}
}

func defaultReplicas(replicas **int32, template *corev1.PodTemplateSpec) {
	orElse(replicas, 1)
	defaultTemplate(template)
}
