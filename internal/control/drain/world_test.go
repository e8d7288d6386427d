package drain_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
	"karpenter/internal/control/drain"
	"karpenter/internal/meter"
	"karpenter/test/harness"
	"karpenter/test/harness/rig"
)

var (
	cluster *harness.Cluster
	worlds  atomic.Int64
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{}, func(c *harness.Cluster) { cluster = c }))
}

// patience is how long anything may take that should be quick, on a computer that does other things too.
const patience = 5 * time.Minute

// world is a drainer at work on objects of a class of its own, so that tests do not see each other.
type world struct {
	t      *testing.T
	name   string // also the namespace
	class  schema.GroupKind
	fleet  *fleet
	clock  *flow
	events *rig.Sink
	meter  *meter.Set
	series *prometheus.Registry
	log    *strings.Builder
	stop   func()
	// clouds is what the drainer talks to, the fleet unless the test says otherwise.
	clouds     cloud.Fleet
	instanceID func(string) (string, error)
	rebooter   cloud.Rebooter
	launches   drain.Launches

	mu    sync.Mutex
	gone  []string            // pods in the order in which the kubelet let them go
	holds map[string]bool     // pods that the kubelet does not let go
	saw   map[string][]string // grace periods that pods were given
}

// flow is a clock that follows the real one and can be set ahead.
type flow struct {
	*testingclock.FakeClock
	mu    sync.Mutex
	ahead time.Duration
}

func (f *flow) skip(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ahead += d
	f.SetTime(time.Now().Add(f.ahead))
}

func (f *flow) skipTo(at time.Time) { f.skip(at.Sub(f.Now())) }

func (f *flow) run(ctx context.Context) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.skip(0)
		}
	}
}

// newWorld is a world with a drainer at work.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := prepare(t)
	w.start()
	return w
}

// prepare is a world without a drainer yet.
func prepare(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	return bare(t)
}

// bare is a world without a drainer, in a test that runs by itself.
func bare(t *testing.T) *world {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))
	name = fmt.Sprintf("%s-%d", name[:min(len(name), 45)], worlds.Add(1)) // tests may run more than once
	w := &world{
		t: t, name: name, class: schema.GroupKind{Group: "test.karpenter.sh", Kind: "Class" + name},
		fleet: &fleet{instances: map[string]*cloud.Instance{}, deletes: map[string]int{}},
		clock: &flow{FakeClock: testingclock.NewFakeClock(time.Now())}, events: &rig.Sink{},
		series: prometheus.NewRegistry(), log: &strings.Builder{}, holds: map[string]bool{}, saw: map[string][]string{},
	}
	w.meter, w.clouds, w.instanceID = meter.New(w.series, meter.Cloud{}), w.fleet, instanceID
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	go w.clock.run(t.Context())
	w.kubelet()
	return w
}

// start runs the drainer; a second call stops the one before first, as a restart does.
func (w *world) start() {
	w.t.Helper()
	if w.stop != nil {
		w.stop()
	}
	m := rig.Manager(w.t, cluster)
	if err := drain.Index(w.t.Context(), m.GetFieldIndexer()); err != nil {
		w.t.Fatal(err)
	}
	d := &drain.Drainer{
		Client: m.GetClient(), Live: m.GetAPIReader(), Fleet: w.clouds, InstanceID: w.instanceID, Class: w.class, Clock: w.clock, Rebooter: w.rebooter, Launches: w.launches,
		Recorder: control.NewRecorder(w.events, w.clock.Now), Meter: w.meter, Log: slog.New(slog.NewTextHandler(&lockedWriter{w: w.log, mu: &w.mu}, nil)),
	}
	if err := d.Register(m); err != nil {
		w.t.Fatal(err)
	}
	w.stop = rig.Run(w.t, m)
}

