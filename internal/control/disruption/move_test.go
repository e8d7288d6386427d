package disruption

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/meter"
	"karpenter/test/harness/rig"
)

func TestD27_PodsThatFitElsewhereFreeTheirNode(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	for _, name := range []string{"a", "b", "c"} {
		b.instance(name, "general", "m5.large")
		b.pod(name, "400m")
	}
	b.clock.Step(time.Minute)
	for range 5 {
		b.pass()
		b.drain()
		b.clock.Step(idle)
	}
	if left := b.claims(); len(left) != 1 || len(b.made()) != 0 {
		t.Errorf("%d nodes are left, %d were made", len(left), len(b.made()))
	}
	b.expectEvent("ConsolidationCandidate", "saves $")
	if got := b.counted(meter.PodsDisruptionInitiated, "reason", "underutilized"); got < 2 {
		t.Errorf("O4: %v pods", got)
	}
}

// big is a node that costs more than its pod is worth.
func (b *bench) big(name, pool string) {
	b.instance(name, pool, "m5.4xlarge")
	b.pod(name, "1")
}

func TestD28_ANodeIsReplacedByACheaperOne(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.big("big", "general")
	b.clock.Step(time.Minute)
	b.pass()
	made := b.made()
	if len(made) != 1 || b.going("big") {
		t.Fatalf("%d replacements, big going %v", len(made), b.going("big"))
	}
	name := made[0].Name
	old := b.claim("big")
	r, err := parseRecord(old.Annotations[karpv1.MoveAnnotationKey])
	if err != nil || !slices.Equal(r.to, []string{name}) || r.reason != "Underutilized" {
		t.Errorf("W48: record %q", old.Annotations[karpv1.MoveAnnotationKey])
	}
	if from := made[0].Annotations[karpv1.MovedFromAnnotationKey]; !strings.Contains(from, "from=general/m5.4xlarge/us-west-2a/on-demand") || !strings.Contains(from, r.id) {
		t.Errorf("W48: origin %q", from)
	}
	if c := old.StatusConditions().Get(karpv1.ConditionDisruptionReason); c == nil || c.Reason != "Underutilized" || !tainted(b.nodeOf("big")) {
		t.Errorf("D52: condition %+v, taints %v", c, b.nodeOf("big").Spec.Taints)
	}
	if got := b.counted(meter.NodeClaimsCreated, "reason", "underutilized"); got != 1 {
		t.Errorf("O1: %v counted", got)
	}
	b.pass()
	b.expectEvent("DisruptionLaunching", name)
	b.launch(name)
	b.pass()
	b.expectEvent("DisruptionWaitingReadiness", name)
	if b.going("big") {
		t.Fatal("D53: the node went before its replacement was up")
	}
	b.join(name)
	b.pass()
	if !b.going("big") {
		t.Fatal("D53: the node stays although its replacement is up")
	}
	b.drain()
	for range 3 {
		b.clock.Step(time.Minute)
		b.pass()
	}
	if left := b.claims(); len(left) != 1 || left[0].Name != name {
		t.Errorf("left are %d claims", len(left))
	}
}

func TestD53_ReplacementsAreLeftAloneUntilTheirPodsCome(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.big("big", "general")
	b.clock.Step(time.Minute)
	b.pass()
	name := b.made()[0].Name
	b.launch(name)
	b.join(name)
	b.pass()
	for range 5 { // the drain takes its time
		b.clock.Step(time.Minute)
		b.pass()
	}
	if b.going(name) {
		t.Error("the replacement went as empty before its pods had come")
	}
}

func TestD14_BusinessHours(t *testing.T) {
	b := newBench(t)
	hours := karpv1.NewDuration(8 * time.Hour)
	b.pool("office", whenEmpty, func(p *karpv1.NodePool) {
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}, {Nodes: "0", Schedule: new("0 9 * * mon-fri"), Duration: &hours}}
	})
	b.clock.SetTime(time.Date(2026, 8, 3, 9, 0, 0, 0, time.UTC)) // Monday
	b.instance("one", "office", "m5.large")
	b.instance("two", "office", "m5.large")
	for b.clock.Now().Hour() < 17 {
		if b.pass(); b.going("one") || b.going("two") {
			t.Fatalf("D15: a node went at %s", b.clock.Now())
		}
		b.clock.Step(30 * time.Minute)
	}
	b.expectEvent("DisruptionBlocked", "budget")
	if got := b.counted(meter.NodePoolsAllowedDisruptions, "nodepool", "office", "reason", "empty"); got != 0 {
		t.Errorf("O28: %v allowed", got)
	}
	b.clock.SetTime(time.Date(2026, 8, 3, 17, 0, 0, 0, time.UTC))
	if b.pass(); !b.going("one") || !b.going("two") {
		t.Error("D15: at five o'clock the nodes are still there")
	}
}

