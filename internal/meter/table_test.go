package meter_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"karpenter/internal/clouds"
	"karpenter/internal/meter"
)

var update = flag.Bool("update", false, "rewrite docs/reference/metrics.md")

// own is the part of the provider whose names dashboards have relied on for longest.
var own = clouds.Plugins()[0].Metrics()

func snakes() []string {
	var all []string
	for _, key := range own.WellKnown() {
		all = append(all, meter.Snake(key))
	}
	return all
}

// golden are the names that dashboards rely on, with kind and labels, by feature. Of metrics by node only the labels that
// are not those of the node are listed.
var golden = map[string][]string{
	"O1": {"karpenter_nodeclaims_created_total counter min_values_relaxed,nodepool,reason"},
	"O2": {"karpenter_nodeclaims_terminated_total counter capacity_type,nodepool,zone"},
	"O3": {"karpenter_nodeclaims_disrupted_total counter capacity_type,consolidation_policy,nodepool,reason,termination_mode"},
	"O4": {"karpenter_pods_disruption_initiated_total counter capacity_type,consolidation_policy,nodepool,reason,termination_mode"},
	"O5": {"karpenter_nodes_created_total counter nodepool,zone", "karpenter_nodes_terminated_total counter nodepool,zone"},
	"O6": {"karpenter_nodeclaims_termination_duration_seconds histogram nodepool"},
	"O7": {"karpenter_nodeclaims_instance_termination_duration_seconds histogram nodepool"},
	"N8": {"karpenter_voluntary_disruption_terminate_first_decisions_total counter nodepool,reason,terminate_first_reason"},
	"N7": {
		"karpenter_nodes_reboots_total counter result", "karpenter_nodes_reboot_duration_seconds histogram result",
		"karpenter_nodes_reboot_recovery_duration_seconds histogram",
	},
	"O8":  {"karpenter_nodeclaims_unhealthy_disrupted_total counter capacity_type,condition,image_id,nodepool,termination_mode"},
	"O9":  {"karpenter_nodes_termination_duration_seconds summary nodepool"},
	"O10": {"karpenter_nodes_drained_total counter nodepool"},
	"O11": {"karpenter_nodes_lifetime_duration_seconds histogram nodepool"},
	"O12": {
		"karpenter_nodes_allocatable gauge managed,node_name,phase,resource_type", "karpenter_nodes_total_pod_requests gauge managed,node_name,phase,resource_type",
		"karpenter_nodes_total_pod_limits gauge managed,node_name,phase,resource_type", "karpenter_nodes_total_daemon_requests gauge managed,node_name,phase,resource_type",
		"karpenter_nodes_total_daemon_limits gauge managed,node_name,phase,resource_type", "karpenter_nodes_system_overhead gauge managed,node_name,phase,resource_type",
	},
	"O13": {"karpenter_nodes_current_lifetime_seconds gauge managed,node_name,phase"},
	"O14": {"karpenter_cluster_utilization_percent gauge resource_type"},
	"O15": {"karpenter_cluster_state_node_count gauge", "karpenter_cluster_state_synced gauge", "karpenter_cluster_state_unsynced_time_seconds gauge"},
	"O16": {"karpenter_pods_state gauge arch,capacity_type,instance_type,managed,name,namespace,node,nodepool,owner,phase,ready,scheduled,zone"},
	"O17": {"karpenter_pods_startup_duration_seconds summary"},
	"O18": {"karpenter_pods_unstarted_time_seconds gauge name,namespace", "karpenter_pods_unbound_time_seconds gauge dynamic_resources,name,namespace"},
	"O19": {"karpenter_pods_bound_duration_seconds histogram dynamic_resources"},
	"O20": {"karpenter_pods_provisioning_bound_duration_seconds histogram dynamic_resources", "karpenter_pods_provisioning_startup_duration_seconds histogram"},
	"O21": {
		"karpenter_pods_provisioning_unbound_time_seconds gauge dynamic_resources,name,namespace", "karpenter_pods_provisioning_unstarted_time_seconds gauge name,namespace",
		"karpenter_pods_provisioning_scheduling_undecided_time_seconds gauge name,namespace",
	},
	"O22": {"karpenter_pods_scheduling_decision_duration_seconds histogram"},
	"O23": {"karpenter_pods_eviction_requests_total counter code"},
	"O24": {"karpenter_pods_drained_total counter reason"},
	"O25": {"karpenter_nodepools_limit gauge nodepool,resource_type", "karpenter_nodepools_usage gauge nodepool,resource_type"},
	"O26": {"karpenter_nodepools_cost_total gauge nodepool"},
	"O27": {"karpenter_nodepools_cost_tracker_errors_total counter nodepool"},
	"O28": {"karpenter_nodepools_allowed_disruptions gauge nodepool,reason", "karpenter_nodepools_nodes_consuming_budgets gauge nodepool,reason"},
	"O29": {"karpenter_scheduler_scheduling_duration_seconds histogram controller"},
	"O30": {"karpenter_scheduler_queue_depth gauge controller,scheduling_id", "karpenter_scheduler_unfinished_work_seconds gauge controller,scheduling_id"},
	"O31": {"karpenter_scheduler_unschedulable_pods_count gauge controller"},
	"O32": {"karpenter_scheduler_ignored_pods_count gauge"},
	"O33": {"karpenter_scheduler_pending_pods_by_effective_zone_count gauge controller,zone"},
	"O34": {"karpenter_voluntary_disruption_decision_evaluation_duration_seconds histogram consolidation_type,reason"},
	"O35": {"karpenter_voluntary_disruption_decisions_total counter consolidation_type,decision,reason"},
	"O36": {"karpenter_voluntary_disruption_decisions_by_nodepool_total counter consolidation_type,decision,nodepool,reason"},
	"O37": {"karpenter_voluntary_disruption_eligible_nodes gauge reason"},
	"O38": {
		"karpenter_voluntary_disruption_consolidation_timeouts_total counter consolidation_type",
		"karpenter_voluntary_disruption_failed_validations_total counter consolidation_type",
	},
	"O39": {"karpenter_voluntary_disruption_queue_failures_total counter consolidation_type,decision,reason"},
	"O40": {"karpenter_consolidation_score histogram decision,nodepool,policy"},
	"O41": {"karpenter_consolidation_moves_total counter decision,nodepool,policy"},
	"O42": {"karpenter_cloudprovider_duration_seconds histogram controller,method,provider"},
	"O43": {"karpenter_cloudprovider_errors_total counter controller,error,method,provider"},
	"O44": {"karpenter_build_info gauge commit,goarch,goversion,version"},
	"O45": goldenStatus(),
	"O46": {"client_go_request_duration_seconds histogram group,kind,subresource,verb,version", "client_go_request_total counter code,method"},
	"N9": {
		"karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes gauge nodepool", "karpenter_pod_deletion_cost_pod_annotation_writes_total counter result",
	},
	"ours": {
		"karpenter_capacitybuffers_spare_pods gauge name,namespace,state",
		"karpenter_consolidation_evicted_pods_total counter nodepool", "karpenter_consolidation_moved_pods_total counter nodepool,outcome",
		"karpenter_consolidation_savings_dollars_per_hour_total counter nodepool", "karpenter_nodepools_pods gauge nodepool",
		"karpenter_nodepools_replicas gauge nodepool",
		"karpenter_pods_bound_as_planned_total counter outcome",
	},
	"W": {"karpenter_metrics_refused_total counter cause,metric", "karpenter_cluster_state_differences_total counter kind", "karpenter_garbage_collection_held gauge kind"},
	"aws-7.5": {
		"karpenter_interruption_received_messages_total counter message_type", "karpenter_interruption_deleted_messages_total counter",
		"karpenter_interruption_message_queue_duration_seconds histogram", "karpenter_interruption_instance_status_unhealthy_total counter category",
		"karpenter_cloudprovider_instance_type_offering_price_estimate gauge capacity_type,instance_type,zone",
		"karpenter_cloudprovider_instance_type_offering_available gauge capacity_type,instance_type,zone",
		"karpenter_cloudprovider_instance_type_cpu_cores gauge instance_type", "karpenter_cloudprovider_instance_type_memory_bytes gauge instance_type",
		"karpenter_cloudprovider_instance_launch_failures_total counter capacity_type,reason,zone,zone_id",
		"karpenter_cloudprovider_instance_termination_failures_total counter zone,zone_id",
		"karpenter_cloudprovider_batcher_batch_time_seconds histogram batcher", "karpenter_cloudprovider_batcher_batch_size histogram batcher",
		"karpenter_ec2nodeclasses_userdata_bytes gauge nodeclass", "aws_sdk_go_request_total counter action,code,service",
		"aws_sdk_go_request_retry_count histogram action,code,service", "aws_sdk_go_request_duration_seconds histogram action,code,service",
		"aws_sdk_go_request_attempt_total counter action,code,service", "aws_sdk_go_request_attempt_duration_seconds histogram action,code,service",
	},
	"A76": {
		"karpenter_provisioner_scheduling_duration_seconds histogram result", "karpenter_nodeclaims_launched counter nodepool",
		"karpenter_nodeclaims_registered counter nodepool", "karpenter_nodeclaims_initialized counter nodepool",
		"karpenter_nodeclaims_drifted counter nodepool,type", "karpenter_interruption_actions_performed counter action",
		"karpenter_disruption_queue_depth gauge", "karpenter_disruption_replacement_nodeclaim_initialized_seconds histogram",
		"karpenter_disruption_nodes_disrupted_total counter action,consolidation_type,method,nodepool", "karpenter_consistency_errors counter check",
		"karpenter_nodeclaims_created counter nodepool,reason", "karpenter_nodeclaims_terminated counter nodepool", "karpenter_nodeclaims_disrupted counter nodepool,type",
		"karpenter_nodes_created counter nodepool", "karpenter_nodes_terminated counter nodepool", "karpenter_nodes_termination_time_seconds summary nodepool",
		"karpenter_nodes_eviction_requests_total counter code", "karpenter_pods_startup_time_seconds summary",
		"karpenter_provisioner_scheduling_simulation_duration_seconds histogram controller", "karpenter_ignored_pod_count gauge",
		"karpenter_nodepool_usage gauge nodepool,resource_type", "karpenter_nodepool_limit gauge nodepool,resource_type",
		"karpenter_disruption_budgets_allowed_disruptions gauge nodepool,reason",
		"karpenter_disruption_actions_performed_total counter action,consolidation_type,method",
		"karpenter_disruption_evaluation_duration_seconds histogram consolidation_type,method", "karpenter_disruption_eligible_nodes gauge method",
		"karpenter_disruption_consolidation_timeouts_total counter consolidation_type",
		"karpenter_disruption_replacement_nodeclaim_failures_total counter consolidation_type,method",
		"karpenter_disruption_pods_disrupted_total counter method,nodepool", "karpenter_interruption_received_messages counter message_type",
		"karpenter_interruption_deleted_messages counter", "karpenter_interruption_message_latency_time_seconds histogram",
		"karpenter_cloudprovider_instance_type_price_estimate gauge capacity_type,instance_type,zone",
	},
}

