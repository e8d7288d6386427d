package disrupt

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// week is a cluster under a steady load while spot prices go up and down.
type week struct {
	rng   *rand.Rand
	noise func(*rand.Rand) float64
	in    *Input
	base  []float64 // by type
	types []*world.InstanceType
	next  int
	// line is what each node comes from: the types of the nodes before it.
	line map[string][]string

	evictions, moves, back int
}

// newWeek makes a cluster of some hundred pods on spot nodes: the cheapest that would do, or the dearest.
func newWeek(seed int64, noise func(*rand.Rand) float64, dear bool) *week {
	w := &week{
		rng: rand.New(rand.NewSource(seed)), noise: noise, in: &Input{World: &world.Snapshot{Resources: world.NewNames().List()}},
		line: map[string][]string{},
	}
	for f, unit := range []float64{0.0100, 0.0103, 0.0106, 0.0110, 0.0115, 0.0120} {
		for k, cores := range []int64{2, 4, 8, 16} {
			size := world.Resources{cores * 1000, cores * 4 << 30, 110}
			w.types = append(w.types, &world.InstanceType{Name: fmt.Sprintf("f%d.%d", f, k), Capacity: size, Allocatable: size})
			w.base = append(w.base, unit*float64(cores))
		}
	}
	s := w.in.World
	spot, _ := req.New(world.LabelCapacityType, req.In, world.CapacitySpot)
	pool := &world.Pool{Name: "spot", MaxNodes: -1, Need: req.NewSet(req.Is(world.LabelPool, "spot"), spot), Labels: world.Labels{{Key: world.LabelPool, Value: "spot"}}}
	s.Pools = []*world.Pool{pool}
	w.in.Pools = []Pool{{Name: "spot", Policy: WhenEmptyOrUnderutilized, Allowed: map[Reason]int{Empty: 100, Drifted: 100, Underutilized: 100}}}
	for c := range 12 {
		s.Classes = append(s.Classes, &world.Class{ID: int32(c), Namespace: "default", Requests: world.Resources{int64(200 + 150*c), int64(512+300*c) << 20, 1}})
	}
	w.reprice()
	s = w.in.World
	for i := range 300 {
		s.Pending = append(s.Pending, &world.Pod{Name: fmt.Sprint(i), UID: fmt.Sprintf("%03d", i), Class: int32(w.rng.Intn(12)), Movable: true})
	}
	for _, n := range pack.Solve(s, pack.Options{}).Nodes {
		if dear {
			n.Choices = n.Choices[len(n.Choices)-1:]
		}
		w.launch(n, nil, time.Time{})
	}
	s.Pending = nil
	return w
}

// reprice moves every spot price by up to a tenth either way from what it usually is.
func (w *week) reprice() {
	fresh := make([]*world.InstanceType, len(w.types))
	for i, t := range w.types {
		c := &world.InstanceType{Name: t.Name, Capacity: t.Capacity, Allocatable: t.Allocatable}
		for _, z := range []string{"a", "b", "c"} {
			c.Offerings = append(c.Offerings, world.Offering{Zone: z, CapacityType: world.CapacitySpot, Price: w.base[i] * w.noise(w.rng), Available: true})
		}
		fresh[i] = c
	}
	w.types = fresh
	s := *w.in.World
	old := s.Pools[0]
	s.Pools = []*world.Pool{{Name: old.Name, MaxNodes: -1, Need: old.Need, Labels: old.Labels, Types: fresh}}
	s.Nodes = slices.Clone(s.Nodes)
	for i, n := range s.Nodes {
		price := n.Price
		typ, _ := n.Labels.Get(world.LabelInstanceType)
		zone, _ := n.Labels.Get(world.LabelZone)
		for _, t := range fresh {
			for _, o := range t.Offerings {
				if t.Name == typ && o.Zone == zone {
					price = o.Price
				}
			}
		}
		s.Nodes[i] = withPods(n, n.Pods)
		s.Nodes[i].Price = price
	}
	w.in.World = &s
}

