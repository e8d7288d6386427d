package v1

// ConditionReady is the root condition of every kind: it sums up the ones that the kind depends on.
const ConditionReady = "Ready"

// Conditions of a NodePool (A30). Ready is ValidationSucceeded and NodeClassReady.
const (
	// ConditionValidationSucceeded says whether the spec passed the checks that the API server cannot make.
	ConditionValidationSucceeded = "ValidationSucceeded"
	// ConditionNodeClassReady says whether the node class exists and is Ready.
	ConditionNodeClassReady = "NodeClassReady"
	// ConditionNodeRegistrationHealthy says whether the pool's recent nodes joined the cluster. It is information
	// only and never keeps a pool from being used.
	ConditionNodeRegistrationHealthy = "NodeRegistrationHealthy"
)

// Conditions of a NodeClaim (A39). Ready is Launched, Registered and Initialized.
const (
	// ConditionLaunched says whether the cloud has launched the instance.
	ConditionLaunched = "Launched"
	// ConditionRegistered says whether the instance has joined as a node.
	ConditionRegistered = "Registered"
	// ConditionInitialized says whether the node is ready for the pods it was made for.
	ConditionInitialized = "Initialized"
	// ConditionConsolidatable says whether the node has been quiet for consolidateAfter.
	ConditionConsolidatable = "Consolidatable"
	// ConditionDrifted says that the node is no longer what its pool or class describes; the reason says in what.
	ConditionDrifted = "Drifted"
	// ConditionDrained says whether the pods that must be evicted are gone.
	ConditionDrained = "Drained"
	// ConditionVolumesDetached says whether the node's volumes are free for their next node.
	ConditionVolumesDetached = "VolumesDetached"
	// ConditionInstanceTerminating says that the cloud has been told to terminate the instance.
	ConditionInstanceTerminating = "InstanceTerminating"
	// ConditionInstanceMissing is True while the cloud does not show the instance and the claim is kept all the same.
	ConditionInstanceMissing = "InstanceMissing"
	// ConditionConsistentStateFound says whether the node is as large as the instance type promised.
	ConditionConsistentStateFound = "ConsistentStateFound"
	// ConditionDisruptionReason is True while a disruption holds the node; the reason is a DisruptionReason.
	ConditionDisruptionReason = "DisruptionReason"
	// ConditionRebooting is True while the instance is rebooted because its node is unhealthy, and False once that has ended.
	ConditionRebooting = "Rebooting"
)

// Reasons that the condition arithmetic gives (A52, A53). A True condition without a reason has its type as reason.
const (
	// ReasonAwaitingReconciliation means that nobody has judged the condition yet.
	ReasonAwaitingReconciliation = "AwaitingReconciliation"
	// ReasonUnhealthyDependents means that Ready is False because a condition it depends on is.
	ReasonUnhealthyDependents = "UnhealthyDependents"
	// ReasonReconcilingDependents means that Ready is Unknown because a condition it depends on is, or was judged for
	// an older generation.
	ReasonReconcilingDependents = "ReconcilingDependents"
)

// Reasons of NodePool conditions.
const (
	// ReasonNodePoolValidationFailed means that ValidationSucceeded is False; the message names the field.
	ReasonNodePoolValidationFailed = "NodePoolValidationFailed"
	// ReasonStaticCapacityDisabled means that the pool has replicas, and that the feature gate StaticCapacity is off.
	ReasonStaticCapacityDisabled = "StaticCapacityDisabled"
	// ReasonNodeClassNotFound means that no object has the name in nodeClassRef.
	ReasonNodeClassNotFound = "NodeClassNotFound"
	// ReasonNodeClassTerminating means that the node class is being deleted.
	ReasonNodeClassTerminating = "NodeClassTerminating"
	// ReasonNodeClassReadinessUnknown means that the node class does not say yet whether it is Ready.
	ReasonNodeClassReadinessUnknown = "NodeClassReadinessUnknown"
	// ReasonRegistrationFailed means that recent nodes of the pool did not join the cluster.
	ReasonRegistrationFailed = "RegistrationFailed"
)