func goldenStatus() []string {
	var lines []string
	for kind, extra := range map[string]string{
		"": "group,kind", "nodeclaim_": "karpenter_k8s_aws_ec2nodeclass,karpenter_sh_nodepool", "nodepool_": "",
		"node_": "karpenter_k8s_aws_ec2nodeclass,karpenter_sh_initialized,karpenter_sh_nodepool", "ec2nodeclass_": "", "nodeoverlay_": "", "capacitybuffer_": "",
	} {
		for _, line := range []string{
			"status_condition_transition_seconds histogram status,to_status,type", "status_condition_transitions_total counter reason,status,type",
			"status_condition_count gauge name,namespace,reason,status,type", "status_condition_current_status_seconds gauge name,namespace,reason,status,type",
			"termination_duration_seconds histogram", "termination_current_time_seconds gauge name,namespace",
		} {
			name, labels := strings.Fields(line)[:2], strings.Split(strings.Join(strings.Fields(line)[2:], "")+","+extra, ",")
			labels = slices.DeleteFunc(labels, func(label string) bool { return label == "" })
			slices.Sort(labels)
			lines = append(lines, strings.TrimSpace("operator_"+kind+strings.Join(name, " ")+" "+strings.Join(labels, ",")))
		}
	}
	return lines
}

