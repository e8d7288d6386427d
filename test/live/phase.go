package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/local"
	"karpenter/test/workloads"
)

const (
	// workloadBoot is from an instance's launch until its node registers.
	workloadBoot = 5 * time.Second
	// phaseEvery is how often what has been seen is looked at; times are those of the events.
	phaseEvery = 200 * time.Millisecond
	// timelineEvery is how often a line says how far it is.
	timelineEvery = 5 * time.Second
)

// arrivals are the limits of Kubernetes' controllers, which make the pods.
var arrivals = map[string]struct{ qps, burst int }{"slow": {20, 30}, "fast": {200, 200}}

// variant is how a workload is run.
type variant struct {
	arrival string
	after   time.Duration
	load    string
	run     int
}

func (v variant) String() string {
	return fmt.Sprintf("%s arrival, after %v, %s", v.arrival, v.after, v.load)
}

// quiet is how long nothing may have happened for the cluster to count as settled.
func (v variant) quiet() time.Duration { return max(time.Minute, 2*v.after+25*time.Second) }

// workloads runs each workload that is wanted in each variant, each on a cluster of its own.
func (b *bench) workloads(ctx context.Context) error {
	var failed []error
	for _, w := range workloads.Draw(b.seed, b.scale) {
		if !b.wants(w.Name) {
			continue
		}
		for _, v := range b.variants() {
			err := b.workload(ctx, w, v)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil { // the others may still tell something, and take hours together
				b.note("%s: %v", w.Name, err)
				failed = append(failed, fmt.Errorf("%s (%v): %w", w.Name, v, err))
			}
		}
		b.summary(w)
	}
	return errors.Join(failed...)
}

// variants are all combinations that are asked for.
func (b *bench) variants() []variant {
	var all []variant
	for _, load := range b.loads {
		for _, after := range b.afters {
			for _, arrival := range b.arrivals {
				for run := range b.runs {
					all = append(all, variant{arrival, after, load, run + 1})
				}
			}
		}
	}
	return all
}

// trial is a workload on its cluster.
type trial struct {
	*bench
	*workloads.Workload
	variant
	site *site
	seen *watched
	// made are the Deployments that exist.
	made map[string]bool
	// early is how many pods had been evicted when all of a phase were bound first.
	early int
}

// workload runs all phases on a new cluster, then says what they came to.
func (b *bench) workload(ctx context.Context, w *workloads.Workload, v variant) error {
	b.note("%s: %v, seed %d, run %d (load %s)", w.Name, v, b.seed, v.run, loadAverage())
	prices, err := onDemand()
	if err != nil {
		return err
	}
	limits := arrivals[v.arrival]
	s, err := b.launch(ctx, local.Options{BootTime: workloadBoot, ControllersQPS: limits.qps, ControllersBurst: limits.burst})
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.usePool(ctx, v.after); err != nil {
		return err
	}
	if v.load == "busy" {
		end, err := burden()
		if err != nil {
			return err
		}
		defer end()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := s.follow(ctx, &karpv1.NodeClaim{}, &corev1.Node{}, &corev1.Pod{})
	if err != nil {
		return err
	}
	t := &trial{bench: b, Workload: w, variant: v, site: s, seen: newWatched(prices), made: map[string]bool{}}
	go t.seen.run(ctx, events)
	var reports []*report
	for _, p := range w.Phases {
		r, err := t.phase(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Name, err)
		}
		reports = append(reports, r)
		if !r.Done {
			break
		}
	}
	for _, r := range reports {
		if err := t.scratch(context.WithoutCancel(ctx), r); err != nil {
			return fmt.Errorf("%s: planning from scratch: %w", r.Phase, err)
		}
	}
	all := t.finish(reports)
	if ctx.Err() != nil { // a phase that was ended from outside says nothing of the bars
		return context.Cause(ctx)
	}
	t.answer(reports, all)
	return nil
}

// phase brings the Deployments to their replicas and waits: on the way out until every pod is ready, on the way in until nothing
// is moved any more.
func (t *trial) phase(ctx context.Context, p workloads.Stage) (*report, error) {
	use := startUsage(ctx, t.site)
	began := time.Now()
	t.seen.begin(began)
	t.early = -1
	if err := t.scale(ctx, p); err != nil {
		return nil, err
	}
	ticker := time.NewTicker(phaseEvery)
	defer ticker.Stop()
	var now tally
	for told := began; ; {
		now = t.seen.look()
		if t.done(p, &now) || time.Since(began) > t.patience {
			break
		}
		if time.Since(told) >= timelineEvery {
			told = told.Add(timelineEvery)
			t.timeline(p, &now, time.Since(began))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			// What has been seen so far may have taken an hour.
			return t.report(context.WithoutCancel(ctx), p, began, use)
		}
	}
	return t.report(ctx, p, began, use)
}

// done is whether the phase is over.
func (t *trial) done(p workloads.Stage, now *tally) bool {
	if t.early < 0 && now.has(t.Workload, p, now.bound) {
		t.early = now.evictions
	}
	return now.has(t.Workload, p, now.ready) && (!p.In || time.Since(now.changed) > t.quiet())
}

func (t *trial) scale(ctx context.Context, p workloads.Stage) error {
	for i := range t.Shapes {
		s, replicas := &t.Shapes[i], p.Replicas[i]
		if !t.made[s.Name] {
			if replicas == 0 {
				continue
			}
			if err := t.site.Client.Create(ctx, s.Deployment(replicas)); err != nil {
				return fmt.Errorf("creating Deployment %s: %w", s.Name, err)
			}
			t.made[s.Name] = true
			continue
		}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: s.Name}}
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
		if err := t.site.Client.Patch(ctx, d, patch); err != nil {
			return fmt.Errorf("scaling Deployment %s: %w", s.Name, err)
		}
	}
	return nil
}

// timeline says how far a phase is.
func (t *trial) timeline(p workloads.Stage, now *tally, since time.Duration) {
	if t.verbose {
		t.note("%s %s %4.0f s: %4d pods of %d, %4d bound, %4d pending; %3d nodes, %3d instances, %3d claims in flight, $%.2f/h; %d claims made, %d nodes disrupted, %d evictions",
			t.Name, p.Name, since.Seconds(), now.allPods, p.Pods(), now.allBound, now.allPods-now.allBound, now.nodes, now.instances, now.inFlight, now.price,
			now.made, now.disrupted, now.evictions)
	}
}
