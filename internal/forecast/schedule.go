package forecast

import (
	"karpenter/internal/engine/pack"
	"karpenter/internal/state"
)

// schedule is kube-scheduler's turn: pods go to nodes that there are, best score first. What they would rather have decides between
// nodes and keeps no pod waiting, so no node is planned for it; the engine, which would, gets only those pods that are left. It
// says whether any pod got a node.
//
// It is the engine's own placement on nodes that exist, without pools: there is nothing then to grant a preference with but
// nodes that there are.
func (r *run) schedule(view *state.View) bool {
	snap := *r.facts().World(view)
	snap.Pools, snap.Spare = nil, nil
	opt := r.start.Options.Pack
	opt.IgnorePreferences = false
	bound := false
	for _, f := range pack.Solve(&snap, opt).Existing {
		bound = r.bind(view.World, f.Pods, f.Node.Name) || bound
	}
	if bound {
		r.acted = r.now
	}
	return bound
}
