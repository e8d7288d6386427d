// Package trim drops from Kubernetes objects what nobody here reads, and makes objects share what they have in common.
package trim

import (
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "karpenter/api/karpenter/v1"
)

// Object drops from an object what nobody here reads, before a cache stores it, and makes objects share what they have in common:
// pods of one template above all, and nodes and claims of one pool. It has the form of a cache's transform function and changes the
// object that it is given. What stays of a pod: labels, owners, times, what constrains where it runs and what it asks for, and how
// far it has come.
func Object(obj any) (any, error) {
	o, ok := obj.(metav1.Object)
	if !ok {
		return obj, nil
	}
	o.SetManagedFields(nil)
	switch x := obj.(type) {
	case *corev1.Pod:
		trimPod(x)
	case *corev1.Node:
		DropManifest(o)
		trimNode(x)
	case *v1.NodeClaim:
		DropManifest(o)
		trimClaim(x)
	case *appsv1.DaemonSet:
		x.Spec.Template.Spec = Spec(&x.Spec.Template.Spec)
		DropManifest(o)
	case *appsv1.ReplicaSet: // a cluster has as many as it has ever had versions of its Deployments
		x.Status, x.Labels, x.Annotations = appsv1.ReplicaSetStatus{}, nil, nil
		if x.Spec.Replicas != nil && *x.Spec.Replicas == 0 {
			x.Spec.Template = corev1.PodTemplateSpec{}
		} else {
			x.Spec.Template.Spec = Spec(&x.Spec.Template.Spec)
		}
	case *corev1.Service: // of these three, selectors are read (N1)
		x.Labels, x.Annotations, x.Status, x.Spec = nil, nil, corev1.ServiceStatus{}, corev1.ServiceSpec{Selector: common.labels(x.Spec.Selector)}
	case *corev1.ReplicationController:
		x.Labels, x.Annotations, x.Status, x.Spec = nil, nil, corev1.ReplicationControllerStatus{}, corev1.ReplicationControllerSpec{Selector: common.labels(x.Spec.Selector)}
	case *appsv1.StatefulSet:
		x.Labels, x.Annotations, x.Status, x.Spec = nil, nil, appsv1.StatefulSetStatus{}, appsv1.StatefulSetSpec{Selector: x.Spec.Selector}
	default:
		DropManifest(o)
	}
	return obj, nil
}

// DropManifest drops the copy of the manifest that kubectl apply leaves on objects.
func DropManifest(o metav1.Object) {
	a := o.GetAnnotations()
	if _, ok := a[corev1.LastAppliedConfigAnnotation]; !ok {
		return
	}
	a = maps.Clone(a)
	delete(a, corev1.LastAppliedConfigAnnotation)
	o.SetAnnotations(a)
}

func trimNode(n *corev1.Node) {
	n.Labels, n.Annotations = common.own(n.Labels, n.Name), common.own(n.Annotations, n.Name)
	st := &n.Status
	st.Images, st.VolumesInUse, st.VolumesAttached = nil, nil, nil
	st.Capacity, st.Allocatable = common.list(st.Capacity), common.list(st.Allocatable)
	for i := range st.Conditions {
		c := &st.Conditions[i]
		common.words((*string)(&c.Type), (*string)(&c.Status), &c.Reason, &c.Message)
	}
	info := &st.NodeInfo
	common.words(&info.KernelVersion, &info.OSImage, &info.ContainerRuntimeVersion, &info.KubeletVersion, &info.OperatingSystem, &info.Architecture)
	for i := range n.Spec.Taints {
		t := &n.Spec.Taints[i]
		common.words(&t.Key, &t.Value, (*string)(&t.Effect))
	}
}

func trimClaim(c *v1.NodeClaim) {
	c.Labels, c.Annotations = common.own(c.Labels, c.Name), common.own(c.Annotations, c.Name)
	c.Spec.Requirements = common.requirements(c.Spec.Requirements)
	c.Spec.Resources.Requests = common.list(c.Spec.Resources.Requests)
	c.Status.Capacity, c.Status.Allocatable = common.list(c.Status.Capacity), common.list(c.Status.Allocatable)
	common.words(&c.Status.ImageID)
	for i := range c.Status.Conditions {
		is := &c.Status.Conditions[i]
		common.words(&is.Type, (*string)(&is.Status), &is.Reason, &is.Message)
	}
}

