package web

import (
	"slices"
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// next is what has been decided and has not been carried out yet: what the picture of the fleet shows as "after".
type next struct {
	PlanAt     time.Time     `json:"planAt,omitzero"`
	DecisionAt time.Time     `json:"decisionAt,omitzero"`
	Add        []plannedNode `json:"add,omitempty"`
	Filled     []filledNode  `json:"filled,omitempty"`
	Moves      []plannedMove `json:"moves,omitempty"`
}

// plannedNode is a node that will be launched.
type plannedNode struct {
	model.PlannedNode
	CPU     model.Amount `json:"cpuMillicores"`
	Memory  model.Amount `json:"memoryBytes"`
	PodRows podList      `json:"podRows"`
	// Spare is the room that it will hold for CapacityBuffers.
	Spare []model.Spare `json:"spare,omitempty"`
}

// filledNode is a node that takes more pods.
type filledNode struct {
	Key     string        `json:"key"`
	PodRows podList       `json:"podRows"`
	Spare   []model.Spare `json:"spare,omitempty"`
}

// plannedMove is a move that has not begun, with the rows of its pods.
type plannedMove struct {
	model.Move
	Add    []plannedNode `json:"add,omitempty"`
	Filled []filledNode  `json:"filled,omitempty"`
}

const (
	maxWaiting = 500 // groups of pods shown; more is a cluster in distress, and the first ones say why
	maxNames   = 20  // pods named in a group
	maxMoves   = 200 // moves shown
)

// lookAhead is what comes next, and what each pending pod waits for.
func lookAhead(v *state.View, src Source) (*next, []*model.Pending) {
	out := &next{}
	plan, at := src.Plan()
	if plan != nil {
		out.PlanAt = at.UTC()
	}
	pending, launches, fills := model.PendingPods(model.Outlook{View: v, World: v.World, Plan: plan, PlanAt: at, MaxGroups: maxWaiting, MaxNames: maxNames})
	for _, x := range launches {
		out.Add = append(out.Add, newPlannedNode(v.World, x.Node, x.Pods))
	}
	for _, x := range fills {
		out.Filled = append(out.Filled, filledNode{Key: keyOf(x.Node), PodRows: podRows(v.World, x.Pods)})
	}
	if d, in, at := src.Decision(); d != nil && in != nil {
		out.DecisionAt = at.UTC()
		out.moves(v, d, in.World)
	}
	return out, pending
}

func newPlannedNode(s *world.Snapshot, n *pack.NewNode, pods []*world.Pod) plannedNode {
	m := plannedNode{PlannedNode: model.PlannedNode{Node: model.NewNode(s, n), Why: n.Why}, PodRows: podRows(s, world.Real(pods)), Spare: model.NewSpare(s, n.Pods)}
	m.Pods = nil // the rows say it
	if len(n.Choices) > 0 {
		room := n.Choices[0].Type.Allocatable
		if own := n.Choices[0].Offering.Allocatable; own != nil {
			room = own
		}
		m.CPU.Allocatable, m.Memory.Allocatable = room.Get(world.CPU), room.Get(world.Memory)
	}
	return m
}

// moves lists those of which every node is still there and has not begun to be deleted.
func (x *next) moves(v *state.View, d *disrupt.Decision, s *world.Snapshot) {
	here := map[string]bool{}
	for _, n := range v.World.Nodes {
		here[keyOf(n)] = !n.Deleting
	}
	for _, m := range d.Moves {
		if len(x.Moves) == maxMoves {
			return
		}
		if slices.ContainsFunc(m.Remove, func(i int32) bool { return !here[keyOf(s.Nodes[i])] }) {
			continue
		}
		out := plannedMove{Move: model.Move{Reason: string(m.Reason), Reboot: m.Reboot, TerminateFirst: m.TerminateFirst, Remove: m.Nodes, Evicts: m.Evicts, Saves: m.Saves, Why: m.Why}}
		for _, n := range m.Add {
			out.Add = append(out.Add, newPlannedNode(s, n, n.Pods))
		}
		for _, f := range m.Filled {
			out.Filled = append(out.Filled, filledNode{keyOf(f.Node), podRows(s, world.Real(f.Pods)), model.NewSpare(s, f.Pods)})
		}
		x.Moves = append(x.Moves, out)
	}
}
