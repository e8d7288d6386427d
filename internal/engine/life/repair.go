package life

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

// NodeCondition is a condition of a node: what, how it stands and why, and since when.
type NodeCondition struct {
	Type, Status, Reason string
	Since                time.Time
}

// RepairAction is what is done about a node that stays unhealthy.
type RepairAction string

// The actions.
const (
	RebootNode  RepairAction = "RebootNode"
	ReplaceNode RepairAction = "ReplaceNode"
)

// RepairPolicy says for how long a condition may stand like that before the instance counts as broken, and what is done then.
type RepairPolicy struct {
	Type   string `json:"type"`
	Status string `json:"status"`
	// ReasonRegex is a pattern of the condition's reasons that the policy is for. The one policy of a condition without a pattern is for
	// all reasons that no other names.
	ReasonRegex string        `json:"reasonRegex,omitempty"`
	Tolerated   time.Duration `json:"tolerated"`
	// Grace bounds the drain, if it is shorter than the claim's; nil leaves it to the claim, and zero drains nothing.
	Grace *time.Duration `json:"grace,omitempty"`
	// Priority is from 0 to maxPriority: what has more is repaired first.
	Priority int          `json:"priority,omitempty"`
	Action   RepairAction `json:"action"`
}

// maxPriority is the highest priority of a repair policy.
const maxPriority = 100

// RepairRules are policies that have been checked.
type RepairRules struct {
	policies []RepairPolicy
	patterns []*regexp.Regexp // nil for policies without a pattern
}

// NewRepairRules checks policies. The error names every policy that is wrong, its field, and what would be right (N6).
func NewRepairRules(policies []RepairPolicy) (*RepairRules, error) {
	r := &RepairRules{policies: policies, patterns: make([]*regexp.Regexp, len(policies))}
	type of struct{ kind, status, reason string }
	seen := map[of]bool{}
	var wrong []error
	for i, p := range policies {
		bad := func(field string, format string, args ...any) {
			wrong = append(wrong, fmt.Errorf("repair policy %d (%s=%s): %s: %s", i, p.Type, p.Status, field, fmt.Sprintf(format, args...)))
		}
		if p.Type == "" || p.Status == "" {
			bad("condition", "both type and status of a node condition must be given, such as Ready and False")
		}
		if p.Tolerated < 0 {
			bad("tolerated", "%s must not be less than 0", p.Tolerated)
		}
		if p.Grace != nil && *p.Grace < 0 {
			bad("terminationGracePeriod", "%s must not be less than 0; 0 drains nothing, and none at all leaves it to the claim", *p.Grace)
		}
		if p.Priority < 0 || p.Priority > maxPriority {
			bad("priority", "%d must be from 0 to %d", p.Priority, maxPriority)
		}
		if p.Action != RebootNode && p.Action != ReplaceNode {
			bad("action", "%q must be %s or %s", p.Action, RebootNode, ReplaceNode)
		}
		if key := (of{p.Type, p.Status, p.ReasonRegex}); seen[key] {
			bad("reasonRegex", "another policy of this condition has %q too; give each its own", p.ReasonRegex)
		} else {
			seen[key] = true
		}
		if p.ReasonRegex == "" {
			if p.Action == RebootNode {
				bad("action", "the policy for all other reasons, without reasonRegex, must be %s", ReplaceNode)
			}
			continue
		}
		var err error
		if r.patterns[i], err = regexp.Compile(p.ReasonRegex); err != nil {
			bad("reasonRegex", "%v; it must be a regular expression such as ^NvidiaXID64Error$", err)
		}
	}
	for i, p := range policies {
		if !seen[of{p.Type, p.Status, ""}] {
			seen[of{p.Type, p.Status, ""}] = true
			wrong = append(wrong, fmt.Errorf("repair policy %d (%s=%s): reasonRegex: no policy of this condition is for all other reasons; add one without reasonRegex, and with action %s", i, p.Type, p.Status, ReplaceNode))
		}
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return r, nil
}

// Illness is the condition of a node that condemns its instance, and the policy that says so.
type Illness struct {
	Condition NodeCondition
	Policy    RepairPolicy
	// Due is when it condemns the instance.
	Due time.Time
}

// String says what is wrong.
func (i Illness) String() string {
	text := fmt.Sprintf("%s is %s since %s", i.Condition.Type, i.Condition.Status, stamp(i.Condition.Since))
	if i.Condition.Reason != "" {
		text += " (" + i.Condition.Reason + ")"
	}
	return text
}

// Diagnose finds what condemns a node; ok is false if it is healthy. Of conditions that have lasted for too long the one with the highest
// priority counts, and otherwise what is due first. A condition that does not say since when it holds is no verdict: it may have come
// this moment.
func (r *RepairRules) Diagnose(conditions []NodeCondition, now time.Time) (found Illness, ok bool) {
	for _, c := range conditions {
		i := r.policyFor(c)
		if i < 0 || c.Since.IsZero() {
			continue
		}
		ill := Illness{Condition: c, Policy: r.policies[i], Due: c.Since.Add(r.policies[i].Tolerated)}
		if !ok || ill.before(found, now) {
			found, ok = ill, true
		}
	}
	return found, ok
}

// before says whether one illness counts rather than another.
func (i Illness) before(o Illness, now time.Time) bool {
	due, other := !now.Before(i.Due), !now.Before(o.Due)
	switch {
	case due != other:
		return due
	case due && i.Policy.Priority != o.Policy.Priority:
		return i.Policy.Priority > o.Policy.Priority
	}
	return i.Due.Before(o.Due)
}

// policyFor is the policy for a condition: the first one whose pattern its reason matches, or else the one without a pattern; -1 if
// there is none.
func (r *RepairRules) policyFor(c NodeCondition) int {
	other := -1
	for i, p := range r.policies {
		switch {
		case c.Type != p.Type || c.Status != p.Status:
		case r.patterns[i] == nil:
			other = i
		case r.patterns[i].MatchString(c.Reason):
			return i
		}
	}
	return other
}

// DrainWithin is how long a node that is repaired may take to drain: what the policy says or the claim, whichever is shorter; nil for
// as long as it takes.
func DrainWithin(policy, claim *time.Duration) *time.Duration {
	if policy == nil || claim != nil && *claim < *policy {
		return claim
	}
	return policy
}

// FirstDue finds the condition that a policy names and that is due first, whatever its reason; ok is false if the node is healthy. Of
// equals the one named first counts (D58, before 1.15).
func FirstDue(conditions []NodeCondition, policies []RepairPolicy) (found Illness, ok bool) {
	for _, c := range conditions {
		for _, p := range policies {
			if c.Type != p.Type || c.Status != p.Status || c.Since.IsZero() {
				continue
			}
			if due := c.Since.Add(p.Tolerated); !ok || due.Before(found.Due) {
				found, ok = Illness{Condition: c, Policy: p, Due: due}, true
			}
		}
	}
	return found, ok
}
