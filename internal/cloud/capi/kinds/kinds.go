// Package kinds has the parts of Cluster API's objects that Karpenter reads: clusters, scalable resources and Machines, in the versions
// v1beta2 and v1beta1, whose fields differ in few of these. Fields that are not here are dropped when an object is read, so that objects
// must never be written whole: changes are sent as patches.
//
// The types are plain values; they decide nothing and touch nothing.
package kinds

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is Cluster API's.
const Group = "cluster.x-k8s.io"

// Versions are those that are understood, the preferred one first.
var Versions = []string{"v1beta2", "v1beta1"}

// Labels and annotations of Cluster API.
const (
	DeploymentNameLabel = "cluster.x-k8s.io/deployment-name"

	DeleteMachineAnnotation = "cluster.x-k8s.io/delete-machine"
	PausedAnnotation        = "cluster.x-k8s.io/paused"
	MinSizeAnnotation       = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	MaxSizeAnnotation       = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
	RevisionAnnotation      = "machinedeployment.clusters.x-k8s.io/revision"

	// CapacityPrefix begins the annotations that describe nodes of a scalable resource.
	CapacityPrefix = "capacity.cluster-autoscaler.kubernetes.io/"
)

// Phases of a Machine that matter.
const PhaseFailed = "Failed"

// Conditions that matter: of a Machine, and of a MachineDeployment.
const (
	ConditionUpToDate            = "UpToDate"
	ConditionInfrastructureReady = "InfrastructureReady"
	ReasonNotUpToDate            = "NotUpToDate"
	ConditionPaused              = "Paused"
)

// AddToScheme returns a function that registers the kinds under a version.
func AddToScheme(version string) func(*runtime.Scheme) error {
	return func(scheme *runtime.Scheme) error {
		gv := schema.GroupVersion{Group: Group, Version: version}
		scheme.AddKnownTypes(gv, &Cluster{}, &ClusterList{}, &MachineDeployment{}, &MachineDeploymentList{}, &MachineSet{}, &MachineSetList{}, &Machine{}, &MachineList{})
		metav1.AddToGroupVersion(scheme, gv)
		return nil
	}
}

// Cluster is a cluster that Machines belong to.
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Paused bool `json:"paused,omitempty"`
	} `json:"spec,omitempty"`
}

// ClusterList is a list of clusters.
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}

// Scalable is what MachineDeployments and MachineSets have in common.
type Scalable struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ScalableSpec   `json:"spec,omitempty"`
	Status            ScalableStatus `json:"status,omitempty"`
}

// ScalableSpec is how many Machines of which template there are to be.
type ScalableSpec struct {
	ClusterName string               `json:"clusterName,omitempty"`
	Replicas    *int32               `json:"replicas,omitempty"`
	Paused      bool                 `json:"paused,omitempty"`
	Selector    metav1.LabelSelector `json:"selector,omitempty"`
	Template    MachineTemplate      `json:"template,omitempty"`
}

// MachineTemplate is what Machines are made from.
type MachineTemplate struct {
	Metadata TemplateMeta `json:"metadata,omitempty"`
	Spec     MachineSpec  `json:"spec,omitempty"`
}

// TemplateMeta is what Machines inherit.
type TemplateMeta struct {
	Labels map[string]string `json:"labels,omitempty"`
}

// ScalableStatus is how far the number of Machines is.
type ScalableStatus struct {
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	Replicas           int32 `json:"replicas,omitempty"`
	Told
}

// MachineDeployment is a scalable resource with rollouts.
type MachineDeployment struct{ Scalable }

// MachineDeploymentList is a list of MachineDeployments.
type MachineDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineDeployment `json:"items"`
}

// MachineSet is a scalable resource without rollouts.
type MachineSet struct{ Scalable }

// MachineSetList is a list of MachineSets.
type MachineSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MachineSet `json:"items"`
}

// Machine is an instance and its node.
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              MachineSpec   `json:"spec,omitempty"`
	Status            MachineStatus `json:"status,omitempty"`
}

// MachineSpec is what a Machine is to be.
type MachineSpec struct {
	ClusterName       string         `json:"clusterName,omitempty"`
	InfrastructureRef Reference      `json:"infrastructureRef,omitempty"`
	Version           string         `json:"version,omitempty"`
	ProviderID        string         `json:"providerID,omitempty"`
	FailureDomain     string         `json:"failureDomain,omitempty"`
	Taints            []corev1.Taint `json:"taints,omitempty"`
}

// Reference names another object: v1beta2 gives its group, v1beta1 its group and version.
type Reference struct {
	APIGroup   string `json:"apiGroup,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Name       string `json:"name,omitempty"`
}

// GroupKind is the kind of the object.
func (r Reference) GroupKind() schema.GroupKind {
	group := r.APIGroup
	if gv, err := schema.ParseGroupVersion(r.APIVersion); group == "" && err == nil {
		group = gv.Group
	}
	return schema.GroupKind{Group: group, Kind: r.Kind}
}

// MachineStatus is what a Machine is.
type MachineStatus struct {
	Phase         string `json:"phase,omitempty"`
	FailureDomain string `json:"failureDomain,omitempty"`
	NodeRef       struct {
		Name string `json:"name,omitempty"`
	} `json:"nodeRef,omitempty"`
	// FailureReason and FailureMessage are v1beta1's; v1beta2 has them under deprecated.
	Failure
	Deprecated struct {
		V1Beta1 Failure `json:"v1beta1,omitempty"`
	} `json:"deprecated,omitempty"`
	Told
}

// Failure is why a Machine cannot become a node.
type Failure struct {
	FailureReason  string `json:"failureReason,omitempty"`
	FailureMessage string `json:"failureMessage,omitempty"`
}

// Told is what Cluster API says of an object.
type Told struct {
	Conditions []Condition `json:"conditions,omitempty"`
	// V1Beta2 has, in objects of v1beta1, the conditions of v1beta2.
	V1Beta2 struct {
		Conditions []Condition `json:"conditions,omitempty"`
	} `json:"v1beta2,omitempty"`
}

// clone is a copy that shares nothing.
func (t *Told) clone() Told {
	out := *t
	out.Conditions, out.V1Beta2.Conditions = slices.Clone(t.Conditions), slices.Clone(t.V1Beta2.Conditions)
	return out
}

// Condition is a condition, of either version.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Condition is the condition of a type, or an empty one.
func (t *Told) Condition(kind string) Condition {
	for _, list := range [][]Condition{t.V1Beta2.Conditions, t.Conditions} {
		for _, c := range list {
			if c.Type == kind {
				return c
			}
		}
	}
	return Condition{}
}

// Failed says why a Machine cannot become a node, if that is known.
func (s *MachineStatus) Failed() (why string, failed bool) {
	for _, f := range []Failure{s.Failure, s.Deprecated.V1Beta1} {
		if f.FailureReason != "" || f.FailureMessage != "" {
			return f.FailureReason + ": " + f.FailureMessage, true
		}
	}
	if s.Phase == PhaseFailed {
		return s.Condition(ConditionInfrastructureReady).Message, true
	}
	return "", false
}

// MachineList is a list of Machines.
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Machine `json:"items"`
}
