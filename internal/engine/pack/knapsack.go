package pack

import (
	"slices"

	"karpenter/internal/engine/world"
)

// bag finds the most valuable pattern for one node, and proves what no pattern is worth more than.
type bag struct {
	m      *master
	order  []int32 // kinds in the order of the search: grouped ones first, group by group
	skip   []int   // per place in the order, where the next group begins, or the next place
	rest   []float64
	value  []float64 // per place
	net    []float64 // per place, value less the price of what it takes
	limit  []int32
	size   [][]int64
	free   []int64
	take   []int32
	best   []int32
	groups []float64 // per host group, scratch
	stamp  []int32
	tick   int32

	lambda  []float64
	top     float64 // worth of the best pattern
	target  float64
	looks   int
	cut     float64 // the most that an unseen part of the tree may be worth
	eff     []float64
	scratch []float64
}

func newBag(m *master) *bag {
	n := len(m.kinds)
	return &bag{
		m: m, free: make([]int64, m.p.dims), groups: make([]float64, m.p.hosts), stamp: make([]int32, m.p.hosts),
		eff: make([]float64, n), scratch: make([]float64, m.p.dims), lambda: make([]float64, m.p.dims),
	}
}

// most bounds the worth of any pattern at resource prices lambda: what the room is worth, and what kinds are worth beyond what
// they take of it.
func (b *bag) most(o *offer, prices, lambda []float64) float64 {
	b.tick++
	sum := 0.0
	for r, u := range lambda {
		if u > 0 {
			sum += float64(u * float64(o.cd.net[r]))
		}
	}
	for _, k := range b.order {
		kd := &b.m.kinds[k]
		v := prices[k]
		for r, s := range kd.size {
			v -= float64(lambda[r] * float64(s))
		}
		if v <= 0 {
			continue
		}
		v *= float64(min(kd.n, kd.most))
		if g := kd.group; g >= 0 {
			if b.stamp[g] != b.tick {
				b.stamp[g], b.groups[g] = b.tick, 0
			}
			if v > b.groups[g] {
				sum += v - b.groups[g]
				b.groups[g] = v
			}
			continue
		}
		sum += v
	}
	return sum
}

// quick bounds the knapsack of an offer by the prices of resources that were best before.
func (b *bag) quick(o *offer, prices []float64) float64 {
	b.order = b.order[:0]
	for _, k := range b.m.elig[o.elig] {
		if prices[k] > 0 && fits(b.m.kinds[k].size, o.cd.net) {
			b.order = append(b.order, k)
		}
	}
	if len(b.order) == 0 {
		return 0
	}
	return b.most(o, prices, o.lambda)
}

// price solves the knapsack of an offer, as far as masterLooks reach. It returns what no pattern is worth more than, and the best
// pattern if it is worth more than target.
func (b *bag) price(o *offer, prices []float64, target float64) (most float64, got []itemCount) {
	most = b.quick(o, prices)
	b.looks = 0
	if most <= target {
		return most, nil
	}
	copy(b.lambda, o.lambda)
	most = b.tighten(o, prices, most)
	copy(o.lambda, b.lambda)
	if most <= target {
		return most, nil
	}
	b.arrange(o, prices)
	b.target, b.top, b.cut = target, 0, 0
	b.best = append(b.best[:0], make([]int32, len(b.order))...)
	b.take = append(b.take[:0], make([]int32, len(b.order))...)
	copy(b.free, o.cd.net)
	b.descend(0, 0)
	for j, n := range b.best {
		if n > 0 {
			got = append(got, itemCount{b.order[j], n})
		}
	}
	return min(most, max(b.top, b.cut, target)), got
}

// tighten lowers the bound by moving the prices of resources, one at a time and all together.
func (b *bag) tighten(o *offer, prices []float64, most float64) float64 {
	try := b.scratch
	dims := len(b.lambda)
	step := 0.4
	if o.tuned {
		step = 0.1
	}
	o.tuned = true
	for first := true; step > 0.01; step, first = step*0.5, false {
		for r := 0; r <= dims; r++ {
			if r < dims && (b.lambda[r] == 0 && !first || o.cd.net[r] >= world.Unlimited/2 || o.cd.net[r] <= 0) {
				continue
			}
			for _, f := range [2]float64{1 + step, 1 / (1 + step)} {
				for range 3 {
					copy(try, b.lambda)
					switch {
					case r == dims:
						for k := range try {
							try[k] *= f
						}
					case try[r] == 0:
						if f < 1 {
							continue
						}
						try[r] = 0.1 * o.cost / float64(o.cd.net[r])
					default:
						try[r] *= f
					}
					v := b.most(o, prices, try)
					if v >= most {
						break
					}
					most = v
					copy(b.lambda, try)
				}
			}
		}
	}
	return most
}

