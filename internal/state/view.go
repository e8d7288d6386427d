package state

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
	"karpenter/internal/state/dump"
	"karpenter/internal/state/toworld"
)

// View is a mirror at one moment. It never changes and is safe for concurrent use.
type View struct {
	// World is what decisions are made from. It is the same value as in the view before if nothing that they read has
	// changed: a decision that came to nothing then need not be made again.
	World *world.Snapshot
	// Nodes are the nodes of World, in the same order, with the objects behind them.
	Nodes []*Node
	// Nominees are the pods that need a node and are nominated for a node, in order of namespace and name.
	Nominees []Nominee
	// Overlays are the NodeOverlays with what has become of them, by name.
	Overlays []*Overlay
	// Problems names objects that were set aside, and why.
	Problems []dump.Problem

	// Told counts what the mirror had been told by then: between two views no more objects than that have changed.
	Told uint64

	pools   map[string]*Pool
	claims  *frozen[*Node]
	pods    *frozen[podRef]
	budgets map[string][]budget
	cover   *coverIndex
	sources *sources
	// ownCosts is Options.OwnDeletionCosts.
	ownCosts bool

	once  sync.Once
	usage map[string]Usage
}

// Node is a node with the objects behind it. They are shared and must not be changed.
type Node struct {
	World *world.Node
	// Object is nil while the node has not joined the cluster; Claim is nil for a node that we have not made.
	Object *corev1.Node
	Claim  *v1.NodeClaim
	// Pods are bound to the node and not finished, or nominated for it and given a place by that (Nominee), in order of namespace and
	// name.
	Pods []*corev1.Pod
	// PodEvent is when a pod last came to or left the node, as far as is known.
	PodEvent time.Time
	// Assumed says that the claim has been created and that the API has not shown it yet.
	Assumed bool

	// What decisions ask of the node again and again, found out when it is asked for the first time.
	weighed     sync.Once
	weight      []weight
	stirredOnce sync.Once
	stirred     time.Time
	covered     atomic.Pointer[nodeCover]
}

// Pool is a pool with the object behind it.
type Pool struct {
	World  *world.Pool
	Object *v1.NodePool
}

// Usage is what a pool has in use.
type Usage struct {
	// Nodes counts nodes, those in flight included and those that are leaving excluded; Leaving counts these.
	Nodes   int
	Leaving int
	// Capacity adds up the capacity of Nodes.
	Capacity world.Resources
}

// Node finds a node by the name of its Node object.
func (v *View) Node(name string) *Node {
	at, found := slices.BinarySearchFunc(v.Nodes, name, func(n *Node, name string) int {
		return compareUnits(n.World.InFlight, n.World.Name, false, name)
	})
	if !found {
		return nil
	}
	return v.Nodes[at]
}

// Claim finds a node, in flight or not, by the name of its claim.
func (v *View) Claim(name string) *Node {
	n, _ := v.claims.get(name)
	return n
}

// Pool finds a pool.
func (v *View) Pool(name string) *Pool { return v.pools[name] }

// Pod finds a pod that is bound or needs a node by its UID.
func (v *View) Pod(uid types.UID) *corev1.Pod {
	ref, _ := v.pods.get(string(uid))
	return ref.pod
}

// Seen is when the pod was first found to need a node.
func (v *View) Seen(uid types.UID) (time.Time, bool) {
	ref, _ := v.pods.get(string(uid))
	return time.Unix(0, ref.first), ref.first != 0
}

// Budgets lists the disruption budgets that cover a pod, by name.
func (v *View) Budgets(p *corev1.Pod) []*policyv1.PodDisruptionBudget {
	var out []*policyv1.PodDisruptionBudget
	for _, b := range v.budgets[toworld.Space(p)] {
		if toworld.Matches(b.selector, p.Labels) {
			out = append(out, b.obj)
		}
	}
	return out
}

// Usage is what a pool has committed: what limits are held against. Nodes that no pool made are under "".
func (v *View) Usage(pool string) Usage {
	v.once.Do(func() {
		v.usage = map[string]Usage{}
		for _, n := range v.World.Nodes {
			u := v.usage[n.Pool]
			if n.Deleting {
				u.Leaving++
			} else {
				u.Nodes++
				for i, q := range n.Capacity {
					u.Capacity = u.Capacity.Set(i, world.AddSat(u.Capacity.Get(i), q))
				}
			}
			v.usage[n.Pool] = u
		}
	})
	u := v.usage[pool]
	u.Capacity = slices.Clone(u.Capacity)
	return u
}

// List writes resources of this view in the form of the API.
func (v *View) List(r world.Resources) corev1.ResourceList { return toworld.List(v.World.Resources, r) }
