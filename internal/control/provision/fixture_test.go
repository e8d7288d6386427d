package provision

import (
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
	"karpenter/test/harness"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{}, func(c *harness.Cluster) { cluster = c }))
}

var silent = slog.New(slog.DiscardHandler)

// fixture is a mirror of objects that a test puts there.
type fixture struct {
	*state.Mirror
	clock  *testclock.FakeClock
	pods   []*corev1.Pod
	nudges int
}

var awsLabels = state.Options{ProviderDomains: []string{"karpenter.k8s.aws", "topology.k8s.aws"}}

func newFixture(catalog *dump.Catalog, pools ...*karpv1.NodePool) *fixture {
	// Reading a catalogue is part of reading a cluster, so one is read that has nothing but a pool.
	read, _ := state.Build(&dump.Objects{Pools: []*karpv1.NodePool{newPool("any")}}, catalog, awsLabels)
	s := &fixture{clock: testclock.NewFakeClock(epoch)}
	s.Mirror = state.NewMirror(state.MirrorOptions{Options: awsLabels, Now: s.clock.Now, Types: func(string) ([]string, []*world.InstanceType, uint64, error) {
		return read.Resources, read.Pools[0].Types, 1, nil
	}})
	s.SetSynced()
	for _, p := range pools {
		s.Put(p)
	}
	return s
}

func (s *fixture) put(pods ...*corev1.Pod) {
	for _, p := range pods {
		s.pods = append(s.pods, p)
		s.Put(p)
	}
}

// clear takes the pods away.
func (s *fixture) clear() {
	for _, p := range s.pods {
		s.Drop(p)
	}
	s.pods = nil
}

// nudge changes something that decisions read and that leads to no other.
func (s *fixture) nudge() {
	s.nudges++
	s.Put(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("full-%d", s.nudges), UID: types.UID(fmt.Sprintf("full-%d", s.nudges))}})
}

// inFlight lists the claims whose nodes are not there yet.
func (s *fixture) inFlight() []*karpv1.NodeClaim {
	var out []*karpv1.NodeClaim
	for _, n := range s.View().Nodes {
		if n.World.InFlight {
			out = append(out, n.Claim)
		}
	}
	return out
}

// typesOf makes a catalogue of types with so many CPUs each, in the zones, for spot and on-demand.
func typesOf(zones []string, cpus ...int) *dump.Catalog {
	c := &dump.Catalog{}
	for _, n := range cpus {
		size := map[string]string{"cpu": fmt.Sprint(n), "memory": fmt.Sprintf("%dGi", 4*n), "pods": "110", "ephemeral-storage": "100Gi"}
		t := dump.CatalogType{
			Name: fmt.Sprintf("m5.%dx", n), Allocatable: size, Capacity: size,
			Labels: map[string]string{"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", awsv1.LabelInstanceFamily: "m5", awsv1.LabelInstanceSize: fmt.Sprintf("%dx", n)},
		}
		for _, z := range zones {
			t.Offerings = append(t.Offerings,
				dump.CatalogOffering{Zone: z, CapacityType: "spot", Price: 0.02 * float64(n)},
				dump.CatalogOffering{Zone: z, CapacityType: "on-demand", Price: 0.05 * float64(n)})
		}
		c.InstanceTypes = append(c.InstanceTypes, t)
	}
	return c
}

var twoZones = []string{"us-east-1a", "us-east-1b"}

func newPool(name string, change ...func(*karpv1.NodePool)) *karpv1.NodePool {
	p := &karpv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("pool-" + name)},
		Spec: karpv1.NodePoolSpec{Template: karpv1.NodeClaimTemplate{Spec: karpv1.NodeClaimTemplateSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{},
			ExpireAfter:  karpv1.NeverDuration(),
		}}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

// needs adds a requirement to a pool's template; minValues 0 is none.
func needs(key string, op corev1.NodeSelectorOperator, minValues int, values ...string) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) {
		r := karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: op, Values: values}
		if minValues > 0 {
			r.MinValues = &minValues
		}
		p.Spec.Template.Spec.Requirements = append(p.Spec.Template.Spec.Requirements, r)
	}
}

func limits(list map[corev1.ResourceName]string) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) {
		p.Spec.Limits = karpv1.Limits{}
		for k, v := range list {
			p.Spec.Limits[k] = resource.MustParse(v)
		}
	}
}

// newPod is a pod that found no place.
func newPod(name, cpu string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("pod-" + name), CreationTimestamp: metav1.Time{Time: epoch.Add(-time.Minute)}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "app", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("128Mi")},
		}}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
		}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func pods(n int, cpu string, change ...func(*corev1.Pod)) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range n {
		out = append(out, newPod(fmt.Sprintf("p%03d", i), cpu, change...))
	}
	return out
}

// alone keeps pods of the same kind on nodes of their own.
func alone(p *corev1.Pod) {
	p.Labels = map[string]string{"app": "alone"}
	p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "alone"}},
	}}}}
}

func selects(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}
