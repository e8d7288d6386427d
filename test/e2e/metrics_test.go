package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	awscloud "karpenter/internal/cloud/aws"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/meter"
	"karpenter/test/harness"
)

// still are the metrics that do not move even in a cluster in which everything happens, and why.
var still = map[meter.Name]string{
	meter.DisruptionConsolidationTimeouts:     "no search has a time limit; it is there for alerts",
	"disruption_consolidation_timeouts_total": "its older name",
	meter.ClusterStateDifferences:             "counts what should not be",
	meter.Refused:                             "counts what should not be",
}

// chance are the metrics that move only if something changes in the moment between a decision and its beginning.
var chance = []meter.Name{meter.DisruptionFailedValidations}

// elsewhere are the metrics of features that are off in this cluster, and the test that looks at them.
var elsewhere = map[meter.Name]string{
	meter.DeletionCostPending:     "TestN9_AScaleDownEmptiesTheNodeThatIsToGo",
	meter.DeletionCostWrites:      "TestN9_AScaleDownEmptiesTheNodeThatIsToGo",
	meter.NodesReboots:            "TestN6_N7_RepairOnTheWholeProduct",
	meter.NodesRebootDuration:     "TestN6_N7_RepairOnTheWholeProduct",
	meter.NodesRebootRecovery:     "TestN6_N7_RepairOnTheWholeProduct",
	meter.TerminateFirstDecisions: "TestN8_ANodeInAFullReservationIsRemovedFirst of internal/control/disruption",
}

// shown says whether a metric is to move in this cluster.
func shown(m meter.Metric) bool {
	return still[m.Name] == "" && elsewhere[m.Name] == "" && !slices.Contains(chance, m.Name)
}

// clusterWide are the kinds with conditions that are not in namespaces.
var clusterWide = []meter.Tracked{meter.NodeClaim, meter.NodePool, meter.Node, "ec2nodeclass", meter.NodeOverlay}

// unfilled says why a label of a metric has no value in this cluster.
func unfilled(m meter.Metric, label string) string {
	switch {
	case label == "namespace" && slices.ContainsFunc(clusterWide, func(kind meter.Tracked) bool { return strings.HasPrefix(m.Full(), "operator_"+string(kind)+"_") }):
		return "the kind is not in namespaces"
	case m.ID != "O12" && m.ID != "O13":
		return ""
	case label == "phase":
		return "kubelets have stopped writing it"
	case label == "windows_build",
		strings.HasPrefix(label, "capacity_reservation_"), strings.HasPrefix(label, "placement_group_"),
		strings.HasPrefix(label, "instance_gpu_"), strings.HasPrefix(label, "instance_accelerator_"):
		return "no node is such"
	}
	return ""
}

// apart are values of a label that each have to be seen, since different parts of the controller count them.
var apart = []struct {
	label  string
	values []string
	of     []meter.Name
}{
	{
		"controller",
		[]string{"provisioner", "disruption"},
		[]meter.Name{meter.SchedulingDuration, meter.SchedulerQueueDepth, meter.SchedulerUnfinished, meter.SchedulerUnschedulable, meter.SchedulerPendingZones},
	},
	{
		"reason",
		[]string{"underutilized", "drifted", "expired", "unhealthy", "spot_interrupted", "scheduled_change", "event_status"},
		[]meter.Name{meter.NodeClaimsDisrupted, meter.PodsDisruptionInitiated},
	},
	{"reason", []string{"empty", "insufficient_capacity", "instance_terminated"}, []meter.Name{meter.NodeClaimsDisrupted}},
	{"reason", []string{"provisioned", "underutilized", "drifted"}, []meter.Name{meter.NodeClaimsCreated}},
	{"decision", []string{"delete", "replace"}, []meter.Name{meter.DisruptionDecisions, meter.DisruptionDecisionsByPool}},
	{"message_type", []string{"spot_interrupted", "rebalance_recommendation", "scheduled_change", "instance_terminated"}, []meter.Name{meter.InterruptionReceived}},
	{"action", []string{"CordonAndDrain", "NoAction"}, []meter.Name{meter.InterruptionActions}},
	{"code", []string{"200", "429"}, []meter.Name{meter.PodsEvictionRequests}},
	{"result", []string{"success", "error"}, []meter.Name{meter.ProvisionerDuration}},
	{"method", []string{"Create", "Get", "List", "Delete", "IsDrifted"}, []meter.Name{meter.CloudDuration}},
}

