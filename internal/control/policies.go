package control

import (
	"karpenter/cloud"
	"karpenter/internal/engine/life"
)

// RepairPolicies are a provider's policies in the engine's words.
func RepairPolicies(list []cloud.RepairPolicy) []life.RepairPolicy {
	out := make([]life.RepairPolicy, 0, len(list))
	for _, p := range list {
		out = append(out, life.RepairPolicy{
			Type: string(p.Condition), Status: string(p.Status), ReasonRegex: p.ReasonRegex, Tolerated: p.Tolerated,
			Grace: p.TerminationGracePeriod, Priority: p.Priority, Action: life.RepairAction(p.Action),
		})
	}
	return out
}
