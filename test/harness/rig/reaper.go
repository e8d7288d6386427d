package rig

import (
	"context"
	"errors"
	"sync"
)

// ErrKilled is what a process sees that is no more.
var ErrKilled = errors.New("the process has ended")

// Reaper ends a process at one of its steps: before it is done, or after it has been and before anybody hears of it.
type Reaper struct {
	// At is how many steps the process lives for, and After whether the last of them still happens.
	At    int
	After bool
	// Kill ends what the process has under way.
	Kill context.CancelFunc

	mu    sync.Mutex
	dead  bool
	trail string
}

// Step is told of every step of the process before it happens and after.
func (r *Reaper) Step(what string, done bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return ErrKilled
	}
	if done != r.After {
		return nil
	}
	if r.At--; r.At != -1 {
		return nil
	}
	r.dead, r.trail = true, what
	r.Kill()
	return ErrKilled
}

// Write is Step for a client's writes.
func (r *Reaper) Write(w Write, after bool) error { return r.Step(w.String(), after) }

// Ended says whether the process has ended, and at which step.
func (r *Reaper) Ended() (at string, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trail, r.dead
}
