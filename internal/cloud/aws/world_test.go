package aws

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/aws/shape"
	"karpenter/internal/cloud/simaws"
	"karpenter/test/harness/sdk"
)

// usually is the first number, and in a long run (KARPENTER_TEST_LONG=1), which takes minutes, the second.
func usually(n, long int) int {
	if os.Getenv("KARPENTER_TEST_LONG") != "" {
		return long
	}
	return n
}

var epoch = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// testWorld is an AWS simulator and a provider that talks to it over a socket.
type testWorld struct {
	t     testing.TB
	ctx   context.Context
	sim   *simaws.Sim
	clock simaws.Clock
	opt   Options
	// url and client lead to the AWS simulator.
	url    string
	client aws.HTTPClient
	// admin may do everything: tests use it for what the controller has no business with.
	admin Clients
	*Provider

	mu      sync.Mutex
	classes map[string]*awsv1.EC2NodeClass
	calls   map[string]int
	// used are the actions that the controller called, denied what IAM said to those that it refused.
	used   map[string]bool
	denied []string
}

func newWorld(t testing.TB, edit ...func(*simaws.Options, *Options)) *testWorld {
	t.Helper()
	clock := simaws.NewManual(epoch)
	impatient := func(_ *simaws.Options, o *Options) { o.Clock = eager{clock} }
	return newWorldAt(t, clock, func(sim *simaws.Sim) (string, aws.HTTPClient) {
		server := httptest.NewServer(sim.Handler())
		t.Cleanup(server.Close)
		return server.URL, sdk.Client{}
	}, append([]func(*simaws.Options, *Options){impatient}, edit...)...)
}

// eager is a manual clock for whoever waits alone: time jumps to when they want to go on.
type eager struct{ *simaws.Manual }

func (e eager) After(d time.Duration) <-chan time.Time {
	alarm := e.Manual.After(d)
	e.Advance(d)
	return alarm
}

// newWorldAt is a world with a clock and a way to it; connect returns the address and the client to reach it with.
func newWorldAt(t testing.TB, clock simaws.Clock, connect func(*simaws.Sim) (string, aws.HTTPClient), edit ...func(*simaws.Options, *Options)) *testWorld {
	t.Helper()
	w := &testWorld{t: t, ctx: t.Context(), clock: clock, classes: map[string]*awsv1.EC2NodeClass{}, calls: map[string]int{}, used: map[string]bool{}}
	simOpt := simaws.Options{
		Clock: w.clock, Seed: 1, Region: "us-west-2", OnCall: w.count,
		Clusters: []simaws.Cluster{{Name: "test", Version: "1.34", Endpoint: "https://test.local"}},
	}
	w.opt = Options{
		Clock: w.clock, Region: "us-west-2", MemoryOverhead: 0.075, ReservedCapacity: true, Class: w.class,
		Cluster: Cluster{Name: "test", UID: "cluster-uid", Endpoint: "https://test.local", CABundle: "Y2E=", ServiceCIDR: "10.100.0.0/16", DNS: []string{"10.100.0.10"}, Version: "1.34"},
	}
	for _, e := range edit {
		e(&simOpt, &w.opt)
	}
	sim, err := simaws.New(simOpt)
	if err != nil {
		t.Fatal(err)
	}
	w.sim = sim
	w.url, w.client = connect(sim)
	w.admin = NewClients(w.config("admin"))
	w.opt.Clients = NewClients(w.config(controllerKey))
	w.policies(shippedPolicies(t, simOpt.Region))
	w.restart()
	return w
}

// config signs with an access key. controllerKey is the controller, who may do what the shipped policies allow; every other
// key may do anything.
func (w *testWorld) config(key string) aws.Config {
	c := sdk.Config(w.opt.Region, w.url, key)
	c.HTTPClient = w.client
	return c
}

func simClock() *simaws.Manual { return simaws.NewManual(epoch) }

// restart replaces the provider by one that remembers nothing.
func (w *testWorld) restart() {
	w.Provider = New(w.opt)
}

func (w *testWorld) count(c simaws.Call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls[c.Action]++
	if strings.Contains(c.Who, ":assumed-role/"+controllerRole+"/") {
		w.used[c.Service+":"+c.Action] = true
		if slices.Contains(refusals, c.Code) {
			w.denied = append(w.denied, c.Message)
		}
	}
}

func (w *testWorld) called(action string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls[action]
}

func (w *testWorld) class(name string) *awsv1.EC2NodeClass {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.classes[name]
}

