package pack

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

const gib = 1 << 30

// listed is a price list as clouds have them: linear in size, in three zones at the same price.
func listed() []*world.InstanceType {
	var out []*world.InstanceType
	for _, f := range []struct {
		name   string
		perCPU float64
		memory int64 // GiB per CPU
	}{{"c", 0.0425, 2}, {"m", 0.048, 4}, {"r", 0.063, 8}, {"cg", 0.034, 2}, {"mg", 0.0385, 4}, {"rg", 0.0504, 8}} {
		for _, cpu := range []int64{1, 2, 4, 8, 16} {
			room := world.Resources{cpu*1000 - 60 - 5*cpu, cpu*f.memory*gib*925/1000 - gib/2, 20 + 15*cpu}
			t := &world.InstanceType{Name: fmt.Sprintf("%s.%d", f.name, cpu), Capacity: room, Allocatable: room}
			for _, z := range []string{"a", "b", "c"} {
				t.Offerings = append(t.Offerings, world.Offering{Zone: z, CapacityType: world.CapacityOnDemand, Price: float64(cpu) * f.perCPU, Available: true})
			}
			out = append(out, t)
		}
	}
	return out
}

func listedPool(name string, nodeCost float64) *world.Pool {
	return &world.Pool{
		Name: name, MaxNodes: -1, NodeCost: nodeCost, Types: listed(), Need: req.NewSet(req.Is(world.LabelPool, name)),
		Labels: world.Labels{{Key: world.LabelPool, Value: name}},
	}
}

// shapes is a cluster without nodes whose classes are a small and a large pod.
func shapes(nodeCost float64) *world.Snapshot {
	return &world.Snapshot{
		Resources: world.NewNames().List(), Pools: []*world.Pool{listedPool("general", nodeCost)},
		Classes: []*world.Class{
			{ID: 0, Namespace: "default", Requests: world.Resources{900, 31 * gib / 10, 1}},
			{ID: 1, Namespace: "default", Requests: world.Resources{3500, 28 * gib, 1}},
		},
	}
}

func equalPods(class int32, from, to int) []*world.Pod {
	var out []*world.Pod
	for i := from; i < to; i++ {
		name := fmt.Sprintf("p%d-%04d", class, i)
		out = append(out, &world.Pod{Name: name, UID: name, Class: class, Movable: true})
	}
	return out
}

func TestEqualPodsShareNodesAtTheSamePrice(t *testing.T) {
	for name, change := range map[string]func(*world.Pool){
		"plain":     func(*world.Pool) {},
		"limits":    func(p *world.Pool) { p.Limits = []world.Limit{{Resource: world.CPU, Max: 1e9}} },
		"minValues": func(p *world.Pool) { p.Need = p.Need.With(atLeast(world.LabelInstanceType, 2)) },
	} {
		t.Run(name, func(t *testing.T) {
			solve := func(nodeCost float64, opt Options) *Plan {
				s := shapes(nodeCost)
				change(s.Pools[0])
				s.Pending = equalPods(0, 0, 128)
				return Solve(s, opt)
			}
			free := solve(0, Options{})
			for _, opt := range []Options{{}, {Quick: true}} {
				plan := solve(0.005, opt)
				if len(plan.Nodes) > 12 || plan.Placed != 128 { // sixteen CPUs hold seventeen pods at most
					t.Errorf("%d pods on %d nodes (quick: %v), want 128 on 12 at most", plan.Placed, len(plan.Nodes), opt.Quick)
				}
				if plan.Price > free.Price*1.003 {
					t.Errorf("costs $%.4f/h (quick: %v), and $%.4f/h where nodes of their own are free", plan.Price, opt.Quick, free.Price)
				}
			}
		})
	}
}

func atLeast(key string, n int) req.Requirement {
	r, err := req.New(key, req.Exists)
	if err != nil {
		panic(err)
	}
	r.MinValues = n
	return r
}

func TestNodeCostMakesAPoolDearer(t *testing.T) {
	s := shapes(0.005)
	licensed := listedPool("a-licensed", 0.1)
	s.Pools = append([]*world.Pool{licensed}, s.Pools...)
	s.Pending = equalPods(1, 0, 9)
	for _, n := range Solve(s, Options{}).Nodes {
		if n.Pool.Name != "general" {
			t.Errorf("node %s is of the pool whose nodes cost more", n.Name)
		}
	}
	licensed.NodeCost = 0
	for _, n := range Solve(s, Options{}).Nodes {
		if n.Pool.Name != "a-licensed" {
			t.Errorf("node %s is of the pool whose nodes cost more", n.Name)
		}
	}
}

