package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// Pending is pods that are pending for the same reason.
type Pending struct {
	// Pods are written namespace/name: all of them, or the first few of Count.
	Pods []string     `json:"pods"`
	Why  []why.Reason `json:"why,omitempty"`
	// State is one of the words below, and Summary says in one line what they wait for, or the main reason that they are unschedulable.
	State   string `json:"state,omitempty"`
	Summary string `json:"summary,omitempty"`
	Count   int    `json:"count,omitempty"`
	// Since is when the first of them was made; CPU and Memory are what one of them requests.
	Since  time.Time `json:"since,omitzero"`
	CPU    int64     `json:"cpuMillicores,omitempty"`
	Memory int64     `json:"memoryBytes,omitempty"`
	// Already says of a forecast that they are pending without the change too.
	Already bool `json:"already,omitempty"`
}

// What pods wait for.
const (
	PendingNew           = "new"           // the next plan
	PendingLaunch        = "launch"        // a node that is about to be launched
	PendingRoom          = "room"          // a node that is there or starting
	PendingUnschedulable = "unschedulable" // something that has to change first
)

// Unschedulable is a group of pods that nothing can be done for, with the reasons that they share.
func Unschedulable(pods []string, reasons []why.Reason) Pending {
	return Pending{Pods: pods, Why: reasons, State: PendingUnschedulable, Summary: MainReason(reasons), Count: len(pods)}
}

// maxPools is how many pools a reason names before it counts the rest.
const maxPools = 3

// MainReason is what says most in a few words: a likely mistake, else which rule stands in the way in each pool.
func MainReason(list []why.Reason) string {
	var pools []string
	for _, r := range list {
		switch r.Code {
		case why.Hint:
			return r.Text
		case why.NoPool:
			pools = append(pools, r.Text)
		case why.Requirement:
			rule := strings.TrimPrefix(Headline(r), r.Text+": ")
			if _, after, ok := strings.Cut(rule, " by "); ok {
				rule = after
			}
			_, pool, _ := strings.Cut(r.Text, " of pool ")
			pools = append(pools, fmt.Sprintf("pool %s cannot take it: %s", pool, rule))
		}
	}
	switch {
	case len(pools) > maxPools:
		return fmt.Sprintf("%s; and %d other pools cannot either", strings.Join(pools[:maxPools], "; "), len(pools)-maxPools)
	case len(pools) > 0:
		return strings.Join(pools, "; ")
	case len(list) > 0:
		return Headline(list[0])
	}
	return "no reason is known"
}

// Headline is a reason with what it rests on most.
func Headline(r why.Reason) string {
	if len(r.Because) == 0 {
		return r.Text
	}
	most := r.Because[0]
	for _, b := range r.Because[1:] {
		if b.Count > most.Count && b.Of > 0 {
			most = b
		}
	}
	return r.Text + ": " + Headline(most)
}

// Outlook is what pending pods are looked at with.
type Outlook struct {
	View *state.View
	// World is the view's world, or that with pods where they are expected.
	World *world.Snapshot
	// Plan is the latest plan, which may be older than the view, and PlanAt when it was made; nil if there is none.
	Plan   *pack.Plan
	PlanAt time.Time
	// MaxGroups and MaxNames bound the answer; 0 is no bound.
	MaxGroups, MaxNames int
}

// pendingGroups collects pods that wait for the same.
type pendingGroups struct {
	*Outlook
	// left are the pods that nothing has been said about. A plan that was made earlier knows them as other values with the same UID; pods
	// of files that people write may have none.
	left  map[*world.Pod]bool
	byUID map[string]*world.Pod
	list  []*Pending
	at    map[groupKey]int
	// launches and fills are what the plan does for pods that still are pending.
	launches []Launch
	fills    []Fill
}

type groupKey struct {
	class   int32
	summary string
}

// Launch is a node that the plan launches, with those of its pods that still are pending; Fill one that takes more of them.
type (
	Launch struct {
		Node *pack.NewNode
		Pods []*world.Pod
	}
	Fill struct {
		Node *world.Node
		Pods []*world.Pod
	}
)

