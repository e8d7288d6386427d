package drain

import (
	"context"
	"sync"
	"time"

	"karpenter/cloud"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
	"karpenter/internal/wait"
)

const (
	// pollEvery is how often an instance that is ending is looked at (L21), and lookEvery one that may be lost.
	pollEvery = 5 * time.Second
	lookEvery = 15 * time.Second
	// listApart is the least time between two listings of all instances, which all that wait for proof share.
	listApart = 2 * time.Second
	// cloudTimeout bounds one call, so that a cloud which does not answer holds a reconciler only so long.
	cloudTimeout = 15 * time.Second
	// forgetAfter is how long what is known of an instance is kept after the last question about it.
	forgetAfter = 10 * time.Minute
)

// ender ends instances and says when they are proven gone. Nodes and claims share it, so that what is proven to one need not be
// proven to the other again.
type ender struct {
	fleet     cloud.Fleet
	clock     control.Clock
	inventory *inventory

	mu        sync.Mutex
	instances map[string]*instance
	swept     time.Time
}

// instance is what has been seen of one instance that is to end.
type instance struct {
	life.Absence
	gone          bool
	looked, asked time.Time // when the cloud, and when we were asked about it last
}

// outcome is how far the end of an instance has come.
type outcome struct {
	// Gone means that it is proven gone, Accepted that the cloud has agreed to end it.
	Gone, Accepted bool
	// Again is after how long to ask again.
	Again time.Duration
}

func newEnder(fleet cloud.Fleet, clock control.Clock) *ender {
	return &ender{fleet: fleet, clock: clock, inventory: &inventory{fleet: fleet, clock: clock}, instances: map[string]*instance{}}
}

// End asks the cloud to end the instance, again and again until it is proven gone. asked says whether the cloud is known to have
// agreed before.
func (e *ender) End(ctx context.Context, id string, asked bool) (outcome, error) {
	m := e.instance(id)
	if m.gone {
		return outcome{Gone: true}, nil
	}
	ctx, cancel := wait.Timeout(ctx, e.clock, cloudTimeout)
	defer cancel()
	err := e.fleet.Delete(ctx, id)
	if err != nil && cloud.ClassOf(err) != cloud.NotFound {
		return outcome{}, err
	}
	m = e.note(id, err, asked || err == nil)
	if err == nil {
		return outcome{Accepted: true, Again: pollEvery}, nil
	}
	return e.prove(ctx, id, m)
}

// Lost looks whether an instance that nobody has asked to end is proven gone. A cloud that does not answer proves nothing.
func (e *ender) Lost(ctx context.Context, id string) outcome {
	m := e.instance(id)
	now := e.clock.Now()
	switch {
	case m.gone:
		return outcome{Gone: true}
	case now.Before(m.looked.Add(lookEvery)):
		return outcome{Again: m.looked.Add(lookEvery).Sub(now)}
	}
	ctx, cancel := wait.Timeout(ctx, e.clock, cloudTimeout)
	defer cancel()
	_, err := e.fleet.Get(ctx, id)
	if err != nil && cloud.ClassOf(err) != cloud.NotFound {
		return outcome{Again: lookEvery}
	}
	m = e.note(id, err, m.Asked)
	if err == nil {
		return outcome{Again: lookEvery}
	}
	result, err := e.prove(ctx, id, m)
	if err != nil {
		return outcome{Again: lookEvery}
	}
	return result
}

// prove looks for an instance that the lookup by id has missed among all instances, once that can prove anything.
func (e *ender) prove(ctx context.Context, id string, m instance) (outcome, error) {
	if m.gone {
		return outcome{Gone: true}, nil
	}
	now := e.clock.Now()
	if from := m.ListFrom(); now.Before(from) {
		return outcome{Again: min(pollEvery, from.Sub(now))}, nil
	}
	listing, err := e.inventory.since(ctx, m.ListFrom())
	if err != nil {
		return outcome{}, err
	}
	if listing == nil {
		return outcome{Again: listApart}, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	known := e.instances[id]
	if known == nil {
		return outcome{Again: pollEvery}, nil
	}
	if listing.byID[id] != nil {
		known.Missing, known.Listed = time.Time{}, time.Time{}
		return outcome{Again: pollEvery}, nil
	}
	known.Listed, known.Empty = listing.begun, len(listing.byID) == 0
	known.gone = known.Proven()
	return outcome{Gone: known.gone, Again: pollEvery}, nil
}

// instance is a copy of what is known of an instance.
func (e *ender) instance(id string) instance {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.clock.Now()
	e.sweep(now)
	m := e.instances[id]
	if m == nil {
		m = &instance{}
		e.instances[id] = m
	}
	m.asked = now
	return *m
}

// note records the answer to a lookup by id: nil if the instance is there, else NotFound.
func (e *ender) note(id string, err error, asked bool) instance {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.instances[id]
	if m == nil {
		m = &instance{}
		e.instances[id] = m
	}
	now := e.clock.Now()
	m.looked, m.asked = now, now
	m.Asked = m.Asked || asked
	switch {
	case err == nil:
		m.Missing, m.Listed = time.Time{}, time.Time{}
	case cloud.ReasonOf(err) == cloud.ReasonTerminated:
		m.gone = true
	case m.Missing.IsZero():
		m.Missing = now
	}
	return *m
}

// sweep forgets instances that nobody has asked about for long. The caller holds the lock.
func (e *ender) sweep(now time.Time) {
	if now.Sub(e.swept) < forgetAfter {
		return
	}
	e.swept = now
	for id, m := range e.instances {
		if now.Sub(m.asked) >= forgetAfter {
			delete(e.instances, id)
		}
	}
}

// inventory lists all instances of the cluster, for everybody who waits for such a list together.
type inventory struct {
	fleet cloud.Fleet
	clock control.Clock

	calling sync.Mutex // held during a call; nobody waits for it
	mu      sync.Mutex
	last    *listing
}

// listing is a list of all instances that was begun at some time.
type listing struct {
	begun time.Time
	byID  map[string]*cloud.Instance
}

// since returns a listing that began at a time, which has come, or later; nil if there is none yet and another one may not
// begin now.
func (c *inventory) since(ctx context.Context, from time.Time) (*listing, error) {
	if last := c.latest(); last != nil && !last.begun.Before(from) {
		return last, nil
	}
	if !c.calling.TryLock() {
		return nil, nil
	}
	defer c.calling.Unlock()
	begun := c.clock.Now()
	if last := c.latest(); last != nil && begun.Sub(last.begun) < listApart {
		return nil, nil
	}
	list, err := c.fleet.List(ctx)
	if err != nil {
		return nil, err
	}
	found := &listing{begun: begun, byID: make(map[string]*cloud.Instance, len(list))}
	for _, in := range list {
		found.byID[in.ID] = in
	}
	c.mu.Lock()
	c.last = found
	c.mu.Unlock()
	return found, nil
}

func (c *inventory) latest() *listing {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}
