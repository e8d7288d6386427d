package web

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

// totals adds the cluster up.
type totals struct {
	Nodes    int `json:"nodes"`
	Starting int `json:"starting"`
	Leaving  int `json:"leaving"`
	NotReady int `json:"notReady"`
	// Unpriced nodes cost something that nobody knows.
	Unpriced   int       `json:"unpriced"`
	Pods       int       `json:"pods"`
	Pending    int       `json:"pending"`
	Price      float64   `json:"price"`
	CPU        int64     `json:"cpu"`
	Memory     int64     `json:"memory"`
	UsedCPU    int64     `json:"usedCPU"`
	UsedMemory int64     `json:"usedMemory"`
	Markets    []portion `json:"markets"`
	Pools      []portion `json:"pools"`
}

// portion is a part of the fleet: what one pool made, or what was bought one way.
type portion struct {
	Name       string  `json:"name"`
	Nodes      int     `json:"nodes"`
	Price      float64 `json:"price"`
	CPU        int64   `json:"cpu"`
	Memory     int64   `json:"memory"`
	UsedCPU    int64   `json:"usedCPU"`
	UsedMemory int64   `json:"usedMemory"`
}

func (p *portion) add(m *nodeModel) {
	p.Nodes++
	p.Price += m.Price
	p.CPU, p.Memory = p.CPU+m.CPU, p.Memory+m.Memory
	p.UsedCPU, p.UsedMemory = p.UsedCPU+m.UsedCPU, p.UsedMemory+m.UsedMemory
}

// addUp makes totals of nodes, in whatever order they come.
func addUp(nodes []*nodeModel, pending int) *totals {
	t := &totals{Pending: pending}
	var all portion
	markets, pools := map[string]*portion{}, map[string]*portion{}
	for _, m := range nodes {
		all.add(m)
		in(markets, m.Market).add(m)
		in(pools, m.Pool).add(m)
		t.Pods += len(m.Pods)
		if m.Price == 0 {
			t.Unpriced++
		}
		switch m.State {
		case stateLeaving:
			t.Leaving++
		case stateNotReady:
			t.NotReady++
		case stateReady:
		default:
			t.Starting++
		}
	}
	t.Nodes, t.Price = all.Nodes, all.Price
	t.CPU, t.Memory, t.UsedCPU, t.UsedMemory = all.CPU, all.Memory, all.UsedCPU, all.UsedMemory
	t.Markets, t.Pools = portions(markets), portions(pools)
	return t
}

func in(parts map[string]*portion, name string) *portion {
	p := parts[name]
	if p == nil {
		p = &portion{Name: name}
		parts[name] = p
	}
	return p
}

// portions puts the most expensive first.
func portions(parts map[string]*portion) []portion {
	out := make([]portion, 0, len(parts))
	for _, p := range parts {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(x, y portion) int {
		return cmp.Or(cmp.Compare(y.Price, x.Price), cmp.Compare(y.Nodes, x.Nodes), strings.Compare(x.Name, y.Name))
	})
	return out
}

// savings is what the moves that were carried out have brought since the process began.
type savings struct {
	Moves int `json:"moves"`
	// PerHour is what the fleet costs less an hour, and Sum what that had come to at At (seconds since 1970).
	PerHour float64 `json:"perHour"`
	Sum     float64 `json:"sum"`
	At      int64   `json:"at"`
}

// savingsCounter counts each move once, also when the ledger no longer keeps it.
type savingsCounter struct {
	savings
	counted map[uint64]struct{}
}

// count looks through the ledger for moves that have been carried out since.
func (p *savingsCounter) count(l *ledger.Ledger, now time.Time) {
	seen := map[uint64]struct{}{}
	for _, e := range slices.Backward(l.List(ledger.Query{Kinds: []ledger.Kind{ledger.Move}})) {
		if e.Outcome != ledger.Done {
			continue
		}
		seen[e.ID] = struct{}{}
		if _, ok := p.counted[e.ID]; ok {
			continue
		}
		done := now
		if e.OutcomeAt != nil {
			done = *e.OutcomeAt
		}
		p.forward(done)
		p.Moves++
		p.PerHour += e.Saves
	}
	p.counted = seen
}

// forward lets the saving of an hour run on until a moment.
func (p *savingsCounter) forward(to time.Time) {
	if p.At != 0 && to.Unix() > p.At {
		p.Sum += p.PerHour * float64(to.Unix()-p.At) / 3600
	}
	p.At = max(p.At, to.Unix())
}

// problemsOf names what was set aside, as much as a page can show.
func problemsOf(v *state.View) []dump.Problem {
	const most = 200
	return v.Problems[:min(len(v.Problems), most)]
}

// pendingUIDs finds the pods that wait by their UID.
func pendingUIDs(s *world.Snapshot) map[string]*world.Pod {
	out := make(map[string]*world.Pod, len(s.Pending))
	for _, p := range s.Pending {
		out[p.UID] = p
	}
	return out
}
