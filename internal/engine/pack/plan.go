package pack

import (
	"slices"
	"strings"

	"karpenter/internal/engine/req"
	"karpenter/internal/engine/why"
	"karpenter/internal/engine/world"
)

// Options are the choices that a caller has. The zero value is what a cluster gets by default.
type Options struct {
	// Workers bounds parallelism. The plan does not depend on it.
	Workers int
	// IgnorePreferences leaves preferred affinity and ScheduleAnyway spread out of the plan.
	IgnorePreferences bool
	// BestEffortMinValues lowers minValues to what can be had, instead of failing.
	BestEffortMinValues bool
	// MaxTypes bounds the instance types listed for a node; 0 stands for DefaultMaxTypes.
	MaxTypes int
	// NoNewNodes asks only what the nodes that exist can take.
	NoNewNodes bool
	// Quick skips the search for a cheaper plan and gives reasons only for the first pods without a place; what-ifs use it to
	// dismiss most questions.
	Quick bool

	variants int // tests bound variants by this, as a whole catalogue would; 0 for what a pool's offerings allow
}

// DefaultMaxTypes bounds the list of types that a claim carries, so that it stays storable and fast to read.
const DefaultMaxTypes = 600

// Plan says where every pod goes, what that costs, and why.
type Plan struct {
	Nodes    []*NewNode
	Existing []*Filled
	Unplaced []*Unplaced
	// Order lists the placed pods in the order in which they were decided: bound one after the other like this, each finds
	// its topology constraints satisfied by those before it.
	Order []*world.Pod
	// Pods is how many pods that exist wanted a place, Placed how many got one; Spare and Kept are the same for spare pods.
	Pods   int
	Placed int
	Spare  int
	Kept   int
	// Price is the sum over new nodes, in dollars an hour. No plan has a lower one than Bound that puts the same pods on new nodes or
	// into room that is left on existing ones, keeps the same preferences, and uses no pool of a lower weight for a pod.
	Price float64
	Bound float64
	// NodeCost is what the new nodes cost an hour besides their price, see world.Pool. Price and NodeCost together are what
	// was minimised; no such plan has a lower sum than CostBound.
	NodeCost  float64
	CostBound float64
}

// NewNode is a node to launch.
type NewNode struct {
	Name string
	Pool *world.Pool
	// Choices lists what may be launched, cheapest first; the first is what the plan's price assumes.
	Choices []Choice
	// Labels are the pool's template labels, with values chosen for keys that the pool leaves open.
	Labels world.Labels
	Pods   []*world.Pod
	// Requests is what the pods ask for together, with the daemons of the cheapest choice.
	Requests world.Resources
	// MinValuesRelaxed says that fewer distinct values are offered than the pool asks for.
	MinValuesRelaxed bool
	Why              []why.Reason
}

// Choice is a type in an offering.
type Choice struct {
	Type     *world.InstanceType
	Offering *world.Offering
}

// Price is what the node costs an hour if the cheapest choice is had.
func (n *NewNode) Price() float64 { return n.Choices[0].Offering.Price }

// Zones lists the zones among the choices, that of the cheapest choice first, each once.
func (n *NewNode) Zones() []string {
	var out []string
	for _, c := range n.Choices {
		if !slices.Contains(out, c.Offering.Zone) {
			out = append(out, c.Offering.Zone)
		}
	}
	return out
}

// Types lists the names of the types among the choices, cheapest first, each once.
func (n *NewNode) Types() []string {
	var out []string
	seen := map[string]bool{}
	for _, c := range n.Choices {
		if !seen[c.Type.Name] {
			seen[c.Type.Name] = true
			out = append(out, c.Type.Name)
		}
	}
	return out
}

// NodeLabels are the labels of the node if the cheapest choice is had, as far as they are known before it is there.
func (n *NewNode) NodeLabels() map[string]string {
	c := n.Choices[0]
	labels := map[string]string{}
	for _, list := range []world.Labels{c.Type.Labels, c.Offering.Labels, n.Labels} {
		for _, l := range list {
			labels[l.Key] = l.Value
		}
	}
	for _, key := range []string{world.LabelInstanceType, world.LabelPool, world.LabelZone, world.LabelCapacityType} {
		if v, ok := n.Pool.NodeLabel(c.Type, c.Offering, key); ok {
			labels[key] = v
		}
	}
	return labels
}

// Requirements is what a claim for the node must ask for: what the pool needs, narrowed to the choices.
func (n *NewNode) Requirements() req.Set {
	s := n.Pool.Need
	for _, l := range n.Labels {
		s = s.With(req.Is(l.Key, l.Value))
	}
	var types, zones, models []string
	for _, c := range n.Choices {
		types = append(types, c.Type.Name)
		zones = append(zones, c.Offering.Zone)
		models = append(models, c.Offering.CapacityType)
	}
	for _, k := range []struct {
		key    string
		values []string
	}{{world.LabelInstanceType, types}, {world.LabelZone, zones}, {world.LabelCapacityType, models}} {
		if r, err := req.New(k.key, req.In, k.values...); err == nil {
			s = s.With(r)
		}
	}
	if n.Choices[0].Offering.Reservation != "" { // a reserved node is pinned to its reservation
		for _, l := range n.Choices[0].Offering.Labels {
			s = s.With(req.Is(l.Key, l.Value))
		}
	}
	return s
}

// Filled is an existing node that pods are expected to go to, in the order in which they were placed.
type Filled struct {
	Node *world.Node
	Pods []*world.Pod
}

// Real is the plan as far as it is about pods that exist: spare pods are neither on existing nodes nor unplaced in it. New nodes stay as
// they are.
func (p *Plan) Real() *Plan {
	if p.Spare == 0 {
		return p
	}
	out := *p
	out.Order, out.Existing, out.Unplaced, out.Spare, out.Kept = world.Real(p.Order), nil, nil, 0, 0
	for _, f := range p.Existing {
		if pods := world.Real(f.Pods); len(pods) == len(f.Pods) {
			out.Existing = append(out.Existing, f)
		} else if len(pods) > 0 {
			out.Existing = append(out.Existing, &Filled{Node: f.Node, Pods: pods})
		}
	}
	for _, u := range p.Unplaced { // the pods of one are of one class
		if !u.Pods[0].Spare {
			out.Unplaced = append(out.Unplaced, u)
		}
	}
	return &out
}

// Unplaced is a group of equal pods that found no place, with the reasons they share.
type Unplaced struct {
	Pods    []*world.Pod
	Reasons []why.Reason
}

func podOrder(a, b *world.Pod) int {
	if a.Created != b.Created {
		if a.Created < b.Created {
			return -1
		}
		return 1
	}
	if c := strings.Compare(a.UID, b.UID); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

func sortPods(pods []*world.Pod) { slices.SortFunc(pods, podOrder) }
