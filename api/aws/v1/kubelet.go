package v1

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	karpv1 "karpenter/api/karpenter/v1"
)

// KubeletConfiguration sets fields of the kubelet's configuration file. The fields below are checked when the object is
// written and change how Karpenter counts a node's room. Any other field of the kubelet.config.k8s.io/v1beta1
// KubeletConfiguration can be given too: it is kept as it is and passed on where the AMI family can carry it.
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:validation:XValidation:message="kubelet: imageGCLowThresholdPercent must be below imageGCHighThresholdPercent",rule="!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent) || self.imageGCHighThresholdPercent > self.imageGCLowThresholdPercent"
// +kubebuilder:validation:XValidation:message="kubelet: every key of evictionSoft needs an entry in evictionSoftGracePeriod",rule="!has(self.evictionSoft) || self.evictionSoft.all(k, has(self.evictionSoftGracePeriod) && k in self.evictionSoftGracePeriod)"
// +kubebuilder:validation:XValidation:message="kubelet: every key of evictionSoftGracePeriod needs an entry in evictionSoft",rule="!has(self.evictionSoftGracePeriod) || self.evictionSoftGracePeriod.all(k, has(self.evictionSoft) && k in self.evictionSoft)"
// +kubebuilder:object:generate=false
type KubeletConfiguration struct {
	// clusterDNS are the addresses of the cluster's DNS servers that pods get. Unset means what the cluster uses.
	// +optional
	ClusterDNS []string `json:"clusterDNS,omitempty"`
	// maxPods is how many pods a node can run: a number, or an expression in quotes that gives one for each instance type, for
	// example "min(110, max_pods)". Unset means what the network plugin has addresses for.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:message="kubelet.maxPods must be from 0 to 2147483647",rule="type(self) != int || self >= 0 && self <= 2147483647"
	// +kubebuilder:validation:XValidation:message="kubelet.maxPods must be a number, or an expression over vcpus, memory_mib, default_enis, ips_per_eni, max_pods and instance_type",rule="type(self) != string || self.matches('^[0-9]+$') || !self.startsWith('-') && self.matches('[(]| [-+*/?] |vcpus|memory_mib|default_enis|ips_per_eni|max_pods|instance_type')"
	// +optional
	MaxPods *int32 `json:"maxPods,omitempty"`
	// podsPerCore caps pods by virtual CPU; the smaller of this and maxPods counts. 0 means no cap. Not for Bottlerocket.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	PodsPerCore *int32 `json:"podsPerCore,omitempty"`
	// systemReserved is kept from pods for the operating system: cpu, memory, ephemeral-storage, pid. A quantity, or an expression
	// as for kubeReserved. Example: {cpu: 100m, memory: 100Mi}.
	// +kubebuilder:validation:MaxProperties=4
	// +kubebuilder:validation:XValidation:message="kubelet.systemReserved may only have the keys cpu, memory, ephemeral-storage and pid",rule="self.all(resource, resource in ['cpu', 'ephemeral-storage', 'memory', 'pid'])"
	// +optional
	SystemReserved map[string]ReservedQuantity `json:"systemReserved,omitempty"`
	// kubeReserved is kept from pods for the kubelet and container runtime: cpu, memory, ephemeral-storage, pid. A quantity, or
	// an expression that gives millicores, Mi, Gi and processes, for example {memory: 11 * max_pods + 255}. Unset means a formula
	// over the instance type.
	// +kubebuilder:validation:MaxProperties=4
	// +kubebuilder:validation:XValidation:message="kubelet.kubeReserved may only have the keys cpu, memory, ephemeral-storage and pid",rule="self.all(resource, resource in ['cpu', 'ephemeral-storage', 'memory', 'pid'])"
	// +optional
	KubeReserved map[string]ReservedQuantity `json:"kubeReserved,omitempty"`
	// evictionHard are limits at which the kubelet evicts at once, by signal: memory.available, nodefs.available,
	// nodefs.inodesFree, imagefs.available, imagefs.inodesFree, pid.available. A quantity or a percentage. Example: {memory.available: 5%}.
	// +kubebuilder:validation:MaxProperties=6
	// +kubebuilder:validation:XValidation:message="kubelet.evictionHard may only have the keys memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree and pid.available",rule="self.all(signal, signal in ['imagefs.available', 'imagefs.inodesFree', 'memory.available', 'nodefs.available', 'nodefs.inodesFree', 'pid.available'])"
	// +optional
	EvictionHard map[string]EvictionThreshold `json:"evictionHard,omitempty"`
	// evictionSoft are limits at which the kubelet evicts after the time in evictionSoftGracePeriod; same signals as evictionHard.
	// +kubebuilder:validation:MaxProperties=6
	// +kubebuilder:validation:XValidation:message="kubelet.evictionSoft may only have the keys memory.available, nodefs.available, nodefs.inodesFree, imagefs.available, imagefs.inodesFree and pid.available",rule="self.all(signal, signal in ['imagefs.available', 'imagefs.inodesFree', 'memory.available', 'nodefs.available', 'nodefs.inodesFree', 'pid.available'])"
	// +optional
	EvictionSoft map[string]EvictionThreshold `json:"evictionSoft,omitempty"`
	// evictionSoftGracePeriod is how long a limit of evictionSoft may be passed before pods go, by signal. Example: {memory.available: 1m30s}.
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
	// imageGCLowThresholdPercent is how full the disk may be when removing images stops (0 to 100); below imageGCHighThresholdPercent.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	ImageGCLowThresholdPercent *int32 `json:"imageGCLowThresholdPercent,omitempty"`
	// cpuCFSQuota says whether CPU limits of containers are enforced by the kernel's quota. The kubelet's default is true.
	// +optional
	CPUCFSQuota *bool `json:"cpuCFSQuota,omitempty"`
	// Extra holds every other field that was given, by name, as JSON text with sorted keys.
	Extra map[string]string `json:"-"`
	// Unreadable holds those of the fields above whose value is none that they can have, by name, as JSON text with sorted keys.
	Unreadable map[string]string `json:"-"`
	// MaxPodsExpression is maxPods where it was given as text. It is not beside MaxPods, and has no name of its own on the
	// wire, so that the drift hash of classes that give a number stays what it was.
	MaxPodsExpression string `json:"-"`
}

