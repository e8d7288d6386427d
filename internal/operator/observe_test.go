package operator_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
)

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := cluster.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}

func newPool(name string) *karpv1.NodePool {
	return &karpv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: karpv1.NodePoolSpec{
			Limits: karpv1.Limits{corev1.ResourceCPU: resource.MustParse("8")},
			Template: karpv1.NodeClaimTemplate{Spec: karpv1.NodeClaimTemplateSpec{
				NodeClassRef: &karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.EC2NodeClassKind, Name: "absent"},
				Requirements: []karpv1.NodeSelectorRequirementWithMinValues{}, ExpireAfter: karpv1.NeverDuration(),
			}},
		},
	}
}

func newNode(name, pool string) *corev1.Node {
	amounts := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("10")}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			karpv1.NodePoolLabelKey: pool, corev1.LabelTopologyZone: "us-west-2a", corev1.LabelInstanceTypeStable: "m7i.xlarge", corev1.LabelArchStable: "amd64",
			karpv1.NodeInitializedLabelKey: "true",
		}},
		Spec:   corev1.NodeSpec{ProviderID: "aws:///us-west-2a/i-00000000000000001"},
		Status: corev1.NodeStatus{Capacity: amounts("4", "16Gi"), Allocatable: amounts("3", "14Gi")},
	}
}

func newPod(name, node string) *corev1.Pod {
	amount := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("750m")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: new(false),
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: amount, Limits: amount}}},
		},
	}
}

// show waits until the controller's metrics have the lines, one after the other.
func (c *child) show(patterns ...string) {
	c.t.Helper()
	for _, p := range patterns {
		var last string
		name, _, _ := strings.Cut(strings.TrimPrefix(p, "!"), "{")
		c.t.Run(p, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("the lines of %s are:\n%s", name, strings.Join(regexp.MustCompile("(?m)^"+name+"[{ ].*$").FindAllString(last, -1), "\n"))
				}
			})
			c.await(t, fmt.Sprintf("http://127.0.0.1:%d/metrics", c.metrics), func(status int, body string) bool {
				last = body
				return lines(p)(status, body)
			})
		})
	}
}

// lines returns a condition on /metrics: each pattern matches a line, or with "!" in front none.
func lines(patterns ...string) func(int, string) bool {
	return func(status int, body string) bool {
		for _, p := range patterns {
			want := !strings.HasPrefix(p, "!")
			if regexp.MustCompile("(?m)^"+strings.TrimPrefix(p, "!")+"$").MatchString(body) != want {
				return false
			}
		}
		return status == 200
	}
}

func TestO12_O16_O45_ClusterStateIsShown(t *testing.T) {
	env := []string{"AWS_ENDPOINT_URL=" + newAWS(t), "DISABLE_LEADER_ELECTION=true"}
	c := startChild(t, env)
	silent := startChild(t, append(env, "DISABLE_CLUSTER_STATE_OBSERVABILITY=true"))
	c.get(c.health, "/readyz", ok)
	pool, node, bound, waiting := newPool("shown"), newNode("shown-node", "shown"), newPod("bound", "shown-node"), newPod("waiting", "")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "default"}} // pods need it
	if err := cluster.Client.Create(t.Context(), account); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	whole := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")}
	bound.Spec.Resources = &corev1.ResourceRequirements{Requests: whole, Limits: whole} // for the pod as a whole
	create(t, pool, node, bound, waiting)

	labels := `arch="amd64",instance_type="m7i.xlarge",managed="true",node_name="shown-node",nodepool="shown",.*`
	there := []string{
		`karpenter_nodes_allocatable{` + labels + `resource_type="cpu",.*} 3`,
		`karpenter_nodes_system_overhead{` + labels + `resource_type="cpu",.*} 1`,
		`karpenter_nodes_total_pod_requests{` + labels + `resource_type="cpu",.*} 0.75`,
		`karpenter_nodes_total_pod_requests{` + labels + `resource_type="memory",.*} 2.68435456e\+08`,
		`karpenter_nodes_total_pod_limits{` + labels + `resource_type="cpu",.*} 0.75`,
		`karpenter_nodes_current_lifetime_seconds{` + labels + `} .*`,
		`karpenter_cluster_utilization_percent{resource_type="cpu"} 25`,
		`karpenter_cluster_state_node_count 1`,
		`karpenter_pods_state{.*instance_type="m7i.xlarge",managed="true",name="bound",namespace="default",node="shown-node",nodepool="shown",.*scheduled="true",zone="us-west-2a"} 1`,
		`karpenter_pods_state{.*name="waiting",namespace="default",.*scheduled="false"} 1`,
		`karpenter_pods_unbound_time_seconds{dynamic_resources="false",name="waiting",namespace="default"} .*`,
		`!karpenter_pods_unbound_time_seconds{dynamic_resources="false",name="bound",namespace="default"} .*`,
		`karpenter_pods_unstarted_time_seconds{name="bound",namespace="default"} .*`,
		`karpenter_nodepools_limit{nodepool="shown",resource_type="cpu"} 8`,
		`karpenter_nodepool_limit{nodepool="shown",resource_type="cpu"} 8`,
		`karpenter_nodepools_usage{nodepool="shown",resource_type="nodes"} 1`,
		`operator_nodepool_status_condition_count{name="shown",reason="NodeClassNotFound",status="False",type="NodeClassReady"} 1`,
		`operator_status_condition_count{group="karpenter.sh",kind="NodePool",name="shown",reason="NodeClassNotFound",status="False",type="NodeClassReady"} 1`,
		`operator_nodepool_status_condition_transitions_total{.*status="False",type="NodeClassReady"} .*`,
		`!karpenter_metrics_refused_total{.*`,
	}
	c.show(there...)

	// O52: the change is an event, too.
	events := &corev1.EventList{}
	awaitEvent(t, events, "shown", karpv1.ConditionNodeClassReady)

	// O48: nothing of this is shown by the other.
	quiet := silent.get(silent.metrics, "/metrics", lines("karpenter_cluster_state_synced 1"))
	for _, name := range []string{"karpenter_nodes_allocatable", "karpenter_pods_state", "operator_nodepool_status_condition_count", "karpenter_nodepools_limit"} {
		if strings.Contains(quiet, name+"{") {
			t.Errorf("%s is shown though it is turned off", name)
		}
	}

	// O47: what is gone is not shown any more.
	for _, o := range []client.Object{bound, waiting} {
		if err := cluster.Client.Delete(t.Context(), o, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range []client.Object{node, pool} {
		if err := cluster.Client.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	var gone []string
	for _, p := range there {
		if strings.Contains(p, "shown") || strings.Contains(p, "waiting") {
			gone = append(gone, "!"+strings.TrimPrefix(p, "!"))
		}
	}
	gone = slices.DeleteFunc(gone, func(p string) bool { return strings.Contains(p, "_total{") })
	c.show(gone...)
}

// awaitEvent returns when there is an event about an object of that name with that reason.
func awaitEvent(t *testing.T, events *corev1.EventList, name, reason string) {
	t.Helper()
	watcher, err := cluster.Client.Watch(t.Context(), events, client.MatchingFields{"involvedObject.name": name, "reason": reason})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if found, ok := event.Object.(*corev1.Event); ok {
			if found.Source.Component != "karpenter" {
				t.Errorf("the event's source is %q, want karpenter", found.Source.Component)
			}
			return
		}
	}
}
