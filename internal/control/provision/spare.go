package provision

import (
	"slices"
	"strings"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// Fared is how a CapacityBuffer fares in a plan (P112): how many of its spare pods have room on nodes that exist, on nodes that are to
// be launched, and nowhere.
type Fared struct {
	// Buffer is namespace/name.
	Buffer             string
	Fits, New, Refused int
	// Nodes are the existing nodes with room, and how many spare pods each has room for.
	Nodes map[string]int
	// Why is why spare pods have room nowhere.
	Why []why.Reason
}

// Limited says whether limits of pools keep spare pods from having room.
func (f *Fared) Limited() bool { return limited(f.Why) }

func limited(reasons []why.Reason) bool {
	return slices.ContainsFunc(reasons, func(r why.Reason) bool { return r.Code == why.Limit || limited(r.Because) })
}

// Because is why spare pods have room nowhere, in one line.
func (f *Fared) Because() string { return cut(reasonsText(f.Why)) }

// Spare says how each buffer fares in a plan, by name.
func Spare(snap *world.Snapshot, plan *pack.Plan) []Fared {
	var out []Fared
	find := func(buffer string) *Fared {
		at, found := slices.BinarySearchFunc(out, buffer, func(f Fared, name string) int { return strings.Compare(f.Buffer, name) })
		if !found {
			out = slices.Insert(out, at, Fared{Buffer: buffer, Nodes: map[string]int{}})
		}
		return &out[at]
	}
	for _, f := range plan.Existing {
		for _, h := range snap.SparePods(f.Pods) {
			is := find(h.Buffer)
			is.Fits += h.Pods
			is.Nodes[f.Node.Name] += h.Pods
		}
	}
	for _, n := range plan.Nodes {
		for _, h := range snap.SparePods(n.Pods) {
			find(h.Buffer).New += h.Pods
		}
	}
	for _, u := range plan.Unplaced {
		for _, h := range snap.SparePods(u.Pods) {
			is := find(h.Buffer)
			is.Refused += h.Pods
			is.Why = u.Reasons
		}
	}
	return out
}
