package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// usageEvery is how often the controller's memory is looked at.
const usageEvery = time.Second

// usage is what processes use during a phase.
type usage struct {
	site    *site
	before  busy
	metrics map[string]float64
	end     context.CancelFunc
	wait    sync.WaitGroup
	memory  []float64
}

// startUsage begins to measure.
func startUsage(ctx context.Context, s *site) *usage {
	ctx, cancel := context.WithCancel(ctx)
	u := &usage{site: s, before: s.computed(), metrics: s.metrics(ctx), end: cancel}
	u.wait.Go(func() {
		_ = until(ctx, usageEvery, func() (bool, error) {
			if now, _, err := resident(s.Pids()["controller"]); err == nil {
				u.memory = append(u.memory, now)
			}
			return false, nil
		})
	})
	return u
}

// stop ends measuring and writes down what came of it.
func (u *usage) stop(ctx context.Context, r *report) {
	u.end()
	u.wait.Wait()
	after := u.site.computed()
	seconds := func(name string) float64 { return (after[name] - u.before[name]).Seconds() }
	r.ControllerCPU, r.SchedulerCPU, r.APIServerCPU = seconds("controller"), seconds("kube-scheduler"), seconds("kube-apiserver")
	slices.Sort(u.memory)
	if n := len(u.memory); n > 0 {
		r.ControllerMB = u.memory[n*95/100]
	}
	metrics := u.site.metrics(ctx)
	r.HeapMB = metrics[heapMetric] / 1e6
	if _, known := metrics[plannedMetric]; known {
		r.AsPlanned = int(metrics[plannedMetric] - u.metrics[plannedMetric])
		r.Elsewhere = int(metrics[elsewhereMetric] - u.metrics[elsewhereMetric])
	}
}

const (
	plannedMetric   = `karpenter_pods_bound_as_planned_total{outcome="planned"}`
	elsewhereMetric = `karpenter_pods_bound_as_planned_total{outcome="elsewhere"}`
	heapMetric      = "go_gc_heap_live_bytes"
)

// metrics reads the controller's, by name and labels as they are written; none if it does not answer.
func (s *site) metrics(ctx context.Context) map[string]float64 {
	out := map[string]float64{}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.MetricsURL, http.NoBody)
	if err != nil {
		return out
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return out
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		at := strings.LastIndexByte(lines.Text(), ' ')
		if at < 0 || strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		if value, err := strconv.ParseFloat(lines.Text()[at+1:], 64); err == nil {
			out[lines.Text()[:at]] = value
		}
	}
	return out
}

// controllerURL is the controller's HTTP API.
func (s *site) controllerURL(path string) string {
	return fmt.Sprintf("%s/api/v1/%s", strings.TrimSuffix(s.MetricsURL, "/metrics"), path)
}