func TestD14_ABudgetOfOneIsKept(t *testing.T) {
	b := newBench(t)
	b.pool("general", whenEmpty, func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "1"}} })
	for i := range 3 {
		b.instance(fmt.Sprint("n", i), "general", "m5.large")
	}
	b.clock.Step(time.Minute)
	for range 3 {
		b.pass()
		if n := b.goingCount(); n != 1 {
			t.Fatalf("%d nodes are going", n)
		}
	}
	b.drain()
	if b.pass(); b.goingCount() != 1 || len(b.claims()) != 2 {
		t.Errorf("%d of %d are going", b.goingCount(), len(b.claims()))
	}
}

// goingCount is how many claims have been deleted and are still there.
func (b *bench) goingCount() (n int) {
	for _, c := range b.claims() {
		if !c.DeletionTimestamp.IsZero() {
			n++
		}
	}
	return n
}

func TestD55_ManyMovesAtOnce(t *testing.T) {
	b := newBench(t)
	b.pool("general", func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}} })
	for i := range 4 {
		b.instance(fmt.Sprint("empty-", i), "general", "m5.large")
	}
	b.clock.Step(time.Minute)
	b.pass()
	if n := b.goingCount(); n != 4 {
		t.Errorf("%d of 4 empty nodes go at once", n)
	}
}

func TestD2_StaleMarksAreTakenBack(t *testing.T) {
	b := newBench(t)
	b.pool("general", func(p *karpv1.NodePool) { p.Spec.Disruption.ConsolidateAfter = karpv1.NeverDuration() })
	b.instance("stale", "general", "m5.large", func(c *karpv1.NodeClaim) {
		c.Annotations = map[string]string{karpv1.MoveAnnotationKey: "nonsense"}
	})
	node := b.nodeOf("stale")
	node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedTaint())
	b.must(b.client.Update(t.Context(), node))
	c := b.claim("stale")
	c.StatusConditions().Set(karpv1.Condition{Type: karpv1.ConditionDisruptionReason, Status: metav1.ConditionTrue, Reason: "Drifted"}, b.clock.Now())
	b.must(b.client.WithWatch.Status().Update(t.Context(), c))
	b.pass()
	c = b.claim("stale")
	if tainted(b.nodeOf("stale")) || c.StatusConditions().Get(karpv1.ConditionDisruptionReason) != nil || c.Annotations[karpv1.MoveAnnotationKey] != "" {
		t.Errorf("taints %v, conditions %v, annotations %v", b.nodeOf("stale").Spec.Taints, c.Status.Conditions, c.Annotations)
	}
}

func TestD51_WhatComesBetweenDecisionAndActionCallsItOff(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(b *bench)
	}{
		{"a pod", func(b *bench) { b.pod("target", "100m") }},
		{"a protected daemon", func(b *bench) {
			b.pod("target", "100m", func(p *corev1.Pod) {
				p.OwnerReferences[0].Kind = "DaemonSet"
				p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
			})
		}},
	} {
		t.Run("D51 "+c.name, func(t *testing.T) {
			b := newBench(t)
			b.pool("general", whenEmpty)
			b.instance("target", "general", "m5.large")
			b.clock.Step(time.Minute)
			b.judge()
			b.between(karpv1.MoveAnnotationKey, func() { c.do(b) })
			b.look()
			if b.going("target") || tainted(b.nodeOf("target")) || b.claim("target").Annotations[karpv1.MoveAnnotationKey] != "" {
				t.Errorf("going %v, taints %v", b.going("target"), b.nodeOf("target").Spec.Taints)
			}
		})
	}
}

// between does something at the moment at which the loop has written that annotation on a claim.
func (b *bench) between(annotation string, do func()) {
	done := false
	b.client.Step = func(w rig.Write, after bool) error {
		if _, ok := w.Object.GetAnnotations()[annotation]; ok && after && !done {
			done = true
			do()
		}
		return nil
	}
}

