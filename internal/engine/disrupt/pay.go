package disrupt

import (
	"slices"
	"time"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

const (
	// minShare is what a move must save of the price of what it removes. Replacing nodes costs about five minutes of both the old and
	// the new ones; a saving of this size has paid for that within hours, and a smaller one is not worth anybody's restarts.
	minShare = 0.02
	// spotShare is the same for spot nodes that are replaced by spot nodes. Spot prices move by about a tenth either way on their own,
	// so that two of them can seem to be apart by 18 %, and come back. The cheapest of many has mostly been lucky: for a week, what
	// was chosen for its price is left alone unless freshSpotShare can be saved, so that luck is not run after.
	spotShare      = 0.2
	freshSpotShare = 0.45
	freshSpotAge   = 7 * 24 * time.Hour
	// youngShare is the same for nodes that a move made less than youngAge ago: they have hardly paid for themselves yet.
	youngShare = 0.1
	youngAge   = time.Hour
	// undoAge is for how long a node is not replaced by what it has replaced itself, unless that saves undoShare; for spot nodes it
	// is freshSpotAge.
	undoAge   = 24 * time.Hour
	undoShare = 0.5
	// maxTrail is how many ancestors a node remembers.
	maxTrail = 16
	// balance is the score from which the Balanced policy approves (D39).
	balance = 0.5
)

// price is what the removed nodes cost an hour.
func (d *decider) price(m *Move) float64 {
	sum := 0.0
	for _, node := range m.Remove {
		sum += d.in.World.Nodes[node].Price
	}
	return sum
}

// pays says whether a move is worth making, and if not why not. It narrows what may be launched to what keeps it so.
func (d *decider) pays(m *Move) (why.Reason, bool) {
	price, needs := d.price(m), d.share(m)
	if m.Saves < needs*price {
		if m.Saves <= 0 {
			return why.New(why.NextBest, "its pods would cost as much elsewhere"), false
		}
		return why.New(why.NextBest, "moving its pods would save %s, %s of its price; below %s it does not pay for the restarts", why.Money(m.Saves), why.Percent(m.Saves/price), why.Percent(needs)), false
	}
	if r, ok := d.worthRestarts(m); !ok {
		return r, false
	}
	if past, ok := d.undoes(m, price); ok {
		return why.New(why.Refused, "it was made to replace %s; going back would undo that", past.Type), false
	}
	if r, ok := d.narrow(m, price); !ok {
		return r, false
	}
	return d.balanced(m)
}

// share is what the move must save of the price of what it removes: what each of its nodes asks for, weighed by what it costs.
func (d *decider) share(m *Move) float64 {
	if len(m.Add) == 0 {
		return minShare
	}
	spot := d.spotOnly(m)
	sum, price := 0.0, 0.0
	for _, node := range m.Remove {
		n := d.in.World.Nodes[node]
		sum += n.Price * d.needs(node, spot)
		price += n.Price
	}
	if price <= 0 {
		return minShare
	}
	return sum / price
}

// needs is what replacing a node must save of its price.
func (d *decider) needs(node int32, spot bool) float64 {
	switch {
	case spot && d.younger(node, freshSpotAge):
		return freshSpotShare
	case spot:
		return spotShare
	case d.younger(node, youngAge):
		return youngShare
	}
	return minShare
}

// younger says whether a move made the node less than some time ago.
func (d *decider) younger(node int32, age time.Duration) bool {
	made := d.in.Nodes[node].Made
	return !made.IsZero() && d.now.Sub(made) < age
}

// spotOnly says whether spot nodes are replaced by spot nodes.
func (d *decider) spotOnly(m *Move) bool {
	for _, node := range m.Remove {
		if market, _ := d.in.World.Nodes[node].Labels.Get(world.LabelCapacityType); market != world.CapacitySpot {
			return false
		}
	}
	return slices.ContainsFunc(m.Add, func(n *pack.NewNode) bool { return n.Choices[0].Offering.CapacityType == world.CapacitySpot })
}

// undoes finds something that all removed nodes have been made to replace, or that has been removed since they were made, and
// that the move would bring back.
func (d *decider) undoes(m *Move, price float64) (Past, bool) {
	if len(m.Add) == 0 || m.Saves >= undoShare*price {
		return Past{}, false
	}
	age := undoAge
	if d.spotOnly(m) {
		age = freshSpotAge
	}
	for _, n := range m.Add {
		c := n.Choices[0]
		is := func(p Past) bool {
			return p.Pool == n.Pool.Name && p.Type == c.Type.Name && p.CapacityType == c.Offering.CapacityType
		}
		late := func(p Past) bool { return is(p) && d.now.Sub(p.At) < youngAge }
		var found Past
		if !slices.ContainsFunc(m.Remove, func(node int32) bool {
			facts := &d.in.Nodes[node]
			if i := slices.IndexFunc(facts.From, is); i >= 0 && d.younger(node, age) {
				found = facts.From[i]
				return false
			}
			i := slices.IndexFunc(d.in.Past, late)
			if i >= 0 && d.younger(node, youngAge) {
				found = d.in.Past[i]
				return false
			}
			return true
		}) {
			return found, true
		}
	}
	return Past{}, false
}

// trail is what the new nodes of a move come from.
func (d *decider) trail(m *Move) []Past {
	var out []Past
	add := func(p Past) {
		if p.At = (time.Time{}); len(out) < maxTrail && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for _, node := range m.Remove {
		n := d.in.World.Nodes[node]
		label := func(key string) string { v, _ := n.Labels.Get(key); return v }
		add(Past{Pool: n.Pool, Type: label(world.LabelInstanceType), Zone: label(world.LabelZone), CapacityType: label(world.LabelCapacityType)})
	}
	for _, node := range m.Remove {
		for _, p := range d.in.Nodes[node].From {
			add(p)
		}
	}
	return out
}
