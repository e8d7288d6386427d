package meter

// Name names a metric: the full name without the prefix "karpenter_". Names that other libraries coined (operator_…,
// client_go_…) have no prefix and stand for themselves.
type Name string

// NodeClaims (O1–O4, O6–O8).
const (
	NodeClaimsCreated                     Name = "nodeclaims_created_total"
	NodeClaimsTerminated                  Name = "nodeclaims_terminated_total"
	NodeClaimsDisrupted                   Name = "nodeclaims_disrupted_total"
	PodsDisruptionInitiated               Name = "pods_disruption_initiated_total"
	NodeClaimsTerminationDuration         Name = "nodeclaims_termination_duration_seconds"
	NodeClaimsInstanceTerminationDuration Name = "nodeclaims_instance_termination_duration_seconds"
	NodeClaimsUnhealthyDisrupted          Name = "nodeclaims_unhealthy_disrupted_total"
)

// Nodes (O5, O9–O13).
const (
	NodesCreated             Name = "nodes_created_total"
	NodesTerminated          Name = "nodes_terminated_total"
	NodesTerminationDuration Name = "nodes_termination_duration_seconds"
	NodesDrained             Name = "nodes_drained_total"
	NodesReboots             Name = "nodes_reboots_total"
	NodesRebootDuration      Name = "nodes_reboot_duration_seconds"
	NodesRebootRecovery      Name = "nodes_reboot_recovery_duration_seconds"
	NodesLifetimeDuration    Name = "nodes_lifetime_duration_seconds"
	NodesAllocatable         Name = "nodes_allocatable"
	NodesTotalPodRequests    Name = "nodes_total_pod_requests"
	NodesTotalPodLimits      Name = "nodes_total_pod_limits"
	NodesTotalDaemonRequests Name = "nodes_total_daemon_requests"
	NodesTotalDaemonLimits   Name = "nodes_total_daemon_limits"
	NodesSystemOverhead      Name = "nodes_system_overhead"
	NodesCurrentLifetime     Name = "nodes_current_lifetime_seconds"
)

// The cluster as we see it (O14, O15).
const (
	ClusterUtilization   Name = "cluster_utilization_percent"
	ClusterStateNodes    Name = "cluster_state_node_count"
	ClusterStateSynced   Name = "cluster_state_synced"
	ClusterStateUnsynced Name = "cluster_state_unsynced_time_seconds"
	// ClusterStateDifferences counts what the self-audit finds. Label kind is that of the object.
	ClusterStateDifferences Name = "cluster_state_differences_total"
	// GarbageCollectionHeld is what is collected later than usual. Label kind is nodeclaims or instances.
	GarbageCollectionHeld Name = "garbage_collection_held"
)

// Pods (O16–O24).
const (
	PodsState                       Name = "pods_state"
	PodsStartupDuration             Name = "pods_startup_duration_seconds"
	PodsUnstartedTime               Name = "pods_unstarted_time_seconds"
	PodsUnboundTime                 Name = "pods_unbound_time_seconds"
	PodsBoundDuration               Name = "pods_bound_duration_seconds"
	PodsProvisioningBoundDuration   Name = "pods_provisioning_bound_duration_seconds"
	PodsProvisioningStartupDuration Name = "pods_provisioning_startup_duration_seconds"
	PodsProvisioningUnboundTime     Name = "pods_provisioning_unbound_time_seconds"
	PodsProvisioningUnstartedTime   Name = "pods_provisioning_unstarted_time_seconds"
	PodsSchedulingUndecidedTime     Name = "pods_provisioning_scheduling_undecided_time_seconds"
	PodsSchedulingDecisionDuration  Name = "pods_scheduling_decision_duration_seconds"
	PodsBoundAsPlanned              Name = "pods_bound_as_planned_total"
	PodsEvictionRequests            Name = "pods_eviction_requests_total"
	PodsDrained                     Name = "pods_drained_total"
)

// Pools (O25–O28).
const (
	NodePoolsLimit                 Name = "nodepools_limit"
	NodePoolsReplicas              Name = "nodepools_replicas"
	NodePoolsUsage                 Name = "nodepools_usage"
	NodePoolsCost                  Name = "nodepools_cost_total"
	NodePoolsCostErrors            Name = "nodepools_cost_tracker_errors_total"
	NodePoolsAllowedDisruptions    Name = "nodepools_allowed_disruptions"
	NodePoolsNodesConsumingBudgets Name = "nodepools_nodes_consuming_budgets"
	NodePoolsPods                  Name = "nodepools_pods"
)

