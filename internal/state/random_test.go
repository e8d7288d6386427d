package state

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
)

// kinds are what random histories are made of; pods and nodes come often.
var kinds = []string{"pod", "pod", "pod2", "node", "node", "claim", "claim", "pool", "daemon", "budget", "pvc", "pv", "storage", "csi", "space", "overlay"}

// objectName makes names that collide between kinds.
func objectName(key string) string {
	kind, n, _ := strings.Cut(key, "/")
	switch kind {
	case "node", "claim", "csi":
		return "m-" + n
	case "pvc":
		return "data-" + n
	case "space":
		return "ns" + n
	}
	return kind + "-" + n
}

func (h *history) object(kind, key string) Object {
	meta := metav1.ObjectMeta{Name: objectName(key), CreationTimestamp: at(h.pick("age", 3))}
	if h.chance(8) {
		now := at(9)
		meta.DeletionTimestamp = &now
	}
	switch kind {
	case "pod", "pod2":
		return h.pod(meta, kind)
	case "node":
		return h.node(meta)
	case "claim":
		return h.claim(meta)
	case "pool":
		p := &v1.NodePool{ObjectMeta: meta}
		p.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "g", Kind: "k", Name: "default"}
		if h.chance(40) {
			p.Spec.Limits = v1.Limits{"cpu": resource.MustParse("10"), "example.com/fpga": resource.MustParse("2")}
		}
		return p
	case "overlay":
		return h.overlay(meta)
	case "daemon":
		meta.Namespace = "ns1"
		d := &appsv1.DaemonSet{ObjectMeta: meta}
		d.Spec.Template.Spec.Containers = []corev1.Container{h.container()}
		return d
	case "budget":
		meta.Namespace = "ns1"
		b := &policyv1.PodDisruptionBudget{ObjectMeta: meta}
		most := intstr.FromInt32(int32(h.pick("most", 2)))
		b.Spec.MaxUnavailable, b.Spec.Selector = &most, h.selector()
		return b
	}
	return h.storage(kind, meta)
}

// overlay is one that may be wrong, tie with others and select pools, types and offerings.
func (h *history) overlay(meta metav1.ObjectMeta) Object {
	o := &v1alpha1.NodeOverlay{ObjectMeta: meta}
	for _, list := range [][]string{{v1.NodePoolLabelKey, "pool-0", "pool-1"}, {corev1.LabelInstanceTypeStable, "small", "large", "none"}, {v1.CapacityTypeLabelKey, "spot"}} {
		if h.chance(30) {
			o.Spec.Requirements = append(o.Spec.Requirements, v1alpha1.Requirement{Key: list[0], Operator: "In", Values: []string{list[1+h.pick("value", len(list)-1)]}})
		}
	}
	if h.chance(50) {
		o.Spec.Weight = new(int32(h.pick("weight", 2)))
	}
	if h.chance(60) {
		o.Spec.PriceAdjustment = new([]string{"+1", "-30%", "-100%", "odd"}[h.pick("adjustment", 4)])
	}
	if h.chance(40) {
		o.Spec.Capacity = corev1.ResourceList{corev1.ResourceName([]string{"example.com/gpu", "example.com/fuse", "hugepages-2Mi", "cpu"}[h.pick("resource", 4)]): resource.MustParse(fmt.Sprint(1 + h.pick("amount", 2)))}
	}
	return o
}

func (h *history) storage(kind string, meta metav1.ObjectMeta) Object {
	modes := []storagev1.VolumeBindingMode{storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer}
	switch kind {
	case "pvc":
		meta.Namespace = "ns1"
		c := &corev1.PersistentVolumeClaim{ObjectMeta: meta}
		class := fmt.Sprintf("storage-%d", h.pick("storage", 3))
		c.Spec.StorageClassName = &class
		if h.chance(50) {
			c.Spec.VolumeName, c.Status.Phase = fmt.Sprintf("pv-%d", h.pick("pv", 3)), corev1.ClaimBound
		}
		return c
	case "pv":
		v := &corev1.PersistentVolume{ObjectMeta: meta}
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: fmt.Sprintf("driver-%d", h.pick("driver", 2))}
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: "In", Values: []string{h.zone()}}}},
		}}}
		return v
	case "storage":
		return &storagev1.StorageClass{ObjectMeta: meta, Provisioner: "driver-0", VolumeBindingMode: &modes[h.pick("mode", 2)]}
	case "csi":
		n := int32(h.pick("limit", 30))
		return &storagev1.CSINode{ObjectMeta: meta, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "driver-0", Allocatable: &storagev1.VolumeNodeResources{Count: &n}}}}}
	}
	meta.Labels = map[string]string{"tier": fmt.Sprint(h.pick("tier", 2))}
	return &corev1.Namespace{ObjectMeta: meta}
}

func (h *history) zone() string { return string(rune('a' + h.pick("zone", 2))) }

func (h *history) container() corev1.Container {
	c := corev1.Container{Name: "c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(fmt.Sprint(h.pick("cpu", 3)))}}}
	switch h.pick("extra", 12) {
	case 0:
		c.Resources.Requests["cpu"] = resource.MustParse("-1")
	case 1:
		c.Resources.Requests["example.com/gpu"] = resource.MustParse("1")
	case 2:
		c.Resources.Requests[corev1.ResourceName(fmt.Sprintf("example.com/x%d", h.pick("x", 200)))] = resource.MustParse("1")
	case 3:
		c.Ports = []corev1.ContainerPort{{HostPort: 80}}
	}
	return c
}

func (h *history) selector() *metav1.LabelSelector {
	key := []string{"app", "role", "rev"}[h.pick("key", 3)]
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: fmt.Sprint(h.pick("value", 2))}}
}

