package aws

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// pool is where instances of one kind come from.
type pool struct {
	market, typ, zone string
	// group is the placement group and partition, if any: being full there says nothing of elsewhere.
	group string
}

// Times for which a pool that was empty is left alone: short at first, because most shortages of one type pass within a minute,
// then doubling, so that a pool which stays empty costs few calls.
const (
	firstOutage = 30 * time.Second
	mostOutage  = 10 * time.Minute
	// forgiven is how long after its end an outage still counts towards the length of the next.
	forgiven = 30 * time.Minute
)

// maxOutages bounds the memory of outages; a region has fewer pools in use than this.
const maxOutages = 50_000

// outage is a pool that was empty.
type outage struct {
	until time.Time
	last  time.Duration
}

// stock remembers what EC2 had none of. It is shared by all classes: what one learned, all know at once.
type stock struct {
	clock Clock

	mu       sync.Mutex
	pools    map[pool]outage
	spot     time.Time            // no spot at all until then
	reserved map[string]int       // instances left, by reservation
	view     atomic.Pointer[view] // what readers see
}

// view is the stock at one moment. It never changes.
type view struct {
	out      map[pool]bool
	noSpot   bool
	reserved map[string]int
	// next is when the first outage ends; the view is out of date from then on.
	next time.Time
}

func newStock(clock Clock) *stock {
	s := &stock{clock: clock, pools: map[pool]outage{}, reserved: map[string]int{}}
	s.view.Store(&view{})
	return s
}

// look returns the stock as it is now.
func (s *stock) look() *view {
	v := s.view.Load()
	if v.next.IsZero() || s.clock.Now().Before(v.next) {
		return v
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish()
	return s.view.Load()
}

// publish makes what is known visible. The caller holds the lock.
func (s *stock) publish() {
	now := s.clock.Now()
	v := &view{out: map[pool]bool{}, reserved: maps.Clone(s.reserved)}
	soonest := func(t time.Time) {
		if v.next.IsZero() || t.Before(v.next) {
			v.next = t
		}
	}
	for p, o := range s.pools {
		switch {
		case now.Before(o.until):
			v.out[p] = true
			soonest(o.until)
		case now.Sub(o.until) > forgiven:
			delete(s.pools, p)
		}
	}
	if v.noSpot = now.Before(s.spot); v.noSpot {
		soonest(s.spot)
	}
	s.view.Store(v)
}

// empty notes pools that had nothing.
func (s *stock) empty(pools ...pool) {
	s.change(func(now time.Time) (changed bool) {
		for _, p := range pools {
			o, known := s.pools[p]
			if !known && len(s.pools) >= maxOutages {
				continue
			}
			if now.Before(o.until) {
				continue // several claims of one attempt count once
			}
			o.last = min(max(2*o.last, firstOutage), mostOutage)
			o.until = now.Add(o.last)
			s.pools[p] = o
			changed = true
		}
		return changed
	})
}

// had notes pools that did have something, and forgets that they were ever empty.
func (s *stock) had(pools ...pool) {
	s.change(func(time.Time) (changed bool) {
		for _, p := range pools {
			_, known := s.pools[p]
			changed = changed || known
			delete(s.pools, p)
		}
		return changed
	})
}

// emptySpot notes that the account cannot use spot at all.
func (s *stock) emptySpot() {
	s.change(func(now time.Time) bool {
		s.spot = now.Add(mostOutage)
		return true
	})
}

// setReserved notes how many instances reservations have left.
func (s *stock) setReserved(left map[string]int) {
	s.change(func(time.Time) (changed bool) {
		for id, n := range left {
			was, known := s.reserved[id]
			changed = changed || !known || was != n
			s.reserved[id] = n
		}
		return changed
	})
}

// takeReserved notes that n instances of a reservation were used; a negative n gives back.
func (s *stock) takeReserved(id string, n int) {
	s.change(func(time.Time) bool {
		left, known := s.reserved[id]
		if known {
			s.reserved[id] = max(left-n, 0)
		}
		return known
	})
}

// change lets do change what is known. Readers get another view only if it says that something changed: every view makes every
// class's types be worked out anew.
func (s *stock) change(do func(now time.Time) (changed bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if do(s.clock.Now()) {
		s.publish()
	}
}
