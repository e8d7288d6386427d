package provision

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// deal says which pods are to be nominated for which claim's node: those that are expected there and may come in any order.
func deal(view *state.View, expected map[string]string, claims []string) map[types.UID]string {
	out := map[types.UID]string{}
	for _, pod := range view.World.Pending {
		claim := expected[pod.UID]
		if !slices.Contains(claims, claim) || !independent(view.World.Classes[pod.Class]) {
			continue
		}
		if at := view.Claim(claim); at != nil && at.Object != nil {
			out[uid(pod)] = claim
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