// PendingPods says what pods wait for: those that are unschedulable first, then by name. It also returns which nodes of the plan
// are still to be launched and filled. A plan has places for pods of nodes that are removed too; those run, and wait for nothing.
func PendingPods(o Outlook) ([]*Pending, []Launch, []Fill) {
	pods := o.View.World.Pending
	g := &pendingGroups{Outlook: &o, left: make(map[*world.Pod]bool, len(pods)), byUID: make(map[string]*world.Pod, len(pods)), list: []*Pending{}, at: map[groupKey]int{}}
	for _, p := range pods {
		g.left[p] = true
		if p.UID != "" {
			g.byUID[p.UID] = p
		}
	}
	if len(pods) > 0 {
		g.expected()
		g.plan()
		g.add(g.take(pods), Pending{State: PendingNew, Summary: "the next plan: it is new"})
	}
	for _, x := range g.list {
		slices.Sort(x.Pods)
	}
	slices.SortStableFunc(g.list, func(a, b *Pending) int {
		return cmp.Or(rank(a)-rank(b), strings.Compare(a.Pods[0], b.Pods[0]))
	})
	return g.list, g.launches, g.fills
}

func rank(p *Pending) int {
	if p.State == PendingUnschedulable {
		return 0
	}
	return 1
}

// take is those of the pods that are pending and that nothing has been said about, as the view knows them.
func (g *pendingGroups) take(pods []*world.Pod) []*world.Pod {
	var out []*world.Pod
	for _, p := range pods {
		if same := g.byUID[p.UID]; same != nil {
			p = same
		}
		if g.left[p] {
			delete(g.left, p)
			out = append(out, p)
		}
	}
	return out
}

// add puts pods into the group of those like them that wait for the same.
func (g *pendingGroups) add(pods []*world.Pod, what Pending) {
	s := g.View.World
	for _, p := range pods {
		k := groupKey{p.Class, what.State + what.Summary}
		i, ok := g.at[k]
		if !ok {
			if g.MaxGroups > 0 && len(g.list) == g.MaxGroups {
				return
			}
			x, r := what, s.Classes[p.Class].Requests
			x.CPU, x.Memory = r.Get(world.CPU), r.Get(world.Memory)
			i = len(g.list)
			g.at[k], g.list = i, append(g.list, &x)
		}
		x := g.list[i]
		x.Count++
		if at := time.Unix(p.Created, 0).UTC(); p.Created > 0 && (x.Since.IsZero() || at.Before(x.Since)) {
			x.Since = at
		}
		if g.MaxNames == 0 || len(x.Pods) < g.MaxNames {
			x.Pods = append(x.Pods, s.PodName(p))
		}
	}
}

// expected is about pods that the world has on nodes though they are not bound: a claim has been made for them.
func (g *pendingGroups) expected() {
	if g.World == g.View.World || len(g.World.Pending) >= len(g.View.World.Pending) {
		return
	}
	for _, n := range g.World.Nodes {
		if n.InFlight || !n.Initialized {
			g.add(g.take(n.Pods), Pending{State: PendingRoom, Summary: room(n)})
		}
	}
}

func (g *pendingGroups) plan() {
	if g.Plan == nil {
		return
	}
	launched := g.launched()
	for _, n := range g.Plan.Nodes {
		pods := g.take(n.Pods)
		switch {
		case len(pods) == 0:
		case launched[n.Pool.Name] > 0:
			launched[n.Pool.Name]--
			g.add(pods, Pending{State: PendingRoom, Summary: "a node of pool " + n.Pool.Name + " that is starting"})
		default:
			m := NewNode(g.View.World, n)
			g.launches = append(g.launches, Launch{n, pods})
			g.add(pods, Pending{State: PendingLaunch, Summary: "a new node of pool " + m.Pool + ": " + m.Words()})
		}
	}
	for _, f := range g.Plan.Existing {
		if pods := g.take(f.Pods); len(pods) > 0 {
			g.fills = append(g.fills, Fill{f.Node, pods})
			g.add(pods, Pending{State: PendingRoom, Summary: room(f.Node)})
		}
	}
	for _, u := range g.Plan.Unplaced {
		g.add(g.take(u.Pods), Unschedulable(nil, u.Reasons))
	}
}

// launched counts nodes by pool that have been launched since the plan was made: they stand for its first ones.
func (g *pendingGroups) launched() map[string]int {
	out := map[string]int{}
	for _, n := range g.View.Nodes {
		if n.Claim != nil && n.World.InFlight && !n.Claim.CreationTimestamp.Add(time.Second).Before(g.PlanAt) {
			out[n.World.Pool]++
		}
	}
	return out
}

func room(n *world.Node) string {
	switch {
	case n.InFlight:
		return "node " + cmp.Or(n.Claim, n.Name) + ", which is starting and has room for it"
	case !n.Initialized:
		return "node " + n.Name + ", which is starting and has room for it"
	}
	return "kube-scheduler: node " + n.Name + " has room for it"
}
