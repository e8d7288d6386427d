package forecast

import (
	"fmt"
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/why"
	"karpenter/internal/model"
	"karpenter/internal/state"
)

// maxNodes bounds what static pools make in a forecast: nobody has more nodes in a cluster, and a mistyped number must not take hours.
const maxNodes = 20_000

// scaledDown is the reason of nodes that static pools give up.
const scaledDown = "ScaledDown"

// carryScaling has static pools make and remove nodes. It says whether there was anything to do.
func (r *run) carryScaling(view *state.View) bool {
	var add, remove int
	list := disrupt.Scale(r.facts().Input(view, r.now), r.start.Options)
	for _, s := range list {
		add += len(s.Add)
		remove += len(s.Remove)
	}
	if add+remove == 0 || len(view.Nodes)+add > maxNodes {
		return false
	}
	r.out.Rounds++
	wait := time.Duration(0)
	if add > 0 {
		wait = r.out.Boot
	}
	names, claims := map[string]bool{}, map[string]bool{}
	for _, s := range list {
		for _, l := range s.Remove {
			m := &disrupt.Move{Reason: scaledDown, Remove: []int32{l.Node}, Nodes: []string{view.World.Nodes[l.Node].Name}, Saves: view.World.Nodes[l.Node].Price, Why: l.Why}
			wait = max(wait, drainTime(view, m))
			for _, p := range view.World.Nodes[l.Node].Pods {
				if p.Movable && !p.Terminating {
					m.Evicts++
				}
			}
			r.out.Evicts += m.Evicts
			r.out.Moves = append(r.out.Moves, Move{Round: r.out.Rounds, Move: model.NewMove(view.World, m, firstTypes)})
			names[view.World.Nodes[l.Node].Name], claims[view.World.Nodes[l.Node].Claim] = true, true
		}
	}
	r.pass(wait)
	for i := range r.out.Moves {
		if m := &r.out.Moves[i]; m.Round == r.out.Rounds {
			m.After = r.now.Sub(r.start.Record.Now)
		}
	}
	for _, s := range list {
		for _, n := range s.Add {
			r.add(view, n, nil)
		}
	}
	r.drop(names, claims)
	r.acted = r.now
	return true
}

// lacking says which static pools have fewer nodes than they are to have at the end, and why.
func (r *run) lacking(view *state.View) map[string]string {
	out := map[string]string{}
	for _, s := range disrupt.Scale(r.facts().Input(view, r.now), r.start.Options) {
		if s.Short > 0 {
			out[s.Pool] = fmt.Sprintf("has %d of %s: %s", s.Have(), why.Count(int(s.Replicas), "node"), s.Why.Line())
		}
	}
	return out
}
