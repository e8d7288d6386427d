package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"karpenter/internal/wait"
)

// TestTimeout_EndsInSimulatedTime holds that a deadline is one of the clock's time, and that one that was called off is none.
func TestTimeout_EndsInSimulatedTime(t *testing.T) {
	l := newLoop(epoch, rand.New(rand.NewPCG(1, 1)))
	clock := simClock{l, nil}
	var late, early error
	var at time.Time
	l.start(func() {
		ctx, cancel := wait.Timeout(context.Background(), clock, time.Minute)
		defer cancel()
		child, stop := context.WithCancel(ctx)
		defer stop()
		wait.For(child, clock, time.Hour)
		late, at = ctx.Err(), l.now
	})
	l.start(func() {
		ctx, cancel := wait.Timeout(context.Background(), clock, time.Minute)
		wait.For(ctx, clock, time.Second)
		cancel()
		wait.For(context.Background(), clock, time.Hour)
		early = ctx.Err()
	})
	for end := epoch.Add(2 * time.Hour); l.turn() || l.advance(end); {
	}
	l.close()
	if !errors.Is(late, context.DeadlineExceeded) || !at.Equal(epoch.Add(time.Minute)) {
		t.Errorf("the deadline of a minute was %v at %v", late, at.Sub(epoch))
	}
	if !errors.Is(early, context.Canceled) {
		t.Errorf("what was called off after a second is %v", early)
	}
}
