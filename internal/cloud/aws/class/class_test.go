package class_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	clocktest "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/aws"
	"karpenter/internal/cloud/aws/class"
	"karpenter/internal/control"
	"karpenter/internal/meter"
	"karpenter/test/harness"
	"karpenter/test/harness/rig"
)

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{}, func(c *harness.Cluster) { cluster = c }))
}

var quiet = slog.New(slog.DiscardHandler)

func newClass(name string) *awsv1.EC2NodeClass {
	return &awsv1.EC2NodeClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: awsv1.EC2NodeClassSpec{
			SubnetSelectorTerms:        []awsv1.SubnetSelectorTerm{{Tags: map[string]string{"a": "b"}}},
			SecurityGroupSelectorTerms: []awsv1.SecurityGroupSelectorTerm{{Tags: map[string]string{"a": "b"}}},
			AMISelectorTerms:           []awsv1.AMISelectorTerm{{Alias: "al2023@latest"}},
			Role:                       "nodes",
		},
	}
}

func newClaim(name, class string) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: "general", karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeSpot}},
		Spec: karpv1.NodeClaimSpec{
			NodeClassRef: &karpv1.NodeClassReference{Group: awsv1.Group, Kind: awsv1.EC2NodeClassKind, Name: class},
			Requirements: []karpv1.NodeSelectorRequirementWithMinValues{}, ExpireAfter: karpv1.NeverDuration(),
		},
	}
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, obj := range objects {
		if err := cluster.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
}

// launched makes a claim that has an instance, and whose end waits for a finalizer.
func launched(t *testing.T, name, instance string) *karpv1.NodeClaim {
	t.Helper()
	claim := newClaim(name, "any")
	claim.Finalizers = []string{karpv1.TerminationFinalizer}
	create(t, claim)
	claim.Status.ProviderID = "aws:///us-east-1a/" + instance
	if err := cluster.Client.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rig.Vanish(context.Background(), cluster.Client, claim); err != nil {
			t.Error(err)
		}
	})
	return claim
}

func leaving(t *testing.T, claim *karpv1.NodeClaim) bool {
	t.Helper()
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatal(err)
	}
	return !claim.DeletionTimestamp.IsZero()
}

// resolver answers as told and notes what it was asked to clear away.
type resolver struct{ calls []string }

func (r *resolver) Reconcile(_ context.Context, c *awsv1.EC2NodeClass) time.Duration {
	c.Status.InstanceProfile = "profile"
	c.StatusConditions(true).SetTrue(awsv1.ConditionSubnetsReady, time.Unix(0, 0))
	return time.Minute
}

func (r *resolver) CollectProfiles(_ context.Context, c *awsv1.EC2NodeClass, _ map[string]bool) error {
	r.calls = append(r.calls, "profiles "+c.Name)
	return nil
}

func (r *resolver) DeleteTemplates(_ context.Context, name string) error {
	r.calls = append(r.calls, "templates "+name)
	return nil
}
func (r *resolver) Forget(name string) { r.calls = append(r.calls, "forget "+name) }

