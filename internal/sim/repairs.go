package sim

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "karpenter/api/karpenter/v1"
)

// dueMost is how long a repair may take once a node is sick: until it is due, two reboots that do not help, and the replacement. Where
// others are being repaired it may take longer.
const dueMost = 2 * time.Hour

// wellAgain says what is left of reboots and of what is wrong with nodes, at the end: L1, N6 and N7.
func (w *rules) wellAgain(say func(rule, format string, args ...any)) {
	if !w.repairs {
		return
	}
	total, ill, busy := map[string]int{}, map[string]int{}, map[string]bool{}
	var late []*corev1.Node
	w.claims(func(c *karpv1.NodeClaim) {
		pool, node := c.Labels[karpv1.NodePoolLabelKey], w.nodeOf(instanceOf(c))
		is := c.StatusConditions().Get(karpv1.ConditionRebooting)
		rebooting := is != nil && is.Status == metav1.ConditionTrue
		if rebooting && c.DeletionTimestamp == nil && w.now().Sub(is.LastTransitionTime.Time) > rebootMost {
			say("N7", "NodeClaim %s has been rebooting for %v", c.Name, w.now().Sub(is.LastTransitionTime.Time))
		}
		if _, left := c.Annotations[karpv1.RebootPreBootIDAnnotationKey]; is != nil && !rebooting && c.DeletionTimestamp == nil && w.now().Sub(is.LastTransitionTime.Time) > 10*time.Minute {
			if left || !c.StatusConditions().IsTrue(karpv1.ConditionInitialized) {
				say("N7", "NodeClaim %s was rebooted %v ago and is still not as it was", c.Name, w.now().Sub(is.LastTransitionTime.Time))
			}
		}
		busy[pool] = busy[pool] || rebooting || c.DeletionTimestamp != nil || c.Annotations[karpv1.MoveAnnotationKey] != ""
		if node == nil {
			return
		}
		if total[pool]++; len(illnesses(node)) > 0 {
			ill[pool]++
			since := illnesses(node)[0].LastTransitionTime.Time
			if is != nil && is.LastTransitionTime.After(since) {
				since = is.LastTransitionTime.Time
			}
			if w.now().Sub(since) > dueMost && c.DeletionTimestamp == nil && c.Annotations[karpv1.DoNotRepairAnnotationKey] == "" && node.Annotations[karpv1.DoNotRepairAnnotationKey] == "" {
				late = append(late, node)
			}
		}
		if !rebooting && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.RebootingTaintKey }) && node.DeletionTimestamp == nil && c.DeletionTimestamp == nil {
			say("L1", "node %s has the taint %s and is not rebooted", node.Name, karpv1.RebootingTaintKey)
		}
	})
	for _, node := range late {
		pool := node.Labels[karpv1.NodePoolLabelKey]
		if broken := ill[pool] > (total[pool]+4)/5; !broken && !busy[pool] {
			say("N6", "node %s is unhealthy (%s), as are %d of %d of NodePool %s, and nothing repairs it", node.Name, illnesses(node)[0].Type, ill[pool], total[pool], pool)
		}
	}
}

// rebooted says whether a claim's instance is being rebooted.
func rebooted(c *karpv1.NodeClaim) bool {
	return c.StatusConditions().IsTrue(karpv1.ConditionRebooting)
}

// rebootMost is how long a reboot may take: a drain that nothing bounds, until the cloud accepts it, and until the node is back; and a
// crash here and there.
const rebootMost = 20*time.Minute + 5*time.Minute + 20*time.Minute + 5*time.Minute

// illnesses are what is wrong with a node.
func illnesses(node *corev1.Node) (out []corev1.NodeCondition) {
	for _, c := range node.Status.Conditions {
		if slices.Contains([]corev1.NodeConditionType{corev1.NodeReady, "AcceleratedHardwareReady", "StorageReady"}, c.Type) && c.Status != corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			out = append(out, c)
		}
	}
	return out
}