// arrange puts the kinds in order and sums up what those from each place on can add at most.
func (b *bag) arrange(o *offer, prices []float64) {
	for _, k := range b.order {
		w := 1e-12
		for r, s := range b.m.kinds[k].size {
			w += float64((b.lambda[r] + 1e-3*o.cost/float64(max(1, min(o.cd.net[r], world.Unlimited/2)))) * float64(s))
		}
		b.eff[k] = prices[k] / w
	}
	b.tick++
	for _, k := range b.order { // a group is as good as its best member
		if g := b.m.kinds[k].group; g >= 0 {
			if b.stamp[g] != b.tick {
				b.stamp[g], b.groups[g] = b.tick, 0
			}
			b.groups[g] = max(b.groups[g], b.eff[k])
		}
	}
	slices.SortFunc(b.order, func(x, y int32) int {
		gx, gy := b.m.kinds[x].group, b.m.kinds[y].group
		if (gx >= 0) != (gy >= 0) {
			if gx >= 0 {
				return -1
			}
			return 1
		}
		if gx != gy {
			if b.groups[gx] != b.groups[gy] {
				if b.groups[gx] > b.groups[gy] {
					return -1
				}
				return 1
			}
			return int(gx - gy)
		}
		if b.eff[x] != b.eff[y] {
			if b.eff[x] > b.eff[y] {
				return -1
			}
			return 1
		}
		return int(x - y)
	})
	n := len(b.order)
	b.value, b.net, b.rest = b.value[:0], b.net[:0], append(b.rest[:0], make([]float64, n+1)...)
	b.limit, b.size, b.skip = b.limit[:0], b.size[:0], append(b.skip[:0], make([]int, n)...)
	for _, k := range b.order {
		kd := &b.m.kinds[k]
		v := prices[k]
		for r, s := range kd.size {
			v -= float64(b.lambda[r] * float64(s))
		}
		b.value, b.net, b.size = append(b.value, prices[k]), append(b.net, v), append(b.size, kd.size)
		b.limit = append(b.limit, int32(min(kd.n, kd.most, 1<<30)))
	}
	top := 0.0
	for j := n - 1; j >= 0; j-- {
		g := b.m.kinds[b.order[j]].group
		v := max(0, b.net[j]) * float64(b.limit[j])
		b.skip[j] = j + 1
		if g < 0 {
			b.rest[j] = b.rest[j+1] + v
			continue
		}
		if j+1 < n && b.m.kinds[b.order[j+1]].group == g {
			b.skip[j] = b.skip[j+1]
			b.rest[j] = b.rest[j+1] + max(0, v-top)
			top = max(top, v)
		} else {
			top = v
			b.rest[j] = b.rest[j+1] + v
		}
	}
}

// room is what is left, at the prices of the resources.
func (b *bag) room() float64 {
	sum := 0.0
	for r, u := range b.lambda {
		if u > 0 {
			sum += float64(u * float64(b.free[r]))
		}
	}
	return sum
}

// descend tries the kinds from place j on, the most of each first.
func (b *bag) descend(j int, value float64) {
	if value > b.top {
		b.top = value
		copy(b.best, b.take)
	}
	room := b.room()
	for ; j < len(b.order); j++ {
		if value+room+b.rest[j] <= max(b.top, b.target)*(1+1e-12) {
			return
		}
		if b.looks >= masterLooks {
			b.cut = max(b.cut, value+room+b.rest[j])
			return
		}
		b.looks++
		n := b.limit[j]
		for r, s := range b.size[j] {
			if s > 0 {
				n = int32(min(int64(n), b.free[r]/s))
			}
		}
		for ; n > 0; n-- {
			for r, s := range b.size[j] {
				b.free[r] -= s * int64(n)
			}
			b.take[j] = n
			b.descend(b.skip[j], value+float64(b.value[j]*float64(n)))
			b.take[j] = 0
			for r, s := range b.size[j] {
				b.free[r] += s * int64(n)
			}
		}
	}
}
