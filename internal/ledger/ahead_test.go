package ledger

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

func podsNamed(names ...string) (out []*world.Pod) {
	for _, n := range names {
		out = append(out, &world.Pod{Name: n, UID: n})
	}
	return out
}

func namesOf(pods []*world.Pod) string {
	var out []string
	for _, p := range pods {
		out = append(out, p.UID)
	}
	return strings.Join(out, " ")
}

func newNode(price float64, pods ...string) *pack.NewNode {
	return &pack.NewNode{
		Pool: &world.Pool{NodeCost: 0.5}, Pods: podsNamed(pods...), Choices: []pack.Choice{{Type: &world.InstanceType{}, Offering: &world.Offering{Price: price}}},
	}
}

func TestExistingLeavesOutPodsThatDoNotExist(t *testing.T) {
	whole := newNode(4, "c")
	plan := &pack.Plan{
		Nodes: []*pack.NewNode{newNode(1, "a", "a+0", "a+1"), newNode(2, "a+2"), whole},
		Existing: []*pack.Filled{
			{Node: &world.Node{Name: "n"}, Pods: podsNamed("b", "b+0")}, {Node: &world.Node{Name: "m"}, Pods: podsNamed("b+1")},
		},
		Unplaced: []*pack.Unplaced{{Pods: podsNamed("a+3")}}, Order: podsNamed("a", "a+0", "b", "b+0", "b+1", "c", "a+1", "a+2"),
		Pods: 9, Placed: 8, Price: 7, Bound: 6, NodeCost: 1.5, CostBound: 6.5,
	}
	got, ok := existing(plan)
	if !ok || got.Pods != 3 || got.Placed != 3 || got.Price != 5 || got.NodeCost != 1 || got.Bound != 5 || got.CostBound != 6 {
		t.Errorf("%v %+v", ok, got)
	}
	if namesOf(got.Order) != "a b c" || len(got.Nodes) != 2 || namesOf(got.Nodes[0].Pods) != "a" || len(got.Existing) != 1 || namesOf(got.Existing[0].Pods) != "b" || len(got.Unplaced) != 0 {
		t.Errorf("%+v", got)
	}
	if why := got.Nodes[0].Why; len(why) != 1 || !strings.Contains(why[0].Text, "room for 2 pods that are expected") {
		t.Errorf("why %v", why)
	}
	if len(got.Nodes[1].Why) != 0 || len(plan.Nodes[0].Pods) != 3 || len(plan.Nodes[0].Why) != 0 {
		t.Error("what need not change has changed")
	}
	plan.Unplaced = append(plan.Unplaced, &pack.Unplaced{Pods: podsNamed("d", "d+0")})
	if got, ok := existing(plan); ok || got.Pods != 4 || got.Placed != 3 || len(got.Unplaced) != 1 || namesOf(got.Unplaced[0].Pods) != "d" {
		t.Errorf("%v %+v", ok, got)
	}
}

// Pods that are known to come are planned for as long as every pod that exists has its place with them.
func TestPlanCountsPodsThatAreToComeIfThereIsRoom(t *testing.T) {
	m := state.NewMirror(state.MirrorOptions{})
	view := m.View()
	failed := errors.New("failed")
	for _, c := range []struct {
		name   string
		coming map[string]int
		// strands says that a pod that exists has no place in the first plan.
		strands bool
		err     error
		asked   int
		dropped bool
	}{
		{"none", nil, true, nil, 1, false},
		{"room", map[string]int{"a": 1}, false, nil, 1, false},
		{"no room", map[string]int{"a": 1}, true, nil, 2, true},
		{"an error", map[string]int{"a": 1}, true, failed, 1, false},
	} {
		facts, asked := Facts{Coming: c.coming}, 0
		_, plan, err := facts.Plan(view, func(*world.Snapshot) (*pack.Plan, error) {
			asked++
			p := &pack.Plan{Pods: asked}
			if c.strands {
				p.Unplaced = []*pack.Unplaced{{Pods: podsNamed("a")}}
			}
			return p, c.err
		})
		if !errors.Is(err, c.err) || asked != c.asked || plan == nil || (len(facts.Coming) == 0) != (c.dropped || c.coming == nil) {
			t.Errorf("%s: asked %d times, %v, then %v are to come", c.name, asked, err, facts.Coming)
		}
		if c.dropped && !slices.Equal([]int{plan.Pods, len(plan.Unplaced)}, []int{2, 1}) {
			t.Errorf("%s: %+v", c.name, plan)
		}
	}
}
