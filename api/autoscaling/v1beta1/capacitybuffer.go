package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "karpenter/api/karpenter/v1"
)

// CapacityBufferSpec says what is to be kept free: pods of one shape, and how many.
// +kubebuilder:validation:XValidation:message="podTemplateRef needs replicas or limits beside it, to say how many pods are to be kept free",rule="!has(self.podTemplateRef) || has(self.replicas) || has(self.limits)"
// +kubebuilder:validation:XValidation:message="podTemplateRef and scalableRef cannot be used together: remove one of the two",rule="!(has(self.podTemplateRef) && has(self.scalableRef))"
type CapacityBufferSpec struct {
	// provisioningStrategy says how capacity is kept free. buffer.x-k8s.io/active-capacity has nodes run for it.
	// +kubebuilder:default="buffer.x-k8s.io/active-capacity"
	// +optional
	ProvisioningStrategy *string `json:"provisioningStrategy,omitempty"`
	// podTemplateRef names a PodTemplate of the same namespace: the shape of the pods.
	// +optional
	PodTemplateRef *LocalObjectRef `json:"podTemplateRef,omitempty"`
	// scalableRef names a workload of the same namespace instead: the shape is that of its pods, and percentage is of its replicas. It
	// is a Deployment, StatefulSet, ReplicaSet, ReplicationController, Job, or anything that can be scaled.
	// +optional
	ScalableRef *ScalableRef `json:"scalableRef,omitempty"`
	// replicas is how many pods room is kept for. With percentage, the larger of the two counts.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// percentage is how many, as a share of the replicas of scalableRef, rounded up; at least one. With replicas, the larger of the two
	// counts.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Percentage *int32 `json:"percentage,omitempty"`
	// limits bound what all of them together request, for example {cpu: "20"}. Without replicas and percentage, room is kept for as
	// many as fit.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// LocalObjectRef names an object of the same namespace.
type LocalObjectRef struct {
	// name of the object.
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`
}

// ScalableRef names a workload that has replicas.
type ScalableRef struct {
	// apiGroup of the workload, for example apps; of the kinds that Kubernetes has it may be left out.
	// +optional
	APIGroup string `json:"apiGroup,omitempty"`
	// kind of the workload, for example Deployment.
	// +kubebuilder:validation:MinLength=1
	// +required
	Kind string `json:"kind"`
	// name of the workload.
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`
}

// CapacityBufferStatus is what is known about a buffer.
type CapacityBufferStatus struct {
	// podTemplateRef is the PodTemplate that is in use.
	// +optional
	PodTemplateRef *LocalObjectRef `json:"podTemplateRef,omitempty"`
	// replicas is how many pods room is kept for.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
	// podTemplateGeneration is the generation of the PodTemplate or workload that is in use.
	// +optional
	PodTemplateGeneration *int64 `json:"podTemplateGeneration,omitempty"`
	// conditions tell how far the buffer has got: ReadyForProvisioning, Provisioning and LimitedByQuotas.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []karpv1.Condition `json:"conditions,omitempty"`
	// provisioningStrategy is the one that is in use.
	// +optional
	ProvisioningStrategy *string `json:"provisioningStrategy,omitempty"`
}

// CapacityBuffer asks that room for some pods is kept free: nodes run for pods that do not exist yet, so that these start at once.
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,categories=autoscaling,shortName=cb
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Strategy",type="string",JSONPath=".spec.provisioningStrategy"
// +kubebuilder:printcolumn:name="PodTemplate",type="string",JSONPath=".status.podTemplateRef.name"
// +kubebuilder:printcolumn:name="Replicas",type="integer",JSONPath=".status.replicas"
// +kubebuilder:printcolumn:name="ConditionsType",type="string",JSONPath=".status.conditions[*].type"
// +kubebuilder:printcolumn:name="ConditionsStatus",type="string",JSONPath=".status.conditions[*].status"
// +kubebuilder:printcolumn:name="ConditionsReason",type="string",JSONPath=".status.conditions[*].reason"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type CapacityBuffer struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// spec is what you write.
	// +required
	Spec CapacityBufferSpec `json:"spec"`
	// status is what Karpenter observes.
	// +optional
	Status CapacityBufferStatus `json:"status,omitempty"`
}

// CapacityBufferList is a list of buffers.
// +kubebuilder:object:root=true
type CapacityBufferList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CapacityBuffer `json:"items"`
}
