package v1

import (
	"slices"
	"time"
)

// Window is a time in which a budget holds, the last instant not included.
// +kubebuilder:object:generate=false
type Window struct{ From, To time.Time }

// DisruptionBudgets are the budgets that count: those of the spec, or the default of 10% where it has none.
func (p *NodePool) DisruptionBudgets() []Budget {
	if p.Spec.Disruption.Budgets == nil {
		return []Budget{defaultBudget()}
	}
	return p.Spec.Disruption.Budgets
}

// Windows lists when the budget holds from one moment to another, in order; times that meet or overlap are one. A budget
// that cannot be understood has none.
func (b *Budget) Windows(from, to time.Time) ([]Window, error) {
	if b.Schedule == nil && b.Duration == nil {
		return []Window{{from, to}}, nil
	}
	if _, err := b.Active(from); err != nil {
		return nil, err
	}
	cron, err := ParseCron(*b.Schedule)
	if err != nil {
		return nil, err
	}
	var out []Window
	for at := to.Add(-1); ; {
		begin, ok := cron.Last(at)
		end := begin.Add(b.Duration.Duration)
		if !ok || !end.After(from) {
			break
		}
		w := Window{latest(begin, from), earliest(end, to)}
		if n := len(out); n > 0 && !w.To.Before(out[n-1].From) {
			out[n-1].From = w.From
		} else {
			out = append(out, w)
		}
		at = begin.Add(-1)
	}
	slices.Reverse(out)
	return out, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
