package v1

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Labels that Karpenter writes on nodes and claims (A55).
const (
	// NodePoolLabelKey names the pool that a claim or node belongs to.
	NodePoolLabelKey = Group + "/nodepool"
	// CapacityTypeLabelKey says how the instance is bought; see the CapacityType constants.
	CapacityTypeLabelKey = Group + "/capacity-type"
	// NodeRegisteredLabelKey is "true" on a node that has joined and been matched with its claim.
	NodeRegisteredLabelKey = Group + "/registered"
	// NodeInitializedLabelKey is "true" on a node that is ready for pods.
	NodeInitializedLabelKey = Group + "/initialized"
	// DoNotSyncTaintsLabelKey, set to "true" by the node's own bootstrap, says that the kubelet
	// already registered with its taints and Karpenter must not write them again.
	DoNotSyncTaintsLabelKey = Group + "/do-not-sync-taints"
	// ExcludeBalancersLabelValue is the value that Karpenter gives to the well-known label
	// node.kubernetes.io/exclude-from-external-load-balancers while it ends a node.
	ExcludeBalancersLabelValue = "karpenter"
)

// Values of CapacityTypeLabelKey. The set is closed (A59).
const (
	CapacityTypeOnDemand = "on-demand"
	CapacityTypeSpot     = "spot"
	CapacityTypeReserved = "reserved"
)

// Annotations that Karpenter writes or obeys (A56).
const (
	// DoNotDisruptAnnotationKey, set to "true" on a pod, node or claim, keeps voluntary disruption away.
	DoNotDisruptAnnotationKey = Group + "/do-not-disrupt"
	// DoNotRepairAnnotationKey, set to "true" on a node or claim, keeps repair away.
	DoNotRepairAnnotationKey = Group + "/do-not-repair"
	// RebootPreBootIDAnnotationKey holds, on a claim whose instance is rebooted, the boot id that its node had before.
	RebootPreBootIDAnnotationKey = Group + "/reboot-pre-boot-id"
	// RebootGraceAnnotationKey holds, on a claim whose instance is rebooted, how long its node may be drained before that, such as 5m0s;
	// without it there is no bound.
	RebootGraceAnnotationKey = Group + "/reboot-termination-grace-period"
	// RebootsAnnotationKey lists, on a claim, when its instance was rebooted within the last day, as RFC 3339 times separated by commas.
	RebootsAnnotationKey = Group + "/reboots"
	// NodePoolHashAnnotationKey holds the drift hash of the template, see NodePool.Hash.
	NodePoolHashAnnotationKey = Group + "/nodepool-hash"
	// NodePoolHashVersionAnnotationKey holds the NodePoolHashVersion that made the hash.
	NodePoolHashVersionAnnotationKey = Group + "/nodepool-hash-version"
	// TerminationTimestampAnnotationKey holds, on a claim being deleted, the RFC 3339 time after
	// which draining stops waiting.
	TerminationTimestampAnnotationKey = Group + "/nodeclaim-termination-timestamp"
	// MinValuesRelaxedAnnotationKey is "true" on a claim launched with fewer choices than minValues asked for.
	MinValuesRelaxedAnnotationKey = Group + "/nodeclaim-min-values-relaxed"
	// RequestedDRADriversAnnotationKey lists, comma separated, the device drivers a claim waits for.
	RequestedDRADriversAnnotationKey = Group + "/requested-dra-drivers"
	// PriceOverlayAppliedAnnotationKey marks a claim whose price came from an overlay.
	PriceOverlayAppliedAnnotationKey = Group + "/price-overlay-applied"
	// CapacityOverlayAppliedAnnotationKey marks a claim whose capacity came from an overlay.
	CapacityOverlayAppliedAnnotationKey = Group + "/capacity-overlay-applied"
	// MoveAnnotationKey, on a claim that is about to be disrupted, says for what and by which claims it is replaced.
	MoveAnnotationKey = Group + "/move"
	// MovedFromAnnotationKey, on a claim that replaces others, names the move that it was made for and what is replaced.
	MovedFromAnnotationKey = Group + "/moved-from"
	// PlannedPodsAnnotationKey, on a claim, tells which pods it was made for, in short: so that a process that takes over does not
	// make nodes for them again.
	PlannedPodsAnnotationKey = Group + "/planned-pods"
	// FailedReplacementsAnnotationKey, on a pool, says how often in a row replacements of its nodes have come to nothing, why, and
	// until when none is tried.
	FailedReplacementsAnnotationKey = Group + "/failed-replacements"
	// SavingsHorizonAnnotationKey, on a pool, says over which share of the usual time savings of its moves count, and since when: less
	// than all of it after moves that did not save what they promised.
	SavingsHorizonAnnotationKey = Group + "/savings-horizon"
	// RetryAnnotationKey, on a pool whose instances did not join, ends the pause before it tries again: write any other value than before.
	RetryAnnotationKey = Group + "/retry"
	// RestartCostAnnotationKey, on a pool or a pod, is what restarting a pod costs, in dollars: a move for cost has to pay for it.
	RestartCostAnnotationKey = Group + "/restart-cost"
	// DisruptionCostAnnotationKey, on a pod, says how dear it is to evict it, compared to others: a whole number, 0 for most.
	DisruptionCostAnnotationKey = Group + "/disruption-cost"
	// DeletionCostAnnotationKey, on a pod, repeats the deletion cost that Karpenter has given it. A deletion cost without it, or another one,
	// is the owner's.
	DeletionCostAnnotationKey = Group + "/deletion-cost"
	// ExamplePodAnnotationKey marks imaginary pods that show what a workload will create. No such pod is ever written to the cluster.
	ExamplePodAnnotationKey = Group + "/example-of"
	// NodeCostAnnotationKey, on a pool, says what each of its nodes costs an hour besides its price, in dollars; see NodePool.NodeCost.
	NodeCostAnnotationKey = Group + "/node-cost"
	// BufferPodAnnotationKey marks the imaginary pods that stand for a capacity buffer.
	BufferPodAnnotationKey = Group + "/capacity-buffer-fake-pod"
	// BufferNameAnnotationKey names the buffer of an imaginary pod.
	BufferNameAnnotationKey = Group + "/capacity-buffer-name"
	// BufferNamespaceAnnotationKey gives the namespace of that buffer.
	BufferNamespaceAnnotationKey = Group + "/capacity-buffer-namespace"
	// BufferReplicasAnnotationKey says for how many spare pods an imaginary pod stands.
	BufferReplicasAnnotationKey = Group + "/capacity-buffer-replicas"
)

