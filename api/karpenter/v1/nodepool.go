package v1

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodePoolSpec says which nodes may be made, how many, and how they may be disrupted.
// +kubebuilder:validation:XValidation:message="replicas cannot be added to or removed from an existing NodePool: create a new NodePool instead",rule="has(oldSelf.replicas) ? has(self.replicas) : !has(self.replicas)"
// +kubebuilder:validation:XValidation:message="weight cannot be used together with replicas: remove one of the two",rule="!(has(self.weight) && has(self.replicas))"
// +kubebuilder:validation:XValidation:message="limits may only hold the resource nodes when replicas is set",rule="!has(self.replicas) || !has(self.limits) || self.limits.all(resource, resource == 'nodes')"
type NodePoolSpec struct {
	// template is what each NodeClaim of this pool looks like. Nodes whose claim was made from an older template are
	// drifted, and are replaced as the disruption budgets allow.
	// +required
	Template NodeClaimTemplate `json:"template"`
	// disruption says when and how fast nodes may be disrupted for savings or because they drifted.
	// +kubebuilder:default={consolidateAfter: "0s"}
	// +optional
	Disruption Disruption `json:"disruption"`
	// limits stop the pool from growing: no node is added that would take the pool's total above any of them. Any resource
	// name can be limited, also nodes. Example: {cpu: "1000", memory: 1000Gi, nodes: "50"}. Unset means no limit.
	// +optional
	Limits Limits `json:"limits,omitempty"`
	// weight orders pools that could all serve a pod: the higher is tried first (1 to 100). Unset counts as 0.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Weight *int32 `json:"weight,omitempty"`
	// replicas makes the pool static: it holds this many nodes whether or not pods need them. It cannot be added to or
	// removed from an existing pool, excludes weight, and allows only limits.nodes. kubectl scale nodepool changes it.
	// +kubebuilder:validation:Minimum=0
	// +optional
	Replicas *int64 `json:"replicas,omitempty"`
}

// NodeClaimTemplate is what each claim of a pool looks like.
type NodeClaimTemplate struct {
	// metadata holds labels and annotations that every node of the pool gets.
	// +optional
	ObjectMeta `json:"metadata,omitempty"`
	// spec is copied into every claim of the pool.
	// +required
	Spec NodeClaimTemplateSpec `json:"spec"`
}

// ObjectMeta holds the metadata that a template gives to its claims and nodes.
// +kubebuilder:object:generate=false
type ObjectMeta struct {
	// labels are put on every claim and node of the pool and can be used in pod node selectors, for example {team: payments}.
	// At most 100. The domains karpenter.sh and karpenter.k8s.aws are for labels that Karpenter defines.
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:message="label kubernetes.io/hostname is not allowed: every node has its own",rule="!('kubernetes.io/hostname' in self)"
	// +kubebuilder:validation:XValidation:message="label karpenter.sh/nodepool is not allowed: Karpenter sets it",rule="!('karpenter.sh/nodepool' in self)"
	// +kubebuilder:validation:XValidation:message="labels in domain karpenter.sh are restricted: only karpenter.sh/capacity-type may be used",rule="self.all(k, !k.matches('^([^/]*[.])?karpenter[.]sh/') || k in ['karpenter.sh/capacity-type', 'karpenter.sh/nodepool'])"
	// +kubebuilder:validation:XValidation:message="labels in domain karpenter.k8s.aws are restricted: use only those that Karpenter sets, for example karpenter.k8s.aws/instance-category",rule="self.all(k, !k.matches('^([^/]*[.])?karpenter[.]k8s[.]aws/') || k in ['karpenter.k8s.aws/ec2nodeclass', 'karpenter.k8s.aws/capacity-reservation-id', 'karpenter.k8s.aws/capacity-reservation-type', 'karpenter.k8s.aws/capacity-reservation-interruptible', 'karpenter.k8s.aws/instance-encryption-in-transit-supported', 'karpenter.k8s.aws/instance-category', 'karpenter.k8s.aws/instance-hypervisor', 'karpenter.k8s.aws/instance-family', 'karpenter.k8s.aws/instance-generation', 'karpenter.k8s.aws/instance-local-nvme', 'karpenter.k8s.aws/instance-size', 'karpenter.k8s.aws/instance-cpu', 'karpenter.k8s.aws/instance-cpu-manufacturer', 'karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz', 'karpenter.k8s.aws/instance-memory', 'karpenter.k8s.aws/instance-ebs-bandwidth', 'karpenter.k8s.aws/instance-network-bandwidth', 'karpenter.k8s.aws/instance-gpu-name', 'karpenter.k8s.aws/instance-gpu-manufacturer', 'karpenter.k8s.aws/instance-gpu-count', 'karpenter.k8s.aws/instance-gpu-memory', 'karpenter.k8s.aws/instance-accelerator-name', 'karpenter.k8s.aws/instance-accelerator-manufacturer', 'karpenter.k8s.aws/instance-accelerator-count', 'karpenter.k8s.aws/instance-capability-flex', 'karpenter.k8s.aws/instance-tenancy', 'karpenter.k8s.aws/nitro-sandbox', 'karpenter.k8s.aws/placement-group-id', 'karpenter.k8s.aws/placement-group-partition'])"
	// +mapType=atomic
	// +optional
	Labels map[string]LabelValue `json:"labels,omitempty"`
	// annotations are put on every claim and node of the pool.
	// +mapType=granular
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
}

