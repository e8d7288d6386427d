package pack

// patternLP is the linear program over the patterns known so far: it covers every kind and stays within the limits at the
// least cost. It is the revised simplex method with an explicit inverse, which goes on from where it was when patterns are added.
type patternLP struct {
	rows   int
	kinds  int
	b      []float64
	cols   []pattern
	basis  []int     // per row: a column, -1-r for what is beyond the need of row r, or -1-rows-r for row r left uncovered
	inv    []float64 // rows × rows
	x      []float64 // per row, of the basis
	y      []float64 // prices of the rows
	miss   []float64 // what it costs to leave a row uncovered
	in     []bool    // per column, whether it is in the basis
	pivots int
	w      []float64
}

// pattern is an offer with counts of kinds, and what it takes of limits as negative numbers.
type pattern struct {
	offer int
	cost  float64
	got   []itemCount
	row   []int32
	coef  []float64
}

// missing is how much dearer than its cheapest node a copy is that no pattern covers.
const missing = 50

func newPatternLP(m *master) *patternLP {
	n := len(m.kinds) + len(m.rows)
	l := &patternLP{
		rows: n, kinds: len(m.kinds), b: make([]float64, n), basis: make([]int, n), inv: make([]float64, n*n), x: make([]float64, n),
		y: make([]float64, n), miss: make([]float64, n), w: make([]float64, n),
	}
	for r := range n {
		if r >= len(m.kinds) {
			l.b[r] = -m.rows[r-len(m.kinds)].left
			l.basis[r], l.inv[r*n+r], l.x[r] = -1-r, -1, -l.b[r]
			continue
		}
		k := &m.kinds[r]
		l.b[r] = float64(k.n) + 1e-7*float64(r+1) // a little off, so that no two choices are exactly as good
		l.basis[r], l.inv[r*n+r], l.x[r] = -1-n-r, 1, l.b[r]
		alone := 1.0
		if c, ok := m.p.cheapestAlone(int(k.items[0]), m.by); ok {
			alone = c
		}
		l.miss[r] = missing * max(alone, 1e-6)
		l.y[r] = l.miss[r]
	}
	return l
}

// reprice finds the prices of the rows from scratch.
func (l *patternLP) reprice() {
	clear(l.y)
	for i, v := range l.basis {
		if c := l.costOf(v); c != 0 {
			r := l.inv[i*l.rows : (i+1)*l.rows]
			for k, u := range r {
				l.y[k] += float64(c * u)
			}
		}
	}
}

// add makes a column of a pattern.
func (l *patternLP) add(m *master, o int, got []itemCount) {
	f := &m.offers[o]
	c := pattern{offer: o, cost: f.cost, got: got}
	for _, g := range got {
		c.row, c.coef = append(c.row, g.item), append(c.coef, float64(g.n))
	}
	for k, r := range f.rows {
		c.row, c.coef = append(c.row, int32(l.kinds)+r), append(c.coef, -f.takes[k])
	}
	l.cols, l.in = append(l.cols, c), append(l.in, false)
}

// reduced is what a pattern costs beyond its worth at the prices of now.
func (l *patternLP) reduced(m *master, o int, got []itemCount) float64 {
	f := &m.offers[o]
	d := f.cost
	for _, g := range got {
		d -= float64(l.y[g.item] * float64(g.n))
	}
	for k, r := range f.rows {
		d += float64(l.y[l.kinds+int(r)] * f.takes[k])
	}
	return d
}

// solve goes on until no pattern improves the plan, and returns its cost.
func (l *patternLP) solve() float64 {
	for l.pivots <= masterPivots {
		enter, best := 0, -1e-10
		found := false
		for j := range l.cols {
			if l.in[j] {
				continue
			}
			c := &l.cols[j]
			d := c.cost
			for k, r := range c.row {
				d -= float64(l.y[r] * c.coef[k])
			}
			if d < best {
				enter, best, found = j, d, true
			}
		}
		for r := range l.rows {
			if l.y[r] < best {
				enter, best, found = -1-r, l.y[r], true
			}
		}
		if !found || !l.pivot(enter, best) {
			break
		}
	}
	return l.cost()
}

func (l *patternLP) costOf(v int) float64 {
	switch {
	case v >= 0:
		return l.cols[v].cost
	case v < -l.rows:
		return l.miss[-1-l.rows-v]
	}
	return 0
}

func (l *patternLP) cost() float64 {
	sum := 0.0
	for i, v := range l.basis {
		sum += float64(l.costOf(v) * l.x[i])
	}
	return sum
}

// pivot brings a column, which gains that much, into the basis; it is false if nothing can leave.
func (l *patternLP) pivot(enter int, gain float64) bool {
	l.pivots++
	n, w := l.rows, l.w
	if enter < 0 {
		r := -1 - enter
		for i := range n {
			w[i] = -l.inv[i*n+r]
		}
	} else {
		c := &l.cols[enter]
		for i := range n {
			row, v := l.inv[i*n:(i+1)*n], 0.0
			for k, r := range c.row {
				v += float64(row[r] * c.coef[k])
			}
			w[i] = v
		}
	}
	leave, ratio := -1, 0.0
	for i := range n {
		if w[i] > 1e-9 {
			if t := max(0, l.x[i]) / w[i]; leave < 0 || t < ratio-1e-13 || (t <= ratio && w[i] > w[leave]) {
				leave, ratio = i, t
			}
		}
	}
	if leave < 0 {
		return false
	}
	row := l.inv[leave*n : (leave+1)*n]
	f := 1 / w[leave]
	for k := range row {
		row[k] *= f
	}
	for i := range n {
		if i == leave || w[i] == 0 {
			continue
		}
		v, to := w[i], l.inv[i*n:(i+1)*n]
		for k, u := range row {
			if u != 0 {
				to[k] -= float64(v * u)
			}
		}
		l.x[i] -= float64(v * ratio)
	}
	l.x[leave] = ratio
	if old := l.basis[leave]; old >= 0 {
		l.in[old] = false
	}
	l.basis[leave] = enter
	if enter >= 0 {
		l.in[enter] = true
	}
	if l.pivots%64 != 0 {
		for k, u := range row {
			l.y[k] += float64(gain * u)
		}
		return true
	}
	l.reprice() // now and then from scratch, so that errors do not add up
	return true
}
