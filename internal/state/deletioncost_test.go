package state

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/state/trim"
)

// What a pod's eviction costs is its owner's word: with deletion costs in Karpenter's hands only the disruption cost, otherwise that or
// else the deletion cost, unless it is one that Karpenter has left.
func TestN9_WhoSaysWhatAnEvictionCosts(t *testing.T) {
	for _, c := range []struct {
		name                   string
		disruption, cost, mark string // 2²⁷ is one step
		off, on                float64
	}{
		{name: "nothing", off: 1, on: 1},
		{name: "a deletion cost", cost: "134217728", off: 2, on: 1},
		{name: "a disruption cost", disruption: "268435456", off: 3, on: 3},
		{name: "both", disruption: "-134217728", cost: "134217728", off: 0, on: 0},
		{name: "a deletion cost of Karpenter's", cost: "-2147483648", mark: "-2147483648", off: 1, on: 1},
		{name: "a deletion cost after Karpenter's", cost: "134217728", mark: "-5", off: 2, on: 1},
		{name: "the most", disruption: "2147483647", off: 10, on: 10},
		{name: "more than 32 bits", disruption: "2147483648", off: 1, on: 1},
		{name: "a fraction", disruption: "134217728.0", cost: "1.5", off: 1, on: 1},
		{name: "a fraction as deletion cost", cost: "134217728.0", off: 1, on: 1},
	} {
		p := &corev1.Pod{}
		p.Annotations = map[string]string{}
		for key, text := range map[string]string{v1.DisruptionCostAnnotationKey: c.disruption, corev1.PodDeletionCost: c.cost, v1.DeletionCostAnnotationKey: c.mark} {
			if text != "" {
				p.Annotations[key] = text
			}
		}
		if off, on := evictionCost(p, false), evictionCost(p, true); off != c.off || on != c.on {
			t.Errorf("%s: %v and %v, want %v and %v", c.name, off, on, c.off, c.on)
		}
	}
}

// A disruption cost that is no whole number is told once about the pod, until it is put right or the pod is gone. A fraction was one
// before 1.15.
func TestN9_AWrongDisruptionCostIsToldOfThePod(t *testing.T) {
	l := newLab()
	p := l.pod("web", "host-1")
	l.put(l.launched(l.claim("general-1"), "cloud/1"), l.node("host-1", "cloud/1"), p)
	for _, text := range []string{"5", "1.5", "2147483648", "", "-2147483648", "x"} {
		p = again(l, p, func(p *corev1.Pod) { p.Annotations = map[string]string{v1.DisruptionCostAnnotationKey: text} })
		want := `Pod default/web: annotation karpenter.sh/disruption-cost is "` + text + `" and counts as 0: it must be a whole number from -2147483648 to 2147483647`
		if text == "5" || text == "-2147483648" {
			want = ""
		}
		got := ""
		for _, problem := range l.put(p).Problems {
			got += problem.String()
		}
		if got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	l.dropPod(p)
	if got := l.View().Problems; len(got) > 0 {
		t.Errorf("of a pod that is gone: %v", got)
	}
}

// A deletion cost that Karpenter writes changes nothing that decisions are made from: otherwise each would lead to the next.
func TestN9_ADeletionCostIsNoNews(t *testing.T) {
	for _, own := range []bool{false, true} {
		l := newLab()
		l.opt.OwnDeletionCosts = own
		p := l.pod("web", "host-1")
		view := l.put(l.launched(l.claim("general-1"), "cloud/1"), l.node("host-1", "cloud/1"), p)
		before := view.Disruption(DisruptionOptions{}, l.now).Nodes[0]
		l.now = l.now.Add(time.Hour)
		p = again(l, p, func(p *corev1.Pod) {
			p.Annotations = map[string]string{corev1.PodDeletionCost: "-2147483648", v1.DeletionCostAnnotationKey: "-2147483648"}
		})
		if _, err := trim.Object(p); err != nil {
			t.Fatal(err)
		}
		now := l.put(p)
		if now.World != view.World {
			t.Error("what decisions are made from has changed")
		}
		if n := now.Nodes[0]; n.Pods[0].Annotations[v1.DeletionCostAnnotationKey] == "" || n.Pods[0].Annotations[corev1.PodDeletionCost] == "" {
			t.Errorf("views do not show what was written: %v", n.Pods[0].Annotations)
		} else if n.PodEvent != view.Nodes[0].PodEvent || n.Stirred() != view.Nodes[0].Stirred() {
			t.Errorf("the node counts as stirred: %s and %s, before %s and %s", n.PodEvent, n.Stirred(), view.Nodes[0].PodEvent, view.Nodes[0].Stirred())
		}
		if after := now.Disruption(DisruptionOptions{}, l.now).Nodes[0]; after.Cost != before.Cost || after.Restart != before.Restart {
			t.Errorf("moving the pods costs %v and $%v, before %v and $%v", after.Cost, after.Restart, before.Cost, before.Restart)
		}
	}
}
