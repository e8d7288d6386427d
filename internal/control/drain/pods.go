package drain

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
	"karpenter/internal/state"
)

// maxNamed bounds how many pods or volumes a message names.
const maxNamed = 5

// empty makes the pods leave; done is true when none is left that must (L23, L24).
func (r *nodes) empty(ctx context.Context, v *visit) (bool, time.Duration, error) {
	r.tellDeadline(v.node, v.deadline)
	if v.claim != nil && v.claim.StatusConditions().IsTrue(karpv1.ConditionDrained) {
		v.drained = true
		return true, 0, nil
	}
	// The cache is asked first because it costs nothing, and the API server itself before a node counts as drained: nothing
	// may end under a pod that was never asked to leave.
	for _, reader := range []client.Reader{r.Client, r.Live} {
		pods, err := podsOn(ctx, reader, v.node.Name)
		if err != nil {
			return false, 0, err
		}
		plan := r.ask(v, pods)
		if plan.Waiting == 0 {
			if again := r.tooEarly(v); again > 0 {
				return false, again, nil
			}
			continue
		}
		ok, err := r.condition(ctx, v.claim, karpv1.Condition{
			Type: karpv1.ConditionDrained, Status: metav1.ConditionUnknown, Reason: karpv1.ReasonDraining, Message: kept(pods, plan),
		})
		if err != nil || !ok {
			return false, soon, err
		}
		return false, until(plan.Again, r.Clock.Now()), nil
	}
	v.drained = true
	return true, 0, nil
}

// ask decides about the pods and puts those that must go now into the queue.
func (r *nodes) ask(v *visit, pods []corev1.Pod) life.DrainPlan {
	facts := make([]life.Pod, len(pods))
	for i := range pods {
		facts[i] = state.Leaving(&pods[i])
	}
	plan := life.Drain(facts, v.deadline, r.Clock.Now())
	reason := evictionReason(v.claim)
	for i, step := range plan.Steps {
		if step.Do == life.Skip {
			continue
		}
		r.tellProtection(&pods[i], facts[i], step)
		if step.Do == life.Evict || step.Do == life.Delete {
			r.queue.Add(&pods[i], order{node: v.node, deadline: v.deadline, reason: reason})
		}
	}
	return plan
}

// tooEarly is how long a node without pods must still be watched for one that the scheduler sends because it has not seen the
// taint yet.
func (r *nodes) tooEarly(v *visit) time.Duration {
	var tainted time.Time
	if t := disrupted(v.node); t != nil && t.TimeAdded != nil {
		tainted = t.TimeAdded.Time
	}
	began := deletedAt(v.node)
	if v.claim != nil {
		if c := v.claim.StatusConditions().Get(karpv1.ConditionDrained); c != nil {
			began = c.LastTransitionTime.Time
		}
	}
	return max(0, life.DrainedAt(tainted, began).Sub(r.Clock.Now()))
}

// until is how long to wait for a time, or for the next sweep if that comes first.
func until(at, now time.Time) time.Duration {
	if at.IsZero() {
		return sweepEvery
	}
	return min(sweepEvery, max(soon, at.Sub(now)))
}

// kept says what keeps a node from being drained; it stays the same while pods come and go as they should.
func kept(pods []corev1.Pod, plan life.DrainPlan) string {
	var named []string
	count := 0
	for i, step := range plan.Steps {
		if !step.Protected {
			continue
		}
		if count++; len(named) < maxNamed {
			named = append(named, pods[i].Namespace+"/"+pods[i].Name)
		}
	}
	if count == 0 {
		return "pods are being evicted from the node"
	}
	return "karpenter.sh/do-not-disrupt keeps " + control.Named(named, count)
}

// podsOn lists the pods of a node. They may be the cache's own and must not be changed.
func podsOn(ctx context.Context, reader client.Reader, node string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := reader.List(ctx, pods, client.MatchingFields{indexNodeName: node}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the pods of Node %s: %w", node, err)
	}
	return pods.Items, nil
}

