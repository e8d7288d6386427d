package ledger

import (
	"time"

	"karpenter/internal/engine/why"
	"karpenter/internal/model"
)

// Kind is what sort of decision an entry is about. Kinds are stable: programs and documentation refer to them.
type Kind string

// The kinds.
const (
	Plan         Kind = "Plan"         // nodes for pods that wait
	Refusal      Kind = "Refusal"      // pods for which nothing can be done, nodes that could not go
	Move         Kind = "Move"         // nodes disrupted voluntarily, and what replaces them
	Launch       Kind = "Launch"       // an instance was asked for
	Failure      Kind = "Failure"      // something that was decided could not be had
	Interruption Kind = "Interruption" // the cloud takes an instance away
	Removal      Kind = "Removal"      // nodes removed for another reason than a move: expired, ill, never joined
)

// Ref names an object that an entry is about.
type Ref struct {
	Kind      string `json:"kind"` // Pod, Node, NodeClaim, NodePool, or a kind of node class
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Outcome is what became of a decision.
type Outcome string

// The outcomes.
const (
	Open   Outcome = "Open"   // not over yet
	Done   Outcome = "Done"   // carried out
	Failed Outcome = "Failed" // given up, and undone where there was something to undo
	Noted  Outcome = "Noted"  // nothing is to be carried out
)

// Entry is one decision.
type Entry struct {
	// ID counts up from 1 within a process; Process tells processes apart.
	ID      uint64    `json:"id"`
	Process string    `json:"process,omitempty"`
	At      time.Time `json:"at"`
	Kind    Kind      `json:"kind"`
	// Reason is the word for it in conditions and metrics: Underutilized, Drifted, SpotInterrupted, InsufficientCapacity …
	Reason string `json:"reason,omitempty"`
	// Key is what others call it: the id of a move as it is written on claims, a pod group's reason; empty where nobody does.
	Key string `json:"key,omitempty"`
	// Summary says in one sentence what was decided.
	Summary string       `json:"summary"`
	Why     []why.Reason `json:"why,omitempty"`
	// About lists the objects by which the entry can be found; those in Add and Remove are found too.
	About  []Ref        `json:"about,omitempty"`
	Add    []model.Node `json:"add,omitempty"`
	Remove []model.Node `json:"remove,omitempty"`
	// Evicts is how many pods have to restart, Saves what the fleet costs less an hour afterwards; negative if it costs more.
	Evicts int     `json:"evicts,omitempty"`
	Saves  float64 `json:"savesPerHour,omitempty"`
	// Input names the state that the decision was made from; a recording of it has the same name.
	Input string `json:"input,omitempty"`
	// Recorded says that the recording is still there.
	Recorded  bool       `json:"recorded,omitempty"`
	Outcome   Outcome    `json:"outcome"`
	OutcomeAt *time.Time `json:"outcomeAt,omitempty"`
	// Result says in one sentence what came of it, once that is known.
	Result string `json:"result,omitempty"`
}

// Concerns says whether the entry is about an object.
func (e *Entry) Concerns(r Ref) bool {
	for _, a := range e.About {
		if a == r {
			return true
		}
	}
	for _, list := range [][]model.Node{e.Add, e.Remove} {
		for i := range list {
			if list[i].Concerns(r.Kind, r.Namespace, r.Name) {
				return true
			}
		}
	}
	return false
}