// DeepCopyInto copies m. It is written by hand because the generator cannot follow LabelValue,
// which is how the grammar of label values gets into the CRD.
func (m *ObjectMeta) DeepCopyInto(out *ObjectMeta) {
	out.Labels = maps.Clone(m.Labels)
	out.Annotations = maps.Clone(m.Annotations)
}

// NodeClaimTemplateSpec is copied into every claim of the pool.
type NodeClaimTemplateSpec struct {
	// taints are on every node of the pool from the moment it joins; only pods that tolerate all of them can use the pool.
	// Example: {key: example.com/gpu, effect: NoSchedule}.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Taints []Taint `json:"taints,omitempty"`
	// startupTaints are on every node when it joins and must be taken off again by something else, such as a network
	// plugin. Pods need not tolerate them to cause a node; a node counts as initialized only once they are gone.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	StartupTaints []Taint `json:"startupTaints,omitempty"`
	// requirements narrow which instances the pool may launch; all of them must hold and entries with the same key are
	// intersected. At most 100; an empty list allows everything the cloud has. Changing requirements drifts only the nodes
	// that no longer satisfy them. Example: {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:message="requirements with key karpenter.sh/nodepool are not allowed in a NodePool: Karpenter sets that label",rule="!self.exists(requirement, requirement.key == 'karpenter.sh/nodepool')"
	// +listType=atomic
	// +required
	Requirements []NodeSelectorRequirementWithMinValues `json:"requirements" hash:"ignore"`
	// nodeClassRef names the object with the cloud's settings, for example
	// {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}. Only name can be changed later; nodes made with another name are drifted.
	// +kubebuilder:validation:XValidation:message="nodeClassRef.group cannot be changed: create a new NodePool instead",rule="oldSelf.group == self.group"
	// +kubebuilder:validation:XValidation:message="nodeClassRef.kind cannot be changed: create a new NodePool instead",rule="oldSelf.kind == self.kind"
	// +required
	NodeClassRef *NodeClassReference `json:"nodeClassRef"`
	// terminationGracePeriod is the longest that draining a node may take once its deletion began, for example 48h; when it
	// has passed the node is deleted even if pods or PodDisruptionBudgets still block it. Written with s, m and h.
	// Unset means wait for as long as it takes; 0s means do not wait at all. Changing it drifts the pool's nodes.
	// +kubebuilder:validation:XValidation:message="terminationGracePeriod must be numbers with the units h, m and s, for example 48h or 1h30m; Never is not allowed, leave it out instead",rule="self.matches('^([0-9]+[hms])+$')"
	// +optional
	TerminationGracePeriod *Duration `json:"terminationGracePeriod,omitempty"`
	// expireAfter is the age at which a node is drained and replaced whatever else is true, for example 720h, or Never.
	// Written with s, m and h. Default: 720h (30 days). Changing it drifts the pool's nodes.
	// +kubebuilder:default="720h"
	// +kubebuilder:validation:XValidation:message="expireAfter must be numbers with the units h, m and s, for example 720h or 1h30m, or Never",rule="self.matches('^(Never|([0-9]+[hms])+)$')"
	// +optional
	ExpireAfter NillableDuration `json:"expireAfter,omitempty"`
}

