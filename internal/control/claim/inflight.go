package claim

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/engine/life"
)

const (
	// gather is how long a batch of unknown size waits after its newest claim was first seen, so that claims which are being
	// created at this moment are launched together with it. patience is the same for one that is known to lack some: their
	// creation may have failed.
	gather   = 200 * time.Millisecond
	patience = 5 * time.Second
	// busyWait is when a claim is looked at again whose batch is being launched.
	busyWait = 2 * time.Second
	// maxInFlight bounds the memory of batches; idle ones are forgotten beyond it.
	maxInFlight = 10_000
	// visible is how long after a launch of which nothing is known, at the latest, the cloud shows what it has made.
	visible = 2 * time.Minute
	// idle is how long after its last attempt a batch may be forgotten.
	idle = time.Hour
)

// inFlight is the launches in flight: it remembers which batches are being launched, what they wait for, and instances that are not on record yet. All of it
// can be lost at any moment: a repeated launch finds the same instances.
type inFlight struct {
	mu      sync.Mutex
	batches map[string]*inFlightBatch
	// held are instances by the claim that has got them, until the claim is seen with its instance on record (L3).
	held map[types.UID]*cloud.Instance
	// claims maps names to UIDs of held instances, for claims that are gone.
	claims map[string]types.UID
	// ending are claims, by name, that somebody is about to let go: nothing is launched for them any more.
	ending map[string]types.UID
}

type inFlightBatch struct {
	seen     map[types.UID]bool
	newest   time.Time // when a claim of it was first seen last
	busy     bool
	failures int
	next     time.Time // when it may be tried again
	doubt    time.Time // when an attempt ended last of which it is not known what it made
}

// start says whether the batch of a claim may be launched now, and if so keeps others from it until finish; otherwise how long to
// wait. A batch waits for more claims until it has seen none for as long as window says.
func (f *inFlight) start(batch string, uid types.UID, window time.Duration, now time.Time) (wait time.Duration, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.batch(batch, now)
	if !b.seen[uid] {
		b.seen[uid] = true
		b.newest = now
	}
	switch ripe := b.newest.Add(window); {
	case b.busy:
		return busyWait, false
	case now.Before(b.next):
		return b.next.Sub(now), false
	case now.Before(ripe):
		return ripe.Sub(now), false
	}
	b.busy = true
	return 0, true
}

func (f *inFlight) batch(batch string, now time.Time) *inFlightBatch {
	if f.batches == nil {
		f.batches = map[string]*inFlightBatch{}
	}
	b := f.batches[batch]
	if b != nil {
		return b
	}
	if len(f.batches) >= maxInFlight {
		for id, old := range f.batches {
			if !old.busy && now.Sub(old.newest) >= idle && now.Sub(old.next) >= idle {
				delete(f.batches, id)
			}
		}
	}
	b = &inFlightBatch{seen: map[types.UID]bool{}}
	f.batches[batch] = b
	return b
}

// finish ends an attempt. worst is the class of failure that has it tried again, or empty; it returns after how long.
func (f *inFlight) finish(batch string, worst cloud.Class, now time.Time) (again time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.batch(batch, now)
	b.busy = false
	if worst == "" {
		delete(f.batches, batch)
		return 0
	}
	if worst == cloud.Unknown {
		b.doubt = now
	}
	b.failures++
	r := worst.Response()
	again = life.Backoff(r.First, r.Most, b.failures)
	b.next = now.Add(again)
	return again
}

// end keeps a claim from being launched from now on, unless its batch is being launched at this moment; then ok is false. It returns the
// instance that the claim has got, or else from when on a list of all instances shows whether it has one; zero for any.
func (f *inFlight) end(claim *karpv1.NodeClaim) (in *cloud.Instance, from time.Time, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	b := f.batches[cloud.BatchID(claim)]
	if b != nil && b.busy {
		return nil, from, false
	}
	if f.ending == nil {
		f.ending = map[string]types.UID{}
	}
	f.ending[claim.Name] = claim.UID
	if b != nil && !b.doubt.IsZero() {
		from = b.doubt.Add(visible)
	}
	return f.held[claim.UID], from, true
}

// stays says whether nobody is about to let the claim go.
func (f *inFlight) stays(claim *karpv1.NodeClaim) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ending[claim.Name] != claim.UID
}

// doubt notes that an attempt at the batch may have made instances that nobody knows of.
func (f *inFlight) doubt(batch string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.batch(batch, now).doubt = now
}

// hold keeps the instance that a claim has got.
func (f *inFlight) hold(name string, uid types.UID, in *cloud.Instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held == nil {
		f.held, f.claims = map[types.UID]*cloud.Instance{}, map[string]types.UID{}
	}
	f.held[uid] = in
	f.claims[name] = uid
}

// instance is the instance that a claim has got and that is not known to be on record, or nil.
func (f *inFlight) instance(uid types.UID) *cloud.Instance {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held[uid]
}

// forget drops the instance of a claim that is gone or has it on record.
func (f *inFlight) forget(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ending, name)
	if uid, ok := f.claims[name]; ok {
		delete(f.held, uid)
		delete(f.claims, name)
	}
}