// TerminationFinalizer keeps a claim, and its node, until the instance is gone (A57).
const TerminationFinalizer = Group + "/termination"

// Taint keys that Karpenter owns (A58).
const (
	DisruptedTaintKey    = Group + "/disrupted"
	UnregisteredTaintKey = Group + "/unregistered"
	RebootingTaintKey    = Group + "/rebooting"
	// ReadinessTaintPrefix starts the keys of taints that other agents remove when a node is really ready.
	ReadinessTaintPrefix = "readiness.k8s.io/"
)

// DisruptedTaint keeps new pods off a node that is about to go.
func DisruptedTaint() corev1.Taint {
	return corev1.Taint{Key: DisruptedTaintKey, Effect: corev1.TaintEffectNoSchedule}
}

// RebootingTaint keeps new pods off a node whose instance is being rebooted. Plans do not see it: the node comes back.
func RebootingTaint() corev1.Taint {
	return corev1.Taint{Key: RebootingTaintKey, Effect: corev1.TaintEffectNoSchedule}
}

// UnregisteredTaint is what an instance joins with; it is removed when the claim is Registered.
func UnregisteredTaint() corev1.Taint {
	return corev1.Taint{Key: UnregisteredTaintKey, Effect: corev1.TaintEffectNoExecute}
}

// KnownEphemeralTaints are taints that Kubernetes and Cluster API put on a starting node and remove by themselves. They are ignored until a
// node is Initialized.
func KnownEphemeralTaints() []corev1.Taint {
	return []corev1.Taint{
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule},
		{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule},
		{Key: "node.cluster.x-k8s.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}, // until Cluster API has set the node's labels
		UnregisteredTaint(),
	}
}

// IsKnownEphemeralTaint reports whether a taint is expected to go away by itself while a node starts (A58).
func IsKnownEphemeralTaint(taint corev1.Taint) bool {
	if strings.HasPrefix(taint.Key, ReadinessTaintPrefix) {
		return true
	}
	for _, known := range KnownEphemeralTaints() {
		if known.Key == taint.Key && known.Value == taint.Value && known.Effect == taint.Effect {
			return true
		}
	}
	return false
}

// NodeClassLabelKey is the label that names the node class on claims and nodes: its group and its kind in lower case.
func NodeClassLabelKey(ref NodeClassReference) string {
	return ref.Group + "/" + strings.ToLower(ref.Kind)
}

// LabelRules say which label keys mean something to Karpenter (A59). A provider adds its own to CoreLabelRules.
// +kubebuilder:object:generate=false
type LabelRules struct {
	// WellKnown keys need no definition by the user: the provider gives them values.
	WellKnown sets.Set[string]
	// Restricted domains, with their subdomains, are closed to keys that are not well known.
	Restricted []string
	// Aliases map other spellings of a key to the one that is used.
	Aliases map[string]string
}

// CoreLabelRules returns the rules that hold with every provider.
func CoreLabelRules() LabelRules {
	return LabelRules{
		WellKnown: sets.New(
			NodePoolLabelKey, CapacityTypeLabelKey, corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
			corev1.LabelInstanceTypeStable, corev1.LabelArchStable, corev1.LabelOSStable, corev1.LabelWindowsBuild,
		),
		Restricted: []string{Group},
		Aliases: map[string]string{
			corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
			corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
			corev1.LabelInstanceType:            corev1.LabelInstanceTypeStable,
			"beta.kubernetes.io/arch":           corev1.LabelArchStable,
			"beta.kubernetes.io/os":             corev1.LabelOSStable,
		},
	}
}

// Normalize returns the spelling of a key that is used.
func (r LabelRules) Normalize(key string) string {
	if used, ok := r.Aliases[key]; ok {
		return used
	}
	return key
}

// Normalized are labels under the keys that are used. Where an object has a label under an old key as well, with another value,
// the one that is used counts.
func (r LabelRules) Normalized(labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels))
	for k, v := range labels {
		used := r.Normalize(k)
		if _, both := labels[used]; k == used || !both {
			out[used] = v
		}
	}
	return out
}

// IsRestricted reports whether users may not put the key on nodes or ask for it.
func (r LabelRules) IsRestricted(key string) bool {
	if key == corev1.LabelHostname {
		return true
	}
	if r.WellKnown.Has(key) {
		return false
	}
	domain, _, hasDomain := strings.Cut(key, "/")
	if !hasDomain {
		return false
	}
	for _, restricted := range r.Restricted {
		if domain == restricted || strings.HasSuffix(domain, "."+restricted) {
			return true
		}
	}
	return false
}
