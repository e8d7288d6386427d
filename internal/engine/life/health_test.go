package life_test

import (
	"testing"
	"time"

	"karpenter/internal/engine/life"
)

// L14: a burst counts once or twice, however many of its instances fail, and what was asked for after a failure counts anew.
func TestL14_BurstsAreCounted(t *testing.T) {
	var r life.Ring
	burst := func(asked int, failed int) {
		for i := range failed {
			r.Failed(at(asked), at(asked+900+i))
		}
	}
	expect := func(what string, want time.Duration) {
		t.Helper()
		if got := r.Pause(); got != want {
			t.Errorf("%s: paused for %s, want %s", what, got, want)
		}
	}
	burst(0, 1)
	expect("one instance", 0)
	burst(0, 4)
	expect("five instances of one burst", time.Minute)
	burst(960, 1)
	expect("an instance of the next", 5*time.Minute)
	burst(960, 20)
	expect("all of the next", 15*time.Minute)
	burst(3000, 2)
	expect("a third", time.Hour)
	if r.Verdict() != life.False {
		t.Error("the pool counts as healthy")
	}
	r.Joined()
	expect("one has joined", 0)
}
