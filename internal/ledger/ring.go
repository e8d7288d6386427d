package ledger

import (
	"slices"
	"sync"
	"time"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/model"
)

const (
	// DefaultSize is how many entries are kept in memory.
	DefaultSize = 2000
	// maxWeight bounds the names that all entries together hold, pods above all: that many take some 30 MiB.
	maxWeight = 250_000
)

// Ledger keeps the latest entries. A nil ledger keeps nothing; all methods are safe for concurrent use.
type Ledger struct {
	now     func() time.Time
	process string
	size    int

	mu      sync.Mutex
	entries []*Entry // in order of ID; an entry is replaced, never changed
	weight  int      // of all entries
	last    uint64
	watches map[chan *Entry]struct{}
	file    *File
	price   func(*v1.NodeClaim) float64
	records records
}

// New makes a ledger that keeps size entries.
func New(size int, process string, now func() time.Time) *Ledger {
	return &Ledger{now: now, process: process, size: max(1, size), watches: map[chan *Entry]struct{}{}}
}

// Add keeps an entry and returns its ID. The ledger sets ID, Process, At and, if it is empty, Outcome.
func (l *Ledger) Add(e Entry) uint64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	e.ID, e.Process, e.At = l.last, l.process, l.now()
	if e.Outcome == "" {
		e.Outcome = Noted
	}
	l.entries = append(l.entries, &e)
	l.weight += e.weight()
	l.shed()
	l.tell(&e)
	return e.ID
}

// weight is how many names an entry holds.
func (e *Entry) weight() int {
	n := 1 + len(e.About)
	for _, list := range [][]model.Node{e.Add, e.Remove} {
		for i := range list {
			n += 1 + len(list[i].Pods)
		}
	}
	return n
}

// shed forgets the oldest entries once there are too many, or too large ones; the newest stays. The lock is held.
func (l *Ledger) shed() {
	from := 0
	if len(l.entries) > l.size+l.size/4 {
		from = len(l.entries) - l.size
	}
	for i, e := range l.entries {
		if i >= from && l.weight <= maxWeight || i == len(l.entries)-1 {
			from = i
			break
		}
		l.weight -= e.weight()
	}
	if from > 0 {
		l.entries = slices.Clone(l.entries[from:])
	}
}

// Settle says what came of a decision. An entry that is no longer kept is left alone.
func (l *Ledger) Settle(id uint64, outcome Outcome, result string) {
	l.Change(id, func(e *Entry) {
		at := l.now()
		e.Outcome, e.OutcomeAt, e.Result = outcome, &at, result
	})
}

// Change replaces an entry by a changed copy. What change does must not reach into slices of the old one.
func (l *Ledger) Change(id uint64, change func(*Entry)) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at, found := l.find(id)
	if !found {
		return
	}
	c := *l.entries[at]
	change(&c)
	l.weight += c.weight() - l.entries[at].weight()
	l.entries[at] = &c
	l.tell(&c)
}

func (l *Ledger) find(id uint64) (int, bool) {
	return slices.BinarySearchFunc(l.entries, id, func(e *Entry, id uint64) int {
		switch {
		case e.ID < id:
			return -1
		case e.ID > id:
			return 1
		}
		return 0
	})
}

// Get finds an entry by its ID. It must not be changed.
func (l *Ledger) Get(id uint64) *Entry {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, found := l.find(id); found {
		return l.entries[at]
	}
	return nil
}

// Query says which entries are wanted.
type Query struct {
	Kinds []Kind
	About *Ref
	// Since is an ID: only later entries are wanted.
	Since uint64
	// Limit bounds the answer, the newest first; 0 is no bound.
	Limit int
}

// List returns the entries that are asked for, the newest first. They must not be changed.
func (l *Ledger) List(q Query) []*Entry {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	all := slices.Clone(l.entries)
	l.mu.Unlock()
	var out []*Entry
	for _, e := range slices.Backward(all) {
		if e.ID <= q.Since || (q.Limit > 0 && len(out) == q.Limit) {
			break
		}
		if len(q.Kinds) > 0 && !slices.Contains(q.Kinds, e.Kind) {
			continue
		}
		if q.About != nil && !e.Concerns(*q.About) {
			continue
		}
		out = append(out, e)
	}
	return out
}

// Watch returns entries as they are added or change, until stop is called. A reader that is too slow misses some: it finds
// the gap by their IDs.
func (l *Ledger) Watch() (entries <-chan *Entry, stop func()) {
	c := make(chan *Entry, 256)
	if l == nil {
		return c, func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watches[c] = struct{}{}
	return c, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.watches, c)
	}
}

// tell shows an entry to whoever watches; the lock is held.
func (l *Ledger) tell(e *Entry) {
	l.file.keep(e)
	for c := range l.watches {
		select {
		case c <- e:
		default:
		}
	}
}