// ConsolidationPolicy says which nodes consolidation may look at.
type ConsolidationPolicy string

// The consolidation policies.
const (
	// ConsolidationPolicyWhenEmpty removes nodes that run nothing but daemons.
	ConsolidationPolicyWhenEmpty ConsolidationPolicy = "WhenEmpty"
	// ConsolidationPolicyWhenEmptyOrUnderutilized also moves pods where that saves money.
	ConsolidationPolicyWhenEmptyOrUnderutilized ConsolidationPolicy = "WhenEmptyOrUnderutilized"
	// ConsolidationPolicyBalanced also moves pods, but only where the saving is worth the disturbance.
	ConsolidationPolicyBalanced ConsolidationPolicy = "Balanced"
)

// Disruption says when and how fast nodes may be disrupted voluntarily. Nothing in it drifts a node.
type Disruption struct {
	// consolidateAfter is how long a node must have had no pod bound or removed before it may be consolidated, for example 30s or
	// 10m, or Never to turn consolidation off, also of empty nodes. Written with s, m and h. Default: 0s.
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:XValidation:message="consolidateAfter must be numbers with the units h, m and s, for example 720h or 1h30m, or Never",rule="self.matches('^(Never|([0-9]+[hms])+)$')"
	// +optional
	ConsolidateAfter NillableDuration `json:"consolidateAfter"`
	// consolidationPolicy says which nodes may be consolidated. WhenEmpty: only nodes that run nothing but daemons.
	// WhenEmptyOrUnderutilized: also nodes whose pods fit elsewhere or on a cheaper node. Balanced: the same, where the
	// saving is worth the disturbance. Default: WhenEmptyOrUnderutilized.
	// +kubebuilder:default="WhenEmptyOrUnderutilized"
	// +kubebuilder:validation:Enum=WhenEmpty;WhenEmptyOrUnderutilized;Balanced
	// +optional
	ConsolidationPolicy ConsolidationPolicy `json:"consolidationPolicy,omitempty"`
	// budgets cap how many of the pool's nodes may be going at the same time; the strictest one that is active and matches
	// the reason counts. At most 50. Default: one budget of 10%. An empty list removes the cap. Expiry, interruption and
	// deletions by hand are not held back by budgets.
	// +kubebuilder:default={{nodes: "10%"}}
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	Budgets []Budget `json:"budgets,omitzero" hash:"ignore"`
}

// Budget caps how many nodes of a pool may be going at the same time.
// +kubebuilder:validation:XValidation:message="schedule and duration must be given together: schedule says when the budget begins to hold, duration for how long",rule="has(self.schedule) == has(self.duration)"
type Budget struct {
	// reasons this budget holds for: Underutilized, Empty, Drifted, Unhealthy. Leave it out for all of them.
	// +kubebuilder:validation:MaxItems=50
	// +listType=set
	// +optional
	Reasons []DisruptionReason `json:"reasons,omitempty"`
	// nodes is how many may be going at the same time: a number such as "5", or a percentage of the pool's nodes such as
	// "20%", rounded up. "0" allows none. Default: 10%.
	// +kubebuilder:default="10%"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:message="nodes must be a whole number such as \"5\" or a percentage from \"0%\" to \"100%\"",rule="self.matches('^([0-9]+|[0-9]{1,2}%|100%)$')"
	// +required
	Nodes string `json:"nodes" hash:"ignore"`
	// schedule says when the budget begins to hold, in UTC: five cron fields (minute, hour, day of month, month, day of week)
	// or one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually. Example: "0 9 * * mon-fri".
	// Needs duration. Without a schedule the budget always holds.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:message="schedule must be five cron fields in UTC, for example \"0 9 * * mon-fri\", or one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually",rule="self.matches('^(@(annually|yearly|monthly|weekly|daily|midnight|hourly)|[ \\\\t]*[^ \\\\t@][^ \\\\t]*([ \\\\t]+[^ \\\\t]+){4}[ \\\\t]*)$')"
	// +optional
	Schedule *string `json:"schedule,omitempty" hash:"ignore"`
	// duration is how long the budget holds after each time that schedule names, in hours and minutes, for example 8h or
	// 1h30m. Needs schedule.
	// +kubebuilder:validation:XValidation:message="duration must be hours and minutes, for example 8h, 90m or 1h30m",rule="self.matches('^([0-9]+h|[0-9]+m|[0-9]+h[0-9]+m)(0s)?$')"
	// +optional
	Duration *Duration `json:"duration,omitempty" hash:"ignore"`
}