// keptAnnotations are those of other domains that are read on pods.
var keptAnnotations = []string{corev1.PodDeletionCost, corev1.MirrorPodAnnotationKey}

// keptConditions are the conditions of pods that are read. The others only repeat what these say.
var keptConditions = []corev1.PodConditionType{
	corev1.PodScheduled, corev1.PodReady, corev1.DisruptionTarget, corev1.PodResizePending, corev1.PodResizeInProgress,
}

func trimPod(p *corev1.Pod) {
	p.Namespace, p.GenerateName = common.text(p.Namespace), ""
	p.Labels = common.labels(p.Labels)
	p.Annotations = Annotations(p.Annotations)
	p.OwnerReferences = common.owners(p.OwnerReferences)

	node, volumes := common.text(p.Spec.NodeName), p.Spec.Volumes
	given := Given(p)
	spec := Spec(&p.Spec)
	spec.NodeName, spec.Volumes = "", nil
	affinity := spec.Affinity
	if namesNode(affinity) {
		spec.Affinity = nil
	}
	p.Spec = common.spec(&spec)
	p.Spec.NodeName, p.Spec.Volumes = node, trimVolumes(volumes)
	if namesNode(affinity) {
		p.Spec.Affinity = affinity
	}

	given.Phase, given.NominatedNodeName, given.StartTime = corev1.PodPhase(common.text(string(p.Status.Phase))), p.Status.NominatedNodeName, p.Status.StartTime
	given.Conditions = Conditions(p.Status.Conditions)
	p.Status = given
}

// namesNode says whether an affinity is for one node, by its name. Each pod of a DaemonSet has one of its own, and nothing else that
// tells it from the others.
func namesNode(a *corev1.Affinity) bool {
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return false
	}
	terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool { return len(t.MatchFields) > 0 })
}

func Annotations(m map[string]string) map[string]string {
	var out map[string]string
	for k, v := range m {
		domain, _, _ := strings.Cut(k, "/")
		if domain != v1.Group && !strings.HasSuffix(domain, "."+v1.Group) && !slices.Contains(keptAnnotations, k) {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[common.text(k)] = common.text(v)
	}
	return out
}

func Conditions(list []corev1.PodCondition) []corev1.PodCondition {
	var kept []corev1.PodCondition
	for i := range list {
		if c := &list[i]; slices.Contains(keptConditions, c.Type) {
			kept = append(kept, corev1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime})
		}
	}
	return common.conditions(kept)
}

// Given is what a pod and its containers have been given where that is more than what is asked for, as after a resize in place, or
// counts instead of it, as with a resize that the node cannot make. Of such a pod it has all, since what counts is the sum.
func Given(p *corev1.Pod) corev1.PodStatus {
	given := corev1.PodStatus{Resize: p.Status.Resize}
	if Resized(&p.Spec, &p.Status) {
		given.Resources, given.AllocatedResources = p.Status.Resources, p.Status.AllocatedResources
		given.ContainerStatuses, given.InitContainerStatuses = givenOnly(p.Status.ContainerStatuses), givenOnly(p.Status.InitContainerStatuses)
	}
	return given
}

func givenOnly(list []corev1.ContainerStatus) (out []corev1.ContainerStatus) {
	for i := range list {
		if s := &list[i]; s.AllocatedResources != nil || s.Resources != nil {
			out = append(out, corev1.ContainerStatus{Name: s.Name, AllocatedResources: s.AllocatedResources, Resources: s.Resources})
		}
	}
	return out
}

// Spec is what is read of a pod's spec.
func Spec(s *corev1.PodSpec) corev1.PodSpec {
	return corev1.PodSpec{
		Containers: trimContainers(s.Containers, s.HostNetwork), InitContainers: trimContainers(s.InitContainers, s.HostNetwork), Volumes: trimVolumes(s.Volumes),
		NodeName: s.NodeName, NodeSelector: s.NodeSelector, Affinity: s.Affinity, Tolerations: s.Tolerations, TopologySpreadConstraints: s.TopologySpreadConstraints,
		PriorityClassName: s.PriorityClassName, Priority: s.Priority, PreemptionPolicy: s.PreemptionPolicy, SchedulerName: s.SchedulerName,
		SchedulingGates: s.SchedulingGates, TerminationGracePeriodSeconds: s.TerminationGracePeriodSeconds, ActiveDeadlineSeconds: s.ActiveDeadlineSeconds,
		RestartPolicy: s.RestartPolicy, HostNetwork: s.HostNetwork, Overhead: s.Overhead, RuntimeClassName: s.RuntimeClassName,
		ResourceClaims: s.ResourceClaims, Resources: s.Resources,
	}
}

