package claim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	awscloud "karpenter/internal/cloud/aws"
	"karpenter/internal/control"
	"karpenter/internal/meter"
	"karpenter/test/harness/simcloud"
)

// fleet is a cloud of which the test says what it shows.
type fleet struct {
	instances map[string]*cloud.Instance
	// hidden instances are missing from the list, but found by id.
	hidden map[string]bool
	// terminated instances are found by id to have ended.
	terminated map[string]bool
	err        error
	ended      []string
}

func (f *fleet) List(context.Context) (out []*cloud.Instance, err error) {
	for id, in := range f.instances {
		if !f.hidden[id] {
			out = append(out, in)
		}
	}
	return out, f.err
}

func (f *fleet) Get(_ context.Context, id string) (*cloud.Instance, error) {
	if in := f.instances[id]; in != nil {
		return in, nil
	}
	if f.terminated[id] {
		return nil, &cloud.Error{Class: cloud.NotFound, Op: "get " + id, Reason: cloud.ReasonTerminated}
	}
	return nil, &cloud.Error{Class: cloud.NotFound, Op: "get " + id}
}

func (f *fleet) Delete(_ context.Context, id string) error {
	f.ended = append(f.ended, id)
	f.instances[id].State = cloud.ShuttingDown
	return nil
}

func (f *fleet) Tag(context.Context, string, map[string]string) error { return errors.New("not here") }

func instance(i int) *cloud.Instance {
	id := fmt.Sprintf("i-%017d", i)
	return &cloud.Instance{ID: id, ProviderID: "aws:///us-west-2a/" + id, State: cloud.Running, Batch: "old", Pool: "general"}
}

// collector is a reconciler with so many instances, each of which has a registered claim whose node is gone or not ready.
func (b *bench) collector(n int) (*Collect, *fleet) {
	b.Helper()
	f := &fleet{instances: map[string]*cloud.Instance{}, hidden: map[string]bool{}}
	for i := range n {
		in := instance(i)
		f.instances[in.ID] = in
		b.registered(fmt.Sprintf("c-%d", i), in.ProviderID)
	}
	return &Collect{
		Client: b.client, Live: b.client, Fleet: f, InstanceID: awscloud.ParseProviderID, Class: class,
		Quota: control.NewQuota(b.clock.Now), Clock: b.clock, Recorder: b.recorder, Meter: b.meter, Log: slog.New(slog.DiscardHandler),
	}, f
}

// registered makes a claim that has an instance on record and has joined.
func (b *bench) registered(name, providerID string) {
	b.Helper()
	claim := b.claim(name, func(c *karpv1.NodeClaim) { c.Finalizers = []string{karpv1.TerminationFinalizer} })
	claim.Status.ProviderID, claim.Status.NodeName = providerID, name+"-node"
	claim.StatusConditions().SetTrue(karpv1.ConditionLaunched, b.clock.Now())
	claim.StatusConditions().SetTrue(karpv1.ConditionRegistered, b.clock.Now())
	b.must(b.client.Status().Update(b.Context(), claim))
}

// sweeps runs the collector so many times, at its own pace.
func (b *bench) sweeps(r *Collect, n int) {
	b.Helper()
	for range n {
		after, err := r.Sweep(b.Context())
		b.must(err)
		b.clock.Step(after)
	}
}

func (b *bench) deleted(n int) (names []string) {
	for i := range n {
		if name := fmt.Sprintf("c-%d", i); b.going(name) {
			names = append(names, name)
		}
	}
	return names
}

