package state

import (
	"encoding/json"
	"testing"

	"karpenter/internal/state/dump"
)

// planList is a fleet as kubectl prints it.
func planList(tb testing.TB, f *fleet) []byte {
	tb.Helper()
	var items []string
	add := func(kind string, obj any) {
		raw, err := json.Marshal(obj)
		if err != nil {
			tb.Fatal(err)
		}
		items = append(items, `{"kind":"`+kind+`",`+string(raw[1:]))
	}
	for _, n := range f.nodes {
		add("Node", n)
	}
	for _, c := range f.claims {
		add("NodeClaim", c)
	}
	for _, p := range f.pods {
		add("Pod", p)
	}
	for _, d := range f.daemons {
		add("DaemonSet", d)
	}
	for _, b := range f.budgets {
		add("PodDisruptionBudget", b)
	}
	add("NodePool", f.pool)
	return list(items...)
}

// BenchmarkBuild is what `karpenter plan` pays for a snapshot once its text is parsed.
func BenchmarkBuild(b *testing.B) {
	o, _, err := dump.Read(planList(b, newFleet(1000, 20, 1000)))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		if s, _ := Build(o, nil, Options{}); len(s.Nodes) != 1000 {
			b.Fatal(len(s.Nodes))
		}
	}
}
