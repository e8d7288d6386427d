package simaws

import (
	"container/heap"
	"math"
	"time"
)

// never is the due time of an empty agenda.
const never = math.MaxInt64

// appointment is something that will happen to an object. It names its
// subject instead of holding a function, so that it can be saved.
type appointment struct {
	At   time.Time
	Kind string
	// Account, Region and ID name the subject.
	Account, Region, ID string
	// Serial keeps appointments of the same time in the order they were made.
	Serial uint64
}

// agenda is a heap of appointments by time.
type agenda []appointment

// Len, Less and Swap serve sort.Interface.
func (a agenda) Len() int { return len(a) }

// Less puts the earlier first.
func (a agenda) Less(i, j int) bool {
	if !a[i].At.Equal(a[j].At) {
		return a[i].At.Before(a[j].At)
	}
	return a[i].Serial < a[j].Serial
}

// Swap exchanges two.
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }

// Push serves container/heap.
func (a *agenda) Push(x any) { *a = append(*a, x.(appointment)) }

// Pop serves container/heap.
func (a *agenda) Pop() any {
	old := *a
	x := old[len(old)-1]
	*a = old[:len(old)-1]
	return x
}

// schedule enters an appointment.
func (s *Sim) schedule(a appointment) {
	s.st.Serial++
	a.Serial = s.st.Serial
	heap.Push(&s.st.Agenda, a)
	s.noteDue()
}

func (s *Sim) noteDue() {
	due := int64(never)
	if len(s.st.Agenda) > 0 {
		due = s.st.Agenda[0].At.UnixNano()
	}
	if s.nextDue.Swap(due) != due {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

// catchUp carries out what is due. Each step happens at its own time, so a
// world that was left alone for an hour ends up as if it had been watched.
func (s *Sim) catchUp(now time.Time) {
	for len(s.st.Agenda) > 0 && !s.st.Agenda[0].At.After(now) {
		s.perform(heap.Pop(&s.st.Agenda).(appointment))
	}
	s.noteDue()
}

// perform carries out one appointment; a subject that is gone is skipped.
func (s *Sim) perform(a appointment) {
	acct := s.st.Accounts[a.Account]
	if acct == nil || acct.Regions[a.Region] == nil {
		return
	}
	r := acct.Regions[a.Region]
	in := r.Instances.get(a.ID)
	if in == nil {
		return
	}
	p := place{s, acct, r}
	switch a.Kind {
	case "running":
		p.becomeRunning(in, a.At)
	case "join":
		p.join(in)
	case "terminated", "stopped":
		p.settle(in, a.Kind, a.At)
	case "forget":
		p.forget(in)
	case "rebalance":
		p.sendRebalance(in, a.At)
	case "warn":
		p.sendWarning(in, a.At)
	case "reclaim":
		p.reclaim(in, a.At)
	}
}

// place is where something happens: the world, an account and a region.
type place struct {
	*Sim
	acct *account
	reg  *region
}

func (p place) after(at time.Time, d time.Duration, kind, id string) {
	p.schedule(appointment{At: at.Add(d), Kind: kind, Account: p.acct.ID, Region: p.reg.Name, ID: id})
}
