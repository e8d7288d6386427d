package disrupt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

const (
	// minShare is what a move must save of the price of what it removes. Less would not pay for the restarts: a pod that is down for a
	// minute once an hour has cost that much.
	minShare = 0.02
	// spotShare is the same for spot nodes that are replaced by spot nodes, whose prices move by about a tenth on their own.
	spotShare = 0.2
	// youngShare is the same for nodes that a move made less than youngAge ago.
	youngShare = 0.1
	youngAge   = time.Hour
	// spotTypes is how many cheaper types a single spot node's replacement must have to choose from (D30).
	spotTypes = 15
	// balance is the score from which the Balanced policy approves (D39).
	balance = 0.5
)

// split takes a plan for removed nodes apart into moves that share no new node. A node whose pods do not all have a place stays,
// together with those it shares new nodes with.
func (d *decider) split(plan *pack.Plan, removed []int32) []*Move {
	from := map[string]int{} // pod to position in removed
	for k, node := range removed {
		for _, p := range d.in.World.Nodes[node].Pods {
			from[p.UID] = k
		}
	}
	parent := make([]int, len(removed))
	for k := range parent {
		parent[k] = k
	}
	var root func(int) int
	root = func(k int) int {
		if parent[k] != k {
			parent[k] = root(parent[k])
		}
		return parent[k]
	}
	for _, n := range plan.Nodes {
		for _, p := range n.Pods[1:] {
			a, b := root(from[n.Pods[0].UID]), root(from[p.UID])
			parent[max(a, b)] = min(a, b)
		}
	}
	bad := map[int]bool{}
	for _, u := range plan.Unplaced {
		for _, p := range u.Pods {
			bad[root(from[p.UID])] = true
		}
	}
	moves := map[int]*Move{}
	var out []*Move
	for k, node := range removed {
		if bad[root(k)] {
			continue
		}
		m := moves[root(k)]
		if m == nil {
			m = &Move{Reason: Underutilized}
			moves[root(k)] = m
			out = append(out, m)
		}
		m.Remove = append(m.Remove, node)
		m.Evicts += evicts(d.in.World.Nodes[node])
		m.Saves += d.in.World.Nodes[node].Price
	}
	for _, n := range plan.Nodes {
		if m := moves[root(from[n.Pods[0].UID])]; m != nil {
			m.Add = append(m.Add, n)
			m.Saves -= n.Price()
		}
	}
	d.fill(plan, moves, func(uid string) int { return root(from[uid]) })
	return out
}

// fill notes with each move the nodes that take its pods.
func (d *decider) fill(plan *pack.Plan, moves map[int]*Move, root func(string) int) {
	for _, f := range plan.Existing {
		parts := map[*Move][]*world.Pod{}
		var order []*Move
		for _, p := range f.Pods {
			m := moves[root(p.UID)]
			if m == nil {
				continue
			}
			if parts[m] == nil {
				order = append(order, m)
			}
			parts[m] = append(parts[m], p)
		}
		for _, m := range order {
			m.Filled = append(m.Filled, &pack.Filled{Node: f.Node, Pods: parts[m]})
		}
	}
}

// pays says whether a move is worth making, and if not why not. It narrows what may be launched to what keeps it so.
func (d *decider) pays(m *Move) (why.Reason, bool) {
	price := 0.0
	for _, node := range m.Remove {
		price += d.in.World.Nodes[node].Price
	}
	needs := d.share(m)
	if m.Saves < needs*price {
		if m.Saves <= 0 {
			return why.New(why.NextBest, "its pods would cost as much elsewhere"), false
		}
		return why.New(why.NextBest, "moving its pods would save $%.4f/h, less than the %.0f %% that pay for the restarts", m.Saves, 100*needs), false
	}
	if r, ok := d.narrow(m, price); !ok {
		return r, false
	}
	if r, ok := d.balanced(m); !ok {
		return r, false
	}
	if past, ok := d.undoes(m); ok {
		return why.New(why.Refused, "a %s was removed from pool %s %s ago; putting one back would undo that", past.Type, past.Pool, d.now.Sub(past.At).Round(time.Minute)), false
	}
	return why.Reason{}, true
}

// share is what the move must save of the price of what it removes.
func (d *decider) share(m *Move) float64 {
	needs := minShare
	for _, node := range m.Remove {
		if made := d.in.Nodes[node].Made; len(m.Add) > 0 && !made.IsZero() && d.now.Sub(made) < youngAge {
			needs = max(needs, youngShare)
		}
	}
	if d.spotOnly(m) {
		needs = max(needs, spotShare)
	}
	return needs
}

// spotOnly says whether spot nodes are replaced by spot nodes.
func (d *decider) spotOnly(m *Move) bool {
	if len(m.Add) == 0 {
		return false
	}
	for _, node := range m.Remove {
		if market, _ := d.in.World.Nodes[node].Labels.Get(world.LabelCapacityType); market != world.CapacitySpot {
			return false
		}
	}
	return slices.ContainsFunc(m.Add, func(n *pack.NewNode) bool { return n.Choices[0].Offering.CapacityType == world.CapacitySpot })
}

// undoes finds a recent removal that the move would take back: it removes nodes that moves have made and adds what was removed.
func (d *decider) undoes(m *Move) (Past, bool) {
	if !slices.ContainsFunc(m.Remove, func(node int32) bool {
		made := d.in.Nodes[node].Made
		return !made.IsZero() && d.now.Sub(made) < youngAge
	}) {
		return Past{}, false
	}
	for _, n := range m.Add {
		c := n.Choices[0]
		for _, p := range d.in.Past {
			if p.Pool == n.Pool.Name && p.Type == c.Type.Name && p.CapacityType == c.Offering.CapacityType && d.now.Sub(p.At) < youngAge {
				return p, true
			}
		}
	}
	return Past{}, false
}

// offer takes a move if budgets still allow it.
func (d *decider) offer(m *Move) bool {
	if r, ok := d.affordable(m); !ok {
		for _, node := range m.Remove {
			d.keep(node, r.Code, "it could go to save $%.4f/h, but %s", m.Saves/float64(len(m.Remove)), r.Text)
		}
		return false
	}
	m.Why = d.explain(m)
	d.take(m)
	return true
}

// rate is what a move saves for each bit of disruption.
func (d *decider) rate(m *Move) float64 { return m.Saves / d.disruption(m) }

func (d *decider) disruption(m *Move) float64 {
	sum := 0.0
	for _, node := range m.Remove {
		sum += d.in.Nodes[node].Cost
	}
	return max(sum, 1)
}

func (d *decider) explain(m *Move) why.Reason {
	names := make([]string, 0, len(m.Remove))
	for _, node := range m.Remove {
		n := d.in.World.Nodes[node]
		typ, _ := n.Labels.Get(world.LabelInstanceType)
		names = append(names, strings.TrimSpace(n.Name+" "+typ))
	}
	return why.New(why.Chosen, "%s: %s; saves $%.4f/h for %d restarts", cut(names), replacement(m), m.Saves, m.Evicts)
}

// replacement says where the pods go.
func replacement(m *Move) string {
	if len(m.Add) == 0 {
		return "its pods fit on other nodes"
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
	return "replaced by " + cut(types)
}

// cut names the first few and counts the others.
func cut(names []string) string {
	const shown = 5
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d other(s)", strings.Join(names[:shown], ", "), len(names)-shown)
}
