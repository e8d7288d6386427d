package workloads

// Limits are the bars of a workload. Seconds count on the instance as it is, everything else on a busy one too.
type Limits struct {
	// Out are the seconds of each way out with slow arrival; OutFast, if any, those with fast arrival.
	Out, OutFast []float64
	In           float64
	// Evictions are per pod of the last phase over all phases; Claims are those made on a way out per node at its end.
	Evictions, Claims float64
}

// Bars are those of each workload.
var Bars = map[string]Limits{
	Wide:         {Out: []float64{65}, OutFast: []float64{30}, In: 150, Evictions: 0.35, Claims: 1.25},
	Basic:        {Out: []float64{65}, In: 120, Evictions: 0.25, Claims: 1.15},
	HostSpread:   {Out: []float64{100}, In: 150, Evictions: 0.35, Claims: 1.15},
	Interference: {Out: []float64{120, 150}, In: 180, Evictions: 0.35, Claims: 1.15},
}

// Bars of all workloads.
const (
	// The fleet at the end of a way out against one plan for all pods, and its peak against its end.
	NodesPerPlan, PricePerPlan, PeakPerFinal = 1.15, 1.05, 1.1
	// FinalPerPlan is for the fleet at the end of the way in.
	FinalPerPlan = 1.03
	// ElsewherePercent is how many pods may be bound to another node than the one planned.
	ElsewherePercent = 1.0
)
