package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/ledger"
	"karpenter/internal/state"
)

// topNode is a node as it is shown.
type topNode struct {
	Name         string    `json:"name"`
	Pool         string    `json:"pool,omitempty"`
	Type         string    `json:"instanceType,omitempty"`
	Zone         string    `json:"zone,omitempty"`
	CapacityType string    `json:"capacityType,omitempty"`
	Price        float64   `json:"pricePerHour"`
	Created      time.Time `json:"created,omitzero"`
	State        string    `json:"state"`
	CPU          topAmount `json:"cpuMillicores"`
	Memory       topAmount `json:"memoryBytes"`
	Pods         topAmount `json:"pods"`
	// Removable says whether the node could go now; empty while that is not known. Why is the reason that it stays or goes.
	Removable string  `json:"removable"`
	Why       string  `json:"why,omitempty"`
	Saves     float64 `json:"savesPerHour,omitempty"`
}

// topAmount is what is asked for of what there is.
type topAmount struct {
	Requested   int64 `json:"requested"`
	Allocatable int64 `json:"allocatable"`
}

// share is the part that is asked for.
func (a topAmount) share() float64 {
	if a.Allocatable <= 0 {
		return 0
	}
	return float64(a.Requested) / float64(a.Allocatable)
}

func (a *topAmount) add(b topAmount) {
	a.Requested += b.Requested
	a.Allocatable += b.Allocatable
}

// topPending is pods that wait for the same.
type topPending struct {
	Pods []string `json:"pods"`
	For  string   `json:"waitFor"`
	// Stuck says that nothing can be done for them.
	Stuck bool `json:"stuck,omitempty"`
}

// topTotal sums nodes up.
type topTotal struct {
	Nodes    int       `json:"nodes"`
	PerHour  float64   `json:"pricePerHour"`
	PerMonth float64   `json:"pricePerMonth"`
	Spot     int       `json:"spot"`
	CPU      topAmount `json:"cpuMillicores"`
	Memory   topAmount `json:"memoryBytes"`
	Pods     topAmount `json:"pods"`
	Pending  int       `json:"pendingPods"`
}

// topModel is a cluster at one moment.
type topModel struct {
	From    string       `json:"from"`
	At      time.Time    `json:"at"`
	Total   topTotal     `json:"total"`
	Nodes   []topNode    `json:"nodes"`
	Pending []topPending `json:"pending"`

	// decided says that Removable is known, of this moment or of a little earlier.
	decided bool
	pools   []string
}

// topJudgement is what is known of whether nodes could go, by name.
type topJudgement map[string]topVerdict

type topVerdict struct {
	goes  bool
	why   string
	saves float64
}

// The states of a node.
const (
	topStarting = "starting"
	topLeaving  = "leaving"
	topDrifted  = "drifted"
	topCordoned = "cordoned"
	topNotReady = "notready"
	topReady    = "ready"
)

// newTopModel reads a view.
func newTopModel(loaded *Loaded, view *state.View) *topModel {
	r := loaded.Recording
	m := &topModel{From: loaded.From, At: r.At, Nodes: make([]topNode, 0, len(view.Nodes)), Pending: []topPending{}}
	pools := map[string]bool{}
	for _, n := range view.Nodes {
		x := newTopNode(view, n)
		m.Nodes = append(m.Nodes, x)
		m.Total.Nodes++
		m.Total.PerHour += x.Price
		if x.CapacityType == world.CapacitySpot {
			m.Total.Spot++
		}
		m.Total.CPU.add(x.CPU)
		m.Total.Memory.add(x.Memory)
		m.Total.Pods.add(x.Pods)
		if x.Pool != "" && !pools[x.Pool] {
			pools[x.Pool] = true
			m.pools = append(m.pools, x.Pool)
		}
	}
	slices.Sort(m.pools)
	m.Total.PerMonth = m.Total.PerHour * hoursPerMonth
	return m
}

