package main

import "fmt"

// limits are the bars of a workload. Seconds count on the instance as it is, everything else on a busy one too.
type limits struct {
	// out are the seconds of each way out with slow arrival; outFast, if any, those with fast arrival.
	out, outFast []float64
	in           float64
	// evictions are per pod of the last phase over all phases; claims are those made on a way out per node at its end.
	evictions, claims float64
}

var bars = map[string]limits{
	barWide:         {out: []float64{65}, outFast: []float64{30}, in: 150, evictions: 0.35, claims: 1.25},
	barBasic:        {out: []float64{65}, in: 120, evictions: 0.25, claims: 1.15},
	barHostSpread:   {out: []float64{100}, in: 150, evictions: 0.35, claims: 1.15},
	barInterference: {out: []float64{120, 150}, in: 180, evictions: 0.35, claims: 1.15},
}

const (
	// The fleet at the end of a way out against one plan for all pods, and its peak against its end.
	nodesPerPlan, pricePerPlan, peakPerFinal = 1.15, 1.05, 1.1
	// finalPerPlan is for the fleet at the end of the way in.
	finalPerPlan = 1.03
	// elsewherePercent is how many pods may be bound to another node than the one planned.
	elsewherePercent = 1.0
)

// answer says of each bar whether it holds.
func (t *trial) answer(reports []*report, both *report) {
	bar := bars[t.name]
	for i, r := range reports {
		what := fmt.Sprintf("%s, %v", r.Phase, t.variant)
		seconds := bar.in
		if !r.in {
			seconds = bar.out[i]
			if t.arrival == "fast" && bar.outFast != nil {
				seconds = bar.outFast[i]
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
			t.say(figure{t.name, "s", r.Seconds, seconds}, "%s: %d pods, %s", what, r.Pods, word)
		}
		if r.in {
			t.say(figure{t.name, "× plan's $/h", ratio(r.Price, r.PlanPrice), finalPerPlan}, "%s: $%.2f/h at the end, $%.2f/h by one plan", what, r.Price, r.PlanPrice)
			continue
		}
		t.say(figure{t.name, "claims per node", ratio(r.Claims, r.Nodes), bar.claims}, "%s: %d claims for %d nodes", what, r.Claims, r.Nodes)
		t.say(figure{t.name, "× plan's nodes", ratio(r.Nodes, r.PlanNodes), nodesPerPlan}, "%s: %d nodes, %d by one plan", what, r.Nodes, r.PlanNodes)
		t.say(figure{t.name, "× plan's $/h", ratio(r.Price, r.PlanPrice), pricePerPlan}, "%s: $%.2f/h, $%.2f/h by one plan", what, r.Price, r.PlanPrice)
		t.say(figure{t.name, "× final $/h", ratio(r.PeakPrice, r.Price), peakPerFinal}, "%s: $%.2f/h at the peak", what, r.PeakPrice)
		t.say(figure{t.name, "evictions", float64(r.Early), 0}, "%s: evicted before all pods were bound", what)
	}
	what := fmt.Sprintf("all phases, %v", t.variant)
	t.say(figure{t.name, "evictions per pod", ratio(both.Evictions, both.Pods), bar.evictions}, "%s: %d evictions for %d pods", what, both.Evictions, both.Pods)
	if n := both.AsPlanned + both.Elsewhere; n > 0 {
		t.say(figure{t.name, "% elsewhere", 100 * float64(both.Elsewhere) / float64(n), elsewherePercent}, "%s: %d of %d pods bound as planned", what, both.AsPlanned, n)
	}
}
