package aws

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"karpenter/cloud"
	"karpenter/internal/cloud/simaws"
)

// TestR2_AnAnswerThatSaysNothing: the answer to a launch is lost, and the repetition is answered without instances and without errors,
// as AWS may. Neither a second fleet nor giving up is right: the instances are there.
func TestR2_AnAnswerThatSaysNothing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		faults []simaws.Fault
		late   time.Duration
		denied bool
	}{
		{name: "at once"},
		{name: "instances show late", late: 20 * time.Second},
		{name: "tags show late", faults: []simaws.Fault{{Kind: simaws.FaultUntagged, Action: "ec2:DescribeInstances", Delay: simaws.Duration(90 * time.Second)}}},
		{name: "tags show late and fleets may not be described", denied: true, faults: []simaws.Fault{{Kind: simaws.FaultUntagged, Action: "ec2:DescribeInstances", Delay: simaws.Duration(90 * time.Second)}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, func(s *simaws.Options, _ *Options) { s.Timing.Consistency = tt.late })
			w.load()
			onLine(w, &line{left: -1})
			faults := append(tt.faults, simaws.Fault{Kind: simaws.FaultDrop, Action: "ec2:CreateFleet", Nth: 1}, simaws.Fault{Kind: simaws.FaultBare, Action: "ec2:CreateFleet"})
			if tt.denied {
				faults = append(faults, simaws.Fault{Kind: simaws.FaultError, Action: "ec2:DescribeFleets", Code: "UnauthorizedOperation", Status: 403})
			}
			for _, f := range faults {
				w.must(w.sim.AddFault(f))
			}
			c := newCluster(w.batch("b", 2, onDemandOnly, typeIs("m5.large")))
			for n := 0; !c.pass(w, 100); n++ {
				if n > 60 {
					t.Fatal("the batch did not settle")
				}
				w.advance(3 * time.Second)
			}
			w.advance(5 * time.Minute)
			if len(c.recorded) != 2 || len(w.living()) != 2 {
				t.Errorf("%d claims have an instance, %d gave up, and %d instances run; want 2, 0 and 2", len(c.recorded), len(c.gaveUp), len(w.living()))
			}
			w.must(c.check(w))
		})
	}
}

// TestR2_AnAnswerThatSaysNothing_AndNothingThere: the fleet has got nothing, and nobody says so. The claim is not held for ever.
func TestR2_AnAnswerThatSaysNothing_AndNothingThere(t *testing.T) {
	w := newWorld(t)
	w.load()
	onLine(w, &line{left: -1})
	w.must(w.sim.SetStock(simaws.StockRule{Type: "*", Zone: "*", CapacityType: "*", Count: 0}))
	w.must(w.sim.AddFault(simaws.Fault{Kind: simaws.FaultDrop, Action: "ec2:CreateFleet", Nth: 1}))
	w.must(w.sim.AddFault(simaws.Fault{Kind: simaws.FaultBare, Action: "ec2:CreateFleet"}))
	w.must(w.sim.AddFault(simaws.Fault{Kind: simaws.FaultEmpty, Action: "ec2:DescribeFleets"}))
	b := w.batch("b", 1, onDemandOnly, typeIs("m5.large"))
	begun := w.clock.Now()
	for cloud.ClassOf(w.Launch(w.ctx, b)[0].Err) != cloud.NoCapacity {
		if w.advance(5 * time.Second); w.clock.Now().Sub(begun) > 3*time.Minute {
			t.Fatal("it is still not given up")
		}
	}
	if took := w.clock.Now().Sub(begun); took < settled {
		t.Errorf("given up after %v, when instances might still have shown", took)
	}
}

