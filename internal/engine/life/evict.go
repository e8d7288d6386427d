package life

import (
	"fmt"
	"time"
)

const (
	// stuckAfter is how long after the time at which it should have ended a pod is waited for: its kubelet has then been
	// silent for so long that it will not answer (L23).
	stuckAfter = time.Minute
	// The back-off of an eviction that is refused (L26).
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 10 * time.Second
)

// Pod is what draining needs to know of a pod on the node.
type Pod struct {
	// Critical pods have the priority class system-cluster-critical or system-node-critical; Daemon pods belong to a DaemonSet.
	Critical, Daemon bool
	// Ended pods have succeeded or failed. Mirror pods are the kubelet's own. Tolerant pods tolerate the taint of a node that
	// is being removed, so that they would come straight back.
	Ended, Mirror, Tolerant bool
	// Grace is the pod's own termination grace period.
	Grace time.Duration
	// Leaving is when a pod that has been told to go must have ended; zero for others. LeavingGrace is how long it was given.
	Leaving      time.Time
	LeavingGrace time.Duration
	// Started is when the kubelet took the pod, and DoNotDisrupt the value of that annotation.
	Started      time.Time
	DoNotDisrupt string
}

// PodAction is what to do about a pod now.
type PodAction string

// The actions.
const (
	// Skip means that draining does not care about the pod.
	Skip PodAction = "skip"
	// Wait means that the pod must go before the node may, and that there is nothing to do about it now.
	Wait PodAction = "wait"
	// Evict asks the API to evict it, which budgets may refuse.
	Evict PodAction = "evict"
	// Delete deletes it with a shortened grace period; budgets and protection are not asked.
	Delete PodAction = "delete"
)

// PodStep is what to do about a pod now, and why.
type PodStep struct {
	Do PodAction
	// Grace is how long a deleted pod is given.
	Grace time.Duration
	// Until is when time alone may change the step; zero for never.
	Until time.Time
	Why   string
	// Protected says that only do-not-disrupt keeps the pod.
	Protected bool
}

// Next decides about one pod by itself, whatever else is on the node (D62, L23). A zero deadline never comes.
func (p Pod) Next(deadline, now time.Time) PodStep {
	switch {
	case p.Ended:
		return PodStep{Do: Skip, Why: "it has ended"}
	case p.Mirror:
		return PodStep{Do: Skip, Why: "it is the kubelet's own pod and ends with the node"}
	case p.Tolerant:
		return PodStep{Do: Skip, Why: "it tolerates the taint karpenter.sh/disrupted and would come straight back"}
	case !p.Leaving.IsZero():
		return p.nextLeaving(deadline, now)
	}
	force := deadline.Add(-max(0, p.Grace))
	if !deadline.IsZero() && !now.Before(force) {
		grace := graceLeft(deadline, now)
		return PodStep{Do: Delete, Grace: grace, Why: fmt.Sprintf("the node must be deleted by %s, which leaves the pod %s of its %s", stamp(deadline), grace, p.Grace)}
	}
	step := PodStep{Do: Evict, Why: "the node is being deleted"}
	if !deadline.IsZero() {
		step.Until = force
	}
	shield := Protect(p.DoNotDisrupt, p.Started, now)
	if !shield.Holds {
		return step
	}
	step.Do, step.Protected = Wait, true
	switch {
	case !shield.Until.IsZero():
		step.Why = fmt.Sprintf("karpenter.sh/do-not-disrupt keeps it until %s", stamp(shield.Until))
		step.Until = earliest(step.Until, shield.Until)
	case p.DoNotDisrupt == "true":
		step.Why = "karpenter.sh/do-not-disrupt keeps it"
	default:
		step.Why = fmt.Sprintf("karpenter.sh/do-not-disrupt keeps it for %s after it starts", p.DoNotDisrupt)
	}
	return step
}

// nextLeaving decides about a pod that has been told to go.
func (p Pod) nextLeaving(deadline, now time.Time) PodStep {
	end := p.Leaving
	if !deadline.IsZero() && p.shortened(deadline) {
		end = later(end, deadline)
	}
	stuck := end.Add(stuckAfter)
	if !now.Before(stuck) {
		return PodStep{Do: Skip, Why: fmt.Sprintf("it should have ended at %s; its kubelet does not answer", stamp(end))}
	}
	if !deadline.IsZero() && p.Leaving.After(deadline) {
		if grace := graceLeft(deadline, now); p.LeavingGrace > grace {
			return PodStep{Do: Delete, Grace: grace, Until: stuck, Why: fmt.Sprintf("the node must be deleted by %s, and the pod would take until %s", stamp(deadline), stamp(p.Leaving))}
		}
	}
	return PodStep{Do: Wait, Until: stuck, Why: fmt.Sprintf("it has until %s to end", stamp(end))}
}

// shortened says whether the time that the pod was given has been cut so as to end by the deadline. The API server counts the
// shorter time from when the pod was first told to go, so that Leaving may then lie in the past although the containers
// have until the deadline.
func (p Pod) shortened(deadline time.Time) bool {
	return p.LeavingGrace < p.Grace && p.Leaving.Add(p.Grace-p.LeavingGrace).After(deadline)
}

// EvictBackoff is how long to leave a pod alone after its eviction has been refused that many times in a row.
func EvictBackoff(failures int) time.Duration {
	wait := firstBackoff
	for i := 1; i < failures && wait < lastBackoff; i++ {
		wait *= 2
	}
	return min(wait, lastBackoff)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// earliest is the earlier of two times of which either may be zero, for never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
