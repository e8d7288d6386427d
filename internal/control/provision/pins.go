package provision

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

const (
	// pinAfterStart is how long pods stay where they are expected once the node is up: the scheduler needs a moment for them.
	pinAfterStart = 10 * time.Second
	// maxPin ends every expectation; by then the node has joined or its claim has been given up.
	maxPin = 20 * time.Minute
)

// pins remembers which claim each pod was planned for. A claim in flight has room for exactly the pods that it was made for, but
// were they all planned again, a pod that fits everywhere might take the place of one that fits only there, and the latter
// would be given yet another node at every pass. So pods stay where they are expected until they are bound, the claim is gone,
// or its node has been up for a while and the scheduler has put something else there. A process that starts anew knows nothing
// of this and plans all of them.
type pins struct {
	mu sync.Mutex
	of map[types.UID]*pin
}

type pin struct {
	claim string
	until time.Time
	// started is set when the claim's node was first seen to be up.
	started bool
}

// add expects pods on the node of a claim.
func (p *pins) add(claim string, pods []*world.Pod, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[types.UID]*pin{}
	}
	for _, pod := range pods {
		if have := p.of[uid(pod)]; have == nil || have.claim != claim {
			p.of[uid(pod)] = &pin{claim: claim, until: now.Add(maxPin)}
		}
	}
}

// pinned is a snapshot with pods on the nodes where they are expected.
type pinned struct {
	*world.Snapshot
	// Pods is how many pods are expected somewhere, Claims where.
	Pods   int
	Claims []string
}

// apply puts pods that want a place and are expected somewhere there, and forgets those that do not want one any more.
func (p *pins) apply(view *state.View, now time.Time) pinned {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.of) == 0 {
		return pinned{Snapshot: view.World}
	}
	wanting := view.World.Over().Wanting()
	moved := map[types.UID]bool{}
	at := map[*world.Node][]*world.Pod{}
	room := map[*world.Node]world.Resources{}
	keep := map[types.UID]*pin{}
	for _, pod := range wanting {
		x := p.of[uid(pod)]
		if x == nil {
			continue
		}
		n := target(view, x, now)
		if n == nil || !fits(view.World, n, pod, room) {
			continue
		}
		keep[uid(pod)] = x
		moved[uid(pod)] = true
		at[n] = append(at[n], pod)
	}
	p.of = keep
	out := pinned{Snapshot: view.World, Pods: len(moved)}
	if len(moved) > 0 {
		out.Snapshot, out.Claims = rearranged(view.World, moved, at)
	}
	return out
}

// target is the node that a pod is expected on, or nil when that is over.
func target(view *state.View, x *pin, now time.Time) *world.Node {
	n := view.Claim(x.claim)
	if n == nil || n.World.Deleting {
		return nil
	}
	if n.World.Initialized && !x.started {
		x.started = true
		x.until = now.Add(pinAfterStart)
	}
	if !now.Before(x.until) {
		return nil
	}
	return n.World
}

// fits says whether the node has room for one more pod, and if so takes it.
func fits(snap *world.Snapshot, n *world.Node, pod *world.Pod, room map[*world.Node]world.Resources) bool {
	left, known := room[n]
	if !known {
		left = n.Allocatable.Minus(n.Load(snap.Classes).Requests)
	}
	request := snap.Classes[pod.Class].Requests
	for i, v := range request {
		if v > max(0, left.Get(i)) && !(n.Allocatable.Get(i) == 0 && world.UnlimitedWhenAbsent(snap.Resources[i])) {
			return false
		}
	}
	room[n] = left.Minus(request)
	return true
}

// rearranged is the snapshot with pods moved from where they are or wait to the nodes where they are expected.
func rearranged(snap *world.Snapshot, moved map[types.UID]bool, at map[*world.Node][]*world.Pod) (*world.Snapshot, []string) {
	away := func(pod *world.Pod) bool { return moved[uid(pod)] }
	c := *snap
	c.Pending = slices.DeleteFunc(slices.Clone(snap.Pending), away)
	c.Nodes = slices.Clone(snap.Nodes)
	var claims []string
	for i, n := range snap.Nodes {
		more := at[n]
		leaving := n.Deleting && slices.ContainsFunc(n.Pods, away)
		if len(more) == 0 && !leaving {
			continue
		}
		here := n.Pods
		if leaving {
			here = slices.DeleteFunc(slices.Clone(n.Pods), away)
		}
		if len(more) > 0 {
			claims = append(claims, n.Claim)
		}
		c.Nodes[i] = &world.Node{
			Name: n.Name, Claim: n.Claim, Pool: n.Pool, Labels: n.Labels, Taints: n.Taints, Capacity: n.Capacity, Allocatable: n.Allocatable,
			Pods: slices.Concat(here, more), Initialized: n.Initialized, InFlight: n.InFlight, Deleting: n.Deleting, Attached: n.Attached, Price: n.Price,
		}
	}
	return &c, claims
}