// TestB5_DocumentedSeriesMove lets a cluster live through everything that metrics tell of, and looks at them all the while. A metric
// that never moves is a hole in a dashboard.
func TestB5_DocumentedSeriesMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t, karpv1.NewNillableDuration(0), "NodeRepair=true,NodeOverlay=true")
	s := newScraper(w)
	w.kubectl("apply", "-f", filepath.Join("testdata", "manifests", "metrics.yaml"))
	w.scale(8)
	w.kubectl("wait", "--for=condition=Available", "deployment", "--all", "--timeout="+calm.String())
	w.kubectl("scale", "deployment", "small", "--replicas=1") // its place is beside the large one
	w.kubectl("wait", "--for=jsonpath={.status.availableReplicas}=1", "deployment", "small", "--timeout="+calm.String())
	began := time.Now()
	w.kubectl("apply", "-f", filepath.Join("testdata", "manifests", "hopeless.yaml"))
	w.buffersAndOverlays(s)

	w.must(w.AWS.SetStock(simaws.StockRule{Type: "m5.large", Zone: "*", CapacityType: "*"}))
	spot := w.of("spot")
	w.must(w.AWS.Rebalance(region, false, instanceOf(&spot[0])))
	w.must(w.AWS.Interrupt(region, instanceOf(&spot[1])))
	w.must(w.AWS.SendHealthEvent(region, "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", instanceOf(&spot[2])))
	w.terminate(instanceOf(&spot[3]))
	w.must(w.AWS.AddFault(simaws.Fault{Kind: simaws.FaultError, Action: "ec2:TerminateInstances", Code: "OperationNotPermitted", Status: http.StatusBadRequest, Count: 2}))
	for _, pool := range []string{"drifting", "short"} {
		w.kubectl("patch", "nodepool", pool, "--type=merge", "-p", `{"spec":{"template":{"metadata":{"labels":{"example.com/drifted":"yes"}}}}}`)
	}
	w.kubectl("delete", "nodepool", "guarded", "--cascade=foreground", "--wait=false")
	w.kubectl("delete", "ec2nodeclass", "guarded", "--wait=false")
	sick := w.of("sick")
	w.kubectl("patch", "node", sick[0].Status.NodeName, "--subresource=status", "-p", fmt.Sprintf(
		`{"status":{"conditions":[{"type":"StorageReady","status":"False","lastTransitionTime":%q}]}}`, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)))
	w.kubectl("patch", "node", sick[1].Status.NodeName, "--subresource=status", "-p", `{"status":{"capacity":{"cpu":"1"}}}`)
	w.kubectl("annotate", "nodeclaim", sick[1].Name, karpv1.DoNotDisruptAnnotationKey+"=true") // it has to be there to be counted
	w.kubectl("label", "node", sick[1].Status.NodeName, "--overwrite", "node.kubernetes.io/instance-type=m0.none")
	w.kubectl("wait", "--for=condition=Ready=False", "nodepool/nowhere", "--timeout="+calm.String())
	w.kubectl("patch", "ec2nodeclass", "nowhere", "--type=merge", "-p",
		`{"spec":{"subnetSelectorTerms":[{"tags":{"karpenter.sh/discovery":"my-cluster"}}],"securityGroupSelectorTerms":[{"tags":{"karpenter.sh/discovery":"my-cluster"}}]}}`)
	w.kubectl("delete", "pod", "choosy", "--ignore-not-found") // on a busy computer its node has been removed by now, and the pod with it
	w.kubectl("scale", "deployment", "large", "--replicas=0")
	s.await("a replacement", meter.DisruptionDecisions, "decision", "replace", "reason", "underutilized")
	s.await("pods that are moved", meter.ConsolidationPlaced)
	w.scale(0)
	s.await("an eviction that a budget forbids", meter.PodsEvictionRequests, "code", "429")
	w.kubectl("delete", "pdb", "guarded")

	s.awaitAll(true)
	// Status checks are asked for each minute, and at the start.
	w.must(w.AWS.SetHealth(simaws.HealthSpec{
		Region: region, Instances: []string{instanceOf(&spot[4])},
		Event: &simaws.ScheduledEvent{Code: "instance-retirement", Description: "The instance is to be retired", NotBefore: time.Now().Add(time.Hour)},
	}))
	w.must(w.KillController())
	s.awaitAll(false)
	t.Logf("everything has moved %.1f s after all pods ran", time.Since(began).Seconds())
	s.check()
}

