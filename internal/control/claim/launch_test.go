package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/cloud/simaws"
	"karpenter/internal/meter"
	"karpenter/test/harness/rig"
	"karpenter/test/harness/simcloud"
)

func request(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}
}

func refusal(class cloud.Class, reason string) error {
	return &cloud.Error{Class: class, Reason: reason, Op: "launch", Err: errors.New(strings.Repeat("no ", 200))}
}

// stub is a cloud that makes an instance for every claim, or fails.
type stub struct {
	mu      sync.Mutex
	batches []cloud.Batch
	err     error
	// block has a channel for each batch whose launch waits for it.
	block map[string]chan struct{}
	// begun is closed when such a launch has begun.
	begun chan struct{}
	// same makes every launch return the same instance.
	same bool
	made int
}

func newStub() *stub { return &stub{} }

func (s *stub) Launch(ctx context.Context, batch cloud.Batch) []cloud.Result {
	s.mu.Lock()
	s.batches = append(s.batches, batch)
	block := s.block[batch.ID]
	s.mu.Unlock()
	if block != nil {
		close(s.begun)
		select {
		case <-block:
		case <-ctx.Done():
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	results := make([]cloud.Result, len(batch.Claims))
	for i := range results {
		if s.err != nil {
			results[i].Err = s.err
			continue
		}
		if !s.same || s.made == 0 {
			s.made++
		}
		id := fmt.Sprintf("i-%017d", s.made)
		results[i].Instance = &cloud.Instance{
			ID: id, ProviderID: "aws:///us-west-2a/" + id, Type: "m5.large", Zone: "us-west-2a", ImageID: "ami-1",
			Labels:      map[string]string{corev1.LabelTopologyZone: "us-west-2a", "team": "cloud"},
			Annotations: map[string]string{"from": "cloud"},
		}
	}
	return results
}

func (s *stub) calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.batches)
}

func TestL4_EachClassOfFailure(t *testing.T) {
	for _, tt := range []struct {
		class  cloud.Class
		reason string
		gone   string // the metric's reason if the claim is deleted
		want   string // the condition, which says why
		wait   []time.Duration
	}{
		{class: cloud.NoCapacity, reason: "InsufficientInstanceCapacity", gone: "insufficient_capacity", want: "Unknown/InsufficientInstanceCapacity"},
		{class: cloud.NotReady, reason: "NodeClassNotReady", gone: "nodeclass_not_ready", want: "Unknown/NodeClassNotReady"},
		{class: cloud.Denied, reason: "Unauthorized", want: "Unknown/Unauthorized", wait: []time.Duration{5 * time.Second, 10 * time.Second}},
		{class: cloud.Invalid, reason: "Invalid.Value-2", want: "Unknown/InvalidValue2", wait: []time.Duration{5 * time.Second, 10 * time.Second}},
		{class: cloud.Throttled, reason: "RequestLimitExceeded", want: "Unknown/RequestLimitExceeded", wait: []time.Duration{time.Second, 2 * time.Second}},
		{class: cloud.Transient, want: "Unknown/LaunchFailed", wait: []time.Duration{time.Second, 2 * time.Second}},
		{class: cloud.Unknown, want: "Unknown/LaunchFailed", wait: []time.Duration{500 * time.Millisecond, time.Second}},
	} {
		t.Run("C13 "+string(tt.class), func(t *testing.T) {
			b := newBench(t)
			stub := newStub()
			stub.err = refusal(tt.class, tt.reason)
			r := b.lifecycle(stub)
			b.claim("refused")
			first := b.run(r, "refused")
			if tt.gone != "" {
				if !b.going("refused") || b.counted(meter.NodeClaimsDisrupted, "reason", tt.gone, "nodepool", "general") != 1 {
					t.Error("it is still there, or was not counted")
				}
				if got := b.condition("refused", karpv1.ConditionLaunched); got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
				b.expectEvent(map[cloud.Class]string{cloud.NoCapacity: "InsufficientCapacityError", cloud.NotReady: "NodeClassNotReady"}[tt.class])
				return
			}
			if got := b.condition("refused", karpv1.ConditionLaunched); got != tt.want || first != tt.wait[0] {
				t.Errorf("%s, again in %v, want %s in %v", got, first, tt.want, tt.wait[0])
			}
			if n := len(b.get("refused").StatusConditions().Get(karpv1.ConditionLaunched).Message); n > maxMessage {
				t.Errorf("a message of %d characters", n)
			}
			if b.run(r, "refused"); stub.calls() != 1 {
				t.Error("it was tried again too early")
			}
			b.clock.Step(first)
			if second := b.run(r, "refused"); second != tt.wait[1] || stub.calls() != 2 || stub.batches[0].ID != stub.batches[1].ID {
				t.Errorf("again in %v after %d calls", second, stub.calls())
			}
			stub.err = nil
			b.clock.Step(tt.wait[1])
			b.run(r, "refused")
			if got := b.condition("refused", karpv1.ConditionLaunched); got != "True/Launched" {
				t.Errorf("in the end: %s", got)
			}
		})
	}
}

