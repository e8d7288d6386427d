package disruption

import (
	"maps"
	"sync"

	"karpenter/internal/state"
)

// Turn keeps plans and moves apart. Between the moment at which a node is marked as leaving and the moment at which the claims
// that replace it are known, its pods seem to be unschedulable: a plan made then would make a second set of nodes for them. So
// whoever plans is told which moves are half done, and leaves their pods where they are. Nobody waits for anybody: a move that is
// slow to begin holds up no plan.
type Turn struct {
	mu   sync.Mutex
	half map[string]bool // by claim
}

// Look is a view with the claims whose nodes are part of a move that is half done in it.
func (t *Turn) Look(m interface{ View() *state.View }) (view *state.View, half map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return m.View(), maps.Clone(t.half)
}

// begin is the start of a move of nodes, before anything of it is written. It ends, whole or undone, with the function that is
// returned.
func (t *Turn) begin(nodes []*state.Node) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.half == nil {
		t.half = map[string]bool{}
	}
	for _, n := range nodes {
		t.half[n.Claim.Name] = true
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, n := range nodes {
			delete(t.half, n.Claim.Name)
		}
	}
}
