package model

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// HoursPerMonth is what monthly figures are made with: a twelfth of a year.
const HoursPerMonth = 730

// Fleet is the nodes of a cluster at one moment, a row for each, and the pending pods. It has no pods of nodes, only how many
// there are, so that it stays small.
type Fleet struct {
	Type
	At time.Time `json:"at"`
	// From says where it was had from, and Estimate what prices are if nobody in the cluster has said it.
	From     string      `json:"from,omitempty"`
	Estimate string      `json:"estimate,omitempty"`
	Totals   Totals      `json:"totals"`
	Nodes    []FleetNode `json:"nodes"`
	Pending  []*Pending  `json:"pending"`
	// Static are the static pools.
	Static []StaticPool `json:"staticPools,omitempty"`
	// Decided says that Removable is known, of this moment or of a little earlier.
	Decided bool `json:"decided"`
}

// FleetNode is a node as a row.
type FleetNode struct {
	Node
	Created time.Time `json:"created,omitzero"`
	// State is one of the words below; Notes is what else is worth knowing at a glance.
	State    string   `json:"state"`
	Notes    []string `json:"notes,omitempty"`
	CPU      Amount   `json:"cpuMillicores"`
	Memory   Amount   `json:"memoryBytes"`
	PodSlots Amount   `json:"podSlots"`
	// Other are further resources that the node has: GPUs and the like.
	Other []OtherAmount `json:"other,omitempty"`
	// Spare is the room that the node holds for CapacityBuffers, as decided last. No pod requests it, so that no amount above counts it.
	Spare []Spare `json:"spare,omitempty"`
	// Removable says whether the node could be removed now, yes or no; it is missing while that is not known. Reason and Why are those of the move, or Why it stays.
	Removable string      `json:"removable,omitempty"`
	Reason    string      `json:"reason,omitempty"`
	Why       *why.Reason `json:"why,omitempty"`
	Saves     float64     `json:"savesPerHour,omitempty"`
}

// Amount is what pods request of what they may use.
type Amount struct {
	Requested   int64 `json:"requested"`
	Allocatable int64 `json:"allocatable"`
}

// OtherAmount is an amount of a resource with a name.
type OtherAmount struct {
	Name string `json:"name"`
	Amount
}

// Share is the part that is requested.
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

// The states of a node.
const (
	NodeLaunching = "launching" // its instance is being asked for
	NodeJoining   = "joining"   // its instance is there and has not registered
	NodeStarting  = "starting"  // it has registered and is not initialized
	NodeReady     = "ready"
	NodeNotReady  = "not ready"
	NodeDeleting  = "deleting"
)

// The notes of a node.
const (
	NoteForeign      = "not made by a pool"
	NoteDrifted      = "drifted"
	NoteCordoned     = "cordoned"
	NoteDoNotDisrupt = "do not disrupt"
	NoteAssumed      = "just asked for"
	NotePricedBy     = "price of NodeOverlay " // and its name
)

// Word is the state in one word: of a node that is ready, whether it has drifted or is cordoned.
func (n *FleetNode) Word() string {
	for _, note := range []string{NoteDrifted, NoteCordoned} {
		if n.State == NodeReady && slices.Contains(n.Notes, note) {
			return note
		}
	}
	return n.State
}

// Totals adds a fleet up.
type Totals struct {
	Nodes int `json:"nodes"`
	// Starting are nodes that are not there to use yet.
	Starting int `json:"starting"`
	Deleting int `json:"deleting"`
	NotReady int `json:"notReady"`
	Spot     int `json:"spot"`
	// Unpriced nodes cost something that nobody knows.
	Unpriced int     `json:"unpriced"`
	PerHour  float64 `json:"pricePerHour"`
	PerMonth float64 `json:"pricePerMonth"`
	CPU      Amount  `json:"cpuMillicores"`
	Memory   Amount  `json:"memoryBytes"`
	PodSlots Amount  `json:"podSlots"`
	Pending  int     `json:"pendingPods"`
	// Spare is the room that nodes hold for each CapacityBuffer.
	Spare []Spare `json:"spare,omitempty"`
	// CapacityTypes and Pools are the parts of the fleet, the most expensive first.
	CapacityTypes []Portion `json:"capacityTypes"`
	Pools         []Portion `json:"pools"`
}

