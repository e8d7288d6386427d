// Package wait is how reconcilers and providers wait, and how they do several things at once: with timers and goroutines where time is
// real, and one task after another where it is simulated. Whatever blocks between two calls to the API server or the cloud goes
// through it, so that a simulation runs the same code.
package wait

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Clock is the time that somebody lives in.
type Clock interface {
	Now() time.Time
	// After delivers once when d has passed.
	After(d time.Duration) <-chan time.Time
}

// Scheduler is a clock of simulated time, in which tasks take turns: one runs until it waits.
type Scheduler interface {
	Clock
	// Await has the task that runs wait until ready says so, which is asked after every turn of another one, or for so long; below
	// zero is for ever. It returns what ready has said.
	Await(d time.Duration, ready func() bool) bool
	// Go starts another task.
	Go(do func())
	// Wake has all that is waited for asked at that time.
	Wake(at time.Time)
	// Call calls do at that time, between turns, unless stop is called before.
	Call(at time.Time, do func()) (stop func())
	// Made is told of every queue that is made.
	Made(queue any)
}

// Forever is for how long something is waited for that must come.
const Forever time.Duration = -1

// For waits for so long. It returns false, at once, if the context ends.
func For(ctx context.Context, c Clock, d time.Duration) bool {
	if d > 0 {
		Receive[struct{}](ctx, c, d, nil)
	}
	return ctx.Err() == nil
}

// Timeout is a context that ends after so long in the time of the clock.
func Timeout(ctx context.Context, c Clock, d time.Duration) (context.Context, context.CancelFunc) {
	s, simulated := c.(Scheduler)
	if !simulated {
		return context.WithTimeout(ctx, d)
	}
	inner, cancel := context.WithCancelCause(ctx)
	stop := s.Call(s.Now().Add(d), func() { cancel(context.DeadlineExceeded) })
	return timed{inner}, func() {
		stop()
		cancel(context.Canceled)
	}
}

// timed is a context that ends in simulated time. Others read a deadline as one in real time, so it tells none.
type timed struct{ context.Context }

// Err implements context.Context.
func (t timed) Err() error {
	if t.Context.Err() == nil {
		return nil
	}
	return context.Cause(t.Context)
}

// Receive waits for a value from a channel, for so long; below zero is for ever. ok is also true when the channel is closed, and false
// when the time is over or the context has ended.
func Receive[T any](ctx context.Context, c Clock, d time.Duration, from <-chan T) (value T, ok bool) {
	if s, simulated := c.(Scheduler); simulated {
		s.Await(d, func() bool {
			select {
			case value = <-from:
				ok = true
			default:
			}
			return ok || ctx.Err() != nil
		})
		return value, ok
	}
	over, stop := after(c, d)
	defer stop()
	select {
	case value = <-from:
		return value, true
	case <-over:
	case <-ctx.Done():
	}
	return value, false
}

// Send waits until a channel takes a value. It returns false if the context ends before.
func Send[T any](ctx context.Context, c Clock, to chan<- T, value T) bool {
	if s, simulated := c.(Scheduler); simulated {
		sent := false
		s.Await(Forever, func() bool {
			select {
			case to <- value:
				sent = true
			default:
			}
			return sent || ctx.Err() != nil
		})
		return sent
	}
	select {
	case to <- value:
		return true
	case <-ctx.Done():
		return false
	}
}

// Lock locks a mutex that is held by others while they wait.
func Lock(c Clock, mu *sync.Mutex) {
	if s, simulated := c.(Scheduler); simulated {
		s.Await(Forever, mu.TryLock)
		return
	}
	mu.Lock()
}

// Go does something beside what the caller does.
func Go(c Clock, do func()) {
	if s, simulated := c.(Scheduler); simulated {
		s.Go(do)
		return
	}
	go do()
}

// Each calls do with 0 to n-1, so many at once, and returns when all are done.
func Each(c Clock, n, atOnce int, do func(i int)) {
	if _, simulated := c.(Scheduler); simulated || n == 1 {
		for i := range n {
			do(i)
		}
		return
	}
	gate := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range n {
		gate <- struct{}{}
		all.Go(func() {
			defer func() { <-gate }()
			do(i)
		})
	}
	all.Wait()
}

// after is when d has passed; never if it is below zero.
func after(c Clock, d time.Duration) (over <-chan time.Time, stop func()) {
	if d < 0 {
		return nil, func() {}
	}
	if timers, ok := c.(interface {
		NewTimer(d time.Duration) clock.Timer
	}); ok {
		timer := timers.NewTimer(d)
		return timer.C(), func() { timer.Stop() }
	}
	return c.After(d), func() {}
}
