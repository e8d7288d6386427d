package state

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"karpenter/internal/state/toworld"
)

// kinKey is an owner and what the pods are like that it has made; zero for a pod without a controller.
type kinKey struct {
	owner types.UID
	draft *toworld.Draft
}

// kin are pods that one owner has made alike and that have no node. What the scheduler has found of one of them it would find of all:
// while it comes to one pod after another, and looks again at those that it has refused whenever a node joins, the others must not
// wait for its word. Whether there is room for them meanwhile is up to the plan, as for those that it has refused.
type kin struct {
	refused int
	unseen  map[*podEntry]bool
	// verdict says that one was refused since all were seen last. It outlives that one: nodes are on their way for the others.
	verdict bool
}

// kinSet knows the kin of every pod that has no node.
type kinSet struct {
	of map[kinKey]*kin
	// touched are those of which a pod has come or gone.
	touched map[kinKey]bool
	// shared are pods that shared a verdict when the view was made which is being made again.
	shared map[string]bool
}

// remember takes over what Shared has said of a view.
func (s *kinSet) remember(pods []string) {
	s.shared = make(map[string]bool, len(pods))
	for _, uid := range pods {
		s.shared[uid] = true
	}
}

// join puts the pod among its kin, or takes it away from them, and finds out whether it shares their verdict as far as that is known.
func (s *kinSet) join(e *podEntry) {
	key, unseen := kinKey{}, false
	if e.draft != nil && wantsNode(e.pod) {
		if owner := metav1.GetControllerOfNoCopy(e.pod); owner != nil {
			unseen = !Tried(e.pod)
			if unseen || refused(e.pod) {
				key = kinKey{owner.UID, e.draft}
			}
		}
	}
	if e.kin != key || e.unseen != unseen {
		s.count(e, -1)
		e.kin, e.unseen = key, unseen
		s.count(e, 1)
	}
	e.shares = e.unseen && s.of[e.kin].verdict
}

// count adds the pod to its kin, or removes it.
func (s *kinSet) count(e *podEntry, n int) {
	if e.kin == (kinKey{}) {
		return
	}
	if s.of == nil {
		s.of, s.touched = map[kinKey]*kin{}, map[kinKey]bool{}
	}
	k := s.of[e.kin]
	if k == nil {
		k = &kin{unseen: map[*podEntry]bool{}}
		s.of[e.kin] = k
	}
	switch {
	case !e.unseen:
		k.refused += n
	case n > 0:
		k.unseen[e] = true
	default:
		delete(k.unseen, e)
	}
	k.verdict = k.verdict || k.refused > 0 || s.shared[string(e.pod.UID)]
	if k.refused+len(k.unseen) == 0 {
		delete(s.of, e.kin)
	}
	s.touched[e.kin] = true
}

// unsettled lists the pods whose kin have got another verdict since they joined them, in order of namespace and name.
func (s *kinSet) unsettled() (out []*podEntry) {
	for key := range s.touched {
		if k := s.of[key]; k != nil {
			for e := range k.unseen {
				if e.shares != k.verdict {
					out = append(out, e)
				}
			}
		}
	}
	clear(s.touched)
	slices.SortFunc(out, comparePods)
	return out
}

// Shared names the pods that need a node because their kin do, by UID.
func (v *View) Shared() (out []string) {
	note := func(p *corev1.Pod) {
		if p != nil && !Tried(p) {
			out = append(out, string(p.UID))
		}
	}
	for _, p := range v.World.Pending {
		note(v.Pod(types.UID(p.UID)))
	}
	for i := range v.Nominees {
		note(v.Nominees[i].Pod)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Tried says whether a scheduler has looked at the pod, or is not to.
func Tried(p *corev1.Pod) bool {
	return len(p.Spec.SchedulingGates) > 0 || slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
}
