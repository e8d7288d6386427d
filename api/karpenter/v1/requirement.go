package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Operators that only Karpenter's own requirements know; pod node affinity has no such words (A31).
const (
	// OperatorGte admits label values that are integers equal to or above the given one.
	OperatorGte corev1.NodeSelectorOperator = "Gte"
	// OperatorLte admits label values that are integers equal to or below the given one.
	OperatorLte corev1.NodeSelectorOperator = "Lte"
)

// LabelValue is the text of a label's value.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:message="a label value must be empty or begin and end with a letter or digit, with letters, digits, '-', '_' and '.' between",rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')"
type LabelValue = string

// RequirementKey is the label that a requirement speaks about.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=316
// +kubebuilder:validation:XValidation:message="key must be a label key such as example.com/team: an optional lower-case domain and '/', then letters, digits, '-', '_' and '.' that begin and end with a letter or digit",rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')"
// +kubebuilder:validation:XValidation:message="key kubernetes.io/hostname is not allowed: Karpenter names the nodes; use topology.kubernetes.io/zone or another label",rule="self != 'kubernetes.io/hostname'"
// +kubebuilder:validation:XValidation:message="key in domain karpenter.sh is restricted: only karpenter.sh/capacity-type and, in a NodeClaim, karpenter.sh/nodepool may be used",rule="!self.matches('^([^/]*[.])?karpenter[.]sh/') || self in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool']"
// +kubebuilder:validation:XValidation:message="key in domain karpenter.k8s.aws is restricted: use one of the labels that Karpenter sets, for example karpenter.k8s.aws/instance-category, instance-family, instance-generation, instance-size, instance-cpu or instance-memory",rule="!self.matches('^([^/]*[.])?karpenter[.]k8s[.]aws/') || self in ['karpenter.k8s.aws/ec2nodeclass', 'karpenter.k8s.aws/capacity-reservation-id', 'karpenter.k8s.aws/capacity-reservation-type', 'karpenter.k8s.aws/capacity-reservation-interruptible', 'karpenter.k8s.aws/instance-encryption-in-transit-supported', 'karpenter.k8s.aws/instance-category', 'karpenter.k8s.aws/instance-hypervisor', 'karpenter.k8s.aws/instance-family', 'karpenter.k8s.aws/instance-generation', 'karpenter.k8s.aws/instance-local-nvme', 'karpenter.k8s.aws/instance-size', 'karpenter.k8s.aws/instance-cpu', 'karpenter.k8s.aws/instance-cpu-manufacturer', 'karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz', 'karpenter.k8s.aws/instance-memory', 'karpenter.k8s.aws/instance-ebs-bandwidth', 'karpenter.k8s.aws/instance-network-bandwidth', 'karpenter.k8s.aws/instance-gpu-name', 'karpenter.k8s.aws/instance-gpu-manufacturer', 'karpenter.k8s.aws/instance-gpu-count', 'karpenter.k8s.aws/instance-gpu-memory', 'karpenter.k8s.aws/instance-accelerator-name', 'karpenter.k8s.aws/instance-accelerator-manufacturer', 'karpenter.k8s.aws/instance-accelerator-count', 'karpenter.k8s.aws/instance-capability-flex', 'karpenter.k8s.aws/instance-tenancy', 'karpenter.k8s.aws/nitro-sandbox', 'karpenter.k8s.aws/placement-group-id', 'karpenter.k8s.aws/placement-group-partition']"
type RequirementKey = string

// NodeSelectorRequirementWithMinValues narrows the nodes that may be launched by one label, and may ask that
// a number of different values stay possible.
// +kubebuilder:validation:XValidation:message="operator In needs at least one entry in values",rule="self.operator != 'In' || (has(self.values) && self.values.size() > 0)"
// +kubebuilder:validation:XValidation:message="operator Gt, Lt, Gte or Lte needs exactly one entry in values, a whole number of 0 or more such as \"4\"",rule="!(self.operator in ['Gt', 'Lt', 'Gte', 'Lte']) || (has(self.values) && self.values.size() == 1 && self.values[0].matches('^[0-9]+$'))"
// +kubebuilder:validation:XValidation:message="with operator In, values must have at least as many entries as minValues says",rule="!(self.operator == 'In' && has(self.minValues)) || (has(self.values) && self.values.size() >= self.minValues)"
type NodeSelectorRequirementWithMinValues struct {
	// key is the label that the requirement speaks about, for example topology.kubernetes.io/zone,
	// kubernetes.io/arch, karpenter.sh/capacity-type, node.kubernetes.io/instance-type,
	// karpenter.k8s.aws/instance-category, or a label of your own. kubernetes.io/hostname cannot be used.
	// +required
	Key RequirementKey `json:"key"`
	// operator relates the label to values. In and NotIn list values; Exists and DoesNotExist take none;
	// Gt, Lt, Gte and Lte compare whole numbers (above, below, at least, at most) and take one.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt;Gte;Lte
	// +required
	Operator corev1.NodeSelectorOperator `json:"operator"`
	// values are what the operator works with, always as strings: ["spot", "on-demand"] with In, ["4"] with Gt.
	// +kubebuilder:validation:items:MaxLength=1024
	// +listType=atomic
	// +optional
	Values []string `json:"values,omitempty"`
	// minValues asks that at least so many different values of the key stay possible when a node is launched
	// (1 to 50), so that a launch is not tied to very few instance types. Unset means no such demand. Where a key
	// appears more than once the largest number counts.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=50
	// +optional
	MinValues *int `json:"minValues,omitempty"`
}

// Taint keeps pods that do not tolerate it off a node. It has the fields of core/v1 Taint, so
// corev1.Taint(t) converts it.
type Taint struct {
	// key is the taint's name, for example example.com/dedicated.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:XValidation:message="key of a taint must be a name such as example.com/dedicated: an optional lower-case domain and '/', then letters, digits, '-', '_' and '.' that begin and end with a letter or digit",rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')"
	// +required
	Key string `json:"key"`
	// value is an optional text that tolerations can match, for example team-a.
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:XValidation:message="value of a taint must be empty or letters, digits, '-', '_' and '.' that begin and end with a letter or digit",rule="self == '' || self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')"
	// +optional
	Value string `json:"value,omitempty"`
	// effect says what happens to pods that do not tolerate the taint: NoSchedule keeps new ones away,
	// PreferNoSchedule tries to, NoExecute also evicts those that run.
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	// +required
	Effect corev1.TaintEffect `json:"effect"`
	// timeAdded is written by Kubernetes for NoExecute taints; leave it out.
	// +optional
	TimeAdded *metav1.Time `json:"timeAdded,omitempty"`
}

// NodeClassReference points at the cluster-scoped object that says how instances are launched in the cloud.
type NodeClassReference struct {
	// kind of the node class, for example EC2NodeClass.
	// +kubebuilder:validation:MinLength=1
	// +required
	Kind string `json:"kind"`
	// name of the node class object, for example default.
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name"`
	// group is the API group of the node class without a version, for example karpenter.k8s.aws.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:message="group must have no version: write karpenter.k8s.aws, not karpenter.k8s.aws/v1",rule="!self.contains('/')"
	// +kubebuilder:validation:MaxLength=253
	// +required
	Group string `json:"group"`
}

// Is says whether the reference points at a class of that group and kind. One that is not given points at none.
func (r *NodeClassReference) Is(kind schema.GroupKind) bool {
	return r != nil && r.Group == kind.Group && r.Kind == kind.Kind
}
