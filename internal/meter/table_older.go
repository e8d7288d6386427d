package meter

// olderMetrics are names of the v1beta1 days that alerts and dashboards still ask for (A76). Those with a successor follow
// it; the others are counted where things happen.
func olderMetrics() []Metric {
	own := []Metric{
		{
			Name: ProvisionerDuration, Kind: Histogram, Labels: []string{"result"}, Buckets: durations(), Start: []string{"success", "error"},
			Help: "Time from waking up for pending pods until their claims were written.",
		},
		{Name: NodeClaimsLaunched, Kind: Counter, Labels: []string{"nodepool"}, Help: "Claims that got an instance."},
		{Name: NodeClaimsRegistered, Kind: Counter, Labels: []string{"nodepool"}, Help: "Claims whose node joined."},
		{Name: NodeClaimsInitialized, Kind: Counter, Labels: []string{"nodepool"}, Help: "Claims whose node became usable."},
		{Name: NodeClaimsDrifted, Kind: Counter, Labels: []string{"nodepool", "type"}, Help: "Claims found to differ from their pool or class, by reason."},
		{Name: InterruptionActions, Kind: Counter, Labels: []string{"action"}, Help: "What was done about notices of interruption."},
		{Name: DisruptionQueueDepth, Kind: Gauge, Help: "Disruptions that have begun and are not finished."},
		{
			Name: ReplacementInitialized, Kind: Histogram, Buckets: durations(),
			Help: "Time from the creation of a replacement until it was usable.",
		},
		{
			Name: DisruptionNodes, Kind: Counter, Labels: []string{"nodepool", "action", "method", "consolidation_type"},
			Help: "Nodes disrupted.",
		},
		{Name: ConsistencyErrors, Kind: Counter, Labels: []string{"check"}, Help: "Nodes found to be other than their claim says."},
	}
	all := append(own, followers()...)
	for i := range all {
		all[i].ID = "A76"
	}
	return all
}

func followers() []Metric {
	method := map[string]string{"method": "reason"}
	action := map[string]string{"action": "decision", "method": "reason"}
	return []Metric{
		follow("nodeclaims_created", NodeClaimsCreated, []string{"nodepool", "reason"}, nil),
		follow("nodeclaims_terminated", NodeClaimsTerminated, []string{"nodepool"}, nil),
		follow("nodeclaims_disrupted", NodeClaimsDisrupted, []string{"nodepool", "type"}, map[string]string{"type": "reason"}),
		follow("nodes_created", NodesCreated, []string{"nodepool"}, nil),
		follow("nodes_terminated", NodesTerminated, []string{"nodepool"}, nil),
		follow("nodes_termination_time_seconds", NodesTerminationDuration, []string{"nodepool"}, nil),
		follow("nodes_eviction_requests_total", PodsEvictionRequests, []string{"code"}, nil),
		follow("pods_startup_time_seconds", PodsStartupDuration, nil, nil),
		follow("provisioner_scheduling_simulation_duration_seconds", SchedulingDuration, []string{"controller"}, nil),
		follow("ignored_pod_count", SchedulerIgnoredPods, nil, nil),
		follow("nodepool_usage", NodePoolsUsage, []string{"nodepool", "resource_type"}, nil),
		follow("nodepool_limit", NodePoolsLimit, []string{"nodepool", "resource_type"}, nil),
		follow("disruption_budgets_allowed_disruptions", NodePoolsAllowedDisruptions, []string{"nodepool", "reason"}, nil),
		follow("disruption_actions_performed_total", DisruptionDecisions, []string{"action", "method", "consolidation_type"}, action),
		follow("disruption_evaluation_duration_seconds", DisruptionEvaluationDuration, []string{"method", "consolidation_type"}, method),
		follow("disruption_eligible_nodes", DisruptionEligibleNodes, []string{"method"}, method),
		follow("disruption_consolidation_timeouts_total", DisruptionConsolidationTimeouts, []string{"consolidation_type"}, nil),
		follow("disruption_replacement_nodeclaim_failures_total", DisruptionQueueFailures, []string{"method", "consolidation_type"}, method),
		follow("disruption_pods_disrupted_total", PodsDisruptionInitiated, []string{"nodepool", "method"}, method),
		follow("interruption_received_messages", InterruptionReceived, []string{"message_type"}, nil),
		follow("interruption_deleted_messages", InterruptionDeleted, nil, nil),
		follow("interruption_message_latency_time_seconds", InterruptionQueueDuration, nil, nil),
		follow("cloudprovider_instance_type_price_estimate", OfferingPrice, []string{"instance_type", "capacity_type", "zone"}, nil),
	}
}

// follow is an older name of a metric. A gauge keeps every label of its successor, since two values cannot share a series;
// of the others, dropping a label sums up. Kind, buckets and bound are the successor's.
func follow(name, of Name, labels []string, takes map[string]string) Metric {
	m := successors[of]
	return Metric{
		Name: name, Kind: m.Kind, Buckets: m.Buckets, Most: m.Most, Follows: of, Labels: labels, Takes: takes,
		Help: "Older name of " + m.Full() + ".",
	}
}

// successors are the metrics that older names may follow.
var successors = func() map[Name]Metric {
	found := map[Name]Metric{}
	for _, list := range [][]Metric{claimMetrics(), nodeMetrics(Cloud{}), podMetrics(), poolMetrics(), schedulerMetrics(), disruptionMetrics(), cloudMetrics()} {
		for _, m := range list {
			found[m.Name] = m
		}
	}
	return found
}()