// launch puts a node in place, as the cheapest choice.
func (w *week) launch(n *pack.NewNode, from []Past, at time.Time) *world.Node {
	w.next++
	up := planned(n)
	up.Name, up.Initialized, up.InFlight = fmt.Sprintf("n%04d", w.next), true, false
	up.Claim = up.Name
	w.in.World.Nodes = append(w.in.World.Nodes, up)
	w.in.Nodes = append(w.in.Nodes, Node{Consolidatable: true, Cost: 1 + float64(len(up.Pods)), Made: at, From: from})
	return up
}

func typeOf(n *world.Node) string { v, _ := n.Labels.Get(world.LabelInstanceType); return v }

// carryOut applies a decision.
func (w *week) carryOut(d *Decision, now time.Time) {
	gone := map[int32]bool{}
	s := *w.in.World
	s.Nodes = slices.Clone(s.Nodes)
	w.in.World, w.in.Nodes = &s, slices.Clone(w.in.Nodes)
	for _, m := range d.Moves {
		w.moves++
		w.evictions += m.Evicts
		w.in.Past = append(w.in.Past, m.From...)
		for _, i := range m.Remove {
			gone[i] = true
		}
		for _, n := range m.Add {
			if !slices.ContainsFunc(m.Remove, func(i int32) bool { return !slices.Contains(w.line[s.Nodes[i].Name], n.Choices[0].Type.Name) }) {
				w.back++
			}
		}
		for k, f := range m.Filled {
			i := m.filled[k]
			s.Nodes[i] = withPods(s.Nodes[i], slices.Concat(s.Nodes[i].Pods, f.Pods))
			w.in.Nodes[i].Cost += float64(len(f.Pods))
		}
	}
	for _, m := range d.Moves {
		var line []string
		for _, i := range m.Remove {
			line = append(append(line, typeOf(s.Nodes[i])), w.line[s.Nodes[i].Name]...)
		}
		for _, n := range m.Add {
			w.line[w.launch(n, m.From, now).Name] = line
		}
	}
	var nodes []*world.Node
	var facts []Node
	for i, n := range w.in.World.Nodes {
		if !gone[int32(i)] {
			nodes, facts = append(nodes, n), append(facts, w.in.Nodes[i])
		}
	}
	w.in.World.Nodes, w.in.Nodes = nodes, facts
}

// A week of steady load with spot prices that move by a tenth must not make nodes go round: users of upstream report the same
// types replaced by each other for hours (W40). Where the cluster starts with the dearest types that would do, what it takes to put
// that right, on the first day, is not counted.
func TestW40_NothingGoesRoundInAWeekOfPriceNoise(t *testing.T) {
	noises := map[string]func(*rand.Rand) float64{
		"even": func(r *rand.Rand) float64 { return 0.9 + 0.2*r.Float64() },
		"bell": func(r *rand.Rand) float64 { return max(0.5, 1+0.1*r.NormFloat64()) },
	}
	for _, noise := range []string{"even", "bell"} {
		for _, gate := range []bool{false, true} {
			for _, dear := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s noise, spot to spot %v, dear at first %v", noise, gate, dear), func(t *testing.T) {
					t.Parallel()
					newWeek(7, noises[noise], dear).live(t, gate, dear)
				})
			}
		}
	}
}

// live goes through the week hour by hour.
func (w *week) live(t *testing.T, spotToSpot, settles bool) {
	const step, day = time.Hour, 24 * time.Hour
	from, end := noon, noon.Add(7*day)
	settled := 0
	if settles {
		from = noon.Add(day)
	}
	for now := noon; now.Before(end); now = now.Add(step) {
		if now.Equal(from) {
			settled = w.evictions
		}
		w.reprice()
		w.carryOut(Decide(w.in, Options{SpotToSpot: spotToSpot}, now), now)
	}
	if len(w.in.World.Nodes) < 10 {
		t.Fatalf("%d nodes are too few to show anything", len(w.in.World.Nodes))
	}
	perDay := float64(w.evictions-settled) / 300 / (end.Sub(from).Hours() / 24)
	t.Logf("%d moves, %.3f evictions per pod and day (%d to settle), %d back", w.moves, perDay, settled, w.back)
	if perDay > 0.2 {
		t.Errorf("%.3f evictions per pod and day, at most 0.2", perDay)
	}
	if w.back > 0 {
		t.Errorf("%d nodes were replaced by what they had replaced", w.back)
	}
}
