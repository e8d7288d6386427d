package disruption

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
	"karpenter/internal/meter"
	"karpenter/internal/state"
	"karpenter/test/harness/rig"
)

const hardware = "AcceleratedHardwareReady"

// repairing has the loop repair nodes whose hardware is broken for ten minutes, and that are not Ready for thirty.
func (b *bench) repairing(grace *time.Duration) {
	b.loop.Repair = []life.RepairPolicy{
		{Type: string(corev1.NodeReady), Status: "False", Tolerated: 30 * time.Minute, Grace: grace, Action: life.ReplaceNode},
		{Type: hardware, Status: "False", Tolerated: 10 * time.Minute, Grace: grace, Action: life.ReplaceNode},
	}
}

// fault has a node say since now that something is broken; no reason says that all is well.
func (b *bench) fault(claim string, kind corev1.NodeConditionType, reason string) {
	b.Helper()
	n := b.nodeOf(claim)
	is := corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(b.clock.Now())}
	if reason == "" {
		is.Status = corev1.ConditionTrue
	}
	n.Status.Conditions = append(slices.DeleteFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind }), is)
	b.must(b.client.WithWatch.Status().Update(b.Context(), n))
}

// ward is a pool of five full nodes in which nothing is consolidated, the first of which is called sick.
func (b *bench) ward(edit ...func(*karpv1.NodePool)) {
	b.Helper()
	b.pool("general", append([]func(*karpv1.NodePool){func(p *karpv1.NodePool) {
		p.Spec.Disruption.ConsolidateAfter = karpv1.NeverDuration()
	}}, edit...)...)
	for _, name := range []string{"sick", "b", "c", "d", "e"} {
		b.instance(name, "general", "m5.large")
		b.pod(name, "1500m")
	}
}

// replace brings up what replaces the node, and lets the loop look.
func (b *bench) replace() {
	b.Helper()
	made := b.made()
	if len(made) != 1 {
		b.Fatalf("%d replacements", len(made))
	}
	b.launch(made[0].Name)
	b.join(made[0].Name)
	b.pass()
}

func TestN6_AnUnhealthyNodeIsReplacedWithinItsGracePeriod(t *testing.T) {
	b := newBench(t)
	b.repairing(new(5 * time.Minute))
	b.ward()
	n := b.nodeOf("sick")
	n.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"}
	b.must(b.client.Update(b.Context(), n))
	b.pod("sick", "100m", func(p *corev1.Pod) { p.Annotations = map[string]string{karpv1.DoNotDisruptAnnotationKey: "true"} })
	b.fault("sick", hardware, "NvidiaXID79Error")
	b.clock.Step(9 * time.Minute)
	if b.pass(); len(b.made()) > 0 {
		t.Fatal("repaired too early")
	}
	b.clock.Step(time.Minute)
	b.pass()
	c := b.claim("sick")
	if !c.DeletionTimestamp.IsZero() || c.Annotations[karpv1.TerminationTimestampAnnotationKey] != "" {
		t.Fatal("the node goes, or has a deadline, before its replacement is up")
	}
	if reason := c.StatusConditions().Get(karpv1.ConditionDisruptionReason); reason == nil || reason.Reason != "Unhealthy" || !tainted(b.nodeOf("sick")) {
		t.Errorf("condition %+v, taints %v", reason, b.nodeOf("sick").Spec.Taints)
	}
	b.restart()
	b.repairing(nil) // what was decided counts
	b.replace()
	if !b.going("sick") {
		t.Fatal("the node stays although its replacement is up")
	}
	if got, want := b.claim("sick").Annotations[karpv1.TerminationTimestampAnnotationKey], b.clock.Now().Add(5*time.Minute).UTC().Format(time.RFC3339); got != want {
		t.Errorf("the deadline is %s, want %s", got, want)
	}
	if got := b.counted(meter.NodeClaimsUnhealthyDisrupted, "condition", "accelerated_hardware_ready", "termination_mode", "eventual", "nodepool", "general"); got != 1 {
		t.Errorf("O8: %v counted", got)
	}
	if got := b.counted(meter.NodeClaimsDisrupted, "reason", "unhealthy", "termination_mode", "eventual"); got != 1 {
		t.Errorf("O3: %v counted", got)
	}
	if got := b.counted(meter.DisruptionDecisions, "reason", "unhealthy", "decision", "replace"); got != 1 {
		t.Errorf("O35: %v counted", got)
	}
}