// detach waits until the node's volumes are free for their next node (L28), but not beyond the deadline (D63). It writes down that the
// pods have left, too: most nodes have no volumes, and need one write instead of two.
func (r *nodes) detach(ctx context.Context, v *visit) (bool, time.Duration, error) {
	if v.claim != nil && v.claim.StatusConditions().IsTrue(karpv1.ConditionDrained) {
		if c := v.claim.StatusConditions().Get(karpv1.ConditionVolumesDetached); c != nil && c.Status != metav1.ConditionUnknown {
			return true, 0, nil
		}
	}
	awaited, err := r.awaited(ctx, v)
	if err != nil {
		return false, 0, err
	}
	c := karpv1.Condition{Type: karpv1.ConditionVolumesDetached, Status: metav1.ConditionTrue}
	again := time.Duration(0)
	switch names := nameVolumes(awaited); {
	case len(awaited) == 0:
	case life.Overdue(v.deadline, r.Clock.Now()):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, karpv1.ReasonTerminationGracePeriodElapsed, "still attached: "+names
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, karpv1.ReasonAwaitingVolumeDetachment, "still attached: "+names
		again = until(v.deadline, r.Clock.Now())
		r.Recorder.Tell(control.Event{Object: v.node, Reason: EventAwaitingVolumeDetachment, Message: "Waiting for volumes to be detached"})
	}
	if ok, err := r.condition(ctx, v.claim, karpv1.Condition{Type: karpv1.ConditionDrained, Status: metav1.ConditionTrue}, c); err != nil || !ok {
		return false, soon, err
	}
	return again == 0, again, nil
}

func nameVolumes(awaited []life.Attachment) string {
	var named []string
	for i := range awaited[:min(maxNamed, len(awaited))] {
		named = append(named, awaited[i].Volume)
	}
	return control.Named(named, len(awaited))
}

// awaited are the volume attachments that must go before the instance may.
func (r *nodes) awaited(ctx context.Context, v *visit) ([]life.Attachment, error) {
	found := &storagev1.VolumeAttachmentList{}
	if err := r.Client.List(ctx, found, client.MatchingFields{indexNodeName: v.node.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the volume attachments of Node %s: %w", v.node.Name, err)
	}
	if len(found.Items) == 0 {
		return nil, nil
	}
	attachments := make([]life.Attachment, len(found.Items))
	for i := range found.Items {
		attachments[i].Name = found.Items[i].Name
		if volume := found.Items[i].Spec.Source.PersistentVolumeName; volume != nil {
			attachments[i].Volume = *volume
		}
	}
	kept, err := r.keptVolumes(ctx, v)
	if err != nil {
		return nil, err
	}
	return life.AwaitedVolumes(attachments, kept), nil
}

// keptVolumes are the volumes of pods that stay on the node until it ends.
func (r *nodes) keptVolumes(ctx context.Context, v *visit) (map[string]bool, error) {
	pods, err := podsOn(ctx, r.Client, v.node.Name)
	if err != nil {
		return nil, err
	}
	volumes := map[string]bool{}
	for i := range pods {
		if !state.Leaving(&pods[i]).KeepsVolumes(v.deadline, r.Clock.Now()) {
			continue
		}
		for _, volume := range pods[i].Spec.Volumes {
			name := claimName(&pods[i], &volume)
			if name == "" {
				continue
			}
			pvc := &corev1.PersistentVolumeClaim{}
			switch err := r.Client.Get(ctx, client.ObjectKey{Namespace: pods[i].Namespace, Name: name}, pvc, client.UnsafeDisableDeepCopy); {
			case apierrors.IsNotFound(err):
			case err != nil:
				return nil, fmt.Errorf("reading PersistentVolumeClaim %s/%s: %w", pods[i].Namespace, name, err)
			default:
				volumes[pvc.Spec.VolumeName] = true
			}
		}
	}
	return volumes, nil
}

// claimName is the PersistentVolumeClaim behind a pod's volume, or "".
func claimName(pod *corev1.Pod, volume *corev1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		return pod.Name + "-" + volume.Name
	}
	return ""
}
