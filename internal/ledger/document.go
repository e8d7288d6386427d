package ledger

import "karpenter/internal/model"

// Decision is a document with one entry; its own kind is inside.
type Decision struct {
	model.Type
	Decision *Entry `json:"decision"`
}

// Document makes a document of an entry.
func (e *Entry) Document() *Decision { return &Decision{model.TypeOf(model.KindDecision), e} }

// Decisions is a document with entries. Newest is the ID of the newest entry that there is, among them or not.
type Decisions struct {
	model.Type
	Decisions []*Entry `json:"decisions"`
	Newest    uint64   `json:"newest,omitempty"`
}

// NewDecisions makes a document of entries.
func NewDecisions(list []*Entry, newest uint64) *Decisions {
	return &Decisions{model.TypeOf(model.KindDecisionList), append([]*Entry{}, list...), newest}
}
