package disruption

import (
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/meter"
	"karpenter/test/harness/rig"
)

func TestD4_BudgetsThatCannotBeReadAreLoggedOnce(t *testing.T) {
	b := newBench(t)
	hour := karpv1.NewDuration(time.Hour)
	b.pool("odd", whenEmpty, func(p *karpv1.NodePool) {
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}, {Nodes: "5", Schedule: new("99 * * * *"), Duration: &hour}}
	})
	b.instance("empty", "odd", "m5.large")
	for range 3 {
		b.clock.Step(time.Minute)
		b.pass()
	}
	if b.going("empty") {
		t.Error("a node goes although nobody knows whether it may")
	}
	const text = "disruption budgets cannot be understood"
	if n := strings.Count(b.log.String(), text); n != 1 || !strings.Contains(b.log.String(), "minute") {
		t.Errorf("logged %d times", n)
	}
}

func TestD17_AUsedUpBudgetIsTold(t *testing.T) {
	b := newBench(t)
	b.pool("full", whenEmpty, func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}} })
	b.pool("unused", whenEmpty, func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0"}} })
	b.instance("empty", "full", "m5.large")
	count := func(events []string, reason string) (n int) {
		for _, e := range events {
			if strings.Contains(e, "DisruptionBlocked") && strings.Contains(e, "for disruption reason "+reason) {
				n++
			}
		}
		return n
	}
	for range 6 { // ten seconds apart
		b.clock.Step(idle)
		b.pass()
	}
	events := b.told()
	for _, reason := range []string{"Empty", "Drifted", "Underutilized"} {
		if n := count(events, reason); n != 1 {
			t.Errorf("%d events for %s within a minute, and none is due for a pool without nodes:\n%s", n, reason, strings.Join(events, "\n"))
		}
	}
	b.clock.Step(budgetEvery)
	if b.pass(); count(b.told(), "Empty") != 1 {
		t.Error("after a minute it is not told again")
	}
	for pool, want := range map[string]float64{"full": 0, "unused": 0} {
		if got := b.counted(meter.NodePoolsAllowedDisruptions, "nodepool", pool); got != want {
			t.Errorf("O28: pool %s is allowed %v", pool, got)
		}
	}
}

func TestD19_WhatBudgetsKeepOutIsLookedAtAgain(t *testing.T) {
	b := newBench(t)
	b.pool("general", whenEmpty, func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "1"}} })
	b.instance("a", "general", "m5.large")
	b.instance("b", "general", "m5.large")
	b.clock.Step(time.Minute)
	b.pass()
	for range 3 {
		b.clock.Step(idle)
		if b.pass(); b.goingCount() != 1 {
			t.Fatalf("%d are going under a budget of one", b.goingCount())
		}
	}
	b.drain()
	b.clock.Step(idle)
	if b.pass(); b.goingCount() != 1 {
		t.Error("the second node is forgotten")
	}
}

// What disturbs one move calls off that one: in the same pass the others go on (W38).
func TestD38_OneMoveThatIsDisturbedHoldsUpNoOther(t *testing.T) {
	b := newBench(t)
	b.pool("general", whenEmpty, func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}} })
	for _, name := range []string{"a", "b", "c"} {
		b.instance(name, "general", "m5.large")
	}
	b.clock.Step(time.Minute)
	b.judge()
	var once sync.Once
	b.client.Step = func(w rig.Write, after bool) error {
		if _, marked := w.Object.GetAnnotations()[karpv1.MoveAnnotationKey]; marked && after && w.Object.GetName() == "b" {
			once.Do(func() { b.pod("b", "100m") })
		}
		return nil
	}
	b.look()
	if !b.going("a") || b.asBefore("b") != "" || !b.going("c") {
		t.Errorf("a going %v, b %q, c going %v", b.going("a"), b.asBefore("b"), b.going("c"))
	}
}

func TestD42_BalancedTellsWhatItApproves(t *testing.T) {
	b := newBench(t)
	balanced := func(p *karpv1.NodePool) {
		p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyBalanced
	}
	b.pool("general", balanced)
	b.big("big", "general")
	b.instance("full", "general", "m5.large")
	b.pod("full", "1500m")
	b.clock.Step(time.Minute)
	b.pass()
	b.expectEvent("ConsolidationApproved", "saves $")
	approved := []string{"nodepool", "general", "decision", "approved", "policy", "Balanced"}
	if moves, scores := b.counted(meter.ConsolidationMoves, approved...), b.counted(meter.ConsolidationScore, approved...); moves != 1 || scores != 1 {
		t.Errorf("O40, O41: %v moves, %v scores", moves, scores)
	}
	name := b.made()[0].Name
	b.launch(name)
	b.join(name)
	b.pass()
	labels := []string{"nodepool", "general", "reason", "underutilized", "consolidation_policy", "balanced", "termination_mode", "graceful", "capacity_type", "on-demand"}
	if claims, pods := b.counted(meter.NodeClaimsDisrupted, labels...), b.counted(meter.PodsDisruptionInitiated, labels...); claims != 1 || pods != 1 {
		t.Errorf("O3, O4: %v claims, %v pods", claims, pods)
	}
	if nodes := b.counted(meter.DisruptionNodes, "nodepool", "general", "action", "replace", "method", "underutilized", "consolidation_type", "single"); nodes != 1 {
		t.Errorf("A76: %v nodes", nodes)
	}
}

func TestD42_BalancedCountsWhatItRejects(t *testing.T) {
	b := newBench(t)
	b.pool("general", func(p *karpv1.NodePool) {
		p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyBalanced
	})
	protected := func(p *corev1.Pod) { p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"} }
	b.instance("dear", "general", "m5.4xlarge")
	b.pod("dear", "14", protected)
	b.instance("crowded", "general", "m5.xlarge")
	for range 12 {
		b.pod("crowded", "100m")
	}
	b.clock.Step(time.Minute)
	b.pass()
	rejected := []string{"nodepool", "general", "decision", "rejected", "policy", "Balanced"}
	if moves, scores := b.counted(meter.ConsolidationMoves, rejected...), b.counted(meter.ConsolidationScore, rejected...); moves != 1 || scores != 1 || b.asBefore("crowded") != "" {
		t.Errorf("O40, O41: %v moves, %v scores; %s", moves, scores, b.asBefore("crowded"))
	}
	b.expectEvent("Unconsolidatable", "Balanced")
}

func TestO34_EveryPartOfADecisionIsTimed(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.instance("full", "general", "m5.large")
	b.pod("full", "1500m")
	b.clock.Step(time.Minute)
	b.pass()
	for _, labels := range [][]string{
		{"reason", "empty", "consolidation_type", "empty"},
		{"reason", "drifted", "consolidation_type", ""},
		{"reason", "underutilized", "consolidation_type", "multi"},
		{"reason", "underutilized", "consolidation_type", "single"},
	} {
		if n := b.counted(meter.DisruptionEvaluationDuration, labels...); n != 1 {
			t.Errorf("%v: %v decisions", labels, n)
		}
	}
}
