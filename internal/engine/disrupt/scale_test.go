package disrupt

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// staticWorld is a static pool with nodes in every state, over three zones in which there is always something to launch.
func staticWorld(t *rapid.T) *Input {
	types := []*world.InstanceType{}
	for i := range 3 {
		x := &world.InstanceType{Name: fmt.Sprintf("t%d", i), Capacity: world.Resources{2000, 4 << 30}, Allocatable: world.Resources{2000, 4 << 30}}
		for z, zone := range []string{"a", "b", "c"} {
			x.Offerings = append(x.Offerings, world.Offering{
				Zone: zone, CapacityType: world.CapacityOnDemand, Price: 0.1 + 0.01*float64(i+z), Available: i == 0 || rapid.Bool().Draw(t, "stock"),
			})
		}
		types = append(types, x)
	}
	limit := int64(-1)
	if rapid.Bool().Draw(t, "limited") {
		limit = rapid.Int64Range(0, 12).Draw(t, "limit")
	}
	pool := &world.Pool{
		Name: "base", Need: req.NewSet(req.Is(world.LabelPool, "base")), Labels: world.NewLabels(map[string]string{world.LabelPool: "base"}),
		MaxNodes: limit, Types: types, Static: true, Replicas: rapid.Int64Range(0, 12).Draw(t, "replicas"),
	}
	in := &Input{World: &world.Snapshot{Resources: []string{"cpu", "memory"}, Pools: []*world.Pool{pool, {Name: "other", MaxNodes: -1}}}}
	for i := range rapid.IntRange(0, 15).Draw(t, "nodes") {
		n := &world.Node{Name: fmt.Sprintf("n%02d", i), Claim: fmt.Sprintf("n%02d", i), Pool: rapid.SampledFrom([]string{"base", "base", "base", "other"}).Draw(t, "pool")}
		n.Labels = world.NewLabels(map[string]string{world.LabelZone: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "zone")})
		facts := Node{Cost: float64(rapid.IntRange(1, 4).Draw(t, "cost")), Left: 1, Protected: rapid.Bool().Draw(t, "protected"), Unlaunched: rapid.Bool().Draw(t, "unlaunched")}
		switch rapid.IntRange(0, 4).Draw(t, "state") {
		case 0:
			facts.Going, n.Deleting = true, true
		case 1:
			facts.Moving, n.Deleting = true, true
		}
		in.World.Nodes, in.Nodes = append(in.World.Nodes, n), append(in.Nodes, facts)
	}
	return in
}

// TestPropertyP103_P105_Scale holds decisions against what must be true of all of them.
func TestPropertyP103_P105_Scale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := staticWorld(t)
		list := Scale(in, Options{})
		if len(list) != 1 {
			t.Fatalf("%d pools are scaled", len(list))
		}
		s := list[0]
		pool := in.World.Pools[0]
		all := s.Active + s.Moving + s.Deleting
		if pool.MaxNodes >= 0 && len(s.Add) > 0 && int64(all+len(s.Add)) > pool.MaxNodes {
			t.Fatalf("P104: %d nodes and %d more, the limit is %d", all, len(s.Add), pool.MaxNodes)
		}
		if len(s.Add) > 0 && int64(s.Have()+len(s.Add)) > s.Replicas {
			t.Fatalf("P103: %d and %d more of %d", s.Have(), len(s.Add), s.Replicas)
		}
		if missing := s.Replicas - int64(s.Have()); missing > 0 && int64(len(s.Add)+s.Short) != missing {
			t.Fatalf("P103: %d are made and %d cannot be, %d are missing", len(s.Add), s.Short, missing)
		}
		if s.Short > 0 && s.Why.Text == "" {
			t.Fatal("nothing says why nodes are missing")
		}
		if want := max(0, int64(s.Active)-s.Replicas); int64(len(s.Remove)) != want {
			t.Fatalf("P105: %d are removed, want %d", len(s.Remove), want)
		}
		last := -1
		gone := map[int32]bool{}
		for _, l := range s.Remove {
			facts := &in.Nodes[l.Node]
			if facts.Going || facts.Moving || in.World.Nodes[l.Node].Pool != "base" || gone[l.Node] {
				t.Fatalf("node %d is removed", l.Node)
			}
			gone[l.Node] = true
			r, _ := rank(facts)
			if r < last {
				t.Fatalf("P105: a node of rank %d after one of rank %d", r, last)
			}
			last = r
		}
		if most, least := spread(in, s); len(s.Add) >= 12 && most-least > 1 { // enough to even out whatever was there
			t.Fatalf("W31: %d nodes in one zone, %d in another", most, least)
		}
	})
}

// spread is how many nodes the fullest and the emptiest zone have afterwards.
func spread(in *Input, s *Scaling) (most, least int) {
	zones := map[string]int{"a": 0, "b": 0, "c": 0}
	for _, n := range in.World.Nodes {
		if n.Pool == "base" && !n.Deleting {
			zones[n.Zone()]++
		}
	}
	for _, n := range s.Add {
		zones[n.Choices[0].Offering.Zone]++
	}
	least = len(in.World.Nodes) + len(s.Add)
	for _, n := range zones {
		most, least = max(most, n), min(least, n)
	}
	return most, least
}

// A number of replicas that nobody can have is made in steps.
func TestP103_ManyReplicasAreMadeInSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := staticWorld(t)
		in.World.Pools[0].Replicas, in.World.Pools[0].MaxNodes = 1<<50, -1
		if s := Scale(in, Options{})[0]; len(s.Add) != MostAtOnce || s.Short != 0 {
			t.Fatalf("%d are made, %d are short", len(s.Add), s.Short)
		}
	})
}

// FuzzScale looks for a world that scaling cannot stand.
func FuzzScale(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { Scale(staticWorld(t), Options{}) }))
}
