package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "karpenter/api/karpenter/v1"
)

// NodeOverlaySpec says which instance types are meant and what is different about them.
// +kubebuilder:validation:XValidation:message="price and priceAdjustment cannot be used together: remove one of the two",rule="!(has(self.price) && has(self.priceAdjustment))"
type NodeOverlaySpec struct {
	// requirements select what the overlay is for: instance types and offerings by their labels, pools by karpenter.sh/nodepool
	// and by the labels of their templates. All have to hold; an empty list selects everything. A price is changed for the
	// offerings that are selected, capacity for every instance type of which one is.
	// +kubebuilder:validation:MaxItems=100
	// +required
	Requirements []Requirement `json:"requirements"`
	// priceAdjustment changes the price: by an amount per hour ("+0.5", "-1.2") or by a share of it ("+10%", "-15%"). The result
	// is never below zero.
	// +kubebuilder:validation:Pattern=`^([+-][0-9]*\.?[0-9]+|\+[0-9]*\.?[0-9]+%|-[0-9]{1,2}(\.[0-9]+)?%|-100%)$`
	// +optional
	PriceAdjustment *string `json:"priceAdjustment,omitempty"`
	// price replaces the price per hour, for example "1.25".
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?$`
	// +optional
	Price *string `json:"price,omitempty"`
	// capacity adds extended resources to what an instance type has, for example {smarter-devices/fuse: "1"}. What every node has
	// of itself (cpu, memory, ephemeral-storage, pods) cannot be changed.
	// +kubebuilder:validation:XValidation:message="cpu, memory, ephemeral-storage and pods cannot be changed: capacity adds extended resources only",rule="self.all(resource, !(resource in ['cpu', 'memory', 'ephemeral-storage', 'pods']))"
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// weight orders overlays that change the same thing: the highest counts (1 to 10000). Unset counts as 0. Of two with the same
	// weight the one whose name is later in the alphabet counts, and the other has no effect at all (Conflict).
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +optional
	Weight *int32 `json:"weight,omitempty"`
}

// Requirement narrows what an overlay is for by one label.
// +kubebuilder:validation:XValidation:message="operator In or NotIn needs at least one entry in values",rule="!(self.operator in ['In', 'NotIn']) || (has(self.values) && self.values.size() > 0)"
// +kubebuilder:validation:XValidation:message="operator Gt, Lt, Gte or Lte needs exactly one entry in values, a whole number of 0 or more such as \"4\"",rule="!(self.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(self.values) && self.values.size() == 1 && self.values[0].matches('^[0-9]+$'))"
type Requirement struct {
	// key is the label that the requirement speaks about, for example node.kubernetes.io/instance-type.
	// +required
	Key karpv1.RequirementKey `json:"key"`
	// operator relates the label to values, as in a NodePool.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt;Gte;Lte
	// +required
	Operator corev1.NodeSelectorOperator `json:"operator"`
	// values are what the operator works with, always as strings.
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitempty"`
}

// NodeOverlayStatus is what is known about an overlay.
type NodeOverlayStatus struct {
	// conditions tell whether the overlay is in effect: Ready sums up ValidationSucceeded, which is False with reason
	// RuntimeValidation if the spec cannot be used, and with reason Conflict if another overlay of the same weight changes the same.
	// +optional
	Conditions []karpv1.Condition `json:"conditions,omitempty"`
}

// NodeOverlay corrects the price or the extended resources of instance types, for every decision from the next one on. It has an
// effect only with the feature gate NodeOverlay.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=karpenter,shortName=overlays
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Weight",type="integer",priority=1,JSONPath=".spec.weight"
type NodeOverlay struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is what you write.
	// +required
	Spec NodeOverlaySpec `json:"spec"`
	// status is what Karpenter observes.
	// +optional
	Status NodeOverlayStatus `json:"status,omitempty"`
}

// NodeOverlayList is a list of overlays.
// +kubebuilder:object:root=true
type NodeOverlayList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeOverlay `json:"items"`
}
