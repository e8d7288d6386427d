package kit

import (
	"sync"
	"time"

	"karpenter/cloud"
)

// maxRecent bounds the memory of launches; beyond it the oldest knowledge is given up.
const maxRecent = 20_000

// Recent remembers instances that were launched so shortly ago that the cloud may not show them yet.
type Recent struct {
	clock Clock
	// settled is the age from which an instance shows up for certain.
	settled time.Duration
	mu      sync.Mutex
	born    map[string]time.Time
}

// NewRecent returns one for a cloud that shows every instance of the age settled.
func NewRecent(clock Clock, settled time.Duration) *Recent {
	return &Recent{clock: clock, settled: settled, born: map[string]time.Time{}}
}

// Add notes a launch.
func (r *Recent) Add(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	if len(r.born) >= maxRecent {
		for old, at := range r.born {
			if now.Sub(at) >= r.settled {
				delete(r.born, old)
			}
		}
	}
	if len(r.born) < maxRecent {
		r.born[id] = now
	}
}

// Absent is the error for an instance that the cloud does not show: NotFound, unless it is so young that this means nothing.
func (r *Recent) Absent(op, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, launched := r.born[id]
	if launched && r.clock.Now().Sub(at) < r.settled {
		return &cloud.Error{Class: cloud.Transient, Op: op, Reason: "InstanceNotVisibleYet"}
	}
	delete(r.born, id)
	return &cloud.Error{Class: cloud.NotFound, Op: op, Reason: "InstanceNotFound"}
}
