package ledger

import (
	"fmt"
	"slices"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// Plan has a plan made for the pods of the view that need a node, and for those that are known to come beside them. It returns what
// the plan was made from, and the plan without pods that do not exist. Should a pod that exists be unschedulable for those, they do
// not count, and Coming is empty from then on.
func (f *Facts) Plan(view *state.View, solve func(*world.Snapshot) (*pack.Plan, error)) (*world.Snapshot, *pack.Plan, error) {
	snap := f.World(view)
	plan, err := solve(snap)
	if err != nil || len(f.Coming) == 0 {
		return snap, plan, err
	}
	if plan, ok := existing(plan); ok {
		return snap, plan, nil
	}
	f.Coming = nil
	snap = f.World(view)
	plan, err = solve(snap)
	return snap, plan, err
}

// existing is a plan without the pods that do not exist yet: nodes that only those would go to are not made, and the others have room
// for them. It says whether every pod that exists has a place.
func existing(plan *pack.Plan) (out *pack.Plan, ok bool) {
	born := func(pods []*world.Pod) []*world.Pod { return slices.DeleteFunc(slices.Clone(pods), state.Unborn) }
	out = &pack.Plan{Order: born(plan.Order)}
	for _, n := range plan.Nodes {
		pods := born(n.Pods)
		if len(pods) == 0 {
			continue
		}
		cut := *n
		if more := len(n.Pods) - len(pods); more > 0 {
			cut.Pods = pods
			cut.Why = append(slices.Clip(n.Why), roomFor(more, len(n.Pods)))
		}
		out.Nodes = append(out.Nodes, &cut)
		out.Price += n.Price()
		out.NodeCost += n.Pool.NodeCost
	}
	// What all pods cost at least says nothing of some of them, but that it is no more than what they were planned to cost.
	out.Bound, out.CostBound = min(plan.Bound, out.Price), min(plan.CostBound, out.Price+out.NodeCost)
	for _, f := range plan.Existing {
		if pods := born(f.Pods); len(pods) > 0 {
			out.Existing = append(out.Existing, &pack.Filled{Node: f.Node, Pods: pods})
		}
	}
	ok = true
	for _, u := range plan.Unplaced {
		if pods := born(u.Pods); len(pods) > 0 {
			out.Unplaced = append(out.Unplaced, &pack.Unplaced{Pods: pods, Reasons: u.Reasons})
			if !pods[0].Spare {
				out.Pods += len(pods)
				ok = false
			}
		}
	}
	out.Spare, out.Kept = plan.Spare, plan.Kept
	out.Placed = len(world.Real(out.Order))
	out.Pods += out.Placed
	return out, ok
}

// roomFor says that a node has room for pods that do not exist yet.
func roomFor(more, pods int) why.Reason {
	are := "are"
	if more == 1 {
		are = "is"
	}
	return why.Counted(why.Room, more, pods, fmt.Sprintf("with room for %s that %s expected within a minute", why.Count(more, "pod"), are))
}