func TestAWS_6_ClassStaysUntilItsClaimsAreGone(t *testing.T) {
	events := record.NewFakeRecorder(10)
	aws := &resolver{}
	r := &class.Status{Client: cluster.Client, Resolver: aws, Recorder: control.NewRecorder(events, time.Now)}
	c, claim := newClass("wanted"), newClaim("user-of-wanted", "wanted")
	create(t, c, claim)
	request := reconcile.Request{NamespacedName: types.NamespacedName{Name: c.Name}}
	round := func() reconcile.Result {
		result, err := r.Reconcile(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if again := round().RequeueAfter; again != time.Minute {
		t.Errorf("looks again in %s, want the minute that the resolver said", again)
	}
	if err := cluster.Client.Get(t.Context(), request.NamespacedName, c); err != nil {
		t.Fatal(err)
	}
	if c.Status.InstanceProfile != "profile" || !slices.Contains(c.Finalizers, awsv1.TerminationFinalizer) {
		t.Errorf("status %+v, finalizers %v", c.Status, c.Finalizers)
	}
	if err := cluster.Client.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	round()
	if len(aws.calls) > 0 {
		t.Errorf("cleared away while a claim remains: %v", aws.calls)
	}
	if text := <-events.Events; !strings.Contains(text, "WaitingOnNodeClaimTermination") || !strings.Contains(text, claim.Name) {
		t.Errorf("event %q does not say what is waited for", text)
	}
	if err := cluster.Client.Delete(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	round()
	if err := cluster.Client.Get(t.Context(), request.NamespacedName, c); !apierrors.IsNotFound(err) {
		t.Errorf("the class is still there: %v", err)
	}
	if want := []string{"profiles wanted", "templates wanted", "forget wanted"}; !slices.Equal(aws.calls, want) {
		t.Errorf("cleared away %v, want %v", aws.calls, want)
	}
}

func TestAWS_6_ClassHashIsStampedOnOldClaims(t *testing.T) {
	c, claim := newClass("hashed"), newClaim("of-hashed", "hashed")
	claim.Annotations = map[string]string{awsv1.EC2NodeClassHashAnnotationKey: "1", awsv1.EC2NodeClassHashVersionAnnotationKey: "v4"}
	create(t, c, claim)
	r := &class.Hash{Client: cluster.Client, CABundle: "ca"}
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: c.Name}}); err != nil {
		t.Fatal(err)
	}
	want := c.Hash("ca")
	for _, obj := range []client.Object{c, claim} {
		if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
			t.Fatal(err)
		}
		if got := obj.GetAnnotations()[awsv1.EC2NodeClassHashAnnotationKey]; got != want {
			t.Errorf("%s has hash %s, want %s", obj.GetName(), got, want)
		}
	}
}

// Upstream and we hand classes and claims to each other, each with hashes of a version of its own, as often as it may be. Whoever comes
// renews them, and no claim is taken for drifted at any moment: before it has begun, between claim and class, and after. A change of the
// class is found by whoever is there.
func TestAWS_6_HashesChangeHandsWithoutDrift(t *testing.T) {
	for i, theirs := range []string{"v5", "v6"} {
		t.Run(theirs, func(t *testing.T) {
			name := fmt.Sprintf("hands-%d", i)
			c, claim := newClass(name), newClaim("of-"+name, name)
			c.Spec.EnclaveOptions = &awsv1.EnclaveOptions{Enabled: new(true)}
			c.Annotations = map[string]string{awsv1.EC2NodeClassHashAnnotationKey: "1", awsv1.EC2NodeClassHashVersionAnnotationKey: theirs}
			claim.Annotations = maps.Clone(c.Annotations)
			create(t, c, claim)
			read := func() {
				t.Helper()
				for _, obj := range []client.Object{c, claim} {
					if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
						t.Fatal(err)
					}
				}
			}
			drifted := func() bool {
				is, was := c.Annotations, claim.Annotations
				return is[awsv1.EC2NodeClassHashVersionAnnotationKey] == was[awsv1.EC2NodeClassHashVersionAnnotationKey] &&
					is[awsv1.EC2NodeClassHashAnnotationKey] != was[awsv1.EC2NodeClassHashAnnotationKey]
			}
			ours := func() error {
				_, err := (&class.Hash{Client: watched(drifted, read, t), CABundle: "ca"}).Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}})
				return err
			}
			upstreams := func() error { // the same rule, with another version and other values
				other := control.Stamp{
					Hash: awsv1.EC2NodeClassHashAnnotationKey, HashVersion: awsv1.EC2NodeClassHashVersionAnnotationKey, Version: theirs,
					Claims: func(context.Context, client.Client, string) ([]*karpv1.NodeClaim, error) {
						return []*karpv1.NodeClaim{claim}, nil
					},
				}
				return other.Write(t.Context(), watched(drifted, read, t), c, "9"+c.Hash("ca"))
			}
			for round, turn := range []func() error{ours, upstreams, ours, ours, upstreams} {
				if err := turn(); err != nil {
					t.Fatal(err)
				}
				if read(); drifted() || claim.Annotations[awsv1.EC2NodeClassHashVersionAnnotationKey] != c.Annotations[awsv1.EC2NodeClassHashVersionAnnotationKey] {
					t.Fatalf("round %d: class %v, claim %v", round, c.Annotations, claim.Annotations)
				}
			}
			if err := ours(); err != nil {
				t.Fatal(err)
			}
			read()
			c.Spec.DetailedMonitoring = new(true)
			if err := cluster.Client.Update(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if _, err := (&class.Hash{Client: cluster.Client, CABundle: "ca"}).Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}); err != nil {
				t.Fatal(err)
			}
			if read(); !drifted() {
				t.Error("a change of the class is not found")
			}
		})
	}
}

