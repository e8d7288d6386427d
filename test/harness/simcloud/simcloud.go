// Package simcloud gives tests an AWS simulator on a loopback port with an AWS provider that talks to it over its real protocols,
// and a node class that can launch. Together with package harness it is a whole cluster but for the kubelets.
//
// Everything lives in one clock, which the test may give: with a fake one instances boot when the test says so.
package simcloud

import (
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	awscloud "karpenter/internal/cloud/aws"
	"karpenter/internal/cloud/simaws"
	"karpenter/test/harness/sdk"
)

const (
	// Cluster is the name of the cluster unless the options give another one.
	Cluster = "simulated"
	// Role is the role of nodes.
	Role = "simulated-node"

	version  = "1.34"
	endpoint = "https://simulated.local"
	trust    = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`
)

// Options describe a world; the zero value is a usable one.
type Options struct {
	// Cluster is the cluster's name, Region where it is; us-west-2 if empty.
	Cluster, Region string
	// Clock is the time of the world and of the provider; the real one if nil.
	Clock clock.WithTicker
	// NoBoot makes instances run and join, and end, without any delay: the next moment that the clock shows.
	NoBoot bool
	// Seed makes what is random in the world the same again.
	Seed uint64
	// Sim, if set, changes the options of the world before it is made.
	Sim func(*simaws.Options)
	// Provider, if set, changes the options of the provider before it is made.
	Provider func(*awscloud.Options)
}

// World is an AWS simulator with a provider.
type World struct {
	// Provider is the current one; Restart replaces it.
	Provider *awscloud.Provider
	Sim      *simaws.Sim
	Clock    clock.WithTicker
	// Config is for clients of the SDK that may do anything; Clients are made from it.
	Config  aws.Config
	Clients awscloud.Clients
	Cluster string

	tb  testing.TB
	opt awscloud.Options

	mu      sync.Mutex
	classes map[string]*awsv1.EC2NodeClass
	calls   map[string]int
}

// Start makes a world in which a class named default can launch. It ends with the test.
func Start(tb testing.TB, opt Options) *World {
	tb.Helper()
	w := &World{tb: tb, Clock: opt.Clock, Cluster: opt.Cluster, classes: map[string]*awsv1.EC2NodeClass{}, calls: map[string]int{}}
	if w.Clock == nil {
		w.Clock = clock.RealClock{}
	}
	if w.Cluster == "" {
		w.Cluster = Cluster
	}
	simOpt := simaws.Options{
		Clock: w.Clock, Seed: opt.Seed, Region: opt.Region, OnCall: w.count,
		Clusters: []simaws.Cluster{{Name: w.Cluster, Version: version, Endpoint: endpoint}},
	}
	if simOpt.Region == "" {
		simOpt.Region = "us-west-2"
	}
	if opt.NoBoot {
		simOpt.Timing = simaws.Timing{Pending: -1, Join: -1, ShuttingDown: -1, Stopping: -1}
	}
	if opt.Sim != nil {
		opt.Sim(&simOpt)
	}
	sim, err := simaws.New(simOpt)
	if err != nil {
		tb.Fatal(err)
	}
	server := httptest.NewServer(sim.Handler())
	tb.Cleanup(server.Close)
	w.Sim, w.Config = sim, sdk.Config(simOpt.Region, server.URL, "test")
	w.Clients = awscloud.NewClients(w.Config)
	w.opt = awscloud.Options{
		Clients: w.Clients, Clock: w.Clock, Region: simOpt.Region, MemoryOverhead: 0.075, ReservedCapacity: true, Class: w.class,
		Cluster: awscloud.Cluster{Name: w.Cluster, UID: "uid-" + w.Cluster, Endpoint: endpoint, CABundle: "Y2E=", ServiceCIDR: "10.100.0.0/16", DNS: []string{"10.100.0.10"}, Version: version},
	}
	if opt.Provider != nil {
		opt.Provider(&w.opt)
	}
	_, err = w.Clients.IAM.CreateRole(tb.Context(), &iam.CreateRoleInput{RoleName: aws.String(Role), AssumeRolePolicyDocument: aws.String(trust)})
	w.must(err)
	w.Restart()
	w.AddClass("default")
	return w
}

// Restart replaces the provider by one that remembers nothing, as a new process would have.
func (w *World) Restart() {
	w.tb.Helper()
	p := awscloud.New(w.opt)
	ctx := w.tb.Context()
	w.must(p.RefreshTypes(ctx))
	w.must(p.RefreshOnDemand(ctx))
	w.must(p.RefreshSpot(ctx))
	w.Provider = p
}

// AddClass makes a class known whose status the provider has filled in, or changes one. It is in no API server.
func (w *World) AddClass(name string, edit ...func(*awsv1.EC2NodeClass)) *awsv1.EC2NodeClass {
	w.tb.Helper()
	class := NewClass(name, w.Cluster)
	class.UID, class.Generation, class.CreationTimestamp = types.UID("uid-"+name), 1, metav1.NewTime(w.Clock.Now())
	for _, e := range edit {
		e(class)
	}
	w.Provider.Reconcile(w.tb.Context(), class)
	if root := class.StatusConditions(true).Root(); len(edit) == 0 && root.Status != metav1.ConditionTrue {
		w.tb.Fatalf("class %s is not Ready: %s", name, root.Message)
	}
	w.SetClass(class)
	return class
}

// SetClass makes the provider see a class as it is.
func (w *World) SetClass(class *awsv1.EC2NodeClass) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.classes[class.Name] = class
}

// NewClass is a class without status, for an API server, that finds what a world has from the start for the cluster.
func NewClass(name, cluster string) *awsv1.EC2NodeClass {
	tags := map[string]string{"karpenter.sh/discovery": cluster}
	return &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: awsv1.EC2NodeClassSpec{
			Role: Role, AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
			SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: tags}},
			SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: tags}},
		},
	}
}

// NewClaim is a claim for one small instance of the class default. It is in no API server and has no finalizer.
func NewClaim(name string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: "general"}},
		Spec: karpv1.NodeClaimSpec{
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{
				{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: []string{"m5.large", "c5.large", "m5.xlarge"}},
				{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{karpv1.CapacityTypeOnDemand}},
			},
			NodeClassRef: &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"},
			Resources:    karpv1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("3")}},
			ExpireAfter:  karpv1.NeverDuration(),
		},
	}
}

// Living lists the instances that the cloud has and that are not on their way out, as the cloud itself shows them.
func (w *World) Living() []*cloud.Instance {
	w.tb.Helper()
	w.Sim.Tick()
	list, err := w.Provider.List(w.tb.Context())
	w.must(err)
	var out []*cloud.Instance
	for _, in := range list {
		if !in.State.Ending() {
			out = append(out, in)
		}
	}
	return out
}

// Called is how often an action, for example CreateFleet, has been called.
func (w *World) Called(action string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[action]
}

func (w *World) count(c simaws.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[c.Action]++
}

func (w *World) class(name string) *awsv1.EC2NodeClass {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.classes[name]
}

func (w *World) must(err error) {
	w.tb.Helper()
	if err != nil {
		w.tb.Fatal(err)
	}
}