// Buffers.
const BufferSparePods Name = "capacitybuffers_spare_pods"

// Scheduling (O29–O33).
const (
	SchedulingDuration     Name = "scheduler_scheduling_duration_seconds"
	SchedulerQueueDepth    Name = "scheduler_queue_depth"
	SchedulerUnfinished    Name = "scheduler_unfinished_work_seconds"
	SchedulerUnschedulable Name = "scheduler_unschedulable_pods_count"
	SchedulerIgnoredPods   Name = "scheduler_ignored_pods_count"
	SchedulerPendingZones  Name = "scheduler_pending_pods_by_effective_zone_count"
)

// Disruption (O34–O41).
const (
	DisruptionEvaluationDuration    Name = "voluntary_disruption_decision_evaluation_duration_seconds"
	TerminateFirstDecisions         Name = "voluntary_disruption_terminate_first_decisions_total"
	DisruptionDecisions             Name = "voluntary_disruption_decisions_total"
	DisruptionDecisionsByPool       Name = "voluntary_disruption_decisions_by_nodepool_total"
	DisruptionEligibleNodes         Name = "voluntary_disruption_eligible_nodes"
	DisruptionConsolidationTimeouts Name = "voluntary_disruption_consolidation_timeouts_total"
	DisruptionFailedValidations     Name = "voluntary_disruption_failed_validations_total"
	DisruptionQueueFailures         Name = "voluntary_disruption_queue_failures_total"
	ConsolidationScore              Name = "consolidation_score"
	ConsolidationMoves              Name = "consolidation_moves_total"
	ConsolidationEvictions          Name = "consolidation_evicted_pods_total"
	ConsolidationSavings            Name = "consolidation_savings_dollars_per_hour_total"
	ConsolidationPlaced             Name = "consolidation_moved_pods_total"
	DeletionCostPending             Name = "pod_deletion_cost_nodes_with_pending_annotation_writes"
	DeletionCostWrites              Name = "pod_deletion_cost_pod_annotation_writes_total"
)

// Calls to the provider, and the program itself (O42–O44, O46).
const (
	CloudDuration    Name = "cloudprovider_duration_seconds"
	CloudErrors      Name = "cloudprovider_errors_total"
	BuildInfo        Name = "build_info"
	ClientGoDuration Name = "client_go_request_duration_seconds"
	ClientGoRequests Name = "client_go_request_total"
	// Refused counts what was left out: series beyond a metric's bound, and calls that the table does not allow.
	Refused Name = "metrics_refused_total"
)

// What every provider may do (aws §7.5).
const (
	InterruptionReceived      Name = "interruption_received_messages_total"
	InterruptionDeleted       Name = "interruption_deleted_messages_total"
	InterruptionQueueDuration Name = "interruption_message_queue_duration_seconds"
	InstanceStatusUnhealthy   Name = "interruption_instance_status_unhealthy_total"
	OfferingPrice             Name = "cloudprovider_instance_type_offering_price_estimate"
	OfferingAvailable         Name = "cloudprovider_instance_type_offering_available"
	InstanceTypeCPU           Name = "cloudprovider_instance_type_cpu_cores"
	InstanceTypeMemory        Name = "cloudprovider_instance_type_memory_bytes"
	LaunchFailures            Name = "cloudprovider_instance_launch_failures_total"
	TerminationFailures       Name = "cloudprovider_instance_termination_failures_total"
	BatchTime                 Name = "cloudprovider_batcher_batch_time_seconds"
	BatchSize                 Name = "cloudprovider_batcher_batch_size"
)

// Names of the v1beta1 days that have no successor to follow and are counted on their own (A76).
const (
	// ProvisionerDuration is one pass from pending pods to claims. Label result is "success" or "error".
	ProvisionerDuration   Name = "provisioner_scheduling_duration_seconds"
	NodeClaimsLaunched    Name = "nodeclaims_launched"
	NodeClaimsRegistered  Name = "nodeclaims_registered"
	NodeClaimsInitialized Name = "nodeclaims_initialized"
	NodeClaimsDrifted     Name = "nodeclaims_drifted"
	InterruptionActions   Name = "interruption_actions_performed"
	DisruptionQueueDepth  Name = "disruption_queue_depth"
	// ReplacementInitialized is how long replacements took from creation to being usable.
	ReplacementInitialized Name = "disruption_replacement_nodeclaim_initialized_seconds"
	DisruptionNodes        Name = "disruption_nodes_disrupted_total"
	ConsistencyErrors      Name = "consistency_errors"
)
