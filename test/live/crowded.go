package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/test/workloads"
)

const (
	barPending    = "pending"
	pendingNodes  = 500
	pendingPods   = 5000
	pendingProbes = 20
	// pendingMillis is the batch's idle window and 50 ms.
	pendingMillis = 1050.0

	barMemory  = "memory"
	fullNodes  = 1000
	fullPods   = 20000
	memoryMB   = 200.0
	idleShare  = 2.0
	idleSettle = 20 * time.Second
	// idleWatch is as long as the slowest of what is done again and again needs to come by once: the API server compares its caches with
	// etcd every five minutes, and has every object converted to the older version for that.
	idleWatch = 5 * time.Minute

	barRestart     = "restart"
	restartSeconds = 5.0
	// restartCalm is how long after the first decision another one would be a wrong one.
	restartCalm = 8 * time.Second

	// crowdBoot is not in question, so instances are there quickly.
	crowdBoot = 2 * time.Second
	// probePatience is far above any bar.
	probePatience = 2 * time.Minute
)

// crowded measures what needs a cluster with many nodes and pods.
func (b *bench) crowded(ctx context.Context) error {
	s, err := b.open(ctx, crowdBoot)
	if err != nil {
		return err
	}
	defer s.close()
	c, err := b.newCrowd(ctx, s)
	if err != nil {
		return err
	}
	if b.wants(barPending) {
		if err := c.grow(ctx, b.sized(pendingNodes), b.sized(pendingPods)); err != nil {
			return err
		}
		if err := b.pending(ctx, s); err != nil {
			return err
		}
	}
	if !b.wants(barMemory) && !b.wants(barRestart) {
		return nil
	}
	if err := c.grow(ctx, b.sized(fullNodes), b.sized(fullPods)); err != nil {
		return err
	}
	if b.wants(barMemory) {
		if err := b.memory(ctx, s); err != nil {
			return err
		}
	}
	if b.wants(barRestart) {
		return b.restart(ctx, s)
	}
	return nil
}

// pending measures from a pod's being found unschedulable to its NodeClaim.
func (b *bench) pending(ctx context.Context, s *site) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	events, err := s.follow(ctx, &karpv1.NodeClaim{}, &corev1.Pod{})
	if err != nil {
		return err
	}
	known := map[string]bool{}
	if err := drainUntilQuiet(ctx, events, known); err != nil {
		return err
	}
	var all []float64
	for i := range pendingProbes {
		// A probe must not always come when an instance of an earlier one joins, which takes as long as two probes: the pauses are spread.
		if err := rest(ctx, crowdBoot*time.Duration(i)/pendingProbes); err != nil {
			return err
		}
		took, err := s.probe(ctx, events, probePod(fmt.Sprintf("probe-%d", i)), known)
		if err != nil {
			return err
		}
		all = append(all, float64(took.Microseconds())/1000)
	}
	if extra, err := moreClaims(ctx, events, known); err != nil || extra > 0 {
		return errors.Join(err, fmt.Errorf("%d NodeClaims more than there were pods", extra))
	}
	b.note("%s: each probe in ms: %.0f", barPending, all)
	slices.Sort(all)
	b.say(figure{barPending, "ms", all[len(all)/2], pendingMillis}, "from unschedulable to NodeClaim, median of %d pods with %d nodes and %d pods there, from %.0f to %.0f ms",
		len(all), b.sized(pendingNodes), b.sized(pendingPods), all[0], all[len(all)-1])
	return nil
}

