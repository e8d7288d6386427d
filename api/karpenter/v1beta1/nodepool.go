package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "karpenter/api/karpenter/v1"
)

// NodePoolSpec says which nodes may be made, how many, and how they may be disrupted.
// +kubebuilder:validation:XValidation:message="weight is given twice: keep spec.weight and remove spec.template.spec.weight",rule="!has(self.weight) || !has(self.template.spec.weight)"
type NodePoolSpec struct {
	// template is what each NodeClaim of this pool looks like.
	// +required
	Template NodeClaimTemplate `json:"template"`
	// disruption says when and how fast nodes may be disrupted. Left out, it means: consolidate underutilized nodes, replace
	// nodes after 720h, at most 10% of them at a time.
	// +optional
	Disruption *Disruption `json:"disruption,omitempty"`
	// limits stop the pool from growing: no node is added that would take the pool's total above any of them. Example:
	// {cpu: "1000", memory: 1000Gi}. Unset means no limit.
	// +optional
	Limits karpv1.Limits `json:"limits,omitempty"`
	// weight orders pools that could all serve a pod: the higher is tried first (1 to 100). Unset counts as 0.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Weight *int32 `json:"weight,omitempty"`
}

// NodeClaimTemplate is what each claim of a pool looks like.
type NodeClaimTemplate struct {
	// metadata holds labels and annotations that every node of the pool gets.
	// +optional
	karpv1.ObjectMeta `json:"metadata,omitempty"`
	// spec is copied into every claim of the pool.
	// +required
	Spec NodeClaimTemplateSpec `json:"spec"`
}

// NodeClaimTemplateSpec is copied into every claim of the pool.
type NodeClaimTemplateSpec struct {
	// taints are on every node of the pool from the moment it joins; only pods that tolerate all of them can use the pool.
	// Example: {key: example.com/gpu, effect: NoSchedule}.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Taints []karpv1.Taint `json:"taints,omitempty"`
	// startupTaints are on every node when it joins and must be taken off again by something else, such as a network
	// plugin. Pods need not tolerate them to cause a node.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	StartupTaints []karpv1.Taint `json:"startupTaints,omitempty"`
	// requirements narrow which instances the pool may launch; all of them must hold. At most 100. Example:
	// {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}.
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:message="requirements with key karpenter.sh/nodepool are not allowed in a NodePool: Karpenter sets that label",rule="!self.exists(requirement, requirement.key == 'karpenter.sh/nodepool')"
	// +listType=atomic
	// +required
	Requirements []NodeSelectorRequirementWithMinValues `json:"requirements"`
	// nodeClassRef names the object with the cloud's settings. Only its name is needed; left out, it means the EC2NodeClass
	// called default.
	// +optional
	NodeClassRef *NodeClassReference `json:"nodeClassRef,omitempty"`
	// kubelet sets fields of the kubelet's configuration file. In v1 these settings are in the EC2NodeClass; those given here
	// are kept in an annotation and stay in force for this pool.
	// +optional
	Kubelet *KubeletConfiguration `json:"kubelet,omitempty"`
	// resources must be empty: a pool asks for no particular amount. It is accepted because old clients write it.
	// +kubebuilder:validation:XValidation:message="resources cannot be set in a NodePool: remove it, and use requirements or limits instead",rule="!has(self.requests) || self.requests.size() == 0"
	// +optional
	Resources *ResourceRequirements `json:"resources,omitempty"`
	// weight is the same as spec.weight, for manifests that have it here. Give one of the two.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +optional
	Weight *int32 `json:"weight,omitempty"`
}

// ResourceRequirements is what a claim's node must offer to pods.
type ResourceRequirements struct {
	// requests is the sum of what the pending pods and the daemons ask for, by resource name.
	// +kubebuilder:validation:MaxProperties=100
	// +optional
	Requests karpv1.Limits `json:"requests,omitempty"`
}

// ConsolidationPolicy says which nodes consolidation may look at.
type ConsolidationPolicy string

// The consolidation policies of v1beta1.
const (
	// ConsolidationPolicyWhenEmpty removes nodes that run nothing but daemons.
	ConsolidationPolicyWhenEmpty ConsolidationPolicy = "WhenEmpty"
	// ConsolidationPolicyWhenUnderutilized also moves pods where that saves money; v1 calls it WhenEmptyOrUnderutilized.
	ConsolidationPolicyWhenUnderutilized ConsolidationPolicy = "WhenUnderutilized"
)

