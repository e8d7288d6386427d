package simaws

import (
	"sync"
	"time"
)

// Manual is a clock that stands still until it is moved. It is what tests and
// recorded runs use.
type Manual struct {
	mu     sync.Mutex
	now    time.Time
	alarms []alarm
}

type alarm struct {
	at time.Time
	ch chan time.Time
}

// NewManual makes a clock that shows the given time.
func NewManual(start time.Time) *Manual { return &Manual{now: start} }

// Now is the time the clock was last set to.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// After delivers when the clock has been moved past d.
func (m *Manual) After(d time.Duration) <-chan time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	ch := make(chan time.Time, 1)
	if d <= 0 {
		ch <- m.now
		return ch
	}
	m.alarms = append(m.alarms, alarm{m.now.Add(d), ch})
	return ch
}

// Advance moves the clock and rings what is due.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
	kept := m.alarms[:0]
	for _, a := range m.alarms {
		if a.at.After(m.now) {
			kept = append(kept, a)
			continue
		}
		a.ch <- m.now
	}
	m.alarms = kept
}
