package disruption

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	due  map[types.UID][]state.Moved // by owner: what the next pods inherit
	// began is when the first look was taken.
	began time.Time
}

// begin notes that a move for cost moves its pods.
func (m *movedPods) begin(s *start, now time.Time) {
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
	if m.due == nil {
		m.due = map[types.UID][]state.Moved{}
	}
	for _, w := range s.move.Order {
		pod := s.plan.view.Pod(types.UID(w.UID))
		if pod == nil {
			continue
		}
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			times := m.pods[pod.UID].Times + 1
			m.due[owner.UID] = append(m.due[owner.UID], state.Moved{Times: times, At: now, Paid: now.Add(payback)})
		}
	}
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
	keep := map[types.UID]state.Moved{}
	out := map[string]state.Moved{}
	for _, n := range view.Nodes {
		for _, pod := range n.Pods {
			moved, known := m.pods[pod.UID]
			if !known {
				moved, known = m.inherit(pod, first, created)
			}
			if known && now.Sub(moved.At) < recently {
				keep[pod.UID] = moved
				out[string(pod.UID)] = moved
			}
		}
	}
	m.pods = keep
	for owner, list := range m.due {
		for len(list) > 0 && now.Sub(list[0].At) >= dueFor {
			list = list[1:]
		}
		if m.due[owner] = list; len(list) == 0 {
			delete(m.due, owner)
		}
	}
	return out
}

// inherit says whether a pod has come in place of one that was moved. When a process looks for the first time, those that were replaced
// of late count: nothing is left to tell why they were.
func (m *movedPods) inherit(pod *corev1.Pod, first bool, created func(types.UID) time.Time) (state.Moved, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
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
	for i, due := range m.due[owner.UID] {
		if !at.Before(due.At.Truncate(time.Second)) {
			m.due[owner.UID] = append(m.due[owner.UID][:i:i], m.due[owner.UID][i+1:]...)
			due.At = at
			return due, true
		}
	}
	return state.Moved{}, false
}
