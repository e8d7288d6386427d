package ledger

import (
	"slices"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// Answer is what was decided, written so that two answers can be compared.
type Answer struct {
	Plan     *PlanAnswer     `json:"plan,omitempty"`
	Decision *DecisionAnswer `json:"decision,omitempty"`
}

// PlanAnswer is a plan for pods that wait.
type PlanAnswer struct {
	Nodes    []PlannedNode `json:"nodes"`
	Existing []PlannedNode `json:"existing"`
	Unplaced []Unplaced    `json:"unplaced"`
	Price    float64       `json:"pricePerHour"`
	Bound    float64       `json:"boundPerHour"`
}

// PlannedNode is a node with the pods that go there. Choices is how many offerings may be launched for it, Types the first few types
// among them, the cheapest first.
type PlannedNode struct {
	Machine
	Choices int          `json:"choices,omitempty"`
	Types   []string     `json:"types,omitempty"`
	Why     []why.Reason `json:"why,omitempty"`
}

// firstTypes is how many types are named: all of them, for each of a thousand nodes, would be most of what a recording holds.
const firstTypes = 5

// Unplaced is a group of equal unschedulable pods.
type Unplaced struct {
	Pods []string     `json:"pods"`
	Why  []why.Reason `json:"why"`
}

// DecisionAnswer is a decision about nodes.
type DecisionAnswer struct {
	Moves  []AnswerMove `json:"moves"`
	Kept   []KeptNode   `json:"kept"`
	Before float64      `json:"beforePerHour"`
	After  float64      `json:"afterPerHour"`
}

// AnswerMove is one move.
type AnswerMove struct {
	Reason string        `json:"reason"`
	Remove []string      `json:"remove"`
	Add    []PlannedNode `json:"add"`
	Filled []PlannedNode `json:"filled"`
	Evicts int           `json:"evicts"`
	Saves  float64       `json:"savesPerHour"`
	Why    why.Reason    `json:"why"`
}

// KeptNode is a node that stays.
type KeptNode struct {
	Node string     `json:"node"`
	Why  why.Reason `json:"why"`
}

// NewPlanAnswer writes a plan down.
func NewPlanAnswer(snap *world.Snapshot, plan *pack.Plan) *PlanAnswer {
	a := &PlanAnswer{Nodes: newNodes(snap, plan.Nodes), Existing: filled(snap, plan.Existing), Unplaced: []Unplaced{}, Price: plan.Price, Bound: plan.Bound}
	for _, u := range plan.Unplaced {
		a.Unplaced = append(a.Unplaced, Unplaced{Pods: podNames(snap, u.Pods), Why: u.Reasons})
	}
	return a
}

// NewDecisionAnswer writes a decision about nodes down.
func NewDecisionAnswer(in *disrupt.Input, d *disrupt.Decision) *DecisionAnswer {
	a := &DecisionAnswer{Moves: []AnswerMove{}, Kept: []KeptNode{}, Before: d.Before, After: d.After}
	for _, m := range d.Moves {
		a.Moves = append(a.Moves, AnswerMove{
			Reason: string(m.Reason), Remove: m.Nodes, Add: newNodes(in.World, m.Add), Filled: filled(in.World, m.Filled), Evicts: m.Evicts, Saves: m.Saves, Why: m.Why,
		})
	}
	for _, k := range d.Kept {
		a.Kept = append(a.Kept, KeptNode{Node: in.World.Nodes[k.Node].Name, Why: k.Why})
	}
	return a
}

func newNodes(snap *world.Snapshot, list []*pack.NewNode) []PlannedNode {
	out := []PlannedNode{}
	for _, n := range list {
		p := PlannedNode{Machine: NewMachine(snap, n), Choices: len(n.Choices), Types: typesOf(n), Why: n.Why}
		p.Node = n.Name
		out = append(out, p)
	}
	return out
}

// typesOf names the first few types that may be launched.
func typesOf(n *pack.NewNode) (out []string) {
	for _, c := range n.Choices {
		if len(out) == firstTypes {
			break
		}
		if !slices.Contains(out, c.Type.Name) {
			out = append(out, c.Type.Name)
		}
	}
	return out
}

func filled(snap *world.Snapshot, list []*pack.Filled) []PlannedNode {
	out := []PlannedNode{}
	for _, f := range list {
		p := PlannedNode{Machine: MachineOf(f.Node)}
		p.Pods = podNames(snap, f.Pods)
		out = append(out, p)
	}
	return out
}

func podNames(snap *world.Snapshot, pods []*world.Pod) []string {
	out := make([]string, len(pods))
	for i, p := range pods {
		out[i] = snap.PodName(p)
	}
	return out
}

// NewMachine is a node that a plan adds, as the plan expects it.
func NewMachine(snap *world.Snapshot, n *pack.NewNode) Machine {
	m := Machine{Pool: n.Pool.Name, Price: n.Price(), Pods: podNames(snap, n.Pods)}
	if len(n.Choices) > 0 {
		c := n.Choices[0]
		m.Type, m.Zone, m.CapacityType = c.Type.Name, c.Offering.Zone, c.Offering.CapacityType
	}
	return m
}

// MachineOf is a node that is there, or on its way.
func MachineOf(n *world.Node) Machine {
	label := func(key string) string { v, _ := n.Labels.Get(key); return v }
	m := Machine{
		Claim: n.Claim, Pool: n.Pool, Type: label(world.LabelInstanceType), Zone: label(world.LabelZone), CapacityType: label(world.LabelCapacityType), Price: n.Price,
	}
	if !n.InFlight {
		m.Node = n.Name
	}
	return m
}

// Replay makes the decision of the recording again on a view of it: what its answer is about, or both where it has none. It does
// not depend on the number of workers.
func (r *Recording) Replay(view *state.View, workers int) *Answer {
	out := &Answer{}
	opt := r.Options.Disrupt()
	opt.Pack.Workers = workers
	if r.Answer == nil || r.Answer.Plan != nil {
		out.Plan = NewPlanAnswer(r.Plan(view, opt.Pack))
	}
	if r.Answer == nil || r.Answer.Decision != nil {
		in := r.Input(view)
		out.Decision = NewDecisionAnswer(in, disrupt.Decide(in, opt, r.At))
	}
	return out
}
