// Package cloudtest is the test that every provider must pass: what control loops rely on, written once. A provider's own tests
// give it a Harness and call Run.
package cloudtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/engine/world"
)

// Harness is a provider with a cloud of its own, in which nothing runs yet.
type Harness struct {
	// Start makes a provider that knows nothing but what the cloud tells it, as after a restart.
	Start func() cloud.Provider
	// Class is a node class that can launch, Spec a claim's spec for it that is easy to satisfy.
	Class string
	Spec  karpv1.NodeClaimSpec
	// Impossible is a spec that the cloud has no instance for.
	Impossible karpv1.NodeClaimSpec
	// Left makes the cloud have room for no more than n instances of Spec besides those that there are; as many as anybody wants if n is
	// negative.
	Left func(n int)
	// Change changes the class, so that what was made from it before has drifted.
	Change func()
	// TagKeys are keys of tags that may be put on an instance, where not every key may.
	TagKeys [2]string
	// Cannot says why this provider or its cloud cannot do something that most can. What it does not name must work.
	Cannot map[Ability]string
	// Now is the cloud's time, and Advance moves it.
	Now     func() time.Time
	Advance func(time.Duration)
}

// Ability is something that a provider may be unable to do, if it says so.
type Ability string

// The abilities.
const (
	// Reboots are reboots that keep the instance.
	Reboots Ability = "reboots"
	// Tags are tags on an instance that exists.
	Tags Ability = "tags"
	// Shortage is a cloud that can run out of something, Harness.Left.
	Shortage Ability = "shortage"
	// Drift is a class that can change, Harness.Change.
	Drift Ability = "drift"
)

// tries bounds how often a call is repeated; a fault that lasts longer is a failure.
const tries = 50

// suite is one test's harness with a provider.
type suite struct {
	*testing.T
	Harness
	ctx context.Context
	cloud.Provider
}

// Run runs the suite; start is called once per test.
func Run(t *testing.T, start func(t *testing.T) Harness) {
	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"C1 a claim gets an instance with all that it must know", (*suite).launch},
		{"R1 a batch launched again gives the same instances", (*suite).replay},
		{"R1 a batch launched again after a restart gives the same instances", (*suite).replayAfterRestart},
		{"R1 instances on record are not given away", (*suite).taken},
		{"R1 two calls at once make one instance per claim", (*suite).together},
		{"R3 claims that differ are refused", (*suite).differ},
		{"L4 what the cloud has not got ends in NoCapacity", (*suite).impossible},
		{"C3 C4 instances are found by id and in the list", (*suite).find},
		{"C3 what has just been launched is not called absent, and what has ended is", (*suite).absence},
		{"L4 of a batch that is too large what there is is made, once", (*suite).partial},
		{"L4 what is out of stock is not launched, and is again when it is back", (*suite).stock},
		{"C6 an instance drifts when its class changes, and not before", (*suite).drift},
		{"C8 tags are put on an instance, and those that it has stay", (*suite).tags},
		{"C2 deletion can be repeated and ends in NotFound", (*suite).remove},
		{"C5 types are sorted, complete and shared", (*suite).types},
		{"C7 repair policies name conditions and times", (*suite).repair},
		{"N7 a reboot can be repeated, keeps the instance, and fails for good without one", (*suite).reboot},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := start(t)
			test.run(&suite{T: t, Harness: h, ctx: t.Context(), Provider: h.Start()})
		})
	}
}

// batch is n equal claims.
func (s *suite) batch(id string, n int, spec karpv1.NodeClaimSpec) cloud.Batch {
	b := cloud.Batch{ID: id}
	for i := range n {
		name := fmt.Sprintf("%s-%d", id, i)
		b.Claims = append(b.Claims, &karpv1.NodeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(s.Now()),
				Labels: map[string]string{karpv1.NodePoolLabelKey: "pool"}, Annotations: map[string]string{cloud.BatchAnnotationKey: id},
			},
			Spec: *spec.DeepCopy(),
		})
	}
	return b
}

// settle launches until every claim has an instance or a reason to give up.
func (s *suite) settle(p cloud.Provider, b cloud.Batch) []cloud.Result {
	s.Helper()
	var results []cloud.Result
	for range tries {
		results = p.Launch(s.ctx, b)
		if len(results) != len(b.Claims) {
			s.Fatalf("%d results for %d claims", len(results), len(b.Claims))
		}
		retry := false
		for _, r := range results {
			if (r.Instance == nil) == (r.Err == nil) {
				s.Fatalf("a result must have either an instance or an error: %+v", r)
			}
			retry = retry || r.Err != nil && !cloud.ClassOf(r.Err).Response().GiveUp || r.Instance != nil && r.Instance.ProviderID == ""
		}
		if !retry {
			return results
		}
		s.Advance(time.Second)
	}
	s.Fatalf("batch %s did not settle: %v", b.ID, results[0].Err)
	return nil
}

