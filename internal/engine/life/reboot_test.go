package life_test

import (
	"testing"
	"time"

	"karpenter/internal/engine/life"
)

func TestN7_StepsOfAReboot(t *testing.T) {
	requested := life.Rebooting{Requested: t0, Grace: duration(5 * time.Minute), Boot: "a", Ready: true}
	tainted := requested
	tainted.Tainted = at(1)
	asked := tainted
	asked.PreBoot, asked.Asked = "a", at(10)
	issued := asked
	issued.Issued = at(12)
	with := func(r life.Rebooting, change func(*life.Rebooting)) life.Rebooting { change(&r); return r }
	for _, c := range []struct {
		name  string
		facts life.Rebooting
		now   time.Time
		do    life.RebootDo
		after time.Duration
		ends  string
	}{
		{"new pods are kept off first", requested, at(0), life.RebootTaint, 0, ""},
		{"the scheduler may not have seen the taint", tainted, at(3), life.RebootDrain, 3 * time.Second, ""},
		{"nothing is left", tainted, at(6), life.RebootRecord, 0, ""},
		{"pods are leaving", with(tainted, func(r *life.Rebooting) { r.Waiting = 2 }), at(60), life.RebootDrain, 5 * time.Second, ""},
		{"what is left rides along", with(tainted, func(r *life.Rebooting) { r.Waiting = 2 }), at(300), life.RebootRecord, 0, ""},
		{"no grace, no drain", with(tainted, func(r *life.Rebooting) { r.Waiting, r.Grace = 2, duration(0) }), at(1), life.RebootRecord, 0, ""},
		{"no bound", with(tainted, func(r *life.Rebooting) { r.Waiting, r.Grace = 2, nil }), at(1199), life.RebootDrain, time.Second, ""},
		{"no bound, and pods that cannot leave", with(tainted, func(r *life.Rebooting) { r.Waiting, r.Grace = 2, nil }), at(1200), life.RebootFail, 0, life.RebootDrainTimeout},
		{"no bound, and they left late", with(tainted, func(r *life.Rebooting) { r.Grace = nil }), at(1300), life.RebootRecord, 0, ""},
		{"the cloud is asked", asked, at(10), life.RebootAsk, 5 * time.Second, ""},
		{"and again", asked, at(309), life.RebootAsk, 5 * time.Second, ""},
		{"but not for ever", asked, at(310), life.RebootFail, 0, life.RebootProviderError},
		{"it has rebooted before that was written down", with(asked, func(r *life.Rebooting) { r.Boot = "b" }), at(400), life.RebootIssue, 0, ""},
		{"it is still up", issued, at(20), life.RebootHold, 15 * time.Second, ""},
		{"it is down", with(issued, func(r *life.Rebooting) { r.Ready = false }), at(20), life.RebootHold, 15 * time.Second, ""},
		{"it is back and not ready", with(issued, func(r *life.Rebooting) { r.Boot, r.Ready = "b", false }), at(60), life.RebootHold, 15 * time.Second, ""},
		{"it is back", with(issued, func(r *life.Rebooting) { r.Boot = "b" }), at(60), life.RebootSucceed, 0, life.RebootSucceeded},
		{"it is back, late", with(issued, func(r *life.Rebooting) { r.Boot = "b" }), at(5000), life.RebootSucceed, 0, life.RebootSucceeded},
		{"it does not come back", issued, at(12 + 1200), life.RebootFail, 0, life.RebootRecoveryTimeout},
		{"it comes back broken", with(issued, func(r *life.Rebooting) { r.Boot, r.Ready = "b", false }), at(12 + 1200), life.RebootFail, 0, life.RebootRecoveryTimeout},
		{"its node is gone", with(issued, func(r *life.Rebooting) { r.Gone = true }), at(20), life.RebootFail, 0, life.RebootInvalidRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.facts.Next(c.now)
			if got.Do != c.do || got.After != c.after || got.Result != c.ends || (got.Do == life.RebootFail) != (got.Why != "") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestN7_WhatNobodyWorkedOnHasItsTime has another process take over at Watching, after nobody has worked on a reboot for a while.
func TestN7_WhatNobodyWorkedOnHasItsTime(t *testing.T) {
	draining := life.Rebooting{Requested: t0, Tainted: at(1), Waiting: 2, Boot: "a", Ready: true}
	bounded := draining
	bounded.Grace = duration(5 * time.Minute)
	asked := bounded
	asked.PreBoot, asked.Asked, asked.Day = "a", at(300), 1
	second, up := asked, asked
	second.Day, up.Boot = 2, "b"
	issued := asked
	issued.Issued = at(310)
	for _, c := range []struct {
		name     string
		facts    life.Rebooting
		watching int
		now      int
		do       life.RebootDo
		after    time.Duration
		ends     string
	}{
		{"nobody evicted", draining, 3000, 3001, life.RebootDrain, 5 * time.Second, ""},
		{"nobody evicted, and it takes too long all the same", draining, 3000, 4200, life.RebootFail, 0, life.RebootDrainTimeout},
		{"who requested it evicts", draining, -500, 1200, life.RebootFail, 0, life.RebootDrainTimeout},
		{"a grace period is not put off", bounded, 3000, 3001, life.RebootRecord, 0, ""},
		{"the cloud may have been asked, and the node not have been heard of", asked, 900, 901, life.RebootHold, 15 * time.Second, ""},
		{"the same, the end", asked, 900, 1019, life.RebootHold, time.Second, ""},
		{"the cloud was not asked, as far as is heard", asked, 900, 1020, life.RebootRecord, 0, ""},
		{"the cloud may have been asked for the second one of the day", second, 900, 1020, life.RebootFail, 0, life.RebootProviderError},
		{"the cloud was asked", up, 900, 901, life.RebootIssue, 0, ""},
		{"who has asked goes on", asked, 0, 599, life.RebootAsk, 5 * time.Second, ""},
		{"who has asked goes on, and is refused", asked, 0, 600, life.RebootFail, 0, life.RebootProviderError},
		{"nobody looked, and the node has not been heard of yet", issued, 9000, 9059, life.RebootHold, 15 * time.Second, ""},
		{"nobody looked, and the node is not heard of", issued, 9000, 9060, life.RebootFail, 0, life.RebootRecoveryTimeout},
		{"somebody looks in time", issued, 900, 1510, life.RebootFail, 0, life.RebootRecoveryTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.facts.Watching = at(c.watching)
			if got := c.facts.Next(at(c.now)); got.Do != c.do || got.After != c.after || got.Result != c.ends {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestN7_TwoRebootsADay(t *testing.T) {
	text := ""
	for i, want := range []bool{true, true, false} {
		now := t0.Add(time.Duration(i) * time.Hour)
		if got := life.MayReboot(life.Reboots(text, now)); got != want {
			t.Errorf("after %q: %v, want %v", text, got, want)
		}
		text = life.Rebooted(text, now)
	}
	if got := life.Reboots(text+",nonsense", t0.Add(25*time.Hour)); len(got) != 1 {
		t.Errorf("a day later %v are left of %q", got, text)
	}
	if got, want := life.Rebooted(text, t0.Add(48*time.Hour)), "2026-01-04T03:04:05Z"; got != want {
		t.Errorf("what is over is still written: %q, want %q", got, want)
	}
}

func TestN7_ARebootingClaimIsLeftAlone(t *testing.T) {
	c := life.Claim{Finalizer: true, ProviderID: "p", Rebooting: true, Registered: life.Condition{Status: life.True, Since: t0}, Initialized: life.Condition{Since: at(3600)}}
	if got := life.Next(c, nil, life.DefaultLimits, at(36000)); got.Do != life.Hold || got.Of != "" {
		t.Errorf("while it reboots: %+v", got)
	}
	c.Rebooting = false // it is back: what it has for becoming usable counts from the reboot
	if cause, left := life.Late(c, life.DefaultLimits, at(3660)); cause != "" || left != 29*time.Minute {
		t.Errorf("after a reboot: %q, %v left", cause, left)
	}
	c.Initialized.Since, c.Rebooted = t0, at(3600) // it was not initialized before either
	if cause, left := life.Late(c, life.DefaultLimits, at(3660)); cause != "" || left != 29*time.Minute {
		t.Errorf("after a reboot of a node that was not initialized: %q, %v left", cause, left)
	}
}
