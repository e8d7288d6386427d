// Package disrupt decides which nodes are disrupted voluntarily, and what replaces them: nodes that are unhealthy, nodes that are
// empty, nodes that have drifted from what their pool asks for, and nodes whose pods can be had for less elsewhere.
//
// Decide is a pure function of a snapshot and of facts about its nodes. It returns moves that hold one after the other: each
// names what is removed and added, what it saves and why, and uses no room that another move counts on. Every other node
// gets the reason why it stays. Whoever carries a move out asks Holds about it on the state of that moment.
//
// Consolidation goes from the whole to the parts. A fresh packing of a sample of all pods says what each pod is worth; nodes
// that cost most beyond what their pods are worth come first, as far as budgets reach. A fleet that is not large is one group, a large
// one is dealt into several. In each the worst are removed and the others filled up, by as many as saves most; nothing is launched of
// which the like is removed. What comes of a group falls apart into moves that share no new node. Groups are looked at independently of each other, so that what is found in one is checked against what was taken before:
// pools' limits, reservations, and pod affinity, anti-affinity and topology spread.
package disrupt

import (
	"time"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// Reason is why a node is removed. The values are those of budgets, conditions and metrics.
type Reason string

// The reasons.
const (
	Empty         Reason = "Empty"
	Drifted       Reason = "Drifted"
	Underutilized Reason = "Underutilized"
	Unhealthy     Reason = "Unhealthy"
)

// Reasons lists them, in the order in which nodes are looked at for them.
func Reasons() []Reason { return []Reason{Unhealthy, Empty, Drifted, Underutilized} }

// Policy is when a pool's nodes may be consolidated.
type Policy string

// The policies.
const (
	WhenEmpty                Policy = "WhenEmpty"
	WhenEmptyOrUnderutilized Policy = "WhenEmptyOrUnderutilized"
	Balanced                 Policy = "Balanced"
)

// Node is what is known of a node besides what the snapshot says.
type Node struct {
	// Fixed says why the node is not to be touched at all, whatever the reason: it belongs to nobody, is starting, is leaving, is
	// expected to take pods in a moment, or its owner forbids it. Empty for nodes that may be touched.
	Fixed string
	// PodsFixed says which pod forbids it, and how. Drift overrides that where Deadline is set (D9).
	PodsFixed string
	// Deadline says that the claim has a termination grace period.
	Deadline bool
	// Drift is why the node has drifted, DriftedAt since when.
	Drift     string
	DriftedAt time.Time
	// Illness is what is wrong with the node; nil if it is healthy, and where nothing is repaired.
	Illness *Illness
	// Consolidatable says that the node has been quiet for as long as its pool wants; NotYet says why it is not.
	Consolidatable bool
	NotYet         string
	// Unpaid says which pod of the node was moved for its cost and has not paid for that yet; empty for most nodes. Until it has, the
	// node is not removed for its cost.
	Unpaid string
	// Restart is what restarting the node's pods costs, in dollars.
	Restart float64
	// Cost is what rescheduling the node's pods costs: 1 for the node, and about 1 for each pod (D11).
	Cost float64
	// Guards are the disruption budgets that cover pods of the node.
	Guards []Guard
	// Moving says that a move has begun which removes the node once its replacement is up, Going that it has been deleted already. Static
	// pools count nodes by these: one that is marked for deletion in any other way is still theirs.
	Moving, Going bool
	// Ending says that the instance is being ended: budgets do not count the node any more.
	Ending bool
	// Protected says that the node, its claim or one of its pods has the annotation do-not-disrupt.
	Protected bool
	// Unlaunched says that there is no instance yet. Left is the part of the node's lifetime that is left, 1 if it never expires.
	Unlaunched bool
	Left       float64
	// Made is when a move made the node, zero if none did; From is what that move took away, and what the nodes before had come
	// from.
	Made time.Time
	From []Past
}

// Guard is a number of pods under one disruption budget, by its index in Input.Guarded.
type Guard struct{ Budget, Pods int32 }

// Pool is what is known of a pool besides what the snapshot says.
type Pool struct {
	Name   string
	Policy Policy
	// Never turns consolidation off, emptiness included.
	Never bool
	// Static pools keep a fixed number of nodes.
	Static bool
	// Allowed is how many more nodes may be on their way out for the reason now.
	Allowed map[Reason]int
	// Hold says why nothing of the pool is disrupted for its cost now, besides what the snapshot shows: pods are known to come, or it
	// has not been at rest for long enough. Blind says that it is not known what the pods need that come, so that nodes without pods stay too.
	// Turn says that the pool has waited for so long that it gets its turn all the same.
	Hold        string
	Blind, Turn bool
	// Rested asks what would be decided if the pool were at rest.
	Rested bool
	// Horizon is for how many hours a saving counts against the restarts that it takes.
	Horizon float64
	// Trouble says what is wrong with the pool's budgets, if they cannot be understood; they allow nothing then.
	Trouble string
}

// Past is a node that a move has removed.
type Past struct {
	Pool, Type, Zone, CapacityType string
	At                             time.Time
}

// Input is everything that a decision is made from.
type Input struct {
	World *world.Snapshot
	// Nodes is parallel to World.Nodes.
	Nodes []Node
	Pools []Pool
	// Guarded is how many more evictions each disruption budget allows now.
	Guarded []int32
	// Past are recent moves, so that none is undone.
	Past []Past
}

// Options are the choices that a caller has.
type Options struct {
	// Pack is how pods are placed.
	Pack pack.Options
	// SpotToSpot allows replacing spot nodes by cheaper spot nodes.
	SpotToSpot bool
	// TerminateFirstDrift and TerminateFirstRepair let nodes in full reservations be removed before their replacement is there (N8).
	TerminateFirstDrift, TerminateFirstRepair bool
	// Turn counts decisions. What one decision cannot look at in full, the next begins elsewhere.
	Turn int
	// Found, if any, is told of each move as soon as it is found. It must not block.
	Found func(*Move)
	// Done, if any, is told when a part of a decision has been made, so that the caller may see how long each takes.
	Done func(Part)

	group, whole int // how many nodes are looked at together, if not groupSize, and up to how many all are; tests make them small
}

// Part is a part of a decision, by what it looks for.
type Part string

// The parts, in the order in which they are made. Finding out what is under way is counted with the first one. Repair is left out where
// every node is healthy.
const (
	Repair    Part = "repair"
	Emptiness Part = "emptiness"
	Drift     Part = "drift"
	Groups    Part = "groups" // consolidation of several nodes together
	Singles   Part = "singles"
)

// Score is what a move saves of the cost of a pool, against what it disturbs of the pool (D39).
type Score struct {
	Pool  string
	Value float64
}

// Move is a change that pays for itself.
type Move struct {
	Reason Reason
	// Remove are indexes into the snapshot's nodes, and Nodes their names.
	Remove []int32
	Nodes  []string
	Add    []*pack.NewNode
	// Reboot says that the nodes are not removed but rebooted: their pods restart, and they come back.
	Reboot bool
	// TerminateFirst says that the nodes are removed before what is added can be launched: it needs their place. Whoever carries the move out
	// launches nothing; provisioning does once the place is free.
	TerminateFirst bool
	// Slot says, with TerminateFirst, that this place is a slot of a capacity reservation, and not room within the limits of a static pool.
	Slot bool
	// Static says that a node of a static pool is replaced by another one of the pool, whatever becomes of its pods.
	Static bool
	// Filled are the nodes that take pods of the removed ones.
	Filled []*pack.Filled
	// Order lists the pods that move in the order in which they were placed.
	Order []*world.Pod
	// Evicts is how many pods have to restart.
	Evicts int
	// Saves is in dollars an hour; it may be negative for drift and repair.
	Saves float64
	Why   why.Reason
	// From is what is removed, and what that had come from: what the new nodes should remember.
	From []Past
	// Scores are those of a consolidation, for each pool that it takes nodes from.
	Scores []Score

	filled []int32 // indexes of Filled
}

// Kept is a node that stays, and why.
type Kept struct {
	Node int32
	Why  why.Reason
}

// Decision is what to do, and about the rest, why not.
type Decision struct {
	Moves []*Move
	Kept  []Kept
	// Rejected are the scores of nodes that would go but for the Balanced policy.
	Rejected []Score
	// Moving says of pools in motion what is going on; nothing of them was disrupted for its cost, unless it was their turn.
	Moving map[string]string
	// Spares are the spare pods that nodes hold room for, by index.
	Spares map[int32][]world.Held
	// Before and After are what all nodes cost an hour, before and after the moves.
	Before, After float64
	// NodesBefore and NodesAfter count them.
	NodesBefore, NodesAfter int
}

// Decide finds the moves that are worth making now.
func Decide(in *Input, opt Options, now time.Time) *Decision {
	d := newDecider(in, opt, now)
	d.settle()
	if d.sick {
		d.repair()
		d.done(Repair)
	}
	d.empty()
	d.done(Emptiness)
	d.drift()
	d.done(Drift)
	d.consolidate()
	d.worthBeginning()
	d.done(Singles)
	return d.finish()
}
