package disrupt

import "karpenter/internal/engine/why"

// poolCost is what a pool's nodes cost together, in dollars an hour and in disruption.
type poolCost struct{ price, disruption float64 }

// weighPools adds up the nodes of each pool, candidates or not (D39).
func (d *decider) weighPools() {
	d.cost = map[string]poolCost{}
	for i, n := range d.in.World.Nodes {
		if n.Deleting {
			continue
		}
		c := d.cost[n.Pool]
		c.price += n.Price
		c.disruption += d.in.Nodes[i].Cost
		d.cost[n.Pool] = c
	}
}

// balanced asks every Balanced pool that the move takes nodes from: what is saved of the pool's cost must be at least half of what
// is disrupted of the pool (D39). The scores are noted on the move, those of pools that do not ask too.
func (d *decider) balanced(m *Move) (why.Reason, bool) {
	m.Scores = d.scores(m)
	for _, s := range m.Scores {
		if d.pools[s.Pool].Policy != Balanced {
			continue
		}
		if c := d.cost[s.Pool]; c.price <= 0 || c.disruption <= 0 {
			return why.New(why.Refused, "pool %s has no known cost to weigh a saving against", s.Pool), false
		}
		if s.Value < balance {
			return why.New(why.Refused, "the Balanced policy of pool %s asks for a score of %.1f, and the saving of %s scores %.2f", s.Pool, balance, why.Money(m.Saves), s.Value), false
		}
	}
	return why.Reason{}, true
}

// scores weighs what a move saves of the cost of each pool against what it disturbs of it. Savings of a move over several pools
// are shared by what each gives (D40). What cannot be weighed scores nothing.
func (d *decider) scores(m *Move) []Score {
	total := d.price(m)
	price, disruption := map[string]float64{}, map[string]float64{}
	var out []Score
	for _, node := range m.Remove {
		n := d.in.World.Nodes[node]
		if _, seen := price[n.Pool]; !seen {
			out = append(out, Score{Pool: n.Pool})
		}
		price[n.Pool] += n.Price
		disruption[n.Pool] += d.in.Nodes[node].Cost
	}
	for i := range out {
		s, c := &out[i], d.cost[out[i].Pool]
		if c.price > 0 && c.disruption > 0 && total > 0 && disruption[s.Pool] > 0 {
			s.Value = m.Saves * price[s.Pool] / total / c.price / (disruption[s.Pool] / c.disruption)
		}
	}
	return out
}
