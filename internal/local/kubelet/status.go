package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// reportAttempts and reportAgain bound how often a status is written before the next change tries again.
	reportAttempts = 5
	reportAgain    = 200 * time.Millisecond
)

// state is how the controller's container is.
type state struct {
	waiting *corev1.ContainerStateWaiting
	running *metav1.Time
	last    *corev1.ContainerStateTerminated
	// over says that the pod has ended for good.
	over           bool
	started, ready bool
	restarts       int32
	pid            int
}

// change changes the state and writes it.
func (w *worker) change(ctx context.Context, how func(*state)) {
	w.reporting.Lock()
	defer w.reporting.Unlock()
	w.mu.Lock()
	how(&w.state)
	now := w.state
	w.mu.Unlock()
	for range reportAttempts {
		err := w.write(ctx, &now)
		if err == nil || apierrors.IsNotFound(err) || errors.Is(err, errReplaced) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(reportAgain):
		}
	}
}

var errReplaced = errors.New("another pod has this name")

// write writes the state into the pod's status.
func (w *worker) write(ctx context.Context, s *state) error {
	pod := &corev1.Pod{}
	if err := w.k.opts.Kube.Get(ctx, client.ObjectKeyFromObject(w.pod), pod); err != nil {
		return fmt.Errorf("reading pod %s: %w", w.pod.Name, err)
	}
	if pod.UID != w.pod.UID {
		return errReplaced
	}
	before := pod.DeepCopy()
	w.fill(&pod.Status, s)
	if equality.Semantic.DeepEqual(before.Status, pod.Status) {
		return nil
	}
	if err := w.k.opts.Kube.Status().Patch(ctx, pod, client.StrategicMergeFrom(before)); err != nil {
		return fmt.Errorf("writing the status of pod %s: %w", w.pod.Name, err)
	}
	return nil
}

// fill brings a status to the state. Containers beside the controller's are simulated.
func (w *worker) fill(status *corev1.PodStatus, s *state) {
	now := metav1.Now()
	status.Phase = corev1.PodPending
	switch {
	case s.over && s.last != nil && s.last.ExitCode == 0:
		status.Phase = corev1.PodSucceeded
	case s.over:
		status.Phase = corev1.PodFailed
	case s.running != nil || s.last != nil:
		status.Phase = corev1.PodRunning
	}
	if status.StartTime == nil {
		status.StartTime = &now
	}
	status.PodIP, status.PodIPs = w.pod.Status.PodIP, []corev1.PodIP{{IP: w.pod.Status.PodIP}}
	if host := w.pod.Status.HostIP; host != "" {
		status.HostIP, status.HostIPs = host, []corev1.HostIP{{IP: host}}
	}
	setCondition(status, corev1.PodReadyToStartContainers, !s.over)
	setCondition(status, corev1.PodInitialized, true)
	setCondition(status, corev1.ContainersReady, s.ready)
	setCondition(status, corev1.PodReady, s.ready)
	status.ContainerStatuses = nil
	for i := range w.pod.Spec.Containers {
		c := &w.pod.Spec.Containers[i]
		shown := corev1.ContainerStatus{Name: c.Name, Image: c.Image, Started: new(true), Ready: true}
		switch {
		case c.Name == w.container.Name:
			shown = w.shown(s)
		case s.over:
			shown.Started, shown.Ready, shown.State.Terminated = new(false), false, &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: now}
		default:
			shown.State.Running = &corev1.ContainerStateRunning{StartedAt: *status.StartTime}
		}
		status.ContainerStatuses = append(status.ContainerStatuses, shown)
	}
}

// shown is the state as the status of the controller's container.
func (w *worker) shown(s *state) corev1.ContainerStatus {
	c := corev1.ContainerStatus{
		Name: w.container.Name, Image: w.container.Image, ImageID: "local://" + w.k.opts.Program, Started: &s.started, Ready: s.ready, RestartCount: s.restarts,
	}
	if s.pid != 0 {
		c.ContainerID = fmt.Sprintf("process://%d", s.pid)
	}
	if s.last != nil && !s.over {
		c.LastTerminationState.Terminated = s.last
	}
	switch {
	case s.over && s.last != nil:
		c.State.Terminated = s.last
	case s.over:
		c.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}
	case s.running != nil:
		c.State.Running = &corev1.ContainerStateRunning{StartedAt: *s.running}
	case s.waiting != nil:
		c.State.Waiting = s.waiting
	}
	return c
}

// setCondition sets a condition, whose time is when it last became another.
func setCondition(status *corev1.PodStatus, kind corev1.PodConditionType, isTrue bool) {
	value := corev1.ConditionFalse
	if isTrue {
		value = corev1.ConditionTrue
	}
	condition := corev1.PodCondition{Type: kind, Status: value, LastTransitionTime: metav1.Now()}
	if !isTrue && (kind == corev1.PodReady || kind == corev1.ContainersReady) {
		condition.Reason = "ContainersNotReady"
	}
	for i := range status.Conditions {
		if had := &status.Conditions[i]; had.Type == kind {
			if had.Status != value {
				*had = condition
			}
			return
		}
	}
	status.Conditions = append(status.Conditions, condition)
}
