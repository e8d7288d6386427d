package disrupt

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

const rack = "example.com/rack"

var noon = time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)

func pick(t *rapid.T, name string, list ...string) string {
	return list[rapid.IntRange(0, len(list)-1).Draw(t, name)]
}

func one(t *rapid.T, name string, in int) bool { return rapid.IntRange(1, in).Draw(t, name) == 1 }

// genInput draws a small cluster with everything in it that a decision looks at.
func genInput(t *rapid.T) *Input {
	s := &world.Snapshot{Resources: world.NewNames().List()}
	var types []*world.InstanceType
	for i := range rapid.IntRange(2, 6).Draw(t, "types") {
		types = append(types, genType(t, i))
	}
	in := &Input{World: s}
	for i := range rapid.IntRange(1, 3).Draw(t, "pools") {
		s.Pools = append(s.Pools, genPool(t, i, types))
		in.Pools = append(in.Pools, genFacts(t, s.Pools[i].Name))
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "classes") {
		s.Classes = append(s.Classes, genClass(t, int32(i)))
	}
	for range rapid.IntRange(0, 3).Draw(t, "guards") {
		in.Guarded = append(in.Guarded, int32(rapid.IntRange(0, 4).Draw(t, "left")))
	}
	for i := range rapid.IntRange(2, 12).Draw(t, "nodes") {
		n := genNode(t, i, s, types)
		s.Nodes = append(s.Nodes, n)
		in.Nodes = append(in.Nodes, genNodeFacts(t, n, in))
	}
	if one(t, "pending", 3) {
		for i := range rapid.IntRange(1, 4).Draw(t, "wait") {
			s.Pending = append(s.Pending, &world.Pod{Name: fmt.Sprintf("w%d", i), UID: fmt.Sprintf("w%d", i), Class: int32(rapid.IntRange(0, len(s.Classes)-1).Draw(t, "class")), Movable: true})
		}
	}
	if one(t, "daemon", 3) {
		s.Daemons = []*world.Daemon{{Name: "agent", Class: &world.Class{Requests: world.Resources{100, 64, 1}}}}
	}
	return in
}

func genType(t *rapid.T, i int) *world.InstanceType {
	cpu := int64(rapid.IntRange(2, 10).Draw(t, "cpu")) * 1000
	mem := int64(rapid.IntRange(2, 20).Draw(t, "mem")) * 1024
	size := world.Resources{cpu, mem, int64(rapid.IntRange(4, 30).Draw(t, "slots"))}
	it := &world.InstanceType{
		Name: fmt.Sprintf("t%d", i), Capacity: size, Allocatable: size,
		Labels: world.NewLabels(map[string]string{"kubernetes.io/arch": "amd64", "family": pick(t, "family", "x", "y")}),
	}
	price := float64(cpu)/10000 + float64(rapid.IntRange(0, 50).Draw(t, "price"))/1000
	for _, z := range []string{"a", "b", "c"} {
		stock := func() bool { return !one(t, "stock", 10) }
		it.Offerings = append(it.Offerings,
			world.Offering{Zone: z, CapacityType: world.CapacityOnDemand, Price: price, Available: stock()},
			world.Offering{Zone: z, CapacityType: world.CapacitySpot, Price: price * float64(rapid.IntRange(20, 60).Draw(t, "spot")) / 100, Available: stock()})
	}
	if one(t, "reserved", 5) {
		it.Offerings = append(it.Offerings, world.Offering{Zone: "a", CapacityType: world.CapacityReserved, Price: price / 1000, Available: true, Reservation: "cr-" + it.Name, Remaining: rapid.IntRange(0, 2).Draw(t, "left")})
	}
	return it
}

func genPool(t *rapid.T, i int, types []*world.InstanceType) *world.Pool {
	name := fmt.Sprintf("pool%d", i)
	p := &world.Pool{Name: name, MaxNodes: -1, Types: types, Labels: world.NewLabels(map[string]string{world.LabelPool: name})}
	markets := [][]string{{world.CapacityOnDemand}, {world.CapacitySpot}, {world.CapacityOnDemand, world.CapacitySpot, world.CapacityReserved}}
	r, _ := req.New(world.LabelCapacityType, req.In, markets[rapid.IntRange(0, 2).Draw(t, "markets")]...)
	p.Need = req.NewSet(req.Is(world.LabelPool, name), r)
	if one(t, "rack", 4) {
		r, _ := req.New(rack, req.In, "r1", "r2")
		p.Need = p.Need.With(r)
	}
	if one(t, "min", 5) {
		r, _ := req.New("family", req.Exists)
		r.MinValues = 2
		p.Need = p.Need.With(r)
	}
	p.Weight = int32(rapid.IntRange(0, 1).Draw(t, "weight"))
	if one(t, "limit", 4) {
		p.Limits = []world.Limit{{Resource: world.CPU, Max: int64(rapid.IntRange(5, 60).Draw(t, "max")) * 1000}}
	}
	if one(t, "count", 5) {
		p.MaxNodes = int64(rapid.IntRange(1, 8).Draw(t, "maxnodes"))
	}
	return p
}

func genFacts(t *rapid.T, name string) Pool {
	p := Pool{Name: name, Never: one(t, "never", 12), Static: one(t, "static", 12), Allowed: map[Reason]int{}}
	p.Policy = []Policy{WhenEmpty, WhenEmptyOrUnderutilized, WhenEmptyOrUnderutilized, WhenEmptyOrUnderutilized, Balanced}[rapid.IntRange(0, 4).Draw(t, "policy")]
	for _, r := range Reasons() {
		p.Allowed[r] = rapid.IntRange(0, 12).Draw(t, "allowed")
	}
	return p
}

