package model

import (
	"slices"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// PlannedNode is a node that a plan launches or fills, with the pods that are placed there.
type PlannedNode struct {
	Node
	// Choices is how many offerings may be launched for it, and Types are their types, the cheapest first: all of them or the first few.
	Choices int          `json:"choices,omitempty"`
	Types   []string     `json:"types,omitempty"`
	Why     []why.Reason `json:"why,omitempty"`
	// New nodes are launched in a forecast; the others of it are there already.
	New bool `json:"new,omitempty"`
}

// Plan is a plan for pods that are pending.
type Plan struct {
	Nodes    []PlannedNode `json:"nodes"`
	Existing []PlannedNode `json:"existing"`
	Unplaced []Pending     `json:"unplaced"`
	Price    float64       `json:"pricePerHour"`
	Bound    float64       `json:"boundPerHour"`
}

// Decision is a decision about the nodes that there are.
type Decision struct {
	Moves  []Move  `json:"moves"`
	Kept   []Kept  `json:"kept"`
	Before float64 `json:"beforePerHour"`
	After  float64 `json:"afterPerHour"`
}

// Move is nodes that are removed together, and where their pods are placed.
type Move struct {
	Reason string `json:"reason"`
	// Reboot says that the nodes are rebooted and stay.
	Reboot bool `json:"reboot,omitempty"`
	// TerminateFirst says that the nodes are removed before what is added is launched, because it needs their place.
	TerminateFirst bool          `json:"terminateFirst,omitempty"`
	Remove         []string      `json:"remove"`
	Add            []PlannedNode `json:"add"`
	Filled         []PlannedNode `json:"filled"`
	// Evicts is how many pods restart, Saves what the fleet costs less an hour.
	Evicts int        `json:"evicts"`
	Saves  float64    `json:"savesPerHour"`
	Why    why.Reason `json:"why"`
}

// Kept is a node that stays.
type Kept struct {
	Node string     `json:"node"`
	Why  why.Reason `json:"why"`
}

// AllTypes has every type of a planned node named.
const AllTypes = 0

// NewPlan writes a plan down, with at most so many types for each node.
func NewPlan(s *world.Snapshot, plan *pack.Plan, types int) *Plan {
	p := &Plan{Nodes: NewNodes(s, plan.Nodes, types), Existing: Filled(s, plan.Existing), Unplaced: []Pending{}, Price: plan.Price, Bound: plan.Bound}
	for _, u := range plan.Unplaced {
		p.Unplaced = append(p.Unplaced, Pending{Pods: PodNames(s, u.Pods), Why: u.Reasons})
	}
	return p
}

// NewDecision writes a decision about nodes down, with at most so many types for each new node.
func NewDecision(s *world.Snapshot, d *disrupt.Decision, types int) *Decision {
	out := &Decision{Moves: []Move{}, Kept: []Kept{}, Before: d.Before, After: d.After}
	for _, m := range d.Moves {
		out.Moves = append(out.Moves, NewMove(s, m, types))
	}
	for _, k := range d.Kept {
		out.Kept = append(out.Kept, Kept{Node: s.Nodes[k.Node].Name, Why: k.Why})
	}
	return out
}

// NewMove writes a move down.
func NewMove(s *world.Snapshot, m *disrupt.Move, types int) Move {
	return Move{Reason: string(m.Reason), Reboot: m.Reboot, TerminateFirst: m.TerminateFirst, Remove: m.Nodes, Add: NewNodes(s, m.Add, types), Filled: Filled(s, m.Filled), Evicts: m.Evicts, Saves: m.Saves, Why: m.Why}
}

// NewNodes writes nodes down that a plan launches.
func NewNodes(s *world.Snapshot, list []*pack.NewNode, types int) []PlannedNode {
	out := []PlannedNode{}
	for _, n := range list {
		p := PlannedNode{Node: NewNode(s, n), Choices: len(n.Choices), Types: typesOf(n, types), Why: n.Why}
		p.Node.Node = n.Name
		out = append(out, p)
	}
	return out
}

// Filled writes nodes down that take more pods.
func Filled(s *world.Snapshot, list []*pack.Filled) []PlannedNode {
	out := []PlannedNode{}
	for _, f := range list {
		p := PlannedNode{Node: NodeOf(f.Node)}
		p.Pods = PodNames(s, f.Pods)
		out = append(out, p)
	}
	return out
}

// typesOf names the first few types that may be launched: all of them, for each of a thousand nodes, would be most of what a
// recording holds.
func typesOf(n *pack.NewNode, most int) (out []string) {
	if most == AllTypes {
		return n.Types()
	}
	for _, c := range n.Choices {
		if len(out) == most {
			break
		}
		if !slices.Contains(out, c.Type.Name) {
			out = append(out, c.Type.Name)
		}
	}
	return out
}