// watched is a client after each of whose writes no claim may be taken for drifted.
func watched(drifted func() bool, read func(), t *testing.T) client.Client {
	return interceptor.NewClient(cluster.Client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			err := c.Patch(ctx, obj, patch, opts...)
			if read(); err == nil && drifted() {
				t.Errorf("drifted after %T was written", obj)
			}
			return err
		},
	})
}

// inbox delivers each of its messages once, ten at a time, as a queue does for as long as it hides what was received.
type inbox struct {
	mu       sync.Mutex
	messages []cloud.Message
	deleted  []string
}

func (b *inbox) Receive(context.Context) ([]cloud.Message, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(10, len(b.messages))
	received := b.messages[:n]
	b.messages = b.messages[n:]
	return received, nil
}

func (b *inbox) Delete(_ context.Context, m cloud.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deleted = append(b.deleted, m.Receipt)
	return nil
}

// TestAWS_5_1_AStormIsReadBySeveralAtOnce: one waits for the first message, and all that may receive do so then.
func TestAWS_5_1_AStormIsReadBySeveralAtOnce(t *testing.T) {
	box := &inbox{}
	for i := range 45 {
		box.messages = append(box.messages, cloud.Message{Receipt: fmt.Sprint(i), Notice: cloud.Notice{ID: fmt.Sprint(i), Kind: cloud.NoOp}})
	}
	r := &class.Interruption{
		Meter: meter.New(prometheus.NewRegistry(), meter.Cloud{}), Client: cluster.Client, Inbox: box, InstanceID: aws.ParseProviderID, Clock: clock.RealClock{}, Log: quiet,
	}
	for _, want := range []int{40, 45, 45} {
		if _, err := r.Poll(t.Context()); err != nil || len(box.deleted) != want {
			t.Errorf("%d messages dealt with, want %d; %v", len(box.deleted), want, err)
		}
	}
}

