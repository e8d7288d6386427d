package meter

func schedulerMetrics() []Metric {
	pass := []string{"scheduling_id", "controller"}
	return []Metric{
		{
			Name: SchedulingDuration, Kind: Histogram, ID: "O29", Labels: []string{"controller"}, Buckets: durations(),
			Help: "Time that planning took, for new pods and for disruption.",
		},
		{Name: SchedulerQueueDepth, Kind: Gauge, ID: "O30", Labels: pass, Help: "Pods that a pass has still to place; zero once it is over, until the next one begins."},
		{Name: SchedulerUnfinished, Kind: Gauge, ID: "O30", Labels: pass, Help: "For how long a pass has been at work; zero once it is over, until the next one begins."},
		{Name: SchedulerUnschedulable, Kind: Gauge, ID: "O31", Labels: []string{"controller"}, Help: "Pods that are unschedulable on every pool."},
		{Name: SchedulerIgnoredPods, Kind: Gauge, ID: "O32", Help: "Pending pods that are left out because something about them cannot be met or read."},
		{
			Name: SchedulerPendingZones, Kind: Gauge, ID: "O33", Labels: []string{"controller", "zone"},
			Help: "Pending pods by the zone that they must be in; flexible if there are several, none if there is no such zone.",
		},
	}
}

func disruptionMetrics() []Metric {
	decision := []string{"decision", "reason", "consolidation_type"}
	return []Metric{
		{
			Name: DisruptionEvaluationDuration, Kind: Histogram, ID: "O34", Labels: []string{"reason", "consolidation_type"}, Buckets: durations(),
			Help: "Time that looking for nodes to disrupt took.",
		},
		{Name: DisruptionDecisions, Kind: Counter, ID: "O35", Labels: decision, Help: "Disruptions decided on: to delete, to replace, to reboot, or to terminate first."},
		{
			Name: TerminateFirstDecisions, Kind: Counter, ID: "N8", Labels: []string{"nodepool", "reason", "terminate_first_reason"},
			Help: "Nodes that are removed before their replacement is launched, because it needs their place.",
		},
		{
			Name: DisruptionDecisionsByPool, Kind: Counter, ID: "O36", Labels: []string{"nodepool", "decision", "reason", "consolidation_type"},
			Help: "Disruptions decided on, by pool of the nodes.",
		},
		{Name: DisruptionEligibleNodes, Kind: Gauge, ID: "O37", Labels: []string{"reason"}, Help: "Nodes that could be disrupted now."},
		{
			Name: DisruptionConsolidationTimeouts, Kind: Counter, ID: "O38", Labels: []string{"consolidation_type"}, Start: []string{"empty", "multi", "single"},
			Help: "Searches for a consolidation that ran out of time: none does, since what they look at is bounded instead; for alerts that ask for it.",
		},
		{
			Name: DisruptionFailedValidations, Kind: Counter, ID: "O38", Labels: []string{"consolidation_type"},
			Help: "Consolidations that no longer held when they were about to be carried out.",
		},
		{Name: DisruptionQueueFailures, Kind: Counter, ID: "O39", Labels: decision, Help: "Disruptions that were begun and could not be finished."},
		{
			Name: ConsolidationScore, Kind: Histogram, ID: "O40", Labels: []string{"nodepool", "decision", "policy"},
			Buckets: []float64{.1, .25, .33, .5, 1, 2, 5, 10}, Help: "What consolidations were worth against the disruption they cause.",
		},
		{
			Name: ConsolidationMoves, Kind: Counter, ID: "O41", Labels: []string{"nodepool", "decision", "policy"},
			Help: "Consolidations that were weighed: approved or rejected.",
		},
		{
			Name: ConsolidationEvictions, Kind: Counter, ID: "ours", Labels: []string{"nodepool"},
			Help: "Pods that had to restart because consolidation deleted their node for its cost.",
		},
		{
			Name: ConsolidationSavings, Kind: Counter, ID: "ours", Labels: []string{"nodepool"},
			Help: "Dollars an hour that the consolidations behind those evictions were to save.",
		},
		{Name: DeletionCostPending, Kind: Gauge, ID: "N9", Labels: []string{"nodepool"}, Help: "Nodes that the last pass had pods of to write a deletion cost on, or take one back from."},
		{Name: DeletionCostWrites, Kind: Counter, ID: "N9", Labels: []string{"result"}, Help: "Deletion costs written on pods or taken back, by result: updated, skipped_notfound or skipped_conflict if the pod was gone or had changed, or error. The last two are tried again."},
		{
			Name: ConsolidationPlaced, Kind: Counter, ID: "ours", Labels: []string{"nodepool", "outcome"},
			Help: "Pods bound in place of those evicted for cost: planned if to the node that had room for them, elsewhere if to another, new_node if to one made for them afterwards.",
		},
	}
}

