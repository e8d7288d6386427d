package life_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"karpenter/internal/engine/life"
)

func daemon(p *life.Pod)   { p.Daemon = true }
func critical(p *life.Pod) { p.Critical = true }

func actions(plan life.DrainPlan) []life.PodAction {
	var out []life.PodAction
	for _, s := range plan.Steps {
		out = append(out, s.Do)
	}
	return out
}

func TestL24_TiersLeaveOneAfterTheOther(t *testing.T) {
	pods := []life.Pod{pod(critical, daemon), pod(critical), pod(daemon), pod()}
	for left, want := range [][]life.PodAction{
		{life.Wait, life.Wait, life.Wait, life.Evict},
		{life.Wait, life.Wait, life.Evict},
		{life.Wait, life.Evict},
		{life.Evict},
		nil,
	} {
		plan := life.Drain(pods[:4-left], time.Time{}, t0)
		if diff := cmp.Diff(want, actions(plan)); diff != "" {
			t.Errorf("with %d pods (-want +got):\n%s", 4-left, diff)
		}
		if plan.Waiting != 4-left {
			t.Errorf("%d pods are waited for, want %d", plan.Waiting, 4-left)
		}
	}
	plan := life.Drain(pods, time.Time{}, t0)
	if why := plan.Steps[0].Why; !strings.Contains(why, "ordinary pods") {
		t.Errorf("a critical daemon waits because %q", why)
	}
}

