package provision

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
	"karpenter/internal/wait"
)

const (
	// nominateWorkers is how many pods are nominated at once.
	nominateWorkers = 16
	// nominateTime is how long nominations may hold up the nodes that they are for.
	nominateTime = 5 * time.Second
	// maxNominations is how often a pod is nominated for one node, againWorkers how many at once after the first time, and maxDropped
	// how many may wait for that.
	maxNominations = 3
	againWorkers   = 8
	maxDropped     = 1024
	// staleAfter is how long a nomination counts that nothing comes of and that is not known to be ours.
	staleAfter = 30 * time.Second
)

// NominatingMirror is what a Nominator needs of the mirror; state.Mirror is one.
type NominatingMirror interface {
	View() *state.View
	// Wrote shows the mirror what the API server answered to a write.
	Wrote(obj state.Object)
	// Disregard takes a pod's nomination for stale.
	Disregard(pod *corev1.Pod)
}

// Nominator lets pods go where they were planned. kube-scheduler tries the node first that status.nominatedNodeName names, and
// holds room on it against others of the same or lower priority. It also clears the field of every pod that it tries and finds no
// place for, and then tries all others again. So pods are nominated when their node is about to be opened to them, and not before.
type Nominator struct {
	// Client writes to the API server at a pace of its own.
	Client  client.Client
	Mirror  NominatingMirror
	Creator *Creator
	Clock   control.Clock
	Log     *slog.Logger
	// Off nominates nothing: nodes are only opened some at a time.
	Off bool
	// Wake has a claim looked at again; may be nil.
	Wake func(claim string)

	lots   lots
	turn   sync.Mutex // of lots
	denied atomic.Bool

	mu     sync.Mutex
	made   map[types.UID]nomination // ours
	others map[types.UID]nomination // those of others, and since when they have been seen
	opened map[string]bool          // claims whose pods have been nominated
	drops  chan nominee
}

type nomination struct {
	node  string
	since time.Time
	times int
}

// nominate nominates the pods that are expected on the nodes of claims, if it matters where they go.
func (n *Nominator) nominate(ctx context.Context, claims ...string) {
	for _, claim := range claims {
		n.once(claim)
	}
	if n.off() {
		return
	}
	view := n.Mirror.View()
	expected := n.Creator.Expected(view)
	if len(claims) == 1 && !contended(view, expected, claims[0]) {
		return
	}
	planned := nominees(view, expected, claims)
	ctx, cancel := wait.Timeout(ctx, n.Clock, nominateTime)
	defer cancel()
	begin := n.Clock.Now()
	large := large(view, planned)
	var list []nominee
	for _, uid := range slices.Sorted(maps.Keys(planned)) {
		if pod := view.Pod(uid); pod != nil && pod.Spec.NodeName == "" && large[uid] {
			list = append(list, nominee{pod, view.Claim(planned[uid]).Object.Name})
		}
	}
	wait.Each(n.Clock, len(list), nominateWorkers, func(i int) { n.write(ctx, list[i].pod, list[i].node) })
	n.Log.Debug("nominated pods", "pod-count", len(planned), "nodes", len(claims), "duration", n.Clock.Since(begin))
}

// nominees says which pods are to be nominated for which claim's node: those that are expected there and may come in any order.
func nominees(view *state.View, expected map[string]string, claims []string) map[types.UID]string {
	out := map[types.UID]string{}
	for _, pod := range view.World.Pending {
		claim := expected[pod.UID]
		if !slices.Contains(claims, claim) || !independent(view.World.Classes[pod.Class]) {
			continue
		}
		if at := view.Claim(claim); at != nil && at.Object != nil {
			out[uid(pod)] = claim
		}
	}
	return out
}

// independent says whether pods of a class can go to their nodes in any order. Those that must be even over zones cannot: one that the
// scheduler comes to too early is refused where it is to go, and goes to another zone or drops its nomination, and then the next
// is refused too. The scheduler does better by itself.
func independent(c *world.Class) bool {
	return !slices.ContainsFunc(c.Spread, func(s world.Spread) bool { return s.Hard && s.Key != world.LabelHostname }) &&
		!slices.ContainsFunc(c.Affinity, func(t world.PodTerm) bool { return t.Weight == 0 })
}

// largePart is the part of a node, one in so many, that a pod takes at least for its place to matter. Smaller ones fit where the others
// leave room, and each nomination is a write that the API server, the scheduler and all who watch pods have to deal with.
const largePart = 8

// large says which pods take so much of the nodes that they are expected on that their place matters.
func large(view *state.View, planned map[types.UID]string) map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, w := range view.World.Pending {
		n := view.Claim(planned[uid(w)])
		if n == nil {
			continue
		}
		for i, v := range view.World.Classes[w.Class].Requests {
			if has := n.World.Allocatable.Get(i); v > 0 && has > 0 && v >= has/largePart {
				out[uid(w)] = true
			}
		}
	}
	return out
}

// nominee is a nomination: a pod, and the node that it is for.
type nominee struct {
	pod  *corev1.Pod
	node string
}

// Dropped is told of a pod that the scheduler has tried without success, and dropped its nomination: for a moment there may be too many of its
// kind in a zone, or its node was not known to be open yet. It never blocks.
func (n *Nominator) Dropped(pod *corev1.Pod, node string) {
	n.mu.Lock()
	last := n.made[pod.UID]
	n.mu.Unlock()
	if last.node == node && last.times < maxNominations && !n.off() {
		select {
		case n.queue() <- nominee{pod, node}:
		default: // more than can be done anything about
		}
	}
}

