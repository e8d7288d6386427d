package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "karpenter/api/karpenter/v1"
)

// ClusterAPINodeClassSpec says which scalable resources belong to the class.
type ClusterAPINodeClassSpec struct {
	// scalableResourceSelector selects, by their labels, the scalable resources (MachineDeployments, and MachineSets that no
	// MachineDeployment owns) that nodes of the class come from. Only those with the label node.cluster.x-k8s.io/karpenter-member are
	// looked at; an empty selector selects all of these. No scalable resource may belong to two classes.
	// +optional
	ScalableResourceSelector *metav1.LabelSelector `json:"scalableResourceSelector,omitempty"`
}

// ScalableResource is a scalable resource that nodes can come from.
type ScalableResource struct {
	// kind is MachineDeployment or MachineSet.
	// +required
	Kind string `json:"kind"`
	// namespace is that of the scalable resource in the management cluster.
	// +required
	Namespace string `json:"namespace"`
	// name is the name of the scalable resource.
	// +required
	Name string `json:"name"`
	// instanceType is the name of the instance type that it provides.
	// +required
	InstanceType string `json:"instanceType"`
	// zones are its failure domains.
	// +listType=atomic
	// +optional
	Zones []string `json:"zones,omitempty"`
	// price is what a node costs per hour in dollars. It is missing if no price is known: then the instance type that wastes least is
	// chosen.
	// +optional
	Price string `json:"price,omitempty"`
	// priceSource says where the price is from: Annotation, PriceFile or Estimate.
	// +optional
	PriceSource string `json:"priceSource,omitempty"`
}

// Values of priceSource.
const (
	PriceFromAnnotation = "Annotation"
	PriceFromFile       = "PriceFile"
	PriceEstimated      = "Estimate"
)

// Problem says why a scalable resource that the class selects is left out.
type Problem struct {
	// resource names the scalable resource: kind, namespace and name.
	// +required
	Resource string `json:"resource"`
	// message says which field is wrong and what would be right.
	// +required
	Message string `json:"message"`
}

// ClusterAPINodeClassStatus is what is known about a class.
type ClusterAPINodeClassStatus struct {
	// scalableResources are those that nodes of the class can come from, by namespace and name.
	// +listType=atomic
	// +optional
	ScalableResources []ScalableResource `json:"scalableResources,omitempty"`
	// problems are about scalable resources that are selected and left out.
	// +listType=atomic
	// +optional
	Problems []Problem `json:"problems,omitempty"`
	// conditions tell whether nodes can be launched: Ready sums up ScalableResourcesReady and ValidationSucceeded.
	// +optional
	Conditions []karpv1.Condition `json:"conditions,omitempty"`
}

// ClusterAPINodeClass says which scalable resources of a Cluster API management cluster nodes of a pool come from.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=karpenter,path=clusterapinodeclasses,shortName={capinc,capincs}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type ClusterAPINodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is what you write.
	// +optional
	Spec ClusterAPINodeClassSpec `json:"spec,omitempty"`
	// status is what Karpenter observes.
	// +optional
	Status ClusterAPINodeClassStatus `json:"status,omitempty"`
}

// ClusterAPINodeClassList is a list of classes.
// +kubebuilder:object:root=true
type ClusterAPINodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterAPINodeClass `json:"items"`
}
