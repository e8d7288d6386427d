package provision

import (
	"cmp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// deal says which pod is to go to which claim's node: as expected, but for pods of one class, which no rule can tell apart, in the order
// in which the scheduler will come to them. It tries those first that it refused first. If they have to be even over zones or
// nodes, the first must not all be for one of them: the scheduler would refuse them there, until it comes to the others. order is the
// claims in the order in which the scheduler comes to their pods.
func deal(view *state.View, expected map[string]string, claims []string) (dealt map[types.UID]string, order []string) {
	nodes := map[string]*world.Node{}
	for _, claim := range claims {
		if at := view.Claim(claim); at != nil && at.Object != nil {
			nodes[claim] = at.World
		}
	}
	var queue []*world.Pod
	places := map[int32][]*world.Node{}
	for _, pod := range view.World.Pending {
		if at := nodes[expected[pod.UID]]; at != nil {
			queue = append(queue, pod)
			places[pod.Class] = append(places[pod.Class], at)
		}
	}
	slices.SortStableFunc(queue, func(a, b *world.Pod) int { return cmp.Compare(refusedAt(view, a), refusedAt(view, b)) })
	for class, list := range places {
		places[class] = inTurn(view.World, class, list)
	}
	dealt = map[types.UID]string{}
	for _, pod := range queue {
		claim := places[pod.Class][0].Claim
		places[pod.Class] = places[pod.Class][1:]
		dealt[uid(pod)] = claim
		if !slices.Contains(order, claim) {
			order = append(order, claim)
		}
	}
	return dealt, order
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

// inTurn puts places for pods of a class into an order in which they are even over zones, and then over nodes, after each one.
func inTurn(snap *world.Snapshot, class int32, places []*world.Node) []*world.Node {
	zones, hosts := map[string]int{}, map[*world.Node]int{}
	zone := func(n *world.Node) string {
		z, _ := n.Labels.Get(world.LabelZone)
		return z
	}
	for _, n := range snap.Nodes {
		for _, c := range n.Load(snap.Classes).Active {
			if c.Class == class {
				zones[zone(n)] += int(c.N)
				hosts[n] += int(c.N)
			}
		}
	}
	left, out := slices.Clone(places), make([]*world.Node, 0, len(places))
	for len(left) > 0 {
		at := 0
		for i := range left {
			if cmp.Or(cmp.Compare(zones[zone(left[i])], zones[zone(left[at])]), cmp.Compare(hosts[left[i]], hosts[left[at]])) < 0 {
				at = i
			}
		}
		n := left[at]
		zones[zone(n)]++
		hosts[n]++
		left, out = slices.Delete(left, at, at+1), append(out, n)
	}
	return out
}