func TestL15_ClaimsWithoutInstance(t *testing.T) {
	b := newBench(t)
	r, f := b.collector(12)
	lose := func(i int) { delete(f.instances, instance(i).ID) }
	b.sweeps(r, 2)

	lose(0)
	b.sweeps(r, 1)
	if got := b.deleted(12); got != nil {
		t.Errorf("R5: one look took %v", got)
	}
	b.sweeps(r, 1)
	if got := b.deleted(12); !slices.Equal(got, []string{"c-0"}) || b.counted(meter.NodeClaimsDisrupted, "reason", "garbage_collected") != 1 {
		t.Errorf("two looks took %v", got)
	}
	b.clock.Step(10 * time.Minute)

	// A list that is wrong about one instance is set right by a question about it.
	f.hidden[instance(1).ID] = true
	b.sweeps(r, 3)
	if got := b.deleted(12); len(got) != 1 {
		t.Errorf("R5: the list alone took %v", got)
	}
	f.hidden = map[string]bool{}

	// A node that is Ready has an instance, whatever the cloud says.
	lose(2)
	b.node("c-2-node", b.get("c-2"))
	b.report("c-2-node", corev1.ConditionTrue, enough)
	b.sweeps(r, 3)
	if got := b.deleted(12); len(got) != 1 {
		t.Errorf("a Ready node was taken: %v", got)
	}
	b.report("c-2-node", corev1.ConditionFalse, enough)
	b.sweeps(r, 2)
	if got := b.deleted(12); !slices.Equal(got, []string{"c-0", "c-2"}) {
		t.Errorf("the node is not Ready any more: %v", got)
	}

	// An instance that is shutting down counts as gone (C4).
	b.clock.Step(10 * time.Minute)
	f.instances[instance(3).ID].State = cloud.ShuttingDown
	b.sweeps(r, 2)
	if got := b.deleted(12); !slices.Equal(got, []string{"c-0", "c-2", "c-3"}) {
		t.Errorf("shutting down: %v", got)
	}
}

// TestL15_WhateverTheProviderIDLooksLike: a claim is collected, and its instance kept, whether its id has another form or cannot be read
// at all.
func TestL15_WhateverTheProviderIDLooksLike(t *testing.T) {
	b := newBench(t)
	r, f := b.collector(30)
	form := func(i int) string { return "Provider:///us-west-2a/" + instance(i).ID }
	for name, id := range map[string]string{"form-gone": form(101), "form-there": form(102), "odd-gone": "odd-1", "odd-there": "odd-2", "odd-batch": "odd-3"} {
		b.registered(name, id)
	}
	for i, name := range map[int]string{102: "", 103: "odd-there", 104: ""} {
		in := instance(i)
		in.Claim = name
		f.instances[in.ID] = in
	}
	f.instances[instance(104).ID].Batch = cloud.BatchID(b.get("odd-batch"))
	b.sweeps(r, 1)
	if b.going("form-gone") || b.going("odd-gone") {
		t.Error("R5: one look was enough")
	}
	b.sweeps(r, 9)
	for name, want := range map[string]bool{"form-gone": true, "form-there": false, "odd-gone": true, "odd-there": false, "odd-batch": false} {
		if b.going(name) != want {
			t.Errorf("%s is deleted: %t, want %t", name, !want, want)
		}
	}
	if got := b.deleted(30); got != nil || f.ended != nil {
		t.Errorf("others are deleted: %v, instances ended: %v", got, f.ended)
	}
}

func TestL15_UnregisteredClaimsAreLeftAlone(t *testing.T) {
	b := newBench(t)
	r, _ := b.collector(3)
	claim := b.claim("young")
	claim.Status.ProviderID = instance(99).ProviderID
	claim.StatusConditions().SetTrue(karpv1.ConditionLaunched, b.clock.Now())
	b.must(b.client.Status().Update(t.Context(), claim))
	b.sweeps(r, 5)
	if b.going("young") {
		t.Error("it was collected")
	}
}

func TestR6_GarbageCollectionWaits(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(*fleet)
	}{
		{"T8 an empty list", func(f *fleet) { clear(f.instances) }},
		{"T8 half a list", func(f *fleet) {
			for i := range 12 {
				delete(f.instances, instance(i).ID)
			}
		}},
		{"T8 more than a tenth", func(f *fleet) {
			for i := range 3 {
				delete(f.instances, instance(i).ID)
			}
		}},
		{"T8 a cloud that does not answer", func(f *fleet) { f.err = errors.New("no") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			r, f := b.collector(24)
			b.sweeps(r, 1)
			tt.spoil(f)
			for range 10 {
				if _, err := r.Sweep(t.Context()); (err != nil) != (f.err != nil) {
					t.Fatal(err)
				}
				b.clock.Step(collectEvery)
			}
			if got := b.deleted(24); got != nil || f.ended != nil {
				t.Errorf("took %v, ended %v", got, f.ended)
			}
		})
	}
}