func TestD60_T12_NoticesAreActedOnOnceAndForOwnInstancesOnly(t *testing.T) {
	spot, stopped, calm, old := launched(t, "spot", "i-0000000000000001"), launched(t, "stopped", "i-0000000000000002"), launched(t, "calm", "i-0000000000000003"), launched(t, "old", "i-0000000000000004")
	now := time.Now()
	box := &inbox{messages: []cloud.Message{
		{Receipt: "a", Notice: cloud.Notice{ID: "1", Kind: cloud.SpotInterrupted, Instances: []string{"i-0000000000000001", "i-ffffffffffffffff"}, At: now}},
		{Receipt: "b", Notice: cloud.Notice{ID: "1", Kind: cloud.SpotInterrupted, Instances: []string{"i-0000000000000001"}, At: now}},
		{Receipt: "c", Notice: cloud.Notice{ID: "2", Kind: cloud.InstanceStopped, Instances: []string{"i-0000000000000002"}, At: now}},
		{Receipt: "d", Notice: cloud.Notice{ID: "3", Kind: cloud.RebalanceRecommendation, Instances: []string{"i-0000000000000003"}, At: now}},
		{Receipt: "e", Err: errors.New("no JSON")},
		{Receipt: "f", Notice: cloud.Notice{ID: "4", Kind: cloud.NoOp}},
		{Receipt: "g", Notice: cloud.Notice{ID: "5", Kind: cloud.SpotInterrupted, Instances: []string{"i-0000000000000004"}, At: now.Add(-2 * time.Hour)}},
	}}
	events := record.NewFakeRecorder(100)
	dry, series := 0, prometheus.NewRegistry()
	r := &class.Interruption{
		Meter:  meter.New(series, meter.Cloud{}),
		Client: cluster.Client, Inbox: box, InstanceID: aws.ParseProviderID, Clock: clock.RealClock{}, Log: quiet,
		Recorder: control.NewRecorder(events, time.Now), Interrupted: func(map[string]string) { dry++ },
	}
	if _, err := r.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for claim, want := range map[*karpv1.NodeClaim]bool{spot: true, stopped: true, calm: false, old: false} {
		if got := leaving(t, claim); got != want {
			t.Errorf("%s leaves: %t, want %t", claim.Name, got, want)
		}
	}
	if dry != 1 {
		t.Errorf("stock of the spot pool was marked %d times, want once", dry)
	}
	for action, want := range map[string]float64{"CordonAndDrain": 2, "NoAction": 1} {
		if got := rig.Count(t, series, meter.InterruptionActions, "action", action); got != want {
			t.Errorf("A76: %v times %s, want %v", got, action, want)
		}
	}
	if want := "a b c d e f g"; strings.Join(box.deleted, " ") != want {
		t.Errorf("deleted messages %v, want %s", box.deleted, want)
	}
	var reasons []string
	for len(events.Events) > 0 {
		reasons = append(reasons, strings.Fields(<-events.Events)[1])
	}
	if want := "SpotInterrupted TerminatingOnInterruption InstanceStopping TerminatingOnInterruption SpotRebalanceRecommendation"; strings.Join(reasons, " ") != want {
		t.Errorf("events %v, want %s", reasons, want)
	}
}

type clinic []cloud.Ailment

func (c clinic) Ailing(context.Context) ([]cloud.Ailment, error) { return c, nil }

func TestAWS_5_2_11_8_BrokenInstancesAreReplacedWithinTheQuota(t *testing.T) {
	var claims []*karpv1.NodeClaim
	var sick clinic
	for i := range 12 {
		id := fmt.Sprintf("i-00000000000001%02d", i)
		claims = append(claims, launched(t, fmt.Sprintf("sick-%02d", i), id))
		if i < 6 {
			sick = append(sick, cloud.Ailment{Instance: id, Kind: []cloud.AilmentKind{cloud.SystemStatus, cloud.InstanceStatus}[i%2], Since: time.Unix(0, 0)})
		}
	}
	sick = append(sick, cloud.Ailment{Instance: "i-ffffffffffffffff", Kind: cloud.SystemStatus})
	fake := clocktest.NewFakeClock(time.Unix(10_000, 0))
	series := prometheus.NewRegistry()
	r := &class.Ailing{Meter: meter.New(series, meter.Cloud{}), Client: cluster.Client, Clinic: sick, InstanceID: aws.ParseProviderID, Quota: control.NewQuota(fake.Now), Clock: fake, Log: quiet}
	if _, err := r.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone := 0
	for _, claim := range claims {
		if leaving(t, claim) {
			gone++
			if got := claim.Annotations[karpv1.TerminationTimestampAnnotationKey]; got != "1970-01-01T02:46:40Z" {
				t.Errorf("%s: deadline %q; a broken instance is not drained politely", claim.Name, got)
			}
		}
	}
	if gone != 2 { // a tenth of twelve, rounded up
		t.Errorf("%d of 12 replaced at once, want 2", gone)
	}
	for _, reason := range []string{"system_status", "instance_status"} {
		if got := rig.Count(t, series, meter.NodeClaimsDisrupted, "reason", reason, "consolidation_policy", ""); got != 1 {
			t.Errorf("O3: %v claims with the reason %s, want 1", got, reason)
		}
	}
}

type fleet []*cloud.Instance

func (f fleet) List(context.Context) ([]*cloud.Instance, error) { return f, nil }

