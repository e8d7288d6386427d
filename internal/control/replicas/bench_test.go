package replicas

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	eventrecord "k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/control/provision"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
	"karpenter/test/harness"
	"karpenter/test/harness/rig"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{}, func(c *harness.Cluster) { cluster = c }))
}

// bench is a loop over a real API server, in the test's time. The mirror is shown the cluster by sync, and by nothing else.
type bench struct {
	*testing.T
	clock    *clocktesting.FakeClock
	client   *rig.Direct
	events   *eventrecord.FakeRecorder
	registry *prometheus.Registry
	meter    *meter.Set
	ledger   *ledger.Ledger
	log      *bytes.Buffer

	types  []*world.InstanceType
	names  []string
	mirror *state.Mirror
	loop   *Loop
	put    map[types.UID]client.Object
}

func newBench(t *testing.T) *bench {
	t.Helper()
	fake := clocktesting.NewFakeClock(time.Date(2026, 8, 3, 6, 0, 0, 0, time.UTC))
	b := &bench{
		T: t, clock: fake, client: rig.NewDirect(cluster.Client, fake.Now), events: eventrecord.NewFakeRecorder(10_000),
		registry: prometheus.NewRegistry(), log: &bytes.Buffer{}, ledger: ledger.New(ledger.DefaultSize, "p", fake.Now),
	}
	b.meter = meter.New(b.registry, meter.Cloud{})
	read, _ := state.Build(&dump.Objects{Pools: []*karpv1.NodePool{b.newPool("any", 0)}}, catalog(), state.Options{ProviderDomains: []string{awsv1.Group}})
	b.types, b.names = read.Pools[0].Types, read.Resources
	b.restart()
	t.Cleanup(func() {
		rig.Sweep(t, cluster.Client, &karpv1.NodeClaimList{}, &karpv1.NodePoolList{})
		if t.Failed() {
			t.Log("\n" + b.log.String())
		}
	})
	return b
}

// catalog is two types in three zones.
func catalog() *dump.Catalog {
	c := &dump.Catalog{}
	for i, name := range []string{"m5.large", "m5.xlarge"} {
		t := dump.CatalogType{
			Name: name, Labels: map[string]string{corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux"},
			Allocatable: map[string]string{"cpu": fmt.Sprint(2 << i), "memory": fmt.Sprintf("%dGi", 8<<i), "pods": "110", "ephemeral-storage": "20Gi"},
		}
		for _, zone := range []string{"a", "b", "c"} {
			t.Offerings = append(t.Offerings, dump.CatalogOffering{Zone: zone, CapacityType: "on-demand", Price: 0.1 * float64(int(1)<<i)})
		}
		c.InstanceTypes = append(c.InstanceTypes, t)
	}
	return c
}

// restart makes the loop and everything around it anew, as a new process does. Its mirror is empty.
func (b *bench) restart() {
	b.put = map[types.UID]client.Object{}
	b.mirror = state.NewMirror(state.MirrorOptions{
		Options: state.Options{ProviderDomains: []string{awsv1.Group}}, Now: b.clock.Now,
		Types: func(string) ([]string, []*world.InstanceType, uint64, error) { return b.names, b.types, 1, nil },
	})
	b.mirror.SetSynced()
	b.ledger.KeepRecordings(ledger.DefaultRecordings, "test")
	log := slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b.loop = &Loop{
		Client: b.client, Mirror: b.mirror, Clock: b.clock, Log: log, Recorder: control.NewRecorder(b.events, b.clock.Now), Meter: b.meter, Ledger: b.ledger,
		Reading: state.Options{ProviderDomains: []string{awsv1.Group}},
		Creator: &provision.Creator{Client: b.client, Live: b.client, Mirror: b.mirror, Clock: b.clock, Log: log, Meter: b.meter},
	}
	b.loop.prepare()
}

func (b *bench) newPool(name string, replicas int64, edit ...func(*karpv1.NodePool)) *karpv1.NodePool {
	p := &karpv1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: karpv1.NodePoolSpec{Replicas: &replicas, Template: karpv1.NodeClaimTemplate{Spec: karpv1.NodeClaimTemplateSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: awsv1.Group, Kind: "EC2NodeClass", Name: "default"},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{}, ExpireAfter: karpv1.NeverDuration(),
		}}},
	}
	for _, f := range edit {
		f(p)
	}
	return p
}

