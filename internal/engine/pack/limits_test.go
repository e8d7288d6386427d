package pack

import (
	"fmt"
	"math"
	"math/rand"
	"os"
	"slices"
	"testing"
	"time"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// small draws up to twelve pods of two priorities for one or two pools with limits, minValues and reservations; tight limits may not let
// all of them in.
func small(rnd *rand.Rand, most int, tight bool) *world.Snapshot {
	s := &world.Snapshot{Resources: world.NewNames().List()}
	var types []*world.InstanceType
	for i := range 2 + rnd.Intn(5) {
		size := world.Resources{1000 * int64(1+rnd.Intn(8)), 1024 * int64(1+rnd.Intn(16)), 10}
		it := &world.InstanceType{
			Name: fmt.Sprintf("t%d", i), Capacity: size, Allocatable: size,
			Labels: world.NewLabels(map[string]string{"family": string(rune('w' + rnd.Intn(3)))}),
		}
		price := float64(size[0])/10000 + float64(size[1])/100000 + rnd.Float64()/20
		it.Offerings = []world.Offering{{Zone: "a", CapacityType: world.CapacityOnDemand, Price: price, Available: true}}
		if rnd.Intn(4) == 0 {
			it.Offerings = append(it.Offerings, world.Offering{
				Zone: "a", CapacityType: world.CapacityReserved, Price: price / 1000, Available: true, Reservation: "r-" + it.Name, Remaining: 1 + rnd.Intn(2),
			})
		}
		types = append(types, it)
	}
	for i := range 1 + rnd.Intn(2) {
		name := fmt.Sprintf("pool%d", i)
		p := &world.Pool{Name: name, MaxNodes: -1, Types: types, Labels: world.NewLabels(map[string]string{world.LabelPool: name})}
		p.Need = req.NewSet(req.Is(world.LabelPool, name))
		size := int64(40)
		if tight {
			size = 14
		}
		if rnd.Intn(3) > 0 {
			p.Limits = append(p.Limits, world.Limit{Resource: world.CPU, Max: 1000 * (2 + rnd.Int63n(size))})
		}
		if rnd.Intn(3) == 0 {
			p.Limits = append(p.Limits, world.Limit{Resource: world.Memory, Max: 1024 * (2 + rnd.Int63n(2*size))})
		}
		if rnd.Intn(3) == 0 {
			p.MaxNodes = 1 + rnd.Int63n(size/5)
		}
		if rnd.Intn(3) == 0 {
			r, _ := req.New("family", req.Exists)
			r.MinValues = 2
			p.Need = p.Need.With(r)
		}
		s.Pools = append(s.Pools, p)
	}
	for c := range int32(1 + rnd.Intn(most)) {
		s.Classes = append(s.Classes, &world.Class{
			ID: c, Namespace: "default", Priority: int32(rnd.Intn(2)),
			Requests: world.Resources{100 * int64(1+rnd.Intn(35)), 128 * int64(1+rnd.Intn(60)), 1},
		})
		for range 1 + rnd.Intn(4) {
			name := fmt.Sprintf("p%02d", len(s.Pending))
			s.Pending = append(s.Pending, &world.Pod{Name: name, UID: name, Class: c, Movable: true})
		}
	}
	s.Pending = s.Pending[:min(len(s.Pending), most)]
	return s
}

// bruteWay is one way to place some pods: what it takes of limits and reservations, and what it costs.
type bruteWay struct {
	takes [16]int64
	cost  float64
}

func (w *bruteWay) noWorse(other *bruteWay) bool {
	for i := range w.takes {
		if w.takes[i] > other.takes[i] {
			return false
		}
	}
	return w.cost <= other.cost
}

// alike is the first set with as many pods of each class as a set has.
func alike(s *world.Snapshot, set int) (same int) {
	for k, pod := range s.Pending {
		if set>>k&1 == 0 {
			continue
		}
		for j, other := range s.Pending {
			if other.Class == pod.Class && same>>j&1 == 0 {
				same |= 1 << j
				break
			}
		}
	}
	return same
}

// brute tries every way to divide the pods among nodes within the limits: how many of each priority, highest first, can be placed, and
// what that costs at least.
func brute(s *world.Snapshot) (best [2]int, cost float64) {
	type node struct {
		size  world.Resources
		takes [16]int64
		cost  float64
		pool  *world.Pool
		typ   *world.InstanceType
	}
	room := [16]int64{}
	for i := range room {
		room[i] = math.MaxInt64
	}
	var nodes []node
	rows, reserved := 0, map[string]int{}
	for _, p := range s.Pools {
		first := rows
		for _, l := range p.Limits {
			room[rows] = l.Max
			rows++
		}
		if p.MaxNodes >= 0 {
			room[rows] = p.MaxNodes
			rows++
		}
		for _, t := range p.Types {
			for _, o := range t.Offerings {
				n := node{size: t.Allocatable, cost: o.Price + p.NodeCost, pool: p, typ: t}
				row := first
				for _, l := range p.Limits {
					n.takes[row] = t.Capacity[l.Resource]
					row++
				}
				if p.MaxNodes >= 0 {
					n.takes[row] = 1
				}
				if o.Reservation != "" {
					at, known := reserved[o.Reservation]
					if !known {
						at = 15 - len(reserved)
						reserved[o.Reservation] = at
						room[at] = int64(o.Remaining)
					}
					n.takes[at] = 1
				}
				nodes = append(nodes, n)
			}
		}
	}
	choices := func(set int) (out []node) {
		var cpu, memory, pods int64
		for k, pod := range s.Pending {
			if set>>k&1 == 1 {
				r := s.Classes[pod.Class].Requests
				cpu, memory, pods = cpu+r[0], memory+r[1], pods+1
			}
		}
		holds := func(t *world.InstanceType) bool {
			return cpu <= t.Allocatable[0] && memory <= t.Allocatable[1] && pods <= t.Allocatable[2]
		}
		for _, n := range nodes {
			families := map[string]bool{}
			for _, t := range n.pool.Types {
				if f, _ := t.Labels.Get("family"); holds(t) {
					families[f] = true
				}
			}
			enough := true
			for _, r := range n.pool.Need {
				enough = enough && r.MinValues <= len(families)
			}
			if enough && holds(n.typ) {
				out = append(out, n)
			}
		}
		return out
	}
	ways := make([][]bruteWay, 1<<len(s.Pending)) // of placing exactly a set; without those that another one is no worse than in anything
	ways[0] = []bruteWay{{}}
	holding := make([][]node, len(ways))
	for set := range ways {
		holding[set] = choices(set)
	}
	for set := range ways {
		if same := alike(s, set); same != set {
			ways[set] = ways[same]
			continue
		}
		first := set & -set
		others := set &^ first
		for sub := others; set > 0; sub = (sub - 1) & others {
			for _, n := range holding[sub|first] {
				for _, w := range ways[others&^sub] {
					fits := true
					for i := range w.takes {
						w.takes[i] += n.takes[i]
						fits = fits && w.takes[i] <= room[i]
					}
					w.cost += n.cost
					if !fits {
						continue
					}
					if !slices.ContainsFunc(ways[set], func(x bruteWay) bool { return x.noWorse(&w) }) {
						ways[set] = append(slices.DeleteFunc(ways[set], func(x bruteWay) bool { return w.noWorse(&x) }), w)
					}
				}
			}
			if sub == 0 {
				break
			}
		}
		var n [2]int
		for k, pod := range s.Pending {
			if set>>k&1 == 1 {
				n[1-s.Classes[pod.Class].Priority]++
			}
		}
		for _, w := range ways[set] {
			if n[0] > best[0] || n[0] == best[0] && n[1] > best[1] {
				best, cost = n, w.cost
			} else if n == best {
				cost = min(cost, w.cost)
			}
		}
	}
	return best, cost
}

// Small batches are placed in the best way that there is: where limits bind as many pods as can be, the more important first, and that at
// the least cost.
func TestSmallBatchesArePlacedInTheBestWay(t *testing.T) {
	for _, c := range []struct {
		name  string
		cases int64
		tight bool
	}{{"loose limits", 40, false}, {"limits that bind", 60, true}} {
		if os.Getenv("KARPENTER_TEST_LONG") != "" {
			c.cases = 1000
		}
		bound, fewer, dearer, worst := 0, 0, 0, 1.0
		var took []time.Duration
		for seed := range c.cases {
			s := small(rand.New(rand.NewSource(seed)), maxExact, c.tight)
			begin := time.Now()
			plan := Solve(s, Options{Workers: 1})
			took = append(took, time.Since(begin))
			var got [2]int
			for _, n := range plan.Nodes {
				for _, pod := range n.Pods {
					got[1-s.Classes[pod.Class].Priority]++
				}
			}
			want, cost := brute(s)
			if want[0]+want[1] < len(s.Pending) {
				bound++
			}
			switch is := plan.Price + plan.NodeCost; {
			case got != want:
				fewer++
				t.Logf("%s, seed %d: placed %v of %d pods, %v can be", c.name, seed, got, len(s.Pending), want)
			case is > cost+1e-9:
				dearer++
				worst = max(worst, is/cost)
				t.Logf("%s, seed %d: $%.4f, $%.4f would do", c.name, seed, is, cost)
			case is < cost-1e-9:
				t.Errorf("%s, seed %d: $%.4f, but nothing is below $%.4f", c.name, seed, is, cost)
			}
		}
		slices.Sort(took)
		t.Logf("%s: a plan takes %s in the median, %s in 99 of 100, %s at most", c.name, took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
		t.Logf("%s: limits bind in %d of %d; %d place fewer pods than they could, %d cost more than they must, up to %.3f ×", c.name, bound, c.cases, fewer, dearer, worst)
		if fewer > 0 || dearer > 0 {
			t.Fail()
		}
	}
}

// Limits that do not bind, and minValues that every node can have, cost next to nothing.
func TestLooseLimitsCostNothing(t *testing.T) {
	rnd := rand.New(rand.NewSource(7))
	s := shapes(0.005)
	s.Classes = nil
	for c := range int32(30) {
		cpu := 50 + rnd.Int63n(3000)
		s.Classes = append(s.Classes, &world.Class{ID: c, Namespace: "default", Requests: world.Resources{cpu, cpu * (1 + rnd.Int63n(8)) * gib / 1000, 1}})
		s.Pending = append(s.Pending, equalPods(c, 0, 3+rnd.Intn(8))...)
	}
	free := Solve(s, Options{})
	p := s.Pools[0]
	p.Limits = []world.Limit{{Resource: world.CPU, Max: 100_000_000}, {Resource: world.Memory, Max: 800_000 * gib}}
	p.Need = p.Need.With(atLeast(world.LabelInstanceType, 2))
	loose := Solve(s, Options{})
	if loose.Placed != len(s.Pending) || loose.Price > 1.002*free.Price {
		t.Errorf("%d of %d pods for $%.4f/h, $%.4f/h without limits and minValues", loose.Placed, len(s.Pending), loose.Price, free.Price)
	}
}
