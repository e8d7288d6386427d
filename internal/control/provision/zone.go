package provision

import (
	"slices"

	"karpenter/internal/engine/world"
)

// What pending pods are counted under when it is not one zone (O33).
const (
	zoneFlexible = "flexible" // more than one would do
	zoneNone     = "none"     // no zone that there is would do
)

// PodsByZone counts pods by the zone that they are bound to by node selector, affinity and volumes.
func PodsByZone(snap *world.Snapshot, pods []*world.Pod) map[string]int {
	zones := zonesOf(snap)
	of := map[int32]string{}
	out := map[string]int{}
	for _, p := range pods {
		zone, known := of[p.Class]
		if !known {
			zone = effectiveZone(snap.Classes[p.Class], zones)
			of[p.Class] = zone
		}
		out[zone]++
	}
	return out
}

// zonesOf lists the zones of nodes, and those where pools could have some.
func zonesOf(snap *world.Snapshot) []string {
	var zones []string
	note := func(z string) {
		if i, found := slices.BinarySearch(zones, z); !found && z != "" {
			zones = slices.Insert(zones, i, z)
		}
	}
	for _, n := range snap.Nodes {
		z, _ := n.Labels.Get(world.LabelZone)
		note(z)
	}
	for _, p := range snap.Pools {
		if p.Refused != "" {
			continue
		}
		offers, _ := p.Offers()
		for _, o := range offers {
			note(o.Offering.Zone)
		}
	}
	return zones
}

func effectiveZone(c *world.Class, zones []string) string {
	var fit []string
	for _, z := range zones {
		admits := func(cl world.Clause) bool {
			for _, term := range cl.Terms {
				if r, ok := term.Get(world.LabelZone); !ok || r.Admits(z, true) {
					return true
				}
			}
			return false
		}
		if !slices.ContainsFunc(slices.Concat(c.Needs, c.Volumes), func(cl world.Clause) bool { return !admits(cl) }) {
			fit = append(fit, z)
		}
	}
	switch len(fit) {
	case 0:
		return zoneNone
	case 1:
		return fit[0]
	}
	return zoneFlexible
}
