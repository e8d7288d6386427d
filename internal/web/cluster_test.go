package web_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
	"karpenter/internal/explain"
	"karpenter/internal/ledger"
	"karpenter/internal/state"
	"karpenter/internal/web"
)

// secret is in the environment of every pod and must not be in any answer.
const secret = "hunter2-do-not-show"

// shapes are the types of the made-up cluster, in order: name, cores, GiB and the price on demand.
var shapes = []struct {
	name   string
	cores  int64
	memory int64
	price  float64
}{
	{"c6i.xlarge", 4, 8, 0.17},
	{"m6i.2xlarge", 8, 32, 0.384},
	{"m6i.4xlarge", 16, 64, 0.768},
	{"m6i.large", 2, 8, 0.096},
	{"m6i.xlarge", 4, 16, 0.192},
	{"r6i.2xlarge", 8, 64, 0.504},
}

var zones = []string{"us-west-2a", "us-west-2b", "us-west-2c"}

func instanceTypes(string) ([]string, []*world.InstanceType, uint64, error) {
	var out []*world.InstanceType
	for i, s := range shapes {
		t := &world.InstanceType{
			Name: s.name, Labels: world.NewLabels(map[string]string{corev1.LabelInstanceTypeStable: s.name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux"}),
			Capacity: world.Resources{s.cores * 1000, s.memory << 30, 110, 20 << 30}, Allocatable: world.Resources{s.cores*1000 - 110, (s.memory << 30) * 92 / 100, 110, 17 << 30},
		}
		for z, zone := range zones {
			t.Offerings = append(t.Offerings,
				world.Offering{Zone: zone, CapacityType: "spot", Price: s.price * (0.3 + 0.04*float64(z)), Available: (i+z)%7 != 3},
				world.Offering{Zone: zone, CapacityType: "on-demand", Price: s.price, Available: true})
		}
		out = append(out, t)
	}
	return []string{"cpu", "memory", "pods", "ephemeral-storage"}, out, 1, nil
}

// cluster is a made-up cluster that tests change while it is shown.
type cluster struct {
	clock  func() time.Time
	start  time.Time
	mirror *state.Mirror
	ledger *ledger.Ledger

	mu         sync.Mutex
	version    int
	pods       int
	plan       *pack.Plan
	planAt     time.Time
	decision   *disrupt.Decision
	input      *disrupt.Input
	decisionAt time.Time
}

func newCluster(clock func() time.Time) *cluster {
	c := &cluster{clock: clock, start: clock()}
	c.mirror = state.NewMirror(state.MirrorOptions{Types: instanceTypes, Now: clock})
	c.ledger = ledger.New(ledger.DefaultSize, "test", clock)
	return c
}

func (c *cluster) View() *state.View      { return c.mirror.View() }
func (c *cluster) Ledger() *ledger.Ledger { return c.ledger }
func (c *cluster) Now() time.Time         { return c.clock() }

func (c *cluster) Plan() (*pack.Plan, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plan, c.planAt
}

func (c *cluster) Decision() (*disrupt.Decision, *disrupt.Input, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.decision, c.input, c.decisionAt
}

func (c *cluster) About() web.About {
	return web.About{
		Version: "test", Cluster: "shop-production", Region: "us-west-2", Started: c.start,
		Prices:    []web.PriceList{{Name: "On demand", At: c.start.Add(-time.Hour)}, {Name: "Spot", At: c.start.Add(-10 * time.Minute)}},
		StockOuts: []web.StockOut{{Type: "m6i.2xlarge", Zone: "us-west-2c", CapacityType: "spot", Until: c.start.Add(3 * time.Minute)}},
	}
}

func (c *cluster) Recording(input string) (*ledger.Recording, error) {
	if input != "" {
		return nil, fmt.Errorf("recording %s is not kept", input)
	}
	return ledger.Record(c.View(), ledger.Facts{}, ledger.NewOptions(state.Options{}, disrupt.Options{}), c.Now())
}

func (c *cluster) Explain() *explain.Cluster {
	plan, _ := c.Plan()
	return explain.New(c.View(), nil, explain.Options{Now: c.Now(), Ledger: c.ledger.List, Plan: plan})
}

// decide plans for pods that wait, and decides about nodes.
func (c *cluster) decide() {
	view := c.View()
	plan := pack.Solve(view.World, pack.Options{})
	input := view.Disruption(state.DisruptionOptions{}, c.Now())
	decision := disrupt.Decide(input, disrupt.Options{}, c.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plan, c.planAt = plan, c.clock()
	c.input, c.decision, c.decisionAt = input, decision, c.clock()
}

func (c *cluster) put(o state.Object) {
	c.mu.Lock()
	c.version++
	o.SetResourceVersion(fmt.Sprint(c.version))
	c.mu.Unlock()
	c.mirror.Put(o)
}

func amounts(cpu, memory int64) corev1.ResourceList {
	return corev1.ResourceList{"cpu": *resource.NewMilliQuantity(cpu, resource.DecimalSI), "memory": *resource.NewQuantity(memory<<20, resource.BinarySI), "pods": resource.MustParse("110")}
}

// addPool adds a pool with a limit and three budgets.
func (c *cluster) addPool(name string, weight int32) {
	p := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("pool-" + name)}}
	p.Spec.Weight = &weight
	p.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	p.Spec.Template.Spec.Requirements = []v1.NodeSelectorRequirementWithMinValues{
		{Key: v1.CapacityTypeLabelKey, Operator: "In", Values: []string{"spot", "on-demand"}},
		{Key: corev1.LabelArchStable, Operator: "In", Values: []string{"amd64"}},
	}
	p.Spec.Limits = v1.Limits{"cpu": resource.MustParse("20k"), "memory": resource.MustParse("80Ti"), "nodes": resource.MustParse("1200")}
	p.Spec.Disruption.ConsolidateAfter, p.Spec.Template.Spec.ExpireAfter = v1.NewNillableDuration(30*time.Second), v1.NewNillableDuration(720*time.Hour)
	nine, eight := "0 9 * * mon-fri", v1.NewDuration(8*time.Hour)
	p.Spec.Disruption.Budgets = []v1.Budget{{Nodes: "10%"}, {Nodes: "0", Schedule: &nine, Duration: &eight, Reasons: []v1.DisruptionReason{v1.DisruptionReasonUnderutilized}}}
	now := time.Now()
	p.StatusConditions().SetTrue(v1.ConditionValidationSucceeded, now)
	p.StatusConditions().SetTrue(v1.ConditionNodeClassReady, now)
	c.put(p)
}

// addNode adds a node of a pool with its claim.
func (c *cluster) addNode(i int, pool string) string {
	s, zone, capacityType := shapes[(i*7+i/5)%len(shapes)], zones[i%3], "spot"
	if i%3 == 1 {
		capacityType = "on-demand"
	}
	name := fmt.Sprintf("ip-10-0-%d-%d.us-west-2.compute.internal", i/250, i%250)
	labels := map[string]string{
		v1.NodePoolLabelKey: pool, corev1.LabelHostname: name, corev1.LabelInstanceTypeStable: s.name, corev1.LabelTopologyZone: zone,
		v1.CapacityTypeLabelKey: capacityType, v1.NodeRegisteredLabelKey: "true", v1.NodeInitializedLabelKey: "true", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
	}
	made := metav1.NewTime(c.start.Add(-time.Duration(3600+i*977%900000) * time.Second))
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), Labels: labels, CreationTimestamp: made}}
	n.Spec.ProviderID = fmt.Sprintf("aws:///%s/i-%017d", zone, i)
	n.Status.Capacity, n.Status.Allocatable = amounts(s.cores*1000, s.memory<<10), amounts(s.cores*1000-110, (s.memory<<10)*92/100)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: made}}
	claim := &v1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%04x", pool, i*2654435761%65521), UID: types.UID("claim-" + name), Labels: labels, CreationTimestamp: made}}
	claim.Spec.NodeClassRef = &v1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	claim.Status.ProviderID, claim.Status.NodeName, claim.Status.Capacity, claim.Status.Allocatable = n.Spec.ProviderID, name, n.Status.Capacity, n.Status.Allocatable
	for _, t := range []string{v1.ConditionLaunched, v1.ConditionRegistered, v1.ConditionInitialized, v1.ConditionReady, v1.ConditionConsolidatable} {
		claim.Status.Conditions = append(claim.Status.Conditions, v1.Condition{Type: t, Status: "True", Reason: t, LastTransitionTime: made})
	}
	c.put(claim)
	c.put(n)
	return name
}

