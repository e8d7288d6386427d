package meter

import "slices"

// Table is every metric of a controller with that provider.
func Table(c Cloud) []Metric {
	return slices.Concat(claimMetrics(), nodeMetrics(c), clusterMetrics(), podMetrics(), poolMetrics(), schedulerMetrics(),
		disruptionMetrics(), processMetrics(), cloudMetrics(), c.Metrics, statusMetrics(c), olderMetrics())
}

func claimMetrics() []Metric {
	disrupted := []string{"nodepool", "reason", "capacity_type", "consolidation_policy", "termination_mode"}
	return []Metric{
		{
			Name: NodeClaimsCreated, Kind: Counter, ID: "O1", Labels: []string{"nodepool", "reason", "min_values_relaxed"},
			Help: "Claims written, by why they were needed: provisioned, or the reason of the disruption that they replace for.",
		},
		{
			Name: NodeClaimsTerminated, Kind: Counter, ID: "O2", Labels: []string{"nodepool", "capacity_type", "zone"},
			Help: "Claims that are gone together with their instance.",
		},
		{
			Name: NodeClaimsDisrupted, Kind: Counter, ID: "O3", Labels: disrupted,
			Help: "Claims that Karpenter decided to end, by reason and by how their pods are evicted: graceful, eventual or forceful.",
		},
		{
			Name: PodsDisruptionInitiated, Kind: Counter, ID: "O4", Labels: disrupted,
			Help: "Pods that had to move because their claim was disrupted.",
		},
		{
			Name: NodeClaimsTerminationDuration, Kind: Histogram, ID: "O6", Labels: []string{"nodepool"}, Buckets: doubling(1, 12),
			Help: "Time from the deletion of a claim until it was gone.",
		},
		{
			Name: NodeClaimsInstanceTerminationDuration, Kind: Histogram, ID: "O7", Labels: []string{"nodepool"}, Buckets: doubling(1, 11),
			Help: "Time from the first request to end an instance until the cloud said that it had ended.",
		},
		{
			Name: NodeClaimsUnhealthyDisrupted, Kind: Counter, ID: "O8", Labels: []string{"nodepool", "condition", "capacity_type", "image_id", "termination_mode"},
			Help: "Claims ended because their node stayed unhealthy, by the node condition that said so.",
		},
	}
}

func nodeMetrics(c Cloud) []Metric {
	perNode := slices.Concat([]string{"node_name", "phase", "managed"}, snakes(c.WellKnown()))
	perResource := append(slices.Clone(perNode), "resource_type")
	gauge := func(name Name, help string) Metric {
		return Metric{Name: name, Kind: Gauge, ID: "O12", Labels: perResource, Most: maxWide, Help: help}
	}
	return []Metric{
		{Name: NodesCreated, Kind: Counter, ID: "O5", Labels: []string{"nodepool", "zone"}, Help: "Nodes that have joined the cluster."},
		{Name: NodesTerminated, Kind: Counter, ID: "O5", Labels: []string{"nodepool", "zone"}, Help: "Nodes that have been deleted."},
		{
			Name: NodesTerminationDuration, Kind: Summary, ID: "O9", Labels: []string{"nodepool"},
			Help: "Time from the deletion of a node until its finalizer was removed.",
		},
		{Name: NodesDrained, Kind: Counter, ID: "O10", Labels: []string{"nodepool"}, Help: "Nodes that were drained."},
		{
			Name: NodesReboots, Kind: Counter, ID: "N7", Labels: []string{"result"},
			Help: "Reboots of unhealthy nodes that have ended, by what came of them: succeeded, provider_error, recovery_timeout, drain_timeout or invalid_request.",
		},
		{
			Name: NodesRebootDuration, Kind: Histogram, ID: "N7", Labels: []string{"result"}, Buckets: doubling(1, 12),
			Help: "Time from the decision to reboot a node until it was back or given up.",
		},
		{
			Name: NodesRebootRecovery, Kind: Histogram, ID: "N7", Buckets: doubling(1, 12),
			Help: "Time from the moment at which the cloud accepted a reboot until the node was back.",
		},
		{
			Name: NodesLifetimeDuration, Kind: Histogram, ID: "O11", Labels: []string{"nodepool"}, Buckets: lifetimes(),
			Help: "How old nodes were when they were deleted.",
		},
		gauge(NodesAllocatable, "What a node offers to pods."),
		gauge(NodesTotalPodRequests, "What pods on a node request, those of DaemonSets included."),
		gauge(NodesTotalPodLimits, "The limits of the pods on a node, those of DaemonSets included."),
		gauge(NodesTotalDaemonRequests, "What pods of DaemonSets on a node request."),
		gauge(NodesTotalDaemonLimits, "The limits of the pods of DaemonSets on a node."),
		gauge(NodesSystemOverhead, "What the system keeps of a node: capacity less allocatable."),
		{Name: NodesCurrentLifetime, Kind: Gauge, ID: "O13", Labels: perNode, Most: maxWide, Help: "Age of a node."},
	}
}

// lifetimes are quarters of an hour, hours, and days up to thirty.
func lifetimes() []float64 {
	const hour, day = 3600., 86400.
	return []float64{
		hour / 4, hour / 2, hour * 3 / 4, hour, 2 * hour, 4 * hour, 6 * hour, 8 * hour, 10 * hour, 12 * hour, 16 * hour, 20 * hour,
		day, 2 * day, 3 * day, 5 * day, 10 * day, 15 * day, 20 * day, 25 * day, 30 * day,
	}
}

