// Package dump reads and writes what decisions are made from as text: lists of Kubernetes objects as kubectl prints them, and
// catalogues of instance types.
package dump

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	v1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
)

// Objects is what a snapshot is made from. Order does not matter.
type Objects struct {
	// Pods may share parts of their specs: pods of one template often have the same to the byte, and then it is parsed once.
	Pods        []*corev1.Pod
	Nodes       []*corev1.Node
	Pools       []*v1.NodePool
	Claims      []*v1.NodeClaim
	Overlays    []*v1alpha1.NodeOverlay
	DaemonSets  []*appsv1.DaemonSet
	Budgets     []*policyv1.PodDisruptionBudget
	Volumes     []*corev1.PersistentVolume
	VolumeUses  []*corev1.PersistentVolumeClaim
	Storage     []*storagev1.StorageClass
	CSINodes    []*storagev1.CSINode
	Namespaces  []*corev1.Namespace
	Services    []*corev1.Service
	Controllers []*corev1.ReplicationController
	ReplicaSets []*appsv1.ReplicaSet
	StatefulSet []*appsv1.StatefulSet
	Buffers     []*bufferv1.CapacityBuffer
	Templates   []*corev1.PodTemplate
	// Ignored counts objects of kinds that planning does not read, by kind.
	Ignored map[string]int
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

// NewProblem names an object and says what is wrong with it.
func NewProblem(kind, name, format string, args ...any) Problem {
	return Problem{Kind: kind, Name: name, Text: fmt.Sprintf(format, args...)}
}
