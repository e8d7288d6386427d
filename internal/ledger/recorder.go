package ledger

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"karpenter/internal/state"
)

const (
	// DefaultRecordings is how many decisions can be made again.
	DefaultRecordings = 20
	// maxOutdated bounds how many objects recordings keep in memory that the cluster has changed or deleted since, besides those of
	// the newest recording: at about 3 KiB each some 6 MiB. Where more change, fewer recordings are kept.
	maxOutdated = 2_000
)

// Moment is what a decision was made from, and what it was. A recording holds on to the view, which shares with later ones what
// has not changed; it is written down only when somebody asks.
type Moment struct {
	View    *state.View
	Facts   Facts
	Options Options
	At      time.Time
	Answer  *Answer
}

// records are the latest moments, oldest first.
type records struct {
	keep  int
	made  string
	list  []*record
	count int
}

type record struct {
	name string
	Moment
	// objects is how many the view has.
	objects int
}

// KeepRecordings has the ledger keep the last so many moments. made is the version of the program.
func (l *Ledger) KeepRecordings(keep int, made string) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records.keep, l.records.made = keep, made
}

// Record keeps what a decision was made from and returns the name for Entry.Input; "" if nothing is kept.
func (l *Ledger) Record(m Moment) string {
	if l == nil {
		return ""
	}
	objects := size(m.View)
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.records
	if r.keep <= 0 {
		return ""
	}
	r.count++
	name := strconv.Itoa(r.count)
	if l.process != "" {
		name = l.process + "-" + name
	}
	r.list = append(r.list, &record{name: name, Moment: m, objects: objects})
	for len(r.list) > r.keep || len(r.list) > 1 && r.outdated() > maxOutdated {
		l.unrecord(r.list[0].name)
		r.list = slices.Delete(r.list, 0, 1)
	}
	return name
}

// size is how many objects a view has, about.
func size(v *state.View) int {
	n := len(v.World.Pending)
	for _, node := range v.Nodes {
		n += 2 + len(node.Pods)
	}
	return n
}

// outdated is how many objects recordings keep beyond those of the newest, at most: of each as many as have changed until the next.
func (r *records) outdated() (n int) {
	for i := range r.list[:len(r.list)-1] {
		n += min(r.list[i].objects, int(r.list[i+1].View.Told-r.list[i].View.Told))
	}
	return n
}

// unrecord notes on entries that their recording is gone; nobody is told of that. The lock is held.
func (l *Ledger) unrecord(name string) {
	for i, e := range l.entries {
		if e.Input == name && e.Recorded {
			c := *e
			c.Recorded = false
			l.entries[i] = &c
		}
	}
}

// Recording writes a moment down that is still kept.
func (l *Ledger) Recording(name string) (*Recording, error) {
	if l == nil {
		return nil, fmt.Errorf("recording %q: none are kept", name)
	}
	l.mu.Lock()
	at := slices.IndexFunc(l.records.list, func(r *record) bool { return r.name == name })
	if at < 0 {
		kept := len(l.records.list)
		l.mu.Unlock()
		return nil, fmt.Errorf("recording %q is not kept any more: only the last %d are", name, kept)
	}
	r, made := l.records.list[at], l.records.made
	l.mu.Unlock()
	out, err := Record(r.View, r.Facts, r.Options, r.At)
	if err != nil {
		return nil, fmt.Errorf("recording %q: %w", name, err)
	}
	out.Name, out.Made, out.Answer = name, made, r.Answer
	return out, nil
}
