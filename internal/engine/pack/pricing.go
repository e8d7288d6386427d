package pack

import (
	"cmp"
	"slices"
)

// priced is what came of one knapsack.
type priced struct {
	most  float64 // what no pattern is worth more than
	ratio float64 // that, less what the node takes of limits, against its cost
	got   []itemCount
}

// run generates patterns until what is proven is close to what they cost, or more of it does not pay. It tries prices half way between
// the best known, which the relaxation gives to begin with, and those of the patterns, so that they do not jump about.
func (m *master) run() {
	sep, rowPrices := slices.Clone(m.prices), make([]float64, len(m.rows))
	m.price(sep, rowPrices)
	m.certify(sep, rowPrices)
	for i := range m.results {
		m.addPattern(i, m.results[i].got)
	}
	for round, stale := 0, 0; round < masterRounds && stale < masterStale; round++ {
		if cost := m.lp.solve(); m.lp.pivots > masterPivots || cost-m.bound() < masterGap*cost {
			return
		}
		for k := range sep {
			sep[k] = 0.5 * (m.prices[k] + max(0, m.lp.y[k]))
		}
		for r := range rowPrices {
			rowPrices[r] = 0.5 * (m.rows[r].price + max(0, m.lp.y[len(m.kinds)+r]))
		}
		m.price(sep, rowPrices)
		stale++
		if m.certify(sep, rowPrices) {
			stale = 0
		}
		for i := range m.results {
			if m.lp.reduced(m, i, m.results[i].got) < -1e-9*m.offers[i].cost {
				m.addPattern(i, m.results[i].got)
			}
		}
	}
}

// bound is what has been proven, all parts together.
func (m *master) bound() float64 {
	sum := 0.0
	for _, v := range m.proven {
		sum += v
	}
	return sum
}

// price bounds the knapsack of every offer at these prices, and solves those that promise most.
func (m *master) price(prices, rowPrices []float64) {
	for i := range m.offers {
		o := &m.offers[i]
		m.results[i] = priced{most: m.bag.quick(o, prices)}
		m.results[i].ratio = m.ratio(i, rowPrices)
		m.order[i] = i
	}
	slices.SortStableFunc(m.order, func(a, b int) int { return cmp.Compare(m.results[b].ratio, m.results[a].ratio) })
	top, solved := make([]float64, m.parts), make([]int, m.parts)
	for _, i := range m.order {
		o := &m.offers[i]
		if m.results[i].ratio <= 1 || (m.results[i].ratio <= top[o.part] && solved[o.part] >= masterSolved) {
			continue
		}
		target := o.cost
		for k, r := range o.rows {
			target += float64(rowPrices[r] * o.takes[k])
		}
		solved[o.part]++
		m.results[i].most, m.results[i].got = m.bag.price(o, prices, target)
		m.results[i].ratio = m.ratio(i, rowPrices)
		if o.sole < 0 {
			top[o.part] = max(top[o.part], m.results[i].ratio)
		}
	}
}

func (m *master) ratio(i int, rowPrices []float64) float64 {
	o := &m.offers[i]
	worth := m.results[i].most
	for k, r := range o.rows {
		worth -= float64(rowPrices[r] * o.takes[k])
	}
	return worth / max(o.cost, 1e-12)
}

// certify turns prices into a bound: scaled until no node offers more than it costs, they prove what everything is worth at
// least, less the worth of limits and reservations. It says whether that is more than was known.
func (m *master) certify(prices, rowPrices []float64) bool {
	scale := make([]float64, m.parts)
	for i := range scale {
		scale[i] = 1e-9
	}
	for i := range m.offers {
		if o := &m.offers[i]; o.sole < 0 {
			scale[o.part] = max(scale[o.part], m.results[i].ratio)
		}
	}
	for i, v := range scale {
		scale[i] = 1 / max(v, 0.5)
		if len(m.rows) > 0 {
			scale[i] = min(scale[i], 1)
		}
	}
	worth, limit := make([]float64, m.parts), make([]float64, len(m.rows))
	for k, v := range prices {
		worth[m.part[k]] += float64(scale[m.part[k]] * v * float64(m.kinds[k].n))
	}
	for i := range m.offers { // a reservation may give more than it costs, as often as it can be had
		if o := &m.offers[i]; o.sole >= 0 {
			gain := float64(scale[o.part]*m.results[i].most) - o.cost
			for k, r := range o.rows {
				if r != o.sole {
					gain -= float64(scale[o.part] * rowPrices[r] * o.takes[k])
				}
			}
			limit[o.sole] = max(limit[o.sole], gain)
		}
	}
	for r := range m.rows {
		row := &m.rows[r]
		if !row.reserved {
			limit[r] = scale[row.part] * rowPrices[r]
		}
		worth[row.part] -= float64(limit[r] * row.left)
	}
	better := false
	for i, v := range worth {
		if v <= m.proven[i] {
			continue
		}
		better = better || v > m.proven[i]*(1+1e-4)
		m.proven[i] = v
		for k := range m.kinds {
			if m.part[k] == i {
				m.prices[k] = scale[i] * prices[k]
			}
		}
		for r := range m.rows {
			if m.rows[r].part == i {
				m.rows[r].price = limit[r]
			}
		}
	}
	return better
}
