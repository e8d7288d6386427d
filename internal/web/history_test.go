package web

import (
	"math"
	"testing"
	"time"

	"karpenter/internal/ledger"
)

func TestSamplesStayBoundedAndReachBackToTheStart(t *testing.T) {
	var s samples
	start := time.Unix(1_000_000, 0)
	now := start
	for range 20 * maxSamples {
		if s.due(now) {
			s.add(now, sample{float64(now.Unix())}, true)
		}
		now = now.Add(sampleEvery)
	}
	if len(s.list) > maxSamples || len(s.list) < maxSamples/2 {
		t.Errorf("%d samples, want %d to %d", len(s.list), maxSamples/2, maxSamples)
	}
	if s.list[0][0] != float64(start.Unix()) {
		t.Errorf("the first sample is of %v, want the start", s.list[0][0])
	}
	for i := 1; i < len(s.list); i++ {
		if gap := s.list[i][0] - s.list[i-1][0]; gap <= 0 || gap > 2*s.step.Seconds() {
			t.Fatalf("samples %d and %d are %v s apart, the step is %v", i-1, i, gap, s.step)
		}
	}
}

func TestNothingIsSampledBeforeTheClusterIsSeen(t *testing.T) {
	var s samples
	s.add(time.Unix(100, 0), sample{}, false)
	if len(s.list) != 0 || s.due(time.Unix(105, 0)) || !s.due(time.Unix(110, 0)) {
		t.Errorf("%d samples, due after 5 s: %v", len(s.list), s.due(time.Unix(105, 0)))
	}
}

func TestSavingsCountEachMoveOnce(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	l := ledger.New(2, "test", func() time.Time { return now })
	var p savingsCounter
	move := func(saves float64) {
		l.Settle(l.Add(ledger.Entry{Kind: ledger.Move, Saves: saves, Outcome: ledger.Open}), ledger.Done, "done")
		p.count(l, now)
		p.count(l, now)
	}
	move(1)
	now = now.Add(2 * time.Hour)
	move(0.5)
	for range 5 { // the ledger forgets the first ones
		l.Add(ledger.Entry{Kind: ledger.Move, Saves: 100, Outcome: ledger.Failed})
		p.count(l, now)
	}
	now = now.Add(time.Hour)
	move(-0.25)
	if p.Moves != 3 || p.PerHour != 1.25 || math.Abs(p.Sum-3.5) > 1e-9 {
		t.Errorf("%d moves, $%v/h, $%v; want 3, 1.25 and 2 + 1.5", p.Moves, p.PerHour, p.Sum)
	}
}
