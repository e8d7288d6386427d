package provision

import (
	"cmp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// deal says which pods are to be nominated for which claim's node. Pods of one class, which no rule can tell apart, share the places of
// their class in the order in which the scheduler comes to them, which is that in which it refused them, and nodes are opened in the
// order of claims: so it comes to the pods of a node when that is open.
func deal(view *state.View, expected map[string]string, claims []string) map[types.UID]string {
	index := map[*world.Node]int{}
	nodes := map[string]*world.Node{}
	for i, claim := range claims {
		if at := view.Claim(claim); at != nil && at.Object != nil {
			nodes[claim], index[at.World] = at.World, i
		}
	}
	pods, places := map[int32][]*world.Pod{}, map[int32][]*world.Node{}
	for _, pod := range view.World.Pending {
		at := nodes[expected[pod.UID]]
		if at == nil || !independent(view.World.Classes[pod.Class]) {
			continue
		}
		pods[pod.Class], places[pod.Class] = append(pods[pod.Class], pod), append(places[pod.Class], at)
	}
	out := map[types.UID]string{}
	for class, list := range pods {
		slices.SortStableFunc(list, func(a, b *world.Pod) int { return cmp.Compare(refusedAt(view, a), refusedAt(view, b)) })
		slices.SortFunc(places[class], func(a, b *world.Node) int { return cmp.Compare(index[a], index[b]) })
		if len(view.World.Classes[class].Spread) > 0 {
			places[class] = inTurn(places[class])
		}
		for i, pod := range list {
			out[uid(pod)] = places[class][i].Claim
		}
	}
	return out
}

// independent says whether pods of a class can go to their nodes in any order. Those that must be even over zones cannot: one that the
// scheduler comes to too early is refused where it is to go, and goes to another zone or drops its nomination, and then the next
// is refused too. The scheduler does better by itself.
func independent(c *world.Class) bool {
	return !slices.ContainsFunc(c.Spread, func(s world.Spread) bool { return s.Hard && s.Key != world.LabelHostname }) &&
		!slices.ContainsFunc(c.Affinity, func(t world.PodTerm) bool { return t.Weight == 0 })
}

// refusedAt orders pods by when they were last written, which is when the scheduler refused them.
func refusedAt(view *state.View, p *world.Pod) uint64 {
	pod := view.Pod(uid(p))
	if pod == nil {
		return 0
	}
	version, err := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return version
}

// inTurn puts places into an order in which each node has one before any has two.
func inTurn(places []*world.Node) []*world.Node {
	type place struct {
		nth  int
		node *world.Node
	}
	seen, list := map[*world.Node]int{}, make([]place, len(places))
	for i, n := range places {
		list[i] = place{seen[n], n}
		seen[n]++
	}
	slices.SortStableFunc(list, func(a, b place) int { return cmp.Compare(a.nth, b.nth) })
	out := make([]*world.Node, len(list))
	for i, p := range list {
		out[i] = p.node
	}
	return out
}
