package kit

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Pool is where instances of one kind come from.
type Pool struct {
	CapacityType, Type, Zone string
	// Group is the placement group and partition, if any: being full there says nothing of elsewhere.
	Group string
}

// Times for which a pool that was empty is left alone: short at first, because most shortages of one type pass within a minute,
// then doubling, so that a pool which stays empty costs few calls.
const (
	FirstOutage = 30 * time.Second
	MostOutage  = 10 * time.Minute
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

// Stock remembers what the cloud had none of. It is shared by all classes: what one learned, all know at once.
type Stock struct {
	clock Clock

	mu       sync.Mutex
	pools    map[Pool]outage
	spot     time.Time                 // no spot at all until then
	reserved map[string]int            // instances left, by reservation
	view     atomic.Pointer[StockView] // what readers see
}

// StockView is the stock at one moment. It never changes.
type StockView struct {
	Out      map[Pool]bool
	NoSpot   bool
	Reserved map[string]int
	// next is when the first outage ends; the view is out of date from then on.
	next time.Time
}

// NewStock returns one that knows of no outage.
func NewStock(clock Clock) *Stock {
	s := &Stock{clock: clock, pools: map[Pool]outage{}, reserved: map[string]int{}}
	s.view.Store(&StockView{})
	return s
}

// Look returns the stock as it is now.
func (s *Stock) Look() *StockView {
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
func (s *Stock) publish() {
	now := s.clock.Now()
	v := &StockView{Out: map[Pool]bool{}, Reserved: maps.Clone(s.reserved)}
	soonest := func(t time.Time) {
		if v.next.IsZero() || t.Before(v.next) {
			v.next = t
		}
	}
	for p, o := range s.pools {
		switch {
		case now.Before(o.until):
			v.Out[p] = true
			soonest(o.until)
		case now.Sub(o.until) > forgiven:
			delete(s.pools, p)
		}
	}
	if v.NoSpot = now.Before(s.spot); v.NoSpot {
		soonest(s.spot)
	}
	s.view.Store(v)
}

// Empty notes pools that had nothing.
func (s *Stock) Empty(pools ...Pool) {
	s.change(func(now time.Time) (changed bool) {
		for _, p := range pools {
			o, known := s.pools[p]
			if !known && len(s.pools) >= maxOutages {
				continue
			}
			if now.Before(o.until) {
				continue // several claims of one attempt count once
			}
			o.last = min(max(2*o.last, FirstOutage), MostOutage)
			o.until = now.Add(o.last)
			s.pools[p] = o
			changed = true
		}
		return changed
	})
}

// Had notes pools that did have something, and forgets that they were ever empty.
func (s *Stock) Had(pools ...Pool) {
	s.change(func(time.Time) (changed bool) {
		for _, p := range pools {
			_, known := s.pools[p]
			changed = changed || known
			delete(s.pools, p)
		}
		return changed
	})
}

// EmptySpot notes that the account cannot use spot at all.
func (s *Stock) EmptySpot() {
	s.change(func(now time.Time) bool {
		s.spot = now.Add(MostOutage)
		return true
	})
}

// SetReserved notes how many instances reservations have left.
func (s *Stock) SetReserved(left map[string]int) {
	s.change(func(time.Time) (changed bool) {
		for id, n := range left {
			was, known := s.reserved[id]
			changed = changed || !known || was != n
			s.reserved[id] = n
		}
		return changed
	})
}

// TakeReserved notes that n instances of a reservation were used; a negative n gives back.
func (s *Stock) TakeReserved(id string, n int) {
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
func (s *Stock) change(do func(now time.Time) (changed bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if do(s.clock.Now()) {
		s.publish()
	}
}

// Outage is a type in a zone that is left alone until a time, because the cloud had none of it.
type Outage struct {
	Type, Zone, CapacityType string
	Until                    time.Time
}

// Outages lists the pools that are left alone now, by type, zone and capacity type.
func (s *Stock) Outages() (out []Outage) {
	now := s.clock.Now()
	s.mu.Lock()
	for at, o := range s.pools {
		if now.Before(o.until) {
			out = append(out, Outage{Type: at.Type, Zone: at.Zone, CapacityType: at.CapacityType, Until: o.until})
		}
	}
	s.mu.Unlock()
	slices.SortFunc(out, func(a, b Outage) int {
		return cmp.Or(strings.Compare(a.Type, b.Type), strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType), a.Until.Compare(b.Until))
	})
	return out
}
