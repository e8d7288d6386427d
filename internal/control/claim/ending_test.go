package claim

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	awscloud "karpenter/internal/cloud/aws"
	"karpenter/internal/control/drain"
	"karpenter/test/harness/rig"
	"karpenter/test/harness/simcloud"
)

// slowLauncher lets a launch through when the test says so.
type slowLauncher struct {
	cloud.Launcher
	begun, let chan struct{}
	once       sync.Once
}

func (s *slowLauncher) Launch(ctx context.Context, batch cloud.Batch) []cloud.Result {
	s.once.Do(func() { close(s.begun) })
	<-s.let
	return s.Launcher.Launch(ctx, batch)
}

// asked tells when somebody has been made to wait for a launch.
type asked struct {
	*Lifecycle
	waits chan struct{}
	once  sync.Once
}

func (a *asked) Ending(claim *karpv1.NodeClaim) (*cloud.Instance, time.Time, bool) {
	in, from, ok := a.Lifecycle.Ending(claim)
	if !ok {
		a.once.Do(func() { close(a.waits) })
	}
	return in, from, ok
}

// TestR9_AClaimDeletedDuringItsLaunch deletes claims while EC2 is making their instances. None of the instances may be left.
func TestR9_AClaimDeletedDuringItsLaunch(t *testing.T) {
	t.Cleanup(func() { sweep(t) })
	w := simcloud.Start(t, simcloud.Options{NoBoot: true})
	m, ctx := rig.Manager(t, cluster), t.Context()
	clock, log := clock.RealClock{}, slog.New(slog.DiscardHandler)
	slow := &slowLauncher{Launcher: w.Provider, begun: make(chan struct{}), let: make(chan struct{})}
	lifecycle := &Lifecycle{Client: m.GetClient(), Launcher: slow, InstanceID: awscloud.ParseProviderID, Class: class, Clock: clock, Log: log}
	launches := &asked{Lifecycle: lifecycle, waits: make(chan struct{})}
	drainer := &drain.Drainer{
		Client: m.GetClient(), Live: m.GetAPIReader(), Fleet: w.Provider, InstanceID: awscloud.ParseProviderID, Class: class, Launches: launches, Clock: clock, Log: log,
	}
	for _, err := range []error{
		Index(ctx, m.GetFieldIndexer()), drain.Index(ctx, m.GetFieldIndexer()), lifecycle.Register(m), drainer.Register(m),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	rig.Run(t, m)
	names := []string{"a", "b", "c"}
	for _, name := range names {
		claim := simcloud.NewClaim(name)
		inBatch("0x3")(claim)
		if err := cluster.Client.Create(ctx, claim); err != nil {
			t.Fatal(err)
		}
	}
	patience, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	gone := func() bool {
		list := &karpv1.NodeClaimList{}
		if err := cluster.Client.List(ctx, list); err != nil {
			t.Fatal(err)
		}
		return len(list.Items) == 0
	}
	select {
	case <-slow.begun:
	case <-patience.Done():
		t.Fatal("nothing was launched")
	}
	if err := cluster.Client.DeleteAllOf(ctx, &karpv1.NodeClaim{}); err != nil {
		t.Fatal(err)
	}
	for waiting := true; waiting && !gone(); {
		select {
		case <-launches.waits:
			waiting = false
		case <-time.After(50 * time.Millisecond):
		}
	}
	if gone() {
		t.Error("the claims are gone while their instances are being made")
	}
	close(slow.let)
	for !gone() {
		if patience.Err() != nil {
			t.Fatal("the claims stay")
		}
		time.Sleep(50 * time.Millisecond)
	}
	if n := len(w.Living()); n != 0 || w.Called("TerminateInstances") == 0 {
		t.Errorf("%d instances of 3 run on without a claim", n)
	}
}

// TestR9_NothingIsLaunchedForAClaimThatIsLetGo: a cache that has not heard of the end of a claim must not have it launched.
func TestR9_NothingIsLaunchedForAClaimThatIsLetGo(t *testing.T) {
	b := newBench(t)
	stub := newStub()
	r := b.lifecycle(stub)
	claim := b.claim("late", finalized)
	if _, _, ok := r.Ending(claim); !ok {
		t.Fatal("it is not being launched")
	}
	for range 3 {
		b.run(r, "late")
		b.clock.Step(time.Minute)
	}
	if stub.calls() != 0 {
		t.Errorf("%d launches", stub.calls())
	}
}

// TestR2_AfterALaunchOfWhichNothingIsKnown a list must be young enough to show what it made.
func TestR2_AfterALaunchOfWhichNothingIsKnown(t *testing.T) {
	b := newBench(t)
	stub := newStub()
	stub.err = refusal(cloud.Unknown, "RequestTimeout")
	r := b.lifecycle(stub)
	b.run(r, "nobody") // begins
	b.clock.Step(time.Second)
	claim := b.claim("doubtful", finalized)
	claim.CreationTimestamp.Time = b.clock.Now()
	b.run(r, "doubtful")
	if stub.calls() != 1 {
		t.Fatalf("%d launches", stub.calls())
	}
	_, from, ok := r.Ending(claim)
	if want := b.clock.Now().Add(visible); !ok || !from.Equal(want) {
		t.Errorf("a list from %v counts (%v), want from %v", from, ok, want)
	}
}
