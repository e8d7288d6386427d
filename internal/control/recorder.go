package control

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// defaultEvery is how long an event that says the same of the same object is held back (O49).
	defaultEvery = 2 * time.Minute
	// maxRemembered bounds what the recorder remembers. Beyond it the oldest events may be told twice.
	maxRemembered = 20_000
)

// Event tells users what was decided about an object, and why.
type Event struct {
	Object client.Object
	// Warning marks what somebody should look at.
	Warning bool
	// Reason is a documented constant, Message a sentence that stays the same while the facts do.
	Reason  string
	Message string
	// Every is how long an equal event is held back; zero stands for two minutes.
	Every time.Duration
}

// EventNoCapacity on a claim, and on the pods that are planned for it, says that no offering that the claim allows is in stock.
const EventNoCapacity = "InsufficientCapacityError"

// Recorder writes events, each once in a while. A nil Recorder writes nothing.
type Recorder struct {
	sink record.EventRecorder
	now  func() time.Time

	mu    sync.Mutex
	told  map[told]time.Time // when the same may be said again
	swept time.Time
}

type told struct{ uid, reason, message string }

// NewRecorder makes a recorder that writes to sink.
func NewRecorder(sink record.EventRecorder, now func() time.Time) *Recorder {
	return &Recorder{sink: sink, now: now, told: map[told]time.Time{}}
}

// Tell writes the event unless it has been written a short while ago.
func (r *Recorder) Tell(e Event) {
	if r == nil || !r.first(e) {
		return
	}
	kind := corev1.EventTypeNormal
	if e.Warning {
		kind = corev1.EventTypeWarning
	}
	r.sink.Event(e.Object, kind, e.Reason, e.Message)
}

func (r *Recorder) first(e Event) bool {
	key := told{uid: string(e.Object.GetUID()), reason: e.Reason, message: e.Message}
	if key.uid == "" {
		key.uid = e.Object.GetNamespace() + "/" + e.Object.GetName()
	}
	every := e.Every
	if every == 0 {
		every = defaultEvery
	}
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if until, ok := r.told[key]; ok && now.Before(until) {
		return false
	}
	if len(r.told) >= maxRemembered || now.Sub(r.swept) >= defaultEvery {
		r.forget(now)
	}
	r.told[key] = now.Add(every)
	return true
}

// forget drops what may be said again anyway, or everything if that is not enough. The map is made anew, since one that was large
// stays so.
func (r *Recorder) forget(now time.Time) {
	kept := map[told]time.Time{}
	for key, until := range r.told {
		if now.Before(until) {
			kept[key] = until
		}
	}
	if len(kept) >= maxRemembered {
		kept = map[told]time.Time{}
	}
	r.told, r.swept = kept, now
}
