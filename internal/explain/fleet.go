package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// HoursPerMonth is what monthly figures are made with: a twelfth of a year.
const HoursPerMonth = 730

// Fleet is the nodes of a cluster at one moment, a row for each, and what pods wait for. It has no pods of nodes, only how many
// there are, so that it stays small.
type Fleet struct {
	At      time.Time   `json:"at"`
	Total   FleetTotal  `json:"total"`
	Nodes   []FleetNode `json:"nodes"`
	Pending []Waiting   `json:"pending"`
	// Decided says that Removable is known, of this moment or of a little earlier.
	Decided bool `json:"decided"`
}

// FleetNode is a node as a row.
type FleetNode struct {
	Name         string    `json:"name"`
	Pool         string    `json:"pool,omitempty"`
	Type         string    `json:"instanceType,omitempty"`
	Zone         string    `json:"zone,omitempty"`
	CapacityType string    `json:"capacityType,omitempty"`
	Price        float64   `json:"pricePerHour"`
	Created      time.Time `json:"created,omitzero"`
	State        string    `json:"state"`
	CPU          Amount    `json:"cpuMillicores"`
	Memory       Amount    `json:"memoryBytes"`
	Pods         Amount    `json:"pods"`
	// Removable says whether the node could go now; empty while that is not known. Why is the reason that it stays or goes.
	Removable string  `json:"removable"`
	Why       string  `json:"why,omitempty"`
	Saves     float64 `json:"savesPerHour,omitempty"`
}

// Amount is what is asked for of what there is.
type Amount struct {
	Requested   int64 `json:"requested"`
	Allocatable int64 `json:"allocatable"`
}

// Share is the part that is asked for.
func (a Amount) Share() float64 {
	if a.Allocatable <= 0 {
		return 0
	}
	return float64(a.Requested) / float64(a.Allocatable)
}

func (a *Amount) add(b Amount) {
	a.Requested += b.Requested
	a.Allocatable += b.Allocatable
}

// Waiting is pods that wait for the same.
type Waiting struct {
	Pods []string `json:"pods"`
	For  string   `json:"waitFor"`
	// Stuck says that nothing can be done for them.
	Stuck bool `json:"stuck,omitempty"`
}

// FleetTotal sums nodes up.
type FleetTotal struct {
	Nodes    int     `json:"nodes"`
	PerHour  float64 `json:"pricePerHour"`
	PerMonth float64 `json:"pricePerMonth"`
	Spot     int     `json:"spot"`
	CPU      Amount  `json:"cpuMillicores"`
	Memory   Amount  `json:"memoryBytes"`
	Pods     Amount  `json:"pods"`
	Pending  int     `json:"pendingPods"`
}

// The states of a node.
const (
	NodeStarting = "starting"
	NodeLeaving  = "deleting"
	NodeDrifted  = "drifted"
	NodeCordoned = "cordoned"
	NodeNotReady = "notready"
	NodeReady    = "ready"
)

// NewFleet reads a view. snap is its world with pods where they are expected, and plan the latest plan for those that wait; pods
// that it does not know, and all pods if it is nil, wait for the next one.
func NewFleet(view *state.View, snap *world.Snapshot, plan *pack.Plan, now time.Time) *Fleet {
	f := &Fleet{At: now, Nodes: make([]FleetNode, 0, len(view.Nodes)), Pending: []Waiting{}}
	for _, n := range view.Nodes {
		x := newFleetNode(view, n)
		f.Nodes = append(f.Nodes, x)
		f.Total.Nodes++
		f.Total.PerHour += x.Price
		if x.CapacityType == world.CapacitySpot {
			f.Total.Spot++
		}
		f.Total.CPU.add(x.CPU)
		f.Total.Memory.add(x.Memory)
		f.Total.Pods.add(x.Pods)
	}
	f.Total.PerMonth = f.Total.PerHour * HoursPerMonth
	f.wait(snap, plan)
	return f
}

// Fleet is the fleet of the cluster's view, as of now.
func (c *Cluster) Fleet(plan *pack.Plan, now time.Time) *Fleet {
	return NewFleet(c.view, c.world, plan, now)
}

func newFleetNode(view *state.View, n *state.Node) FleetNode {
	w := n.World
	label := func(key string) string { v, _ := w.Labels.Get(key); return v }
	x := FleetNode{
		Name: w.Name, Pool: w.Pool, Type: label(world.LabelInstanceType), Zone: label(world.LabelZone), CapacityType: w.CapacityType(),
		Price: w.Price, State: nodeState(n),
	}
	switch {
	case n.Claim != nil:
		x.Created = n.Claim.CreationTimestamp.UTC()
	case n.Object != nil:
		x.Created = n.Object.CreationTimestamp.UTC()
	}
	load := w.Load(view.World.Classes)
	x.CPU = Amount{load.Requests.Get(world.CPU), w.Allocatable.Get(world.CPU)}
	x.Memory = Amount{load.Requests.Get(world.Memory), w.Allocatable.Get(world.Memory)}
	x.Pods = Amount{int64(len(w.Pods)), w.Allocatable.Get(world.PodSlot)}
	return x
}

