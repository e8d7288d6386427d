package disruption

import (
	"sync"

	"karpenter/internal/control/provision"
	"karpenter/internal/state"
)

// Turn keeps plans and moves apart. Between the moment at which a node is marked as leaving and the moment at which the claims
// that replace it are known, its pods seem to have no place: a plan made then would make a second set of nodes for them. So
// whoever plans sees each move as a whole or not at all.
type Turn struct {
	mu sync.RWMutex
}

// Mirror is the mirror as planners are to see it. It is not for a provision.Creator, which works inside of moves.
func (t *Turn) Mirror(m provision.Mirror) provision.Mirror { return between{m, t} }

// begin is the start of something that planners must not see half of. It ends with the function that is returned.
func (t *Turn) begin() (end func()) {
	t.mu.RLock()
	return t.mu.RUnlock
}

// between is a mirror that shows nothing while moves are being written.
type between struct {
	provision.Mirror
	turn *Turn
}

// View waits until no move is half done.
func (b between) View() *state.View {
	b.turn.mu.Lock()
	defer b.turn.mu.Unlock()
	return b.Mirror.View()
}
