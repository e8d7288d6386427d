package meter

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func newSet(t *testing.T) (*Set, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewRegistry()
	return New(reg, testCloud), reg
}

// expect compares the metrics of those names with lines in Prometheus' text form.
func expect(t *testing.T, reg *prometheus.Registry, lines string, names ...string) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	for _, family := range families {
		for _, name := range names {
			if family.GetName() != name {
				continue
			}
			for _, m := range family.Metric {
				var labels []string
				for _, l := range m.Label {
					if l.GetValue() == "" {
						continue // Prometheus takes it for one that is missing
					}
					labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
				}
				v := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount()) + float64(m.GetSummary().GetSampleCount())
				fmt.Fprintf(&got, "%s{%s} %g\n", name, strings.Join(labels, ","), v)
			}
		}
	}
	if diff := cmp.Diff(strings.TrimLeft(lines, "\n"), got.String()); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestA76_OlderNamesFollow(t *testing.T) {
	s, reg := newSet(t)
	s.Add(NodeClaimsCreated, 2, "nodepool", "a", "reason", "provisioned", "min_values_relaxed", "false")
	s.Add(NodeClaimsCreated, 1, "nodepool", "a", "reason", "provisioned", "min_values_relaxed", "true")
	s.Add(DisruptionDecisions, 1, "decision", "delete", "reason", "empty", "consolidation_type", "empty")
	s.Set(NodePoolsUsage, 4, "nodepool", "a", "resource_type", "cpu")
	s.Observe(SchedulingDuration, .1, "controller", "provisioner")
	expect(t, reg, `
karpenter_disruption_actions_performed_total{action="delete",consolidation_type="empty",method="empty"} 1
karpenter_nodeclaims_created{nodepool="a",reason="provisioned"} 3
karpenter_nodepool_usage{nodepool="a",resource_type="cpu"} 4
karpenter_provisioner_scheduling_simulation_duration_seconds{controller="provisioner"} 1
`, "karpenter_nodeclaims_created", "karpenter_disruption_actions_performed_total", "karpenter_nodepool_usage", "karpenter_provisioner_scheduling_simulation_duration_seconds")
}

func TestA76_AlertsSeeTheFirstError(t *testing.T) {
	s, reg := newSet(t)
	expect(t, reg, `
karpenter_provisioner_scheduling_duration_seconds{result="error"} 0
karpenter_provisioner_scheduling_duration_seconds{result="success"} 0
`, "karpenter_provisioner_scheduling_duration_seconds")
	s.Observe(ProvisionerDuration, 1, "result", "error")
	expect(t, reg, `
karpenter_provisioner_scheduling_duration_seconds{result="error"} 1
karpenter_provisioner_scheduling_duration_seconds{result="success"} 0
`, "karpenter_provisioner_scheduling_duration_seconds")
}

func TestO47_DropRemovesStaleSeries(t *testing.T) {
	s, reg := newSet(t)
	for _, pool := range []string{"a", "b"} {
		for _, resource := range []string{"cpu", "memory"} {
			s.Set(NodePoolsLimit, 1, "nodepool", pool, "resource_type", resource)
		}
		s.Observe(NodesTerminationDuration, 1, "nodepool", pool)
	}
	s.Drop(NodePoolsLimit, "nodepool", "a")
	s.Drop(NodePoolsLimit, "resource_type", "memory")
	s.Drop(NodesTerminationDuration, "nodepool", "b")
	expect(t, reg, `
karpenter_nodepool_limit{nodepool="b",resource_type="cpu"} 1
karpenter_nodepools_limit{nodepool="b",resource_type="cpu"} 1
karpenter_nodes_termination_duration_seconds{nodepool="a"} 1
`, "karpenter_nodepools_limit", "karpenter_nodepool_limit", "karpenter_nodes_termination_duration_seconds")
	// Counters lose labels on the way to their older name; a drop by a label that is lost there leaves it alone.
	s.Add(NodesCreated, 1, "nodepool", "a", "zone", "z")
	s.Drop(NodesCreated, "zone", "z")
	expect(t, reg, "karpenter_nodes_created{nodepool=\"a\"} 1\n", "karpenter_nodes_created", "karpenter_nodes_created_total")
}

func series(t *testing.T, reg *prometheus.Registry, name string) int {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return len(family.Metric)
		}
	}
	return 0
}

