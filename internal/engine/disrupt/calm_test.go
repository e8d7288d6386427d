package disrupt

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// restless is a pair of which one node can go, with restarts that have a price and a second pool that has one node of the same size.
func restless() *Input {
	in := pair(2)
	in.Nodes[1].Fixed = "stays"
	in.World.Nodes[1].Labels = world.NewLabels(map[string]string{world.LabelPool: "general", world.LabelInstanceType: "big", world.LabelZone: "b", world.LabelCapacityType: world.CapacityOnDemand})
	in.Pools[0].Horizon = DefaultHorizon
	in.Nodes[0].Restart = DefaultRestartCost
	s := in.World
	other := alike(s.Pools[0])
	other.Name, other.Need, other.Labels = "other", req.NewSet(req.Is(world.LabelPool, "other")), world.Labels{{Key: world.LabelPool, Value: "other"}}
	other.Taints = []world.Taint{{Key: "other", Effect: "NoSchedule"}}
	s.Pools = append(s.Pools, other)
	in.Pools = append(in.Pools, Pool{Name: "other", Policy: WhenEmptyOrUnderutilized, Horizon: DefaultHorizon, Allowed: in.Pools[0].Allowed})
	s.Classes = append(s.Classes,
		&world.Class{ID: 1, Namespace: "default", Requests: world.Resources{100_000, 1 << 30, 1}}, // nothing is that large
		&world.Class{ID: 2, Namespace: "default", Requests: world.Resources{1000, 1 << 30, 1}, Needs: []world.Clause{{Terms: []req.Set{req.NewSet(req.Is(world.LabelPool, "other"))}}}, Tolerations: []world.Toleration{{Key: "other", Operator: "Exists"}}},
		&world.Class{ID: 3, Namespace: "default", Requests: world.Resources{1000, 1 << 30, 1}, Needs: []world.Clause{{Terms: []req.Set{req.NewSet(req.Is(world.LabelZone, "b"))}}}}) // goes to n2
	return in
}

func waiting(class int32) func(*Input) {
	return func(in *Input) {
		in.World.Pending = append(in.World.Pending, &world.Pod{Name: "wait", UID: "wait", Class: class, Movable: true})
	}
}

// extra adds a node to a pool, which may not be removed.
func extra(pool string, change func(*world.Node)) func(*Input) {
	return func(in *Input) {
		n := withPods(in.World.Nodes[1], nil)
		n.Name, n.Pool = "n3", pool
		if pool == "other" {
			n.Taints = []world.Taint{{Key: "other", Effect: "NoSchedule"}}
		}
		change(n)
		in.World.Nodes = append(in.World.Nodes, n)
		in.Nodes = append(in.Nodes, Node{Fixed: "stays"})
	}
}

func TestPoolsInMotionAreLeftAlone(t *testing.T) {
	turn := func(in *Input) { in.Pools[0].Turn = true }
	for _, c := range []struct {
		name   string
		change []func(*Input)
		// moves says whether the node goes, and moving what is said of its pool.
		moves  bool
		moving string
	}{
		{"at rest", nil, true, ""},
		{"a pod is pending", []func(*Input){waiting(3)}, false, "1 pod is to be placed"},
		{"two pods are pending", []func(*Input){waiting(3), waiting(3)}, false, "2 pods are to be placed"},
		{"nothing can take the pod", []func(*Input){waiting(1)}, true, ""},
		{"the pod is for another pool", []func(*Input){waiting(2)}, true, ""},
		{"a node is in flight", []func(*Input){extra("general", func(n *world.Node) { n.InFlight, n.Initialized = true, false })}, false, "1 node is starting"},
		{"a node is not initialized", []func(*Input){extra("general", func(n *world.Node) { n.Initialized = false })}, false, "1 node is starting"},
		{"a node of another pool is starting", []func(*Input){extra("other", func(n *world.Node) { n.Initialized = false })}, true, ""},
		{"pods leave a node", []func(*Input){extra("general", func(n *world.Node) {
			n.Deleting, n.Pods = true, []*world.Pod{{Name: "leaves", UID: "leaves", Movable: true}}
		})}, false, "1 pod is to be placed"},
		{"daemons leave a node", []func(*Input){extra("general", func(n *world.Node) {
			n.Deleting, n.Pods = true, []*world.Pod{{Name: "leaves", UID: "leaves", Daemon: true}}
		})}, true, ""},
		{"pods are known to come", []func(*Input){func(in *Input) { in.Pools[0].Hold = "3 pods are just created" }}, false, ""},
		{"another pool is held", []func(*Input){func(in *Input) { in.Pools[1].Hold = "3 pods are just created" }}, true, ""},
		{"its turn, while a pod is pending", []func(*Input){waiting(3), turn}, true, "1 pod is to be placed"},
		{"its turn, though it is held", []func(*Input){turn, func(in *Input) { in.Pools[0].Hold = "3 pods are just created" }}, true, ""},
		{"its turn, while a node is starting", []func(*Input){turn, extra("general", func(n *world.Node) { n.Initialized = false })}, true, "1 node is starting"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := restless()
			for _, change := range c.change {
				change(in)
			}
			d := Decide(in, Options{}, noon)
			if got := len(d.Moves) == 1 && d.Moves[0].Nodes[0] == "n1"; got != c.moves || d.Moving["general"] != c.moving {
				t.Fatalf("moving %q\n%s", d.Moving, dump(in, d))
			}
			if c.moves {
				return
			}
			i := slices.IndexFunc(d.Kept, func(k Kept) bool { return k.Node == 0 })
			if why := d.Kept[i].Why.Line(); !strings.Contains(why, "pool general is not at rest: ") || !strings.Contains(why, c.moving+in.Pools[0].Hold) {
				t.Errorf("n1 stays: %s", why)
			}
		})
	}
}