func trimContainers(list []corev1.Container, hostNetwork bool) []corev1.Container {
	if len(list) == 0 {
		return nil
	}
	out := make([]corev1.Container, len(list))
	for i := range list {
		c := &list[i]
		out[i] = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
		for _, p := range c.Ports {
			if p.HostPort != 0 || hostNetwork {
				out[i].Ports = append(out[i].Ports, corev1.ContainerPort{HostPort: p.HostPort, ContainerPort: p.ContainerPort, Protocol: p.Protocol, HostIP: p.HostIP})
			}
		}
	}
	return out
}

// trimVolumes keeps the volumes that lead to a claim.
func trimVolumes(list []corev1.Volume) []corev1.Volume {
	var out []corev1.Volume
	for i := range list {
		v := &list[i]
		switch {
		case v.PersistentVolumeClaim != nil:
			out = append(out, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: v.PersistentVolumeClaim}})
		case v.Ephemeral != nil:
			out = append(out, corev1.Volume{Name: v.Name, VolumeSource: corev1.VolumeSource{Ephemeral: v.Ephemeral}})
		}
	}
	return out
}

// Resized says whether what the pod or its containers have been given counts, not only what its spec asks for.
func Resized(spec *corev1.PodSpec, status *corev1.PodStatus) bool {
	return Infeasible(status) || spec.Resources != nil && hasMore(spec.Resources, status.AllocatedResources, status.Resources) ||
		haveMore(spec.Containers, status.ContainerStatuses) || haveMore(spec.InitContainers, status.InitContainerStatuses)
}

func haveMore(containers []corev1.Container, statuses []corev1.ContainerStatus) bool {
	for i := range statuses {
		st := &statuses[i]
		if st.AllocatedResources == nil && st.Resources == nil {
			continue
		}
		for k := range containers {
			if c := &containers[k]; c.Name == st.Name && hasMore(&c.Resources, st.AllocatedResources, st.Resources) {
				return true
			}
		}
	}
	return false
}

// hasMore says whether more has been allocated or given than asks for; a limit stands for a missing request.
func hasMore(asks *corev1.ResourceRequirements, allocated corev1.ResourceList, given *corev1.ResourceRequirements) bool {
	more := func(list corev1.ResourceList) bool {
		for k, q := range list {
			have, ok := asks.Requests[k]
			if !ok {
				have = asks.Limits[k]
			}
			if q.Cmp(have) > 0 {
				return true
			}
		}
		return false
	}
	return more(allocated) || given != nil && more(given.Requests)
}

// Infeasible says whether the node can never make the resize that the pod asks for: then what it has counts, not what it asks for.
func Infeasible(s *corev1.PodStatus) bool {
	for i := range s.Conditions {
		if c := &s.Conditions[i]; c.Type == corev1.PodResizePending {
			return c.Reason == corev1.PodReasonInfeasible
		}
	}
	return s.Resize == corev1.PodResizeStatusInfeasible
}

// SameSpec says whether two specs are surely converted alike: they share everything that is read of them.
func SameSpec(a, b *corev1.PodSpec) bool {
	return SameSlice(a.Containers, b.Containers) && SameSlice(a.InitContainers, b.InitContainers) && SameSlice(a.Tolerations, b.Tolerations) &&
		SameSlice(a.TopologySpreadConstraints, b.TopologySpreadConstraints) && SameSlice(a.ResourceClaims, b.ResourceClaims) &&
		a.Affinity == b.Affinity && a.Resources == b.Resources && a.HostNetwork == b.HostNetwork &&
		(a.Priority == b.Priority || (a.Priority != nil && b.Priority != nil && *a.Priority == *b.Priority)) &&
		maps.Equal(a.NodeSelector, b.NodeSelector) && maps.Equal(a.Overhead, b.Overhead)
}

// SameSlice says whether two slices are one.
func SameSlice[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