func TestR6_TheQuotaIsShared(t *testing.T) {
	b := newBench(t)
	r, f := b.collector(20)
	b.sweeps(r, 1)
	for range 2 {
		r.Quota.Take(20) // somebody else has destroyed as much as may be
	}
	delete(f.instances, instance(0).ID)
	b.sweeps(r, 3)
	if got := b.deleted(20); got != nil {
		t.Errorf("took %v", got)
	}
	b.clock.Step(10 * time.Minute)
	b.sweeps(r, 1)
	if got := b.deleted(20); len(got) != 1 {
		t.Errorf("took %v", got)
	}
}

func TestL15_InstancesWithoutClaim(t *testing.T) {
	b := newBench(t)
	r, f := b.collector(20)
	orphan := instance(100)
	f.instances[orphan.ID] = orphan
	b.node("orphan", &karpv1.NodeClaim{Status: karpv1.NodeClaimStatus{ProviderID: orphan.ProviderID}})
	b.sweeps(r, 1)
	if f.ended != nil {
		t.Errorf("R5: one look ended %v", f.ended)
	}
	b.sweeps(r, 2)
	if !slices.Equal(f.ended, []string{orphan.ID}) {
		t.Errorf("ended %v", f.ended)
	}
	if err := b.client.Get(t.Context(), client.ObjectKey{Name: "orphan"}, &corev1.Node{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("its node is still there: %v", err)
	}
	f.ended = nil
	b.clock.Step(10 * time.Minute)

	// An instance of a batch that still waits for instances, or that names a claim, will be found by it.
	b.claim("waiting", inBatch("w"))
	b.claim("named")
	for i, in := range []*cloud.Instance{instance(101), instance(102)} {
		in.Batch, in.Claim = []string{"w", ""}[i], []string{"", "named"}[i]
		f.instances[in.ID] = in
	}
	b.sweeps(r, 5)
	if f.ended != nil {
		t.Errorf("R1: ended %v", f.ended)
	}
}

func TestT8_RestoredClaims(t *testing.T) {
	b := newBench(t)
	r, f := b.collector(3)
	for i := range 30 {
		f.instances[instance(200+i).ID] = instance(200 + i)
	}
	b.sweeps(r, 10)
	if f.ended != nil {
		t.Errorf("claims of yesterday ended %v", f.ended)
	}
	sweep(t)
	b.sweeps(r, 4)
	if f.ended != nil {
		t.Errorf("no claims at all ended %v", f.ended)
	}
	b.sweeps(r, 5) // ten minutes
	if len(f.ended) > 4 {
		t.Errorf("ended %v, more than a tenth of 33 in ten minutes", f.ended)
	}
}

// TestS6_OnlyInstancesOfThisCluster runs the collector over the AWS simulator: two clusters of one name, and one orphan of ours.
func TestS6_OnlyInstancesOfThisCluster(t *testing.T) {
	b := newBench(t)
	w := simcloud.Start(t, simcloud.Options{Clock: b.clock, NoBoot: true})
	l := b.lifecycle(w.Provider)
	for i := range 3 {
		b.launchOne(l, fmt.Sprint("mine-", i))
	}
	lost := b.launchOne(l, "lost")
	b.must(b.client.WithWatch.Patch(t.Context(), lost, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
	b.must(b.client.Delete(t.Context(), lost))
	// Another cluster of the same name runs beside ours.
	second := simcloud.Start(t, simcloud.Options{Clock: b.clock, NoBoot: true, Provider: func(o *awscloud.Options) {
		o.Clients, o.Cluster.UID = w.Clients, "uid-of-another"
	}})
	other := second.Provider
	foreign := simcloud.NewClaim("theirs")
	foreign.UID = "theirs"
	if got := other.Launch(t.Context(), cloud.Batch{ID: "theirs", Claims: []*karpv1.NodeClaim{foreign}}); got[0].Err != nil {
		t.Fatal(got[0].Err)
	}
	r := &Collect{
		Client: b.client, Live: b.client, Fleet: w.Provider, InstanceID: awscloud.ParseProviderID, Class: class,
		Quota: control.NewQuota(b.clock.Now), Clock: b.clock, Meter: b.meter, Log: slog.New(slog.DiscardHandler),
	}
	b.sweeps(r, 4)
	if n := len(w.Living()); n != 3 {
		t.Errorf("%d instances of ours live, want 3", n)
	}
	if in, err := other.List(t.Context()); err != nil || len(in) != 1 || in[0].State.Ending() {
		t.Errorf("the other cluster has %+v, %v", in, err)
	}
	if w.Called("TerminateInstances") != 1 {
		t.Errorf("%d terminations", w.Called("TerminateInstances"))
	}
}

// TestL15_ProofCountsAtOnce: instances that the cloud shows to have ended leave no doubt, however many they are.
func TestL15_ProofCountsAtOnce(t *testing.T) {
	b := newBench(t)
	r, f := b.collector(12)
	f.terminated = map[string]bool{}
	for i := range 11 {
		f.terminated[instance(i).ID] = true
		delete(f.instances, instance(i).ID)
	}
	b.sweeps(r, 1)
	if got := b.deleted(12); len(got) != 11 {
		t.Errorf("took %v, want all but the last", got)
	}
}

// TestR3_NothingIsHeldForEver: what looks like a fault is told, and collected in bounded time.
func TestR3_NothingIsHeldForEver(t *testing.T) {
	const within = 4 * time.Hour
	await := func(b *bench, r *Collect, done func() bool) time.Duration {
		b.Helper()
		begun := b.clock.Now()
		for b.clock.Since(begun) < within {
			b.sweeps(r, 1)
			if done() {
				return b.clock.Since(begun)
			}
		}
		b.Errorf("not after %v", within)
		return within
	}
	t.Run("instances when there is no claim at all", func(t *testing.T) {
		b := newBench(t)
		r, f := b.collector(0)
		for i := range 3 {
			f.instances[instance(i).ID] = instance(i)
		}
		if took := await(b, r, func() bool { return len(f.ended) == 3 }); took < 30*time.Minute {
			t.Errorf("nobody could have looked within %v", took)
		}
	})
	t.Run("two of a small fleet", func(t *testing.T) {
		b := newBench(t)
		r, f := b.collector(5)
		f.instances[instance(10).ID], f.instances[instance(11).ID] = instance(10), instance(11)
		await(b, r, func() bool { return len(f.ended) == 2 })
		if slices.Contains(f.ended, instance(0).ID) {
			t.Errorf("ended %v", f.ended)
		}
	})
	t.Run("claims when the cloud shows nothing", func(t *testing.T) {
		b := newBench(t)
		r, f := b.collector(4)
		b.sweeps(r, 1)
		clear(f.instances)
		b.sweeps(r, 2)
		if got := b.condition("c-0", "InstanceMissing"); got != "True/GarbageCollectionHeld" {
			t.Errorf("the claim says %q", got)
		}
		b.expectEvent("GarbageCollectionHeld")
		if got := b.counted("garbage_collection_held", "kind", "nodeclaims"); got != 4 {
			t.Errorf("the metric says %v", got)
		}
		// One is back, and says so; the others go.
		f.instances[instance(3).ID] = instance(3)
		await(b, r, func() bool { return len(b.deleted(4)) == 3 })
		if got := b.condition("c-3", "InstanceMissing"); got != "False/InstanceFound" || b.going("c-3") {
			t.Errorf("the claim whose instance is back says %q", got)
		}
		b.sweeps(r, 1)
		if got := b.counted("garbage_collection_held", "kind", "nodeclaims"); got != 0 {
			t.Errorf("the metric says %v when nothing is held", got)
		}
	})
}