// Cost is how many nodes there are, and what they cost.
type Cost struct {
	Nodes int     `json:"nodes"`
	Price float64 `json:"pricePerHour"`
}

// Portion is a part of a fleet.
type Portion struct {
	Name   string  `json:"name"`
	Nodes  int     `json:"nodes"`
	Price  float64 `json:"pricePerHour"`
	CPU    Amount  `json:"cpuMillicores"`
	Memory Amount  `json:"memoryBytes"`
}

// NewFleet reads a view and what is known of its pending pods.
func NewFleet(o Outlook, now time.Time) *Fleet {
	f := &Fleet{Type: TypeOf(KindFleet), At: now, Nodes: make([]FleetNode, 0, len(o.View.Nodes))}
	rows := make([]*FleetNode, 0, len(o.View.Nodes))
	for _, n := range o.View.Nodes {
		f.Nodes = append(f.Nodes, NewFleetNode(o.View.World, n))
	}
	for i := range f.Nodes {
		rows = append(rows, &f.Nodes[i])
	}
	f.Totals = AddUp(rows, len(o.View.World.Pending))
	f.Pending, _, _ = PendingPods(o)
	f.Static = StaticPools(o.View)
	return f
}

// NewFleetNode writes a node of a view down.
func NewFleetNode(s *world.Snapshot, n *state.Node) FleetNode {
	w := n.World
	load := w.Load(s.Classes).Requests
	x := FleetNode{Node: NodeOf(w), State: stateOf(n), Notes: notesOf(n)}
	switch {
	case n.Claim != nil && !n.Claim.CreationTimestamp.IsZero():
		x.Created = n.Claim.CreationTimestamp.UTC()
	case n.Object != nil:
		x.Created = n.Object.CreationTimestamp.UTC()
	}
	x.CPU = Amount{load.Get(world.CPU), w.Allocatable.Get(world.CPU)}
	x.Memory = Amount{load.Get(world.Memory), w.Allocatable.Get(world.Memory)}
	x.PodSlots = Amount{int64(len(w.Pods)), w.Allocatable.Get(world.PodSlot)}
	for i := world.Storage + 1; i < len(s.Resources); i++ {
		if all := w.Allocatable.Get(i); all > 0 && all < world.Unlimited && !world.UnlimitedWhenAbsent(s.Resources[i]) {
			x.Other = append(x.Other, OtherAmount{s.Resources[i], Amount{load.Get(i), all}})
		}
	}
	return x
}

// stateOf says how far a node has come. One without the condition Ready counts as ready: snapshots are often written without it.
func stateOf(n *state.Node) string {
	switch {
	case n.World.Deleting:
		return NodeDeleting
	case n.World.InFlight && !is(n.Claim, v1.ConditionLaunched):
		return NodeLaunching
	case n.World.InFlight || n.Object == nil:
		return NodeJoining
	case !n.World.Initialized:
		return NodeStarting
	}
	for i := range n.Object.Status.Conditions {
		if c := &n.Object.Status.Conditions[i]; c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return NodeNotReady
		}
	}
	return NodeReady
}

func is(claim *v1.NodeClaim, condition string) bool {
	if claim == nil {
		return false
	}
	for i := range claim.Status.Conditions {
		if c := &claim.Status.Conditions[i]; c.Type == condition {
			return c.Status == "True"
		}
	}
	return false
}

func notesOf(n *state.Node) []string {
	var out []string
	if n.Claim == nil {
		out = append(out, NoteForeign)
	}
	if is(n.Claim, v1.ConditionDrifted) {
		out = append(out, NoteDrifted)
	}
	if n.Object != nil && n.Object.Spec.Unschedulable {
		out = append(out, NoteCordoned)
	}
	held := n.Object != nil && n.Object.Annotations[v1.DoNotDisruptAnnotationKey] == "true"
	if held || (n.Claim != nil && n.Claim.Annotations[v1.DoNotDisruptAnnotationKey] == "true") {
		out = append(out, NoteDoNotDisrupt)
	}
	if n.Assumed {
		out = append(out, NoteAssumed)
	}
	if by := n.World.PricedBy; by != "" {
		out = append(out, NotePricedBy+by)
	}
	return out
}

