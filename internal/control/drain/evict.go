package drain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/control"
	"karpenter/internal/engine/life"
	"karpenter/internal/meter"
	"karpenter/internal/wait"
)

// requestTimeout bounds one request. While the API server has not looked at a budget yet it asks the client to come back in ten
// seconds, which the client would otherwise wait for several times in a row.
const requestTimeout = 5 * time.Second

// evict asks the API server to evict this very pod.
func (q *queue) evict(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := wait.Timeout(ctx, q.Clock, requestTimeout)
	defer cancel()
	uid := pod.UID
	err := q.Client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
	})
	q.Meter.Add(meter.PodsEvictionRequests, 1, "code", codeOf(err))
	return err
}

// delete deletes this very pod with a grace period.
func (q *queue) delete(ctx context.Context, pod *corev1.Pod, grace time.Duration) error {
	ctx, cancel := wait.Timeout(ctx, q.Clock, requestTimeout)
	defer cancel()
	uid := pod.UID
	return q.Client.Delete(ctx, pod, client.GracePeriodSeconds(int64(grace/time.Second)), client.Preconditions{UID: &uid})
}

// codeOf is the HTTP status of an answer, or empty where there was none.
func codeOf(err error) string {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return strconv.Itoa(http.StatusOK)
	case errors.As(err, &status):
		return strconv.Itoa(int(status.Status().Code))
	}
	return ""
}

// settleEviction draws the consequences of the answer to an eviction.
func (q *queue) settleEviction(j job, err error) {
	switch {
	case err == nil:
		q.open(j.group)
		q.done(j.key, life.Evict)
		q.Recorder.Tell(control.Event{Object: j.pod, Reason: EventEvicted, Message: "Evicted pod: " + j.reason})
		q.Meter.Add(meter.PodsDrained, 1, "reason", j.reason)
		q.Log.Debug("evicted pod", "Pod", podName(j.pod), "Node", j.node.Name, "reason", j.reason)
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // gone, or another pod by that name
		q.done(j.key, "")
	case busy(err): // which says nothing about the others of its group
		q.tellRefused(j, refusal(err))
		q.work.AddAfter(j.key, life.EvictBackoff(q.failed(j.key)))
	default:
		q.tellRefused(j, refusal(err))
		q.work.AddAfter(j.key, q.shut(j.group))
	}
}

// busy says whether the API server has too much to do to look at a request. What a disruption budget refuses has the same code, and names it;
// what a webhook refuses may have any code, such as that of KubeVirt, which moves its machines first.
func busy(err error) bool {
	return apierrors.IsTooManyRequests(err) && !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) && !strings.Contains(err.Error(), "admission webhook")
}

// refusal says in words that stay the same why a pod could not be evicted.
func refusal(err error) string {
	switch {
	case busy(err):
		return "the API server has too many requests"
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return "its disruption budget allows no eviction now"
	case strings.Contains(err.Error(), "more than one PodDisruptionBudget"):
		return "it has more than one disruption budget, and such pods cannot be evicted"
	case errors.Is(err, context.DeadlineExceeded):
		return "the API server did not answer in time"
	}
	return err.Error()
}

// settleDeletion draws the consequences of the answer to a deletion.
func (q *queue) settleDeletion(j job, err error) {
	switch {
	case err == nil:
		q.done(j.key, life.Delete)
		q.Recorder.Tell(control.Event{Object: j.pod, Reason: EventDisrupted, Message: "Deleted pod: " + j.step.Why})
		if j.pod.DeletionTimestamp.IsZero() { // else it was counted when it was told to go first
			q.Meter.Add(meter.PodsDrained, 1, "reason", j.reason)
		}
		q.Log.Info("deleted pod", "Pod", podName(j.pod), "Node", j.node.Name, "reason", j.reason, "grace", j.step.Grace, "message", j.step.Why)
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		q.done(j.key, "")
	default:
		q.tellRefused(j, refusal(err))
		q.work.AddAfter(j.key, life.EvictBackoff(q.failed(j.key)))
	}
}

// failed counts a request that did not go through although no budget is to blame.
func (q *queue) failed(k key) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[k]
	if e == nil {
		return 1
	}
	e.failures++
	return e.failures
}

func (q *queue) tellRefused(j job, why string) {
	q.Recorder.Tell(control.Event{
		Object: j.node, Warning: true, Reason: EventFailedDraining,
		Message: fmt.Sprintf("Failed to drain node: pod %s cannot be removed, %s", podName(j.pod), why),
	})
}

func podName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
