package migrate

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/test/harness"
	"karpenter/test/harness/program"
)

// TestTakeOver_Release1_14 takes over from release 1.14, whose hashes of classes are v5: two nodes, and an instance that is still starting.
func TestTakeOver_Release1_14(t *testing.T) {
	t.Parallel()
	s := newRelease(t, "1.14", &instance{Name: "default-7rk9q", Joined: true}, &instance{Name: "default-xw2tj", Joined: true}, &instance{Name: "default-9mfzl"})
	s.comeAndGo()
}

// TestTakeOver_Release1_15 takes over from release 1.15, whose hashes of classes are v6, with what is new in it: kubelet fields of any kind, a
// pool without consolidateAfter, a node that was rebooted, one whose instance reboots at this moment, and do-not-repair on each.
func TestTakeOver_Release1_15(t *testing.T) {
	t.Parallel()
	s := newRelease(t, "1.15", &instance{Name: "default-7rk9q", Joined: true, Reboot: "succeeded"}, &instance{Name: "default-xw2tj", Joined: true, Reboot: "issued"}, &instance{Name: "default-9mfzl"})
	s.comeAndGo()
}

// release is one of upstream Karpenter.
type release struct {
	name string
	// classVersion is its version of the hash of classes, and classHash what it works out of a class.
	classVersion string
	classHash    func(*awsv1.EC2NodeClass) string
}

// releases are those that are taken over from and handed back to. How 1.15 works its hash out is not published: any other value stands for it.
func (s *site) releases() map[string]release {
	return map[string]release{
		"1.14": {"1.14", "v5", func(c *awsv1.EC2NodeClass) string { return c.Hash(caBundle(s.Cluster)) }},
		"1.15": {"1.15", "v6", func(*awsv1.EC2NodeClass) string { return "4067990795380418201" }},
	}
}

// newRelease makes a cluster that a release has run in until this moment.
func newRelease(t *testing.T, name string, instances ...*instance) *site {
	t.Helper()
	now := time.Now().UTC()
	for _, i := range instances {
		i.Since = "2026-01-01T00:00:00Z"
		if !i.Joined {
			i.Since = now.Format(time.RFC3339)
		}
	}
	s := newSite(t, harness.Options{Scheduler: true}, "v1", instances...)
	s.left.Release, s.left.Now = name, now.Format(time.RFC3339)
	s.hashes("release.yaml")
	r := s.releases()[name]
	s.left.ClassHashVersion = r.classVersion
	if name == "1.15" {
		s.left.ClassHash = r.classHash(nil)
	}
	for _, file := range []string{"release.yaml", "release-claims.yaml", "release-nodes.yaml"} {
		s.write(file)
	}
	return s
}

// comeAndGo takes the cluster over, goes on with what was under way, launches a node, hands everything back to each release, and takes it over
// again. No instance ends on the way, no object is made anew, and nothing drifts.
func (s *site) comeAndGo() {
	s.t.Helper()
	before := s.cluster()
	run := startController(s.t, s.Cluster, s.World)
	s.goOn(run)
	s.grow(run)
	s.calm(run)
	run.Stop()
	s.kept(before)
	for _, name := range []string{"1.14", "1.15"} {
		s.t.Run("back to "+name, func(t *testing.T) { s.back(t, s.releases()[name]) })
		run := startController(s.t, s.Cluster, s.World)
		s.calm(run)
		run.Stop()
		s.kept(before)
	}
}

// goOn has the node come that is on its way, and the one come back that reboots.
func (s *site) goOn(run *program.Controller) {
	s.t.Helper()
	for _, i := range s.left.Instances {
		if !i.Joined {
			s.join("aws:///"+s.left.Zone+"/"+i.ID, i.Node)
		}
		if i.Reboot == "issued" {
			node := &corev1.Node{}
			if err := s.Client.Get(s.t.Context(), client.ObjectKey{Name: i.Node}, node); err != nil {
				s.t.Fatal(err)
			}
			node.Status.NodeInfo.BootID, node.Status.Conditions[0].Status = "second", corev1.ConditionTrue
			if err := s.Client.Status().Update(s.t.Context(), node); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	s.up(run, len(s.left.Instances), "pending")
}

// grow has a node launched, and its instance join.
func (s *site) grow(run *program.Controller) {
	s.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "more"}, Spec: corev1.PodSpec{
		Tolerations: []corev1.Toleration{{Key: "example.com/team", Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{Name: "web", Image: "web", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1500m"), corev1.ResourceMemory: resource.MustParse("2Gi"),
		}}}},
	}}
	if err := s.Client.Create(s.t.Context(), pod); err != nil {
		s.t.Fatal(err)
	}
	known := map[string]bool{}
	for _, i := range s.left.Instances {
		known[i.ID] = true
	}
	program.Until(s.t, "an instance is launched", func() bool {
		run.MustRun()
		for _, c := range s.claims() {
			if id := instanceID(&c); id != "" && !known[id] {
				s.join(c.Status.ProviderID, "ip-more.internal")
				return true
			}
		}
		return false
	})
	s.up(run, len(s.left.Instances)+1, "more")
}