// A pool in motion still gives up nodes that nothing is on or expected on, unless a pod waits for a node or it is not known what the pods
// need that come.
func TestD20_EmptyNodesDoNotWaitForAPoolInMotion(t *testing.T) {
	for _, c := range []struct {
		name   string
		change []func(*Input)
		goes   bool
	}{
		{"a node is starting", []func(*Input){extra("general", func(n *world.Node) { n.Initialized = false })}, true},
		{"a pod leaves another node", []func(*Input){extra("general", func(n *world.Node) {
			n.Deleting, n.Pods = true, []*world.Pod{{Name: "leaves", UID: "leaves", Class: 3, Movable: true}}
		})}, true},
		{"a pod waits for a node", []func(*Input){waiting(3)}, false},
		{"a pod waits for a node of another pool", []func(*Input){waiting(2)}, true},
		{"nothing can take the pod that waits", []func(*Input){waiting(1)}, true},
		{"the pool was in motion", []func(*Input){func(in *Input) { in.Pools[0].Hold = "it was in motion 3s ago" }}, true},
		{"pods have just been created", []func(*Input){func(in *Input) { in.Pools[0].Hold, in.Pools[0].Blind = "3 pods are just created", true }}, false},
		{"pods that may go first are on it", []func(*Input){extra("general", func(n *world.Node) { n.Initialized = false }), func(in *Input) {
			in.World.Nodes[0] = withPods(in.World.Nodes[0], []*world.Pod{{Name: "first", UID: "first", Movable: true}})
		}}, false},
	} {
		in := restless()
		in.World.Nodes[0], in.Nodes[0].Cost = withPods(in.World.Nodes[0], nil), 1
		for _, change := range c.change {
			change(in)
		}
		d := Decide(in, Options{}, noon)
		if goes := len(d.Moves) == 1 && d.Moves[0].Reason == Empty && d.Moves[0].Nodes[0] == "n1"; goes != c.goes {
			t.Errorf("%s: want %v\n%s", c.name, c.goes, dump(in, d))
		}
	}
}

// A pool in motion still gives up nodes that have drifted: that is not for their cost.
func TestDriftDoesNotWaitForAPoolInMotion(t *testing.T) {
	in := restless()
	in.Nodes[0].Drift, in.Nodes[0].DriftedAt = "NodePoolDrifted", noon
	in.Pools[0].Hold = "3 pods are just created"
	if d := Decide(in, Options{}, noon); len(d.Moves) != 1 || d.Moves[0].Reason != Drifted {
		t.Error(dump(in, d))
	}
}

// Pods that are moved for their cost do not go to nodes of a pool in motion: its room is for others.
func TestNodesOfAPoolInMotionTakeNoMovedPods(t *testing.T) {
	for _, hold := range []string{"", "3 pods are just created"} {
		in := restless()
		in.World.Pools[1].Taints = nil
		in.World.Nodes[1] = withPods(in.World.Nodes[1], in.World.Nodes[1].Pods)
		in.World.Nodes[1].Pool = "other"
		in.Pools[1].Hold = hold
		d := Decide(in, Options{}, noon)
		onto := len(d.Moves) == 1 && len(d.Moves[0].Filled) == 1
		if onto != (hold == "") {
			t.Errorf("the other pool is held: %q\n%s", hold, dump(in, d))
		}
	}
}

// A move for cost has to pay for its restarts within the horizon: a quarter of it when pods keep coming.
func TestD27_AMovePaysForItsRestarts(t *testing.T) {
	const saves = 0.2 // what n1 costs
	for _, c := range []struct {
		name     string
		restart  float64
		horizon  float64
		turn     bool
		nodeCost float64
		want     bool
	}{
		{"restarts cost nothing", 0, 0, false, 0, true},
		{"no horizon", 0.01, 0, false, 0, false},
		{"just paid", saves * 4 * 0.99, 4, false, 0, false}, // what the pod costs to run comes on top
		{"paid", saves*4 - 0.11, 4, false, 0, true},
		{"a shorter horizon", saves*4 - 0.11, 2, false, 0, false},
		{"in turn", saves*4 - 0.11, 4, true, 0, false},
		{"in turn, paid", saves - 0.11, 4, true, 0, true},
		{"the node costs something besides", saves*4 - 0.01, 4, false, 0.1, true},
	} {
		in := restless()
		in.Nodes[0].Restart, in.Pools[0].Horizon, in.Pools[0].Turn = c.restart, c.horizon, c.turn
		p := alike(in.World.Pools[0])
		p.NodeCost = c.nodeCost
		in.World.Pools[0] = p
		d := Decide(in, Options{}, noon)
		if got := len(d.Moves) == 1; got != c.want {
			t.Errorf("%s:\n%s", c.name, dump(in, d))
		}
	}
}

