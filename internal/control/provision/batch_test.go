package provision

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return epoch.Add(d) }

func TestP4_Window(t *testing.T) {
	type trigger struct {
		at  time.Duration
		uid types.UID
	}
	cases := []struct {
		name     string
		triggers []trigger
		closes   time.Duration
	}{
		{"one pod", []trigger{{0, "a"}}, time.Second},
		{"the same pod does not extend it", []trigger{{0, "a"}, {900 * time.Millisecond, "a"}}, time.Second},
		{"a new pod does", []trigger{{0, "a"}, {900 * time.Millisecond, "b"}}, 1900 * time.Millisecond},
		{"a pod seen before the last does not", []trigger{{0, "a"}, {500 * time.Millisecond, "b"}, {time.Second, "a"}}, 1500 * time.Millisecond},
		{"what comes after it has closed goes with it", []trigger{{0, "a"}, {3 * time.Second, "b"}}, time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := window{idle: time.Second, most: 10 * time.Second}
			for i, x := range c.triggers {
				if opens := w.add(x.uid, at(x.at)); opens != (i == 0) {
					t.Errorf("trigger %d opens the window: %t", i, opens)
				}
			}
			if got, open := w.closes(); !open || !got.Equal(at(c.closes)) {
				t.Errorf("closes after %s (open %t), want %s", got.Sub(epoch), open, c.closes)
			}
		})
	}
	t.Run("a steady stream is cut at the longest", func(t *testing.T) {
		w := window{idle: time.Second, most: 10 * time.Second}
		for i := range 30 {
			w.add(types.UID(fmt.Sprint(i)), at(time.Duration(i)*500*time.Millisecond))
		}
		if got, _ := w.closes(); !got.Equal(at(10 * time.Second)) {
			t.Errorf("closes after %s, want 10s", got.Sub(epoch))
		}
		if len(w.seen) > 20 {
			t.Errorf("%d triggers are remembered, of which 20 came in time", len(w.seen))
		}
	})
}

// waiter runs Wait beside a test that moves the clock.
type waiter struct {
	t     *testing.T
	clock *testclock.FakeClock
	ended chan bool
}

func newWaiter(t *testing.T, b *Batcher, clock *testclock.FakeClock, patience time.Duration) *waiter {
	w := &waiter{t, clock, make(chan bool, 1)}
	ctx := t.Context()
	select {
	case <-b.opened: // Wait looks before it listens; a timer that this would end at once is taken for one that it waits for
	default:
	}
	go func() { w.ended <- b.Wait(ctx, patience) }()
	return w
}

// step moves the clock once the waiter waits for it, so that no tick is missed.
func (w *waiter) step(d time.Duration) {
	w.t.Helper()
	awaitTrue(w.t, "the batcher waits for the clock", w.clock.HasWaiters)
	w.clock.Step(d)
}

func (w *waiter) result() bool {
	w.t.Helper()
	select {
	case r := <-w.ended:
		return r
	case <-time.After(2 * time.Minute):
		w.t.Fatal("the batcher still waits")
		return false
	}
}

// awaitTrue polls a condition that another goroutine brings about.
func awaitTrue(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("gave up waiting until %s", what)
		case <-tick.C:
		}
	}
}

func TestP4_WaitReturnsWhenTheWindowCloses(t *testing.T) {
	clock := testclock.NewFakeClock(epoch)
	b := NewBatcher(clock, time.Second, 10*time.Second)
	b.Trigger("a")
	w := newWaiter(t, b, clock, time.Minute)
	w.step(600 * time.Millisecond)
	b.Trigger("b") // holds the window open until 1.6 s
	w.step(400 * time.Millisecond)
	w.step(599 * time.Millisecond)
	select {
	case <-w.ended:
		t.Fatal("the window closed although a new pod had come")
	default:
	}
	w.step(time.Millisecond)
	if !w.result() {
		t.Error("no batch")
	}
}

func TestP4_RemindersOpenAWindowAndKeepNoneOpen(t *testing.T) {
	clock := testclock.NewFakeClock(epoch)
	b := NewBatcher(clock, time.Second, 10*time.Second)
	for _, ask := range []func(types.UID){b.Trigger, b.Remind} {
		ask("a")
		w := newWaiter(t, b, clock, time.Minute)
		w.step(600 * time.Millisecond)
		b.Remind("b") // does not hold it open
		w.step(400 * time.Millisecond)
		if !w.result() {
			t.Error("no batch")
		}
	}
}

func TestP4_AWindowIsHeldOpenWhileTheSchedulerIsBehindAndNoLongerThanTheLongest(t *testing.T) {
	for _, held := range []time.Duration{1200 * time.Millisecond, time.Hour} {
		clock := testclock.NewFakeClock(epoch)
		b := NewBatcher(clock, time.Second, 3*time.Second)
		b.Hold = func(now time.Time) bool { return now.Before(at(held)) }
		b.Trigger("a")
		w := newWaiter(t, b, clock, time.Minute)
		w.step(time.Second)
		for clock.Now().Before(at(min(held, 3*time.Second))) {
			select {
			case <-w.ended:
				t.Fatalf("the window closed after %s", clock.Since(epoch))
			default:
			}
			w.step(holdStep)
		}
		if !w.result() {
			t.Errorf("held for %s: no batch", held)
		}
	}
}