// ReservedQuantity is an amount kept from pods, for example 100m or 1Gi, or an expression that gives one for each
// instance type, for example max(60, vcpus * 30). At most 1024 characters.
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:XValidation:message="a reserved amount must be a quantity that is not negative, for example 100m or 1Gi, or an expression over vcpus, memory_mib, default_enis, ips_per_eni, max_pods and instance_type",rule="self.matches('^[+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?$') || !self.startsWith('-') && self.matches('[(]| [-+*/?] |vcpus|memory_mib|default_enis|ips_per_eni|max_pods|instance_type')"
type ReservedQuantity = string

// EvictionThreshold is a quantity such as 500Mi or a percentage such as 10%. At most 64 characters.
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:XValidation:message="an eviction threshold must be a percentage from 0% to 100% or a quantity that is not negative, for example 500Mi",rule="self.matches('^(([0-9]{1,2}([.][0-9]{1,2})?|100([.]0{1,2})?)%|[+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?)$')"
type EvictionThreshold = string

// knownKubelet has the fields of KubeletConfiguration without its JSON methods.
// +kubebuilder:object:generate=false
type knownKubelet KubeletConfiguration

// wireKubelet is knownKubelet with maxPods in both of its forms.
// +kubebuilder:object:generate=false
type wireKubelet struct {
	knownKubelet
	MaxPods *intstr.IntOrString `json:"maxPods,omitempty"`
}

// kubeletFields are the JSON names that KubeletConfiguration has fields for.
var kubeletFields = []string{
	"clusterDNS", "maxPods", "podsPerCore", "systemReserved", "kubeReserved", "evictionHard", "evictionSoft",
	"evictionSoftGracePeriod", "evictionMaxPodGracePeriod", "imageGCHighThresholdPercent", "imageGCLowThresholdPercent",
	"cpuCFSQuota",
}

// UnmarshalJSON reads the known fields and keeps all others in Extra. It fails only on what is not an object: a field that cannot
// be read is kept in Unreadable for ValidateKubelet to name, because an error would hide all objects of the kind from a watch, and
// upstream's API server has let such fields pass.
func (k *KubeletConfiguration) UnmarshalJSON(data []byte) error {
	var all map[string]stdjson.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("kubelet must be an object: %w", err)
	}
	var wire wireKubelet
	known := &wire.knownKubelet
	for name, value := range all {
		if !slices.Contains(kubeletFields, name) {
			keep(&known.Extra, name, value)
			continue
		}
		field, err := json.Marshal(map[string]stdjson.RawMessage{name: value})
		before := wire
		if err == nil {
			err = json.Unmarshal(field, &wire)
		}
		if err != nil {
			wire = before // without what could be read of the field
			keep(&known.Unreadable, name, value)
		}
	}
	switch pods := wire.MaxPods; {
	case pods != nil && pods.Type == intstr.Int:
		known.MaxPods = &pods.IntVal
	case pods != nil: // an empty text is as good as none; the API server refuses it
		known.MaxPodsExpression = pods.StrVal
	}
	*k = KubeletConfiguration(*known)
	return nil
}