// Nodes with a pod that has not paid for its last move stay, unless they are to go for another reason.
func TestAPodThatHasNotPaidForItsMoveIsNotMovedAgain(t *testing.T) {
	in := restless()
	in.Nodes[0].Unpaid = "pod default/p1-0 was moved here for its cost 1m0s ago, and pays for that for another 9m0s"
	d := Decide(in, Options{}, noon)
	if len(d.Moves) != 0 || !strings.Contains(dump(in, d), "pays for that for another 9m0s") {
		t.Error(dump(in, d))
	}
	in.Nodes[0].Drift, in.Nodes[0].DriftedAt = "NodePoolDrifted", noon
	if d := Decide(in, Options{}, noon); len(d.Moves) != 1 {
		t.Error(dump(in, d))
	}
}

// Whatever the cluster: no node of a pool in motion goes for its cost, unless it has no pods and it is known what comes, or takes pods of
// those that do, and every move pays for what its pods say that a restart costs.
func TestPropertyCalm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		for i := range in.Pools {
			p := &in.Pools[i]
			p.Horizon, p.Turn = float64(rapid.IntRange(0, 8).Draw(t, "horizon")), one(t, "turn", 4)
			if one(t, "hold", 4) {
				p.Hold, p.Blind = "held", one(t, "blind", 2)
			}
		}
		for i := range in.Nodes {
			in.Nodes[i].Restart = float64(len(in.World.Nodes[i].Pods)) * float64(rapid.IntRange(0, 100).Draw(t, "restart")) / 1000
		}
		d := Decide(in, Options{}, noon)
		if faults := audit(in, d); len(faults) > 0 {
			t.Fatalf("%s\n%s", strings.Join(faults, "\n"), dump(in, d))
		}
		if faults := notCalm(in, d); len(faults) > 0 {
			t.Fatalf("%s\n%s", strings.Join(faults, "\n"), dump(in, d))
		}
	})
}

// notCalm lists what a decision does to pools in motion, and moves that do not pay.
func notCalm(in *Input, d *Decision) (faults []string) {
	pools, cost := map[string]*Pool{}, map[string]float64{}
	for i := range in.Pools {
		pools[in.Pools[i].Name] = &in.Pools[i]
	}
	for _, p := range in.World.Pools {
		cost[p.Name] = p.NodeCost
	}
	moves := func(pool string) bool {
		p := pools[pool]
		return p != nil && !p.Turn && (p.Hold != "" || d.Moving[pool] != "")
	}
	for _, m := range d.Moves {
		if m.Reason == Drifted || m.Reason == Unhealthy {
			continue
		}
		restarts, gain, horizon := 0.0, m.Saves, math.Inf(1)
		for k, node := range m.Remove {
			pool := in.World.Nodes[node].Pool
			if moves(pool) && (m.Reason != Empty || m.Evicts > 0 || pools[pool].Blind) {
				faults = append(faults, fmt.Sprintf("%s goes though its pool %s is in motion", m.Nodes[k], pool))
			}
			h := pools[pool].Horizon
			if pools[pool].Turn {
				h /= 4
			}
			restarts, gain, horizon = restarts+in.Nodes[node].Restart, gain+cost[pool], min(horizon, h)
		}
		for _, n := range m.Add {
			gain -= n.Pool.NodeCost
		}
		if m.Reason != Underutilized {
			continue
		}
		for _, f := range m.Filled {
			if moves(f.Node.Pool) {
				faults = append(faults, fmt.Sprintf("%s takes pods though its pool %s is in motion", f.Node.Name, f.Node.Pool))
			}
		}
		if gain*horizon < restarts-1e-9 {
			faults = append(faults, fmt.Sprintf("%v go for $%.4f/h over %.1f h, and %.4f of restarts", m.Nodes, gain, horizon, restarts))
		}
	}
	return faults
}

// alike is a pool with the fields of another.
func alike(p *world.Pool) *world.Pool {
	return &world.Pool{
		Name: p.Name, Weight: p.Weight, Need: p.Need, Labels: p.Labels, Taints: p.Taints, Provided: p.Provided, Limits: p.Limits,
		MaxNodes: p.MaxNodes, NodeCost: p.NodeCost, Types: p.Types, Static: p.Static, Refused: p.Refused,
	}
}
