package web

import (
	"slices"
	"time"

	"karpenter/internal/ledger"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
)

// savings is what the moves that were carried out have brought since the process began.
type savings struct {
	Moves int `json:"moves"`
	// PerHour is what the fleet costs less an hour, and Sum what that had come to at At.
	PerHour float64   `json:"savesPerHour"`
	Sum     float64   `json:"dollars"`
	At      time.Time `json:"at,omitzero"`
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
	if !to.After(p.At) {
		return
	}
	if !p.At.IsZero() {
		p.Sum += p.PerHour * to.Sub(p.At).Hours()
	}
	p.At = to.UTC()
}

// problemsOf names what was set aside, as much as a page can show.
func problemsOf(v *state.View) []dump.Problem {
	const most = 200
	return append([]dump.Problem{}, v.Problems[:min(len(v.Problems), most)]...)
}