func (w *testWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// advance moves the clock and lets what is due happen.
func (w *testWorld) advance(d time.Duration) {
	w.clock.(*simaws.Manual).Advance(d)
	w.sim.Tick()
}

const trust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

// load makes the node role, downloads types and prices, and resolves a class named default.
func (w *testWorld) load(edit ...func(*awsv1.EC2NodeClass)) *awsv1.EC2NodeClass {
	w.t.Helper()
	w.role(nodeRole)
	w.refresh()
	return w.addClass("default", edit...)
}

func (w *testWorld) role(name string) {
	w.t.Helper()
	_, err := w.admin.IAM.CreateRole(w.ctx, &iam.CreateRoleInput{RoleName: aws.String(name), AssumeRolePolicyDocument: aws.String(trust)})
	w.must(err)
}

// downloads are what worlds of a region begin with. It is the same for all of them and never changes, so one download serves
// every test.
var downloads sync.Map

type download struct {
	offered *regionTypes
	prices  *priceTable
}

func (w *testWorld) refresh() {
	w.t.Helper()
	if got, ok := downloads.Load(w.opt.Region); ok {
		w.catalogue.now.Store(got.(download).offered)
		w.prices.now.Store(got.(download).prices)
		return
	}
	w.must(w.RefreshTypes(w.ctx))
	w.must(w.RefreshOnDemand(w.ctx))
	w.must(w.RefreshSpot(w.ctx))
	downloads.Store(w.opt.Region, download{w.catalogue.now.Load(), w.prices.now.Load()})
}

// narrow leaves the provider with a few types, for tests that launch hundreds of times: working out eight hundred types each time
// proves nothing more.
func (w *testWorld) narrow(names ...string) {
	w.t.Helper()
	known := w.catalogue.now.Load()
	few := &regionTypes{zones: known.zones}
	for _, name := range names {
		few.list = append(few.list, known.get(name))
	}
	slices.SortFunc(few.list, func(a, b *shape.Type) int { return strings.Compare(a.Name, b.Name) })
	w.catalogue.now.Store(few)
}

func newClass(name string) *awsv1.EC2NodeClass {
	tags := map[string]string{"karpenter.sh/discovery": "test"}
	return &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1, CreationTimestamp: metav1.NewTime(epoch)},
		Spec: awsv1.EC2NodeClassSpec{
			Role: nodeRole, AMISelectorTerms: []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
			SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: tags}},
			SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: tags}},
		},
	}
}

// addClass resolves a class and makes it known.
func (w *testWorld) addClass(name string, edit ...func(*awsv1.EC2NodeClass)) *awsv1.EC2NodeClass {
	w.t.Helper()
	class := newClass(name)
	for _, e := range edit {
		e(class)
	}
	w.Reconcile(w.ctx, class)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.classes[name] = class
	return class
}

// need is one requirement in short.
func need(key string, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
	return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

// claim asks for one CPU under the requirements.
func (w *testWorld) claim(name string, needs ...karpv1.NodeSelectorRequirementWithMinValues) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(w.clock.Now()), Labels: map[string]string{karpv1.NodePoolLabelKey: "general"},
		},
		Spec: karpv1.NodeClaimSpec{
			Requirements: needs, NodeClassRef: &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"},
			Resources: karpv1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("3")}},
		},
	}
}

// batch is n equal claims under one batch id.
func (w *testWorld) batch(id string, n int, needs ...karpv1.NodeSelectorRequirementWithMinValues) cloud.Batch {
	b := cloud.Batch{ID: id}
	for i := range n {
		c := w.claim(fmt.Sprintf("%s-%d", id, i), needs...)
		c.Annotations = map[string]string{cloud.BatchAnnotationKey: id}
		b.Claims = append(b.Claims, c)
	}
	return b
}

// one launches a single claim and expects an instance.
func (w *testWorld) one(name string, needs ...karpv1.NodeSelectorRequirementWithMinValues) *cloud.Instance {
	w.t.Helper()
	r := w.Launch(w.ctx, w.batch(name, 1, needs...))[0]
	w.must(r.Err)
	return r.Instance
}

// living lists what runs, from the cloud itself.
func (w *testWorld) living() []*cloud.Instance {
	w.t.Helper()
	list, err := w.List(w.ctx)
	w.must(err)
	return list
}

// given returns how many results have an instance, and fails on an instance that is given twice.
func given(t testing.TB, results []cloud.Result) (n int) {
	t.Helper()
	var ids []string
	for _, r := range results {
		if (r.Instance == nil) == (r.Err == nil) {
			t.Fatalf("a result must have an instance or an error: %+v", r)
		}
		if r.Instance != nil {
			ids = append(ids, r.Instance.ID)
		}
	}
	slices.Sort(ids)
	if len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Fatalf("an instance was given to two claims: %v", ids)
	}
	return len(ids)
}