// line is a metric as the golden list has it.
func line(m meter.Metric) string {
	labels := slices.Clone(m.Labels)
	if m.ID == "O12" || m.ID == "O13" {
		labels = slices.DeleteFunc(labels, func(label string) bool { return slices.Contains(snakes(), label) })
	}
	slices.Sort(labels)
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", m.Full(), m.Kind, strings.Join(labels, ",")))
}

func TestO1_O48_A76_TheTableIsComplete(t *testing.T) {
	got := map[string][]string{}
	for _, m := range meter.Table(own) {
		got[m.ID] = append(got[m.ID], line(m))
		if m.Help == "" || m.ID == "" {
			t.Errorf("%s has no help or no feature", m.Name)
		}
	}
	for _, lists := range []map[string][]string{got, golden} {
		for id := range lists {
			slices.Sort(lists[id])
		}
	}
	if diff := cmp.Diff(golden, got); diff != "" {
		t.Errorf("the table differs from the list (-want +got):\n%s", diff)
	}
}

// TestMetricsPage keeps docs/reference/metrics.md what the table says.
func TestMetricsPage(t *testing.T) {
	const path = "../../docs/reference/metrics.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin = "<!-- made by go test ./internal/meter -run Page -update -->\n"
	head, _, ok := strings.Cut(string(page), begin)
	if !ok {
		t.Fatalf("%s has no line %q", path, begin)
	}
	want := head + begin + render()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(page)); diff != "" {
		t.Errorf("%s is out of date, run go test ./internal/meter -run Page -update (-want +got):\n%s", path, diff)
	}
}

