package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeClaimSpec says what kind of node is asked for. It cannot be changed once written: a different node is a different claim.
type NodeClaimSpec struct {
	// taints are on the node from the moment it joins; only pods that tolerate all of them can run there.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Taints []Taint `json:"taints,omitempty"`
	// startupTaints are on the node when it joins and must be taken off again by something else, such as a network
	// plugin. They do not keep pods from causing the node; it counts as initialized only once they are gone.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	StartupTaints []Taint `json:"startupTaints,omitempty"`
	// requirements narrow which instances may be launched; all of them must hold. Entries with the same key are intersected.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +required
	Requirements []NodeSelectorRequirementWithMinValues `json:"requirements" hash:"ignore"`
	// resources are what the node must at least offer to pods.
	// +optional
	Resources ResourceRequirements `json:"resources,omitempty" hash:"ignore"`
	// nodeClassRef names the object with the cloud's settings, for example an EC2NodeClass.
	// +required
	NodeClassRef *NodeClassReference `json:"nodeClassRef"`
	// terminationGracePeriod is the longest that draining may take once deletion began, for example 48h; when it has
	// passed the node is deleted even if pods or PodDisruptionBudgets still block it. Written with s, m and h.
	// Unset means wait for as long as it takes; 0s means do not wait at all.
	// +kubebuilder:validation:XValidation:message="terminationGracePeriod must be numbers with the units h, m and s, for example 48h or 1h30m; Never is not allowed, leave it out instead",rule="self.matches('^([0-9]+[hms])+$')"
	// +optional
	TerminationGracePeriod *Duration `json:"terminationGracePeriod,omitempty"`
	// expireAfter is the age at which the node is drained and replaced whatever else is true, for example 720h, or Never.
	// Written with s, m and h. Default: 720h (30 days).
	// +kubebuilder:default="720h"
	// +kubebuilder:validation:XValidation:message="expireAfter must be numbers with the units h, m and s, for example 720h or 1h30m, or Never",rule="self.matches('^(Never|([0-9]+[hms])+)$')"
	// +optional
	ExpireAfter NillableDuration `json:"expireAfter,omitempty"`
}

// ResourceRequirements is what a claim's node must offer to pods.
type ResourceRequirements struct {
	// requests is the sum of what the pending pods and the daemons ask for, by resource name, for example cpu: "2".
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

// NodeClaimStatus is what is known of the instance of a claim.
type NodeClaimStatus struct {
	// nodeName is the node that this instance became.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// providerID is the cloud's name for the instance, as on the node, for example aws:///us-east-1a/i-0123456789abcdef0.
	// +optional
	ProviderID string `json:"providerID,omitempty"`
	// imageID is the image that the instance was started from, for example ami-0123456789abcdef0.
	// +optional
	ImageID string `json:"imageID,omitempty"`
	// capacity is all that the instance has, by resource name.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// allocatable is the part of capacity that pods can use.
	// +optional
	Allocatable corev1.ResourceList `json:"allocatable,omitempty"`
	// conditions tell how far the node has come and what stands in its way. Ready is true when Launched, Registered and
	// Initialized are.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
	// lastPodEventTime is the last time a pod that is no daemon was bound to the node, finished or began to end there.
	// consolidateAfter counts from it.
	// +optional
	LastPodEventTime metav1.Time `json:"lastPodEventTime,omitempty"`
}

// NodeClaim asks for one node, and follows it until it is gone. Karpenter writes claims itself from a NodePool; one written
// by hand is launched too, and is never disrupted for savings.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=nodeclaims,scope=Cluster,categories=karpenter
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Type",type="string",JSONPath=".metadata.labels.node\\.kubernetes\\.io/instance-type"
// +kubebuilder:printcolumn:name="Capacity",type="string",JSONPath=".metadata.labels.karpenter\\.sh/capacity-type"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".metadata.labels.topology\\.kubernetes\\.io/zone"
// +kubebuilder:printcolumn:name="Node",type="string",JSONPath=".status.nodeName"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="ImageID",type="string",JSONPath=".status.imageID",priority=1
// +kubebuilder:printcolumn:name="ID",type="string",JSONPath=".status.providerID",priority=1
// +kubebuilder:printcolumn:name="NodePool",type="string",JSONPath=".metadata.labels.karpenter\\.sh/nodepool",priority=1
// +kubebuilder:printcolumn:name="NodeClass",type="string",JSONPath=".spec.nodeClassRef.name",priority=1
// +kubebuilder:printcolumn:name="Drifted",type="string",JSONPath=".status.conditions[?(@.type==\"Drifted\")].status",priority=1
type NodeClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what kind of node is asked for. It cannot be changed once written.
	// +kubebuilder:validation:XValidation:message="spec of a NodeClaim cannot be changed: delete the claim and create a new one",rule="self == oldSelf"
	// +required
	Spec NodeClaimSpec `json:"spec"`
	// status is what is known of the instance and its node; Karpenter writes it.
	// +optional
	Status NodeClaimStatus `json:"status,omitempty"`
}

// NodeClaimList is a list of NodeClaim.
// +kubebuilder:object:root=true
type NodeClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeClaim `json:"items"`
}