// rebootAsked holds a call that reboots an instance against S9, S5 and N7: it is on record, has not been done yet, and pods have had the
// time to leave that they are given.
func (w *rules) rebootAsked(id string) {
	claim, node := w.claimOf(id), w.nodeOf(id)
	if claim == nil {
		w.breached("S9", "instance %s was to be rebooted and no NodeClaim has it on record", id)
		return
	}
	is := claim.StatusConditions().Get(karpv1.ConditionRebooting)
	boot, recorded := claim.Annotations[karpv1.RebootPreBootIDAnnotationKey]
	if is == nil || is.Status != metav1.ConditionTrue || !recorded {
		w.breached("S9", "instance %s was to be rebooted and that is not on record at NodeClaim %s: %+v", id, claim.Name, is)
		return
	}
	if node == nil {
		return
	}
	if now := node.Status.NodeInfo.BootID; now != boot {
		w.breached("N7", "instance %s was to be rebooted once more: its boot id was %s and is %s", id, boot, now)
	}
	grace, err := time.ParseDuration(claim.Annotations[karpv1.RebootGraceAnnotationKey])
	if err == nil && !w.now().Before(is.LastTransitionTime.Add(grace)) {
		return
	}
	w.podsOn(node.Name, func(pod *corev1.Pod) {
		if pod.Status.StartTime != nil && w.now().Sub(pod.Status.StartTime.Time) <= w.unseen() {
			return
		}
		w.breached("S5", "instance %s was to be rebooted under pod %s, which had not been given its time to leave", id, pod.Name)
	})
}

// repairBegun holds the beginning of a repair against N6: of the nodes of its pool no more than a fifth are unhealthy, as far as watches
// have shown.
func (w *rules) repairBegun(claim *karpv1.NodeClaim) {
	if !rebooted(claim) && !strings.Contains(claim.Annotations[karpv1.MoveAnnotationKey], "reason=Unhealthy ") || w.lag > lagMost {
		return
	}
	pool, total, ill := claim.Labels[karpv1.NodePoolLabelKey], 0, 0
	w.claims(func(c *karpv1.NodeClaim) {
		node := w.nodeOf(instanceOf(c))
		if node == nil || c.Labels[karpv1.NodePoolLabelKey] != pool {
			return
		}
		total++
		if slices.ContainsFunc(illnesses(node), func(is corev1.NodeCondition) bool { return w.now().Sub(is.LastTransitionTime.Time) > w.unseen() }) {
			ill++
		}
	})
	if ill > (total+4)/5 {
		w.breached("N6", "NodeClaim %s is repaired although %d of %d nodes of NodePool %s are unhealthy", claim.Name, ill, total, pool)
	}
}

// unseen is how long what has changed may not have been shown by a watch.
func (w *rules) unseen() time.Duration { return w.lag + w.later + time.Second }

// repairEnds holds the deletion of a node that is repaired against N6: it is unhealthy, as far as watches have shown, and is drained within
// a time.
func (w *rules) repairEnds(claim *karpv1.NodeClaim, node *corev1.Node) {
	w.repaired++
	known := len(illnesses(node)) > 0
	for _, c := range node.Status.Conditions {
		known = known || w.now().Sub(c.LastTransitionTime.Time) <= w.unseen()
	}
	if !known {
		w.breached("N6", "NodeClaim %s was replaced as unhealthy although its node is well", claim.Name)
	}
	if claim.Annotations[karpv1.TerminationTimestampAnnotationKey] == "" {
		w.breached("N6", "NodeClaim %s was replaced as unhealthy and nothing bounds its drain", claim.Name)
	}
}

// pinned says whether a PodDisruptionBudget lets no pod of a workload be evicted, ever.
func (w *rules) pinned(pod *corev1.Pod) bool {
	budget, _ := w.server.Look(&policyv1.PodDisruptionBudget{}, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels["app"]}).(*policyv1.PodDisruptionBudget)
	return budget != nil && budget.Spec.MaxUnavailable != nil && budget.Spec.MaxUnavailable.IntValue() == 0
}
