package pack

import (
	"fmt"
	"strings"
	"testing"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

const testTeam = "example.com/team"

// tenants is a pool that leaves a label open, and a pod for each of its values.
func tenants(types, teams int) *world.Snapshot {
	s := &world.Snapshot{Resources: world.NewNames().List()}
	open, _ := req.New(testTeam, req.Exists)
	pool := &world.Pool{Name: "shared", MaxNodes: -1, Labels: world.NewLabels(map[string]string{world.LabelPool: "shared"}), Need: req.NewSet(open)}
	for i := range types {
		size := world.Resources{int64(i+2) * 1000, 4096, 30}
		t := &world.InstanceType{Name: fmt.Sprintf("t%04d", i), Capacity: size, Allocatable: size}
		for _, zone := range []string{"a", "b", "c"} {
			t.Offerings = append(t.Offerings, world.Offering{Zone: zone, CapacityType: world.CapacityOnDemand, Price: float64(i+2) / 20, Available: true})
		}
		pool.Types = append(pool.Types, t)
	}
	s.Pools = []*world.Pool{pool}
	for i := range teams {
		need := []world.Clause{{Source: "node selector", Terms: []req.Set{req.NewSet(req.Is(testTeam, fmt.Sprintf("team%d", i)))}}}
		s.Classes = append(s.Classes, &world.Class{ID: int32(i), Namespace: "default", Requests: world.Resources{1000, 1024, 1}, Needs: need})
		s.Pending = append(s.Pending, &world.Pod{Name: fmt.Sprintf("p%d", i), UID: fmt.Sprint(i), Class: int32(i), Movable: true})
	}
	return s
}

func TestP90_EveryValueOfAnOpenLabelGetsItsNodes(t *testing.T) {
	const teams = 135
	plan := Solve(tenants(4, teams), Options{})
	if plan.Placed != teams || len(plan.Nodes) != teams {
		t.Errorf("%d of %d pods placed on %d nodes; left: %v", plan.Placed, teams, len(plan.Nodes), reasonsOf(plan))
	}
}

// There are more values than are planned at once: what is left out says so, and has its turn when the
// others have their nodes, although these ask for their values still.
func TestP90_ValuesOfAnOpenLabelHaveTheirTurn(t *testing.T) {
	const most, teams = 8, 13
	s := tenants(4, teams)
	plan := Solve(s, Options{variants: most})
	if plan.Placed != most {
		t.Fatalf("%d of %d pods placed, want %d", plan.Placed, teams, most)
	}
	if text := reasonsOf(plan); !strings.Contains(text, "more values of it than the 8 that are planned at once") || strings.Contains(text, "typo") {
		t.Errorf("the reason is %s", text)
	}
	s.Pending = nil
	for _, u := range plan.Unplaced {
		s.Pending = append(s.Pending, u.Pods...)
	}
	for _, n := range plan.Nodes {
		c := n.Choices[0]
		s.Nodes = append(s.Nodes, &world.Node{
			Name: n.Name, Pool: n.Pool.Name, Claim: n.Name, InFlight: true, Labels: world.NewLabels(n.NodeLabels()), Allocatable: c.Type.Allocatable, Capacity: c.Type.Capacity, Pods: n.Pods,
		})
	}
	if again := Solve(s, Options{variants: most}); again.Placed != teams-most {
		t.Errorf("%d of the %d pods that were left are placed in the next round: %s", again.Placed, teams-most, reasonsOf(again))
	}
}

func reasonsOf(p *Plan) string {
	var out []string
	for _, u := range p.Unplaced {
		for _, r := range u.Reasons {
			out = append(out, r.Line())
		}
	}
	return strings.Join(out, "; ")
}