// drainUntilQuiet reads what a watch shows at its start, and remembers the claims.
func drainUntilQuiet(ctx context.Context, events <-chan seen, known map[string]bool) error {
	for {
		select {
		case e := <-events:
			if claim, ok := e.obj.(*karpv1.NodeClaim); ok {
				known[claim.Name] = true
			}
		case <-time.After(3 * time.Second):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// probePod is a pod that no node there has room for, and no other pod of its kind may share a node with.
func probePod(name string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Labels: map[string]string{"app": "probe"}},
		Spec:       workloads.PodSpec("6", "4Gi"),
	}
	pod.Spec.Affinity = workloads.Apart("probe")
	return pod
}

// probe creates a pod and measures until its claim is there.
func (s *site) probe(ctx context.Context, events <-chan seen, pod *corev1.Pod, known map[string]bool) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, probePatience, fmt.Errorf("no NodeClaim for pod %s within %v", pod.Name, probePatience))
	defer cancel()
	if err := s.Client.Create(ctx, pod); err != nil {
		return 0, fmt.Errorf("creating a pod: %w", err)
	}
	var unschedulable, claimed time.Time
	for unschedulable.IsZero() || claimed.IsZero() {
		select {
		case e := <-events:
			switch obj := e.obj.(type) {
			case *corev1.Pod:
				if obj.Name == pod.Name && unschedulable.IsZero() && isUnschedulable(obj) {
					unschedulable = e.at
				}
			case *karpv1.NodeClaim:
				if e.event == watch.Added && !known[obj.Name] {
					known[obj.Name] = true
					claimed = e.at
				}
			}
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	// A pod that comes to a window that closes just then has its claim at once, and the two watches may tell of that in any order.
	return max(0, claimed.Sub(unschedulable)), nil
}

func isUnschedulable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

// memory measures what the controller occupies, and what it computes while nothing changes.
func (b *bench) memory(ctx context.Context, s *site) error {
	pid := s.Pids()["controller"]
	if err := rest(ctx, idleSettle); err != nil {
		return err
	}
	before, err := cpuTime(pid)
	if err != nil {
		return err
	}
	if err := rest(ctx, idleWatch); err != nil {
		return err
	}
	after, err := cpuTime(pid)
	if err != nil {
		return err
	}
	now, most, err := resident(pid)
	if err != nil {
		return err
	}
	b.say(figure{barMemory, "MB", now, memoryMB}, "resident with %d nodes and %d pods; %.0f MB at most so far", b.sized(fullNodes), b.sized(fullPods), most)
	share := 100 * (after - before).Seconds() / idleWatch.Seconds()
	b.say(figure{barMemory, "% of a core", share, idleShare}, "while nothing changes, over %v", idleWatch)
	return nil
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// restart kills the controller and gives it a pod that needs a node and one that does not, while it is away.
func (b *bench) restart(ctx context.Context, s *site) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	events, err := s.follow(ctx, &karpv1.NodeClaim{}, &corev1.Pod{})
	if err != nil {
		return err
	}
	known := map[string]bool{}
	if err := drainUntilQuiet(ctx, events, known); err != nil {
		return err
	}
	began := make(chan time.Time, 1)
	old := s.Pids()["controller"]
	if err := s.KillController(); err != nil {
		return err
	}
	go func() {
		_ = until(ctx, 2*time.Millisecond, func() (bool, error) {
			pid := s.Pids()["controller"]
			return pid != 0 && pid != old, nil
		})
		began <- time.Now()
	}()
	fits := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "fits"}, Spec: workloads.PodSpec("50m", "64Mi")}
	if err := s.Client.Create(ctx, fits); err != nil {
		return fmt.Errorf("creating a pod: %w", err)
	}
	if _, err := s.probe(ctx, events, probePod("after-restart"), known); err != nil {
		return err
	}
	decided := time.Now()
	took := decided.Sub(<-began)
	extra, err := moreClaims(ctx, events, known)
	if err != nil {
		return err
	}
	if extra > 0 {
		return fmt.Errorf("%d NodeClaims too many after the restart", extra)
	}
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(fits), fits); err != nil || fits.Spec.NodeName == "" {
		return errors.Join(err, errors.New("the pod that fits has no node"))
	}
	now, most, err := resident(s.Pids()["controller"])
	if err != nil {
		return err
	}
	b.note("%s: %.0f MB resident afterwards, %.0f MB at most", barRestart, now, most)
	b.say(figure{barRestart, "s", took.Seconds(), restartSeconds}, "from the process's start to the NodeClaim for the pod that needs one, with %d nodes; none for the pod that fits", b.sized(fullNodes))
	return nil
}

// moreClaims counts the claims that come after the first decision.
func moreClaims(ctx context.Context, events <-chan seen, known map[string]bool) (int, error) {
	calm := time.After(restartCalm)
	extra := 0
	for {
		select {
		case e := <-events:
			if claim, ok := e.obj.(*karpv1.NodeClaim); ok && e.event == watch.Added && !known[claim.Name] {
				known[claim.Name] = true
				extra++
			}
		case <-calm:
			return extra, nil
		case <-ctx.Done():
			return extra, context.Cause(ctx)
		}
	}
}