// short are the client library's own buckets, 5 ms to 10 s, which some of the names below have always had.
func short() []float64 { return []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10} }

func processMetrics() []Metric {
	call := []string{"controller", "method", "provider"}
	return []Metric{
		{Name: CloudDuration, Kind: Histogram, ID: "O42", Labels: call, Buckets: short(), Help: "Time that calls to the cloud provider took."},
		{Name: CloudErrors, Kind: Counter, ID: "O43", Labels: append(call, "error"), Help: "Calls to the cloud provider that failed, by class of error."},
		{
			Name: BuildInfo, Kind: Gauge, ID: "O44", Labels: []string{"version", "goversion", "goarch", "commit"},
			Help: "One, with what the program was built from.",
		},
		{
			Name: ClientGoDuration, Kind: Histogram, ID: "O46", Labels: []string{"verb", "group", "version", "kind", "subresource"}, Buckets: durations(),
			Help: "Time that requests to the API server took.",
		},
		{Name: ClientGoRequests, Kind: Counter, ID: "O46", Labels: []string{"code", "method"}, Help: "Requests to the API server, by its answer."},
		{
			Name: Refused, Kind: Counter, ID: "W", Labels: []string{"metric", "cause"},
			Help: "What was not counted: series beyond a metric's bound, and calls that the table of metrics does not know.",
		},
	}
}

// cloudMetrics are those of what every provider may do.
func cloudMetrics() []Metric {
	offering, zone := []string{"instance_type", "capacity_type", "zone"}, []string{"zone", "zone_id"}
	return []Metric{
		{Name: InterruptionReceived, Kind: Counter, ID: "aws-7.5", Labels: []string{"message_type"}, Help: "Messages from the interruption queue, by kind."},
		{Name: InterruptionDeleted, Kind: Counter, ID: "aws-7.5", Help: "Messages that were dealt with and removed from the interruption queue."},
		{
			Name: InterruptionQueueDuration, Kind: Histogram, ID: "aws-7.5", Buckets: durations(),
			Help: "Time from the event until its message was dealt with.",
		},
		{Name: InstanceStatusUnhealthy, Kind: Counter, ID: "aws-7.5", Labels: []string{"category"}, Help: "Instances that the cloud's status checks called unhealthy."},
		{
			Name: OfferingPrice, Kind: Gauge, ID: "aws-7.5", Labels: offering, Most: maxWide,
			Help: "Price per hour that decisions are made with.",
		},
		{Name: OfferingAvailable, Kind: Gauge, ID: "aws-7.5", Labels: offering, Most: maxWide, Help: "Whether an instance type can be had: 1 or 0."},
		{Name: InstanceTypeCPU, Kind: Gauge, ID: "aws-7.5", Labels: []string{"instance_type"}, Help: "Virtual CPUs of an instance type."},
		{Name: InstanceTypeMemory, Kind: Gauge, ID: "aws-7.5", Labels: []string{"instance_type"}, Help: "Memory of an instance type."},
		{
			Name: LaunchFailures, Kind: Counter, ID: "aws-7.5", Labels: append(zone, "capacity_type", "reason"),
			Help: "Launches that the cloud refused, by its reason.",
		},
		{Name: TerminationFailures, Kind: Counter, ID: "aws-7.5", Labels: zone, Help: "Instances that the cloud refused to end."},
		{
			Name: BatchTime, Kind: Histogram, ID: "aws-7.5", Labels: []string{"batcher"}, Buckets: durations(),
			Help: "For how long requests were gathered before one call was made for all.",
		},
		{Name: BatchSize, Kind: Histogram, ID: "aws-7.5", Labels: []string{"batcher"}, Buckets: batchSizes(), Help: "Requests that one call was made for."},
	}
}

// batchSizes are 1 to 1,000.
func batchSizes() []float64 {
	return []float64{1, 2, 4, 5, 10, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 250, 300, 350, 400, 450, 500, 550, 600, 700, 800, 900, 1000}
}
