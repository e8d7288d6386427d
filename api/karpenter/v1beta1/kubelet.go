package v1beta1

import karpv1 "karpenter/api/karpenter/v1"

// KubeletConfiguration sets fields of the kubelet's configuration file. The rules are those of the field kubelet in v1
// EC2NodeClass, where the settings may be moved to.
// +kubebuilder:validation:XValidation:message="kubelet: imageGCLowThresholdPercent must be below imageGCHighThresholdPercent",rule="!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent) || self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent"
// +kubebuilder:validation:XValidation:message="kubelet: every key of evictionSoft needs an entry in evictionSoftGracePeriod",rule="!has(self.evictionSoft) || self.evictionSoft.all(k, has(self.evictionSoftGracePeriod) && k in self.evictionSoftGracePeriod)"
// +kubebuilder:validation:XValidation:message="kubelet: every key of evictionSoftGracePeriod needs an entry in evictionSoft",rule="!has(self.evictionSoftGracePeriod) || self.evictionSoftGracePeriod.all(k, has(self.evictionSoft) && k in self.evictionSoft)"
type KubeletConfiguration struct {
	// clusterDNS are the addresses of the cluster's DNS servers that pods get. Unset means what the cluster uses.
	// +optional
	ClusterDNS []string `json:"clusterDNS,omitempty"`
	// maxPods is how many pods a node can run. Unset means what the network plugin has addresses for.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	MaxPods *int32 `json:"maxPods,omitempty"`
	// podsPerCore caps pods by virtual CPU; the smaller of this and maxPods counts. 0 means no cap.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	PodsPerCore *int32 `json:"podsPerCore,omitempty"`
	// systemReserved is kept from pods for the operating system: cpu, memory, ephemeral-storage, pid. Example: {cpu: 100m}.
	// +kubebuilder:validation:MaxProperties=4
	// +kubebuilder:validation:XValidation:message="kubelet.systemReserved may only have the keys cpu, memory, ephemeral-storage and pid",rule="self.all(resource, resource in ['cpu', 'ephemeral-storage', 'memory', 'pid'])"
	// +optional
	SystemReserved map[string]ReservedQuantity `json:"systemReserved,omitempty"`
	// kubeReserved is kept from pods for the kubelet and container runtime: cpu, memory, ephemeral-storage, pid.
	// +kubebuilder:validation:MaxProperties=4
	// +kubebuilder:validation:XValidation:message="kubelet.kubeReserved may only have the keys cpu, memory, ephemeral-storage and pid",rule="self.all(resource, resource in ['cpu', 'ephemeral-storage', 'memory', 'pid'])"
	// +optional
	KubeReserved map[string]ReservedQuantity `json:"kubeReserved,omitempty"`
	// evictionHard are limits at which the kubelet evicts at once, by signal: memory.available, nodefs.available,
	// nodefs.inodesFree, imagefs.available, imagefs.inodesFree, pid.available. A quantity or a percentage.
	// +kubebuilder:validation:MaxProperties=6
	// +kubebuilder:validation:XValidation:message="kubelet.evictionHard may only have the keys memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree and pid.available",rule="self.all(signal, signal in ['imagefs.available', 'imagefs.inodesFree', 'memory.available', 'nodefs.available', 'nodefs.inodesFree', 'pid.available'])"
	// +optional
	EvictionHard map[string]EvictionThreshold `json:"evictionHard,omitempty"`
	// evictionSoft are limits at which the kubelet evicts after the time in evictionSoftGracePeriod; same signals.
	// +kubebuilder:validation:MaxProperties=6
	// +kubebuilder:validation:XValidation:message="kubelet.evictionSoft may only have the keys memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree and pid.available",rule="self.all(signal, signal in ['imagefs.available', 'imagefs.inodesFree', 'memory.available', 'nodefs.available', 'nodefs.inodesFree', 'pid.available'])"
	// +optional
	EvictionSoft map[string]EvictionThreshold `json:"evictionSoft,omitempty"`
	// evictionSoftGracePeriod is how long a limit of evictionSoft may be passed before pods go, by signal.
	// +kubebuilder:validation:MaxProperties=6
	// +kubebuilder:validation:XValidation:message="kubelet.evictionSoftGracePeriod may only have the keys memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree and pid.available",rule="self.all(signal, signal in ['imagefs.available', 'imagefs.inodesFree', 'memory.available', 'nodefs.available', 'nodefs.inodesFree', 'pid.available'])"
	// +kubebuilder:validation:XValidation:message="kubelet.evictionSoftGracePeriod must hold durations, for example 30s or 1m30s",rule="self.all(k, self[k].matches('^(0|([0-9]+([.][0-9]+)?(ns|us|ms|s|m|h))+)$'))"
	// +optional
	EvictionSoftGracePeriod map[string]karpv1.Duration `json:"evictionSoftGracePeriod,omitempty"`
	// evictionMaxPodGracePeriod is the longest, in seconds, that a pod gets to end when it is evicted by a soft limit.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	EvictionMaxPodGracePeriod *int32 `json:"evictionMaxPodGracePeriod,omitempty"`
	// imageGCHighThresholdPercent is how full the disk must be for unused images to be removed (0 to 100).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ImageGCHighThresholdPercent *int32 `json:"imageGCHighThresholdPercent,omitempty"`
	// imageGCLowThresholdPercent is how full the disk may be when removing images stops (0 to 100).
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ImageGCLowThresholdPercent *int32 `json:"imageGCLowThresholdPercent,omitempty"`
	// cpuCFSQuota says whether CPU limits of containers are enforced by the kernel's quota.
	// +optional
	CPUCFSQuota *bool `json:"cpuCFSQuota,omitempty"`
}

// ReservedQuantity is an amount kept from pods, for example 100m or 1Gi. At most 64 characters.
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:message="a reserved amount must be a quantity that is not negative, for example 100m or 1Gi",rule="self.matches('^[+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?$')"
type ReservedQuantity string

// EvictionThreshold is a quantity such as 500Mi or a percentage such as 10%. At most 64 characters.
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:message="an eviction threshold must be a percentage from 0% to 100% or a quantity that is not negative, for example 500Mi",rule="self.matches('^(([0-9]{1,2}([.][0-9]{1,2})?|100([.]0{1,2})?)%|[+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?)$')"
type EvictionThreshold string
