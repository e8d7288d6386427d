package control

import (
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/meter"
)

// CountDisrupted counts a claim that is taken away for a reason (O3).
func CountDisrupted(m *meter.Set, claim *karpv1.NodeClaim, reason string) {
	m.Add(meter.NodeClaimsDisrupted, 1, DisruptedLabels(claim, reason)...)
}

// DisruptedLabels are the labels of what is counted about a claim that is taken away, but for the policy of its pool, which
// only those know that consolidate (O3, O4).
func DisruptedLabels(claim *karpv1.NodeClaim, reason string) []string {
	mode := "graceful"
	if period := claim.Spec.TerminationGracePeriod; period != nil {
		mode = "eventual"
		if period.Duration <= 0 {
			mode = "forceful"
		}
	}
	return []string{
		"reason", reason, "nodepool", claim.Labels[karpv1.NodePoolLabelKey],
		"capacity_type", claim.Labels[karpv1.CapacityTypeLabelKey], "termination_mode", mode,
	}
}
