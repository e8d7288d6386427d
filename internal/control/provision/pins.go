package provision

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
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
	// seatWait is how long after the start of its node a pod whose room there has been taken waits at most for the scheduler to come to
	// rest: where pods keep coming it never does.
	seatWait = 3 * time.Second
	// gather is how long the first pod that is not expected anywhere any more waits for others: each would be given a node of its own.
	gather = time.Second / 2
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
	// of are never changed, only replaced, so that whoever only reads may work on a copy of the map.
	of map[types.UID]*pin
	// added counts the expectations that were ever added.
	added uint64
	// bound is when the scheduler last bound a pod.
	bound time.Time
	// read says that the claims that were there at first have been read.
	read bool
}

type pin struct {
	claim string
	until time.Time
	// number is its place among all that were ever added.
	number uint64
	// started is when the claim's node was first seen to be up, refused when the scheduler last looked at the pod without success.
	started, refused time.Time
	// lost says that others have taken the room.
	lost bool
}

// add expects pods on the node of a claim.
func (p *pins) add(claim string, pods []*world.Pod, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = map[types.UID]*pin{}
	}
	for _, pod := range world.Real(pods) { // spare pods give their room to whoever comes
		if have := p.of[uid(pod)]; have == nil || have.claim != claim {
			p.added++
			p.of[uid(pod)] = &pin{claim: claim, until: now.Add(maxPin), number: p.added}
		}
	}
}

// restored is what a process before this one expected, as the claims tell, beside what this one does. Of two claims that were made
// for a pod the later one counts: the pod was planned anew because it could not go to the first.
func (p *pins) restored(view *state.View) map[types.UID]*pin {
	of := maps.Clone(p.of)
	if of == nil {
		of = map[types.UID]*pin{}
	}
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
		if n == nil || of[uid(pod)] != nil {
			continue
		}
		x := &pin{claim: n.Claim.Name, until: n.Claim.CreationTimestamp.Add(maxPin)}
		if up := n.Claim.StatusConditions().Get(karpv1.ConditionInitialized); up != nil && up.Status == metav1.ConditionTrue {
			x.started, x.until = up.LastTransitionTime.Time, up.LastTransitionTime.Add(pinAfterStart)
		}
		of[uid(pod)] = x
	}
	return of
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

// look is what expectations are held against.
type look struct {
	view *state.View
	now  time.Time
	// half are the claims whose nodes are being shut for a move: until what replaces them is known, their pods stay where they are.
	half map[string]bool
	// pins is how many expectations had been added when the view was taken: it says nothing about later ones.
	pins uint64
}

// count is how many expectations have been added; see look.
func (p *pins) count() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.added
}

// apply finds where pods that need a node are expected, and forgets those that need none any more. It is for those who plan:
// others read.
func (p *pins) apply(l look) pinned {
	p.mu.Lock()
	defer p.mu.Unlock()
	out, keep := p.find(l)
	p.of, p.read = keep, true
	return out
}

// expected is what apply would find, and forgets nothing: a view may be an old one, or nobody's but a reader's.
func (p *pins) expected(l look) pinned {
	p.mu.Lock()
	defer p.mu.Unlock()
	out, _ := p.find(l)
	return out
}

// find says where pods that need a node are expected, and which expectations still hold.
func (p *pins) find(l look) (out pinned, keep map[types.UID]*pin) {
	of := p.of
	if !p.read {
		of = p.restored(l.view)
	}
	keep = map[types.UID]*pin{}
	if len(of) == 0 && len(l.half) == 0 {
		return pinned{}, keep
	}
	out = pinned{Expected: map[string]string{}}
	view, now, room := l.view, l.now, map[*world.Node]world.Resources{}
	for uid, x := range of {
		if x.number > l.pins {
			keep[uid] = x
		}
	}
	for _, pod := range view.World.Over().Wanting() {
		x := of[uid(pod)]
		if x == nil {
			continue
		}
		x, n := p.target(view, x, now)
		if n == nil {
			continue
		}
		if lost := !fits(view.World, n, pod, room); lost && !p.settling(x, now) {
			continue
		} else if lost != x.lost {
			c := *x
			c.lost = lost
			x = &c
		}
		keep[uid(pod)] = x
		out.Expected[pod.UID] = x.claim
	}
	for _, n := range view.World.Nodes {
		if !n.Deleting || !l.half[n.Claim] {
			continue
		}
		for _, pod := range n.Pods {
			if pod.Movable && out.Expected[pod.UID] == "" {
				out.Expected[pod.UID] = n.Claim
			}
		}
	}
	out.Pods = len(out.Expected)
	for _, x := range view.Nominees { // they count as on the node already
		if pin := of[x.Pod.UID]; x.Seated && pin != nil {
			if pin, n := p.target(view, pin, now); n != nil {
				keep[x.Pod.UID] = pin
				room[view.Claim(pin.claim).World] = nil
			}
		}
	}
	if len(room) > 0 {
		for _, n := range view.World.Nodes {
			if _, taken := room[n]; taken {
				out.Claims = append(out.Claims, n.Claim)
			}
		}
	}
	return out, keep
}

// target is the node that a pod is expected on, or nil when that is over, and the expectation with what was found out about it.
func (p *pins) target(view *state.View, x *pin, now time.Time) (*pin, *world.Node) {
	n := view.Claim(x.claim)
	if n == nil || n.World.Deleting {
		return x, nil
	}
	if n.World.Initialized && x.started.IsZero() {
		c := *x
		c.started, c.until = now, now.Add(pinAfterStart)
		if up := n.Claim.StatusConditions().Get(karpv1.ConditionInitialized); up.Status == metav1.ConditionTrue { // this look may be late
			c.started = earlier(now, up.LastTransitionTime.Time)
		}
		x = &c
	}
	if !now.Before(p.ends(x)) {
		return x, nil
	}
	return x, n.World
}

// ends is when the pod is not expected there any more.
func (p *pins) ends(x *pin) time.Time {
	switch {
	case x.started.IsZero():
		return x.until
	case x.lost:
		return p.givesUp(x)
	case !x.refused.After(x.started):
		return x.until
	}
	return earlier(p.settles(x), x.until)
}

// givesUp is when a pod whose room is taken is planned anew.
func (p *pins) givesUp(x *pin) time.Time {
	return earlier(earlier(p.settles(x), x.started.Add(seatWait)), x.until)
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
	return !x.started.IsZero() && now.Before(p.givesUp(x))
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

// refuse notes that the scheduler has found a pod unschedulable.
func (p *pins) refuse(uid types.UID, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.of[uid]; x != nil {
		c := *x
		c.refused = now
		p.of[uid] = &c
	}
}

// next is how long it is until pods are no longer expected somewhere, and those that follow at once neither, at most so long.
func (p *pins) next(now time.Time, most time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.of {
		if !x.started.IsZero() {
			most = min(most, max(0, p.ends(x).Add(gather).Sub(now)))
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
