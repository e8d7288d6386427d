package control

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	clocktest "k8s.io/utils/clock/testing"
)

func TestR_ALoopOutlivesFailures(t *testing.T) {
	clock := clocktest.NewFakeClock(time.Unix(0, 0))
	rounds := make(chan time.Time)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	l := &Loop{Name: "test", Clock: clock, Log: slog.New(slog.DiscardHandler), Do: func(context.Context) (time.Duration, error) {
		rounds <- clock.Now()
		n++
		if n <= 2 {
			return 0, errors.New("no answer")
		}
		return time.Hour, nil
	}}
	ended := make(chan error, 1)
	go func() { ended <- l.Start(ctx) }()
	for i, want := range []time.Duration{0, time.Second, 3 * time.Second, time.Hour + 3*time.Second} {
		if got := (<-rounds).Sub(time.Unix(0, 0)); got != want {
			t.Errorf("round %d at %s, want %s", i, got, want)
		}
		for !clock.HasWaiters() {
			time.Sleep(time.Millisecond)
		}
		if i < 3 {
			clock.Step([]time.Duration{time.Second, 2 * time.Second, time.Hour}[i])
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestR_AQuotaRunsEmptyAndFillsAgain(t *testing.T) {
	now := time.Unix(0, 0)
	p := NewQuota(func() time.Time { return now })
	taken := 0
	for range 50 {
		if p.Take(100) {
			taken++
		}
	}
	if taken != 10 {
		t.Errorf("%d of 100 destroyed at once, want 10", taken)
	}
	now = now.Add(quotaWindow)
	if !p.Take(3) {
		t.Error("one instance may always go once the window has passed")
	}
	if p.Take(3) {
		t.Error("but not two of three")
	}
}

// D58: where repair may replace two nodes, the quota has room for two.
func TestD58_AQuotaOfASmallFleetIsAFifth(t *testing.T) {
	for fleet, want := range map[int]int{0: 1, 1: 1, 5: 1, 6: 2, 10: 2, 11: 2, 20: 2, 21: 3, 1000: 100} {
		p, taken := NewQuota(func() time.Time { return time.Unix(0, 0) }), 0
		for range 200 {
			if p.Take(fleet) {
				taken++
			}
		}
		if taken != want {
			t.Errorf("%d of %d destroyed at once, want %d", taken, fleet, want)
		}
	}
}