func genClass(t *rapid.T, id int32) *world.Class {
	c := &world.Class{ID: id, Namespace: "default", Requests: world.Resources{int64(rapid.IntRange(0, 20).Draw(t, "cpu")) * 100, int64(rapid.IntRange(0, 20).Draw(t, "mem")) * 128, 1}}
	c.Labels = world.NewLabels(map[string]string{"app": pick(t, "app", "a", "b", "c")})
	sel := world.Selector{Some: true, Need: req.NewSet(req.Is("app", pick(t, "target", "a", "b", "c")))}
	term := world.PodTerm{Key: pick(t, "key", world.LabelZone, world.LabelHostname, rack), Selector: sel, Namespaces: []string{"default"}}
	switch rapid.IntRange(0, 7).Draw(t, "constraint") {
	case 0, 1:
		c.Spread = append(c.Spread, world.Spread{
			Key: term.Key, MaxSkew: int32(rapid.IntRange(1, 2).Draw(t, "skew")), MinDomains: int32(rapid.IntRange(0, 3).Draw(t, "least")),
			Hard: !one(t, "soft", 5), Selector: sel, HonorAffinity: rapid.Bool().Draw(t, "honor"), HonorTaints: rapid.Bool().Draw(t, "taints"),
		})
	case 2:
		c.Affinity = []world.PodTerm{term}
	case 3:
		c.AntiAffinity = []world.PodTerm{term}
	case 4:
		term.Weight = 5
		c.AntiAffinity = []world.PodTerm{term}
	}
	if one(t, "need", 5) {
		c.Needs = []world.Clause{{Source: "node selector", Terms: []req.Set{req.NewSet(req.Is(world.LabelZone, pick(t, "value", "a", "b")))}}}
	}
	if one(t, "port", 8) {
		c.Ports = []world.Port{{Protocol: "TCP", Port: 80}}
	}
	return c
}

func genNode(t *rapid.T, i int, s *world.Snapshot, types []*world.InstanceType) *world.Node {
	typ := types[rapid.IntRange(0, len(types)-1).Draw(t, "type")]
	o := typ.Offerings[rapid.IntRange(0, len(typ.Offerings)-1).Draw(t, "offering")]
	labels := map[string]string{
		world.LabelZone: o.Zone, world.LabelInstanceType: typ.Name, world.LabelCapacityType: o.CapacityType, rack: pick(t, "rack", "r1", "r2"),
		"kubernetes.io/arch": "amd64",
	}
	n := &world.Node{
		Name: fmt.Sprintf("n%02d", i), Initialized: !one(t, "starting", 12), Deleting: one(t, "deleting", 12), Capacity: typ.Capacity, Allocatable: typ.Allocatable,
		Price: o.Price,
	}
	if !one(t, "foreign", 10) {
		n.Pool, n.Claim = s.Pools[rapid.IntRange(0, len(s.Pools)-1).Draw(t, "pool")].Name, n.Name
		labels[world.LabelPool] = n.Pool
	}
	n.Labels = world.NewLabels(labels)
	free := slices.Clone(n.Allocatable)
	for k := range rapid.IntRange(0, 5).Draw(t, "running") {
		c := s.Classes[rapid.IntRange(0, len(s.Classes)-1).Draw(t, "class")]
		if !c.Requests.Fits(free) || len(c.Ports) > 0 && k > 0 {
			continue
		}
		free = free.Minus(c.Requests)
		id := fmt.Sprintf("p%02d-%d", i, k)
		n.Pods = append(n.Pods, &world.Pod{Name: id, UID: id, Class: c.ID, Movable: !one(t, "daemon", 10)})
	}
	return n
}

func genNodeFacts(t *rapid.T, n *world.Node, in *Input) Node {
	f := Node{Consolidatable: !one(t, "busy", 8), Cost: 1, Deadline: one(t, "deadline", 4)}
	switch {
	case n.Deleting || !n.Initialized || n.Pool == "" || one(t, "fixed", 12):
		f.Fixed = "fixed"
	case one(t, "pods", 10):
		f.PodsFixed = "a pod forbids it"
	}
	for range n.Pods {
		f.Cost++
	}
	if len(n.Pods) > 0 && one(t, "cheap", 8) {
		f.Cost = 1
	}
	if one(t, "drift", 5) {
		f.Drift, f.DriftedAt = "NodePoolDrifted", noon.Add(-time.Duration(rapid.IntRange(1, 100).Draw(t, "ago"))*time.Minute)
	}
	if n.Pool != "" && !n.Deleting && !n.InFlight && one(t, "ill", 8) {
		f.Illness = &Illness{What: "Ready is False", Condition: "Ready", Due: noon.Add(time.Duration(rapid.IntRange(-60, 20).Draw(t, "due")) * time.Minute), Priority: rapid.IntRange(0, 3).Draw(t, "priority")}
		if one(t, "bounded", 2) {
			f.Illness.Grace = new(time.Minute)
		}
		if one(t, "kept", 8) {
			f.Illness.Fixed = "do-not-repair"
		}
	}
	if len(in.Guarded) > 0 && len(n.Pods) > 0 && one(t, "guarded", 3) {
		f.Guards = []Guard{{Budget: int32(rapid.IntRange(0, len(in.Guarded)-1).Draw(t, "guard")), Pods: int32(rapid.IntRange(1, len(n.Pods)).Draw(t, "covered"))}}
	}
	if one(t, "made", 5) {
		f.Made = noon.Add(-time.Duration(rapid.IntRange(1, 200).Draw(t, "age")) * time.Minute)
	}
	return f
}
