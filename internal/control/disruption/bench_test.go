package disruption

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	eventrecord "k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	awscloud "karpenter/internal/cloud/aws"
	"karpenter/internal/control"
	"karpenter/internal/control/claim"
	"karpenter/internal/control/provision"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
	"karpenter/internal/state"
	"karpenter/test/harness"
	"karpenter/test/harness/rig"
	"karpenter/test/harness/simcloud"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{NoWatchCache: true}, func(c *harness.Cluster) { cluster = c }))
}

var class = schema.GroupKind{Group: awsv1.Group, Kind: "EC2NodeClass"}

// bench is a cluster with an AWS simulator in which nothing happens by itself: the test lets time pass, instances join, pods move and
// the loop look.
type bench struct {
	*testing.T
	clock    *clocktesting.FakeClock
	world    *simcloud.World
	client   *rig.Direct
	events   *eventrecord.FakeRecorder
	recorder *control.Recorder
	registry *prometheus.Registry
	meter    *meter.Set
	log      *bytes.Buffer

	ledger    *ledger.Ledger
	mirror    *state.Mirror
	loop      *Loop
	lifecycle *claim.Lifecycle
	put       map[types.UID]client.Object // what the mirror has been shown
	pods      int
	// reservation, if any, is a full one for m5.large.
	reservation string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	fake := clocktesting.NewFakeClock(time.Date(2026, 8, 3, 6, 0, 0, 0, time.UTC)) // a Monday
	b := &bench{
		T: t, clock: fake, world: simcloud.Start(t, simcloud.Options{Clock: fake, NoBoot: true}),
		client: rig.NewDirect(cluster.Client, fake.Now),
		events: eventrecord.NewFakeRecorder(10_000), registry: prometheus.NewRegistry(), log: &bytes.Buffer{},
	}
	b.recorder, b.meter = control.NewRecorder(b.events, fake.Now), meter.New(b.registry, meter.Cloud{})
	b.restart()
	t.Cleanup(func() {
		b.replay()
		sweep(t)
		if t.Failed() {
			t.Log("\n" + b.log.String())
		}
	})
	return b
}

// restart makes the loop and everything around it anew, as a new process does.
func (b *bench) restart() {
	b.Helper()
	b.put = map[types.UID]client.Object{}
	b.mirror = state.NewMirror(state.MirrorOptions{
		Options: state.Options{ProviderDomains: []string{awsv1.Group, "topology.k8s.aws"}},
		Now:     b.clock.Now,
		Types:   b.types,
	})
	b.mirror.SetSynced()
	log := slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b.loop = &Loop{
		Client: b.client, Live: b.client, Mirror: b.mirror, Turn: &Turn{}, Clock: b.clock, Log: log, Recorder: b.recorder, Meter: b.meter,
		Creator: &provision.Creator{Client: b.client, Mirror: b.mirror, Clock: b.clock, Log: log, Meter: b.meter},
	}
	if b.ledger == nil {
		b.ledger = ledger.New(ledger.DefaultSize, "p", b.clock.Now)
		b.ledger.KeepRecordings(ledger.DefaultRecordings, "v")
	}
	b.loop.Ledger, b.loop.Reading = b.ledger, state.Options{ProviderDomains: []string{awsv1.Group, "topology.k8s.aws"}}
	b.loop.prepare()
	b.lifecycle = &claim.Lifecycle{
		Client: b.client, Launcher: b.world.Provider, InstanceID: awscloud.ParseProviderID, Class: class,
		Clock: b.clock, Recorder: control.NewRecorder(eventrecord.NewFakeRecorder(10_000), b.clock.Now), Log: slog.New(slog.DiscardHandler),
	}
}

// types are what the cloud offers for a class.
func (b *bench) types(class string) ([]string, []*world.InstanceType, uint64, error) {
	found, err := b.world.Provider.Types(class)
	if err != nil {
		return nil, nil, 0, err
	}
	list := found.List
	if b.reservation != "" {
		list = slices.Clone(list)
		i := slices.IndexFunc(list, func(t *world.InstanceType) bool { return t.Name == "m5.large" })
		more := *list[i]
		more.Offerings = append(slices.Clone(more.Offerings), world.Offering{
			Zone: "us-west-2a", CapacityType: world.CapacityReserved, Price: 0.001, Available: true, Reservation: b.reservation,
			Labels: world.NewLabels(map[string]string{awsv1.LabelCapacityReservationID: b.reservation}),
		})
		list[i] = &more
	}
	return found.Resources, list, found.Version, nil
}

// kinds are the kinds of objects that these tests make.
func kinds() []client.ObjectList {
	return []client.ObjectList{&corev1.PodList{}, &corev1.NodeList{}, &karpv1.NodeClaimList{}, &karpv1.NodePoolList{}, &policyv1.PodDisruptionBudgetList{}}
}

// sweep takes everything out of the API server that a test has left there.
func sweep(t testing.TB) {
	t.Helper()
	rig.Sweep(t, cluster.Client, kinds()...)
}