func TestSeriesAreBounded(t *testing.T) {
	s, reg := newSet(t)
	for i := range maxSeries + 5 {
		s.Add(PodsEvictionRequests, 1, "code", fmt.Sprint(i))
	}
	s.Add(PodsEvictionRequests, 1, "code", "0") // those that are there go on counting
	if got := series(t, reg, "karpenter_pods_eviction_requests_total"); got != maxSeries {
		t.Errorf("got %d series, want %d", got, maxSeries)
	}
	expect(t, reg, `
karpenter_metrics_refused_total{cause="series",metric="nodes_eviction_requests_total"} 5
karpenter_metrics_refused_total{cause="series",metric="pods_eviction_requests_total"} 5
`, "karpenter_metrics_refused_total")
	s.Drop(PodsEvictionRequests, "code", "1")
	s.Add(PodsEvictionRequests, 1, "code", "new")
	if got := series(t, reg, "karpenter_pods_eviction_requests_total"); got != maxSeries {
		t.Errorf("got %d series after one was dropped and another made, want %d", got, maxSeries)
	}
}

func TestLiveSeriesAreMadeAtEveryLook(t *testing.T) {
	s, reg := newSet(t)
	pods, value := 1, 1.0
	s.Live(PodsState, func(show Show) {
		for i := range pods {
			show(value, "namespace", "d", "name", fmt.Sprint(i), "owner", "a\xff")
		}
	})
	s.Live(OfferingPrice, func(show Show) { show(2, "zone", "z", "instance_type", "t", "capacity_type", "spot") })
	expect(t, reg, `
karpenter_cloudprovider_instance_type_offering_price_estimate{capacity_type="spot",instance_type="t",zone="z"} 2
karpenter_cloudprovider_instance_type_price_estimate{capacity_type="spot",instance_type="t",zone="z"} 2
karpenter_pods_state{name="0",namespace="d",owner="a?"} 1
`, "karpenter_pods_state", "karpenter_cloudprovider_instance_type_offering_price_estimate", "karpenter_cloudprovider_instance_type_price_estimate")
	value = 3
	expect(t, reg, "karpenter_pods_state{name=\"0\",namespace=\"d\",owner=\"a?\"} 3\n", "karpenter_pods_state")
	pods = maxPods + 7
	if got := series(t, reg, "karpenter_pods_state"); got != maxPods {
		t.Errorf("got %d series, want %d", got, maxPods)
	}
	pods = 1
	s.Live(NodesDrained, func(Show) {}) // no gauge
	s.Live(PodsUnboundTime, func(show Show) {
		show(1, "colour", "red") // no such label
		show(1, "name")          // half a pair
	})
	if got := series(t, reg, "karpenter_pods_unbound_time_seconds"); got != 0 {
		t.Errorf("got %d series of what makes none", got)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]float64{}
	for _, family := range families {
		for _, m := range family.Metric {
			if family.GetName() == "karpenter_metrics_refused_total" {
				refused[m.Label[1].GetValue()+" "+m.Label[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	for name, least := range map[string]float64{"pods_state series": 7, "nodes_drained_total misuse": 1, "pods_unbound_time_seconds misuse": 2} {
		if refused[name] < least {
			t.Errorf("%s: %g refused, want at least %g", name, refused[name], least)
		}
	}
}

func TestMisuseIsCountedNotFatal(t *testing.T) {
	s, reg := newSet(t)
	s.Add("no_such_name", 1)
	s.Add(NodePoolsLimit, 1)                         // a gauge
	s.Add(NodesDrained, 1, "colour", "red")          // no such label
	s.Add(NodesDrained, 1, "nodepool")               // half a pair
	s.Drop(NodesDrained, "colour", "red")            // no such label
	s.Add(NodesDrained, -1, "nodepool", "a\xff\xfe") // no UTF-8, and counters do not go back
	expect(t, reg, `
karpenter_metrics_refused_total{cause="misuse",metric="nodepools_limit"} 1
karpenter_metrics_refused_total{cause="misuse",metric="nodes_drained_total"} 3
karpenter_metrics_refused_total{cause="misuse",metric="unknown"} 1
karpenter_nodes_drained_total{nodepool="a?"} 0
`, "karpenter_metrics_refused_total", "karpenter_nodes_drained_total")
}

func TestNilSetDoesNothing(t *testing.T) {
	var s *Set
	s.Add(NodesCreated, 1)
	s.Set(ClusterStateSynced, 1)
	s.Observe(SchedulingDuration, 1)
	s.Drop(NodesCreated)
	s.Live(PodsState, func(Show) {})
	c := NewConditions(nil, time.Now)
	c.See(Object{Kind: NodePool, Name: "a"})
	c.Gone(NodePool, "", "a")
}

func TestConcurrentUse(t *testing.T) {
	s, reg := newSet(t)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 200 {
				s.Set(PodsState, 1, "name", fmt.Sprint(i, j), "namespace", "d")
				s.Add(NodesCreated, 1, "nodepool", "a")
				s.Live(PodsUnboundTime, func(show Show) { show(1, "name", "p") })
				s.Drop(PodsState, "name", fmt.Sprint(i, j), "namespace", "d")
				if j%50 == 0 {
					if _, err := reg.Gather(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	group.Wait()
	expect(t, reg, "karpenter_nodes_created_total{nodepool=\"a\"} 1600\n", "karpenter_nodes_created_total", "karpenter_pods_state")
}

func TestO45_ConditionsAreMeasured(t *testing.T) {
	s, reg := newSet(t)
	start := time.Unix(1_000_000, 0)
	now := start
	c := NewConditions(s, func() time.Time { return now })
	claim := Object{
		Kind: NodeClaim, Name: "c", Labels: map[string]string{"karpenter.sh/nodepool": "p", "karpenter.k8s.aws/ec2nodeclass": "k", "other": "x"},
		Conditions: []Condition{{Type: "Launched", Status: "Unknown", Reason: "AwaitingReconciliation", Since: start}},
	}
	if got := c.See(claim); got != nil {
		t.Errorf("transitions at first sight: %v", got)
	}
	claim.Conditions = []Condition{{Type: "Launched", Status: "True", Reason: "Launched", Since: start.Add(3 * time.Second)}}
	now = start.Add(4 * time.Second)
	got := c.See(claim)
	if diff := cmp.Diff([]Transition{{Type: "Launched", From: "Unknown", To: "True", Reason: "Launched"}}, got); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
	claim.Deleted = start.Add(5 * time.Second)
	c.See(claim)
	now = start.Add(9 * time.Second)
	expect(t, reg, `
operator_nodeclaim_status_condition_count{karpenter_k8s_aws_ec2nodeclass="k",karpenter_sh_nodepool="p",name="c",reason="Launched",status="True",type="Launched"} 1
operator_nodeclaim_status_condition_current_status_seconds{karpenter_k8s_aws_ec2nodeclass="k",karpenter_sh_nodepool="p",name="c",reason="Launched",status="True",type="Launched"} 6
operator_nodeclaim_status_condition_transition_seconds{karpenter_k8s_aws_ec2nodeclass="k",karpenter_sh_nodepool="p",status="Unknown",to_status="True",type="Launched"} 1
operator_nodeclaim_status_condition_transitions_total{karpenter_k8s_aws_ec2nodeclass="k",karpenter_sh_nodepool="p",reason="Launched",status="True",type="Launched"} 1
operator_nodeclaim_termination_current_time_seconds{karpenter_k8s_aws_ec2nodeclass="k",karpenter_sh_nodepool="p",name="c"} 4
operator_status_condition_count{group="karpenter.sh",kind="NodeClaim",name="c",reason="Launched",status="True",type="Launched"} 1
`, "operator_nodeclaim_status_condition_count", "operator_nodeclaim_status_condition_current_status_seconds", "operator_nodeclaim_status_condition_transition_seconds",
		"operator_nodeclaim_status_condition_transitions_total", "operator_nodeclaim_termination_current_time_seconds", "operator_status_condition_count")
	now = start.Add(11 * time.Second)
	c.Gone(NodeClaim, "", "c")
	expect(t, reg, "operator_nodeclaim_termination_duration_seconds{karpenter_k8s_aws_ec2nodeclass=\"k\",karpenter_sh_nodepool=\"p\"} 1\n",
		"operator_nodeclaim_status_condition_count", "operator_nodeclaim_termination_current_time_seconds", "operator_status_condition_count", "operator_nodeclaim_termination_duration_seconds")
}