func (h *history) pod(meta metav1.ObjectMeta, kind string) *corev1.Pod {
	meta.Namespace = "ns1"
	if kind == "pod2" {
		meta.Namespace = "ns2"
	}
	meta.Labels = map[string]string{"app": fmt.Sprint(h.pick("app", 2)), "role": fmt.Sprint(h.pick("role", 2)), "rev": fmt.Sprint(h.pick("rev", 2))}
	meta.Annotations = map[string]string{v1.DoNotDisruptAnnotationKey: []string{"", "", "true", "1h", "-3", "false"}[h.pick("protect", 6)]}
	yes := true
	owner := []string{"ReplicaSet", "StatefulSet", "DaemonSet", "Node"}[h.pick("owner", 4)]
	set := h.pick("set", 3)
	meta.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: fmt.Sprintf("daemon-%d", set), UID: types.UID(fmt.Sprint(owner, set)), Controller: &yes}}
	p := &corev1.Pod{ObjectMeta: meta}
	p.Spec.Containers = []corev1.Container{h.container()}
	switch {
	case h.chance(5):
		meta.Annotations[v1.ExamplePodAnnotationKey] = "set"
	case h.chance(70):
		p.Spec.NodeName = fmt.Sprintf("m-%d", h.pick("at", 6))
		start := at(h.pick("start", 5000) - 4000)
		p.Status.StartTime = &start
		p.Status.Phase = []corev1.PodPhase{corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodSucceeded}[h.pick("phase", 4)]
	default:
		reason := []string{corev1.PodReasonUnschedulable, corev1.PodReasonUnschedulable, corev1.PodReasonSchedulingGated}[h.pick("reason", 3)]
		if h.chance(70) { // the scheduler has looked at it
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Reason: reason}}
		}
		if h.chance(40) {
			p.Status.NominatedNodeName = fmt.Sprintf("m-%d", h.pick("nominated", 6))
		}
	}
	if h.chance(30) {
		priority := int32(h.pick("priority", 3))
		p.Spec.Priority = &priority
	}
	if h.chance(30) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: int32(h.pick("skew", 2)), TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: "DoNotSchedule", LabelSelector: h.selector()}}
	}
	if h.chance(30) {
		term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: h.selector()}
		if h.chance(50) {
			term.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "1"}}
		}
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	}
	for range h.pick("volumes", 3) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("data-%d", h.pick("data", 4))}}})
	}
	if h.chance(15) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: corev1.ResourceList{"cpu": resource.MustParse("5")}}}
	}
	return p
}

// instance is a provider ID; several nodes and claims have the same.
func (h *history) instance() string {
	if h.chance(15) {
		return ""
	}
	return fmt.Sprintf("cloud/%d", h.pick("instance", 5))
}

func (h *history) node(meta metav1.ObjectMeta) *corev1.Node {
	meta.Labels = map[string]string{corev1.LabelTopologyZone: h.zone(), v1.CapacityTypeLabelKey: "spot", corev1.LabelHostname: meta.Name}
	if h.chance(70) {
		meta.Labels[v1.NodePoolLabelKey], meta.Labels[corev1.LabelInstanceTypeStable] = "pool-0", []string{"small", "large", ""}[h.pick("type", 3)]
	}
	for _, l := range []string{v1.NodeRegisteredLabelKey, v1.NodeInitializedLabelKey} {
		if h.chance(60) {
			meta.Labels[l] = "true"
		}
	}
	n := &corev1.Node{ObjectMeta: meta}
	n.Spec.ProviderID = h.instance()
	n.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse(fmt.Sprint(h.pick("cpu", 9) - 1)), "memory": resource.MustParse("4Gi"), "pods": resource.MustParse(fmt.Sprint(h.pick("slots", 9)))}
	n.Status.Allocatable = n.Status.Capacity
	if h.chance(20) {
		n.Spec.Taints = []corev1.Taint{{Key: []string{v1.DisruptedTaintKey, v1.UnregisteredTaintKey, "example.com/startup"}[h.pick("taint", 3)], Effect: "NoSchedule"}}
	}
	return n
}

func (h *history) claim(meta metav1.ObjectMeta) *v1.NodeClaim {
	meta.Labels = map[string]string{v1.NodePoolLabelKey: "pool-0", corev1.LabelTopologyZone: h.zone()}
	c := &v1.NodeClaim{ObjectMeta: meta}
	c.Spec.NodeClassRef = &v1.NodeClassReference{Name: "default"}
	c.Spec.StartupTaints = []v1.Taint{{Key: "example.com/startup", Effect: "NoSchedule"}}
	c.Spec.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1")}
	c.Spec.Requirements = []v1.NodeSelectorRequirementWithMinValues{{Key: corev1.LabelInstanceTypeStable, Operator: "In", Values: []string{"small", "large"}[:1+h.pick("types", 2)]}}
	if h.chance(70) {
		c.Status.ProviderID, c.Status.Allocatable = h.instance(), amounts("4", "6Gi")
		c.Status.Capacity = c.Status.Allocatable
	}
	if h.chance(40) {
		c.Status.NodeName = fmt.Sprintf("m-%d", h.pick("node", 6))
	}
	for _, t := range []string{v1.ConditionRegistered, v1.ConditionInitialized} {
		if h.chance(50) {
			c.Status.Conditions = append(c.Status.Conditions, v1.Condition{Type: t, Status: "True"})
		}
	}
	return c
}