// Disruption says when and how fast nodes may be disrupted.
type Disruption struct {
	// consolidateAfter is how long a node must have had no pod bound or removed before it may be consolidated, for example 30s, or
	// Never to turn consolidation off. It may be given with every policy. Left out, it means 0s.
	// +kubebuilder:validation:XValidation:message="consolidateAfter must be numbers with the units h, m and s, for example 720h or 1h30m, or Never",rule="self.matches('^(Never|([0-9]+[hms])+)$')"
	// +optional
	ConsolidateAfter *karpv1.NillableDuration `json:"consolidateAfter,omitempty"`
	// consolidationPolicy says which nodes may be consolidated. WhenEmpty: only nodes that run nothing but daemons.
	// WhenUnderutilized: also nodes whose pods fit elsewhere or on a cheaper node. Left out, it means WhenUnderutilized.
	// +kubebuilder:validation:Enum=WhenEmpty;WhenUnderutilized
	// +optional
	ConsolidationPolicy ConsolidationPolicy `json:"consolidationPolicy,omitempty"`
	// expireAfter is the age at which a node is replaced, for example 720h, or Never. Left out, it means 720h (30 days). In v1
	// it is spec.template.spec.expireAfter.
	// +kubebuilder:validation:XValidation:message="expireAfter must be numbers with the units h, m and s, for example 720h or 1h30m, or Never",rule="self.matches('^(Never|([0-9]+[hms])+)$')"
	// +optional
	ExpireAfter *karpv1.NillableDuration `json:"expireAfter,omitempty"`
	// budgets cap how many of the pool's nodes may be going at the same time; the strictest one that is active counts. At most
	// 50. Left out, it means one budget of 10%. An empty list removes the cap.
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	Budgets []Budget `json:"budgets,omitempty"`
}

// Budget caps how many nodes of a pool may be going at the same time.
// +kubebuilder:validation:XValidation:message="duration needs schedule: schedule says when the budget begins to hold, duration for how long",rule="!has(self.duration) || has(self.schedule)"
type Budget struct {
	// nodes is how many may be going at the same time: a number such as "5", or a percentage of the pool's nodes such as
	// "20%". "0" allows none. Left out, it means 10%.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:message="nodes must be a whole number such as \"5\" or a percentage from \"0%\" to \"100%\"",rule="self.matches('^([0-9]+|[0-9]{1,2}%|100%)$')"
	// +optional
	Nodes *string `json:"nodes,omitempty"`
	// schedule says when the budget begins to hold, in UTC: five cron fields (minute, hour, day of month, month, day of week)
	// or one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually. Without a schedule the budget always holds.
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:message="schedule must be five cron fields in UTC, for example \"0 9 * * mon-fri\", or one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually",rule="self.matches('^(@(annually|yearly|monthly|weekly|daily|midnight|hourly)|[ \\\\t]*[^ \\\\t@][^ \\\\t]*([ \\\\t]+[^ \\\\t]+){4}[ \\\\t]*)$')"
	// +optional
	Schedule *string `json:"schedule,omitempty"`
	// duration is how long the budget holds after each time that schedule names, in hours and minutes, for example 8h. Left
	// out beside a schedule, it means 1h, so that "0 9-17 * * 1-5" covers business hours.
	// +kubebuilder:validation:XValidation:message="duration must be hours and minutes, for example 8h, 90m or 1h30m",rule="self.matches('^([0-9]+h|[0-9]+m|[0-9]+h[0-9]+m)(0s)?$')"
	// +optional
	Duration *karpv1.Duration `json:"duration,omitempty"`
}

// NodePool says which nodes Karpenter may launch for pods that are unschedulable, and how it may disrupt them. This is the
// older form: new manifests should use karpenter.sh/v1, and `karpenter convert` rewrites old ones.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodepools,scope=Cluster,categories=karpenter
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="NodeClass",type="string",JSONPath=".spec.template.spec.nodeClassRef.name"
// +kubebuilder:printcolumn:name="Weight",type="integer",JSONPath=".spec.weight",priority=1
type NodePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which nodes may be made, how many, and how they may be disrupted.
	// +required
	Spec NodePoolSpec `json:"spec"`
	// status is what the pool holds and whether it can be used; Karpenter writes it.
	// +optional
	Status karpv1.NodePoolStatus `json:"status,omitempty"`
}

// NodePoolList is a list of NodePool.
// +kubebuilder:object:root=true
type NodePoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodePool `json:"items"`
}
