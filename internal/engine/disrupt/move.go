package disrupt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// offer takes a move if budgets and the moves before it still allow it.
func (d *decider) offer(m *Move) bool {
	if _, ok := d.affordable(m); !ok {
		return false
	}
	slices.Sort(m.Remove)
	m.Why = d.explain(m)
	_, ok := d.take(m)
	return ok
}

// rate is what a move saves for each bit of disruption.
func (d *decider) rate(m *Move) float64 {
	sum := 0.0
	for _, node := range m.Remove {
		sum += d.in.Nodes[node].Cost
	}
	return m.Saves / max(sum, 1)
}

func (d *decider) explain(m *Move) why.Reason {
	names := make([]string, 0, len(m.Remove))
	for _, node := range m.Remove {
		n := d.in.World.Nodes[node]
		typ, _ := n.Labels.Get(world.LabelInstanceType)
		names = append(names, strings.TrimSpace(n.Name+" "+typ))
	}
	return why.New(why.Chosen, "%s: %s; saves %s for %s", why.List(names, maxNamed), replacement(m), why.Money(m.Saves), why.Count(m.Evicts, "restart"))
}

// replacement says where the pods are placed.
func replacement(m *Move) string {
	switch {
	case len(m.Add) == 0 && len(m.Order) == 0:
		return "it has no pods to reschedule"
	case len(m.Add) == 0 && len(world.Real(m.Order)) == 0:
		return "its spare pods fit on other nodes"
	case len(m.Add) == 0 && len(m.Remove) == 1:
		return "its pods fit on other nodes"
	case len(m.Add) == 0:
		return "their pods fit on other nodes"
	}
	count := map[string]int{}
	for _, n := range m.Add {
		count[n.Choices[0].Type.Name]++
	}
	types := make([]string, 0, len(count))
	for t := range count {
		types = append(types, t)
	}
	slices.SortFunc(types, func(a, b string) int { return cmp.Or(-cmp.Compare(count[a], count[b]), strings.Compare(a, b)) })
	for i, t := range types {
		if count[t] > 1 {
			types[i] = fmt.Sprintf("%d × %s", count[t], t)
		}
	}
	return "replaced by " + why.List(types, maxNamed)
}

// maxNamed is how many nodes a reason names before it counts the rest.
const maxNamed = 5

// holding says of a node that has nothing but room for spare pods that it stays for those.
func (d *decider) holding(node int32, r why.Reason) why.Reason {
	held := d.spares[node]
	if held == nil || r.Code == why.Spare || d.in.Nodes[node].Fixed != "" || d.in.Nodes[node].Cost > 1 {
		return r
	}
	return why.Reason{Code: why.Spare, Text: "it holds " + world.HeldWords(held), Because: []why.Reason{r}}
}

// finish lists why every other node stays.
func (d *decider) finish() *Decision {
	out := &Decision{Moves: d.moves, Rejected: d.reject, Moving: d.moving, Spares: d.spares}
	for i, n := range d.in.World.Nodes {
		out.Before += n.Price
		if d.target[i] {
			d.keep(int32(i), why.Chosen, "it receives pods of nodes that are removed")
		}
		if !d.gone[i] {
			d.keep(int32(i), why.Chosen, "nothing cheaper would take its pods")
			out.Kept = append(out.Kept, Kept{int32(i), d.holding(int32(i), d.why[i])})
		}
	}
	out.NodesBefore, out.After = len(d.in.World.Nodes), out.Before
	out.NodesAfter = out.NodesBefore
	for _, m := range d.moves {
		out.After -= m.Saves
		if !m.Reboot {
			out.NodesAfter += len(m.Add) - len(m.Remove)
		}
	}
	return out
}
