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
// is disrupted of the pool (D39). Savings of a move over several pools are shared by what each gives (D40).
func (d *decider) balanced(m *Move) (why.Reason, bool) {
	total := 0.0
	price, disruption := map[string]float64{}, map[string]float64{}
	var pools []string
	for _, node := range m.Remove {
		n := d.in.World.Nodes[node]
		if _, seen := price[n.Pool]; !seen {
			pools = append(pools, n.Pool)
		}
		price[n.Pool] += n.Price
		disruption[n.Pool] += d.in.Nodes[node].Cost
		total += n.Price
	}
	for _, pool := range pools {
		if d.pools[pool].Policy != Balanced {
			continue
		}
		c := d.cost[pool]
		if c.price <= 0 || c.disruption <= 0 || total <= 0 {
			return why.New(why.Refused, "pool %s has no known cost to weigh a saving against", pool), false
		}
		score := m.Saves * price[pool] / total / c.price / (disruption[pool] / c.disruption)
		if score < balance {
			return why.New(why.Refused, "the Balanced policy of pool %s asks for a score of %.1f, and the saving of $%.4f/h scores %.2f", pool, balance, m.Saves, score), false
		}
	}
	return why.Reason{}, true
}
