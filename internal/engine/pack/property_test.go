package pack

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

const testRack = "example.com/rack"

// genWorld draws a small cluster with every kind of constraint in it.
func genWorld(t *rapid.T) *world.Snapshot {
	s := &world.Snapshot{Resources: world.NewNames().List()}
	var types []*world.InstanceType
	for i := range rapid.IntRange(1, 6).Draw(t, "types") {
		types = append(types, genType(t, i))
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "pools") {
		s.Pools = append(s.Pools, genPool(t, i, types))
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "classes") {
		s.Classes = append(s.Classes, genClass(t, int32(i)))
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "nodes") {
		s.Nodes = append(s.Nodes, genNode(t, i, s))
	}
	for c := range s.Classes {
		for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
			s.Pending = append(s.Pending, &world.Pod{Name: fmt.Sprintf("p%d-%d", c, i), UID: fmt.Sprintf("u%d-%d", c, i), Class: int32(c), Movable: true})
		}
	}
	if rapid.Bool().Draw(t, "daemon") {
		s.Daemons = []*world.Daemon{{Name: "agent", Class: &world.Class{Requests: world.Resources{100, 64, 1}}}}
		if rapid.Bool().Draw(t, "local") { // runs in one zone only
			s.Daemons[0].Class.Requests[world.CPU] = 900
			s.Daemons[0].Class.Needs = []world.Clause{{Source: "node selector", Terms: []req.Set{req.NewSet(req.Is(world.LabelZone, "b"))}}}
		}
	}
	return s
}

func pick(t *rapid.T, name string, list ...string) string {
	return list[rapid.IntRange(0, len(list)-1).Draw(t, name)]
}

func genType(t *rapid.T, i int) *world.InstanceType {
	cpu := int64(rapid.IntRange(1, 8).Draw(t, "cpu")) * 1000
	mem := int64(rapid.IntRange(1, 16).Draw(t, "mem")) * 1024
	size := world.Resources{cpu, mem, int64(rapid.IntRange(2, 30).Draw(t, "slots"))}
	it := &world.InstanceType{
		Name: fmt.Sprintf("t%d", i), Capacity: size, Allocatable: size,
		Labels: world.NewLabels(map[string]string{"kubernetes.io/arch": pick(t, "arch", "amd64", "arm64"), "family": pick(t, "family", "x", "y")}),
	}
	price := float64(cpu)/10000 + float64(rapid.IntRange(0, 50).Draw(t, "price"))/1000
	for _, z := range []string{"a", "b", "c"} {
		if rapid.IntRange(0, 5).Draw(t, "offered") == 0 {
			it.Offerings = append(it.Offerings, world.Offering{Zone: z, CapacityType: world.CapacitySpot, Price: price / 2, Available: rapid.IntRange(0, 3).Draw(t, "stock") > 0})
		}
		if rapid.IntRange(0, 5).Draw(t, "offered") > 0 {
			it.Offerings = append(it.Offerings, world.Offering{Zone: z, CapacityType: world.CapacityOnDemand, Price: price, Available: rapid.IntRange(0, 9).Draw(t, "stock") > 0})
		}
	}
	return it
}

func genPool(t *rapid.T, i int, types []*world.InstanceType) *world.Pool {
	name := fmt.Sprintf("pool%d", i)
	p := &world.Pool{Name: name, MaxNodes: -1, Types: types, Labels: world.NewLabels(map[string]string{world.LabelPool: name})}
	p.Need = req.NewSet(req.Is(world.LabelPool, name))
	if rapid.Bool().Draw(t, "zones") {
		r, _ := req.New(world.LabelZone, req.In, "a", pick(t, "zone", "b", "c"))
		p.Need = p.Need.With(r)
	}
	if rapid.IntRange(0, 3).Draw(t, "rack") == 0 {
		r, _ := req.New(testRack, req.In, "r1", "r2")
		p.Need = p.Need.With(r)
	}
	if rapid.IntRange(0, 3).Draw(t, "min") == 0 {
		r, _ := req.New("family", req.Exists)
		r.MinValues = 2
		p.Need = p.Need.With(r)
	}
	p.Weight = int32(rapid.IntRange(0, 2).Draw(t, "weight"))
	if rapid.IntRange(0, 3).Draw(t, "taint") == 0 {
		p.Taints = []world.Taint{{Key: "dedicated", Value: "x", Effect: world.Effect(pick(t, "effect", "NoSchedule", "PreferNoSchedule", "NoExecute"))}}
	}
	if rapid.IntRange(0, 2).Draw(t, "limit") == 0 {
		p.Limits = []world.Limit{{Resource: world.CPU, Max: int64(rapid.IntRange(0, 20).Draw(t, "max")) * 1000}}
	}
	if rapid.IntRange(0, 3).Draw(t, "count") == 0 {
		p.MaxNodes = int64(rapid.IntRange(0, 4).Draw(t, "maxnodes"))
	}
	return p
}

