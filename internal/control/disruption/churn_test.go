package disruption

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	corev1 "k8s.io/api/core/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control/provision"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/meter"
	"karpenter/internal/state"
)

func TestAPoolChurnsWhenMoreThanOneInThreePodsIsEvictedWithinAnHour(t *testing.T) {
	now := time.Date(2026, 8, 3, 6, 0, 0, 0, time.UTC)
	look := func(c *churn, pods int) bool { return len(c.look(map[string]int{"p": pods}, now)) > 0 }
	c := &churn{}
	look(c, 90)
	c.evicted("p", 30, 0.5, now)
	if look(c, 60) { // of a pool that had 90
		t.Error("one in three is not more than that")
	}
	c.evicted("p", 1, 0.5, now)
	hour := c.look(map[string]int{"p": 60}, now)["p"]
	if hour.evictions != 31 || hour.pods != 90 || hour.saves != 1 {
		t.Errorf("counted %+v", hour)
	}
	now = now.Add(churnEvery - time.Second)
	if look(c, 90) {
		t.Error("it is said again within a quarter of an hour")
	}
	if now = now.Add(time.Second); !look(c, 90) {
		t.Error("it is not said again after a quarter of an hour")
	}
	if now = now.Add(time.Hour); look(c, 90) {
		t.Error("evictions of an hour ago count")
	}
	few := &churn{}
	few.evicted("p", churnLeast-1, 1, now)
	if look(few, 3) {
		t.Error("a few evictions make a small pool churn")
	}
	c.look(nil, now)
	if len(c.pools) != 0 {
		t.Error("a pool that is gone is remembered")
	}
}

func TestAPoolThatChurnsIsToldWhatToDo(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.instance("full", "general", "m5.large")
	b.pod("full", "1500m")
	b.loop.churn.evicted("general", churnLeast, 1.5, b.clock.Now())
	for range 3 {
		b.clock.Step(idle)
		b.pass()
	}
	n := 0
	for _, e := range b.told() {
		if strings.Contains(e, "Warning ConsolidationChurn") && strings.Contains(e, "$1.5000/h") && strings.Contains(e, "consolidateAfter") && strings.Contains(e, karpv1.RestartCostAnnotationKey) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("told %d times", n)
	}
	if got := b.counted(meter.NodePoolsPods, "nodepool", "general"); got != 1 {
		t.Errorf("%v pods", got)
	}
}

// What a consolidation evicts and saves is counted once its node is deleted, and where the pods go afterwards too.
func TestEvictionsForCostAreCounted(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.big("big", "general")
	b.clock.Step(time.Minute)
	b.pass()
	name := b.made()[0].Name
	if got := b.counted(meter.ConsolidationEvictions, "nodepool", "general"); got != 0 {
		t.Errorf("%v evictions before the replacement is up", got)
	}
	b.launch(name)
	b.join(name)
	b.pass()
	saved := b.counted(meter.ConsolidationSavings, "nodepool", "general")
	if got := b.counted(meter.ConsolidationEvictions, "nodepool", "general"); got != 1 || saved < 0.5 || saved > 0.768 {
		t.Errorf("%v evictions, $%v/h saved", got, saved)
	}
	b.clock.Step(time.Second)
	b.drain()
	b.pass()
	if got := b.counted(meter.ConsolidationPlaced, "nodepool", "general", "outcome", "planned"); got != 1 {
		t.Errorf("%v pods came where they were planned to", got)
	}
	view := b.mirror.View()
	moved := b.loop.Facts(view, b.clock.Now()).Moved
	if len(moved) != 1 {
		t.Fatalf("%d pods are remembered", len(moved))
	}
	for _, m := range moved {
		if m.Was != "default/pod-1" || b.ledger.List(ledger.Query{Kinds: []ledger.Kind{ledger.Move}})[0].Key != m.Move {
			t.Errorf("remembered as %+v", m)
		}
	}
}