// join makes the Node of an instance as its kubelet does.
func (s *site) join(providerID, name string) {
	s.t.Helper()
	zone := strings.Split(providerID, "/")[3]
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"karpenter.sh/capacity-type": "on-demand", "karpenter.sh/do-not-sync-taints": "true", "karpenter.sh/nodepool": "default", "team": "payments",
			corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelHostname: name, corev1.LabelInstanceTypeStable: "m5.large",
			corev1.LabelTopologyRegion: region, corev1.LabelTopologyZone: zone,
		}},
		Spec: corev1.NodeSpec{ProviderID: providerID, Taints: []corev1.Taint{
			{Key: "example.com/team", Value: "payments", Effect: corev1.TaintEffectNoSchedule}, karpv1.UnregisteredTaint(),
		}},
	}
	room := corev1.ResourceList{"cpu": resource.MustParse("1880m"), "memory": resource.MustParse("6803Mi"), "pods": resource.MustParse("29"), "ephemeral-storage": resource.MustParse("17Gi")}
	node.Status.Capacity, node.Status.Allocatable = room, room
	node.Status.NodeInfo = corev1.NodeSystemInfo{BootID: "first", KubeletVersion: "v1.37.0", Architecture: "amd64", OperatingSystem: "linux"}
	now := metav1.Now()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: now, LastHeartbeatTime: now}}
	if err := s.Client.Create(s.t.Context(), node); err != nil { // with its status, as kubelets do
		s.t.Fatal(err)
	}
	s.open(name)
}

func (s *site) claims() []karpv1.NodeClaim {
	s.t.Helper()
	list := &karpv1.NodeClaimList{}
	if err := s.Client.List(s.t.Context(), list); err != nil {
		s.t.Fatal(err)
	}
	return list.Items
}

// up waits until all nodes are usable, none reboots, and kube-scheduler has bound the pod.
func (s *site) up(run *program.Controller, nodes int, pod string) {
	s.t.Helper()
	state := ""
	defer func() {
		if s.t.Failed() {
			s.t.Log(state)
		}
	}()
	program.Until(s.t, "the nodes are up and pod "+pod+" is on one", func() bool {
		run.MustRun()
		ready := 0
		state = ""
		for _, c := range s.claims() {
			if set := c.StatusConditions(); set.Root().Status == metav1.ConditionTrue && !set.IsTrue(karpv1.ConditionRebooting) {
				ready++
			} else {
				state += fmt.Sprintf("%s: %+v\n", c.Name, c.Status.Conditions)
			}
		}
		p := &corev1.Pod{}
		if err := s.Client.Get(s.t.Context(), client.ObjectKey{Namespace: "default", Name: pod}, p); err != nil {
			s.t.Fatal(err)
		}
		return ready == nodes && p.Spec.NodeName != ""
	})
}

// calm waits until the controller has renewed the hashes, has asked the provider about drift of each claim and has decided about disruption
// a few times since.
func (s *site) calm(run *program.Controller) {
	s.t.Helper()
	decided := func() float64 {
		run.MustRun()
		return total(run.Scrape(), `karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count\{[^}]*\}`)
	}
	program.Until(s.t, "hashes are renewed and drift is judged", func() bool {
		run.MustRun()
		class := &awsv1.EC2NodeClass{}
		if err := s.Client.Get(s.t.Context(), client.ObjectKey{Name: "default"}, class); err != nil {
			s.t.Fatal(err)
		}
		claims := s.claims()
		renewed := func(c karpv1.NodeClaim) bool {
			return maps.Equal(picked(c.Annotations), map[string]string{awsv1.EC2NodeClassHashVersionAnnotationKey: awsv1.EC2NodeClassHashVersion, awsv1.EC2NodeClassHashAnnotationKey: class.Hash(caBundle(s.Cluster))})
		}
		return class.Annotations[awsv1.EC2NodeClassHashVersionAnnotationKey] == awsv1.EC2NodeClassHashVersion && !slices.ContainsFunc(claims, func(c karpv1.NodeClaim) bool { return !renewed(c) }) &&
			total(run.Scrape(), `karpenter_cloudprovider_duration_seconds_count\{[^}]*method="IsDrifted"[^}]*\}`) >= float64(len(claims))
	})
	begun := decided()
	program.Until(s.t, "disruption is decided", func() bool { return decided() >= begun+3 })
}

// picked are the annotations with the hash of a class.
func picked(annotations map[string]string) map[string]string {
	out := map[string]string{}
	for _, key := range []string{awsv1.EC2NodeClassHashVersionAnnotationKey, awsv1.EC2NodeClassHashAnnotationKey} {
		out[key] = annotations[key]
	}
	return out
}

// kept checks that everything is still there that was, and one node more.
func (s *site) kept(before map[string]*unstructured.Unstructured) {
	s.t.Helper()
	after := s.cluster()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if after[name] == nil {
			s.t.Fatalf("%s is gone", name)
		}
		if before[name].GetKind() != "Pod" {
			handedBack(s.t, before[name], after[name], false)
		}
	}
	list, err := s.Sim.Instances(region)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, i := range list {
		if i.State != "running" {
			s.t.Errorf("instance %s is %s", i.ID, i.State)
		}
	}
	if want := len(s.left.Instances) + 1; len(list) != want || len(s.claims()) != want {
		s.t.Errorf("there are %d instances and %d claims, want %d", len(list), len(s.claims()), want)
	}
}