func genClass(t *rapid.T, id int32) *world.Class {
	c := &world.Class{ID: id, Namespace: "default", Requests: world.Resources{int64(rapid.IntRange(0, 30).Draw(t, "cpu")) * 100, int64(rapid.IntRange(0, 30).Draw(t, "mem")) * 128, 1}}
	c.Labels = world.NewLabels(map[string]string{"app": pick(t, "app", "a", "b", "c")})
	some := world.Selector{Some: true, Need: req.NewSet(req.Is("app", pick(t, "target", "a", "b", "c")))}
	key := pick(t, "key", world.LabelZone, world.LabelHostname, testRack)
	term := world.PodTerm{Key: key, Selector: some, Namespaces: []string{"default"}}
	for range rapid.IntRange(0, 2).Draw(t, "constraints") {
		addConstraint(t, c, term)
	}
	if rapid.IntRange(0, 3).Draw(t, "need") == 0 {
		c.Needs = []world.Clause{{Source: "node selector", Terms: []req.Set{req.NewSet(req.Is(pick(t, "needkey", world.LabelZone, testRack), pick(t, "value", "a", "b", "r1")))}}}
	}
	if rapid.IntRange(0, 4).Draw(t, "either") == 0 {
		c.Needs = append(c.Needs, world.Clause{Source: "node affinity", Terms: []req.Set{
			req.NewSet(req.Is(world.LabelZone, "a"), req.Is("family", "x")), req.NewSet(req.Is(world.LabelZone, pick(t, "orzone", "b", "c")), req.Is("family", "y")),
		}})
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "prefers") {
		term := req.NewSet(req.Is(pick(t, "prefkey", world.LabelZone, testRack, "family"), pick(t, "prefvalue", "a", "b", "c", "r1", "x")))
		c.Prefers = append(c.Prefers, world.Preference{Weight: int32(10 - i), Term: term})
	}
	if rapid.IntRange(0, 3).Draw(t, "tolerate") == 0 {
		c.Tolerations = []world.Toleration{{Key: "dedicated", Operator: "Exists"}}
	}
	if rapid.IntRange(0, 5).Draw(t, "port") == 0 {
		c.Ports = []world.Port{{Protocol: "TCP", Port: int32(rapid.IntRange(80, 81).Draw(t, "number"))}}
	}
	c.Priority = int32(rapid.IntRange(0, 1).Draw(t, "priority"))
	return c
}

func addConstraint(t *rapid.T, c *world.Class, term world.PodTerm) {
	switch rapid.IntRange(0, 6).Draw(t, "constraint") {
	case 0, 1:
		c.Spread = append(c.Spread, world.Spread{
			Key: pick(t, "over", world.LabelZone, world.LabelHostname, testRack), MaxSkew: int32(rapid.IntRange(1, 2).Draw(t, "skew")), MinDomains: int32(rapid.IntRange(0, 3).Draw(t, "least")),
			Hard: rapid.IntRange(0, 3).Draw(t, "hard") > 0, Selector: term.Selector, HonorAffinity: rapid.Bool().Draw(t, "honor"), HonorTaints: rapid.Bool().Draw(t, "taints"),
		})
	case 2:
		c.Affinity = []world.PodTerm{term}
	case 3, 4:
		c.AntiAffinity = append([]world.PodTerm{term}, c.AntiAffinity...)
	case 5:
		term.Weight = 5
		c.AntiAffinity = append(c.AntiAffinity, term)
	case 6:
		term.Weight = 3
		c.Affinity = append(c.Affinity, term)
	}
}

func genNode(t *rapid.T, i int, s *world.Snapshot) *world.Node {
	n := &world.Node{
		Name: fmt.Sprintf("n%d", i), Initialized: rapid.Bool().Draw(t, "init"), Deleting: rapid.IntRange(0, 5).Draw(t, "deleting") == 0,
		Labels: world.NewLabels(map[string]string{world.LabelZone: pick(t, "zone", "a", "b", "c"), testRack: pick(t, "rack", "r1", "r2")}),
	}
	if rapid.IntRange(0, 3).Draw(t, "norack") == 0 {
		n.Labels = world.NewLabels(map[string]string{world.LabelZone: pick(t, "zone", "a", "b", "c")})
	}
	n.Allocatable = world.Resources{int64(rapid.IntRange(1, 8).Draw(t, "cpu")) * 1000, int64(rapid.IntRange(1, 8).Draw(t, "mem")) * 1024, 20}
	n.Capacity = n.Allocatable
	if rapid.Bool().Draw(t, "owned") {
		n.Pool = s.Pools[0].Name
	}
	free := slices.Clone(n.Allocatable)
	for k := range rapid.IntRange(0, 3).Draw(t, "running") {
		c := s.Classes[rapid.IntRange(0, len(s.Classes)-1).Draw(t, "class")]
		if !c.Requests.Fits(free) || len(c.Ports) > 0 {
			continue
		}
		free = free.Minus(c.Requests)
		n.Pods = append(n.Pods, &world.Pod{Name: fmt.Sprintf("r%d-%d", i, k), Class: c.ID, Terminating: rapid.IntRange(0, 5).Draw(t, "going") == 0})
	}
	return n
}

func TestPropertyPlansObeyEveryRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genWorld(t)
		opt := Options{IgnorePreferences: rapid.Bool().Draw(t, "ignore"), BestEffortMinValues: rapid.Bool().Draw(t, "effort")}
		plan := Solve(s, opt)
		if faults := audit(s, plan); len(faults) > 0 {
			t.Fatalf("%v\n%s", faults, dump(s, plan))
		}
	})
}

func TestP24_PropertyWorkersAndOrderDoNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genWorld(t)
		want := dump(s, Solve(s, Options{Workers: 1}))
		if got := dump(s, Solve(s, Options{Workers: 8})); got != want {
			t.Fatalf("workers matter: %s", cmp.Diff(want, got))
		}
		mixed := shuffled(s, rapid.Int64().Draw(t, "seed"))
		if got := dump(mixed, Solve(mixed, Options{})); got != want {
			t.Fatalf("order matters: %s", cmp.Diff(want, got))
		}
	})
}

// shuffled is the same cluster with everything listed in another order.
func shuffled(s *world.Snapshot, seed int64) *world.Snapshot {
	rng := rand.New(rand.NewSource(seed))
	out := *s
	out.Pending, out.Nodes, out.Pools = slices.Clone(s.Pending), slices.Clone(s.Nodes), slices.Clone(s.Pools)
	rng.Shuffle(len(out.Pending), func(i, j int) { out.Pending[i], out.Pending[j] = out.Pending[j], out.Pending[i] })
	rng.Shuffle(len(out.Nodes), func(i, j int) { out.Nodes[i], out.Nodes[j] = out.Nodes[j], out.Nodes[i] })
	rng.Shuffle(len(out.Pools), func(i, j int) { out.Pools[i], out.Pools[j] = out.Pools[j], out.Pools[i] })
	return &out
}

// In these tiny clusters a domain chosen for the new type can cost a node of its own, so the tolerance is one node.
func TestPropertyAnotherTypeMakesNothingDearer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genWorld(t)
		for _, p := range s.Pools { // limits and weights may turn a cheaper type into a dearer plan
			p.Limits, p.MaxNodes, p.Weight = nil, -1, 0
		}
		for _, c := range s.Classes { // and a new zone is one more to spread over
			c.Spread = nil
		}
		opt := Options{IgnorePreferences: true} // a preference that can be had at last may be worth its price
		before := Solve(s, opt)
		more := genType(t, 99)
		for _, p := range s.Pools {
			p.Types = append(slices.Clone(p.Types), more)
		}
		after := Solve(s, opt)
		if after.Placed < before.Placed {
			t.Fatalf("placed %d, before %d", after.Placed, before.Placed)
		}
		if after.Placed == before.Placed && after.Price > before.Price+dearest(after)+1e-9 {
			t.Fatalf("costs %v, before %v\n%s\n%s", after.Price, before.Price, dump(s, before), dump(s, after))
		}
	})
}

func dearest(p *Plan) float64 {
	most := 0.0
	for _, n := range p.Nodes {
		most = max(most, n.Price())
	}
	return most
}

func TestPropertyNeverDearerThanFirstFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genWorld(t)
		m := Prepare(s, Options{})
		r := m.newRun(s.Over(), &retryConstraints{quota: quotas{}, domains: map[domainKey]bool{}})
		r.assign()
		if len(r.demands) == 0 {
			return
		}
		p := r.problem(r.demands)
		left := make([]int, len(p.items))
		for i := range left {
			left[i] = p.items[i].n
		}
		q := *p
		q.ledger = p.ledger.clone()
		simple, ours := attempt{left: slices.Clone(left)}, attempt{}
		simple.bins = q.firstFit(simple.left, false)
		ours.bins, ours.left = p.solve(Options{})
		if got, want := ours.total(), simple.total(); got > want+1e-6 {
			t.Fatalf("costs %v, first fit %v", got, want)
		}
	})
}

func FuzzSolve(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		s := genWorld(t)
		if faults := audit(s, Solve(s, Options{})); len(faults) > 0 {
			t.Fatal(faults)
		}
	}))
}
