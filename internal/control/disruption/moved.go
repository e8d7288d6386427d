package disruption

import (
	"cmp"
	"slices"
	"sync"
	"time"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/state"
)

const (
	// leastPayback is for how long at least a pod is not moved again for its cost.
	leastPayback = 10 * time.Minute
	// recently is how long a move makes the next one of the same pod dearer.
	recently = 24 * time.Hour
	// dueFor is how long after a move began its pods may come back under new names.
	dueFor = time.Hour
	// inherited is for how long pods that were replaced before this process began are left alone, as if it had moved them.
	inherited = 30 * time.Minute
	// replacedAfter is how much younger than its ReplicaSet a pod is that was not made with it.
	replacedAfter = 5 * time.Minute
)

// movedPods remembers which pods were moved for their cost. An evicted pod comes back under another name, so that what is known of it
// goes to the next pod that its owner creates.
type movedPods struct {
	mu   sync.Mutex
	pods map[types.UID]state.Moved
	due  map[types.UID][]due // by owner: what the next pods inherit
	// seen is the view of the last look and found what it came to, as long as nothing has become due since. It keeps no old view alive.
	seen  weak.Pointer[state.View]
	found map[string]state.Moved
	// began is when the first look was taken.
	began time.Time
	// settled, if any, is told where a moved pod has come to.
	settled func(pool string, as outcome)
}

// due is what a pod that is to come in place of a moved one inherits.
type due struct {
	state.Moved
	// pool is the one that the pod leaves, to the claim, or else the node, that its move has room for it on.
	pool, to string
	payback  time.Duration
	// left says that the pod's node has been deleted: no pod has come in its place before.
	left bool
}

// outcome is where a moved pod has come to.
type outcome string

// The outcomes: where its move had room for it, on another node that was there, or on one that had to be made for it.
const (
	asPlanned outcome = "planned"
	elsewhere outcome = "elsewhere"
	onNewNode outcome = "new_node"
)

// begin notes that a move for cost moves its pods.
func (m *movedPods) begin(s *start) {
	cost := 0.0
	for _, i := range s.move.Remove {
		cost += s.plan.in.Nodes[i].Restart
	}
	payback := leastPayback
	if s.move.Saves > 0 {
		hours := min(cost/s.move.Saves, disrupt.DefaultHorizon)
		payback = max(payback, time.Duration(hours*float64(time.Hour)))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = weak.Pointer[state.View]{}
	if m.due == nil {
		m.due = map[types.UID][]due{}
	}
	to := places(s)
	pools := map[string]string{}
	for _, n := range s.nodes {
		for _, p := range n.Pods {
			pools[string(p.UID)] = n.World.Pool
		}
	}
	for _, w := range s.move.Order {
		pod := s.plan.view.Pod(types.UID(w.UID))
		if pod == nil {
			continue
		}
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			times := m.pods[pod.UID].Times + 1
			m.due[owner.UID] = append(m.due[owner.UID], due{
				Moved: state.Moved{Times: times, At: s.began, Paid: s.began.Add(payback), Move: s.id, Was: pod.Namespace + "/" + pod.Name},
				pool:  pools[w.UID], to: to[w.UID], payback: payback, left: len(s.to) == 0,
			})
		}
	}
}

// places says where the pods of a move have room, by UID: on a claim, or else on a node.
func places(s *start) map[string]string {
	out := map[string]string{}
	for _, f := range s.move.Filled {
		for _, p := range f.Pods {
			out[p.UID] = cmp.Or(f.Node.Claim, f.Node.Name)
		}
	}
	for i, n := range s.move.Add {
		for _, p := range n.Pods {
			if i < len(s.to) {
				out[p.UID] = s.to[i]
			}
		}
	}
	return out
}

// left notes that the nodes of a move have been deleted, now that what replaces them is up.
func (m *movedPods) left(move string, now time.Time) {
	m.each(move, func(d due) (due, bool) {
		d.At, d.Paid, d.left = now, now.Add(d.payback), true
		return d, true
	})
}

// stayed notes that a move was called off.
func (m *movedPods) stayed(move string) { m.each(move, func(d due) (due, bool) { return d, false }) }

