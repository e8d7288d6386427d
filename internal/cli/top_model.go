package cli

import (
	"runtime"
	"slices"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/explain"
	"karpenter/internal/ledger"
	"karpenter/internal/state"
)

// topModel is a cluster at one moment, and where it was had from.
type topModel struct {
	From string `json:"from"`
	// Estimate says what prices are if nobody in the cluster has said it.
	Estimate string `json:"estimate,omitempty"`
	*explain.Fleet
}

// newTopModel is what a recording and its view show. Which nodes could go is found out by judge.
func newTopModel(loaded *Loaded, view *state.View) *topModel {
	opt := loaded.Recording.Options.Pack()
	opt.Workers = runtime.NumCPU()
	snap, plan := loaded.Recording.Plan(view, opt)
	return &topModel{loaded.From, loaded.Estimate, explain.NewFleet(view, snap, plan, loaded.Recording.At)}
}

// judge asks of every node whether it could go.
func judge(r *ledger.Recording, view *state.View) explain.Verdicts {
	in, opt := r.Input(view), r.Options.Disrupt()
	opt.Pack.Workers = runtime.NumCPU()
	return explain.Judge(in, disrupt.Decide(in, opt, r.At))
}

// pools are the names of the pools that have nodes.
func (m *topModel) pools() []string {
	var out []string
	for i := range m.Nodes {
		if m.Nodes[i].Pool != "" {
			out = append(out, m.Nodes[i].Pool)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
