package ledger

import (
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// Answer is what was decided, written so that two answers can be compared.
type Answer struct {
	Plan     *model.Plan     `json:"plan,omitempty"`
	Decision *model.Decision `json:"decision,omitempty"`
	// Static is what static pools need.
	Static []model.Scaling `json:"static,omitempty"`
}

// firstTypes is how many types of each new node an answer names.
const firstTypes = 5

// NewPlanAnswer writes a plan down.
func NewPlanAnswer(snap *world.Snapshot, plan *pack.Plan) *model.Plan {
	return model.NewPlan(snap, plan, firstTypes)
}

// NewDecisionAnswer writes a decision about nodes down.
func NewDecisionAnswer(in *disrupt.Input, d *disrupt.Decision) *model.Decision {
	return model.NewDecision(in.World, d, firstTypes)
}

// NewStaticAnswer writes down what static pools need.
func NewStaticAnswer(in *disrupt.Input, list []*disrupt.Scaling) []model.Scaling {
	return model.NewScalings(in.World, list, firstTypes)
}

// Replay makes the decision of the recording again on a view of it: what its answer is about, or everything where it has none. It does
// not depend on the number of workers.
func (r *Recording) Replay(view *state.View, workers int) *Answer {
	out := &Answer{}
	opt := r.Options.Disrupt()
	opt.Pack.Workers = workers
	if r.Answer == nil || r.Answer.Plan != nil {
		out.Plan = NewPlanAnswer(r.Plan(view, opt.Pack))
	}
	if r.Answer == nil || r.Answer.Decision != nil {
		in := r.Input(view)
		out.Decision = NewDecisionAnswer(in, disrupt.Decide(in, opt, r.At))
	}
	if r.Answer == nil || r.Answer.Static != nil {
		in := r.Facts.Static(view, r.At)
		out.Static = NewStaticAnswer(in, disrupt.Scale(in, opt))
	}
	return out
}
