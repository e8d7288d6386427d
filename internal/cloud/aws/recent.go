package aws

import (
	"sync"
	"time"

	"karpenter/internal/cloud"
)

// maxRecent bounds the memory of launches; beyond it the oldest knowledge is given up.
const maxRecent = 20_000

// recent remembers instances that were launched so shortly ago that EC2 may not show them yet.
type recent struct {
	clock Clock
	mu    sync.Mutex
	born  map[string]time.Time
}

func newRecent(clock Clock) *recent { return &recent{clock: clock, born: map[string]time.Time{}} }

func (r *recent) add(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	if len(r.born) >= maxRecent {
		for old, at := range r.born {
			if now.Sub(at) >= settled {
				delete(r.born, old)
			}
		}
	}
	if len(r.born) < maxRecent {
		r.born[id] = now
	}
}

// absent is the error for an instance that EC2 does not show: NotFound, unless it is so young that this means nothing.
func (r *recent) absent(op, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, launched := r.born[id]
	if launched && r.clock.Now().Sub(at) < settled {
		return &cloud.Error{Class: cloud.Transient, Op: op, Reason: "InstanceNotVisibleYet"}
	}
	delete(r.born, id)
	return &cloud.Error{Class: cloud.NotFound, Op: op, Reason: "InstanceNotFound"}
}