// buffersAndOverlays has a buffer and an overlay become right, and end slowly.
func (w *world) buffersAndOverlays(s *scraper) {
	w.t.Helper()
	for _, name := range []string{"capacitybuffer/spare", "nodeoverlay/fuse"} {
		w.kubectl("wait", "--for=jsonpath={.status.conditions[0].status}=False", name, "--timeout="+calm.String())
	}
	w.kubectl("apply", "-f", filepath.Join("testdata", "manifests", "spare.yaml"))
	w.kubectl("patch", "nodeoverlay", "fuse", "--type=merge", "-p", `{"spec":{"capacity":{"example.com/fuse":"2"}}}`)
	w.kubectl("wait", "--for=condition=ReadyForProvisioning", "capacitybuffer/spare", "--timeout="+calm.String())
	w.kubectl("wait", "--for=condition=Ready", "nodeoverlay/fuse", "--timeout="+calm.String())
	s.await("room for the buffer", meter.BufferSparePods, "state", "fits", "name", "spare")
	w.kubectl("delete", "capacitybuffer/spare", "nodeoverlay/fuse", "--wait=false")
	for _, kind := range []meter.Tracked{meter.Buffer, meter.NodeOverlay} {
		s.await("one that is being deleted", meter.Name("operator_"+string(kind)+"_termination_current_time_seconds"))
	}
	for _, name := range []string{"capacitybuffer/spare", "nodeoverlay/fuse"} {
		w.kubectl("patch", name, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	}
}

// kubectl runs the kubectl of the control plane.
func (w *world) kubectl(args ...string) {
	w.t.Helper()
	kube, err := harness.Binary()
	w.must(err)
	home := w.t.TempDir() // kubectl caches what it discovers there, by host and port, and ports are used again
	cmd := exec.CommandContext(w.t.Context(), kube, append([]string{"kubectl", "--kubeconfig", w.Kubeconfig}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+home)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// of are the claims of a pool that have a node, by name.
func (w *world) of(pool string) []karpv1.NodeClaim {
	w.t.Helper()
	var list karpv1.NodeClaimList
	w.must(w.Client.List(w.t.Context(), &list, client.MatchingLabels{karpv1.NodePoolLabelKey: pool}))
	slices.SortFunc(list.Items, func(a, b karpv1.NodeClaim) int { return strings.Compare(a.Name, b.Name) })
	return slices.DeleteFunc(list.Items, func(c karpv1.NodeClaim) bool { return c.Status.NodeName == "" || c.DeletionTimestamp != nil })
}

// terminate ends an instance behind the controller's back.
func (w *world) terminate(id string) {
	w.t.Helper()
	cloud := ec2.New(ec2.Options{Region: region, BaseEndpoint: aws.String(w.AWSURL), Credentials: credentials.NewStaticCredentialsProvider("key", "secret", "")})
	_, err := cloud.TerminateInstances(w.t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	w.must(err)
}

// scraper remembers what a controller's metrics have ever been.
type scraper struct {
	w *world

	mu sync.Mutex
	// series has the labels of each series that moved, by the metric's full name.
	series map[string]map[string]map[string]string
}

// newScraper scrapes until the test ends.
func newScraper(w *world) *scraper {
	s := &scraper{w: w, series: map[string]map[string]map[string]string{}}
	ctx, end := context.WithCancel(w.t.Context())
	var scraping sync.WaitGroup
	scraping.Go(func() {
		for ctx.Err() == nil {
			s.scrape(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(glance):
			}
		}
	})
	w.t.Cleanup(func() {
		end()
		scraping.Wait()
	})
	return s
}

// scrape looks once. A controller that is being started again does not answer.
func (s *scraper) scrape(ctx context.Context) {
	found, err := func() (map[string]*dto.MetricFamily, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.w.MetricsURL, http.NoBody)
		if err != nil {
			return nil, err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		parser := expfmt.NewTextParser(model.UTF8Validation)
		return parser.TextToMetricFamilies(response.Body)
	}()
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, family := range found {
		for _, m := range family.Metric {
			moved := m.Gauge != nil || m.GetCounter().GetValue() > 0 || m.GetHistogram().GetSampleCount() > 0 || m.GetSummary().GetSampleCount() > 0
			if !moved {
				continue
			}
			if s.series[name] == nil {
				s.series[name] = map[string]map[string]string{}
			}
			labels := map[string]string{}
			for _, pair := range m.Label {
				if pair.GetValue() != "" {
					labels[pair.GetName()] = pair.GetValue()
				}
			}
			s.series[name][fmt.Sprint(labels)] = labels
		}
	}
}

// moved says whether a series of a metric with these labels ever moved.
func (s *scraper) moved(m meter.Metric, labels ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, has := range s.series[m.Full()] {
		found := true
		for i := 0; i < len(labels); i += 2 {
			found = found && has[labels[i]] == labels[i+1]
		}
		if found {
			return true
		}
	}
	return false
}

// await waits until a series has moved.
func (s *scraper) await(what string, name meter.Name, labels ...string) {
	s.w.t.Helper()
	for began := time.Now(); !s.moved(meter.Metric{Name: name}, labels...); s.w.pause(glance) {
		if time.Since(began) > calm {
			s.w.t.Errorf("waited %v for %s: %s%q did not move", calm, what, name, labels)
			return
		}
	}
}

// awaitAll waits until every metric has moved that should, for now but for status checks.
func (s *scraper) awaitAll(butChecks bool) {
	s.w.t.Helper()
	began := time.Now()
	for missing := s.missing(); len(missing) > 0; missing = s.missing() {
		if butChecks {
			missing = slices.DeleteFunc(missing, func(what string) bool {
				return strings.Contains(what, "instance_status_unhealthy") || strings.Contains(what, "event_status")
			})
		}
		if len(missing) == 0 {
			return
		}
		if time.Since(began) > calm {
			s.w.t.Errorf("in %v these did not move:\n%s", calm, strings.Join(missing, "\n"))
			return
		}
		s.w.pause(glance)
	}
}

// missing are metrics, and series that have to be seen apart, that have not moved.
func (s *scraper) missing() (list []string) {
	for _, m := range meter.Table(awscloud.Meter()) {
		if shown(m) && !s.moved(m) {
			list = append(list, m.Full())
		}
	}
	for _, a := range apart {
		for _, name := range a.of {
			for _, value := range a.values {
				if !s.moved(meter.Metric{Name: name}, a.label, value) {
					list = append(list, fmt.Sprintf("%s{%s=%q}", meter.Metric{Name: name}.Full(), a.label, value))
				}
			}
		}
	}
	return list
}

// check fails for metrics that were not to move and have, and for labels that nothing fills.
func (s *scraper) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range meter.Table(awscloud.Meter()) {
		series := s.series[m.Full()]
		if why := still[m.Name]; why != "" && len(series) > 0 {
			s.w.t.Errorf("%s moves, though %s: %v", m.Full(), why, slices.Sorted(maps.Keys(series)))
		}
		if len(series) == 0 {
			continue
		}
		for _, label := range m.Labels {
			if label == "consolidation_type" && (m.Name == meter.DisruptionQueueFailures || m.Follows == meter.DisruptionQueueFailures) {
				continue // drift, which fails here, has none; a consolidation fails only by chance
			}
			filled := slices.ContainsFunc(slices.Collect(maps.Values(series)), func(has map[string]string) bool { return has[label] != "" })
			if why := unfilled(m, label); filled == (why != "") {
				s.w.t.Errorf("label %s of %s is filled: %t; the reason for it not to be: %q", label, m.Full(), filled, why)
			}
		}
	}
}
