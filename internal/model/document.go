package model

// APIVersion is that of every document.
const APIVersion = "cli.karpenter.sh/v1alpha1"

// The kinds of documents.
const (
	KindPlan          = "Plan"                // what pending pods need
	KindConsolidation = "Consolidation"       // which nodes would be removed
	KindForecast      = "Forecast"            // what a change comes to
	KindExplanation   = "Explanation"         // what can be said about an object
	KindWorkload      = "WorkloadExplanation" // the same of the pods of a workload
	KindFleet         = "Fleet"               // nodes and pending pods at one moment
	KindLiveFleet     = "LiveFleet"           // the same for the dashboard, with every pod, or what has changed of it
	KindDecision      = "Decision"            // an entry of the ledger
	KindDecisionList  = "DecisionList"
	KindPoolList      = "PoolList"
	KindPriceList     = "PriceList"
	KindCostList      = "CostList" // what namespaces and workloads cost
	KindHistory       = "History"  // figures of the past
	KindReplay        = "Replay"   // a recorded decision made again
	KindError         = "Error"
)

// Type heads a document: which version of which kind it is.
type Type struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// TypeOf is the head of a document of a kind.
func TypeOf(kind string) Type { return Type{APIVersion, kind} }