// keep puts a value into texts, written with sorted keys so that their order never drifts a node. What cannot be written so, such as
// a number that is too large, stays as it is.
func keep(texts *map[string]string, name string, value stdjson.RawMessage) {
	if *texts == nil {
		*texts = map[string]string{}
	}
	var decoded any
	if err := json.Unmarshal(value, &decoded); err == nil {
		if sorted, err := json.Marshal(decoded); err == nil {
			value = sorted
		}
	}
	(*texts)[name] = string(value)
}

// MarshalJSON writes the known fields, Unreadable and Extra as one object.
func (k KubeletConfiguration) MarshalJSON() ([]byte, error) {
	wire := wireKubelet{knownKubelet: knownKubelet(k)}
	switch {
	case k.MaxPods != nil && k.MaxPodsExpression != "":
		return nil, errors.New("kubelet.maxPods: is given as a number and as an expression")
	case k.MaxPods != nil:
		wire.MaxPods = &intstr.IntOrString{Type: intstr.Int, IntVal: *k.MaxPods}
	case k.MaxPodsExpression != "":
		wire.MaxPods = &intstr.IntOrString{Type: intstr.String, StrVal: k.MaxPodsExpression}
	}
	data, err := json.Marshal(wire)
	if err != nil || len(k.Extra)+len(k.Unreadable) == 0 {
		return data, err
	}
	all := map[string]stdjson.RawMessage{}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	for name, text := range k.Extra {
		if slices.Contains(kubeletFields, name) {
			return nil, fmt.Errorf("kubelet.%s: is a field of its own and cannot be in Extra", name)
		}
		all[name] = stdjson.RawMessage(text)
	}
	for name, text := range k.Unreadable {
		all[name] = stdjson.RawMessage(text)
	}
	return json.Marshal(all)
}

// KubeletExpression is a field of kubelet whose value is to be worked out for each instance type.
type KubeletExpression struct {
	// Field is maxPods, kubeReserved or systemReserved; Key is the resource of the latter two, and empty for the first.
	Field, Key string
	Text       string
}

// Path names the field in an object.
func (e KubeletExpression) Path() *field.Path {
	path := field.NewPath("spec", "kubelet", e.Field)
	if e.Key != "" {
		path = path.Key(e.Key)
	}
	return path
}

// Expressions lists the values that are expressions, in the order in which they are worked out. A reserved amount that cannot
// be read as a quantity is one.
func (k *KubeletConfiguration) Expressions() []KubeletExpression {
	if k == nil {
		return nil
	}
	var out []KubeletExpression
	if k.MaxPodsExpression != "" {
		out = append(out, KubeletExpression{Field: "maxPods", Text: k.MaxPodsExpression})
	}
	list := func(name string, reserved map[string]string) {
		for _, key := range slices.Sorted(maps.Keys(reserved)) {
			if _, err := karpv1.ParseQuantity(reserved[key]); err != nil {
				out = append(out, KubeletExpression{Field: name, Key: key, Text: reserved[key]})
			}
		}
	}
	list("kubeReserved", k.KubeReserved)
	list("systemReserved", k.SystemReserved)
	return out
}

// DeepCopyInto copies k. It is written by hand because the generator cannot follow ReservedQuantity and
// EvictionThreshold, which is how the grammar of values gets into the CRD.
func (k *KubeletConfiguration) DeepCopyInto(out *KubeletConfiguration) {
	*out = *k
	out.ClusterDNS = slices.Clone(k.ClusterDNS)
	out.MaxPods = clonePointer(k.MaxPods)
	out.PodsPerCore = clonePointer(k.PodsPerCore)
	out.SystemReserved = maps.Clone(k.SystemReserved)
	out.KubeReserved = maps.Clone(k.KubeReserved)
	out.EvictionHard = maps.Clone(k.EvictionHard)
	out.EvictionSoft = maps.Clone(k.EvictionSoft)
	out.EvictionSoftGracePeriod = maps.Clone(k.EvictionSoftGracePeriod)
	out.EvictionMaxPodGracePeriod = clonePointer(k.EvictionMaxPodGracePeriod)
	out.ImageGCHighThresholdPercent = clonePointer(k.ImageGCHighThresholdPercent)
	out.ImageGCLowThresholdPercent = clonePointer(k.ImageGCLowThresholdPercent)
	out.CPUCFSQuota = clonePointer(k.CPUCFSQuota)
	out.Extra = maps.Clone(k.Extra)
	out.Unreadable = maps.Clone(k.Unreadable)
}

// DeepCopy returns a copy of k.
func (k *KubeletConfiguration) DeepCopy() *KubeletConfiguration {
	if k == nil {
		return nil
	}
	out := new(KubeletConfiguration)
	k.DeepCopyInto(out)
	return out
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	value := *p
	return &value
}
