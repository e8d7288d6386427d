package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"karpenter/test/workloads"
)

// report is what a phase came to.
type report struct {
	Workload string  `json:"workload"`
	Phase    string  `json:"phase"`
	Arrival  string  `json:"arrival"`
	After    string  `json:"consolidateAfter"`
	Load     string  `json:"load"`
	Seed     uint64  `json:"seed"`
	Run      int     `json:"run"`
	Scale    float64 `json:"scale"`
	LoadAvg  string  `json:"loadAverage"`

	// Done says that every pod was ready (and on the way in, that nothing was moved any more) before the patience ended. Seconds is
	// until the last pod was ready being deleted, until the last thing happened on the way in.
	Done     bool    `json:"done"`
	Seconds  float64 `json:"seconds"`
	Pods     int     `json:"pods"`
	PodsFrom float64 `json:"podsFromSecond"`
	PodsTo   float64 `json:"podsToSecond"`

	Claims        int     `json:"claimsMade"`
	ClaimsRemoved int     `json:"claimsRemoved"`
	Disrupted     int     `json:"nodesDisrupted"`
	Bindings      int     `json:"bindings"`
	Nodes         int     `json:"nodes"`
	PeakNodes     int     `json:"peakNodes"`
	Price         float64 `json:"pricePerHour"`
	PeakPrice     float64 `json:"peakPricePerHour"`
	// Bound is the least that the pods can cost, PlanPrice and PlanNodes what one plan for all of them comes to.
	Bound     float64 `json:"lowerBoundPerHour"`
	PlanPrice float64 `json:"planPricePerHour"`
	PlanNodes int     `json:"planNodes"`

	Evictions int `json:"evictions"`
	// Again is how many evictions Deployments had beyond their replicas: so many pods at least were moved more than once.
	Again int `json:"evictionsBeyondReplicas"`
	// Early is how many pods were evicted before all were bound.
	Early int `json:"evictionsBeforeAllBound"`
	// AsPlanned and Elsewhere are how many pods were bound to the node that they were planned for last, and to another.
	AsPlanned int `json:"boundAsPlanned"`
	Elsewhere int `json:"boundElsewhere"`
	// Alike is how many were bound to a node that was made for a pod of the same Deployment: as good as planned. AlikeOf is how many
	// pods claims were made for.
	Alike   int `json:"boundAlike"`
	AlikeOf int `json:"boundAlikeOf"`

	// ControllerMB is the 95th percentile of the controller's resident memory, HeapMB its live heap at the end: a scrape is too
	// much work to ask more often.
	ControllerMB  float64 `json:"controllerMB"`
	HeapMB        float64 `json:"heapMB"`
	ControllerCPU float64 `json:"controllerCPUSeconds"`
	SchedulerCPU  float64 `json:"schedulerCPUSeconds"`
	APIServerCPU  float64 `json:"apiserverCPUSeconds"`

	in        bool
	again     map[string]int
	recording []byte
}

// report says what a phase came to that has just ended.
func (t *trial) report(ctx context.Context, p workloads.Stage, began time.Time, use *usage) (*report, error) {
	now := t.seen.look()
	done := t.done(p, &now)
	since := func(at time.Time) float64 { return max(0, at.Sub(began).Seconds()) }
	r := &report{
		Workload: t.Name, Phase: p.Name, Arrival: t.arrival, After: t.after.String(), Load: t.load, Seed: t.seed, Run: t.variant.run, Scale: t.bench.scale, LoadAvg: loadAverage(),
		Done: done, Seconds: since(now.becameReady), Pods: p.Pods(), PodsFrom: since(now.firstPod), PodsTo: since(now.lastPod),
		Claims: now.made, ClaimsRemoved: now.removed, Disrupted: now.disrupted, Bindings: now.bindings,
		Nodes: now.instances, PeakNodes: now.peakNodes, Price: now.price, PeakPrice: now.peakPrice,
		Evictions: now.evictions, Early: max(0, t.early), AsPlanned: now.asPlanned, Elsewhere: now.notAsPlanned, Alike: now.alike, AlikeOf: now.asPlanned + now.notAsPlanned,
		in: p.In, again: now.again,
	}
	if t.early < 0 {
		r.Early = now.evictions
	}
	if p.In {
		r.Seconds, r.Early = since(now.changed), 0
	}
	if !done {
		r.Seconds = time.Since(began).Seconds()
	}
	r.Again = t.beyond(p, r.again)
	if err := t.record(ctx, r); err != nil {
		return nil, err
	}
	use.stop(ctx, r)
	t.note("%s %s: pods made from %.1f to %.1f s and %d bound; %d claims made and %d removed, %d nodes disrupted", t.Name, p.Name, r.PodsFrom, r.PodsTo, r.Bindings,
		r.Claims, r.ClaimsRemoved, r.Disrupted)
	if !done {
		t.note("%s %s did not end within %.0f s: %d of %d pods are bound; the last change was %.0f s ago", t.Name, p.Name, r.Seconds, now.allBound, r.Pods, time.Since(now.changed).Seconds())
	}
	return r, nil
}

