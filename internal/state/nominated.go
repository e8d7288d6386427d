package state

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"karpenter/internal/engine/world"
	"karpenter/internal/state/toworld"
)

// overdue is how long after its deletion should be over a pod still counts as one that makes room. After that nobody knows when it
// will.
const overdue = time.Minute

// Nominee is a pod that needs a node and that status.nominatedNodeName names a node for. It counts as on that node, instead of as
// pending, while the node is there to stay, would take it, and has room for it, not counting pods of lower priority that are
// being deleted: that is how a scheduler preempts. Otherwise the nomination is stale and changes nothing.
type Nominee struct {
	Pod *corev1.Pod
	// Seated says that the pod counts as on the node.
	Seated bool
	// Preempting says that pods of lower priority are being deleted there.
	Preempting bool
}

// nominatedHost is the host that a pod's nomination names; nil if there is none that counts.
func (m *Mirror) nominatedHost(o *corev1.Pod) *host {
	name := o.Status.NominatedNodeName
	if len(m.disregarded) > 0 {
		if old, known := m.disregarded[o.UID]; known && old == name {
			return nil
		} else if known {
			delete(m.disregarded, o.UID)
		}
	}
	if name == "" {
		return nil
	}
	return m.hostOf(name)
}

// nominate puts the pod among those that are nominated for a host, and away from where it was.
func (m *Mirror) nominate(e *podEntry, to *host) {
	if from := e.nominated; from != nil && from != to {
		if i, found := slices.BinarySearchFunc(from.nominees, e, comparePods); found {
			from.nominees = slices.Delete(from.nominees, i, i+1)
		}
		m.markHost(from)
	}
	if to != nil {
		if i, found := slices.BinarySearchFunc(to.nominees, e, comparePods); !found {
			to.nominees = slices.Insert(to.nominees, i, e)
		}
		m.markHost(to)
	}
	if e.nominated != to {
		m.nominations(e.nominated, to)
	}
	e.nominated, e.seated = to, false
}

func (m *Mirror) nominations(from, to *host) {
	if from != nil {
		m.nominees--
	}
	if to != nil {
		m.nominees++
	}
	m.changed = true
}

// seat is the pods of a host with those that are nominated for it and get a place by that. The host's facts must be known.
func (m *Mirror) seat(h *host) []*podEntry {
	for _, e := range h.nominees {
		e.seated = false
	}
	if len(h.nominees) == 0 || h.facts.Deleting {
		return h.pods
	}
	first := slices.Clone(h.nominees)
	slices.SortStableFunc(first, func(x, y *podEntry) int { return cmp.Compare(m.priority(y), m.priority(x)) })
	all := slices.Clone(h.pods)
	for _, e := range first {
		class := m.classes.list[e.class]
		if _, repelled := world.Untolerated(h.facts.Taints, class.Tolerations, false); repelled || !admitted(h.facts, class) {
			continue
		}
		if m.room(h.facts, all, class) {
			e.seated = true
			all = append(all, e)
		}
	}
	slices.SortFunc(all, comparePods)
	return all
}

func (m *Mirror) priority(e *podEntry) int32 { return m.classes.list[e.class].Priority }

// admitted says whether a node's labels are what pods of a class need.
func admitted(n *world.Node, class *world.Class) bool {
	refuses := func(c world.Clause) bool { return !c.Admits(n.Labels.Get) }
	return !slices.ContainsFunc(class.Needs, refuses) && !slices.ContainsFunc(class.Volumes, refuses)
}

// room says whether a node with these pods has room for one more of a class, once those that it displaces are gone.
func (m *Mirror) room(n *world.Node, pods []*podEntry, class *world.Class) bool {
	names := m.conv.Names.List()
	left := n.Allocatable
	for _, e := range pods {
		if has := m.classes.list[e.class]; !m.displaced(e, class.Priority) {
			left = left.Minus(has.Requests)
		}
	}
	for i, v := range class.Requests {
		if v > max(0, left.Get(i)) && !(n.Allocatable.Get(i) == 0 && world.UnlimitedWhenAbsent(names[i])) {
			return false
		}
	}
	return true
}

// displaced says whether a pod makes room for one of this priority: it is being deleted, and not for longer than that takes.
func (m *Mirror) displaced(e *podEntry, priority int32) bool {
	if e.world == nil || !e.world.Terminating || m.priority(e) >= priority {
		return false
	}
	until := e.pod.DeletionTimestamp.Add(overdue)
	return m.now.IsZero() || m.now.Before(until)
}

// settleNominees makes those pods of a host pending that were given no place, and returns those for which that has changed.
func (m *Mirror) settleNominees(h *host, there bool) (moved []*podEntry) {
	for _, e := range h.nominees {
		e.seated = e.seated && there
		if e.pending == e.seated {
			e.pending = !e.seated
			m.changed = true
			moved = append(moved, e)
		}
		for _, other := range h.pods { // what makes room now may turn out not to
			if m.displaced(other, m.priority(e)) && !m.now.IsZero() {
				m.wake(e, other.pod.DeletionTimestamp.Add(overdue))
			}
		}
	}
	return moved
}

// wake looks at the pod again at a time, or before.
func (m *Mirror) wake(e *podEntry, at time.Time) {
	if have, ok := m.wakes[e]; !ok || at.Before(have) {
		m.wakes[e] = at
		m.wakeBy(at)
	}
}

// Disregard takes a nomination for stale: the pod is pending as long as it names that node.
func (m *Mirror) Disregard(p *corev1.Pod) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.pods[toworld.Space(p)][p.Name]
	if e == nil || e.gone || e.pod == nil || !sameUID(e.pod, p) {
		return
	}
	m.disregarded[p.UID] = p.Status.NominatedNodeName
	m.enqueue(e, rejoin)
}

// listNominees is what a view shows of nominations, in order of namespace and name.
func (m *Mirror) listNominees() (out []Nominee) {
	if m.nominees == 0 {
		return nil
	}
	var list []*podEntry
	for _, h := range m.hosts {
		for _, e := range h.nominees {
			if e.pod != nil {
				list = append(list, e)
			}
		}
	}
	slices.SortFunc(list, comparePods)
	for _, e := range list {
		preempting := slices.ContainsFunc(e.nominated.pods, func(other *podEntry) bool { return m.displaced(other, m.priority(e)) })
		out = append(out, Nominee{Pod: e.pod, Seated: e.seated, Preempting: preempting})
	}
	return out
}