type lockedWriter struct {
	w  *strings.Builder
	mu *sync.Mutex
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func instanceID(providerID string) (string, error) {
	id, ok := strings.CutPrefix(providerID, "test:///")
	if !ok {
		return "", fmt.Errorf("provider ID %q is not of the form test:///INSTANCE", providerID)
	}
	return id, nil
}

func (w *world) create(obj client.Object) {
	w.t.Helper()
	rig.Create(w.t, cluster.Client, obj)
}

func (w *world) delete(obj client.Object) {
	w.t.Helper()
	if err := cluster.Client.Delete(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
}

// claim makes a registered claim with its instance; change may make it another.
func (w *world) claim(name string, change ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	w.t.Helper()
	name = w.name + "-" + name
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Finalizers: []string{karpv1.TerminationFinalizer},
			Labels: map[string]string{karpv1.NodePoolLabelKey: "pool", karpv1.CapacityTypeLabelKey: "spot", corev1.LabelTopologyZone: "zone-a"},
		},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: w.class.Group, Kind: w.class.Kind, Name: "default"},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{}, ExpireAfter: karpv1.NeverDuration(),
		},
		Status: karpv1.NodeClaimStatus{ProviderID: "test:///" + name, NodeName: name},
	}
	for _, c := range []string{karpv1.ConditionLaunched, karpv1.ConditionRegistered, karpv1.ConditionInitialized} {
		claim.StatusConditions().SetTrue(c, time.Now())
	}
	for _, c := range change {
		c(claim)
	}
	w.fleet.add(&cloud.Instance{ID: name, ProviderID: "test:///" + name, Claim: name, State: cloud.Running})
	w.create(claim)
	return claim
}

func grace(d time.Duration) func(*karpv1.NodeClaim) {
	return func(c *karpv1.NodeClaim) { c.Spec.TerminationGracePeriod = &karpv1.Duration{Duration: d} }
}

// node makes the node of a claim, ready and with our finalizer.
func (w *world) node(name string, change ...func(*corev1.Node)) *corev1.Node {
	w.t.Helper()
	name = w.name + "-" + name
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Finalizers: []string{karpv1.TerminationFinalizer},
			Labels: map[string]string{
				karpv1.NodePoolLabelKey: "pool", karpv1.NodeRegisteredLabelKey: "true", corev1.LabelTopologyZone: "zone-a",
				karpv1.NodeClassLabelKey(karpv1.NodeClassReference{Group: w.class.Group, Kind: w.class.Kind}): "default",
			},
		},
		Spec:   corev1.NodeSpec{ProviderID: "test:///" + name},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, c := range change {
		c(node)
	}
	w.create(node)
	w.t.Cleanup(func() { w.forget(node) })
	return node
}

// pair makes a claim and its node.
func (w *world) pair(name string, change ...func(*karpv1.NodeClaim)) (*karpv1.NodeClaim, *corev1.Node) {
	w.t.Helper()
	return w.claim(name, change...), w.node(name)
}

// forget removes what a failed test leaves behind, so that it does not slow down the others.
func (w *world) forget(obj client.Object) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if cluster.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj) == nil {
		obj.SetFinalizers(nil)
		_ = cluster.Client.Update(ctx, obj)
		_ = cluster.Client.Delete(ctx, obj)
	}
}

// pod makes a running, ready pod on a node.
func (w *world) pod(name string, node *corev1.Node, change ...func(*corev1.Pod)) *corev1.Pod {
	w.t.Helper()
	pod := newPod(w.name, name, node.Name)
	for _, c := range change {
		c(pod)
	}
	w.create(pod)
	return pod
}

func newPod(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{"app": "app"}},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}, TerminationGracePeriodSeconds: new(int64(30)),
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: time.Now()},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

// kubelet lets pods of the namespace go that have been told to, except those that it holds.
func (w *world) kubelet() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	var working sync.WaitGroup
	working.Go(func() {
		for ctx.Err() == nil { // the API server ends watches as it likes
			w.watchPods(ctx, &working)
		}
	})
	w.t.Cleanup(func() {
		cancel()
		working.Wait()
	})
}

