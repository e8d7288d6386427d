package disruption

import (
	"fmt"
	"slices"
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// input is what a decision is made from: the view with pods where they are expected, without nodes that are part of a move, and
// without pools whose replacements fail.
func (l *Loop) input(view *state.View, list []*command, now time.Time) *disrupt.Input {
	busy, waiting := map[string]string{}, map[string]string{}
	for _, c := range list {
		for _, n := range slices.Concat(c.stay, c.going) {
			busy[n.Claim.Name] = "it is being taken away already"
		}
		for _, name := range c.to {
			waiting[name] = "it waits for the pods of nodes that it replaces"
		}
	}
	in := view.Disruption(state.DisruptionOptions{
		Past: l.memory.recent(now), Nominated: l.Nominated, Busy: func(claim string) string { return busy[claim] },
	}, now)
	in.World = l.Creator.World(view)
	for i, n := range view.Nodes {
		if n.Claim == nil || in.Nodes[i].Fixed != "" {
			continue
		}
		if why := waiting[n.Claim.Name]; why != "" {
			in.Nodes[i].Fixed = why
		} else if l.memory.resting(n.Claim.Name, now) {
			in.Nodes[i].Fixed = "a move of it was called off a moment ago"
		}
	}
	l.hold(view, in, now)
	return in
}

// hold keeps pools whose replacements fail out of a decision: no node is made for them, and their nodes do not go elsewhere
// because they have drifted. What is empty may still go.
func (l *Loop) hold(view *state.View, in *disrupt.Input, now time.Time) {
	held := map[string]bool{}
	var pools []*world.Pool
	for i, p := range in.World.Pools {
		until, why := l.brake.held(p.Name, l.version(view, p.Name), now)
		if until.IsZero() && l.Gate != nil {
			until, why = l.Gate.Paused(p.Name)
		}
		if !until.After(now) {
			continue
		}
		held[p.Name] = true
		if pools == nil {
			pools = slices.Clone(in.World.Pools)
		}
		if p.Refused == "" && !p.Static {
			pools[i] = &world.Pool{Name: p.Name, Weight: p.Weight, MaxNodes: p.MaxNodes, Refused: "is held back: " + why}
		}
	}
	if pools == nil {
		return
	}
	c := *in.World
	c.Pools = pools
	in.World = &c
	for i, n := range c.Nodes {
		if held[n.Pool] && in.Nodes[i].Cost > 1 {
			in.Nodes[i].Drift = ""
		}
	}
}

// version is that of a pool and its class: it changes with everything that the pool's nodes are made from.
func (l *Loop) version(view *state.View, pool string) string {
	p := view.Pool(pool)
	if p == nil {
		return ""
	}
	class := ""
	if ref := p.Object.Spec.Template.Spec.NodeClassRef; ref != nil && l.ClassVersion != nil {
		class = l.ClassVersion(ref.Name)
	}
	return fmt.Sprintf("%s/%d/%s", p.Object.UID, p.Object.Generation, class)
}
