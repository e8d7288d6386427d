package sim

import (
	"container/heap"
	"context"
	"iter"
	"math/rand/v2"
	"time"

	"k8s.io/utils/clock"

	"karpenter/internal/wait"
)

// loop is simulated time. Tasks take turns: one runs until it waits, and when all wait the time moves on to the next moment that
// somebody waits for. Which of those that can go on goes on first is drawn.
type loop struct {
	now    time.Time
	draw   *rand.Rand
	tasks  []*task // in the order in which they were started
	idle   []*task // have ended, and can be something else
	runs   *task
	alarms alarms
	calls  calls
	called int
	steps  int
}

// task is something that runs in turns.
type task struct {
	do   func() // nil when it has ended
	next func() (struct{}, bool)
	stop func()
	// yield hands the turn back.
	yield func(struct{}) bool
	// ready says whether the task can go on; until is when it goes on in any case, if that is not zero.
	ready func() bool
	until time.Time
}

func newLoop(start time.Time, draw *rand.Rand) *loop { return &loop{now: start, draw: draw} }

// start adds a task.
func (l *loop) start(do func()) {
	if last := len(l.idle) - 1; last >= 0 { // its stack is large enough already
		t := l.idle[last]
		l.idle, t.do = l.idle[:last], do
		l.tasks = append(l.tasks, t)
		return
	}
	t := &task{do: do}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		for t.do != nil {
			t.do()
			t.do = nil
			yield(struct{}{})
		}
	})
	l.tasks = append(l.tasks, t)
}

// close ends tasks that nobody needs any more.
func (l *loop) close() {
	for _, t := range l.idle {
		t.stop()
	}
	l.idle = nil
}

// at has the tasks asked whether they can go on at a time.
func (l *loop) at(when time.Time) { heap.Push(&l.alarms, when) }

// call has something done at a time, between turns.
func (l *loop) call(at time.Time, do func()) (stop func()) {
	l.called++
	c := &call{at, l.called, do}
	if at.Before(l.now) {
		c.at = l.now
	}
	heap.Push(&l.calls, c)
	return func() { c.do = nil }
}

// await has the running task wait.
func (l *loop) await(d time.Duration, ready func() bool) bool {
	if ready() {
		return true
	}
	t := l.runs
	if t == nil {
		panic("something waits that is no task: it would wait for ever")
	}
	t.ready, t.until = ready, time.Time{}
	if d >= 0 {
		t.until = l.now.Add(d)
		l.at(t.until)
	}
	t.yield(struct{}{})
	was := t.ready == nil // ready has said so
	t.ready = nil
	return was
}

// turn gives one of the tasks that can go on a turn. It returns false if none can.
func (l *loop) turn() bool {
	if len(l.tasks) == 0 {
		return false
	}
	first := l.draw.IntN(len(l.tasks))
	for i := range l.tasks {
		at := (first + i) % len(l.tasks)
		t := l.tasks[at]
		if t.ready != nil {
			switch {
			case t.ready():
				t.ready = nil
			case !t.until.IsZero() && !l.now.Before(t.until):
			default:
				continue
			}
		}
		l.steps++
		before := l.runs
		l.runs = t
		_, more := t.next()
		l.runs = before
		if !more || t.do == nil {
			if more {
				l.idle = append(l.idle, t)
			}
			for j := range l.tasks { // others may have been started meanwhile
				if l.tasks[j] == t {
					l.tasks = append(l.tasks[:j], l.tasks[j+1:]...)
					break
				}
			}
		}
		return true
	}
	return false
}

