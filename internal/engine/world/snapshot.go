package world

import (
	"slices"
	"strings"
	"sync"

	"karpenter/internal/engine/req"
)

// Snapshot is one consistent view of the cluster. Everything reachable from it is immutable.
type Snapshot struct {
	// Resources names the entries of every Resources vector.
	Resources []string
	Pools     []*Pool
	Nodes     []*Node
	Classes   []*Class
	// Pending lists pods that need a node now.
	Pending []*Pod
	// Spare lists the spare pods of CapacityBuffers. They are on no node: each decision finds room for them after everybody else.
	Spare   []*Pod
	Daemons []*Daemon
}

// Daemon is a DaemonSet: one pod on every node that admits it.
type Daemon struct {
	Name string
	// Class is the shape of its pods; its ID has no meaning.
	Class *Class
}

// Pool says which nodes may be made, and how many.
type Pool struct {
	Name   string
	Weight int32
	// Need is what every node of the pool satisfies: template requirements, template labels, the pool and class labels.
	Need   req.Set
	Labels Labels
	Taints []Taint
	// Provided lists keys of Need that only the provider gives values to: a type without such a label does not have it, and no
	// pod can choose it.
	Provided []string
	// Limits bounds the sum of capacities; a resource that is not listed has no bound.
	Limits []Limit
	// MaxNodes bounds the number of nodes; -1 is no bound.
	MaxNodes int64
	// Types lists what the provider can launch for the pool, including types that are out of stock.
	Types []*InstanceType
	// NodeCost is what a node costs an hour besides its price, in dollars: its address, its daemons, licences that are paid by host.
	// It weighs few nodes against many.
	NodeCost float64
	// Static pools keep Replicas nodes, whatever pods need, and take part in plans only through the nodes that they have.
	Static   bool
	Replicas int64
	// Refused says why the pool is not used for new nodes; empty when it is ready.
	Refused string

	once   sync.Once
	offers []Offer
	open   []string
}

// WithTypes is the pool with other types.
func (p *Pool) WithTypes(types []*InstanceType) *Pool {
	return &Pool{
		Name: p.Name, Weight: p.Weight, Need: p.Need, Labels: p.Labels, Taints: p.Taints, Provided: p.Provided, Limits: p.Limits, MaxNodes: p.MaxNodes,
		Types: types, NodeCost: p.NodeCost, Static: p.Static, Replicas: p.Replicas, Refused: p.Refused,
	}
}

// Limit bounds one resource of a pool.
type Limit struct {
	Resource int
	Max      int64
}

// InstanceType is something a provider can launch.
type InstanceType struct {
	Name string
	// Labels are those that every node of the type carries.
	Labels Labels
	// Capacity counts against limits; Allocatable is what pods may use.
	Capacity    Resources
	Allocatable Resources
	Offerings   []Offering
	// Added is what of Capacity and Allocatable comes from NodeOverlays.
	Added []Added
}

// Offering is a type in a place, under a purchase model.
type Offering struct {
	Zone         string
	CapacityType string
	// Labels are further labels of nodes launched from the offering, such as a zone's id.
	Labels Labels
	// Price is in dollars an hour. Where the NodeOverlay PricedBy has changed it, ListPrice is what the provider says.
	Price     float64
	ListPrice float64
	PricedBy  string
	// Estimated says that the price is not known: it is worked out from what a node has, so that whatever wastes least is cheapest.
	Estimated bool
	// Available says that it is sold now. A reservation that is full is available: it is there, and others have it (N3).
	Available bool
	// Reservation names a capacity reservation, of which Remaining instances are left.
	Reservation string
	Remaining   int
	// Capacity and Allocatable replace those of the type when not nil.
	Capacity    Resources
	Allocatable Resources
}

// Launchable says whether a node can be launched from the offering now.
func (o *Offering) Launchable() bool { return o.Available && !o.Full() }

// Full says whether it is a reservation of which nothing is left.
func (o *Offering) Full() bool {
	return (o.CapacityType == CapacityReserved || o.Reservation != "") && o.Remaining <= 0
}

// Node is an instance that exists or that has been asked for.
type Node struct {
	Name  string
	Claim string
	// Pool is empty for nodes that no pool made.
	Pool   string
	Labels Labels
	// Taints are those that keep pods away now: startup and ephemeral taints of a node that is still starting are left out.
	Taints      []Taint
	Capacity    Resources
	Allocatable Resources
	Pods        []*Pod
	// Initialized nodes are up; InFlight ones have no Node object yet.
	Initialized bool
	InFlight    bool
	// Deleting nodes are no targets; their movable pods want a new place.
	Deleting bool
	// FirstZone is the zone that is asked for first, while nothing is known of where the node will be.
	FirstZone string
	// Attached lists claims of shared volumes that are attached already, sorted.
	Attached []string
	// Price is what the node costs an hour, 0 if unknown. Where the NodeOverlay PricedBy has changed it, ListPrice is what the provider
	// says.
	Price     float64
	ListPrice float64
	PricedBy  string

	once sync.Once
	load Load
}