// Reasons of NodeClaim conditions.
const (
	// ReasonLaunchFailed means that the cloud refused for a reason without a name of its own; it is tried again.
	ReasonLaunchFailed = "LaunchFailed"
	// ReasonInstanceProvisioning means that the cloud is making the instance and has not named it yet.
	ReasonInstanceProvisioning = "InstanceProvisioning"
	// ReasonNodeNotFound means that no node carries the instance's provider ID yet.
	ReasonNodeNotFound = "NodeNotFound"
	// ReasonMultipleNodesFound means that more than one node carries the instance's provider ID.
	ReasonMultipleNodesFound = "MultipleNodesFound"
	// ReasonRegistrationHookPending means that something must still be done before pods may use the node.
	ReasonRegistrationHookPending = "RegistrationHookPending"
	// ReasonNodeNotReady means that the kubelet does not report Ready.
	ReasonNodeNotReady = "NodeNotReady"
	// ReasonStartupTaintsExist means that a startup taint has not been removed yet.
	ReasonStartupTaintsExist = "StartupTaintsExist"
	// ReasonKnownEphemeralTaintsExist means that a taint which Kubernetes puts on starting nodes is still there.
	ReasonKnownEphemeralTaintsExist = "KnownEphemeralTaintsExist"
	// ReasonResourceNotRegistered means that a requested resource is not on the node yet, for example a GPU.
	ReasonResourceNotRegistered = "ResourceNotRegistered"
	// ReasonDRADriverPoolsNotPublished means that a device driver has not published the node's devices yet.
	ReasonDRADriverPoolsNotPublished = "DRADriverPoolsNotPublished"
	// ReasonDraining means that pods are still on the node.
	ReasonDraining = "Draining"
	// ReasonAwaitingVolumeDetachment means that volumes are still attached.
	ReasonAwaitingVolumeDetachment = "AwaitingVolumeDetachment"
	// ReasonTerminationGracePeriodElapsed means that terminationGracePeriod ended the waiting.
	ReasonTerminationGracePeriodElapsed = "TerminationGracePeriodElapsed"
	// ReasonRebootRequested means that the node is drained before its instance is rebooted.
	ReasonRebootRequested = "RebootRequested"
	// ReasonRebootIssued means that the cloud has been told to reboot the instance, and that the node is not back yet.
	ReasonRebootIssued = "RebootIssued"
	// ReasonRebootSucceeded means that the node is back after its reboot.
	ReasonRebootSucceeded = "RebootSucceeded"
	// ReasonRebootFailed means that the reboot failed or the node did not come back; it is replaced.
	ReasonRebootFailed = "RebootFailed"
	// ReasonRebooting means that Initialized is Unknown because the instance is rebooted.
	ReasonRebooting = "Rebooting"
	// ReasonNodePoolDrifted means that the claim was made from an older template of its pool.
	ReasonNodePoolDrifted = "NodePoolDrifted"
	// ReasonRequirementsDrifted means that the node's labels no longer satisfy the pool's requirements.
	ReasonRequirementsDrifted = "RequirementsDrifted"
	// ReasonInstanceTypeNotFound means that the cloud does not know the node's instance type, or does not offer it where it is.
	ReasonInstanceTypeNotFound = "InstanceTypeNotFound"
)

var (
	nodePoolConditions  = ConditionTypes{Root: ConditionReady, Dependents: []string{ConditionValidationSucceeded, ConditionNodeClassReady}}
	nodeClaimConditions = ConditionTypes{Root: ConditionReady, Dependents: []string{ConditionLaunched, ConditionRegistered, ConditionInitialized}}
)

// GetConditions returns the conditions as they are stored.
func (p *NodePool) GetConditions() []Condition { return p.Status.Conditions }

// SetConditions replaces the stored conditions.
func (p *NodePool) SetConditions(conditions []Condition) { p.Status.Conditions = conditions }

// StatusConditions returns the pool's condition set.
func (p *NodePool) StatusConditions() *ConditionSet { return NewConditionSet(p, nodePoolConditions) }

// GetConditions returns the conditions as they are stored.
func (c *NodeClaim) GetConditions() []Condition { return c.Status.Conditions }

// SetConditions replaces the stored conditions.
func (c *NodeClaim) SetConditions(conditions []Condition) { c.Status.Conditions = conditions }

// StatusConditions returns the claim's condition set.
func (c *NodeClaim) StatusConditions() *ConditionSet { return NewConditionSet(c, nodeClaimConditions) }
