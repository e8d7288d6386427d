package claim

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	awscloud "karpenter/internal/cloud/aws"
	"karpenter/internal/control"
	"karpenter/internal/meter"
	"karpenter/test/harness"
	"karpenter/test/harness/rig"
	"karpenter/test/harness/simcloud"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{NoWatchCache: true}, func(c *harness.Cluster) { cluster = c }))
}

var class = schema.GroupKind{Group: awsv1.Group, Kind: "EC2NodeClass"}

// bench is one test's part of the API server with a clock of its own. Reconcilers are called directly, so that every step is
// the test's.
type bench struct {
	*testing.T
	clock    *clocktesting.FakeClock
	client   *rig.Direct
	events   *record.FakeRecorder
	registry *prometheus.Registry
	meter    *meter.Set
	recorder *control.Recorder
}

func newBench(t *testing.T) *bench {
	t.Helper()
	fake := clocktesting.NewFakeClock(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC))
	b := &bench{T: t, clock: fake, events: record.NewFakeRecorder(1000), registry: prometheus.NewRegistry()}
	b.client = rig.NewDirect(cluster.Client, fake.Now)
	b.meter = meter.New(b.registry, meter.Cloud{})
	b.recorder = control.NewRecorder(b.events, fake.Now)
	t.Cleanup(func() { sweep(t) })
	return b
}

// sweep takes everything out of the API server that a test has left there.
func sweep(t testing.TB) {
	t.Helper()
	rig.Sweep(t, cluster.Client, &corev1.PodList{}, &corev1.NodeList{}, &karpv1.NodeClaimList{})
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// lifecycle is a reconciler as a new process has it.
func (b *bench) lifecycle(launcher cloud.Launcher) *Lifecycle {
	return &Lifecycle{
		Client: b.client, Launcher: launcher, InstanceID: awscloud.ParseProviderID, Class: class,
		Clock: b.clock, Recorder: b.recorder, Meter: b.meter, Log: slog.New(slog.DiscardHandler),
	}
}

// claim creates a claim; edit changes it before.
func (b *bench) claim(name string, edit ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	b.Helper()
	claim := simcloud.NewClaim(name)
	for _, e := range edit {
		e(claim)
	}
	b.must(b.client.Create(b.Context(), claim))
	return claim
}

// inBatch puts a claim into a batch.
func inBatch(id string) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) { control.Annotate(c, cloud.BatchAnnotationKey, id) }
}

// get reads a claim, or returns nil if it is gone.
func (b *bench) get(name string) *karpv1.NodeClaim {
	b.Helper()
	claim := &karpv1.NodeClaim{}
	err := b.client.Get(b.Context(), client.ObjectKey{Name: name}, claim)
	if apierrors.IsNotFound(err) {
		return nil
	}
	b.must(err)
	return claim
}

// going says whether a claim has been deleted.
func (b *bench) going(name string) bool {
	b.Helper()
	claim := b.get(name)
	return claim == nil || !claim.DeletionTimestamp.IsZero()
}

// run reconciles an object of that name once.
func (b *bench) run(r reconcile.Reconciler, name string) time.Duration {
	b.Helper()
	result, err := r.Reconcile(b.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
	b.must(err)
	return result.RequeueAfter
}

// settle reconciles the claims again and again, in the time that they ask for, until done says so.
func (b *bench) settle(r reconcile.Reconciler, done func() bool, names ...string) {
	b.Helper()
	for range 100 {
		next := time.Minute
		for _, name := range names {
			if after := b.run(r, name); after > 0 {
				next = min(next, after)
			}
		}
		if done() {
			return
		}
		b.clock.Step(next)
	}
	for _, name := range names {
		if c := b.get(name); c != nil {
			b.Logf("%s: %+v", name, c.Status.Conditions)
		}
	}
	b.Fatal("nothing came of it")
}

// launched says whether all the claims have an instance.
func (b *bench) launched(names ...string) func() bool {
	return func() bool {
		return !slices.ContainsFunc(names, func(name string) bool { c := b.get(name); return c == nil || c.Status.ProviderID == "" })
	}
}

// node creates the node of a claim's instance, as its kubelet would.
func (b *bench) node(name string, claim *karpv1.NodeClaim, edit ...func(*corev1.Node)) *corev1.Node {
	b.Helper()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{ProviderID: claim.Status.ProviderID, Taints: []corev1.Taint{karpv1.UnregisteredTaint()}},
	}
	for _, e := range edit {
		e(node)
	}
	b.must(b.client.Create(b.Context(), node))
	return node
}

// report sets what the kubelet says of a node.
func (b *bench) report(name string, ready corev1.ConditionStatus, allocatable corev1.ResourceList) {
	b.Helper()
	node := b.getNode(name)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	node.Status.Allocatable, node.Status.Capacity = allocatable, allocatable
	b.must(b.client.Status().Update(b.Context(), node))
}

func (b *bench) getNode(name string) *corev1.Node {
	b.Helper()
	node := &corev1.Node{}
	b.must(b.client.Get(b.Context(), client.ObjectKey{Name: name}, node))
	return node
}

// condition is one condition of a claim as "Status/Reason".
func (b *bench) condition(name, condition string) string {
	b.Helper()
	c := b.get(name).StatusConditions().Get(condition)
	if c == nil {
		return ""
	}
	return string(c.Status) + "/" + c.Reason
}

// told returns the events so far and forgets them.
func (b *bench) told() (events []string) {
	for len(b.events.Events) > 0 {
		events = append(events, <-b.events.Events)
	}
	return events
}

func (b *bench) expectEvent(reason string) {
	b.Helper()
	if events := b.told(); !slices.ContainsFunc(events, func(e string) bool { return strings.Contains(e, " "+reason+" ") }) {
		b.Errorf("no event %s among %q", reason, events)
	}
}

// counted is the sum of a metric's series that have these labels.
func (b *bench) counted(name meter.Name, labels ...string) float64 {
	b.Helper()
	return rig.Count(b, b.registry, name, labels...)
}
