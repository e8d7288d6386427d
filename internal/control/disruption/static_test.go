package disruption

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/meter"
)

// fixed is a static pool of so many nodes, called n0, n1 and so on, that may have so many, with a budget of two.
func (b *bench) fixed(nodes int, limit string) (names []string) {
	b.Helper()
	b.loop.Creator.Live = b.client
	b.pool("base", func(p *karpv1.NodePool) {
		p.Spec.Replicas = new(int64(nodes))
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "2"}}
		if limit != "" {
			p.Spec.Limits = karpv1.Limits{karpv1.LimitsNodes: resource.MustParse(limit)}
		}
	})
	for i := range nodes {
		name := "n" + string(rune('0'+i))
		b.instance(name, "base", "m5.large")
		names = append(names, name)
	}
	return names
}

// up launches what has been made, and brings it up.
func (b *bench) up() {
	b.Helper()
	for _, c := range b.made() {
		if c.Status.ProviderID == "" {
			b.launch(c.Name)
			b.join(c.Name)
		}
	}
}

func TestP107_DriftReplacesStaticNodesOneForOne(t *testing.T) {
	b := newBench(t)
	names := b.fixed(3, "5")
	b.pod("n0", "1500m")
	b.clock.Step(time.Minute)
	b.drifted()
	b.pass()
	if made := b.made(); len(made) == 0 || len(made) > 2 {
		t.Fatalf("%d replacements, want one or two: the budget is 2", len(made))
	}
	for _, name := range names {
		if b.going(name) {
			t.Errorf("%s is deleted before its replacement is up", name)
		}
	}
	b.restart()
	b.loop.Creator.Live = b.client
	for range 8 {
		b.up()
		b.pass()
		if n := len(b.claims()); n > 5 {
			t.Fatalf("P104: %d claims, and limits.nodes is 5", n)
		}
		b.drain()
		b.clock.Step(15 * time.Second)
		b.pass()
	}
	left := 0
	for _, name := range names {
		if b.claim(name) != nil {
			left++
		}
	}
	if made := len(b.made()); left != 0 || made != 3 {
		t.Errorf("%d of the drifted nodes are left, and %d were made; want 0 and 3", left, made)
	}
	if got := b.counted(meter.DisruptionDecisions, "reason", "drifted", "decision", "replace"); got != 3 {
		t.Errorf("O35: %v counted", got)
	}
}

func TestN8_AStaticPoolAtItsLimitIsBlocked(t *testing.T) {
	b := newBench(t)
	b.fixed(2, "2")
	b.clock.Step(time.Minute)
	b.drifted()
	b.pass()
	if len(b.made()) > 0 || b.going("n0") {
		t.Fatal("the node is replaced although the pool is at its limit")
	}
	b.expectEvent("static NodePool is at its node limit and cannot stage a replacement")
}

func TestN8_TerminateFirstOfAStaticPoolAtItsLimit(t *testing.T) {
	b := newBench(t)
	b.fixed(3, "3")
	b.loop.Options.TerminateFirstDrift = true
	b.clock.Step(time.Minute)
	b.drifted()
	b.pass()
	if len(b.made()) > 0 || b.goingCount() != 2 {
		t.Fatalf("%d made and %d deleted, want 0 and 2: the budget is 2", len(b.made()), b.goingCount())
	}
	if got := b.counted(meter.TerminateFirstDecisions, "nodepool", "base", "reason", "drifted", "terminate_first_reason", "static-at-limit"); got != 2 {
		t.Errorf("%v counted", got)
	}
	b.drain() // nothing has replaced them yet
	b.clock.Step(15 * time.Second)
	b.pass()
	if b.goingCount() != 0 {
		t.Error("more nodes are deleted although what replaces the first is not up")
	}
}

// TestP107_ASlowReplacementOfAStaticPoolMayTakeItsTime has one need longer to come up than moves are waited for: the pool would give it up as
// one node too many, and begin again.
func TestP107_ASlowReplacementOfAStaticPoolMayTakeItsTime(t *testing.T) {
	b := newBench(t)
	b.fixed(1, "2")
	b.clock.Step(time.Minute)
	b.drifted()
	b.pass()
	made := b.made()
	if len(made) != 1 {
		t.Fatalf("%d made, want 1", len(made))
	}
	b.launch(made[0].Name)
	b.clock.Step(leastPatience + time.Minute)
	b.pass()
	if b.going(made[0].Name) || b.asBefore("n0") == "" {
		t.Errorf("replacement going %v, and the move is over: %v", b.going(made[0].Name), b.asBefore("n0") == "")
	}
	b.join(made[0].Name)
	b.pass()
	if b.going(made[0].Name) || !b.going("n0") {
		t.Errorf("replacement going %v, n0 going %v, though the replacement is up", b.going(made[0].Name), b.going("n0"))
	}
}
