package disruption

import (
	"slices"
	"sync"
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

const (
	// rest is how long a node whose move was called off is left alone: until then the mirror has seen what stood in the way.
	rest = 15 * time.Second
	// pastFor is how long a removal counts when something is about to be undone, and maxPast how many are remembered.
	pastFor = time.Hour
	maxPast = 10_000
)

// memory is what the loop remembers beside what is written on objects. A process that starts anew does well without.
type memory struct {
	mu   sync.Mutex
	left map[string]time.Time // claims whose move was called off, and until when they are left alone
	past []disrupt.Past
}

// leave has nodes left alone for a while.
func (m *memory) leave(nodes []*state.Node, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left == nil {
		m.left = map[string]time.Time{}
	}
	for claim, until := range m.left {
		if !now.Before(until) {
			delete(m.left, claim)
		}
	}
	for _, n := range nodes {
		m.left[n.Claim.Name] = now.Add(rest)
	}
}

// resting says whether a claim is to be left alone.
func (m *memory) resting(claim string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return now.Before(m.left[claim])
}

// removed notes that a node has been removed.
func (m *memory) removed(n *state.Node, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := pastOf(n)
	p.At = now
	m.past = append(m.past[max(0, len(m.past)-maxPast):], p)
}

// recent are the removals of late.
func (m *memory) recent(now time.Time) []disrupt.Past {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.past = slices.DeleteFunc(m.past, func(p disrupt.Past) bool { return now.Sub(p.At) >= pastFor })
	return slices.Clone(m.past)
}

// pastOf is what is remembered of a node that goes.
func pastOf(n *state.Node) disrupt.Past {
	label := func(key string) string { v, _ := n.World.Labels.Get(key); return v }
	return disrupt.Past{Pool: n.World.Pool, Type: label(world.LabelInstanceType), Zone: label(world.LabelZone), CapacityType: label(world.LabelCapacityType)}
}