func TestN6_ADeletionWhoseAnswerGotLostIsNotCalledOff(t *testing.T) {
	b := newBench(t)
	b.repairing(new(5 * time.Minute))
	b.ward()
	b.vanish(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod-1", Namespace: "default"}}) // so that nothing has to replace the node
	b.fault("sick", hardware, "NvidiaXID79Error")
	b.clock.Step(10 * time.Minute)
	b.judge()
	b.sync()
	lost := false
	b.client.Step = func(w rig.Write, after bool) error {
		if w.String() == "delete sick" && after && !lost {
			lost = true
			return errors.New("the connection is gone")
		}
		return nil
	}
	for range 3 { // the watch shows nothing meanwhile
		b.loop.decideAt = time.Time{}
		_, err := b.loop.Pass(t.Context())
		b.must(err)
		b.clock.Step(time.Second)
		c := b.claim("sick")
		if !lost || c.DeletionTimestamp.IsZero() {
			t.Fatalf("an answer got lost: %v; the claim is deleted: %v", lost, !c.DeletionTimestamp.IsZero())
		}
		if !tainted(b.nodeOf("sick")) || c.Annotations[karpv1.TerminationTimestampAnnotationKey] == "" || c.Annotations[karpv1.MoveAnnotationKey] == "" {
			t.Fatalf("taints %v, annotations %v", b.nodeOf("sick").Spec.Taints, c.Annotations)
		}
	}
}

// What is put back while its claim is being deleted, which no watch has shown yet, stays as it is.
func TestN6_NothingIsPutBackOnAClaimThatIsDeleted(t *testing.T) {
	b := newBench(t)
	b.repairing(new(5 * time.Minute))
	b.ward()
	b.fault("sick", hardware, "NvidiaXID79Error")
	b.clock.Step(10 * time.Minute)
	b.pass()
	stale := b.mirror.View().Claim("sick")
	b.must(b.client.WithWatch.Delete(t.Context(), b.claim("sick")))
	b.must(b.loop.putBack(t.Context(), []*state.Node{stale}))
	if c := b.claim("sick"); !tainted(b.nodeOf("sick")) || c.Annotations[karpv1.MoveAnnotationKey] == "" || c.StatusConditions().Get(karpv1.ConditionDisruptionReason) == nil {
		t.Errorf("taints %v, annotations %v, conditions %v", b.nodeOf("sick").Spec.Taints, c.Annotations, c.Status.Conditions)
	}
	if known := b.mirror.View().Claim("sick"); known.Claim.DeletionTimestamp.IsZero() {
		t.Error("the next look sees the claim as it was, and puts all back once more")
	}
}

func TestN6_ADeadlineIsOnlyTightened(t *testing.T) {
	b := newBench(t)
	b.repairing(new(10 * time.Minute))
	early := b.clock.Now().Add(20 * time.Minute).UTC().Format(time.RFC3339)
	b.ward()
	c := b.claim("sick")
	c.Annotations = map[string]string{karpv1.TerminationTimestampAnnotationKey: early}
	b.must(b.client.Update(b.Context(), c))
	b.fault("sick", hardware, "NvidiaXID79Error")
	b.clock.Step(15 * time.Minute)
	b.pass()
	b.replace()
	if got := b.claim("sick").Annotations[karpv1.TerminationTimestampAnnotationKey]; got != early {
		t.Errorf("the deadline was moved from %s to %s", early, got)
	}
}

func TestN6_ARepairEndsWhenTheNodeIsWellAgain(t *testing.T) {
	for _, c := range []struct {
		name string
		well func(b *bench)
		want string
	}{
		{"healthy", func(b *bench) { b.fault("sick", hardware, "") }, "it is healthy again"},
		{"do-not-repair", func(b *bench) {
			n := b.nodeOf("sick")
			n.Annotations = map[string]string{karpv1.DoNotRepairAnnotationKey: "true"}
			b.must(b.client.Update(b.Context(), n))
		}, karpv1.DoNotRepairAnnotationKey},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.repairing(new(5 * time.Minute))
			b.ward()
			b.fault("sick", hardware, "NvidiaXID79Error")
			b.clock.Step(10 * time.Minute)
			b.pass()
			c.well(b)
			b.replace()
			if b.going("sick") || tainted(b.nodeOf("sick")) || b.claim("sick").Annotations[karpv1.TerminationTimestampAnnotationKey] != "" {
				t.Error("the node goes all the same")
			}
			b.expectEvent("DisruptionBlocked", c.want)
		})
	}
}