// AddUp makes totals of nodes, in whatever order they come.
func AddUp(nodes []*FleetNode, pending int) Totals {
	t := Totals{Pending: pending}
	types, pools := map[string]*Portion{}, map[string]*Portion{}
	for _, n := range nodes {
		t.Nodes++
		t.PerHour += n.Price
		t.CPU.add(n.CPU)
		t.Memory.add(n.Memory)
		t.PodSlots.add(n.PodSlots)
		part(types, n.CapacityType).add(n)
		part(pools, n.Pool).add(n)
		if n.Price == 0 {
			t.Unpriced++
		}
		if n.CapacityType == world.CapacitySpot {
			t.Spot++
		}
		switch n.State {
		case NodeDeleting:
			t.Deleting++
		case NodeNotReady:
			t.NotReady++
		case NodeReady:
		default:
			t.Starting++
		}
	}
	t.PerMonth = t.PerHour * HoursPerMonth
	t.CapacityTypes, t.Pools, t.Spare = portions(types), portions(pools), addSpare(nodes)
	return t
}

func (p *Portion) add(n *FleetNode) {
	p.Nodes++
	p.Price += n.Price
	p.CPU.add(n.CPU)
	p.Memory.add(n.Memory)
}

func part(parts map[string]*Portion, name string) *Portion {
	p := parts[name]
	if p == nil {
		p = &Portion{Name: name}
		parts[name] = p
	}
	return p
}

// portions puts the most expensive first.
func portions(parts map[string]*Portion) []Portion {
	out := make([]Portion, 0, len(parts))
	for _, p := range parts {
		out = append(out, *p)
	}
	slices.SortFunc(out, func(x, y Portion) int {
		return cmp.Or(cmp.Compare(y.Price, x.Price), cmp.Compare(y.Nodes, x.Nodes), strings.Compare(x.Name, y.Name))
	})
	return out
}

// Verdicts is what is known of whether nodes could be removed, by name.
type Verdicts map[string]verdict

type verdict struct {
	reason string
	why    why.Reason
	saves  float64
	spare  []Spare
}

// Judge reads a decision about nodes, and the world that it was made from.
func Judge(s *world.Snapshot, d *disrupt.Decision) Verdicts {
	out := Verdicts{}
	for _, m := range d.Moves {
		saves := m.Saves / float64(max(1, len(m.Nodes)))
		for _, name := range m.Nodes {
			out[name] = verdict{reason: string(m.Reason), why: m.Why, saves: saves}
		}
	}
	for _, k := range d.Kept {
		out[s.Nodes[k.Node].Name] = verdict{why: k.Why}
	}
	for node, spare := range SpareRoom(s, d) {
		v := out[s.Nodes[node].Name]
		v.spare = spare
		out[s.Nodes[node].Name] = v
	}
	return out
}

// Apply shows what is known of whether nodes could be removed, and of the room that they hold for buffers; nil is that nothing is known.
// Nodes that have begun to be deleted since they were judged are not asked about any more.
func (f *Fleet) Apply(known Verdicts) {
	rows := make([]*FleetNode, len(f.Nodes))
	for i := range f.Nodes {
		n := &f.Nodes[i]
		rows[i] = n
		v := known[n.Name()]
		if n.Spare = nil; n.State != NodeDeleting {
			n.Spare = v.spare
		}
		switch {
		case v.reason == "" && v.why.Code == "":
		case v.reason == "":
			n.Removable, n.Why = "no", &v.why
		case n.State != NodeDeleting:
			n.Removable, n.Reason, n.Why, n.Saves = "yes", v.reason, &v.why, v.saves
		}
	}
	f.Decided, f.Totals.Spare = known != nil, addSpare(rows)
}

// Verdict says in one line why the node stays, or why and how it could be removed.
func (n *FleetNode) Verdict() string {
	if n.Why == nil {
		return ""
	}
	text := strings.TrimPrefix(n.Why.Line(), strings.TrimSpace(n.Node.Node+" "+n.Node.Type)+": ") // the row says that already
	if n.Reason != "" {
		text = n.Reason + ": " + text
	}
	return text
}

// Name is the name that the node has, or that of its claim.
func (n *Node) Name() string { return cmp.Or(n.Node, n.Claim) }
