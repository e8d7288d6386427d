package disruption

import (
	"testing"
	"time"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/meter"
)

// whenEmpty is the disruption block of the documents: empty nodes go after half a minute.
func whenEmpty(p *karpv1.NodePool) {
	p.Spec.Disruption = karpv1.Disruption{ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmpty, ConsolidateAfter: karpv1.NewNillableDuration(30 * time.Second)}
}

func TestD20_AnEmptyNodeGoesAfterConsolidateAfter(t *testing.T) {
	b := newBench(t)
	b.pool("general", whenEmpty)
	b.instance("empty", "general", "m5.large")
	b.instance("used", "general", "m5.large")
	b.pod("used", "1")
	b.clock.Step(29 * time.Second)
	if b.pass(); b.going("empty") {
		t.Error("D24: it went a second too early")
	}
	b.clock.Step(stillFor) // half a minute is over, and the pool has been at rest since
	b.pass()
	if !b.going("empty") || b.going("used") {
		t.Errorf("empty going %v, used going %v", b.going("empty"), b.going("used"))
	}
	if !tainted(b.nodeOf("empty")) {
		t.Error("D52: the node takes pods while it goes")
	}
	b.expectEvent("DisruptionTerminating", "Empty")
	if got := b.counted(meter.NodeClaimsDisrupted, "reason", "empty", "nodepool", "general"); got != 1 {
		t.Errorf("O3: %v counted", got)
	}
	if got := b.counted(meter.DisruptionDecisions, "reason", "empty", "decision", "delete", "consolidation_type", "empty"); got != 1 {
		t.Errorf("O35: %v counted", got)
	}
	b.drain()
	if b.pass(); b.going("used") {
		t.Error("WhenEmpty took a node with pods")
	}
}
