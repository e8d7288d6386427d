package drain

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
)

// Reasons of events (O49, O50).
const (
	EventEvicted                      = "Evicted"
	EventDisrupted                    = "Disrupted"
	EventInvalidDoNotDisrupt          = "InvalidDoNotDisruptAnnotation"
	EventDoNotDisruptUntil            = "DoNotDisruptUntil"
	EventDoNotDisruptElapsed          = "DoNotDisruptGracePeriodElapsed"
	EventFailedDraining               = "FailedDraining"
	EventAwaitingVolumeDetachment     = "AwaitingVolumeDetachment"
	EventTerminationGracePeriodEnding = "TerminationGracePeriodExpiring"
	EventFailedTermination            = "FailedTermination"
)

// deadlineEvery is how often an object that is waited for is told when the waiting ends.
const deadlineEvery = time.Hour

// forceful is the reason of an eviction that no disruption has decided: the node was deleted, has expired, or is lost.
const forceful = "Forceful Termination"

func (d *Drainer) tellDeadline(obj client.Object, deadline time.Time) {
	if deadline.IsZero() {
		return
	}
	d.Recorder.Tell(control.Event{
		Object: obj, Warning: true, Reason: EventTerminationGracePeriodEnding, Every: deadlineEvery,
		Message: fmt.Sprintf("All pods will be deleted by %s, whatever their disruption budgets and annotations say", deadline.UTC().Format(time.RFC3339)),
	})
}

// tellProtection tells what the annotation do-not-disrupt of a pod means for it.
func (d *Drainer) tellProtection(pod *corev1.Pod, p life.Pod, step life.PodStep) {
	if p.DoNotDisrupt == "" {
		return
	}
	protection := life.Protect(p.DoNotDisrupt, p.Started, d.Clock.Now())
	until := protection.Until.UTC().Format(time.RFC3339)
	switch {
	case protection.Wrong != "":
		d.Recorder.Tell(control.Event{Object: pod, Warning: true, Reason: EventInvalidDoNotDisrupt, Message: protection.Wrong})
	case protection.Until.IsZero():
	case step.Protected:
		d.Recorder.Tell(control.Event{Object: pod, Reason: EventDoNotDisruptUntil, Message: fmt.Sprintf("Its node is being deleted; the pod is left alone until %s", until)})
	case step.Do == life.Evict:
		d.Recorder.Tell(control.Event{Object: pod, Reason: EventDoNotDisruptElapsed, Message: fmt.Sprintf("karpenter.sh/do-not-disrupt has protected the pod until %s and no longer does", until)})
	}
}

// tellStuck tells that the instance of an object could not be ended. The cloud's own words change from call to call and go into
// the log only.
func (d *Drainer) tellStuck(obj client.Object, err error) {
	said := err.Error()
	var failed *cloud.Error
	if errors.As(err, &failed) {
		said = fmt.Sprintf("%s %s", failed.Class, failed.Reason)
	}
	d.Recorder.Tell(control.Event{Object: obj, Warning: true, Reason: EventFailedTermination, Message: "Ending the instance failed, trying again: " + said})
}

// evictionReason is why the pods of the claim's node must go.
func evictionReason(claim *karpv1.NodeClaim) string {
	if claim != nil {
		if c := claim.StatusConditions().Get(karpv1.ConditionDisruptionReason); c != nil && c.Status == "True" && c.Reason != "" {
			return c.Reason
		}
	}
	return forceful
}

func claimAttrs(claim *karpv1.NodeClaim) []any {
	return []any{
		slog.String("NodeClaim", claim.Name), slog.String("Node", claim.Status.NodeName),
		slog.String("NodePool", claim.Labels[karpv1.NodePoolLabelKey]), slog.String("provider-id", claim.Status.ProviderID),
	}
}

func nodeAttrs(node *corev1.Node) []any {
	return []any{
		slog.String("Node", node.Name), slog.String("NodePool", node.Labels[karpv1.NodePoolLabelKey]), slog.String("provider-id", node.Spec.ProviderID),
	}
}