// DisruptionReason says why a node is disrupted voluntarily.
// +kubebuilder:validation:Enum=Underutilized;Empty;Drifted;Unhealthy
type DisruptionReason string

// The reasons for which a node is disrupted voluntarily.
const (
	// DisruptionReasonUnderutilized means that the node's pods fit elsewhere or on something cheaper.
	DisruptionReasonUnderutilized DisruptionReason = "Underutilized"
	// DisruptionReasonEmpty means that the node runs nothing but daemons.
	DisruptionReasonEmpty DisruptionReason = "Empty"
	// DisruptionReasonDrifted means that the node is no longer what its pool or class describes.
	DisruptionReasonDrifted DisruptionReason = "Drifted"
	// DisruptionReasonUnhealthy means that a condition of the node says for too long that something on it is broken.
	DisruptionReasonUnhealthy DisruptionReason = "Unhealthy"
)

// Limits caps a pool's total by resource name.
type Limits corev1.ResourceList

// LimitsNodes is the resource name that caps the number of nodes.
const LimitsNodes corev1.ResourceName = "nodes"

// NodePoolStatus is what the pool holds and whether it can be used.
type NodePoolStatus struct {
	// resources is the total of the pool's nodes by resource name: cpu, memory, pods, ephemeral-storage, nodes and others.
	// +optional
	Resources corev1.ResourceList `json:"resources,omitempty"`
	// nodes is how many nodes the pool has.
	// +kubebuilder:default=0
	// +optional
	Nodes *int64 `json:"nodes"`
	// nodeClassObservedGeneration is the generation of the node class that NodeRegistrationHealthy was judged for.
	// +optional
	NodeClassObservedGeneration int64 `json:"nodeClassObservedGeneration,omitempty"`
	// conditions tell whether the pool can be used. Ready is true when ValidationSucceeded and NodeClassReady are; a pool
	// that is not Ready launches nothing. NodeRegistrationHealthy is information only.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
}

// NodePool says which nodes Karpenter may launch for pods that are unschedulable, and how it may disrupt them.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=nodepools,scope=Cluster,categories=karpenter
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.nodes
// +kubebuilder:printcolumn:name="NodeClass",type="string",JSONPath=".spec.template.spec.nodeClassRef.name"
// +kubebuilder:printcolumn:name="Nodes",type="string",JSONPath=".status.nodes"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Weight",type="integer",JSONPath=".spec.weight",priority=1
// +kubebuilder:printcolumn:name="CPU",type="string",JSONPath=".status.resources.cpu",priority=1
// +kubebuilder:printcolumn:name="Memory",type="string",JSONPath=".status.resources.memory",priority=1
type NodePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which nodes may be made, how many, and how they may be disrupted.
	// +required
	Spec NodePoolSpec `json:"spec"`
	// status is what the pool holds and whether it can be used; Karpenter writes it.
	// +optional
	Status NodePoolStatus `json:"status,omitempty"`
}

// NodePoolList is a list of NodePool.
// +kubebuilder:object:root=true
type NodePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodePool `json:"items"`
}