// each changes what is due because of a move, or removes it.
func (m *movedPods) each(move string, change func(due) (due, bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seen = weak.Pointer[state.View]{}
	for owner, list := range m.due {
		var out []due
		for _, d := range list {
			keep := true
			if d.Move == move {
				d, keep = change(d)
			}
			if keep {
				out = append(out, d)
			}
		}
		if m.due[owner] = out; len(out) == 0 {
			delete(m.due, owner)
		}
	}
}

// look is what refresh would find in a view, and changes nothing: whoever only reads may have a newer view than the loop, and what a pod
// inherits in one would be lost with the next look at an older one.
func (m *movedPods) look(view *state.View, now time.Time, created func(types.UID) time.Time) map[string]state.Moved {
	m.mu.Lock()
	c := &movedPods{pods: m.pods, due: map[types.UID][]due{}, seen: m.seen, found: m.found, began: m.began}
	for owner, list := range m.due {
		c.due[owner] = slices.Clone(list)
	}
	m.mu.Unlock()
	return c.refresh(view, now, created)
}

// refresh finds the pods that have come in place of moved ones, and forgets those that are gone or were moved long ago. created says
// when an owner was created.
func (m *movedPods) refresh(view *state.View, now time.Time, created func(types.UID) time.Time) map[string]state.Moved {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := m.began.IsZero()
	if first {
		m.began = now
	}
	if len(m.due) == 0 && len(m.pods) == 0 && !first {
		return nil
	}
	if m.seen.Value() == view && !m.outlived(now) {
		return m.found
	}
	keep := map[types.UID]state.Moved{}
	out := map[string]state.Moved{}
	for _, n := range view.Nodes {
		for _, pod := range n.Pods {
			moved, known := m.pods[pod.UID]
			if !known {
				moved, known = m.inherit(pod, n, first, created)
			}
			if known && now.Sub(moved.At) < recently {
				keep[pod.UID] = moved
				out[string(pod.UID)] = moved
			}
		}
	}
	m.pods, m.seen, m.found = keep, weak.Make(view), out
	for owner, list := range m.due {
		list = slices.DeleteFunc(list, func(d due) bool { return now.Sub(d.At) >= dueFor })
		if m.due[owner] = list; len(list) == 0 {
			delete(m.due, owner)
		}
	}
	return out
}

// outlived says whether something is to be forgotten by now. The caller holds the lock.
func (m *movedPods) outlived(now time.Time) bool {
	for _, moved := range m.pods {
		if now.Sub(moved.At) >= recently {
			return true
		}
	}
	for _, list := range m.due {
		if slices.ContainsFunc(list, func(d due) bool { return now.Sub(d.At) >= dueFor }) {
			return true
		}
	}
	return false
}

// inherit says whether a pod has come in place of one that was moved. When a process looks for the first time, those that were replaced
// of late count: nothing is left to tell why they were.
func (m *movedPods) inherit(pod *corev1.Pod, n *state.Node, first bool, created func(types.UID) time.Time) (state.Moved, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || pod.Spec.NodeName == "" {
		return state.Moved{}, false
	}
	at := pod.CreationTimestamp.Time
	if first {
		born := created(owner.UID)
		if born.IsZero() || at.Sub(born) < replacedAfter || m.began.Sub(at) >= inherited {
			return state.Moved{}, false
		}
		return state.Moved{Times: 1, At: at, Paid: at.Add(inherited)}, true
	}
	list := m.due[owner.UID]
	found := -1
	for i, d := range list { // pods of one owner are alike: which of them came here does not matter
		if !d.left || at.Before(d.At.Truncate(time.Second)) {
			continue
		}
		if planned := d.to != "" && (d.to == n.World.Claim || d.to == n.World.Name); found < 0 || planned {
			found = i
			if planned {
				break
			}
		}
	}
	if found < 0 {
		return state.Moved{}, false
	}
	d := list[found]
	m.due[owner.UID] = slices.Delete(slices.Clone(list), found, found+1)
	if m.settled != nil {
		m.settled(d.pool, d.came(n))
	}
	d.At = at
	return d.Moved, true
}

// came says how the node that a moved pod has come to compares with its move.
func (d *due) came(n *state.Node) outcome {
	switch {
	case d.to != "" && (d.to == n.World.Claim || d.to == n.World.Name):
		return asPlanned
	case n.Claim != nil && n.Claim.CreationTimestamp.After(d.At) && n.Claim.Annotations[karpv1.MovedFromAnnotationKey] == "":
		return onNewNode
	}
	return elsewhere
}
