package web

import (
	"testing"
	"time"
)

// A look that takes long does not hold up the next, and looks that all take long leave nine tenths of the time to others.
func TestStreamsRest(t *testing.T) {
	if pause, debt := rest(0, 90*time.Millisecond); pause != lookEvery || debt != 85*time.Millisecond {
		t.Errorf("after one long look: %v, and %v to make up for", pause, debt)
	}
	if pause, debt := rest(0, time.Millisecond); pause != lookEvery || debt != 0 {
		t.Errorf("after a short look: %v, and %v to make up for", pause, debt)
	}
	for _, work := range []time.Duration{6 * time.Millisecond, 40 * time.Millisecond, time.Second} {
		var pause, debt, worked, rested time.Duration
		for range 1000 {
			pause, debt = rest(debt, work)
			worked, rested = worked+work, rested+pause
		}
		if rested < workShare*(worked-workBurst) || rested > workShare*worked {
			t.Errorf("looks of %v: %v of work and %v of rest, want one to ten", work, worked, rested)
		}
	}
}