// vanish deletes an object at once, whatever its finalizers.
func (b *bench) vanish(obj client.Object) {
	b.Helper()
	b.must(rig.Vanish(b.Context(), cluster.Client, obj))
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// sync shows the mirror what the API server has.
func (b *bench) sync() {
	b.Helper()
	seen := map[types.UID]client.Object{}
	for _, list := range kinds() {
		b.must(b.client.WithWatch.List(b.Context(), list))
		b.must(meta.EachListItem(list, func(o runtime.Object) error {
			obj := o.DeepCopyObject().(client.Object)
			b.client.Age(obj)
			seen[obj.GetUID()] = obj
			b.mirror.Put(obj)
			return nil
		}))
	}
	for uid, obj := range b.put {
		if seen[uid] == nil {
			b.mirror.Drop(obj)
		}
	}
	b.put = seen
}

// pass judges all claims and lets the loop look once.
func (b *bench) pass() time.Duration {
	b.Helper()
	b.judge()
	return b.look()
}

// look lets the loop look once, at everything.
func (b *bench) look() time.Duration {
	b.Helper()
	b.sync()
	b.loop.decideAt = time.Time{}
	again, err := b.loop.Pass(b.Context())
	b.must(err)
	b.sync()
	return again
}

// judge runs the reconcilers of conditions once for each claim.
func (b *bench) judge() {
	b.Helper()
	for _, c := range b.claims() {
		b.run(&Quiet{Client: b.client, Class: class, Clock: b.clock}, c.Name)
	}
}

func clientKey(name string) client.ObjectKey { return client.ObjectKey{Name: name} }

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: clientKey(name)}
}

func (b *bench) run(r reconcile.Reconciler, name string) time.Duration {
	b.Helper()
	result, err := r.Reconcile(b.Context(), request(name))
	b.must(err)
	return result.RequeueAfter
}

// claims are all claims, by name.
func (b *bench) claims() []*karpv1.NodeClaim {
	b.Helper()
	list := &karpv1.NodeClaimList{}
	b.must(b.client.List(b.Context(), list))
	var out []*karpv1.NodeClaim
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	slices.SortFunc(out, func(x, y *karpv1.NodeClaim) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// claim reads a claim, or returns nil if it is gone.
func (b *bench) claim(name string) *karpv1.NodeClaim {
	b.Helper()
	c := &karpv1.NodeClaim{}
	err := b.client.Get(b.Context(), client.ObjectKey{Name: name}, c)
	if client.IgnoreNotFound(err) == nil && err != nil {
		return nil
	}
	b.must(err)
	return c
}

// going says whether a claim has been deleted.
func (b *bench) going(name string) bool {
	b.Helper()
	c := b.claim(name)
	return c == nil || !c.DeletionTimestamp.IsZero()
}

// made are the claims that moves have made and that have not been deleted.
func (b *bench) made() (out []*karpv1.NodeClaim) {
	b.Helper()
	for _, c := range b.claims() {
		if c.Annotations[karpv1.MovedFromAnnotationKey] != "" && c.DeletionTimestamp.IsZero() {
			out = append(out, c)
		}
	}
	return out
}

// cpus is a quantity.
func (b *bench) cpus(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

func (b *bench) nodeOf(claim string) *corev1.Node {
	b.Helper()
	n := &corev1.Node{}
	b.must(b.client.Get(b.Context(), client.ObjectKey{Name: "node-" + claim}, n))
	return n
}

// pool creates a pool that makes on-demand nodes.
func (b *bench) pool(name string, edit ...func(*karpv1.NodePool)) *karpv1.NodePool {
	b.Helper()
	p := &karpv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: karpv1.NodePoolSpec{
			Template: karpv1.NodeClaimTemplate{Spec: karpv1.NodeClaimTemplateSpec{
				NodeClassRef: &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"},
				Requirements: []karpv1.NodeSelectorRequirementWithMinValues{
					{Key: karpv1.CapacityTypeLabelKey, Operator: corev1.NodeSelectorOpIn, Values: []string{"on-demand"}},
					{Key: awsv1.LabelInstanceFamily, Operator: corev1.NodeSelectorOpIn, Values: []string{"m5"}},
				},
				ExpireAfter: karpv1.NeverDuration(),
			}},
			Disruption: karpv1.Disruption{
				ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized, ConsolidateAfter: karpv1.NewNillableDuration(0),
				Budgets: []karpv1.Budget{{Nodes: "100%"}},
			},
		},
	}
	for _, e := range edit {
		e(p)
	}
	b.must(b.client.Create(b.Context(), p))
	return p
}

// instance makes a claim of a pool with an instance of a type, up and running.
func (b *bench) instance(name, pool, typ string, edit ...func(*karpv1.NodeClaim)) *karpv1.NodeClaim {
	b.Helper()
	c := simcloud.NewClaim(name)
	c.Labels = map[string]string{karpv1.NodePoolLabelKey: pool, awsv1.LabelNodeClass: "default"}
	c.Finalizers = []string{karpv1.TerminationFinalizer}
	c.Spec.Requirements[0].Values = []string{typ}
	c.Spec.Requirements = append(c.Spec.Requirements, karpv1.NodeSelectorRequirementWithMinValues{
		Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"us-west-2a"},
	})
	for _, e := range edit {
		e(c)
	}
	b.must(b.client.Create(b.Context(), c))
	b.launch(name)
	b.join(name)
	return b.claim(name)
}

// launch gives claims their instances.
func (b *bench) launch(names ...string) {
	b.Helper()
	for range 30 {
		waits := false
		for _, name := range names {
			b.run(b.lifecycle, name)
			if c := b.claim(name); c != nil && c.DeletionTimestamp.IsZero() {
				waits = waits || c.Status.ProviderID == ""
			}
		}
		if !waits {
			return
		}
		b.clock.Step(time.Second)
	}
	b.Fatalf("%v were not launched", names)
}

// join makes the nodes of claims that have instances, ready for pods.
func (b *bench) join(names ...string) {
	b.Helper()
	for _, name := range names {
		c := b.claim(name)
		labels := maps.Clone(c.Labels)
		labels[corev1.LabelHostname] = "node-" + name
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-" + name, Labels: labels},
			Spec:       corev1.NodeSpec{ProviderID: c.Status.ProviderID, Taints: []corev1.Taint{karpv1.UnregisteredTaint()}},
		}
		b.must(b.client.Create(b.Context(), node))
		b.run(b.lifecycle, name)
		node = b.nodeOf(name)
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
		b.must(b.client.Update(b.Context(), node))
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		node.Status.Capacity, node.Status.Allocatable = c.Status.Capacity, c.Status.Allocatable
		b.must(b.client.WithWatch.Status().Update(b.Context(), node))
		b.run(b.lifecycle, name)
		if !initialized(b.claim(name)) {
			b.Fatalf("%s is not initialized: %+v", name, b.claim(name).Status.Conditions)
		}
	}
}