// ids lists the instances of results in order, and fails if there is none for a claim or one for two.
func (s *suite) ids(results []cloud.Result) []string {
	s.Helper()
	var out []string
	for _, r := range results {
		if r.Err != nil {
			s.Fatal(r.Err)
		}
		if slices.Contains(out, r.Instance.ID) {
			s.Fatalf("instance %s was given to two claims", r.Instance.ID)
		}
		out = append(out, r.Instance.ID)
	}
	return out
}

// visible is how long a cloud may take to list what it has made.
const visible = 10 * time.Second

// running lists what the cloud runs for this cluster.
func (s *suite) running() []*cloud.Instance {
	s.Helper()
	s.Advance(visible)
	var list []*cloud.Instance
	s.persist("list", func() (err error) {
		list, err = s.List(s.ctx)
		return err
	})
	return list
}

// persist repeats a call until it succeeds.
func (s *suite) persist(what string, call func() error) {
	s.Helper()
	var err error
	for range tries {
		if err = call(); err == nil {
			return
		}
		s.Advance(time.Second)
	}
	s.Fatalf("%s: %v", what, err)
}

func (s *suite) launch() {
	r := s.settle(s.Provider, s.batch("b1", 1, s.Spec))[0]
	if r.Err != nil {
		s.Fatal(r.Err)
	}
	in := r.Instance
	for what, text := range map[string]string{
		"id": in.ID, "provider id": in.ProviderID, "type": in.Type, "zone": in.Zone, "capacity type": in.CapacityType, "image": in.ImageID,
		"zone label": in.Labels["topology.kubernetes.io/zone"], "type label": in.Labels["node.kubernetes.io/instance-type"],
		"capacity type label": in.Labels[karpv1.CapacityTypeLabelKey],
	} {
		if text == "" {
			s.Errorf("the instance has no %s", what)
		}
	}
	if id, err := s.InstanceID(in.ProviderID); err != nil || id != in.ID {
		s.Errorf("the id of provider ID %s is %q, %v; want %s", in.ProviderID, id, err, in.ID)
	}
	if id, err := s.InstanceID("no-provider-id"); err == nil {
		s.Errorf("the id of what is no provider ID is %q", id)
	}
	for name, quantity := range r.Instance.Capacity {
		left, ok := r.Instance.Allocatable[name]
		if !ok && name != "ephemeral-storage" || left.Cmp(quantity) > 0 {
			s.Errorf("of %s %s pods can use %s", quantity.String(), name, left.String())
		}
	}
	if in.Capacity.Cpu().IsZero() || in.Capacity.Memory().IsZero() || in.Capacity.Pods().IsZero() {
		s.Errorf("capacity %v lacks cpu, memory or pods", in.Capacity)
	}
	if n := len(s.running()); n != 1 {
		s.Errorf("%d instances run, want 1", n)
	}
}

func (s *suite) replay() {
	b := s.batch("b1", 5, s.Spec)
	first := s.ids(s.settle(s.Provider, b))
	second := s.ids(s.settle(s.Provider, b))
	if n := len(s.running()); !slices.Equal(first, second) || n != 5 {
		s.Errorf("got %v, then %v, and %d instances run", first, second, n)
	}
}

func (s *suite) replayAfterRestart() {
	b := s.batch("b1", 5, s.Spec)
	first := s.ids(s.settle(s.Provider, b))
	for _, later := range []time.Duration{0, time.Minute, time.Hour} {
		s.Advance(later)
		second := s.ids(s.settle(s.Start(), b))
		slices.Sort(first)
		slices.Sort(second)
		if n := len(s.running()); !slices.Equal(first, second) || n != 5 {
			s.Errorf("after %v: got %v, then %v, and %d instances run", later, first, second, n)
		}
	}
}

// taken crashes after two of five results were recorded.
func (s *suite) taken() {
	b := s.batch("b1", 5, s.Spec)
	first := s.ids(s.settle(s.Provider, b))
	rest := cloud.Batch{ID: b.ID, Claims: b.Claims[2:], Taken: map[string]bool{first[0]: true, first[1]: true}}
	s.Advance(2 * time.Minute)
	second := s.ids(s.settle(s.Start(), rest))
	for _, id := range second {
		if rest.Taken[id] || !slices.Contains(first, id) {
			s.Errorf("instance %s was given although it is on record, or is new", id)
		}
	}
	if n := len(s.running()); n != 5 {
		s.Errorf("%d instances run, want 5", n)
	}
}

func (s *suite) together() {
	b := s.batch("b1", 3, s.Spec)
	var wg sync.WaitGroup
	got := make([][]cloud.Result, 4)
	for i := range got {
		wg.Go(func() { got[i] = s.Launch(s.ctx, b) })
	}
	wg.Wait()
	s.ids(s.settle(s.Provider, b))
	if n := len(s.running()); n != 3 {
		s.Errorf("%d instances run, want 3", n)
	}
}

