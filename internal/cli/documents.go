package cli

import (
	"karpenter/internal/explain"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
)

// Documents are the kinds of documents that commands print, each with a value of its type.
func Documents() map[string]any {
	return map[string]any{
		model.KindPlan: planReport{}, model.KindConsolidation: consolidation{}, model.KindForecast: whatIf{}, model.KindReplay: replayReport{},
		model.KindExplanation: explain.Document{}, model.KindWorkload: explain.WorkloadDocument{}, model.KindFleet: model.Fleet{}, model.KindDecision: ledger.Decision{}, model.KindDecisionList: ledger.Decisions{},
	}
}
