package state

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"karpenter/internal/engine/world"
)

// Expect is the view's world with pods that need a node on the nodes where they are expected: expected names a claim by the
// pod's UID. Pods that need no node any more and claims that are gone count for nothing. A pod that is expected where it is stays
// there, though its node is being shut.
func (v *View) Expect(expected map[string]string) *world.Snapshot {
	if len(expected) == 0 {
		return v.World
	}
	moved, at := map[string]bool{}, map[*world.Node][]*world.Pod{}
	for _, n := range v.World.Nodes {
		if !n.Deleting {
			continue
		}
		for _, pod := range n.Pods {
			if pod.Movable && n.Claim != "" && expected[pod.UID] == n.Claim {
				stays := *pod
				stays.Movable = false
				moved[pod.UID] = true
				at[n] = append(at[n], &stays)
			}
		}
	}
	for _, pod := range v.World.Over().Wanting() {
		if claim := expected[pod.UID]; claim != "" && !moved[pod.UID] {
			if n := v.Claim(claim); n != nil {
				moved[pod.UID] = true
				at[n.World] = append(at[n.World], pod)
			}
		}
	}
	if len(moved) == 0 {
		return v.World
	}
	return rearranged(v.World, moved, at)
}

// More lists pods that are known to come: so many of each like the pod with the UID. Pods that are not known count for nothing.
func (v *View) More(coming map[string]int) []*world.Pod {
	var out []*world.Pod
	for _, uid := range slices.Sorted(maps.Keys(coming)) {
		ref, ok := v.pods.get(uid)
		if !ok || ref.world == nil {
			continue
		}
		for k := range coming[uid] {
			more := fmt.Sprintf("%s%d", unborn, k)
			out = append(out, &world.Pod{Name: ref.world.Name + more, UID: uid + more, Class: ref.world.Class, Created: math.MaxInt64, Movable: true})
		}
	}
	return out
}

// Unborn says whether a pod is one of View.More: it does not exist.
func Unborn(p *world.Pod) bool { return strings.Contains(p.UID, unborn) }

// unborn is what UIDs of pods that do not exist have after that of the pod which they are like; no other UID has it.
const unborn = "+"

// rearranged is the snapshot with pods moved from where they are or wait to the nodes where they are expected.
func rearranged(snap *world.Snapshot, moved map[string]bool, at map[*world.Node][]*world.Pod) *world.Snapshot {
	away := func(pod *world.Pod) bool { return moved[pod.UID] }
	c := *snap
	c.Pending = slices.DeleteFunc(slices.Clone(c.Pending), away)
	c.Nodes = slices.Clone(c.Nodes)
	for i, n := range snap.Nodes {
		more := at[n]
		leaving := n.Deleting && slices.ContainsFunc(n.Pods, away)
		if len(more) == 0 && !leaving {
			continue
		}
		here := n.Pods
		if leaving {
			here = slices.DeleteFunc(slices.Clone(n.Pods), away)
		}
		c.Nodes[i] = &world.Node{
			Name: n.Name, Claim: n.Claim, Pool: n.Pool, Labels: n.Labels, Taints: n.Taints, Capacity: n.Capacity, Allocatable: n.Allocatable,
			Pods: slices.Concat(here, more), Initialized: n.Initialized, InFlight: n.InFlight, Deleting: n.Deleting, FirstZone: n.FirstZone, Attached: n.Attached, Price: n.Price, ListPrice: n.ListPrice, PricedBy: n.PricedBy,
		}
	}
	return &c
}
