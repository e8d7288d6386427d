package web

import (
	"math"
	"testing"
	"time"

	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

func TestEvictionsOfTheLastHourAreAddedUpByPool(t *testing.T) {
	now := time.Date(2026, 8, 3, 6, 0, 0, 0, time.UTC)
	at := now.Add(-2 * time.Hour)
	l := ledger.New(10, "p", func() time.Time { return at })
	add := func(reason string, outcome ledger.Outcome) {
		l.Settle(l.Add(ledger.Entry{Kind: ledger.Move, Reason: reason, Outcome: ledger.Open, Saves: 0.4, Remove: []model.Node{
			{Pool: "a", Price: 0.3, Pods: []string{"x/1", "x/2", "x/3"}}, {Pool: "b", Price: 0.1, Pods: []string{"x/4"}},
		}}), outcome, "")
	}
	add("Underutilized", ledger.Done) // too long ago
	at = now.Add(-time.Minute)
	add("Underutilized", ledger.Done)
	add("Underutilized", ledger.Failed)
	add("Drifted", ledger.Done)
	node := &state.Node{World: &world.Node{Pool: "a"}}
	for range 6 {
		node.World.Pods = append(node.World.Pods, &world.Pod{Movable: true})
	}
	got := evictions(l, &state.View{Nodes: []*state.Node{node}}, now)
	a, b := got["a"], got["b"]
	if a == nil || a.Pods != 3 || a.PerPod != 0.5 || math.Abs(a.SavesEach-0.1) > 1e-9 {
		t.Errorf("pool a: %+v", a)
	}
	if b == nil || b.Pods != 1 || b.PerPod != 0 || math.Abs(b.SavesEach-0.1) > 1e-9 {
		t.Errorf("pool b: %+v", b)
	}
}