func clusterMetrics() []Metric {
	return []Metric{
		{Name: ClusterUtilization, Kind: Gauge, ID: "O14", Labels: []string{"resource_type"}, Help: "Share of what nodes offer that pods request, in percent."},
		{Name: ClusterStateNodes, Kind: Gauge, ID: "O15", Help: "Nodes and claims that Karpenter knows."},
		{Name: ClusterStateSynced, Kind: Gauge, ID: "O15", Help: "Whether Karpenter has seen the whole cluster: 1 or 0."},
		{Name: ClusterStateUnsynced, Kind: Gauge, ID: "O15", Help: "For how long Karpenter has not seen the whole cluster."},
		{
			Name: ClusterStateDifferences, Kind: Counter, ID: "W", Labels: []string{"kind"},
			Help: "Objects that Karpenter still saw otherwise a minute after the API server had them, or that did not mean what they should.",
		},
		{
			Name: GarbageCollectionHeld, Kind: Gauge, ID: "W", Labels: []string{"kind"},
			Help: "NodeClaims without an instance, or instances without a NodeClaim, that are kept for now because there are suspiciously many.",
		},
	}
}

func podMetrics() []Metric {
	perPod := func(name Name, id, help string, more ...string) Metric {
		return Metric{Name: name, Kind: Gauge, ID: id, Labels: append([]string{"name", "namespace"}, more...), Most: maxPods, Help: help}
	}
	duration := func(name Name, id, help string) Metric {
		return Metric{Name: name, Kind: Histogram, ID: id, Buckets: durations(), Help: help}
	}
	bound := func(name Name, id, help string) Metric {
		m := duration(name, id, help)
		m.Labels, m.Start = []string{"dynamic_resources"}, []string{"false", "true"}
		return m
	}
	return []Metric{
		{
			Name: PodsState, Kind: Gauge, ID: "O16", Most: maxPods, Help: "One for each pod, with where it is and how it is doing.",
			Labels: []string{"name", "namespace", "owner", "node", "scheduled", "nodepool", "zone", "arch", "capacity_type", "instance_type", "phase", "ready", "managed"},
		},
		{Name: PodsStartupDuration, Kind: Summary, ID: "O17", Help: "Time from the creation of a pod until it was ready."},
		perPod(PodsUnstartedTime, "O18", "For how long a pod has existed without running."),
		perPod(PodsUnboundTime, "O18", "For how long a pod has existed without a node.", "dynamic_resources"),
		bound(PodsBoundDuration, "O19", "Time from the creation of a pod until it had a node."),
		bound(PodsProvisioningBoundDuration, "O20", "Time from Karpenter's first plan for a pod until the pod had a node."),
		duration(PodsProvisioningStartupDuration, "O20", "Time from Karpenter's first plan for a pod until the pod ran."),
		perPod(PodsProvisioningUnboundTime, "O21", "For how long a pod that Karpenter has planned for has had no node.", "dynamic_resources"),
		perPod(PodsProvisioningUnstartedTime, "O21", "For how long a pod that Karpenter has planned for has not run."),
		perPod(PodsSchedulingUndecidedTime, "O21", "For how long Karpenter has known of a pod without a decision about it."),
		duration(PodsSchedulingDecisionDuration, "O22", "Time from first seeing a pod until the first decision about it."),
		{Name: PodsBoundAsPlanned, Kind: Counter, ID: "ours", Labels: []string{"outcome"}, Help: "Pods bound after Karpenter had planned a node for them: planned if to that node, elsewhere if to another."},
		{Name: PodsEvictionRequests, Kind: Counter, ID: "O23", Labels: []string{"code"}, Help: "Evictions asked for, by the API server's answer."},
		{Name: PodsDrained, Kind: Counter, ID: "O24", Labels: []string{"reason"}, Help: "Pods that were evicted because their node was drained."},
	}
}

func poolMetrics() []Metric {
	amount, budget := []string{"nodepool", "resource_type"}, []string{"nodepool", "reason"}
	return []Metric{
		{Name: NodePoolsLimit, Kind: Gauge, ID: "O25", Labels: amount, Help: "Limit of a pool."},
		{Name: NodePoolsReplicas, Kind: Gauge, ID: "ours", Labels: []string{"nodepool"}, Help: "How many nodes a static pool is to have."},
		{Name: NodePoolsUsage, Kind: Gauge, ID: "O25", Labels: amount, Help: "What the nodes and claims of a pool amount to."},
		{Name: NodePoolsCost, Kind: Gauge, ID: "O26", Labels: []string{"nodepool"}, Help: "Price of a pool's instances per hour, as estimated."},
		{Name: NodePoolsCostErrors, Kind: Counter, ID: "O27", Labels: []string{"nodepool"}, Help: "Instances whose price could not be found."},
		{Name: NodePoolsAllowedDisruptions, Kind: Gauge, ID: "O28", Labels: budget, Help: "Nodes of a pool that the budgets allow to be disrupted at this moment."},
		{Name: NodePoolsNodesConsumingBudgets, Kind: Gauge, ID: "O28", Labels: budget, Help: "Nodes of a pool that count against its budgets at this moment."},
		{Name: NodePoolsPods, Kind: Gauge, ID: "ours", Labels: []string{"nodepool"}, Help: "Pods on a pool's nodes that would have to move if their node were disrupted."},
		{Name: BufferSparePods, Kind: Gauge, ID: "ours", Labels: []string{"namespace", "name", "state"}, Help: "Spare pods of a CapacityBuffer: fits if nodes have room for them, launching if nodes are launched for them, refused if there is room nowhere."},
	}
}
