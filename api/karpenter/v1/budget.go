package v1

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Unlimited is what a budget that does not hold allows.
const Unlimited = math.MaxInt32

// defaultBudget is what the API server writes into a pool that has no budgets.
func defaultBudget() Budget { return Budget{Nodes: "10%"} }

// ParseBudgetNodes reads a number of nodes, or a percentage of total that is rounded up.
func ParseBudgetNodes(text string, total int) (int, error) {
	number, isPercent := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(number, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) && !isPercent:
		return Unlimited, nil
	case err != nil || (isPercent && n > 100):
		return 0, fmt.Errorf("nodes %q: write a whole number such as \"5\" or a percentage from \"0%%\" to \"100%%\"", text)
	case !isPercent:
		return int(min(n, Unlimited)), nil
	}
	return int((uint64(min(max(total, 0), Unlimited))*n + 99) / 100), nil
}

// Active reports whether the budget holds at now: always without a schedule, else from each time the schedule names until
// duration has passed, the last instant not included (D15).
func (b *Budget) Active(now time.Time) (bool, error) {
	if b.Schedule == nil && b.Duration == nil {
		return true, nil
	}
	if b.Schedule == nil || b.Duration == nil {
		return false, errors.New("schedule and duration must be given together")
	}
	cron, err := ParseCron(*b.Schedule)
	if err != nil {
		return false, err
	}
	last, ok := cron.Last(now)
	return ok && now.Sub(last) < b.Duration.Duration, nil
}

// Allowed returns how many of total nodes may be going at now as far as this budget is concerned: Unlimited when it does
// not hold. A budget that cannot be understood allows none (A23).
func (b *Budget) Allowed(now time.Time, total int) (int, error) {
	nodes, err := ParseBudgetNodes(b.Nodes, total)
	if err != nil {
		return 0, err
	}
	active, err := b.Active(now)
	switch {
	case err != nil:
		return 0, err
	case !active:
		return Unlimited, nil
	}
	return nodes, nil
}

// AppliesTo reports whether the budget holds back disruption for a reason. Without reasons it holds back all.
func (b *Budget) AppliesTo(reason DisruptionReason) bool {
	return len(b.Reasons) == 0 || slices.Contains(b.Reasons, reason)
}

// AllowedDisruptions returns how many of the pool's total nodes may be going at now for a reason: the least that any
// matching budget allows (D14). No budgets at all means the default of 10%, an empty list means Unlimited. A budget that
// cannot be understood allows none and is named in the error.
func (p *NodePool) AllowedDisruptions(reason DisruptionReason, total int, now time.Time) (int, error) {
	budgets := p.DisruptionBudgets()
	allowed := Unlimited
	var problems []error
	for i := range budgets {
		if !budgets[i].AppliesTo(reason) {
			continue
		}
		n, err := budgets[i].Allowed(now, total)
		if err != nil {
			problems = append(problems, fmt.Errorf("NodePool %s: spec.disruption.budgets[%d]: %w", p.Name, i, err))
		}
		allowed = min(allowed, n)
	}
	return allowed, errors.Join(problems...)
}
