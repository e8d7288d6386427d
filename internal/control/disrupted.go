package control

import (
	"context"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/meter"
	"karpenter/internal/state"
)

// Counter counts claims that are removed, and the pods that have to move because of it. Client can list pods by spec.nodeName.
type Counter struct {
	Client client.Reader
	Meter  *meter.Set
}

// Disrupted counts a claim that has just been removed for a reason (O3), and its pods (O4). What cannot be read is left out: a
// metric is no reason to fail.
func (c Counter) Disrupted(ctx context.Context, claim *karpv1.NodeClaim, reason string) {
	c.DisruptedWithin(ctx, claim, reason, state.Grace(claim))
}

// DisruptedWithin is Disrupted for a claim whose drain is bounded by something else than its own grace period; nil is no bound.
func (c Counter) DisruptedWithin(ctx context.Context, claim *karpv1.NodeClaim, reason string, within *time.Duration) {
	labels := DisruptedLabels(claim, reason, "", within)
	c.Meter.Add(meter.NodeClaimsDisrupted, 1, labels...)
	c.Meter.Add(meter.PodsDisruptionInitiated, float64(c.moving(ctx, claim.Status.NodeName)), labels...)
}

// moving is how many pods of a node need another one when it goes.
func (c Counter) moving(ctx context.Context, node string) (count int) {
	pods := &corev1.PodList{}
	if node == "" || c.Client.List(ctx, pods, client.MatchingFields{"spec.nodeName": node}, client.UnsafeDisableDeepCopy) != nil {
		return 0
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || !pod.DeletionTimestamp.IsZero()
		if !ended && !OfNode(pod) {
			count++
		}
	}
	return count
}

// OfNode says whether a pod is made for one node and goes with it: a DaemonSet's, or a static one's mirror.
func OfNode(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}

// DisruptedLabels are the labels of what is counted about a claim that is removed, and drained within a time if that is not nil (O3, O4).
// policy is that by which its pool is consolidated, and empty if it is removed for another reason, as upstream has it.
func DisruptedLabels(claim *karpv1.NodeClaim, reason string, policy karpv1.ConsolidationPolicy, within *time.Duration) []string {
	return []string{
		"reason", reason, "nodepool", claim.Labels[karpv1.NodePoolLabelKey],
		"capacity_type", claim.Labels[karpv1.CapacityTypeLabelKey], "termination_mode", terminationMode(within), "consolidation_policy", snake(string(policy)),
	}
}

// terminationMode is what metrics call the way in which pods are evicted that have to go within a time, or without a bound.
func terminationMode(within *time.Duration) string {
	switch {
	case within == nil:
		return "graceful"
	case *within > 0:
		return "eventual"
	}
	return "forceful"
}

// Unhealthy counts a claim that has just been removed because a condition of its node said for too long that it was broken (O8).
func Unhealthy(set *meter.Set, claim *karpv1.NodeClaim, condition string, within *time.Duration) {
	set.Add(meter.NodeClaimsUnhealthyDisrupted, 1, "condition", snake(condition), "nodepool", claim.Labels[karpv1.NodePoolLabelKey],
		"capacity_type", claim.Labels[karpv1.CapacityTypeLabelKey], "image_id", claim.Status.ImageID, "termination_mode", terminationMode(within))
}

// blame is how the message begins by which a claim's condition DisruptionReason names a condition of its node.
const blame = "node condition "

// Blame is that message, and Blamed the condition that it names; empty if it names none, as upstream's does.
func Blame(condition string) string { return blame + condition }

// Blamed reads what Blame has written.
func Blamed(claim *karpv1.NodeClaim) string {
	reason := claim.StatusConditions().Get(karpv1.ConditionDisruptionReason)
	if reason == nil {
		return ""
	}
	condition, ok := strings.CutPrefix(reason.Message, blame)
	if !ok {
		return ""
	}
	return condition
}

// Tighten has the drain of a claim's node end by a deadline. An earlier one stays.
func Tighten(claim *karpv1.NodeClaim, deadline time.Time) {
	recorded, err := time.Parse(time.RFC3339, claim.Annotations[karpv1.TerminationTimestampAnnotationKey])
	if err != nil || recorded.After(deadline) {
		Annotate(claim, karpv1.TerminationTimestampAnnotationKey, deadline.UTC().Format(time.RFC3339))
	}
}

// Loosen removes a deadline that has passed from a claim that nobody has deleted. Whoever wrote it did not get as far as the deletion, and
// the next one, whatever it is for, would delete all pods at once (S5). Repairs that are under way look after their deadlines themselves.
func Loosen(ctx context.Context, c client.Client, claim *karpv1.NodeClaim, now time.Time) error {
	deadline, err := time.Parse(time.RFC3339, claim.Annotations[karpv1.TerminationTimestampAnnotationKey])
	reason := claim.StatusConditions().Get(karpv1.ConditionDisruptionReason)
	repaired := reason != nil && reason.Reason == string(karpv1.DisruptionReasonUnhealthy)
	if err != nil || deadline.After(now) || !claim.DeletionTimestamp.IsZero() || repaired {
		return nil
	}
	after := claim.DeepCopy()
	delete(after.Annotations, karpv1.TerminationTimestampAnnotationKey)
	_, err = Patch(ctx, c, after, claim)
	return err
}

// snake writes a type of condition, or a policy, as metrics do: AcceleratedHardwareReady becomes accelerated_hardware_ready.
func snake(text string) string {
	var b strings.Builder
	runes := []rune(text)
	for i, c := range runes {
		starts := i > 0 && unicode.IsUpper(c) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if starts && runes[i-1] != '_' {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