func newTopNode(view *state.View, n *state.Node) topNode {
	w := n.World
	label := func(key string) string { v, _ := w.Labels.Get(key); return v }
	x := topNode{
		Name: w.Name, Pool: w.Pool, Type: label(world.LabelInstanceType), Zone: label(world.LabelZone), CapacityType: label(world.LabelCapacityType),
		Price: w.Price, State: topState(n),
	}
	switch {
	case n.Claim != nil:
		x.Created = n.Claim.CreationTimestamp.Time
	case n.Object != nil:
		x.Created = n.Object.CreationTimestamp.Time
	}
	load := w.Load(view.World.Classes)
	x.CPU = topAmount{load.Requests.Get(world.CPU), w.Allocatable.Get(world.CPU)}
	x.Memory = topAmount{load.Requests.Get(world.Memory), w.Allocatable.Get(world.Memory)}
	x.Pods = topAmount{int64(len(w.Pods)), w.Allocatable.Get(world.PodSlot)}
	return x
}

// topState says how far a node has come.
func topState(n *state.Node) string {
	switch {
	case n.World.Deleting:
		return topLeaving
	case n.World.InFlight || !n.World.Initialized:
		return topStarting
	case n.Claim != nil && n.Claim.StatusConditions().IsTrue(karpv1.ConditionDrifted):
		return topDrifted
	case n.Object == nil:
		return topStarting
	case n.Object.Spec.Unschedulable:
		return topCordoned
	}
	for _, c := range n.Object.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return topNotReady
		}
	}
	return topReady
}

// judge asks of every node whether it could go.
func judge(r *ledger.Recording, view *state.View) topJudgement {
	in, opt := r.Input(view), r.Options.Disrupt()
	opt.Pack.Workers = runtime.NumCPU()
	d := disrupt.Decide(in, opt, r.At)
	out := topJudgement{}
	for _, m := range d.Moves {
		saves := m.Saves / float64(max(1, len(m.Nodes)))
		for k, name := range m.Nodes {
			kind, _ := in.World.Nodes[m.Remove[k]].Labels.Get(world.LabelInstanceType)
			text := strings.TrimPrefix(m.Why.Line(), name+" "+kind+": ") // the row says that already
			out[name] = topVerdict{true, string(m.Reason) + ": " + text, saves}
		}
	}
	for _, k := range d.Kept {
		out[in.World.Nodes[k.Node].Name] = topVerdict{why: k.Why.Line()}
	}
	return out
}

// apply shows what is known of whether nodes could go.
func (m *topModel) apply(j topJudgement) {
	for i := range m.Nodes {
		n := &m.Nodes[i]
		v, ok := j[n.Name]
		switch {
		case !ok:
		case v.goes:
			n.Removable, n.Why, n.Saves = "yes", v.why, v.saves
		default:
			n.Removable, n.Why = "no", v.why
		}
	}
	m.decided = j != nil
}

// wait says what pods wait for.
func (m *topModel) wait(r *ledger.Recording, view *state.View) {
	snap, opt := r.World(view), r.Options.Pack()
	opt.Workers = runtime.NumCPU()
	plan := pack.Solve(snap, opt)
	m.Total.Pending = plan.Pods
	for _, u := range plan.Unplaced {
		m.Pending = append(m.Pending, topPending{Pods: podNames(snap, u.Pods), For: shortReason(u.Reasons), Stuck: true})
	}
	for _, n := range plan.Nodes {
		c := n.Choices[0]
		m.Pending = append(m.Pending, topPending{
			Pods: podNames(snap, n.Pods), For: fmt.Sprintf("a new node of pool %s: %s %s in %s, $%.4f/h", n.Pool.Name, c.Type.Name, c.Offering.CapacityType, c.Offering.Zone, c.Offering.Price),
		})
	}
	for _, f := range plan.Existing {
		what := "kube-scheduler, to put them on " + f.Node.Name
		if f.Node.InFlight || !f.Node.Initialized {
			what = f.Node.Name + " to start"
		}
		m.Pending = append(m.Pending, topPending{Pods: podNames(snap, f.Pods), For: what})
	}
	for i := range m.Pending {
		slices.Sort(m.Pending[i].Pods)
	}
	slices.SortStableFunc(m.Pending, func(a, b topPending) int {
		return cmp.Or(-compareBool(a.Stuck, b.Stuck), strings.Compare(a.Pods[0], b.Pods[0]))
	})
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