// beyond counts the evictions that Deployments had beyond their replicas.
func (t *trial) beyond(p workloads.Stage, evicted map[string]int) int {
	sum := 0
	for i := range t.Shapes {
		sum += max(0, evicted[t.Shapes[i].Name]-p.Replicas[i])
	}
	return sum
}

// finish prints the phases of a trial and keeps them; it returns what they come to together.
func (t *trial) finish(reports []*report) *report {
	both := *reports[len(reports)-1]
	both.Phase, both.Seconds, both.in = "all", 0, false
	both.Claims, both.ClaimsRemoved, both.Disrupted, both.Bindings, both.Evictions, both.Early, both.AsPlanned, both.Elsewhere = 0, 0, 0, 0, 0, 0, 0, 0
	both.Alike, both.AlikeOf, both.ControllerCPU, both.SchedulerCPU, both.APIServerCPU, both.again = 0, 0, 0, 0, 0, map[string]int{}
	for _, r := range reports {
		both.Done = both.Done && r.Done
		both.Seconds += r.Seconds
		both.Claims += r.Claims
		both.ClaimsRemoved += r.ClaimsRemoved
		both.Disrupted += r.Disrupted
		both.Bindings += r.Bindings
		both.Evictions += r.Evictions
		both.Early += r.Early
		both.AsPlanned += r.AsPlanned
		both.Elsewhere += r.Elsewhere
		both.Alike += r.Alike
		both.AlikeOf += r.AlikeOf
		both.ControllerCPU += r.ControllerCPU
		both.SchedulerCPU += r.SchedulerCPU
		both.APIServerCPU += r.APIServerCPU
		both.PeakNodes, both.PeakPrice, both.ControllerMB = max(both.PeakNodes, r.PeakNodes), max(both.PeakPrice, r.PeakPrice), max(both.ControllerMB, r.ControllerMB)
		for app, n := range r.again {
			both.again[app] += n
		}
	}
	both.Again = t.beyond(t.Phases[len(reports)-1], both.again)
	all := append(reports, &both)
	printReports(all)
	t.bench.reports = append(t.bench.reports, all...)
	return &both
}

// summary prints all runs of a workload, if there was more than one.
func (b *bench) summary(w *workloads.Workload) {
	var of []*report
	runs := 0
	for _, r := range b.reports {
		if r.Workload == w.Name {
			of = append(of, r)
			if r.Phase == "all" {
				runs++
			}
		}
	}
	if runs > 1 {
		printReports(of)
	}
}

// printReports prints a table.
func printReports(all []*report) {
	fmt.Println()
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, strings.Join([]string{
		"workload", "phase", "arrival", "after", "load", "s", "pods", "claims", "/node", "nodes", "peak", "/plan", "$/h", "peak", "/plan", "/bound",
		"evicted", "/pod", "again", "early", "as planned", "alike", "MB", "CPU s", "scheduler", "apiserver", "",
	}, "\t"))
	for _, r := range all {
		seconds := fmt.Sprintf("%.1f", r.Seconds)
		if !r.Done {
			seconds = "never"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%.2f\t%d\t%d\t%.2f\t%.2f\t%.2f\t%.3f\t%.3f\t%d\t%.2f\t%d\t%d\t%s\t%s\t%.0f\t%.1f\t%.1f\t%.1f\t\n",
			r.Workload, r.Phase, r.Arrival, r.After, r.Load, seconds, r.Pods, r.Claims, ratio(r.Claims, r.Nodes), r.Nodes, r.PeakNodes, ratio(r.Nodes, r.PlanNodes),
			r.Price, r.PeakPrice, ratio(r.Price, r.PlanPrice), ratio(r.Price, r.Bound), r.Evictions, ratio(r.Evictions, r.Pods), r.Again, r.Early, percent(r.AsPlanned, r.AsPlanned+r.Elsewhere), percent(r.Alike, r.AlikeOf),
			r.ControllerMB, r.ControllerCPU, r.SchedulerCPU, r.APIServerCPU)
	}
	_ = table.Flush() // what cannot be printed is in the file
	fmt.Println()
}

// ratio is a ÷ b, or 0 without b.
func ratio[T int | float64](a, b T) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// percent is a share of n as it is printed.
func percent(a, n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*ratio(a, n))
}
