package aws

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/cloud/kit"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/meter"
)

// metered is a world whose provider and clients count.
func metered(t *testing.T) (*testWorld, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	w := newWorld(t)
	w.opt.Meter = meter.New(registry, Meter())
	w.opt.Clients = NewClients(Instrument(w.config(controllerKey), w.opt.Meter, w.clock))
	w.restart()
	w.load()
	return w, registry
}

// series returns the series of a metric that carry the labels, as key=value.
func series(t *testing.T, registry *prometheus.Registry, name string, labels ...string) []*dto.Metric {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []*dto.Metric
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var has []string
			for _, l := range m.GetLabel() {
				has = append(has, l.GetName()+"="+l.GetValue())
			}
			if !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(has, l) }) {
				out = append(out, m)
			}
		}
	}
	return out
}

func TestAWS_7_5_11_12_LaunchMetrics(t *testing.T) {
	w, registry := metered(t)
	w.must(w.sim.SetStock(simaws.StockRule{Type: "m5.large", Zone: "us-west-2a", CapacityType: "on-demand", Count: 0}))
	b := w.batch("dry", 4, onDemandOnly, typeIs("m5.large"), need("topology.kubernetes.io/zone", "us-west-2a"))
	w.Launch(w.ctx, b)
	failed := series(t, registry, "karpenter_cloudprovider_instance_launch_failures_total", "zone=us-west-2a", "zone_id="+w.zoneID("us-west-2a"), "capacity_type=on-demand", "reason=InsufficientInstanceCapacity")
	if len(failed) != 1 || failed[0].GetCounter().GetValue() != 1 {
		t.Errorf("11.12: one refused offering counts once, however many claims wanted it: got %v", failed)
	}
	in := w.one("web", onDemandOnly, typeIs("m5.xlarge"))
	w.must(w.sim.AddFault(simaws.Fault{Kind: simaws.FaultError, Action: "ec2:TerminateInstances", Code: "OperationNotPermitted", Status: 400, Nth: 1}))
	if err := w.Delete(w.ctx, in.ID); err == nil {
		t.Fatal("the fault did not strike")
	}
	if got := series(t, registry, "karpenter_cloudprovider_instance_termination_failures_total", "zone="+in.Zone, "zone_id="+w.zoneID(in.Zone)); len(got) != 1 || got[0].GetCounter().GetValue() != 1 {
		t.Errorf("termination failures: %v", got)
	}
	for batcher, want := range map[string]float64{"create_fleet": 5, "describe_instances": 1, "terminate_instances": 1} {
		got := series(t, registry, "karpenter_cloudprovider_batcher_batch_size", "batcher="+batcher)
		if len(got) != 1 || got[0].GetHistogram().GetSampleSum() != want {
			t.Errorf("batcher %s: %v, want %v requests", batcher, got, want)
		}
		if len(series(t, registry, "karpenter_cloudprovider_batcher_batch_time_seconds", "batcher="+batcher)) != 1 {
			t.Errorf("batcher %s has no time", batcher)
		}
	}
}

func TestAWS_7_5_OfferingMetrics(t *testing.T) {
	w, registry := metered(t)
	at := []string{"instance_type=m5.large", "capacity_type=on-demand", "zone=us-west-2a"}
	gauge := func(name string, labels ...string) (float64, bool) {
		t.Helper()
		got := series(t, registry, name, labels...)
		if len(got) == 0 {
			return 0, false
		}
		return got[0].GetGauge().GetValue(), true
	}
	w.stock.Empty(kit.Pool{CapacityType: "on-demand", Type: "m5.large", Zone: "us-west-2a"})
	classes := []string{"default", "no-such-class"}
	w.Report(func() []string { return classes })
	if v, ok := gauge("karpenter_cloudprovider_instance_type_offering_price_estimate", at...); !ok || v != 0.096 {
		t.Errorf("price %v", v)
	}
	if v, ok := gauge("karpenter_cloudprovider_instance_type_offering_available", at...); !ok || v != 0 {
		t.Errorf("available %v", v)
	}
	if v, _ := gauge("karpenter_cloudprovider_instance_type_cpu_cores", "instance_type=m5.large"); v != 2 {
		t.Errorf("cpu %v", v)
	}
	if v, _ := gauge("karpenter_cloudprovider_instance_type_memory_bytes", "instance_type=m5.large"); v != 8<<30 {
		t.Errorf("memory %v", v)
	}
	w.advance(kit.FirstOutage)
	classes = []string{"default"}
	if v, _ := gauge("karpenter_cloudprovider_instance_type_offering_available", at...); v != 1 {
		t.Errorf("available %v after the outage", v)
	}
	classes = nil
	if _, ok := gauge("karpenter_cloudprovider_instance_type_offering_available", at...); ok {
		t.Error("what no class sells any more must go")
	}
	if v, ok := gauge("karpenter_ec2nodeclasses_userdata_bytes", "nodeclass=default"); !ok || v < 500 {
		t.Errorf("user data of %v bytes", v)
	}
	w.Forget("default")
	if _, ok := gauge("karpenter_ec2nodeclasses_userdata_bytes", "nodeclass=default"); ok {
		t.Error("a class that is gone must leave no series")
	}
	if got := series(t, registry, "karpenter_metrics_refused_total"); len(got) != 0 {
		t.Errorf("the table of metrics does not know everything that is counted: %v", got)
	}
}

func TestAWS_7_5_SDKMetrics(t *testing.T) {
	w, registry := metered(t)
	w.must(w.sim.AddFault(simaws.Fault{Kind: simaws.FaultError, Action: "ec2:DescribeSubnets", Code: "InternalError", Status: 500, Nth: 1}))
	w.addClass("again", func(*awsv1.EC2NodeClass) {})
	w.advance(time.Second)
	calls := series(t, registry, "aws_sdk_go_request_total", "service=EC2", "action=DescribeSubnets", "code=200")
	if len(calls) != 1 || calls[0].GetCounter().GetValue() != 2 {
		t.Errorf("calls: %v", calls)
	}
	for code, want := range map[string]float64{"500": 1, "200": 2} {
		got := series(t, registry, "aws_sdk_go_request_attempt_total", "action=DescribeSubnets", "code="+code)
		if len(got) != 1 || got[0].GetCounter().GetValue() != want {
			t.Errorf("attempts with %s: %v, want %v", code, got, want)
		}
	}
	for _, name := range []string{"request_retry_count", "request_duration_seconds", "request_attempt_duration_seconds"} {
		if got := series(t, registry, "aws_sdk_go_"+name, "action=DescribeSubnets"); len(got) == 0 {
			t.Errorf("no %s", strings.ReplaceAll(name, "_", " "))
		}
	}
}