func render() string {
	var b strings.Builder
	known, heading := map[meter.Name]bool{}, "| metric | kind | labels | meaning |\n| --- | --- | --- | --- |\n"
	for i, p := range clouds.Plugins() {
		if i > 0 {
			fmt.Fprintf(&b, "\n## With `PROVIDER=%s`\n\n", p.Name)
		}
		b.WriteString(heading)
		for _, m := range meter.Table(p.Metrics()) {
			if !known[m.Name] {
				known[m.Name] = true
				row(&b, m)
			}
		}
	}
	b.WriteString("\n## Labels of nodes\n\nMetrics by node carry those of these labels that the node has, without their domain:\n\n")
	for _, p := range clouds.Plugins() {
		for _, key := range p.Meter.WellKnown() {
			if !known[meter.Name(key)] {
				known[meter.Name(key)] = true
				fmt.Fprintf(&b, "- `%s`: `%s`\n", meter.Snake(key), key)
			}
		}
	}
	return b.String()
}

func row(b *strings.Builder, m meter.Metric) {
	var labels []string
	for _, label := range m.Labels {
		if perNode := m.ID == "O12" || m.ID == "O13"; !perNode || !slices.Contains(snakes(), label) {
			labels = append(labels, "`"+label+"`")
		}
	}
	if m.ID == "O12" || m.ID == "O13" {
		labels = append(labels, "[the node's](#labels-of-nodes)")
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", m.Full(), m.Kind, strings.Join(labels, ", "), m.Help)
}

func TestEveryNameIsRegisteredOnce(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	meter.New(reg, own)
	if _, err := reg.Gather(); err != nil {
		t.Error(err)
	}
}
