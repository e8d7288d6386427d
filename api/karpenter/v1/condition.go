package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Condition is one observed fact about an object. It has the fields of metav1.Condition, so
// metav1.Condition(c) converts it; reason and message may be empty, as they are in objects of older versions (A38).
type Condition struct {
	// type names the fact, for example Ready.
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +required
	Type string `json:"type"`
	// status says whether the fact holds: True, False or Unknown.
	// +kubebuilder:validation:Enum=True;False;Unknown
	// +required
	Status metav1.ConditionStatus `json:"status"`
	// observedGeneration is the metadata.generation that the fact was judged for.
	// +kubebuilder:validation:Minimum=0
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// lastTransitionTime is when status last changed.
	// +required
	LastTransitionTime metav1.Time `json:"lastTransitionTime"`
	// reason is one word that says why.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^([A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?)?$`
	// +optional
	Reason string `json:"reason,omitempty"`
	// message is for people.
	// +kubebuilder:validation:MaxLength=32768
	// +optional
	Message string `json:"message"`
}