// pod puts a pod onto the node of a claim.
func (b *bench) pod(claim, cpu string, edit ...func(*corev1.Pod)) *corev1.Pod {
	b.Helper()
	b.pods++
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("pod-%d", b.pods), Namespace: "default", Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			NodeName: "node-" + claim, TerminationGracePeriodSeconds: new(int64(0)),
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("64Mi")}}}},
		},
	}
	for _, e := range edit {
		e(p)
	}
	b.must(b.client.Create(b.Context(), p))
	p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &metav1.Time{Time: b.clock.Now()}
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(b.clock.Now())},
		{Type: corev1.PodReady, Status: corev1.ConditionTrue},
	}
	b.must(b.client.WithWatch.Status().Update(b.Context(), p))
	return p
}

// drain ends everything that has been deleted, and lets pods of deleted nodes start on nodes with room.
func (b *bench) drain() {
	b.Helper()
	for _, c := range b.claims() {
		if c.DeletionTimestamp.IsZero() {
			continue
		}
		pods := &corev1.PodList{}
		b.must(b.client.List(b.Context(), pods, client.MatchingFields{"spec.nodeName": "node-" + c.Name}))
		if c.Status.NodeName != "" {
			b.vanish(b.nodeOf(c.Name))
		}
		b.vanish(c)
		for i := range pods.Items {
			b.vanish(&pods.Items[i])
			b.place(pods.Items[i].Spec.Containers[0].Resources.Requests.Cpu())
		}
	}
}

// place puts a pod of that size onto the first node with room.
func (b *bench) place(cpu *resource.Quantity) {
	b.Helper()
	pods := &corev1.PodList{}
	b.must(b.client.WithWatch.List(b.Context(), pods))
	for _, c := range b.claims() {
		if !initialized(c) || !c.DeletionTimestamp.IsZero() || tainted(b.nodeOf(c.Name)) {
			continue
		}
		left := c.Status.Allocatable.Cpu().DeepCopy()
		for i := range pods.Items {
			if pods.Items[i].Spec.NodeName == "node-"+c.Name {
				left.Sub(*pods.Items[i].Spec.Containers[0].Resources.Requests.Cpu())
			}
		}
		if left.Cmp(*cpu) >= 0 {
			b.pod(c.Name, cpu.String())
			return
		}
	}
	b.Errorf("no node has room for %s", cpu)
}

// told returns the events so far and forgets them.
func (b *bench) told() (events []string) {
	for len(b.events.Events) > 0 {
		events = append(events, <-b.events.Events)
	}
	return events
}

func (b *bench) expectEvent(words ...string) {
	b.Helper()
	events := b.told()
	for _, e := range events {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e, w) }) {
			return
		}
	}
	b.Errorf("no event with %q among\n%s", words, strings.Join(events, "\n"))
}

// counted is the sum of a metric's series that have these labels; of histograms it is how often something was observed.
func (b *bench) counted(name meter.Name, labels ...string) float64 {
	b.Helper()
	return rig.Count(b, b.registry, name, labels...)
}
