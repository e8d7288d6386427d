package provision

import (
	"fmt"
	"slices"
	"strings"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// unborn says whether a pod of a plan does not exist yet.
func unborn(p *world.Pod) bool { return strings.Contains(p.UID, "+") }

// existing is a plan without the pods that do not exist yet: nodes that only those would go to are not made, and the others have room
// for them. It says whether every pod that exists has the place that it would have had without them.
func existing(plan *pack.Plan) (out *pack.Plan, ok bool) {
	born := func(pods []*world.Pod) []*world.Pod { return slices.DeleteFunc(slices.Clone(pods), unborn) }
	out = &pack.Plan{Order: born(plan.Order), Bound: plan.Bound}
	for _, n := range plan.Nodes {
		pods := born(n.Pods)
		if len(pods) == 0 {
			continue
		}
		cut := *n
		if more := len(n.Pods) - len(pods); more > 0 {
			cut.Pods = pods
			cut.Why = append(slices.Clip(n.Why), why.Counted(why.Room, more, len(n.Pods), fmt.Sprintf("with room for %s that %s known to come within the batch window", count(more, "pod"), are(more))))
		}
		out.Nodes = append(out.Nodes, &cut)
		out.Price += n.Price()
	}
	for _, f := range plan.Existing {
		if pods := born(f.Pods); len(pods) > 0 {
			out.Existing = append(out.Existing, &pack.Filled{Node: f.Node, Pods: pods})
		}
	}
	ok = true
	for _, u := range plan.Unplaced {
		if pods := born(u.Pods); len(pods) > 0 {
			out.Unplaced = append(out.Unplaced, &pack.Unplaced{Pods: pods, Reasons: u.Reasons})
			out.Pods += len(pods)
			ok = false
		}
	}
	out.Placed = len(out.Order)
	out.Pods += out.Placed
	return out, ok
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
