package state

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/engine/life"
	"karpenter/internal/state/toworld"
)

// rules are checked repair policies; nil if there are none, and nothing is repaired then. Whoever gives policies has checked them.
func rules(policies []life.RepairPolicy) *life.RepairRules {
	if len(policies) == 0 {
		return nil
	}
	r, err := life.NewRepairRules(policies)
	if err != nil {
		return nil
	}
	return r
}

// Conditions are what a node says of itself.
func Conditions(n *corev1.Node) []life.NodeCondition {
	out := make([]life.NodeCondition, 0, len(n.Status.Conditions))
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		out = append(out, life.NodeCondition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Since: c.LastTransitionTime.Time})
	}
	return out
}

// illness is what is wrong with a node of a claim; nil if it is healthy (N6).
func (r *disruptionReader) illness(n *Node) *disrupt.Illness {
	if r.rules == nil || n.Object == nil {
		return nil
	}
	found, ok := r.rules.Diagnose(since(Conditions(n.Object), rebooted(n.Claim)), r.now)
	if !ok {
		return nil
	}
	reboot := found.Policy.Action == life.RebootNode
	may := life.MayReboot(life.Reboots(n.Claim.Annotations[v1.RebootsAnnotationKey], r.now))
	return &disrupt.Illness{
		What: found.String(), Condition: found.Condition.Type, Due: found.Due, Priority: found.Policy.Priority, Reboot: reboot && may, Escalated: reboot && !may,
		Grace: life.DrainWithin(found.Policy.Grace, Grace(n.Claim)), Fixed: r.unrepairable(n),
	}
}

// rebooted is when the claim's instance was last rebooted with success; zero if it was not.
func rebooted(c *v1.NodeClaim) time.Time {
	if is := condition(c, v1.ConditionRebooting); is != nil && is.Status == "False" && is.Reason == v1.ReasonRebootSucceeded {
		return is.LastTransitionTime.Time
	}
	return time.Time{}
}

// since has conditions count from a reboot on at the earliest: whoever writes them has to find out anew.
func since(list []life.NodeCondition, reboot time.Time) []life.NodeCondition {
	for i := range list {
		if !list[i].Since.IsZero() && list[i].Since.Before(reboot) {
			list[i].Since = reboot
		}
	}
	return list
}

// beingRebooted is why nothing is done about a node whose instance is being rebooted.
const beingRebooted = "its instance is being rebooted"

// unrepairable says why a node is not to be repaired, whatever is wrong with it.
func (r *disruptionReader) unrepairable(n *Node) string {
	if r.opt.Busy != nil {
		if what := r.opt.Busy(n.Claim.Name); what != "" {
			return what
		}
	}
	switch w := n.World; {
	case w.Deleting:
		return "it is being deleted already"
	case toworld.Holds(n.Claim, v1.ConditionRebooting):
		return beingRebooted
	case w.InFlight, !toworld.Holds(n.Claim, v1.ConditionRegistered):
		return "it has not joined the cluster yet"
	case w.Pool == "":
		return "it belongs to no pool: it has no label " + v1.NodePoolLabelKey
	case len(n.Pods) != len(w.Pods):
		return "its pods are not known"
	case n.Object.Annotations[v1.DoNotRepairAnnotationKey] == "true" || n.Claim.Annotations[v1.DoNotRepairAnnotationKey] == "true":
		return "it has the annotation " + v1.DoNotRepairAnnotationKey
	}
	return ""
}

// Grace is the claim's termination grace period; nil if it has none.
func Grace(c *v1.NodeClaim) *time.Duration {
	if c.Spec.TerminationGracePeriod == nil {
		return nil
	}
	return &c.Spec.TerminationGracePeriod.Duration
}