// Zone is where the node is, or is expected to be while that is not known; empty if there is nothing to tell it from.
func (n *Node) Zone() string {
	if z, ok := n.Labels.Get(LabelZone); ok {
		return z
	}
	return n.FirstZone
}

// CapacityType is how the node is paid for; empty while a node of ours does not say. Of a node that no pool made it is what the
// labels of its node group or the usual one say, and on-demand otherwise: that is what an instance is if nobody has asked for anything else.
func (n *Node) CapacityType() string {
	if t, ok := n.Labels.Get(LabelCapacityType); ok || n.Claim != "" || n.Pool != "" {
		return t
	}
	group := ""
	for _, l := range n.Labels {
		if strings.HasSuffix(l.Key, nameCapacityType) {
			group = l.Value
		}
	}
	usual, _ := n.Labels.Get(labelLifecycle)
	if strings.EqualFold(group, CapacitySpot) || group == "" && strings.Contains(strings.ToLower(usual), CapacitySpot) {
		return CapacitySpot
	}
	return CapacityOnDemand
}

// Occupies says whether the node was launched from a reserved offering: it is where that is, and has its labels.
func (n *Node) Occupies(o Offering) bool {
	if o.Reservation == "" || o.Zone != n.Zone() {
		return false
	}
	for _, l := range o.Labels {
		if v, ok := n.Labels.Get(l.Key); !ok || v != l.Value {
			return false
		}
	}
	return true
}

// Hostname is the value of the hostname label, or the node's name while it has none.
func (n *Node) Hostname() string {
	if h, ok := n.Labels.Get(LabelHostname); ok {
		return h
	}
	return n.Name
}

// PodName is the pod's name with its namespace.
func (s *Snapshot) PodName(p *Pod) string {
	return s.Classes[p.Class].Namespace + "/" + p.Name
}

// Overlay is a what-if: the base with some nodes gone and some pods more to place. The base is never changed, and the
// overlay costs what it names.
type Overlay struct {
	Base *Snapshot
	// Removed holds indexes into Base.Nodes, sorted. Their movable pods want a new place; of equal pods the older ones choose first,
	// unless Ranked lists the same nodes in the order in which their pods do.
	Removed, Ranked []int32
	// Pending lists pods to place besides those of removed nodes; by default those of the base.
	Pending []*Pod
	// Spare lists spare pods that room is to be found for; by default those of the base.
	Spare []*Pod
	// Closed marks nodes that take no pods but stay, by index into Base.Nodes; nil stands for none.
	Closed []bool
}

// Over starts an overlay on s that asks about the pods pending in s, and about its spare pods.
func (s *Snapshot) Over() *Overlay {
	return &Overlay{Base: s, Pending: s.Pending, Spare: s.Spare}
}

// Without is the overlay with more nodes gone.
func (o *Overlay) Without(nodes ...int32) *Overlay {
	c := *o
	c.Removed = slices.Concat(o.Removed, nodes)
	slices.Sort(c.Removed)
	c.Removed = slices.Compact(c.Removed)
	return &c
}

// WithPending is the overlay with other pods to place, and no spare ones.
func (o *Overlay) WithPending(pods []*Pod) *Overlay {
	c := *o
	c.Pending, c.Spare = pods, nil
	return &c
}

// Gone says whether the node is removed.
func (o *Overlay) Gone(node int32) bool {
	_, found := slices.BinarySearch(o.Removed, node)
	return found
}

// Shut says whether the node takes no pods: it is removed or closed.
func (o *Overlay) Shut(node int32) bool {
	return o.Closed != nil && o.Closed[node] || o.Gone(node)
}

// Wanting lists every pod that exists and needs a node: the pending ones, then the movable pods of deleting and removed nodes in
// node order.
func (o *Overlay) Wanting() []*Pod {
	out := slices.Clone(o.Pending)
	for i, n := range o.Base.Nodes {
		if !n.Deleting && !o.Gone(int32(i)) {
			continue
		}
		for _, p := range n.Pods {
			if p.Movable {
				out = append(out, p)
			}
		}
	}
	return out
}