func TestL5_WhoseLabelsWin(t *testing.T) {
	b := newBench(t)
	r := b.lifecycle(newStub())
	claim := b.launchOne(r, "labelled", func(c *karpv1.NodeClaim) {
		c.Labels["team"] = "own"
		c.Annotations = map[string]string{"other": "own"}
	})
	if claim.Labels["team"] != "own" || claim.Labels[corev1.LabelTopologyZone] != "us-west-2a" || claim.Annotations["from"] != "cloud" || claim.Annotations["other"] != "own" {
		t.Errorf("labels %v, annotations %v", claim.Labels, claim.Annotations)
	}
}

func TestL3_AnInstanceIsHeldUntilItIsOnRecord(t *testing.T) {
	b := newBench(t)
	stub := newStub()
	r := b.lifecycle(stub)
	b.claim("held")
	b.client.Step = dieAt("status held", false)
	if _, err := r.Reconcile(t.Context(), request("held")); err == nil {
		t.Fatal("the write should have failed")
	}
	b.client.Step = nil
	// L13: even late it is not given up, because it has an instance.
	b.clock.Step(time.Hour)
	b.run(r, "held")
	if claim := b.get("held"); claim.Status.ProviderID != "aws:///us-west-2a/i-00000000000000001" || stub.calls() != 1 {
		t.Errorf("%+v after %d launches", claim.Status, stub.calls())
	}
	if b.run(r, "held"); r.inFlight.instance(b.get("held").UID) != nil {
		t.Error("it is held for ever")
	}
}

func TestR1_ABatchIsOneLaunch(t *testing.T) {
	b := newBench(t)
	w := simcloud.Start(t, simcloud.Options{Clock: b.clock, NoBoot: true})
	before := w.Called("CreateFleet")
	r := b.lifecycle(w.Provider)
	var names []string
	for i := range 7 {
		names = append(names, fmt.Sprint("batch-", i))
		b.claim(names[i], inBatch("plan-1"))
	}
	for _, name := range names {
		if wait := b.run(r, name); wait != gather {
			t.Errorf("%s waits %v for the others, want %v", name, wait, gather)
		}
	}
	b.clock.Step(gather)
	b.run(r, names[3])
	seen := map[string]bool{}
	for _, name := range names {
		claim := b.get(name)
		seen[claim.Status.ProviderID] = true
		if !slices.Contains(claim.Finalizers, karpv1.TerminationFinalizer) {
			t.Errorf("L2: %s has no finalizer", name)
		}
	}
	if calls := w.Called("CreateFleet") - before; calls != 1 || len(seen) != 7 || seen[""] || len(w.Living()) != 7 {
		t.Errorf("%d fleets, %d instances on record, %d living", calls, len(seen), len(w.Living()))
	}
}

func TestR1_ABatchIsLaunchedWhenItIsComplete(t *testing.T) {
	for id, want := range map[string]int{"0a1bx7": 7, "0a1b": 0, "x": 0, "x0": 0, "x51": 0, "7": 0, "0a1bx-3": 0, "": 0} {
		if got := size(id); got != want {
			t.Errorf("batch %q has %d claims, want %d", id, got, want)
		}
	}
	b := newBench(t)
	stub := newStub()
	r := b.lifecycle(stub)
	b.claim("one", inBatch("0ax3"))
	b.run(r, "one")
	b.clock.Step(time.Second)
	b.claim("two", inBatch("0ax3"))
	b.run(r, "two")
	if wait := b.run(r, "one"); stub.calls() != 0 || wait != patience {
		t.Errorf("%d launches, again in %v", stub.calls(), wait)
	}
	b.claim("three", inBatch("0ax3"))
	b.run(r, "three")
	if !b.launched("one", "two", "three")() || stub.calls() != 1 {
		t.Errorf("%d launches", stub.calls())
	}
	// A claim whose sisters never came goes alone in the end.
	b.claim("left", inBatch("0bx2"))
	b.settle(r, b.launched("left"), "left")
}

func TestR1_OneLaunchPerBatchAtATime(t *testing.T) {
	b := newBench(t)
	stub := newStub()
	stub.block, stub.begun = map[string]chan struct{}{"slow": make(chan struct{})}, make(chan struct{})
	r := b.lifecycle(stub)
	for i := range 3 {
		b.claim(fmt.Sprint("slow-", i), inBatch("slow"))
		b.run(r, fmt.Sprint("slow-", i))
	}
	b.clock.Step(gather)
	ended := make(chan error, 1)
	go func() {
		_, err := r.Reconcile(t.Context(), request("slow-0"))
		ended <- err
	}()
	<-stub.begun
	for _, name := range []string{"slow-1", "slow-2"} {
		if wait := b.run(r, name); wait != busyWait {
			t.Errorf("%s comes back in %v", name, wait)
		}
	}
	// Another batch, and a claim that is denied, are not held up, and hold nobody up.
	b.claim("quick")
	b.run(r, "quick")
	if got := b.condition("quick", karpv1.ConditionLaunched); got != "True/Launched" {
		t.Errorf("W1: quick is %s", got)
	}
	close(stub.block["slow"])
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if !b.launched("slow-0", "slow-1", "slow-2")() || stub.calls() != 2 {
		t.Errorf("%d launches", stub.calls())
	}
}

