package pack

import "math"

// maximize finds y ≥ 0 that maximizes the sum of y subject to caps·y ≤ prices, where prices are not negative. It is the dual
// of buying fractions of nodes to cover a demand scaled to one: y are the shares of the cost that each row carries, and x is
// how many nodes of each offer to buy.
//
// The tableau is dense: rows are offers, of which there are some dozens after beaten ones are gone.
func maximize(caps [][]float64, prices []float64, n int) (y, x []float64) {
	rows := len(caps)
	width := n + rows + 1
	t := make([][]float64, rows+1)
	for i := range t {
		t[i] = make([]float64, width)
	}
	basis := make([]int, rows)
	for i, row := range caps {
		copy(t[i], row)
		t[i][n+i] = 1
		t[i][width-1] = prices[i]
		basis[i] = n + i
	}
	for j := range n {
		t[rows][j] = -1
	}
	limit := 50 * (rows + n) // far more than ever needed; what has been found by then is still feasible
	for step := 0; step < limit; step++ {
		enter := entering(t[rows][:width-1], step > limit/2)
		if enter < 0 {
			break
		}
		leave := leaving(t[:rows], enter, basis)
		if leave < 0 { // a resource that nothing offers: it has no price
			t[rows][enter] = 0
			continue
		}
		pivot(t, leave, enter)
		basis[leave] = enter
	}
	y = make([]float64, n)
	for i, b := range basis {
		if b < n {
			y[b] = max(0, t[i][width-1])
		}
	}
	x = make([]float64, rows)
	for i := range x {
		x[i] = max(0, t[rows][n+i])
	}
	return y, x
}

const epsilon = 1e-11

// entering picks the steepest column, or late on the first one that improves, which cannot cycle.
func entering(z []float64, first bool) int {
	at, best := -1, -epsilon
	for j, v := range z {
		if v < best {
			at, best = j, v
			if first {
				break
			}
		}
	}
	return at
}

func leaving(rows [][]float64, enter int, basis []int) int {
	at, best := -1, math.Inf(1)
	for i, row := range rows {
		if row[enter] <= epsilon {
			continue
		}
		ratio := row[len(row)-1] / row[enter]
		if ratio < best-epsilon || (ratio <= best && at >= 0 && basis[i] < basis[at]) {
			at, best = i, ratio
		}
	}
	return at
}

func pivot(t [][]float64, leave, enter int) {
	p := t[leave]
	inv := 1 / p[enter]
	for j := range p {
		p[j] *= inv
	}
	p[enter] = 1
	for i, row := range t {
		if i == leave || row[enter] == 0 {
			continue
		}
		f := row[enter]
		for j, v := range p {
			if v != 0 {
				row[j] -= float64(f * v)
			}
		}
		row[enter] = 0
	}
}