func TestN6_ManyUnhealthyNodesAreToldAndNotReplaced(t *testing.T) {
	b := newBench(t)
	b.repairing(new(5 * time.Minute))
	b.ward()
	b.fault("sick", corev1.NodeReady, "KubeletStopped")
	b.clock.Step(time.Hour)
	b.fault("b", corev1.NodeReady, "KubeletStopped")
	for range 3 {
		b.pass()
		b.clock.Step(time.Minute)
	}
	if len(b.made()) > 0 || b.going("sick") {
		t.Error("two of five are unhealthy, and one is replaced")
	}
	events := b.told()
	for _, want := range []string{"Ready is False since", "Unhealthy nodes are not replaced, because more than 20% of the nodes are unhealthy (2 of 5) in pool general"} {
		n := 0
		for _, e := range events {
			if strings.Contains(e, "Warning NodeRepairBlocked") && strings.Contains(e, want) {
				n++
			}
		}
		// The node, its claim and the pool are told once; that of the node names the pool's reason in other words.
		if least := map[bool]int{true: 2, false: 1}[strings.HasPrefix(want, "Ready")]; n != least {
			t.Errorf("%d events with %q, want %d, among\n%s", n, want, least, strings.Join(events, "\n"))
		}
	}
	b.fault("b", corev1.NodeReady, "")
	b.pass()
	b.replace()
	if !b.going("sick") {
		t.Error("one of five is unhealthy, and stays")
	}
}

func TestN6_BudgetsHoldForRepair(t *testing.T) {
	b := newBench(t)
	b.repairing(new(5 * time.Minute))
	b.ward(func(p *karpv1.NodePool) {
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "0", Reasons: []karpv1.DisruptionReason{karpv1.DisruptionReasonUnhealthy}}}
	})
	b.fault("sick", corev1.NodeReady, "KubeletStopped")
	b.clock.Step(time.Hour)
	if b.pass(); len(b.made()) > 0 || b.going("sick") {
		t.Error("a budget of 0 does not hold")
	}
	b.expectEvent("DisruptionBlocked", "No allowed disruptions for disruption reason Unhealthy")
	if got := b.counted(meter.DisruptionEligibleNodes, "reason", "unhealthy"); got != 1 {
		t.Errorf("O37: %v nodes could be repaired", got)
	}
}

