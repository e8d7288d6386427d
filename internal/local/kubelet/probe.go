package kubelet

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// readyEvery is how often a process is asked that is not ready.
const readyEvery = 100 * time.Millisecond

// probe asks the process as its probes say until ctx ends, and notes whether it is ready. One that does not live is killed.
func (w *worker) probe(ctx context.Context) {
	c := w.container
	if c.StartupProbe != nil && !w.untilStarted(ctx) {
		return
	}
	w.change(ctx, func(s *state) { s.started, s.ready = true, c.ReadinessProbe == nil })
	var probers sync.WaitGroup
	if c.ReadinessProbe != nil {
		probers.Go(func() {
			w.every(ctx, c.ReadinessProbe, func(ok bool) bool {
				if ok != w.isReady() {
					w.change(ctx, func(s *state) { s.ready = ok })
				}
				return true
			})
		})
	}
	if c.LivenessProbe != nil {
		probers.Go(func() {
			w.every(ctx, c.LivenessProbe, func(ok bool) bool {
				if !ok {
					w.kill("its liveness probe fails")
				}
				return ok
			})
		})
	}
	probers.Wait()
}

// untilStarted waits for the startup probe. A process that does not start in time is killed.
func (w *worker) untilStarted(ctx context.Context) bool {
	started := false
	w.every(ctx, w.container.StartupProbe, func(ok bool) bool {
		if started = ok; !ok {
			w.kill("its startup probe fails")
		}
		return false
	})
	return started
}

func (w *worker) kill(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cmd != nil {
		w.k.opts.Tell("pod %s/%s is ended: %s", w.pod.Namespace, w.pod.Name, why)
		_ = w.cmd.Process.Kill() // an error means that it has ended
	}
}

// every asks at the probe's pace, and calls judge whenever enough answers in a row say the same, until that returns false.
func (w *worker) every(ctx context.Context, probe *corev1.Probe, judge func(ok bool) bool) {
	wait := w.pace(probe, probe.InitialDelaySeconds)
	successes, failures := int32(0), int32(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = w.pace(probe, max(probe.PeriodSeconds, 1))
		if err := w.ask(ctx, probe); err != nil {
			successes, failures = 0, failures+1
		} else {
			successes, failures = successes+1, 0
		}
		if ctx.Err() != nil {
			return
		}
		if successes >= max(probe.SuccessThreshold, 1) && !judge(true) {
			return
		}
		if failures >= max(probe.FailureThreshold, 1) && !judge(false) {
			return
		}
	}
}

// pace is how long to wait before the next question. Whether it is ready is asked more often than the pod says until it is: a process
// of this computer is so sooner than a container.
func (w *worker) pace(probe *corev1.Probe, seconds int32) time.Duration {
	if probe == w.container.ReadinessProbe && !w.isReady() {
		return readyEvery
	}
	return time.Duration(seconds) * time.Second
}

func (w *worker) isReady() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.ready
}

// ask asks once. Probes of other kinds than HTTP are taken for answered: the chart has none.
func (w *worker) ask(ctx context.Context, probe *corev1.Probe) error {
	if probe.HTTPGet == nil {
		return nil
	}
	port, ok := w.outside(probe.HTTPGet.Port)
	if !ok {
		return fmt.Errorf("the controller does not listen on port %s", probe.HTTPGet.Port.String())
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(probe.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	url := fmt.Sprintf("%s://127.0.0.1:%d%s", strings.ToLower(string(probe.HTTPGet.Scheme)), port, probe.HTTPGet.Path)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("probing: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("probing: %w", err)
	}
	response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode >= 400 {
		return fmt.Errorf("probing: %s", response.Status)
	}
	return nil
}
