package pack

import (
	"fmt"
	"testing"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// alone is a cluster of pods that refuse to share a node, without nodes.
func alone(pods int) *world.Snapshot {
	s := shapes(0.005)
	app := req.NewSet(req.Is("app", "web"))
	s.Classes[0].Labels = world.Labels{{Key: "app", Value: "web"}}
	s.Classes[0].AntiAffinity = []world.PodTerm{{Key: world.LabelHostname, Namespaces: []string{"default"}, Selector: world.Selector{Some: true, Need: app}}}
	s.Pending = equalPods(0, 0, pods)
	return s
}

func zonesOf(p *Plan) map[string]int {
	out := map[string]int{}
	for _, n := range p.Nodes {
		out[n.Choices[0].Offering.Zone]++
	}
	return out
}

func TestNodesAreSpreadOverZonesAtTheSamePrice(t *testing.T) {
	s := alone(30)
	plan := Solve(s, Options{})
	if got := fmt.Sprint(zonesOf(plan)); got != "map[a:10 b:10 c:10]" {
		t.Errorf("new nodes by zone: %s", got)
	}
	for _, n := range plan.Nodes {
		if zones := n.Zones(); len(zones) != 3 || zones[0] != n.Choices[0].Offering.Zone {
			t.Errorf("node %s may be launched in %v, want all three zones and %s first", n.Name, zones, n.Choices[0].Offering.Zone)
		}
	}
	full := world.Resources{1000, gib, 1}
	for i, zone := range []string{"a", "a", "b"} { // two that run, one that has not been launched yet
		n := &world.Node{Name: fmt.Sprintf("n%d", i), Pool: "general", Capacity: full, Allocatable: full, Initialized: true}
		n.Labels = world.NewLabels(map[string]string{world.LabelZone: zone, world.LabelPool: "general"})
		if zone == "b" {
			n.Labels, n.FirstZone, n.InFlight, n.Initialized = world.NewLabels(map[string]string{world.LabelPool: "general"}), "b", true, false
		}
		s.Nodes = append(s.Nodes, n)
	}
	if got := fmt.Sprint(zonesOf(Solve(s, Options{}))); got != "map[a:9 b:10 c:11]" {
		t.Errorf("new nodes by zone, with two nodes in a and one on its way to b: %s", got)
	}
	if got := fmt.Sprint(zonesOf(Prepare(s, Options{}).Solve(s.Over().Without(2)))); got != "map[a:9 b:11 c:10]" {
		t.Errorf("new nodes by zone, with the one in b removed: %s", got)
	}
}

func TestZonesAtOtherPricesOrWithoutStockGetNoNodes(t *testing.T) {
	s := alone(12)
	for _, typ := range s.Pools[0].Types {
		typ.Offerings[0].Available = false
		typ.Offerings[2].Price *= 1.02
	}
	if got := fmt.Sprint(zonesOf(Solve(s, Options{}))); got != "map[b:12]" {
		t.Errorf("new nodes by zone: %s", got)
	}
}

// Pods that ask for a zone keep it, and the others make up for it.
func TestNodesGoWhereTheirPodsMust(t *testing.T) {
	s := alone(9)
	pinned := *s.Classes[0]
	pinned.ID = 2
	pinned.Needs = []world.Clause{{Source: "node selector", Terms: []req.Set{req.NewSet(req.Is(world.LabelZone, "b"))}}}
	s.Classes = append(s.Classes, &pinned)
	s.Pending = append(s.Pending, equalPods(2, 0, 3)...)
	plan := Solve(s, Options{})
	if got := fmt.Sprint(zonesOf(plan)); got != "map[a:4 b:4 c:4]" {
		t.Errorf("new nodes by zone: %s", got)
	}
	if faults := audit(s, plan); len(faults) > 0 {
		t.Error(faults)
	}
}