func (s *suite) differ() {
	b := s.batch("b1", 2, s.Spec)
	b.Claims[1].Labels["team"] = "other"
	for _, r := range s.Launch(s.ctx, b) {
		if cloud.ClassOf(r.Err) != cloud.Invalid {
			s.Errorf("got %v, want class Invalid", r.Err)
		}
	}
	if len(s.running()) != 0 {
		s.Error("nothing may be launched for a batch that was refused")
	}
}

func (s *suite) impossible() {
	r := s.settle(s.Provider, s.batch("b1", 1, s.Impossible))[0]
	if cloud.ClassOf(r.Err) != cloud.NoCapacity {
		s.Errorf("got %v, want class NoCapacity", r.Err)
	}
	if len(s.running()) != 0 {
		s.Error("nothing may be launched")
	}
}

func (s *suite) find() {
	id := s.ids(s.settle(s.Provider, s.batch("b1", 1, s.Spec)))[0]
	list := s.running()
	if len(list) != 1 || list[0].ID != id || list[0].Claim != "b1-0" || list[0].Batch != "b1" || list[0].Class != s.Class || list[0].Pool != "pool" {
		s.Fatalf("listed as %+v", list)
	}
	s.persist("get", func() error {
		in, err := s.Get(s.ctx, id)
		if err == nil && in.ProviderID != list[0].ProviderID {
			s.Errorf("got %s and listed %s", in.ProviderID, list[0].ProviderID)
		}
		return err
	})
}

func (s *suite) remove() {
	id := s.ids(s.settle(s.Provider, s.batch("b1", 1, s.Spec)))[0]
	ended := false
	for range tries {
		err := s.Delete(s.ctx, id)
		if cloud.ClassOf(err) == cloud.NotFound {
			break
		}
		ended = ended || err == nil
		s.Advance(visible)
	}
	if n := len(s.running()); n != 0 || !ended {
		s.Errorf("deleted %v, and %d instances run", ended, n)
	}
}

func (s *suite) types() {
	types, err := s.Types(s.Class)
	if err != nil {
		s.Fatal(err)
	}
	again, err := s.Types(s.Class)
	if err != nil || again != types {
		s.Errorf("nothing changed, but another value came back (%v)", err)
	}
	sorted := slices.IsSortedFunc(types.List, func(a, b *world.InstanceType) int { return strings.Compare(a.Name, b.Name) })
	if !sorted || len(types.List) == 0 || !slices.Equal(types.Resources[:4], []string{"cpu", "memory", "pods", "ephemeral-storage"}) {
		s.Errorf("%d types, sorted %v, resources %v", len(types.List), sorted, types.Resources)
	}
	for _, t := range types.List {
		if len(t.Capacity) > len(types.Resources) || !t.Allocatable.Fits(t.Capacity) {
			s.Errorf("%s: allocatable %v of %v", t.Name, t.Allocatable, t.Capacity)
		}
		for _, o := range t.Offerings {
			if o.Zone == "" || o.CapacityType == "" || !(o.Price >= 0) {
				s.Errorf("%s: offering %+v", t.Name, o)
			}
		}
	}
	if _, err := s.Types("no-such-class"); cloud.ClassOf(err) != cloud.NotReady {
		s.Errorf("a class that does not exist: got %v, want class NotReady", err)
	}
}

func (s *suite) repair() {
	for _, p := range s.RepairPolicies() {
		if p.Condition == "" || p.Status == "" || p.Tolerated <= 0 {
			s.Errorf("policy %+v", p)
		}
	}
}

func (s *suite) reboot() {
	b := s.batch("b1", 1, s.Spec)
	r := s.settle(s.Provider, b)[0]
	id, claim := s.ids([]cloud.Result{r})[0], b.Claims[0]
	claim.Status.ProviderID = r.Instance.ProviderID
	var missing *cloud.NodeRebootNotImplementedError
	for range 2 {
		if can := !errors.As(s.Reboot(s.ctx, claim, "operation"), &missing); can == (s.Cannot[Reboots] != "") {
			s.Fatalf("reboots work %t, and Harness.Cannot says %q: make them agree", can, s.Cannot[Reboots])
		} else if !can {
			s.Skip(s.Cannot[Reboots])
		}
		s.persist("reboot", func() error { return s.Reboot(s.ctx, claim, "operation") })
	}
	if list := s.running(); len(list) != 1 || list[0].ID != id {
		s.Errorf("after a reboot %+v run", list)
	}
	var failed *cloud.NodeRebootFailedError
	for range tries {
		_ = s.Delete(s.ctx, id)
		s.Advance(visible)
		if errors.As(s.Reboot(s.ctx, claim, "operation"), &failed) {
			return
		}
	}
	s.Error("an instance that has ended can be rebooted")
}
