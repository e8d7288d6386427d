package life_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"karpenter/internal/engine/life"
)

// pod is an ordinary running pod with the usual grace period.
func pod(change ...func(*life.Pod)) life.Pod {
	p := life.Pod{Grace: 30 * time.Second, Started: t0.Add(-time.Hour)}
	for _, c := range change {
		c(&p)
	}
	return p
}

func leaving(until time.Time, grace time.Duration) func(*life.Pod) {
	return func(p *life.Pod) { p.Leaving, p.LeavingGrace = until, grace }
}

func protected(value string) func(*life.Pod) { return func(p *life.Pod) { p.DoNotDisrupt = value } }

func TestPodNext(t *testing.T) {
	never := time.Time{}
	cases := []struct {
		name     string
		pod      life.Pod
		deadline time.Time
		want     life.PodStep
	}{
		{"L23 an ordinary pod is evicted", pod(), never, life.PodStep{Do: life.Evict}},
		{"L23 an ended pod does not matter", pod(func(p *life.Pod) { p.Ended = true }), never, life.PodStep{Do: life.Skip}},
		{"L23 a mirror pod does not matter", pod(func(p *life.Pod) { p.Mirror = true }), never, life.PodStep{Do: life.Skip}},
		{"L23 a tolerant pod does not matter", pod(func(p *life.Pod) { p.Tolerant = true }), never, life.PodStep{Do: life.Skip}},
		{"L23 a leaving pod is waited for", pod(leaving(at(20), 30*time.Second)), never, life.PodStep{Do: life.Wait, Until: at(80)}},
		{"L23 until a minute after it should have ended", pod(leaving(at(-59), 30*time.Second)), never, life.PodStep{Do: life.Wait, Until: at(1)}},
		{"L23 and then no longer", pod(leaving(at(-60), 30*time.Second)), never, life.PodStep{Do: life.Skip}},
		{"L23 a protected pod is waited for", pod(protected("true")), never, life.PodStep{Do: life.Wait, Protected: true}},
		{"D8 for as long as it says", pod(protected("2h")), never, life.PodStep{Do: life.Wait, Protected: true, Until: at(3600)}},
		{"D8 and not after", pod(protected("30m")), never, life.PodStep{Do: life.Evict}},
		{"D8 a value that means nothing does not protect", pod(protected("soon")), never, life.PodStep{Do: life.Evict}},
		{"D62 before the deadline less its grace a pod is evicted", pod(), at(31), life.PodStep{Do: life.Evict, Until: at(1)}},
		{"D62 from then on it is deleted", pod(), at(30), life.PodStep{Do: life.Delete, Grace: 30 * time.Second}},
		{"D62 with what is left", pod(), at(10), life.PodStep{Do: life.Delete, Grace: 10 * time.Second}},
		{"D62 but no less than a second", pod(), at(-100), life.PodStep{Do: life.Delete, Grace: time.Second}},
		{"D62 protection ends there", pod(protected("true")), at(30), life.PodStep{Do: life.Delete, Grace: 30 * time.Second}},
		{"D62 a protected pod waits for that", pod(protected("true")), at(90), life.PodStep{Do: life.Wait, Protected: true, Until: at(60)}},
		{
			"D62 more grace than the node has is deleted at once", pod(func(p *life.Pod) { p.Grace = time.Hour }), at(600),
			life.PodStep{Do: life.Delete, Grace: 10 * time.Minute},
		},
		{
			"D62 a leaving pod that would take too long is cut short", pod(func(p *life.Pod) { p.Grace = 10 * time.Minute }, leaving(at(500), 10*time.Minute)), at(60),
			life.PodStep{Do: life.Delete, Grace: time.Minute, Until: at(560)},
		},
		{"D62 a leaving pod that is done in time is left alone", pod(leaving(at(20), 30*time.Second)), at(60), life.PodStep{Do: life.Wait, Until: at(80)}},
		{"D62 past the deadline it is cut to a second once", pod(leaving(at(20), 30*time.Second)), at(-5), life.PodStep{Do: life.Delete, Grace: time.Second, Until: at(80)}},
		{"D62 and not again", pod(leaving(at(1), time.Second)), at(-5), life.PodStep{Do: life.Wait, Until: at(61)}},
		{
			// Told to go 300 s ago with 600 s, cut to the 60 s that are left now: the API server then says that it should have
			// ended 240 s ago.
			"D62 a pod that was cut short is not taken for a stuck one", pod(func(p *life.Pod) { p.Grace = 10 * time.Minute }, leaving(at(-240), time.Minute)), at(60),
			life.PodStep{Do: life.Wait, Until: at(120)},
		},
		{"L23 a pod that a user gave less time is", pod(leaving(at(-100), time.Second)), at(3600), life.PodStep{Do: life.Skip}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := c.pod.Next(c.deadline, t0)
			if got.Why == "" {
				t.Error("the step has no reason")
			}
			got.Why = ""
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}

func TestL26_EvictBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		0: 100 * time.Millisecond, 1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 5: 1600 * time.Millisecond, 7: 6400 * time.Millisecond,
		8: 10 * time.Second, 1 << 40: 10 * time.Second,
	} {
		if got := life.EvictBackoff(failures); got != want {
			t.Errorf("after %d failures: %v, want %v", failures, got, want)
		}
	}
}