var apps = []string{"checkout", "catalogue", "search", "payments", "frontend", "recommend", "inventory", "mailer", "report", "auth"}

// addPod adds a pod of an app, on a node or waiting.
func (c *cluster) addPod(app string, cpu, memory int64, node string) *corev1.Pod {
	c.mu.Lock()
	c.pods++
	i := c.pods
	c.mu.Unlock()
	yes := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("%s-7c5d8f9b6d-%05x", app, i), Namespace: "shop", UID: types.UID(fmt.Sprintf("pod-%06d", i)),
		CreationTimestamp: metav1.NewTime(c.start.Add(-time.Duration(i%5000) * time.Second)), Labels: map[string]string{"app": app},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-7c5d8f9b6d", UID: types.UID("rs-" + app), Controller: &yes}},
	}}
	p.Spec.Containers = []corev1.Container{{
		Name: "main", Image: "registry.example.com/shop/" + app, Args: []string{"--password=" + secret}, Env: []corev1.EnvVar{{Name: "PASSWORD", Value: secret}},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": *resource.NewMilliQuantity(cpu, resource.DecimalSI), "memory": *resource.NewQuantity(memory<<20, resource.BinarySI)}},
	}}
	p.Spec.NodeName = node
	if node == "" {
		p.Status.Phase = corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	} else {
		p.Status.Phase = corev1.PodRunning
	}
	c.put(p)
	return p
}

// fill makes nodes with about so many pods each.
func (c *cluster) fill(nodes, perNode int) {
	c.addPool("general", 10)
	c.addPool("batch", 0)
	daemon := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "aws-node", Namespace: "kube-system", UID: "ds"}}
	daemon.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: amounts(50, 128)}}}
	c.put(daemon)
	for i := range nodes {
		pool := "general"
		if i%5 == 4 {
			pool = "batch"
		}
		name := c.addNode(i, pool)
		cores := shapes[(i*7+i/5)%len(shapes)].cores
		for k := range perNode {
			part := int64(35 + (i*31)%60) // hundredths of the node that are asked for
			share := cores * 1000 * part / 100 / int64(perNode)
			c.addPod(apps[(i+k)%len(apps)], max(10, share*int64(60+(k*37)%80)/100), max(32, share*int64(50+(k*53)%120)/50), name)
		}
	}
	c.pods = nodes * perNode
}

// smallCluster has what every page shows something of.
func smallCluster(tb testing.TB, clock func() time.Time) *cluster {
	tb.Helper()
	c := newCluster(clock)
	c.fill(24, 9)
	for range 6 {
		c.addPod("search", 1500, 3000, "")
	}
	c.addPod("report", 64000, 1000, "")
	c.decide()
	decisions(c)
	return c
}

// stuck is the pod that fits on nothing.
func (c *cluster) stuck() string {
	for _, p := range c.View().World.Pending {
		if strings.HasPrefix(p.Name, "report-") {
			return p.Name
		}
	}
	return ""
}
