package cli

import (
	"runtime"
	"slices"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// newTopModel is what a recording and its view show. Which nodes could be removed is found out by judge.
func newTopModel(loaded *Loaded, view *state.View) *model.Fleet {
	r := loaded.Recording
	opt := r.Options.Pack()
	opt.Workers = runtime.NumCPU()
	snap, plan := r.Plan(view, opt)
	m := model.NewFleet(model.Outlook{View: view, World: snap, Plan: plan, PlanAt: r.At}, r.At)
	m.From, m.Estimate = loaded.From, loaded.Estimate
	return m
}

// judge asks of every node whether it could go.
func judge(r *ledger.Recording, view *state.View) model.Verdicts {
	in, opt := r.Input(view), r.Options.Disrupt()
	opt.Pack.Workers = runtime.NumCPU()
	return model.Judge(in.World, disrupt.Decide(in, opt, r.At))
}

// topPools are the names of the pools that have nodes.
func topPools(m *model.Fleet) []string {
	var out []string
	for i := range m.Nodes {
		if m.Nodes[i].Pool != "" {
			out = append(out, m.Nodes[i].Pool)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
