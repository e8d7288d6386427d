package web

import (
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/ledger"
	"karpenter/internal/state"
)

// evictionModel is what consolidation did to the pods of a pool within the last hour.
type evictionModel struct {
	Pods int `json:"pods"`
	// PerPod is that number for each pod of the pool, and SavesEach the dollars an hour that each was to save.
	PerPod    float64 `json:"perPod,omitempty"`
	SavesEach float64 `json:"savesPerHourEach,omitempty"`
}

// evictions adds up, by pool, the moves for cost that were carried out within the last hour. What a move saves counts for its nodes by
// their prices.
func evictions(l *ledger.Ledger, v *state.View, now time.Time) map[string]*evictionModel {
	out, saves := map[string]*evictionModel{}, map[string]float64{}
	for _, e := range l.List(ledger.Query{Kinds: []ledger.Kind{ledger.Move}}) {
		if e.Reason != string(disrupt.Underutilized) || e.Outcome != ledger.Done || e.OutcomeAt == nil || now.Sub(*e.OutcomeAt) >= time.Hour {
			continue
		}
		price := 0.0
		for i := range e.Remove {
			price += e.Remove[i].Price
		}
		for i := range e.Remove {
			m := &e.Remove[i]
			if out[m.Pool] == nil {
				out[m.Pool] = &evictionModel{}
			}
			out[m.Pool].Pods += len(m.Pods)
			if price > 0 {
				saves[m.Pool] += e.Saves * m.Price / price
			}
		}
	}
	for pool, m := range out {
		if m.Pods > 0 {
			m.SavesEach = saves[pool] / float64(m.Pods)
		}
		if pods := movable(v, pool); pods > 0 {
			m.PerPod = float64(m.Pods) / float64(pods)
		}
	}
	return out
}

// movable counts the pods on a pool's nodes that a disruption would move.
func movable(v *state.View, pool string) (pods int) {
	for _, n := range v.Nodes {
		if n.World.Pool != pool {
			continue
		}
		for _, p := range n.World.Pods {
			if p.Movable && !p.Terminating {
				pods++
			}
		}
	}
	return pods
}
