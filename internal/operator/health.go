package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"karpenter/internal/control"
)

// wedged is how long one piece of work, or the pause between two heartbeats, may last. Nothing that a controller does at once
// takes this long unless it is stuck: calls to the cloud and the API server have deadlines of seconds.
const wedged = 5 * time.Minute

// Watchdog notices controllers that have stopped making progress, so that the process is started anew instead of looking
// well for days.
type Watchdog struct {
	clock clock.PassiveClock
	// reconciles are the metrics that tell for how long each controller has been at one object.
	reconciles prometheus.Gatherer

	mu sync.Mutex
	// since is when each piece of work began that is not finished yet; beats when each heart beat last.
	since map[*work]time.Time
	beats map[string]time.Time
}

type work struct{ name string }

// NewWatchdog watches from now on. reconciles may be nil.
func NewWatchdog(c clock.PassiveClock, reconciles prometheus.Gatherer) *Watchdog {
	return &Watchdog{clock: c, reconciles: reconciles, since: map[*work]time.Time{}, beats: map[string]time.Time{}}
}

// Beat says that a loop which never rests for long is alive. From the first beat on the next is expected.
func (w *Watchdog) Beat(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beats[name] = w.clock.Now()
}

// Rest says that a loop has ended for good, as loops do when the process does.
func (w *Watchdog) Rest(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.beats, name)
}

// Guard has each round of a loop watched. It may rest between two rounds for as long as it likes.
func (w *Watchdog) Guard(l *control.Loop) *control.Loop {
	do := l.Do
	l.Do = func(ctx context.Context) (time.Duration, error) {
		defer w.begin(l.Name)()
		return do(ctx)
	}
	return l
}

func (w *Watchdog) begin(name string) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	id := &work{name}
	w.since[id] = w.clock.Now()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.since, id)
	}
}

// Check returns an error that names every controller that is stuck.
func (w *Watchdog) Check() error {
	var stuck []string
	for name, lasted := range w.longest() {
		if lasted > wedged {
			stuck = append(stuck, fmt.Sprintf("%s: no progress for %v", name, lasted.Round(time.Second)))
		}
	}
	if len(stuck) == 0 {
		return nil
	}
	slices.Sort(stuck)
	return errors.New(strings.Join(stuck, "; "))
}

// longest is for how long each controller has been at what it does now.
func (w *Watchdog) longest() map[string]time.Duration {
	found := reconciling(w.reconciles)
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Now()
	for id, since := range w.since {
		found[id.name] = max(found[id.name], now.Sub(since))
	}
	for name, beat := range w.beats {
		found[name] = max(found[name], now.Sub(beat))
	}
	return found
}

// reconciling reads the metric that every queue of controller-runtime keeps of the object it is at.
func reconciling(from prometheus.Gatherer) map[string]time.Duration {
	found := map[string]time.Duration{}
	if from == nil {
		return found
	}
	families, err := from.Gather()
	if err != nil {
		return found // the endpoint for metrics says so
	}
	for _, family := range families {
		if family.GetName() != "workqueue_longest_running_processor_seconds" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "name" {
					found[label.GetValue()] = time.Duration(m.GetGauge().GetValue() * float64(time.Second))
				}
			}
		}
	}
	return found
}

// readiness is what must have come true once before the process is ready. It starts with everything missing.
type readiness struct {
	mu      sync.Mutex
	missing map[string]string
}

func newReadiness(parts ...string) *readiness {
	r := &readiness{missing: map[string]string{}}
	for _, part := range parts {
		r.missing[part] = "not yet"
	}
	return r
}

// waiting says why a part is not there; done that it is.
func (r *readiness) waiting(part string, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.missing[part] = why.Error()
}

func (r *readiness) done(part string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.missing, part)
}

// Check returns an error that says what is missing.
func (r *readiness) Check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.missing) == 0 {
		return nil
	}
	var list []string
	for part, why := range r.missing {
		list = append(list, part+": "+why)
	}
	slices.Sort(list)
	return errors.New(strings.Join(list, "; "))
}