// pool creates a static pool.
func (b *bench) pool(name string, replicas int64, edit ...func(*karpv1.NodePool)) {
	b.Helper()
	rig.Create(b, b.client, b.newPool(name, replicas, edit...))
	b.sync()
}

func atMost(nodes string) func(*karpv1.NodePool) {
	return func(p *karpv1.NodePool) { p.Spec.Limits = karpv1.Limits{karpv1.LimitsNodes: resource.MustParse(nodes)} }
}

// scale changes how many nodes a pool is to have, by its scale subresource as kubectl scale does (A1).
func (b *bench) scale(name string, replicas int) {
	b.Helper()
	if _, err := cluster.Kubectl(b.Context(), "", "scale", "nodepool", name, fmt.Sprintf("--replicas=%d", replicas)); err != nil {
		b.Fatal(err)
	}
	b.sync()
}

// sync shows the mirror the cluster as it is.
func (b *bench) sync() {
	b.Helper()
	seen := map[types.UID]bool{}
	var pools karpv1.NodePoolList
	var nodes corev1.NodeList
	b.must(b.client.List(b.Context(), &pools))
	b.must(b.client.List(b.Context(), &nodes))
	show := func(o client.Object) {
		seen[o.GetUID()], b.put[o.GetUID()] = true, o
		b.mirror.Put(o)
	}
	for i := range pools.Items {
		show(&pools.Items[i])
	}
	for i := range nodes.Items {
		show(&nodes.Items[i])
	}
	for _, c := range b.claims() {
		show(c)
	}
	for uid, o := range b.put {
		if !seen[uid] {
			b.mirror.Drop(o)
			delete(b.put, uid)
		}
	}
}

func (b *bench) claims() (out []*karpv1.NodeClaim) {
	b.Helper()
	var list karpv1.NodeClaimList
	b.must(b.client.List(context.Background(), &list))
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

// count counts the claims, and those of them that are being deleted.
func (b *bench) count() (all, deleting int) {
	b.Helper()
	for _, c := range b.claims() {
		if all++; c.DeletionTimestamp != nil {
			deleting++
		}
	}
	return all, deleting
}

// want checks how many claims there are, and how many of them are being deleted.
func (b *bench) want(all, deleting int) {
	b.Helper()
	if a, d := b.count(); a != all || d != deleting {
		b.Fatalf("%d claims, of which %d are being deleted; want %d and %d", a, d, all, deleting)
	}
}

// pass has the loop look once.
func (b *bench) pass() time.Duration {
	b.Helper()
	again, err := b.loop.Pass(b.Context())
	b.must(err)
	return again
}

// launch gives every claim that has none an instance.
func (b *bench) launch() {
	b.Helper()
	for _, c := range b.claims() {
		if c.Status.ProviderID == "" {
			c.Status.ProviderID = "aws:///a/" + c.Name
			b.must(b.client.WithWatch.Status().Update(b.Context(), c))
		}
	}
	b.sync()
}

// end has a claim that is being deleted go.
func (b *bench) end(claims ...*karpv1.NodeClaim) {
	b.Helper()
	for _, c := range claims {
		b.must(rig.Vanish(context.Background(), cluster.Client, c))
	}
	b.sync()
}

func (b *bench) told(reason string) (out []string) {
	for {
		select {
		case e := <-b.events.Events:
			var kind, got string
			if _, err := fmt.Sscanf(e, "%s %s", &kind, &got); err == nil && got == reason {
				out = append(out, e)
			}
		default:
			return out
		}
	}
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
