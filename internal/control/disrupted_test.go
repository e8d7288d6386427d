package control

import (
	"slices"
	"testing"

	karpv1 "karpenter/api/karpenter/v1"
)

// Dashboards of upstream select by these values.
func TestO3_ThePolicyIsWrittenAsUpstreamWritesIt(t *testing.T) {
	for policy, want := range map[karpv1.ConsolidationPolicy]string{
		karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized: "when_empty_or_underutilized",
		karpv1.ConsolidationPolicyWhenEmpty:                "when_empty",
		karpv1.ConsolidationPolicyBalanced:                 "balanced",
		"":                                                 "",
	} {
		labels := DisruptedLabels(&karpv1.NodeClaim{}, "underutilized", policy, nil)
		if i := slices.Index(labels, "consolidation_policy"); labels[i+1] != want {
			t.Errorf("%s is %q, want %q", policy, labels[i+1], want)
		}
	}
}
