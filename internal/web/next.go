package web

import (
	"fmt"
	"slices"
	"time"

	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// next is what has been decided and has not been carried out yet: what the picture of the fleet shows as "after".
type next struct {
	// PlanAt and DecisionAt are in seconds since 1970.
	PlanAt     int64       `json:"planAt,omitempty"`
	DecisionAt int64       `json:"decisionAt,omitempty"`
	Add        []planned   `json:"add,omitempty"`
	Fill       []filled    `json:"fill,omitempty"`
	Moves      []moveModel `json:"moves,omitempty"`
}

// planned is a node that will be launched.
type planned struct {
	Pool   string       `json:"pool"`
	Type   string       `json:"type"`
	Zone   string       `json:"zone"`
	Market string       `json:"market"`
	Price  float64      `json:"price"`
	CPU    int64        `json:"cpu"`
	Memory int64        `json:"memory"`
	Pods   podList      `json:"pods"`
	Why    []why.Reason `json:"why,omitempty"`
}

// filled is a node that takes more pods.
type filled struct {
	Key  string  `json:"key"`
	Pods podList `json:"pods"`
}

// moveModel is a change that pays for itself.
type moveModel struct {
	Reason string     `json:"reason"`
	Remove []string   `json:"remove"`
	Add    []planned  `json:"add,omitempty"`
	Fill   []filled   `json:"fill,omitempty"`
	Evicts int        `json:"evicts"`
	Saves  float64    `json:"saves"`
	Why    why.Reason `json:"why"`
}

// waiting is a group of equal pods that wait for the same thing.
type waiting struct {
	// Pods are the names of the first few, Count is how many there are.
	Pods  []string `json:"pods"`
	Count int      `json:"count"`
	// Since is when the first of them was made, in seconds since 1970; CPU and Memory are what one of them asks for.
	Since  int64        `json:"since"`
	CPU    int64        `json:"cpu"`
	Memory int64        `json:"memory"`
	State  string       `json:"state"`
	Wait   string       `json:"wait"`
	Key    string       `json:"key,omitempty"`
	Why    []why.Reason `json:"why,omitempty"`
}

// What pods wait for.
const (
	waitPlan   = "plan"   // the next plan
	waitLaunch = "launch" // a node that is about to be asked for
	waitRoom   = "room"   // a node that is there or starting
	waitStuck  = "stuck"  // something that has to change first
)

const (
	maxWaiting = 500 // groups of pods shown; more is a cluster in distress, and the first ones say why
	maxNames   = 20  // pods named in a group
	maxMoves   = 200 // moves shown
)

// ahead puts together what a plan and a decision will do, as far as it is not done yet.
type ahead struct {
	view    *state.View
	next    next
	pending map[string]*world.Pod // by UID, those that nobody has spoken for
	groups  []*waiting
	at      map[groupKey]int
}

type groupKey struct {
	class int32
	what  string
}

// lookAhead is what comes next, and what each waiting pod waits for.
func lookAhead(v *state.View, src Source) (*next, []*waiting) {
	a := &ahead{view: v, pending: pendingUIDs(v.World), at: map[groupKey]int{}, groups: []*waiting{}}
	if plan, at := src.Plan(); plan != nil {
		a.next.PlanAt = at.Unix()
		a.plan(plan, at)
	}
	for _, p := range v.World.Pending {
		if _, open := a.pending[p.UID]; open {
			a.wait(p, waiting{State: waitPlan, Wait: "the next plan: it is new"})
		}
	}
	if d, in, at := src.Decision(); d != nil && in != nil {
		a.next.DecisionAt = at.Unix()
		a.moves(d, in.World)
	}
	return &a.next, a.groups
}

// wait adds a pod to the group of those that wait for the same.
func (a *ahead) wait(p *world.Pod, w waiting) {
	delete(a.pending, p.UID)
	k := groupKey{p.Class, w.State + w.Key + w.Wait}
	i, ok := a.at[k]
	if !ok {
		if len(a.groups) == maxWaiting {
			return
		}
		r := a.view.World.Classes[p.Class].Requests
		w.Since, w.CPU, w.Memory = p.Created, r.Get(world.CPU), mebi(r.Get(world.Memory))
		i, a.at[k] = len(a.groups), len(a.groups)
		a.groups = append(a.groups, &w)
	}
	g := a.groups[i]
	g.Count++
	g.Since = min(g.Since, p.Created)
	if len(g.Pods) < maxNames {
		g.Pods = append(g.Pods, a.view.World.PodName(p))
	}
}

// still is those of the pods that need a node in this view, as this view knows them.
func (a *ahead) still(pods []*world.Pod) []*world.Pod {
	var out []*world.Pod
	for _, p := range pods {
		if here := a.pending[p.UID]; here != nil {
			out = append(out, here)
		}
	}
	return out
}

func (a *ahead) plan(plan *pack.Plan, at time.Time) {
	asked := a.askedSince(at)
	for _, n := range plan.Nodes {
		pods := a.still(n.Pods)
		if len(pods) == 0 {
			continue
		}
		if asked[n.Pool.Name] > 0 {
			asked[n.Pool.Name]--
			for _, p := range pods {
				a.wait(p, waiting{State: waitRoom, Wait: "a node of pool " + n.Pool.Name + " that is starting"})
			}
			continue
		}
		m := plannedNode(n, podRows(a.view.World, pods))
		a.next.Add = append(a.next.Add, m)
		for _, p := range pods {
			a.wait(p, waiting{State: waitLaunch, Wait: fmt.Sprintf("a new node of pool %s: %s in %s, %s, $%.4f/h", m.Pool, m.Type, m.Zone, m.Market, m.Price)})
		}
	}
	for _, f := range plan.Existing {
		pods := a.still(f.Pods)
		if len(pods) == 0 {
			continue
		}
		key := keyOf(f.Node)
		a.next.Fill = append(a.next.Fill, filled{Key: key, Pods: podRows(a.view.World, pods)})
		for _, p := range pods {
			a.wait(p, waiting{State: waitRoom, Key: key, Wait: a.room(f.Node)})
		}
	}
	for _, u := range plan.Unplaced {
		for _, p := range a.still(u.Pods) {
			a.wait(p, waiting{State: waitStuck, Wait: firstLine(u.Reasons), Why: u.Reasons})
		}
	}
}

// askedSince counts nodes by pool that have been asked for since a plan was made: they stand for its first ones.
func (a *ahead) askedSince(at time.Time) map[string]int {
	out := map[string]int{}
	for _, n := range a.view.Nodes {
		if n.Claim != nil && n.World.InFlight && !n.Claim.CreationTimestamp.Add(time.Second).Before(at) {
			out[n.World.Pool]++
		}
	}
	return out
}

func (a *ahead) room(n *world.Node) string {
	if n.InFlight || !n.Initialized {
		return "node " + nameOf(n) + ", which is starting and has room for it"
	}
	return "the scheduler: node " + nameOf(n) + " has room for it"
}

func nameOf(n *world.Node) string {
	if n.InFlight && n.Claim != "" {
		return n.Claim
	}
	return n.Name
}

func firstLine(reasons []why.Reason) string {
	for _, code := range []why.Code{why.Hint, why.NearestMiss} { // these say most in one line
		for i := range reasons {
			if reasons[i].Code == code {
				return reasons[i].Text
			}
		}
	}
	if len(reasons) == 0 {
		return "nothing can be done for it"
	}
	return reasons[0].Text
}

func plannedNode(n *pack.NewNode, pods podList) planned {
	m := planned{Pool: n.Pool.Name, Price: n.Price(), Pods: pods, Why: n.Why}
	if len(n.Choices) == 0 {
		return m
	}
	c := n.Choices[0]
	room := c.Type.Allocatable
	if c.Offering.Allocatable != nil {
		room = c.Offering.Allocatable
	}
	m.Type, m.Zone, m.Market = c.Type.Name, c.Offering.Zone, c.Offering.CapacityType
	m.CPU, m.Memory = room.Get(world.CPU), mebi(room.Get(world.Memory))
	return m
}

// moves lists those of which every node is still there and has not begun to leave.
func (a *ahead) moves(d *disrupt.Decision, s *world.Snapshot) {
	here := map[string]bool{}
	for _, n := range a.view.World.Nodes {
		here[keyOf(n)] = !n.Deleting
	}
	for _, m := range d.Moves {
		if len(a.next.Moves) == maxMoves {
			return
		}
		out := moveModel{Reason: string(m.Reason), Evicts: m.Evicts, Saves: m.Saves, Why: m.Why}
		for _, i := range m.Remove {
			out.Remove = append(out.Remove, keyOf(s.Nodes[i]))
		}
		if slices.ContainsFunc(out.Remove, func(key string) bool { return !here[key] }) {
			continue
		}
		for _, n := range m.Add {
			out.Add = append(out.Add, plannedNode(n, podRows(s, n.Pods)))
		}
		for _, f := range m.Filled {
			out.Fill = append(out.Fill, filled{Key: keyOf(f.Node), Pods: podRows(s, f.Pods)})
		}
		a.next.Moves = append(a.next.Moves, out)
	}
}