func TestP1_WaitLooksAgainWithoutTriggers(t *testing.T) {
	clock := testclock.NewFakeClock(epoch)
	b := NewBatcher(clock, time.Second, 10*time.Second)
	w := newWaiter(t, b, clock, retry)
	w.step(retry)
	if w.result() {
		t.Error("a batch without a trigger")
	}
}

func TestW2_TriggersDuringAPassAreNotLost(t *testing.T) {
	clock := testclock.NewFakeClock(epoch)
	b := NewBatcher(clock, time.Second, 10*time.Second)
	b.Trigger("a")
	clock.Step(time.Second)
	if !b.Wait(t.Context(), time.Minute) {
		t.Fatal("no first batch")
	}
	// The pass runs now, and takes three seconds. The pod that comes meanwhile has waited for its window when it is over.
	clock.Step(time.Second)
	b.Trigger("a")
	clock.Step(2 * time.Second)
	if !b.Wait(t.Context(), time.Minute) {
		t.Error("the trigger during the pass is lost")
	}
	if _, open := b.window.closes(); open {
		t.Error("the window was taken and is still open")
	}
}

func TestP4_WaitEndsWithItsContext(t *testing.T) {
	b := NewBatcher(testclock.NewFakeClock(epoch), time.Second, 10*time.Second)
	b.Trigger("a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if b.Wait(ctx, time.Minute) {
		t.Error("a batch after the end")
	}
}

// TestP4_EveryTriggerIsTakenInTime plays triggers and passes of any length and checks every trigger's way.
func TestP4_EveryTriggerIsTakenInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		idle := time.Duration(rapid.IntRange(1, 2000).Draw(t, "idle")) * time.Millisecond
		most := idle + time.Duration(rapid.IntRange(0, 9000).Draw(t, "more"))*time.Millisecond
		w := window{idle: idle, most: most}
		now := epoch
		var waiting []time.Time // triggers that no window has taken
		take := func() {
			closes, _ := w.closes()
			for _, came := range waiting {
				if came.Before(closes) && closes.Sub(came) > most {
					t.Fatalf("a trigger waits %s, longer than %s", closes.Sub(came), most)
				}
			}
			if first := waiting[0]; closes.Sub(first) < idle && most >= idle {
				t.Fatalf("the window closes %s after it opened, before the idle time of %s", closes.Sub(first), idle)
			}
			waiting, w.seen = nil, nil
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "wait")) * time.Millisecond)
			if rapid.Bool().Draw(t, "trigger") {
				w.add(types.UID(fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "uid"))), now)
				waiting = append(waiting, now)
			}
			closes, open := w.closes()
			if open != (len(waiting) > 0) {
				t.Fatalf("%d triggers wait, and the window is open: %t", len(waiting), open)
			}
			if busy := rapid.Bool().Draw(t, "pass runs"); !busy && open && !now.Before(closes) {
				take()
			}
		}
	})
}

// TestP4_AWindowThatNobodyWaitedForIsForgotten: a process that begins to lead waits for a whole one.
func TestP4_AWindowThatNobodyWaitedForIsForgotten(t *testing.T) {
	clock := testclock.NewFakeClock(epoch)
	b := NewBatcher(clock, time.Second, 10*time.Second)
	b.Remind("prices")
	clock.Step(time.Hour)
	b.Clear()
	b.Trigger(started)
	if wait, state := b.look(clock.Now().Add(time.Hour)); wait != time.Second || state != waiting {
		t.Errorf("%s to wait, state %d", wait, state)
	}
}

// TestP4_SaysWhenAWindowIsAboutToClose: once for every end that a window might have had.
func TestP4_SaysWhenAWindowIsAboutToClose(t *testing.T) {
	clock := testclock.NewFakeClock(epoch)
	b := NewBatcher(clock, time.Second, 10*time.Second)
	said := make(chan time.Duration, 10)
	b.Soon = func(context.Context) { said <- clock.Since(epoch) }
	w := newWaiter(t, b, clock, time.Hour)
	b.Trigger("a")
	awaitTrue(t, "the batcher has seen the window", func() bool { return len(b.opened) == 0 })
	w.step(900 * time.Millisecond)
	if d := <-said; d != 900*time.Millisecond {
		t.Errorf("said after %s", d)
	}
	b.Trigger("b")
	w.step(100 * time.Millisecond) // the first end
	w.step(800 * time.Millisecond)
	w.step(100 * time.Millisecond)
	if !w.result() {
		t.Error("no batch")
	}
	if d := <-said; d != 1800*time.Millisecond || len(said) > 0 {
		t.Errorf("said after %s, and %d times more", d, len(said))
	}
}
