package provision

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"karpenter/internal/control"
	"karpenter/internal/wait"
)

// window is the time in which triggers are gathered: it opens with the first one, stays open for idle after each one that is
// new to it, and for no longer than most. It never ends early, not even for a single pod: kube-scheduler gives up on the
// replicas of a workload one after another, and nodes for the first few of them would cost more than one for all.
type window struct {
	idle, most time.Duration

	opened, last time.Time
	seen         map[types.UID]bool
	announced    bool // that it closes soon, unless something new comes
}

// add enters a trigger and says whether it has opened the window. What comes after the window has closed goes with it all the
// same: whoever takes the window looks at the cluster afterwards.
func (w *window) add(uid types.UID, now time.Time) (opens bool) {
	closes, open := w.closes()
	switch {
	case !open:
		w.opened, w.last, w.seen, w.announced = now, now, map[types.UID]bool{uid: true}, false
		return true
	case now.Before(closes) && !w.seen[uid]:
		w.last, w.announced = now, false
		w.seen[uid] = true
	}
	return false
}

// closes is when the window ends, unless something new comes; open is false if it has not begun.
func (w *window) closes() (at time.Time, open bool) {
	if w.seen == nil {
		return time.Time{}, false
	}
	at = w.last.Add(w.idle)
	if last := w.opened.Add(w.most); last.Before(at) {
		at = last
	}
	return at, true
}

const (
	// holdStep is how soon a window that is held open is looked at again.
	holdStep = 50 * time.Millisecond
	// soonStep is how long before a window's end it is announced.
	soonStep = 100 * time.Millisecond
)

// Batcher gathers triggers so that pods which come together are planned together (P4). A trigger that comes while a pass
// runs opens the next window there and then, so none is lost and none waits for longer than the window (W2).
type Batcher struct {
	// Hold, if any, keeps a window open that nothing new has come to, within the longest time that a window may take.
	Hold func(now time.Time) bool
	// Soon, if any, is called by Wait when a window is about to close.
	Soon func(ctx context.Context)

	clock control.Clock

	mu     sync.Mutex
	window window
	opened chan struct{}
}

// NewBatcher is a batcher whose windows stay open for idle after each new trigger, and for no longer than most.
func NewBatcher(clock control.Clock, idle, most time.Duration) *Batcher {
	return &Batcher{clock: clock, window: window{idle: idle, most: most}, opened: make(chan struct{}, 1)}
}

// Trigger asks for a pass on behalf of an object. It never blocks.
func (b *Batcher) Trigger(uid types.UID) {
	b.mu.Lock()
	opens := b.window.add(uid, b.clock.Now())
	b.mu.Unlock()
	b.tell(opens)
}

// Remind asks for a pass on behalf of an object that has asked before. It opens a window but keeps none open: the scheduler
// looks at every pod that waits whenever a node comes, and those that are new must not wait longer for that.
func (b *Batcher) Remind(uid types.UID) {
	b.mu.Lock()
	_, open := b.window.closes()
	if !open {
		b.window.add(uid, b.clock.Now())
	}
	b.mu.Unlock()
	b.tell(!open)
}

// Clear forgets what has been asked for so far.
func (b *Batcher) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.window.seen = nil
}

// tell wakes the waiter when a window has opened.
func (b *Batcher) tell(opens bool) {
	if !opens {
		return
	}
	select {
	case b.opened <- struct{}{}:
	default: // the waiter has not taken note of an earlier window yet, and will look
	}
}

// Wait returns true when a window has closed, and takes it. It returns false when no window has opened for as long as
// patience, and when the context ends.
func (b *Batcher) Wait(ctx context.Context, patience time.Duration) bool {
	giveUp := b.clock.Now().Add(patience)
	for {
		left, state := b.look(giveUp)
		switch state {
		case closed, idle:
			return state == closed
		case closing:
			b.Soon(ctx)
			continue
		}
		if wait.Receive(ctx, b.clock, left, b.opened); ctx.Err() != nil {
			return false
		}
	}
}

type batchState int

const (
	waiting batchState = iota
	closing
	closed
	idle
)

// look takes the window if it has closed, and otherwise says for how long to wait.
func (b *Batcher) look(giveUp time.Time) (time.Duration, batchState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	at, open := b.window.closes()
	last := b.window.opened.Add(b.window.most)
	switch {
	case open && !now.Before(at) && now.Before(last) && b.Hold != nil && b.Hold(now):
		return min(holdStep, last.Sub(now)), waiting
	case open && !now.Before(at):
		b.window.seen = nil
		return 0, closed
	case open && b.Soon != nil && !b.window.announced:
		if wait := at.Sub(now) - soonStep; wait > 0 {
			return wait, waiting
		}
		b.window.announced = true
		return 0, closing
	case open:
		return at.Sub(now), waiting
	case !now.Before(giveUp):
		return 0, idle
	}
	return giveUp.Sub(now), waiting
}
