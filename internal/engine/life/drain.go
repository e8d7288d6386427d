package life

import (
	"cmp"
	"slices"
	"time"
)

// minDrain is how long after the taint a node counts as drained at the earliest: the scheduler may not have seen the taint
// yet and bind one more pod (L23).
const minDrain = 5 * time.Second

// Tier is a place in the order in which pods leave a node: the next one begins when the one before is gone (L24).
type Tier int

// The tiers, in order.
const (
	Ordinary Tier = iota
	OrdinaryDaemon
	Critical
	CriticalDaemon
)

// String says which pods are meant.
func (t Tier) String() string {
	return [...]string{"ordinary pods", "daemons", "critical pods", "critical daemons"}[t]
}

// Tier is the pod's place in the order.
func (p Pod) Tier() Tier {
	t := Ordinary
	if p.Critical {
		t = Critical
	}
	if p.Daemon {
		t++
	}
	return t
}

// DrainPlan is what to do about the pods of a node now.
type DrainPlan struct {
	// Steps has one entry for each pod, in order.
	Steps []PodStep
	// Waiting is how many pods must still go, and Tier the one that is going.
	Waiting int
	Tier    Tier
	// Again is when time alone changes something; zero for never.
	Again time.Time
}

// Drain decides about all pods of a node. Pods that must go at once because of the deadline do not wait for their tier.
func Drain(pods []Pod, deadline, now time.Time) DrainPlan {
	plan := DrainPlan{Steps: make([]PodStep, len(pods)), Tier: CriticalDaemon}
	for i, p := range pods {
		step := p.Next(deadline, now)
		plan.Steps[i] = step
		if step.Do != Skip {
			plan.Waiting++
			plan.Tier = min(plan.Tier, p.Tier())
		}
	}
	for i, p := range pods {
		step := &plan.Steps[i]
		if step.Do == Evict && p.Tier() > plan.Tier {
			step.Do, step.Why = Wait, "it is evicted after the "+plan.Tier.String()
		}
		plan.Again = earliest(plan.Again, step.Until)
	}
	return plan
}

// DrainedAt is when a node that has nothing left on it counts as drained: a while after its taint. began stands in for the
// time of a taint that does not say when it was put there.
func DrainedAt(tainted, began time.Time) time.Time {
	if tainted.IsZero() {
		tainted = began
	}
	return tainted.Add(minDrain)
}

// Attachment is a volume that the cluster has attached to the node.
type Attachment struct{ Name, Volume string }

// AwaitedVolumes are the attachments that must go before the instance may, sorted by name (L28). Volumes of pods that stay until
// the end, in kept, stay with them; an attachment without a volume's name is not one that the cluster detaches.
func AwaitedVolumes(attachments []Attachment, kept map[string]bool) []Attachment {
	var awaited []Attachment
	for _, a := range attachments {
		if a.Volume != "" && !kept[a.Volume] {
			awaited = append(awaited, a)
		}
	}
	slices.SortFunc(awaited, func(a, b Attachment) int { return cmp.Compare(a.Name, b.Name) })
	return awaited
}

// KeepsVolumes says whether the volumes of a pod are never detached while the instance lives: the pod stays on it, or its
// kubelet no longer answers.
func (p Pod) KeepsVolumes(deadline, now time.Time) bool {
	return !p.Ended && p.Next(deadline, now).Do == Skip
}

// Overdue says whether a deadline has come.
func Overdue(deadline, now time.Time) bool { return !deadline.IsZero() && !now.Before(deadline) }