func TestD51_DoNotDisruptDuringTheWaitKeepsTheNode(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.big("big", "general")
	b.clock.Step(time.Minute)
	b.pass()
	name := b.made()[0].Name
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod-1", Namespace: "default"}}
	b.must(b.client.WithWatch.Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"karpenter.sh/do-not-disrupt":"true"}}}`))))
	b.launch(name)
	b.join(name)
	b.pass()
	if b.going("big") || tainted(b.nodeOf("big")) {
		t.Error("the node goes in spite of the annotation")
	}
	b.expectEvent("DisruptionBlocked", "do-not-disrupt")
}

// All moves are looked at before the first one ends, which may take a while.
func TestS5_NoNodeIsDeletedAfterAnOldLook(t *testing.T) {
	for age, goes := range map[time.Duration]bool{0: true, 5 * time.Second: false} {
		t.Run(age.String(), func(t *testing.T) {
			b := newBench(t)
			b.pool("general")
			b.big("big", "general")
			b.clock.Step(time.Minute)
			b.pass()
			name := b.made()[0].Name
			b.launch(name)
			b.join(name)
			b.sync()
			list, _ := read(b.mirror.View())
			list[0].looked = b.clock.Now().Add(-age)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod-1", Namespace: "default"}}
			b.must(b.client.WithWatch.Patch(t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"karpenter.sh/do-not-disrupt":"true"}}}`))))
			_, err := b.loop.finish(t.Context(), list[0])
			b.must(err)
			if b.going("big") != goes {
				t.Errorf("looked at %s ago: the node goes: %v", age, !goes)
			}
			if b.pass(); !goes && tainted(b.nodeOf("big")) {
				t.Error("the move is not called off")
			}
		})
	}
}

func TestP118_TheSameQuestionIsAskedOnce(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.instance("full", "general", "m5.large")
	b.pod("full", "1500m")
	b.clock.Step(time.Minute)
	b.pass()
	asked := func() uint64 {
		families, err := b.registry.Gather()
		b.must(err)
		for _, f := range families {
			if f.GetName() == "karpenter_"+string(meter.DisruptionEvaluationDuration) {
				return f.GetMetric()[0].GetHistogram().GetSampleCount()
			}
		}
		return 0
	}
	before := asked()
	for range 5 {
		b.clock.Step(idle)
		b.pass()
	}
	if got := asked(); got != before {
		t.Errorf("asked %d times more", got-before)
	}
	b.pod("full", "100m")
	b.clock.Step(idle)
	if b.pass(); asked() != before+1 {
		t.Errorf("asked %d times after a change", asked()-before)
	}
	b.clock.Step(ponder)
	if b.pass(); asked() != before+2 {
		t.Errorf("asked %d times after a while", asked()-before)
	}
}

func TestD32_WhyNodesStayIsTold(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.instance("full", "general", "m5.large")
	b.pod("full", "1500m")
	b.instance("guarded", "general", "m5.large")
	b.pod("guarded", "1500m", func(p *corev1.Pod) { p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"} })
	b.clock.Step(time.Minute)
	b.pass()
	events := b.told()
	count := func(words ...string) (n int) {
		for _, e := range events {
			if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e, w) }) {
				n++
			}
		}
		return n
	}
	if count("Unconsolidatable") != 2 || count("DisruptionBlocked", "do-not-disrupt") != 2 {
		t.Errorf("events on node and claim, once each:\n%s", strings.Join(events, "\n"))
	}
	for range 5 {
		b.clock.Step(ponder)
		b.pass()
		events = append(events, b.told()...)
	}
	if got := count("Unconsolidatable"); got != 4 {
		t.Errorf("%d events in 25 minutes, want one in a quarter of an hour for node and claim", got)
	}
	if got := b.counted(meter.DisruptionEligibleNodes, "reason", "underutilized"); got != 1 {
		t.Errorf("O37: %v eligible", got)
	}
}

func TestD6_APoolThatIsPausedMakesNoReplacements(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.big("big", "general")
	b.clock.Step(time.Minute)
	b.loop.Gate = paused{b.clock.Now().Add(time.Hour)}
	if b.pass(); len(b.made()) != 0 || b.asBefore("big") != "" {
		t.Errorf("%d replacements; %s", len(b.made()), b.asBefore("big"))
	}
	b.clock.Step(time.Hour)
	if b.pass(); len(b.made()) != 1 {
		t.Errorf("%d replacements", len(b.made()))
	}
}

// paused holds every pool back.
type paused struct{ until time.Time }

func (p paused) Paused(string) (time.Time, string) { return p.until, "its instances do not join" }