func (n *Nominator) queue() chan nominee {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.drops == nil {
		n.drops = make(chan nominee, maxDropped)
	}
	return n.drops
}

// run nominates pods again whose nomination was dropped, while they are expected there.
func (n *Nominator) run(ctx context.Context) {
	for range againWorkers {
		wait.Go(n.Clock, func() {
			for {
				x, ok := wait.Receive(ctx, n.Clock, wait.Forever, n.queue())
				if !ok {
					return
				}
				if n.Creator.pins.at(n.Mirror.View(), x.pod.UID) == x.node {
					n.write(ctx, x.pod, x.node)
				}
			}
		})
	}
}

// contended says whether there is a pod that might take the room of those that are expected on a claim's node.
func contended(view *state.View, expected map[string]string, claim string) bool {
	for _, pod := range view.World.Pending {
		if expected[pod.UID] != claim {
			return true
		}
	}
	for _, pod := range view.Idle() {
		if pod.Spec.NodeName == "" && !control.OfNode(pod) && len(pod.Spec.SchedulingGates) == 0 {
			return true
		}
	}
	return false
}

// once says whether a claim's pods have not been nominated, and that they are now.
func (n *Nominator) once(claim string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.opened[claim] {
		return false
	}
	if n.opened == nil {
		n.opened = map[string]bool{}
	}
	n.opened[claim] = true
	return true
}

func (n *Nominator) off() bool { return n.Off || n.denied.Load() }

// write nominates a pod for a node, or takes its nomination back if there is none. What goes wrong with a pod that has been bound,
// deleted or made anew meanwhile does not matter.
func (n *Nominator) write(ctx context.Context, pod *corev1.Pod, node string) {
	var value any
	if node != "" {
		value = node
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"nominatedNodeName": value}})
	if err != nil {
		return
	}
	obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	err = n.Client.Status().Patch(ctx, obj, client.RawPatch(types.MergePatchType, body))
	switch {
	case apierrors.IsForbidden(err):
		if !n.denied.Swap(true) {
			n.Log.Info("pods are not nominated for nodes: the API server does not allow it", "error", err)
		}
	case err != nil:
		n.Log.Debug("could not nominate a pod", "Pod", pod.Namespace+"/"+pod.Name, "Node", node, "error", err)
	default:
		n.note(pod.UID, node)
		n.Mirror.Wrote(obj)
	}
}

func (n *Nominator) note(uid types.UID, node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if node == "" {
		delete(n.made, uid)
		return
	}
	if n.made == nil {
		n.made = map[types.UID]nomination{}
	}
	times := 1
	if last := n.made[uid]; last.node == node {
		times += last.times
	}
	n.made[uid] = nomination{node, n.Clock.Now(), times}
}

// Sweep takes back nominations of ours that lead nowhere, and keeps any from hiding a pod for long.
func (n *Nominator) Sweep(ctx context.Context, view *state.View) {
	n.lots.keep(func(claim string) bool { return view.Claim(claim) != nil })
	ctx, cancel := wait.Timeout(ctx, n.Clock, nominateTime)
	defer cancel()
	over := n.stale(view)
	for _, x := range over {
		n.Mirror.Disregard(x)
	}
	if n.off() {
		return
	}
	over = slices.DeleteFunc(over, func(x *corev1.Pod) bool { return !ourNode(view, x.Status.NominatedNodeName) })
	wait.Each(n.Clock, len(over), nominateWorkers, func(i int) { n.write(ctx, over[i], "") })
}

// stale lists the pods whose nominations are over.
func (n *Nominator) stale(view *state.View) (out []*corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.Clock.Now()
	others := map[types.UID]nomination{}
	seen := map[types.UID]bool{}
	for _, x := range view.Nominees {
		pod, node := x.Pod, x.Pod.Status.NominatedNodeName
		seen[pod.UID] = true
		if x.Preempting || n.Creator.pins.at(view, pod.UID) == node { // the scheduler's, which is under way, or where we want it
			continue
		}
		if n.made[pod.UID].node == node || plannedAt(view, pod, node) {
			out = append(out, pod)
			continue
		}
		since := n.others[pod.UID]
		if since.node != node {
			since = nomination{node: node, since: now}
		}
		if others[pod.UID] = since; now.Sub(since.since) >= staleAfter {
			out = append(out, pod)
		}
	}
	n.others = others
	for uid, x := range n.made {
		if !seen[uid] && now.Sub(x.since) > nominateTime { // by then the mirror has seen it
			delete(n.made, uid)
		}
	}
	for claim := range n.opened {
		if view.Claim(claim) == nil {
			delete(n.opened, claim)
		}
	}
	return out
}

// plannedAt says whether the claim of a node was made for the pod: then it was us who nominated it, maybe before a restart.
func plannedAt(view *state.View, pod *corev1.Pod, node string) bool {
	at := view.Node(node)
	if at == nil || at.Claim == nil {
		return false
	}
	return strings.Contains(at.Claim.Annotations[karpv1.PlannedPodsAnnotationKey], podKey(&world.Pod{UID: string(pod.UID)}))
}

// ourNode says whether a nomination for the node is ours to take back: no other scheduler has to do with nodes that we make, or
// that do not exist, once it leads nowhere.
func ourNode(view *state.View, node string) bool {
	at := view.Node(node)
	return at == nil || at.Claim != nil
}