// TestR12_ACallThatNeverAnswers holds up those who asked in it, until its deadline, and nobody else.
func TestR12_ACallThatNeverAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := bubbleWorld(t)
		results := w.Launch(w.ctx, w.batch("b", 2, spotOnly, typeIs("m5.large")))
		given(t, results)
		time.Sleep(time.Minute)
		w.must(w.sim.AddFault(simaws.Fault{Kind: simaws.FaultHang, Action: "ec2:DescribeInstances", Count: 1}))
		var wg sync.WaitGroup
		began := time.Now()
		wg.Go(func() {
			_, err := w.Get(w.ctx, results[0].Instance.ID)
			if took := time.Since(began); cloud.ClassOf(err) != cloud.Transient || took > 2*attemptLimit {
				t.Errorf("the call that hung ended after %v with %v", took, err)
			}
		})
		time.Sleep(100 * time.Millisecond)
		for _, r := range results {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(w.ctx, 15*time.Second)
				defer cancel()
				if err := w.Delete(ctx, r.Instance.ID); err != nil {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			})
		}
		wg.Wait()
		// A write that hangs is one of which nothing is known.
		w.must(w.sim.AddFault(simaws.Fault{Kind: simaws.FaultHang, Action: "ec2:CreateFleet", Count: 1}))
		began = time.Now()
		r := w.Launch(w.ctx, w.batch("c", 1, spotOnly, typeIs("m5.large")))[0]
		if took := time.Since(began); cloud.ClassOf(r.Err) != cloud.Unknown || took > 2*fleetLimit {
			t.Errorf("a launch that hung ended after %v with %v", took, r.Err)
		}
		if r := w.Launch(w.ctx, w.batch("c", 1, spotOnly, typeIs("m5.large")))[0]; r.Err != nil {
			t.Errorf("the launch again: %v", r.Err)
		}
		time.Sleep(time.Minute)
		if n := len(w.living()); n != 1 {
			t.Errorf("%d instances run, want 1", n)
		}
	})
}

// TestT9_ThrottledTerminations ends 200 instances while EC2 refuses calls for being too many. Nobody misses the deadline of a
// reconciler, and the refusals do not make more calls.
func TestT9_ThrottledTerminations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := bubbleWorld(t)
		var batches []cloud.Batch
		for i := range 4 {
			batches = append(batches, w.batch(fmt.Sprint("b", i), 50, spotOnly, typeIs("m5.large")))
		}
		burst(w, batches)
		list := w.living()
		time.Sleep(5 * time.Minute)
		calls := w.called("TerminateInstances")
		w.must(w.sim.AddFault(simaws.Fault{Kind: simaws.FaultError, Action: "ec2:TerminateInstances", Code: "RequestLimitExceeded", Status: 503, Count: 9}))
		var wg sync.WaitGroup
		for _, in := range list {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(w.ctx, 15*time.Second)
				defer cancel()
				if err := w.Delete(ctx, in.ID); err != nil {
					t.Errorf("%s: %v", in.ID, err)
				}
			})
		}
		wg.Wait()
		if n := w.called("TerminateInstances") - calls; len(list) != 200 || n > 60 {
			t.Errorf("%d calls for %d instances", n, len(list))
		}
		time.Sleep(5 * time.Minute)
		if n := len(w.living()); n != 0 {
			t.Errorf("%d instances are left", n)
		}
	})
}

// TestAWS_2_7_OneUnknownIDHoldsUpNoOther ends instances together with ids that EC2 does not know, or that no instance can have.
func TestAWS_2_7_OneUnknownIDHoldsUpNoOther(t *testing.T) {
	w := newWorld(t)
	w.load()
	ids := []string{"i-0000000000000dead", "i-nonsense"}
	for i := range 3 {
		ids = append(ids, w.one(fmt.Sprint("b", i), onDemandOnly, typeIs("m5.large")).ID)
	}
	results, err := w.terminate(w.ctx, ids)
	w.must(err)
	for i, id := range ids {
		if got := results[id]; (i >= 2) != (got == nil) {
			t.Errorf("%s: %v", id, got)
		}
	}
	if err := w.Delete(w.ctx, "i-nonsense"); cloud.ClassOf(err) != cloud.NotFound {
		t.Errorf("an id that no instance can have: %v, want that there is nothing to end", err)
	}
}

func TestParseProviderID(t *testing.T) {
	for text, want := range map[string]string{
		"aws:///us-west-2a/i-0123": "i-0123", "Provider:///us-west-2a/i-0123": "i-0123", "aws:///a/b/i-0123": "i-0123",
		"": "", "i-0123": "", "aws:///us-west-2a/0123": "", "aws:///i-0123": "", ":///a/i-0123": "", "aws://us-west-2a/i-0123": "",
	} {
		got, err := ParseProviderID(text)
		if got != want && err == nil || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
}