func TestL24_WhoHoldsATierBack(t *testing.T) {
	cases := []struct {
		name  string
		first life.Pod
		want  life.PodAction // for a daemon
	}{
		{"a pod that is leaving", pod(leaving(at(10), 30*time.Second)), life.Wait},
		{"a protected pod", pod(protected("true")), life.Wait},
		{"not a stuck pod", pod(leaving(at(-100), 30*time.Second)), life.Evict},
		{"not an ended pod", pod(func(p *life.Pod) { p.Ended = true }), life.Evict},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := life.Drain([]life.Pod{c.first, pod(daemon)}, time.Time{}, t0).Steps[1].Do; got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	t.Run("D62 the deadline does not wait for tiers", func(t *testing.T) {
		plan := life.Drain([]life.Pod{pod(leaving(at(5), 30*time.Second)), pod(critical, daemon)}, at(20), t0)
		if diff := cmp.Diff([]life.PodAction{life.Wait, life.Delete}, actions(plan)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestL23_MinimumDrain(t *testing.T) {
	if got := life.DrainedAt(at(10), at(100)); !got.Equal(at(15)) {
		t.Errorf("a taint that says when: %v", got)
	}
	if got := life.DrainedAt(time.Time{}, at(100)); !got.Equal(at(105)) {
		t.Errorf("a taint that does not: %v", got)
	}
}

func TestL28_AwaitedVolumes(t *testing.T) {
	got := life.AwaitedVolumes([]life.Attachment{{"c", "pv-c"}, {"a", "pv-a"}, {"inline", ""}, {"b", "pv-b"}}, map[string]bool{"pv-b": true})
	if diff := cmp.Diff([]life.Attachment{{"a", "pv-a"}, {"c", "pv-c"}}, got); diff != "" {
		t.Error(diff)
	}
	for name, c := range map[string]struct {
		pod  life.Pod
		want bool
	}{
		"a pod that stays":  {pod(func(p *life.Pod) { p.Tolerant = true }), true},
		"a stuck pod":       {pod(leaving(at(-100), time.Second)), true},
		"a pod that leaves": {pod(leaving(at(10), time.Second)), false},
		"an ended pod":      {pod(func(p *life.Pod) { p.Ended, p.Tolerant = true, true }), false},
	} {
		if got := c.pod.KeepsVolumes(time.Time{}, t0); got != c.want {
			t.Errorf("%s keeps its volumes: %v", name, got)
		}
	}
	if life.Overdue(time.Time{}, t0) || life.Overdue(at(1), t0) || !life.Overdue(t0, t0) {
		t.Error("D63: a deadline is overdue from its second on, and no deadline never is")
	}
}

func TestAbsenceNeedsProof(t *testing.T) {
	cases := []struct {
		name    string
		absence life.Absence
		want    bool
	}{
		{"nothing was looked at", life.Absence{}, false},
		{"one miss by id", life.Absence{Asked: true, Missing: t0}, false},
		{"a listing alone", life.Absence{Asked: true, Listed: at(100)}, false},
		{"L21 asked, missed, and not listed a little later", life.Absence{Asked: true, Missing: t0, Listed: at(5)}, true},
		{"but not at the same time", life.Absence{Asked: true, Missing: t0, Listed: at(4)}, false},
		{"a listing from before", life.Absence{Asked: true, Missing: t0, Listed: at(-4)}, false},
		{"L22 never asked needs a minute", life.Absence{Missing: t0, Listed: at(59)}, false},
		{"L22 and has it", life.Absence{Missing: t0, Listed: at(60)}, true},
		{"never asked, and the cloud lists nothing at all", life.Absence{Missing: t0, Listed: at(60), Empty: true}, false},
		{"for ten minutes", life.Absence{Missing: t0, Listed: at(600), Empty: true}, true},
		{"asked, and it was the last one", life.Absence{Asked: true, Missing: t0, Listed: at(5), Empty: true}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := c.absence.Proven(); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func genPod(t *rapid.T) life.Pod {
	p := life.Pod{
		Critical: rapid.Bool().Draw(t, "critical"), Daemon: rapid.Bool().Draw(t, "daemon"), Ended: rapid.IntRange(0, 9).Draw(t, "ended") == 0,
		Mirror: rapid.IntRange(0, 9).Draw(t, "mirror") == 0, Tolerant: rapid.IntRange(0, 9).Draw(t, "tolerant") == 0,
		Grace:        time.Duration(rapid.IntRange(0, 900).Draw(t, "grace")) * time.Second,
		Started:      at(-rapid.IntRange(0, 7200).Draw(t, "age")),
		DoNotDisrupt: rapid.SampledFrom([]string{"", "", "true", "1h", "10m", "nonsense"}).Draw(t, "protection"),
	}
	if rapid.Bool().Draw(t, "leaving") {
		p.LeavingGrace = time.Duration(rapid.IntRange(0, 900).Draw(t, "leaving grace")) * time.Second
		p.Leaving = at(rapid.IntRange(-300, 900).Draw(t, "until"))
	}
	return p
}

// What a drain must never do, whatever the pods.
func TestDrainProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := rapid.SliceOfN(rapid.Custom(genPod), 0, 12).Draw(t, "pods")
		var deadline time.Time
		if rapid.Bool().Draw(t, "has deadline") {
			deadline = at(rapid.IntRange(-100, 1200).Draw(t, "deadline"))
		}
		plan := life.Drain(pods, deadline, t0)
		for i, step := range plan.Steps {
			p := pods[i]
			forced := !deadline.IsZero() && !t0.Before(deadline.Add(-p.Grace))
			cut := !deadline.IsZero() && p.Leaving.After(deadline)
			switch {
			case step.Do == life.Delete && !forced && !cut:
				t.Fatalf("S5: pod %d is deleted without a deadline: %+v", i, p)
			case step.Do == life.Evict && life.Protect(p.DoNotDisrupt, p.Started, t0).Holds:
				t.Fatalf("S5: protected pod %d is evicted: %+v", i, p)
			case step.Do == life.Evict && p.Tier() != plan.Tier:
				t.Fatalf("L24: pod %d of the %v is evicted while the %v are there", i, p.Tier(), plan.Tier)
			case step.Do == life.Delete && step.Grace < time.Second:
				t.Fatalf("D62: pod %d is given %v", i, step.Grace)
			case step.Do == life.Wait && step.Until.Before(t0) && !step.Until.IsZero():
				t.Fatalf("pod %d waits for the past: %+v", i, step)
			}
			if one := p.Next(deadline, t0); one.Do != step.Do && (one.Do != life.Evict || step.Do != life.Wait) {
				t.Fatalf("pod %d: alone %s, together %s", i, one.Do, step.Do)
			}
		}
		if plan.Waiting > 0 && deadline.IsZero() && plan.Again.IsZero() && !movesOrWaitsForUser(plan) {
			t.Fatalf("L3: nothing would ever happen: %+v", plan)
		}
	})
}

// movesOrWaitsForUser says whether a plan does something or waits for what a user has asked for without end.
func movesOrWaitsForUser(plan life.DrainPlan) bool {
	for _, s := range plan.Steps {
		if s.Do == life.Evict || s.Do == life.Delete || s.Protected {
			return true
		}
	}
	return false
}
