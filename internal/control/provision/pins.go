package provision

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

const (
	// pinAfterStart is how long pods stay where they are expected once the node is up: the scheduler needs a moment for them.
	pinAfterStart = 10 * time.Second
	// settled is how long the scheduler must have bound no pod for what it has refused to count: while it binds others, room and spread
	// change with each, and it tries those again that it has refused.
	settled = 2 * time.Second
	// maxPin ends every expectation; by then the node has joined or its claim has been given up.
	maxPin = 20 * time.Minute
)

// pins remembers which claim each pod was planned for. A claim in flight has room for exactly the pods that it was made for, but
// were they all planned again, a pod that fits everywhere might take the place of one that fits only there, and the latter
// would be given yet another node at every pass. So pods stay where they are expected until they are bound, the claim is gone,
// or its node has been up for a while and the scheduler has refused them or put something else there. A process that starts anew reads from the
// claims which pods they were made for.
type pins struct {
	mu sync.Mutex
	of map[types.UID]*pin
	// bound is when the scheduler last bound a pod.
	bound time.Time
	// read says that the claims that were there at first have been read.
	read bool
}

type pin struct {
	claim string
	until time.Time
	// started is when the claim's node was first seen to be up, refused when the scheduler last looked at the pod in vain.
	started, refused time.Time
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

// restore expects pods where a process before this one did, as the claims tell. Of two claims that were made for a pod the later
// one counts: the pod was planned anew because it could not go to the first.
func (p *pins) restore(view *state.View) {
	p.read = true
	made := map[string]*state.Node{}
	for _, n := range view.Nodes {
		if n.Claim == nil || n.World.Deleting {
			continue
		}
		for _, key := range strings.Split(n.Claim.Annotations[karpv1.PlannedPodsAnnotationKey], ",") {
			if had := made[key]; had == nil || had.Claim.CreationTimestamp.Before(&n.Claim.CreationTimestamp) {
				made[key] = n
			}
		}
	}
	pods := view.World.Over().Wanting()
	for _, x := range view.Nominees {
		pods = append(pods, &world.Pod{UID: string(x.Pod.UID)})
	}
	for _, pod := range pods {
		n := made[podKey(pod)]
		if n == nil || p.of[uid(pod)] != nil {
			continue
		}
		if p.of == nil {
			p.of = map[types.UID]*pin{}
		}
		x := &pin{claim: n.Claim.Name, until: n.Claim.CreationTimestamp.Add(maxPin)}
		if up := n.Claim.StatusConditions().Get(karpv1.ConditionInitialized); up != nil && up.Status == metav1.ConditionTrue {
			x.started, x.until = up.LastTransitionTime.Time, up.LastTransitionTime.Add(pinAfterStart)
		}
		p.of[uid(pod)] = x
	}
}

// plannedPods is what is written on a claim about the pods that it is made for.
func plannedPods(pods []*world.Pod) string {
	keys := make([]string, len(pods))
	for i, pod := range pods {
		keys[i] = podKey(pod)
	}
	return strings.Join(keys, ",")
}

// podKey is short for a pod: a node may have hundreds. Should two pods that wait share it, one of them is expected where the other
// should be, if it fits there.
func podKey(pod *world.Pod) string {
	sum := sha256.Sum256([]byte(pod.UID))
	return hex.EncodeToString(sum[:5])
}

// pinned says where pods are expected.
type pinned struct {
	// Expected names the claim by the pod's UID; Pods is how many there are.
	Expected map[string]string
	Pods     int
	// Claims are those that pods are expected on, in the order of their nodes.
	Claims []string
}

// apply finds where pods that want a place are expected, and forgets those that do not want one any more.
func (p *pins) apply(view *state.View, now time.Time) pinned {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.read {
		p.restore(view)
	}
	if len(p.of) == 0 {
		return pinned{}
	}
	out := pinned{Expected: map[string]string{}}
	room := map[*world.Node]world.Resources{}
	keep := map[types.UID]*pin{}
	for _, pod := range view.World.Over().Wanting() {
		x := p.of[uid(pod)]
		if x == nil {
			continue
		}
		n := p.target(view, x, now)
		if n == nil || !fits(view.World, n, pod, room) && !p.settling(x, now) {
			continue
		}
		keep[uid(pod)] = x
		out.Expected[pod.UID] = x.claim
	}
	out.Pods = len(keep)
	for _, x := range view.Nominees { // they count as on the node already
		if pin := p.of[x.Pod.UID]; x.Seated && pin != nil && p.target(view, pin, now) != nil {
			keep[x.Pod.UID] = pin
			room[view.Claim(pin.claim).World] = nil
		}
	}
	if p.of = keep; len(keep) > 0 {
		for _, n := range view.World.Nodes {
			if _, taken := room[n]; taken {
				out.Claims = append(out.Claims, n.Claim)
			}
		}
	}
	return out
}

// target is the node that a pod is expected on, or nil when that is over.
func (p *pins) target(view *state.View, x *pin, now time.Time) *world.Node {
	n := view.Claim(x.claim)
	if n == nil || n.World.Deleting {
		return nil
	}
	if n.World.Initialized && x.started.IsZero() {
		x.started, x.until = now, now.Add(pinAfterStart)
		if up := n.Claim.StatusConditions().Get(karpv1.ConditionInitialized); up.Status == metav1.ConditionTrue { // this look may be late
			x.started = earlier(now, up.LastTransitionTime.Time)
		}
	}
	if !now.Before(p.ends(x)) {
		return nil
	}
	return n.World
}

// ends is when the pod is not expected there any more.
func (p *pins) ends(x *pin) time.Time {
	if x.started.IsZero() || !x.refused.After(x.started) {
		return x.until
	}
	return earlier(p.settles(x), x.until)
}

// settles is when the scheduler will have bound no pod for a while, if it binds none from now on.
func (p *pins) settles(x *pin) time.Time {
	last := x.started
	for _, at := range []time.Time{p.bound, x.refused} {
		if at.After(last) {
			last = at
		}
	}
	return last.Add(settled)
}

// settling says whether the pod's node has just come and the scheduler is at work: then it is too early to plan for a pod whose room
// another one has taken, which may have left its own.
func (p *pins) settling(x *pin, now time.Time) bool {
	return !x.started.IsZero() && now.Before(earlier(p.settles(x), x.until))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// bind notes that the scheduler has bound a pod.
func (p *pins) bind(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bound = now
}

// refuse notes that the scheduler has looked at a pod and found no place for it.
func (p *pins) refuse(uid types.UID, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.of[uid]; x != nil {
		x.refused = now
	}
}

// next is how long it is until pods are no longer expected somewhere, at most so long.
func (p *pins) next(now time.Time, most time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.of {
		if !x.started.IsZero() {
			most = min(most, max(0, p.ends(x).Sub(now)))
		}
	}
	return most
}

// at names the node that a pod is expected on; "" if it is none that has joined.
func (p *pins) at(view *state.View, uid types.UID) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.of[uid]
	if x == nil {
		return ""
	}
	if n := view.Claim(x.claim); n != nil && n.Object != nil {
		return n.Object.Name
	}
	return ""
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
