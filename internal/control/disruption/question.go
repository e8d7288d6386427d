package disruption

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// question is what a decision depends on. An answer that came to nothing comes to nothing again while the question is the same,
// so it is not asked twice (P118).
type question struct {
	world *world.Snapshot
	facts uint64
	at    time.Time
}

// same says whether the answer to q need not be looked for again.
func (q question) same(o question) bool {
	return q.world != nil && q.world == o.world && q.facts == o.facts && o.at.Sub(q.at) < ponder
}

// ask is the question that an input stands for. Of the facts about nodes it reads what decides; how long something still takes
// does not.
func ask(view *state.View, in *disrupt.Input, now time.Time) question {
	b := make([]byte, 0, 64*len(in.Nodes))
	text := func(s string) { b = append(append(b, s...), 0) }
	number := func(n uint64) { b = binary.LittleEndian.AppendUint64(b, n) }
	flags := func(list ...bool) {
		for _, f := range list {
			if f {
				b = append(b, 1)
			} else {
				b = append(b, 0)
			}
		}
	}
	for i := range in.Nodes {
		n := &in.Nodes[i]
		flags(n.Fixed != "", n.PodsFixed != "", n.Deadline, n.Consolidatable, n.Unpaid != "")
		number(math.Float64bits(n.Cost))
		number(math.Float64bits(n.Restart))
		text(n.Drift)
		if n.Illness != nil {
			text(n.Illness.Condition)
			flags(!now.Before(n.Illness.Due), n.Illness.Fixed != "", n.Illness.Grace != nil, n.Illness.Reboot)
		}
		for _, g := range n.Guards {
			number(uint64(g.Budget)<<32 | uint64(g.Pods))
		}
	}
	for _, p := range in.Pools {
		text(p.Name)
		text(string(p.Policy))
		flags(p.Never, p.Static, p.Hold != "", p.Blind, p.Turn)
		number(math.Float64bits(p.Horizon))
		for _, reason := range slices.Sorted(maps.Keys(p.Allowed)) {
			number(uint64(p.Allowed[reason]))
		}
	}
	for _, left := range in.Guarded {
		number(uint64(left))
	}
	for _, p := range in.World.Pools {
		text(p.Refused)
	}
	number(uint64(len(in.World.Pending)))
	number(uint64(len(in.World.Spare)))
	h := fnv.New64a()
	h.Write(b)
	return question{world: view.World, facts: h.Sum64(), at: now}
}
