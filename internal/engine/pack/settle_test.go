package pack

import (
	"testing"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// crowded is a cluster with one node in zone a, pods that may all stay there as long as no other zone has a node, and a pod
// that needs a new node, which is cheapest in zone a.
func crowded() *world.Snapshot {
	s := &world.Snapshot{Resources: world.NewNames().List()}
	r := world.Resources{4000, 8 << 30, 110}
	big := &world.InstanceType{Name: "big", Capacity: r, Allocatable: r}
	for i, z := range []string{"a", "b", "c"} {
		big.Offerings = append(big.Offerings, world.Offering{Zone: z, CapacityType: world.CapacityOnDemand, Price: 0.1 + 0.001*float64(i), Available: true})
	}
	s.Pools = []*world.Pool{{Name: "general", MaxNodes: -1, Types: []*world.InstanceType{big}}}
	web := &world.Class{ID: 0, Namespace: "default", Requests: world.Resources{100, 1 << 20, 1}, Labels: world.Labels{{Key: "app", Value: "web"}}}
	web.Needs = []world.Clause{{Source: "node selector", Terms: []req.Set{req.NewSet(req.Is(world.LabelZone, "a"))}}}
	web.Spread = []world.Spread{{Key: world.LabelZone, MaxSkew: 1, Hard: true, Selector: world.Selector{Some: true, Need: req.NewSet(req.Is("app", "web"))}}}
	s.Classes = []*world.Class{web, {ID: 1, Namespace: "default", Requests: world.Resources{3000, 1 << 30, 1}}}
	small := world.Resources{1000, 1 << 30, 20}
	s.Nodes = []*world.Node{{Name: "n1", Initialized: true, Capacity: small, Allocatable: small, Labels: world.Labels{{Key: world.LabelZone, Value: "a"}}}}
	s.Pending = []*world.Pod{{Name: "w1", Class: 0}, {Name: "w2", Class: 0}, {Name: "w3", Class: 0}, {Name: "other", Class: 1}}
	return s
}

func TestP42_AlternativesOpenNoDomainThatASpreadDidNotReckonWith(t *testing.T) {
	plan := Solve(crowded(), Options{})
	if plan.Placed != 4 || len(plan.Nodes) != 1 {
		t.Fatalf("%d pods placed on %d new nodes, want 4 and 1", plan.Placed, len(plan.Nodes))
	}
	for _, c := range plan.Nodes[0].Choices {
		if c.Offering.Zone != "a" {
			t.Errorf("the node may be launched in zone %s, where no pod of the spread is", c.Offering.Zone)
		}
	}
}

func TestP42_AlternativesAreFreeWhereNoSpreadReliesOnThem(t *testing.T) {
	s := crowded()
	s.Pending = s.Pending[2:] // one pod is within the skew whatever is opened
	if plan := Solve(s, Options{}); len(plan.Nodes) != 1 || len(plan.Nodes[0].Choices) != 3 {
		t.Errorf("%d new nodes, want one with three choices", len(plan.Nodes))
	}
}

func TestP34_MinValuesKeepsTheChoiceAndTheSpreadGivesWay(t *testing.T) {
	s := crowded()
	zone, err := req.New(world.LabelZone, req.Exists)
	if err != nil {
		t.Fatal(err)
	}
	zone.MinValues = 3
	s.Pools[0].Need = req.NewSet(zone)
	plan := Solve(s, Options{})
	if len(plan.Nodes) != 1 || len(plan.Nodes[0].Choices) != 3 {
		t.Fatalf("%d new nodes, want one with three choices", len(plan.Nodes))
	}
	if plan.Placed != 2 {
		t.Errorf("%d pods placed, want the other one and one of the spread", plan.Placed)
	}
}