func TestN7_ARebootIsRequestedAndLeftToItself(t *testing.T) {
	b := newBench(t)
	b.repairing(new(5 * time.Minute))
	b.loop.Repair = append(b.loop.Repair, life.RepairPolicy{
		Type: hardware, Status: "False", ReasonRegex: "^NvidiaXID48Error$", Tolerated: 10 * time.Minute, Grace: new(5 * time.Minute), Action: life.RebootNode,
	})
	b.ward(func(p *karpv1.NodePool) { p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "1"}} })
	b.fault("sick", hardware, "NvidiaXID48Error")
	b.clock.Step(10 * time.Minute)
	for range 3 {
		b.pass()
		b.clock.Step(time.Minute)
	}
	c := b.claim("sick")
	is, reason := c.StatusConditions().Get(karpv1.ConditionRebooting), c.StatusConditions().Get(karpv1.ConditionDisruptionReason)
	if is.Status != metav1.ConditionTrue || is.Reason != karpv1.ReasonRebootRequested || reason == nil || reason.Reason != "Unhealthy" || c.Annotations[karpv1.RebootGraceAnnotationKey] != "5m0s" {
		t.Errorf("Rebooting %+v, DisruptionReason %+v, annotations %v", is, reason, c.Annotations)
	}
	if got := control.Blamed(c); got != hardware { // for O8, if the reboot fails
		t.Errorf("condition %q is to blame", got)
	}
	if len(b.made()) > 0 || b.going("sick") || tainted(b.nodeOf("sick")) || c.Annotations[karpv1.MoveAnnotationKey] != "" {
		t.Errorf("%d replacements, annotations %v", len(b.made()), c.Annotations)
	}
	if got := b.counted(meter.DisruptionDecisions, "reason", "unhealthy", "decision", "reboot"); got != 1 {
		t.Errorf("O35: %v counted", got)
	}
	if got := b.counted(meter.NodePoolsAllowedDisruptions, "nodepool", "general", "reason", "drifted"); got != 0 {
		t.Errorf("a node that is rebooted does not count: %v more are allowed", got)
	}
	// Two have not helped: the next is a replacement.
	c.Annotations[karpv1.RebootsAnnotationKey] = b.clock.Now().Add(-2*time.Hour).UTC().Format(time.RFC3339) + "," + b.clock.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	b.must(b.client.Update(b.Context(), c))
	c.StatusConditions().Set(karpv1.Condition{Type: karpv1.ConditionRebooting, Status: metav1.ConditionFalse, Reason: karpv1.ReasonRebootSucceeded}, b.clock.Now())
	_, err := c.StatusConditions().Clear(karpv1.ConditionDisruptionReason, b.clock.Now())
	b.must(err)
	b.must(b.client.WithWatch.Status().Update(b.Context(), c))
	b.clock.Step(9 * time.Minute)
	if b.pass(); len(b.made()) > 0 {
		t.Error("whoever reports on the node had no time to find out anew")
	}
	b.clock.Step(time.Minute)
	b.pass()
	b.replace()
	if !b.going("sick") {
		t.Error("it is not replaced after two reboots")
	}
}

func TestN8_ANodeInAFullReservationIsRemovedFirst(t *testing.T) {
	b := newBench(t)
	b.reservation = "cr-1"
	b.loop.Options.TerminateFirstDrift = true
	b.pool("general", func(p *karpv1.NodePool) {
		p.Spec.Disruption.ConsolidateAfter = karpv1.NeverDuration()
		p.Spec.Template.Spec.Requirements[0].Values = []string{"reserved"}
	})
	b.instance("old", "general", "m5.large")
	labels := map[string]string{karpv1.CapacityTypeLabelKey: "reserved", awsv1.LabelCapacityReservationID: "cr-1"}
	c, n := b.claim("old"), b.nodeOf("old")
	for key, value := range labels {
		c.Labels[key], n.Labels[key] = value, value
	}
	b.must(b.client.Update(b.Context(), c))
	b.must(b.client.Update(b.Context(), n))
	b.pod("old", "1500m")
	b.clock.Step(time.Minute)
	b.drifted()
	b.pass()
	if !b.going("old") || len(b.made()) != 0 {
		t.Errorf("old goes: %v, %d replacements", b.going("old"), len(b.made()))
	}
	if got := b.counted(meter.DisruptionDecisions, "reason", "drifted", "decision", "terminate-first"); got != 1 {
		t.Errorf("O35: %v counted", got)
	}
	if got := b.counted(meter.TerminateFirstDecisions, "nodepool", "general", "reason", "drifted", "terminate_first_reason", "no-reserved-capacity"); got != 1 {
		t.Errorf("N8: %v counted", got)
	}
}
