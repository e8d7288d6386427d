package disruption

import (
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/state"
)

// trials bound how many nodes of a pool are replaced at once while nothing shows that what replaces them works: when the template
// or the image has changed, the first few have to come up before the others follow (T24).
type trials struct {
	room map[string]*trial
}

type trial struct {
	// proven says that a node made from what the pool asks for now is up.
	proven bool
	// failures is how many have failed in a row, underway how many are being waited for.
	failures, underway int
}

func (l *Loop) newTrials(view *state.View, in *disrupt.Input, list []*command) *trials {
	t := &trials{room: map[string]*trial{}}
	drifted := map[string]time.Time{} // by pool: when the last of its nodes was found to differ
	for i := range in.Nodes {
		if pool := in.World.Nodes[i].Pool; in.Nodes[i].Drift != "" && in.Nodes[i].DriftedAt.After(drifted[pool]) {
			drifted[pool] = in.Nodes[i].DriftedAt
		}
	}
	for _, p := range in.World.Pools {
		t.room[p.Name] = &trial{failures: l.breaker.count(p.Name, l.version(view, p.Name))}
	}
	for i, n := range view.Nodes {
		if n.Claim == nil || t.room[n.World.Pool] == nil {
			continue
		}
		if n.World.Initialized && in.Nodes[i].Drift == "" && !n.Claim.CreationTimestamp.Time.Before(drifted[n.World.Pool]) {
			t.room[n.World.Pool].proven = true
		}
	}
	for _, c := range list {
		for _, n := range c.made {
			if r := t.room[n.World.Pool]; r != nil && !initialized(n.Claim) {
				r.underway++
			}
		}
	}
	return t
}

// take says whether the nodes that a move makes may be tried now, and if so counts them.
func (t *trials) take(m *disrupt.Move) bool {
	adds := map[string]int{}
	for _, n := range m.Add {
		adds[n.Pool.Name]++
	}
	for pool, n := range adds {
		r := t.room[pool]
		if r == nil {
			return false
		}
		open := r.failures == 0 && (m.Reason != disrupt.Drifted || r.proven)
		if most := max(1, maxFailures-r.failures); !open && r.underway > 0 && r.underway+n > most {
			return false
		}
	}
	for pool, n := range adds {
		t.room[pool].underway += n
	}
	return true
}