// Reservations at next to no price leave nothing that the pods are worth by price alone, but the nodes cost something.
func TestBoundsOfReservationsWithNodeCost(t *testing.T) {
	s := shapes(1)
	largest := listed()[9] // m.16 holds 17 of the pods
	largest.Offerings = append(largest.Offerings, world.Offering{
		Zone: "a", CapacityType: world.CapacityReserved, Price: 1e-6, Available: true, Reservation: "r", Remaining: 3,
	})
	s.Pools[0].Types = []*world.InstanceType{largest}
	s.Pending = equalPods(0, 0, 40)
	plan := Solve(s, Options{})
	if plan.Placed != 40 || plan.Bound > plan.Price || plan.CostBound <= 0 || plan.CostBound > plan.Price+plan.NodeCost {
		t.Errorf("%d pods for $%.4f/h, at least %.4f; with the nodes' own cost $%.4f/h, at least %.4f", plan.Placed, plan.Price, plan.Bound, plan.Price+plan.NodeCost, plan.CostBound)
	}
}

// arrive plans batches of pods one after the other, with the nodes of earlier batches on their way.
func arrive(s *world.Snapshot, batches [][]*world.Pod) (nodes int, price float64) {
	for b, pods := range batches {
		s.Pending = pods
		plan := Solve(s, Options{})
		index := map[string]int{}
		s.Nodes = slices.Clone(s.Nodes)
		for i, n := range s.Nodes {
			index[n.Name] = i
		}
		for _, f := range plan.Existing {
			old := s.Nodes[index[f.Node.Name]]
			s.Nodes[index[old.Name]] = onItsWay(old.Name, old.Labels, old.Allocatable, slices.Concat(old.Pods, f.Pods))
		}
		for _, n := range plan.Nodes {
			s.Nodes = append(s.Nodes, onItsWay(fmt.Sprintf("b%d-%s", b, n.Name), world.NewLabels(n.NodeLabels()), n.Choices[0].Type.Allocatable, n.Pods))
		}
		price += plan.Price
	}
	return len(s.Nodes), price
}

func onItsWay(name string, labels world.Labels, room world.Resources, pods []*world.Pod) *world.Node {
	return &world.Node{Name: name, Pool: "general", InFlight: true, Labels: labels, Capacity: room, Allocatable: room, Pods: pods}
}

func TestBatchesComeToNearlyWhatOnePlanDoes(t *testing.T) {
	s := shapes(0.005)
	s.Pending = slices.Concat(equalPods(0, 0, 500), equalPods(1, 0, 500))
	whole := Solve(s, Options{})
	free := shapes(0)
	free.Pending = s.Pending
	before := Solve(free, Options{})
	if len(whole.Nodes) > 150 || whole.Price > before.Price+1e-9 {
		t.Errorf("%d nodes for $%.4f/h; %d for $%.4f/h where nodes of their own are free", len(whole.Nodes), whole.Price, len(before.Nodes), before.Price)
	}
	var mixed, sorted [][]*world.Pod
	for i := range 10 {
		mixed = append(mixed, slices.Concat(equalPods(0, 50*i, 50*i+50), equalPods(1, 50*i, 50*i+50)))
		sorted = append(sorted, equalPods(int32(i/5), 100*(i%5), 100*(i%5)+100))
	}
	for name, batches := range map[string][][]*world.Pod{"mixed": mixed, "one kind after the other": sorted} {
		nodes, price := arrive(shapes(0.005), batches)
		if float64(nodes) > 1.15*float64(len(whole.Nodes)) || price > 1.05*whole.Price {
			t.Errorf("%s: %d nodes for $%.4f/h in ten batches, %d for $%.4f/h in one", name, nodes, price, len(whole.Nodes), whole.Price)
		}
	}
}

// With prices of their own, nodes change neither what is allowed nor what the bounds promise; audit checks both.
func TestPropertyNodeCostKeepsEveryRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genWorld(t)
		for _, p := range s.Pools {
			p.NodeCost = rapid.SampledFrom([]float64{0, 0.005, 0.3}).Draw(t, "cost")
		}
		plan := Solve(s, Options{})
		if faults := audit(s, plan); len(faults) > 0 {
			t.Fatalf("%v\n%s", faults, dump(s, plan))
		}
	})
}
