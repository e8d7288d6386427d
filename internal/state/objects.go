// Package state turns Kubernetes objects into the engine's world: at once with Build, or event by event with a Mirror.
//
// It decides what an object means for planning (which pods need a node, what a node that is still starting will offer,
// where a volume can be used, which node a claim has become) and nothing else. An object that cannot be read is set aside by
// name in a list of problems, and the rest is converted; nothing panics on bad input. What has been decided and not been seen
// yet is assumed for a minute. The package writes nothing, calls nobody and has no clock of its own.
package state

import (
	"cmp"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "karpenter/api/karpenter/v1"
)

// Objects is what a snapshot is made from. Order does not matter.
type Objects struct {
	Pods        []*PodObject
	Nodes       []*corev1.Node
	Pools       []*v1.NodePool
	Claims      []*v1.NodeClaim
	DaemonSets  []*appsv1.DaemonSet
	Budgets     []*policyv1.PodDisruptionBudget
	Volumes     []*corev1.PersistentVolume
	VolumeUses  []*corev1.PersistentVolumeClaim
	Storage     []*storagev1.StorageClass
	CSINodes    []*storagev1.CSINode
	Namespaces  []*corev1.Namespace
	Services    []*corev1.Service
	ReplicaSets []*appsv1.ReplicaSet
	StatefulSet []*appsv1.StatefulSet
	// Ignored counts objects of kinds that planning does not read, by kind.
	Ignored map[string]int
}

// PodObject is a pod with its spec possibly shared: pods of one template often have the same spec to the byte, and then it is
// parsed once.
type PodObject struct {
	Meta   PodMeta
	Spec   *corev1.PodSpec
	Status PodStatus
}

// PodMeta is the part of a pod's metadata that planning reads.
type PodMeta struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	UID               string            `json:"uid"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	CreationTimestamp stamp             `json:"creationTimestamp"`
	DeletionTimestamp *stamp            `json:"deletionTimestamp"`
	OwnerReferences   []Owner           `json:"ownerReferences"`
	// DeletionGracePeriodSeconds is how long before DeletionTimestamp the pod was told to go.
	DeletionGracePeriodSeconds *int64 `json:"deletionGracePeriodSeconds"`
}

// Owner is what a pod belongs to.
type Owner struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Controller *bool  `json:"controller"`
}

// PodStatus is the part of a pod's status that planning reads.
type PodStatus struct {
	Phase             corev1.PodPhase `json:"phase"`
	NominatedNodeName string          `json:"nominatedNodeName"`
	Conditions        []PodCondition  `json:"conditions"`
	StartTime         *stamp          `json:"startTime"`
	//lint:ignore SA1019 older kubelets say here that a resize is not possible
	Resize                corev1.PodResizeStatus   `json:"resize"`
	ContainerStatuses     []corev1.ContainerStatus `json:"containerStatuses"`
	InitContainerStatuses []corev1.ContainerStatus `json:"initContainerStatuses"`
}

// PodCondition is a fact about a pod.
type PodCondition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
	LastTransitionTime stamp  `json:"lastTransitionTime"`
}

// FromPod reads a typed pod.
func FromPod(p *corev1.Pod) *PodObject {
	o := &PodObject{}
	o.read(p)
	return o
}

// read makes o say what p says, and reuses its memory.
func (o *PodObject) read(p *corev1.Pod) {
	owners, conditions := o.Meta.OwnerReferences[:0], o.Status.Conditions[:0]
	for i := range p.OwnerReferences {
		r := &p.OwnerReferences[i]
		owners = append(owners, Owner{r.APIVersion, r.Kind, r.Name, r.Controller})
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		conditions = append(conditions, PodCondition{string(c.Type), string(c.Status), c.Reason, c.Message, moment(c.LastTransitionTime)})
	}
	o.Meta = PodMeta{
		Name: p.Name, Namespace: cmp.Or(p.Namespace, "default"), UID: string(p.UID), Labels: p.Labels, Annotations: p.Annotations,
		CreationTimestamp: stamp(p.CreationTimestamp.Unix()), DeletionTimestamp: stampOf(p.DeletionTimestamp), OwnerReferences: owners,
		DeletionGracePeriodSeconds: p.DeletionGracePeriodSeconds,
	}
	o.Spec = &p.Spec
	o.Status = PodStatus{
		Phase: p.Status.Phase, NominatedNodeName: p.Status.NominatedNodeName, Conditions: conditions, StartTime: stampOf(p.Status.StartTime), Resize: p.Status.Resize,
		ContainerStatuses: p.Status.ContainerStatuses, InitContainerStatuses: p.Status.InitContainerStatuses,
	}
}

// moment is a time as a stamp; 0 for none.
func moment(t metav1.Time) stamp {
	if t.IsZero() {
		return 0
	}
	return stamp(t.Unix())
}

func stampOf(t *metav1.Time) *stamp {
	if t == nil {
		return nil
	}
	s := stamp(t.Unix())
	return &s
}

// Problem names an object that was set aside, or a part of it that was.
type Problem struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Text says what is wrong and what would be right.
	Text string `json:"text"`
}

// String prints the problem in one line.
func (p Problem) String() string { return p.Kind + " " + p.Name + ": " + p.Text }

func problem(kind, name, format string, args ...any) Problem {
	return Problem{Kind: kind, Name: name, Text: fmt.Sprintf(format, args...)}
}

func fullName(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