func (w *world) watchPods(ctx context.Context, working *sync.WaitGroup) {
	pods := &corev1.PodList{}
	if err := cluster.Client.List(ctx, pods, client.InNamespace(w.name)); err != nil {
		return
	}
	for i := range pods.Items {
		w.notice(&pods.Items[i], working)
	}
	watcher, err := cluster.Client.Watch(ctx, pods, client.InNamespace(w.name), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: pods.ResourceVersion}})
	if err != nil {
		return
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if pod, ok := event.Object.(*corev1.Pod); ok && event.Type != "DELETED" {
			w.notice(pod, working)
		}
	}
}

// notice does what a kubelet does about a pod that has been told to go.
func (w *world) notice(pod *corev1.Pod, working *sync.WaitGroup) {
	if pod.DeletionTimestamp.IsZero() {
		return
	}
	given := fmt.Sprint(*pod.DeletionGracePeriodSeconds)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.saw[pod.Name], given) {
		w.saw[pod.Name] = append(w.saw[pod.Name], given)
	}
	if !w.holds[pod.Name] {
		working.Go(func() { w.release(pod) })
	}
}

// release takes a pod that has ended out of the API.
func (w *world) release(pod *corev1.Pod) {
	uid := pod.UID
	err := cluster.Client.Delete(w.t.Context(), pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &uid})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) && w.t.Context().Err() == nil {
		w.t.Errorf("kubelet: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Contains(w.gone, pod.Name) {
		w.gone = append(w.gone, pod.Name)
	}
}

func (w *world) hold(pods ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range pods {
		w.holds[p] = true
	}
}

func (w *world) left() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.gone)
}

func (w *world) graces(pod string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.saw[pod])
}

// told is how many pods have been told to go.
func (w *world) told() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.saw)
}

func (w *world) logged() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

// await polls until what holds, and fails the test if it does not in time.
func (w *world) await(what string, holds func() bool) {
	w.t.Helper()
	w.pass(0, what, holds)
}

// pass lets so much time pass between two looks, until what holds.
func (w *world) pass(step time.Duration, what string, holds func() bool) {
	w.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
			w.clock.skip(step)
		case <-deadline:
			w.t.Fatalf("waited in vain for: %s\nevents: %q\nlog: %s", what, w.events.All(), w.logged())
		}
	}
}

// look has the drainer look at a node again. After the clock was set ahead it must: a look that was under way at that moment waits
// from the new time on for what it saw at the old one, and that may last a whole sweep.
func (w *world) look(node *corev1.Node) {
	w.t.Helper()
	change := fmt.Sprintf(`{"metadata":{"annotations":{"test.karpenter.sh/looked":%q}}}`, w.clock.Now())
	if err := cluster.Client.Patch(w.t.Context(), node.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(change))); err != nil {
		w.t.Fatal(err)
	}
}

// awaitEnding waits until the cloud has agreed to end the claim's instance, and that is on record.
func (w *world) awaitEnding(claim *karpv1.NodeClaim) {
	w.t.Helper()
	w.pass(100*time.Millisecond, "the cloud is told", func() bool {
		return w.condition(claim, karpv1.ConditionInstanceTerminating) == "True InstanceTerminating"
	})
}

// finish lets time pass quickly until the objects are gone.
func (w *world) finish(objects ...client.Object) {
	w.t.Helper()
	for _, obj := range objects {
		w.pass(200*time.Millisecond, "the end of "+obj.GetName(), func() bool { return !w.exists(obj) })
	}
}

func (w *world) exists(obj client.Object) bool {
	err := cluster.Client.Get(w.t.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopyObject().(client.Object))
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	return err == nil
}

// condition is a condition of the claim as it stands, in one word each: status and reason.
func (w *world) condition(claim *karpv1.NodeClaim, conditionType string) string {
	now := &karpv1.NodeClaim{}
	if err := cluster.Client.Get(w.t.Context(), client.ObjectKeyFromObject(claim), now); err != nil {
		return ""
	}
	if c := now.StatusConditions().Get(conditionType); c != nil {
		return string(c.Status) + " " + c.Reason
	}
	return ""
}

// count is the value of a counter, or the number of observations, over all series that have these labels.
func (w *world) count(name meter.Name, labels ...string) float64 {
	w.t.Helper()
	return rig.Count(w.t, w.series, name, labels...)
}