// nodeState says how far a node has come.
func nodeState(n *state.Node) string {
	switch {
	case n.World.Deleting:
		return NodeLeaving
	case n.World.InFlight || !n.World.Initialized:
		return NodeStarting
	case n.Claim != nil && n.Claim.StatusConditions().IsTrue(v1.ConditionDrifted):
		return NodeDrifted
	case n.Object == nil:
		return NodeStarting
	case n.Object.Spec.Unschedulable:
		return NodeCordoned
	}
	for _, c := range n.Object.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return NodeNotReady
		}
	}
	return NodeReady
}

// Verdicts is what is known of whether nodes could go, by name.
type Verdicts map[string]verdict

type verdict struct {
	goes  bool
	why   string
	saves float64
}

// Judge reads a decision about nodes, and what it was made from.
func Judge(in *disrupt.Input, d *disrupt.Decision) Verdicts {
	out := Verdicts{}
	for _, m := range d.Moves {
		saves := m.Saves / float64(max(1, len(m.Nodes)))
		for k, name := range m.Nodes {
			kind, _ := in.World.Nodes[m.Remove[k]].Labels.Get(world.LabelInstanceType)
			text := strings.TrimPrefix(m.Why.Line(), name+" "+kind+": ") // the row says that already
			out[name] = verdict{true, string(m.Reason) + ": " + text, saves}
		}
	}
	for _, k := range d.Kept {
		out[in.World.Nodes[k.Node].Name] = verdict{why: k.Why.Line()}
	}
	return out
}

// Apply shows what is known of whether nodes could go; nil is that nothing is known. Nodes that have begun to leave since they were
// judged do go, and are not asked about any more.
func (f *Fleet) Apply(known Verdicts) {
	for i := range f.Nodes {
		n := &f.Nodes[i]
		v, ok := known[n.Name]
		switch {
		case !ok:
		case !v.goes:
			n.Removable, n.Why = "no", v.why
		case n.State != NodeLeaving:
			n.Removable, n.Why, n.Saves = "yes", v.why, v.saves
		}
	}
	f.Decided = known != nil
}

// wait says what pods wait for. A plan also has places for pods of nodes that leave; those run, and wait for nothing yet.
func (f *Fleet) wait(snap *world.Snapshot, plan *pack.Plan) {
	f.Total.Pending = len(snap.Pending)
	left := newStillWaiting(snap)
	add := func(pods []*world.Pod, w Waiting) {
		if w.Pods = left.take(pods); len(w.Pods) > 0 {
			f.Pending = append(f.Pending, w)
		}
	}
	if plan != nil {
		for _, u := range plan.Unplaced {
			add(u.Pods, Waiting{For: shortReason(u.Reasons), Stuck: true})
		}
		for _, n := range plan.Nodes {
			c := n.Choices[0]
			add(n.Pods, Waiting{For: fmt.Sprintf("a new node of pool %s: %s %s in %s, %s", n.Pool.Name, c.Type.Name, c.Offering.CapacityType, c.Offering.Zone, money(c.Offering.Price))})
		}
		for _, x := range plan.Existing {
			what := "kube-scheduler, to put them on " + x.Node.Name
			if x.Node.InFlight || !x.Node.Initialized {
				what = x.Node.Name + " to start"
			}
			add(x.Pods, Waiting{For: what})
		}
	}
	add(snap.Pending, Waiting{For: "the next plan: they are new"})
	slices.SortStableFunc(f.Pending, func(a, b Waiting) int {
		return cmp.Or(-compareBool(a.Stuck, b.Stuck), strings.Compare(a.Pods[0], b.Pods[0]))
	})
}

// stillWaiting is the pods that wait and that nothing has been said about. A plan that was made earlier knows them as other
// values with the same UID; pods of files that people write may have none.
type stillWaiting struct {
	snap  *world.Snapshot
	here  map[*world.Pod]bool
	byUID map[string]*world.Pod
}

func newStillWaiting(snap *world.Snapshot) *stillWaiting {
	w := &stillWaiting{snap: snap, here: make(map[*world.Pod]bool, len(snap.Pending)), byUID: make(map[string]*world.Pod, len(snap.Pending))}
	for _, p := range snap.Pending {
		w.here[p] = true
		if p.UID != "" {
			w.byUID[p.UID] = p
		}
	}
	return w
}

// take names those of the pods that are among them, which then are not any more.
func (w *stillWaiting) take(pods []*world.Pod) (names []string) {
	for _, p := range pods {
		if same := w.byUID[p.UID]; same != nil {
			p = same
		}
		if w.here[p] {
			delete(w.here, p)
			names = append(names, w.snap.PodName(p))
		}
	}
	slices.Sort(names)
	return names
}

// shortReason is the one that says most: what came nearest, or what was looked at last.
func shortReason(reasons []why.Reason) string {
	if len(reasons) == 0 {
		return "nothing fits"
	}
	best := reasons[len(reasons)-1]
	for _, r := range reasons {
		if r.Code == why.NearestMiss {
			best = r
		}
	}
	return best.Line()
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
