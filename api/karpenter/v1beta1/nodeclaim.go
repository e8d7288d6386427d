package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "karpenter/api/karpenter/v1"
)

// NodeClaimSpec says what kind of node is asked for.
type NodeClaimSpec struct {
	// taints are on the node from the moment it joins; only pods that tolerate all of them can run there.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Taints []karpv1.Taint `json:"taints,omitempty"`
	// startupTaints are on the node when it joins and must be taken off again by something else, such as a network plugin.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	StartupTaints []karpv1.Taint `json:"startupTaints,omitempty"`
	// requirements narrow which instances may be launched; all of them must hold. At most 100.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +required
	Requirements []NodeSelectorRequirementWithMinValues `json:"requirements"`
	// resources are what the node must at least offer to pods.
	// +optional
	Resources *ResourceRequirements `json:"resources,omitempty"`
	// nodeClassRef names the object with the cloud's settings. Only its name is needed; left out, it means the EC2NodeClass
	// called default.
	// +optional
	NodeClassRef *NodeClassReference `json:"nodeClassRef,omitempty"`
	// kubelet sets fields of the kubelet's configuration file. In v1 these settings are in the EC2NodeClass; those given here
	// are kept in an annotation and stay in force for this claim.
	// +optional
	Kubelet *KubeletConfiguration `json:"kubelet,omitempty"`
}

// NodeSelectorRequirementWithMinValues narrows the nodes that may be launched by one label, and may ask that a number of
// different values stay possible.
// +kubebuilder:validation:XValidation:message="operator In needs at least one entry in values",rule="self.operator != 'In' || (has(self.values) && self.values.size() > 0)"
// +kubebuilder:validation:XValidation:message="operator Gt or Lt needs exactly one entry in values, a whole number of 0 or more such as \"4\"",rule="!(self.operator in ['Gt', 'Lt']) || (has(self.values) && self.values.size() == 1 && self.values[0].matches('^[0-9]+$'))"
// +kubebuilder:validation:XValidation:message="with operator In, values must have at least as many entries as minValues says",rule="!(self.operator == 'In' && has(self.minValues)) || (has(self.values) && self.values.size() >= self.minValues)"
type NodeSelectorRequirementWithMinValues struct {
	// key is the label that the requirement speaks about, for example topology.kubernetes.io/zone, kubernetes.io/arch,
	// karpenter.sh/capacity-type, karpenter.k8s.aws/instance-category, or a label of your own.
	// +required
	Key karpv1.RequirementKey `json:"key"`
	// operator relates the label to values. In and NotIn list values; Exists and DoesNotExist take none; Gt and Lt compare
	// whole numbers and take one.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt
	// +required
	Operator corev1.NodeSelectorOperator `json:"operator"`
	// values are what the operator works with, always as strings: ["spot", "on-demand"] with In, ["4"] with Gt.
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitempty"`
	// minValues asks that at least so many different values of the key stay possible when a node is launched (1 to 50).
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	// +optional
	MinValues *int `json:"minValues,omitempty"`
}

// NodeClassReference points at the object that says how instances are launched in the cloud.
type NodeClassReference struct {
	// kind of the node class. Left out, it means EC2NodeClass.
	// +optional
	Kind string `json:"kind,omitempty"`
	// name of the node class object, for example default.
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`
	// apiVersion of the node class, group and version, for example karpenter.k8s.aws/v1beta1. Left out, it means that.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:message="apiVersion must be group/version, for example karpenter.k8s.aws/v1beta1; it can also be left out",rule="self == '' || self.matches('^[^/]+/[^/]+$')"
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
}

// NodeClaim asks for one node, and follows it until it is gone. This is the older form of karpenter.sh/v1 NodeClaim.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodeclaims,scope=Cluster,categories=karpenter
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Type",type="string",JSONPath=".metadata.labels.node\\.kubernetes\\.io/instance-type"
// +kubebuilder:printcolumn:name="Zone",type="string",JSONPath=".metadata.labels.topology\\.kubernetes\\.io/zone"
// +kubebuilder:printcolumn:name="Node",type="string",JSONPath=".status.nodeName"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Capacity",type="string",JSONPath=".metadata.labels.karpenter\\.sh/capacity-type",priority=1
// +kubebuilder:printcolumn:name="NodePool",type="string",JSONPath=".metadata.labels.karpenter\\.sh/nodepool",priority=1
// +kubebuilder:printcolumn:name="NodeClass",type="string",JSONPath=".spec.nodeClassRef.name",priority=1
type NodeClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says what kind of node is asked for.
	// +required
	Spec NodeClaimSpec `json:"spec"`
	// status is what is known of the instance and its node; Karpenter writes it.
	// +optional
	Status karpv1.NodeClaimStatus `json:"status,omitempty"`
}

// NodeClaimList is a list of NodeClaim.
// +kubebuilder:object:root=true
type NodeClaimList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeClaim `json:"items"`
}