func TestAWS_2_8_11_10_ReservedInstancesFollowTheirReservations(t *testing.T) {
	lost, ending := launched(t, "lost", "i-0000000000000201"), launched(t, "ending", "i-0000000000000202")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-of-lost", Labels: map[string]string{}}}
	for claim, id := range map[*karpv1.NodeClaim]string{lost: "cr-1", ending: "cr-2"} {
		claim.Labels[karpv1.CapacityTypeLabelKey] = karpv1.CapacityTypeReserved
		claim.Labels[awsv1.LabelCapacityReservationID] = id
		claim.Labels[awsv1.LabelCapacityReservationInterruptible] = "false"
		if err := cluster.Client.Update(t.Context(), claim); err != nil {
			t.Fatal(err)
		}
	}
	node.Labels = map[string]string{karpv1.CapacityTypeLabelKey: karpv1.CapacityTypeReserved, awsv1.LabelCapacityReservationID: "cr-1", awsv1.LabelCapacityReservationInterruptible: "false"}
	create(t, node)
	lost.Status.NodeName = node.Name
	if err := cluster.Client.Status().Update(t.Context(), lost); err != nil {
		t.Fatal(err)
	}
	c := newClass("with-reservations")
	create(t, c)
	c.Status.CapacityReservations = []awsv1.CapacityReservation{{
		ID: "cr-2", State: awsv1.CapacityReservationStateExpiring, AvailabilityZone: "us-east-1a", InstanceMatchCriteria: "targeted", InstanceType: "m7i.large", OwnerID: "012345678901", ReservationType: "capacity-block",
	}}
	if err := cluster.Client.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	instances := fleet{
		{ID: "i-0000000000000201", CapacityType: karpv1.CapacityTypeOnDemand},
		{ID: "i-0000000000000202", CapacityType: karpv1.CapacityTypeReserved},
	}
	r := &class.Reservations{Client: cluster.Client, Lister: instances, InstanceID: aws.ParseProviderID, Clock: clock.RealClock{}, Log: quiet}
	if _, err := r.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if leaving(t, lost) || lost.Labels[karpv1.CapacityTypeLabelKey] != karpv1.CapacityTypeOnDemand || lost.Labels[awsv1.LabelCapacityReservationID] != "" {
		t.Errorf("an instance without its reservation is on-demand and stays: %v", lost.Labels)
	}
	if err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		t.Fatal(err)
	}
	if node.Labels[karpv1.CapacityTypeLabelKey] != karpv1.CapacityTypeOnDemand {
		t.Errorf("its node too: %v", node.Labels)
	}
	for _, labels := range []map[string]string{lost.Labels, node.Labels} {
		if _, stale := labels[awsv1.LabelCapacityReservationInterruptible]; stale {
			t.Errorf("a label of the reservation is left: %v", labels)
		}
	}
	if !leaving(t, ending) {
		t.Error("an instance whose reservation is about to end must be replaced")
	}
}

// tagger takes down what it is asked to tag.
type tagger map[string]map[string]string

func (t tagger) Tag(_ context.Context, id string, tags map[string]string) error {
	t[id] = tags
	return nil
}

// TestT33_InstancesOfOlderVersionsAreTagged: a claim that an older version has tagged lacks the cluster's name still.
func TestT33_InstancesOfOlderVersionsAreTagged(t *testing.T) {
	claim := launched(t, "old-tags", "i-0000000000000033")
	tags := tagger{}
	r := &class.Tags{Client: cluster.Client, Tagger: tags, Cluster: "c", InstanceID: aws.ParseProviderID, Clock: clock.RealClock{}}
	claim.Annotations = map[string]string{awsv1.TaggedAnnotationKey: "true"}
	if err := cluster.Client.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	claim.Status.NodeName = "old-node"
	claim.StatusConditions().SetTrue(karpv1.ConditionRegistered, time.Now().Add(-time.Hour))
	if err := cluster.Client.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)}); err != nil {
			t.Fatal(err)
		}
	}
	if got := tags["i-0000000000000033"][awsv1.TagEKSClusterName]; got != "c" {
		t.Errorf("tagged %v, want the cluster's name", tags)
	}
	clear(tags)
	if _, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(claim)}); err != nil || len(tags) != 0 {
		t.Errorf("tagged again: %v, %v", tags, err)
	}
}
