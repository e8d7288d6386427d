package model

import (
	"fmt"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// StaticPool is how many nodes a static pool has of those that it is to have.
type StaticPool struct {
	Pool     string `json:"pool"`
	Nodes    int    `json:"nodes"`
	Replicas int64  `json:"replicas"`
	Deleting int    `json:"deleting,omitempty"`
}

// Words says it: base 17 of 20.
func (p StaticPool) Words() string { return fmt.Sprintf("%s %d of %d", p.Pool, p.Nodes, p.Replicas) }

// StaticPools lists the static pools of a view, in its order.
func StaticPools(view *state.View) (out []StaticPool) {
	for _, p := range view.World.Pools {
		if p.Static {
			use := view.Usage(p.Name)
			out = append(out, StaticPool{p.Name, use.Nodes, p.Replicas, use.Leaving})
		}
	}
	return out
}

// Scaling is what a static pool needs to have as many nodes as it is to have.
type Scaling struct {
	StaticPool
	Add []PlannedNode `json:"add,omitempty"`
	// Remove names nodes, and Saves is what they cost an hour.
	Remove []Kept  `json:"remove,omitempty"`
	Saves  float64 `json:"savesPerHour,omitempty"`
	// Short is how many nodes are missing that cannot be launched, and Why why not.
	Short int         `json:"short,omitempty"`
	Why   *why.Reason `json:"why,omitempty"`
}

// NewScalings writes down what static pools need, with at most so many types for each new node.
func NewScalings(s *world.Snapshot, list []*disrupt.Scaling, types int) (out []Scaling) {
	for _, x := range list {
		m := Scaling{StaticPool: StaticPool{x.Pool, x.Have(), x.Replicas, x.Deleting}, Short: x.Short}
		if len(x.Add) > 0 {
			m.Add = NewNodes(s, x.Add, types)
		}
		for _, l := range x.Remove {
			m.Remove = append(m.Remove, Kept{Node: s.Nodes[l.Node].Name, Why: l.Why})
			m.Saves += s.Nodes[l.Node].Price
		}
		if x.Short > 0 {
			m.Why = &x.Why
		}
		out = append(out, m)
	}
	return out
}

// Words says what is done about it, if anything.
func (s *Scaling) Words() string {
	switch {
	case s.Short > 0 && len(s.Add) > 0:
		return fmt.Sprintf("%s launched, %d more cannot be: %s", why.Plural(len(s.Add), "node is", "nodes are"), s.Short, s.Why.Line())
	case s.Short > 0:
		return fmt.Sprintf("%s missing: %s", why.Plural(s.Short, "node is", "nodes are"), s.Why.Line())
	case len(s.Add) > 0:
		return why.Plural(len(s.Add), "node is", "nodes are") + " launched"
	case len(s.Remove) > 0:
		names := make([]string, len(s.Remove))
		for i, n := range s.Remove {
			names[i] = n.Node
		}
		return fmt.Sprintf("%s removed: %s", why.Plural(len(s.Remove), "node is", "nodes are"), why.List(names, maxStaticNames))
	}
	return ""
}

// maxStaticNames is how many nodes are named before the rest is counted.
const maxStaticNames = 5