func TestWhereMovedPodsComeToIsJudged(t *testing.T) {
	now := time.Date(2026, 8, 3, 6, 0, 0, 0, time.UTC)
	node := func(claim string, age time.Duration, from string) *state.Node {
		c := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim, CreationTimestamp: metav1.NewTime(now.Add(-age))}}
		if from != "" {
			c.Annotations = map[string]string{karpv1.MovedFromAnnotationKey: from}
		}
		return &state.Node{World: &world.Node{Name: "node-" + claim, Claim: claim}, Claim: c}
	}
	moved := now.Add(-time.Minute)
	for _, test := range []struct {
		to   *state.Node
		want outcome
	}{
		{node("a", time.Hour, ""), asPlanned},
		{node("b", time.Hour, ""), elsewhere},
		{node("c", 30*time.Second, ""), onNewNode},
		{node("d", 30*time.Second, "id=m-2 from=x"), elsewhere},
	} {
		var got []outcome
		m := &movedPods{began: moved, settled: func(pool string, as outcome) { got = append(got, outcome(pool), as) }}
		m.due = map[types.UID][]due{"web": {
			{Moved: state.Moved{Times: 1, At: moved, Move: "m-1"}, pool: "general", to: "z", left: true},
			{Moved: state.Moved{Times: 1, At: moved, Move: "m-1"}, pool: "general", to: "a", left: true},
		}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", CreationTimestamp: metav1.NewTime(now), OwnerReferences: []metav1.OwnerReference{{UID: "web", Controller: new(true)}}}}
		pod.Spec.NodeName = test.to.World.Name
		if _, ok := m.inherit(pod, test.to, false, nil); !ok || fmt.Sprint(got) != fmt.Sprint([]outcome{"general", test.want}) {
			t.Errorf("%s: %v, known %v; want %s", test.to.World.Claim, got, ok, test.want)
		}
	}
}

// lateArrivals knows nothing of the ReplicaSets that are there until it has synced.
type lateArrivals struct{ synced bool }

func (a *lateArrivals) Synced() bool                  { return a.synced }
func (a *lateArrivals) Rollouts() *provision.Rollouts { return &provision.Rollouts{} }
func (a *lateArrivals) Arriving(time.Time) int        { return 0 }

// A process that begins leaves pods alone that were replaced of late. It takes no look before it knows when their ReplicaSets were created.
func TestTheFirstLookAtMovedPodsWaitsForReplicaSets(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.big("big", "general")
	b.sync()
	late := &lateArrivals{}
	b.loop.Arrivals = late
	b.loop.Wake() // it does not rest after the look
	if again, err := b.loop.round(t.Context()); err != nil || again != unsynced {
		t.Errorf("looks again after %s: %v", again, err)
	}
	now := b.clock.Now()
	created := func(types.UID) time.Time { return now.Add(-time.Hour) }
	if n := len(b.loop.moved.refresh(b.mirror.View(), now, created)); n != 1 {
		t.Errorf("%d pods count as moved", n)
	}
	late.synced = true
	b.loop.Wake()
	if again, err := b.loop.round(t.Context()); err != nil || again == unsynced {
		t.Errorf("looks again after %s: %v", again, err)
	}
}

// Whoever only reads may have a newer view than the loop, which looks at an older one afterwards.
func TestReadersChangeNothingThatIsKnownOfMovedPods(t *testing.T) {
	b := newBench(t)
	b.pool("general")
	b.big("big", "general")
	b.clock.Step(time.Minute)
	b.pass()
	name := b.made()[0].Name
	b.launch(name)
	b.join(name)
	b.pass()
	b.clock.Step(time.Second)
	older := b.mirror.View()
	b.drain()
	b.sync()
	newer, now := b.mirror.View(), b.clock.Now()
	if n := len(b.loop.Facts(newer, now).Moved); n != 1 {
		t.Errorf("a reader sees %d moved pods", n)
	}
	b.loop.moved.refresh(older, now, b.loop.created)
	if n := len(b.loop.moved.refresh(newer, now, b.loop.created)); n != 1 {
		t.Errorf("%d moved pods are known to the loop", n)
	}
}

// Pods that come while a move still waits for its replacements, or after it was called off, are not taken for moved ones.
func TestOnlyPodsThatCameAfterAMoveCountAsMoved(t *testing.T) {
	now := time.Date(2026, 8, 3, 6, 0, 0, 0, time.UTC)
	n := &state.Node{World: &world.Node{Name: "n"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", CreationTimestamp: metav1.NewTime(now), OwnerReferences: []metav1.OwnerReference{{UID: "web", Controller: new(true)}}}}
	pod.Spec.NodeName = "n"
	open := func() *movedPods {
		return &movedPods{began: now, due: map[types.UID][]due{"web": {{Moved: state.Moved{At: now.Add(-time.Minute), Move: "m-1"}, payback: leastPayback}}}}
	}
	m := open()
	if _, ok := m.inherit(pod, n, false, nil); ok {
		t.Error("a pod counts as moved before its node is deleted")
	}
	m.left("m-1", now)
	if got, ok := m.inherit(pod, n, false, nil); !ok || !got.Paid.Equal(now.Add(leastPayback)) {
		t.Errorf("moved %v, paid at %s", ok, got.Paid)
	}
	m = open()
	m.stayed("m-1")
	if len(m.due) != 0 {
		t.Error("a move that was called off is remembered")
	}
}
