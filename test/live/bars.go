package main

import (
	"fmt"

	"karpenter/test/workloads"
)

// answer says of each bar whether it holds.
func (t *trial) answer(reports []*report, both *report) {
	bar := workloads.Bars[t.Name]
	for i, r := range reports {
		what := fmt.Sprintf("%s, %v", r.Phase, t.variant)
		seconds := bar.In
		if !r.in {
			seconds = bar.Out[i]
			if t.arrival == "fast" && bar.OutFast != nil {
				seconds = bar.OutFast[i]
			}
		}
		if t.load == "calm" || !r.Done {
			word := "every pod ready"
			if r.in {
				word = "settled"
			}
			if !r.Done {
				word, seconds = "not "+word, 0
			}
			t.say(figure{t.Name, "s", r.Seconds, seconds}, "%s: %d pods, %s", what, r.Pods, word)
		}
		if r.in {
			t.say(figure{t.Name, "× plan's $/h", ratio(r.Price, r.PlanPrice), workloads.FinalPerPlan}, "%s: $%.2f/h at the end, $%.2f/h by one plan", what, r.Price, r.PlanPrice)
			continue
		}
		t.say(figure{t.Name, "claims per node", ratio(r.Claims, r.Nodes), bar.Claims}, "%s: %d claims for %d nodes", what, r.Claims, r.Nodes)
		t.say(figure{t.Name, "× plan's nodes", ratio(r.Nodes, r.PlanNodes), workloads.NodesPerPlan}, "%s: %d nodes, %d by one plan", what, r.Nodes, r.PlanNodes)
		t.say(figure{t.Name, "× plan's $/h", ratio(r.Price, r.PlanPrice), workloads.PricePerPlan}, "%s: $%.2f/h, $%.2f/h by one plan", what, r.Price, r.PlanPrice)
		t.say(figure{t.Name, "× final $/h", ratio(r.PeakPrice, r.Price), workloads.PeakPerFinal}, "%s: $%.2f/h at the peak", what, r.PeakPrice)
		t.say(figure{t.Name, "evictions", float64(r.Early), 0}, "%s: evicted before all pods were bound", what)
	}
	what := fmt.Sprintf("all phases, %v", t.variant)
	t.say(figure{t.Name, "evictions per pod", ratio(both.Evictions, both.Pods), bar.Evictions}, "%s: %d evictions for %d pods", what, both.Evictions, both.Pods)
	if n := both.AsPlanned + both.Elsewhere; n > 0 {
		t.say(figure{t.Name, "% elsewhere", 100 * float64(both.Elsewhere) / float64(n), workloads.ElsewherePercent}, "%s: %d of %d pods bound as planned", what, both.AsPlanned, n)
	}
}
