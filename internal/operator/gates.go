package operator

import "karpenter/cloud/setting"

// Gates are features that can be turned on and off (O63).
type Gates struct {
	NodeRepair, ReservedCapacity, SpotToSpotConsolidation, NodeOverlay, StaticCapacity, CapacityBuffer, PodDeletionCostManagement bool
	TerminateFirstDrift, TerminateFirstRepair                                                                                     bool
}

func (g *Gates) list() []setting.Gate {
	return []setting.Gate{
		{Name: "NodeRepair", Into: &g.NodeRepair},
		{Name: "ReservedCapacity", On: true, Into: &g.ReservedCapacity},
		{Name: "SpotToSpotConsolidation", Into: &g.SpotToSpotConsolidation},
		{Name: "NodeOverlay", Into: &g.NodeOverlay},
		{Name: "StaticCapacity", On: true, Into: &g.StaticCapacity},
		{Name: "CapacityBuffer", On: true, Into: &g.CapacityBuffer},
		{Name: "PodDeletionCostManagement", Into: &g.PodDeletionCostManagement},
		{Name: "TerminateFirstDrift", Into: &g.TerminateFirstDrift},
		{Name: "TerminateFirstRepair", Into: &g.TerminateFirstRepair},
	}
}
