package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/state/toworld"
	"karpenter/internal/state/trim"
)

// Assume counts claims that have just been created, or seen by other ways than a watch, as nodes in flight until the API shows them, or for
// some minutes: then the API is right.
func (m *Mirror) Assume(claims ...*v1.NodeClaim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	until := m.clock().Add(assumeFor)
	for _, c := range claims {
		if !m.serves(c.Spec.NodeClassRef) {
			continue // it is another provider's
		}
		if e := m.claims[c.Name]; e != nil && e.obj != nil {
			if m.assumed[c.Name] && sameUID(e.obj, c) {
				e.assumed = until
			}
			continue // it has been seen already
		}
		if _, went := m.gone[c.UID]; went && c.UID != "" {
			continue // it has been seen to come and go already
		}
		e := m.claims[c.Name]
		if e == nil {
			e = &claimEntry{name: c.Name}
			m.claims[c.Name] = e
		}
		e.assumed = until
		m.assumed[c.Name] = true
		m.setClaim(e, cutDown(c.DeepCopy()))
		m.wakeBy(until)
	}
}

// Refute says that a claim which was assumed does not exist. One that has been shown since stays.
func (m *Mirror) Refute(claim string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unassume(claim)
}

// unassume ends an assumption.
func (m *Mirror) unassume(claim string) {
	if e := m.claims[claim]; m.assumed[claim] {
		delete(m.assumed, claim)
		e.assumed = time.Time{}
		m.setClaim(e, nil)
	}
}

// Leaving says that a claim is about to be deleted: its node is no target any more and its pods need a node, until the claim
// itself shows it, or for a minute.
func (m *Mirror) Leaving(claim string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	until := m.clock().Add(leavingFor)
	m.leaving[claim] = until
	m.wakeBy(until)
	m.touchName(claim)
}

func (m *Mirror) isLeaving(claim string) bool {
	_, ok := m.leaving[claim]
	return ok
}

// touchName looks again at a claim and at what it may be joined with.
func (m *Mirror) touchName(claim string) {
	if e := m.claims[claim]; e != nil && e.obj != nil {
		m.touchJoined(e)
		m.touchClaim(e)
	}
}

// Wrote shows the mirror what the API server answered to a write, so that no decision is made on what was there before: older
// versions that an informer still delivers are ignored. An object that the mirror does not know is left to the informer, as it
// may have been seen to go already.
func (m *Mirror) Wrote(obj Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := false
	switch o := obj.(type) {
	case *corev1.Pod:
		e := m.pods[toworld.Space(o)][o.Name]
		known = e != nil && !e.gone && e.pod != nil && sameUID(e.pod, o)
	case *corev1.Node:
		h := m.hosts[o.Name]
		known = h != nil && h.node != nil && sameUID(h.node, o)
	case *v1.NodePool:
		e := m.pools[o.Name]
		known = e != nil && sameUID(e.obj, o)
	case *v1.NodeClaim:
		m.wroteClaim(o)
	}
	if !known {
		return
	}
	if copied, ok := obj.DeepCopyObject().(Object); ok {
		m.put(cutDown(copied))
	}
}

// cutDown is an object without what nobody reads; the copies of what we have written last only until the informer shows them, and
// take no more memory than its own.
func cutDown[T Object](obj T) T {
	cut, err := trim.Object(obj)
	if out, ok := cut.(T); ok && err == nil {
		return out
	}
	return obj
}

// wroteClaim keeps a claim assumed that was: a write is no proof that the informer will show it.
func (m *Mirror) wroteClaim(c *v1.NodeClaim) {
	e := m.claims[c.Name]
	if e == nil || e.obj == nil || !sameUID(e.obj, c) || outdated(e.obj, c) {
		return
	}
	if c.DeletionTimestamp != nil {
		delete(m.leaving, c.Name)
	}
	m.setClaim(e, cutDown(c.DeepCopy()))
}

// wakeBy makes the next view after t look at what time changes.
func (m *Mirror) wakeBy(t time.Time) {
	if m.wakeAt.IsZero() || t.Before(m.wakeAt) {
		m.wakeAt = t
	}
}

// expire ends assumptions whose time is over and looks again at pods that time changes.
func (m *Mirror) expire() {
	if m.wakeAt.IsZero() || m.now.Before(m.wakeAt) {
		return
	}
	m.wakeAt = time.Time{}
	over := func(t time.Time) bool {
		if !m.now.Before(t) {
			return true
		}
		m.wakeBy(t)
		return false
	}
	for name := range m.assumed {
		if over(m.claims[name].assumed) {
			m.unassume(name)
		}
	}
	for name, until := range m.leaving {
		if over(until) {
			delete(m.leaving, name)
			m.touchName(name)
		}
	}
	for uid, until := range m.gone {
		if over(until) {
			delete(m.gone, uid)
		}
	}
	for e, t := range m.wakes {
		if over(t) {
			delete(m.wakes, e)
			m.enqueue(e, rejoin)
		}
	}
}