func TestR1_NoInstanceForTwoClaims(t *testing.T) {
	b := newBench(t)
	stub := newStub()
	stub.same = true
	r := b.lifecycle(stub)
	b.claim("first", inBatch("x"))
	b.settle(r, b.launched("first"), "first")
	b.claim("late", inBatch("x"))
	b.settle(r, func() bool { return b.going("late") }, "late")
	if b.get("first").Status.ProviderID == "" {
		t.Error("the first claim has lost its instance")
	}
	b.expectEvent("InsufficientCapacityError")
}

func TestW1_ASickPoolDelaysNobody(t *testing.T) {
	b := newBench(t)
	w := simcloud.Start(t, simcloud.Options{Clock: b.clock, NoBoot: true})
	w.AddClass("broken", func(c *awsv1.EC2NodeClass) { c.Spec.SubnetSelectorTerms[0].Tags = map[string]string{"no": "such"} })
	r := b.lifecycle(w.Provider)
	b.claim("sick", func(c *karpv1.NodeClaim) { c.Spec.NodeClassRef.Name = "broken" })
	b.claim("well")
	b.run(r, "sick")
	b.run(r, "well")
	if !b.launched("well")() || !b.going("sick") {
		t.Errorf("well launched %v, sick going %v", b.launched("well")(), b.going("sick"))
	}
	if b.counted(meter.NodeClaimsDisrupted, "reason", "nodeclass_not_ready") != 1 {
		t.Error("L4: not counted")
	}
}

func TestL4_WhatAWSRefuses(t *testing.T) {
	b := newBench(t)
	w := simcloud.Start(t, simcloud.Options{Clock: b.clock, NoBoot: true})
	r := b.lifecycle(w.Provider)

	b.must(w.Sim.AddFault(simaws.Fault{Kind: simaws.FaultError, Action: "ec2:CreateFleet", Code: "UnauthorizedOperation", Status: 403}))
	b.claim("denied")
	b.run(r, "denied")
	if got := b.condition("denied", karpv1.ConditionLaunched); got != "Unknown/Unauthorized" {
		t.Errorf("C13: %s", got)
	}
	w.Sim.ClearFaults()

	// R4: the answer is lost after the effect. The same launch is looked at again, and nothing is made twice.
	b.must(w.Sim.AddFault(simaws.Fault{Kind: simaws.FaultDrop, Action: "ec2:CreateFleet", Count: 10}))
	b.claim("unknown")
	b.settle(r, b.launched("unknown"), "unknown")
	w.Sim.ClearFaults()
	if n := len(w.Living()); n != 1 {
		t.Errorf("R4: %d instances", n)
	}

	b.must(w.Sim.SetStock(simaws.StockRule{Type: "*", Zone: "*", CapacityType: "*", Count: 0}))
	b.claim("out")
	b.settle(r, func() bool { return b.going("out") }, "out")
	if b.counted(meter.NodeClaimsDisrupted, "reason", "insufficient_capacity") != 1 {
		t.Error("L4: not counted")
	}
}

// dieAt keeps one kind of write from happening, or hides that it has happened.
func dieAt(what string, after bool) func(rig.Write, bool) error {
	return func(w rig.Write, done bool) error {
		if w.String() == what && done == after {
			return rig.ErrKilled
		}
		return nil
	}
}

// waiting notes what the pods of claims are told.
type waiting map[string]string

func (w waiting) NoCapacity(claim, message string) { w[claim] = message }

func TestN10_WhoWaitsForAClaimIsTold(t *testing.T) {
	for _, class := range []cloud.Class{cloud.NoCapacity, cloud.NotReady, cloud.Denied} {
		t.Run(string(class), func(t *testing.T) {
			b, stub, told := newBench(t), newStub(), waiting{}
			stub.err = refusal(class, "")
			r := b.lifecycle(stub)
			r.Waiting = told
			b.claim("refused")
			b.run(r, "refused")
			// The text of the event is longer than that of the condition: 200 times "no " and who says it.
			if message := told["refused"]; (class == cloud.NoCapacity) != (len(message) > 600) || len(message) > maxEvent {
				t.Errorf("pods are told %q", message)
			}
			if n := len(b.get("refused").StatusConditions().Get(karpv1.ConditionLaunched).Message); n > maxMessage {
				t.Errorf("a condition of %d bytes", n)
			}
		})
	}
}
