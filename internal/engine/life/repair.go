package life

import (
	"fmt"
	"time"

	"karpenter/internal/engine/why"
)

// repairShare is the part of a pool, one in so many, up to which unhealthy nodes are taken for broken instances. Where more are
// unhealthy the cause lies elsewhere, and new instances would suffer from it too.
const repairShare = 5

// NodeCondition is a condition of a node: what, how it stands, and since when.
type NodeCondition struct {
	Type, Status string
	Since        time.Time
}

// RepairPolicy says for how long a condition may stand like that before the instance counts as broken.
type RepairPolicy struct {
	Type, Status string
	Tolerated    time.Duration
}

// Illness is the condition of a node that condemns its instance first.
type Illness struct {
	Condition NodeCondition
	// Due is when it condemns the instance.
	Due time.Time
}

// String says what is wrong.
func (i Illness) String() string {
	return fmt.Sprintf("%s is %s since %s", i.Condition.Type, i.Condition.Status, stamp(i.Condition.Since))
}

// Diagnose finds the condition that a policy names and that is due first; ok is false if the node is healthy. Of equals the one
// named first counts. A condition that does not say since when it holds is no verdict: it may have come this moment.
func Diagnose(conditions []NodeCondition, policies []RepairPolicy) (found Illness, ok bool) {
	for _, c := range conditions {
		for _, p := range policies {
			if c.Type != p.Type || c.Status != p.Status || c.Since.IsZero() {
				continue
			}
			if due := c.Since.Add(p.Tolerated); !ok || due.Before(found.Due) {
				found, ok = Illness{Condition: c, Due: due}, true
			}
		}
	}
	return found, ok
}

// MayRepair says whether a node may be replaced where that many of all nodes are unhealthy, this one included; otherwise why not
// (D58). A fifth may be, rounded up.
func MayRepair(unhealthy, total int) (ok bool, reason string) {
	limit := (total + repairShare - 1) / repairShare
	if unhealthy <= limit {
		return true, ""
	}
	return false, fmt.Sprintf("more than %s of the nodes are unhealthy (%d of %d)", why.Percent(1.0/repairShare), unhealthy, total)
}
