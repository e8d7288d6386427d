package control

import (
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/meter"
)

// CountDisrupted counts a claim that is taken away for a reason (O3).
func CountDisrupted(m *meter.Set, claim *karpv1.NodeClaim, reason string) {
	mode := "graceful"
	if period := claim.Spec.TerminationGracePeriod; period != nil {
		mode = "eventual"
		if period.Duration <= 0 {
			mode = "forceful"
		}
	}
	m.Add(meter.NodeClaimsDisrupted, 1, "reason", reason, "nodepool", claim.Labels[karpv1.NodePoolLabelKey],
		"capacity_type", claim.Labels[karpv1.CapacityTypeLabelKey], "termination_mode", mode)
}