// advance moves the time on to the next alarm, if it is not after the end. It returns false if there is none.
func (l *loop) advance(end time.Time) bool {
	for len(l.alarms) > 0 && !l.alarms[0].After(l.now) {
		heap.Pop(&l.alarms)
	}
	for len(l.calls) > 0 && l.calls[0].do == nil {
		heap.Pop(&l.calls)
	}
	next := end
	if len(l.alarms) > 0 && l.alarms[0].Before(next) {
		next = l.alarms[0]
	}
	if len(l.calls) > 0 && l.calls[0].at.Before(next) {
		next = l.calls[0].at
	}
	any := len(l.alarms) > 0 && !l.alarms[0].After(next)
	for l.now = next; len(l.calls) > 0 && !l.calls[0].at.After(next); {
		if c := heap.Pop(&l.calls).(*call); c.do != nil {
			c.do()
			any = true
		}
	}
	return any
}

// call is something that is done at a time.
type call struct {
	at time.Time
	n  int
	do func() // nil once it is called off
}

// calls is a heap by time, then by when they were made.
type calls []*call

func (c calls) Len() int { return len(c) }
func (c calls) Less(i, j int) bool {
	return c[i].at.Before(c[j].at) || c[i].at.Equal(c[j].at) && c[i].n < c[j].n
}
func (c calls) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *calls) Push(x any)   { *c = append(*c, x.(*call)) }
func (c *calls) Pop() any {
	last := len(*c) - 1
	x := (*c)[last]
	*c = (*c)[:last]
	return x
}

// alarms is a heap of times.
type alarms []time.Time

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].Before(a[j]) }
func (a alarms) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *alarms) Push(x any)        { *a = append(*a, x.(time.Time)) }
func (a *alarms) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	*a = (*a)[:last]
	return x
}

// simClock is the time of a loop as one process sees it.
type simClock struct {
	*loop
	queues *queues
}

var (
	_ wait.Scheduler   = simClock{}
	_ clock.WithTicker = simClock{}
)

// Now implements clock.Clock.
func (c simClock) Now() time.Time { return c.loop.now }

// Since implements clock.Clock.
func (c simClock) Since(t time.Time) time.Duration { return c.loop.now.Sub(t) }

// Await implements wait.Scheduler.
func (c simClock) Await(d time.Duration, ready func() bool) bool { return c.loop.await(d, ready) }

// Go implements wait.Scheduler.
func (c simClock) Go(do func()) { c.loop.start(do) }

// Wake implements wait.Scheduler.
func (c simClock) Wake(at time.Time) { c.loop.at(at) }

// Call implements wait.Scheduler.
func (c simClock) Call(at time.Time, do func()) (stop func()) { return c.loop.call(at, do) }

// Made implements wait.Scheduler.
func (c simClock) Made(queue any) { c.queues.made(queue) }

// After implements clock.Clock.
func (c simClock) After(d time.Duration) <-chan time.Time { return c.NewTimer(d).C() }

// Sleep implements clock.Clock.
func (c simClock) Sleep(d time.Duration) { wait.For(context.Background(), c, d) }

// Tick implements clock.Clock.
func (c simClock) Tick(time.Duration) <-chan time.Time { panic("nothing ticks in simulated time") }

// NewTicker implements clock.WithTicker.
func (c simClock) NewTicker(time.Duration) clock.Ticker { panic("nothing ticks in simulated time") }

// NewTimer implements clock.Clock. Its channel is read by those that do not wait through package wait, which is none of ours: it is for
// libraries that look into it now and then.
func (c simClock) NewTimer(d time.Duration) clock.Timer {
	t := &timer{c: make(chan time.Time, 1)}
	c.loop.start(func() {
		if !c.loop.await(max(0, d), func() bool { return t.stopped }) {
			t.c <- c.loop.now
			t.fired = true
		}
	})
	return t
}

type timer struct {
	c              chan time.Time
	stopped, fired bool
}

// C implements clock.Timer.
func (t *timer) C() <-chan time.Time { return t.c }

// Stop implements clock.Timer.
func (t *timer) Stop() bool {
	was := !t.stopped && !t.fired
	t.stopped = true
	return was
}

// Reset implements clock.Timer.
func (t *timer) Reset(time.Duration) bool { panic("timers are not set again in simulated time") }
