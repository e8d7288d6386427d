package provision

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"karpenter/internal/control"
	"karpenter/internal/meter"
	"karpenter/internal/state"
)

// maxPodSeries is how many pods have gauges of their own: those that have waited longest. More would be more than anybody reads,
// and would cost more than they tell.
const maxPodSeries = 1000

// tracker remembers, of every pod that is on its way to a node, when what happened to it (P119) and what users have been told.
type tracker struct {
	meter *meter.Set

	mu   sync.Mutex
	pods map[types.UID]*tracked
	came []arrival // pods that have been bound, and of which it is not known yet whether as planned
	// slots counts, by node and owner, the pods that are planned for a node and have not come.
	slots map[slot]int
}

// slot is room on a node that is planned for pods of an owner. They are alike, so that it is the same which of them comes.
type slot struct {
	at    destination
	owner types.UID
}

// destination is the node that a pod is planned for: by its claim's name if it has one, or else by its own.
type destination struct{ claim, node string }

// arrival is a pod that was planned for a node and has been bound to one.
type arrival struct {
	owner types.UID
	node  string
}

type tracked struct {
	uid             types.UID
	namespace, name string
	created         time.Time
	seen            time.Time // first seen, if it is one that the scheduler is to find a place for
	acked           time.Time // first seen to be unschedulable
	decided         time.Time // first decision about it
	schedulable     time.Time // first decision that gives it a place
	bound           bool
	dynamic         bool // it has resource claims
	// planned is the claim or else the node that it was last planned for; owner is who made it, or itself.
	planned destination
	owner   types.UID

	said map[string]time.Time // what users were told, and until when it need not be said again
}

// podGauges say for how long a pod has been waiting: for a decision, for its node, for its start (O21).
var podGauges = [...]meter.Name{meter.PodsSchedulingUndecidedTime, meter.PodsProvisioningUnboundTime, meter.PodsProvisioningUnstartedTime}

// since is the times from which the gauges count; those of gauges that say nothing about the pod are zero.
func (r *tracked) since() (out [len(podGauges)]time.Time) {
	if r.decided.IsZero() && !r.bound {
		out[0] = r.acked
	}
	if !r.bound {
		out[1] = r.schedulable
	}
	out[2] = r.schedulable
	return out
}

func newTracker(m *meter.Set) *tracker {
	return &tracker{meter: m, pods: map[types.UID]*tracked{}, slots: map[slot]int{}}
}

// see takes note of a pod as it is now, and says whether it is unschedulable. That is meant broadly: what the plan does about
// the pod is decided from the mirror.
func (t *tracker) see(pod *corev1.Pod, now time.Time) (waits bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rec := t.pods[pod.UID]
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		t.drop(rec)
		return false
	}
	if pod.Spec.NodeName != "" {
		t.placed(rec, pod, now)
		return false
	}
	if rec == nil {
		rec = &tracked{uid: pod.UID, namespace: pod.Namespace, name: pod.Name, owner: pod.UID, dynamic: len(pod.Spec.ResourceClaims) > 0}
		if owner := metav1.GetControllerOf(pod); owner != nil {
			rec.owner = owner.UID
		}
		t.pods[pod.UID] = rec
	}
	if rec.seen.IsZero() && len(pod.Spec.SchedulingGates) == 0 && !control.OfNode(pod) {
		rec.seen = now
	}
	rec.created = pod.CreationTimestamp.Time
	waits = unplaced(pod)
	if waits && rec.acked.IsZero() {
		rec.acked = now
	}
	return waits
}

// A pod that the scheduler has not looked at after schedulerQuick waits in a queue there; after schedulerSlow it may be one that
// no scheduler looks at.
const (
	schedulerQuick = 250 * time.Millisecond
	schedulerSlow  = 10 * time.Second
)

// behind says whether the scheduler still has pods to look at that came together with those that are unschedulable. A plan for all of
// them needs fewer nodes than one for those that it has looked at so far and another for the rest. Those of an owner of which it has refused
// some need not be waited for: they are planned for with these.
func (t *tracker) behind(now time.Time, refuses func(owner types.UID) bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, rec := range t.pods {
		since := now.Sub(rec.seen)
		if !rec.bound && rec.acked.IsZero() && since >= schedulerQuick && since < schedulerSlow && !refuses(rec.owner) {
			return true
		}
	}
	return false
}

// arriving counts the pods that the scheduler has not looked at yet, apart from those that no scheduler looks at.
func (t *tracker) arriving(now time.Time) (pods int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, rec := range t.pods {
		if !rec.bound && rec.acked.IsZero() && !rec.seen.IsZero() && now.Sub(rec.seen) < schedulerSlow {
			pods++
		}
	}
	return pods
}

// unplaced says whether the scheduler has found a pod unschedulable.
func unplaced(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
	})
}

// placed notes that a pod has a node, and lets go of it once nothing more is measured.
func (t *tracker) placed(rec *tracked, pod *corev1.Pod, now time.Time) {
	if rec == nil {
		return // it had its node before we came, and nothing can be said of how long that took
	}
	if !rec.bound && !rec.created.IsZero() {
		dynamic := strconv.FormatBool(rec.dynamic)
		t.meter.Observe(meter.PodsBoundDuration, now.Sub(rec.created).Seconds(), "dynamic_resources", dynamic)
		if !rec.schedulable.IsZero() {
			t.meter.Observe(meter.PodsProvisioningBoundDuration, now.Sub(rec.schedulable).Seconds(), "dynamic_resources", dynamic)
		}
	}
	if !rec.bound && rec.planned != (destination{}) {
		t.came = append(t.came, arrival{rec.owner, pod.Spec.NodeName})
		rec.planned = destination{}
	}
	rec.bound = true
	ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	if ready && !rec.schedulable.IsZero() {
		t.meter.Observe(meter.PodsProvisioningStartupDuration, now.Sub(rec.schedulable).Seconds())
	}
	if ready || rec.schedulable.IsZero() {
		t.drop(rec)
	}
}

// forget drops a pod that is gone.
func (t *tracker) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(t.pods[uid])
}

func (t *tracker) drop(rec *tracked) {
	if rec == nil {
		return
	}
	delete(t.pods, rec.uid)
	t.give(slot{rec.planned, rec.owner}, -1)
}

// decide notes a decision about a pod that waits.
func (t *tracker) decide(uid types.UID, placed bool, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rec := t.pods[uid]
	if rec == nil || rec.bound {
		return // a pod of a node that goes away; it has been running all along
	}
	if rec.decided.IsZero() {
		rec.decided = now
		if !rec.acked.IsZero() {
			t.meter.Observe(meter.PodsSchedulingDecisionDuration, now.Sub(rec.acked).Seconds())
		}
	}
	if placed && rec.schedulable.IsZero() {
		rec.schedulable = now
	}
}

// plan notes where a pod is planned to go.
func (t *tracker) plan(uid types.UID, to destination) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if rec := t.pods[uid]; rec != nil && !rec.bound && rec.planned != to {
		t.give(slot{rec.planned, rec.owner}, -1)
		rec.planned = to
		t.give(slot{to, rec.owner}, 1)
	}
}

// plannedFor lists the pods that are planned for a claim and have no node, oldest first.
func (t *tracker) plannedFor(claim string) []*corev1.Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*tracked
	for _, rec := range t.pods {
		if rec.planned.claim == claim && !rec.bound {
			list = append(list, rec)
		}
	}
	slices.SortFunc(list, func(a, b *tracked) int {
		return cmp.Or(a.created.Compare(b.created), strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	out := make([]*corev1.Pod, len(list))
	for i, rec := range list {
		out[i] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: rec.namespace, Name: rec.name, UID: rec.uid}}
	}
	return out
}

// give adds to the pods that are planned for a slot.
func (t *tracker) give(s slot, n int) {
	if s.at == (destination{}) {
		return
	}
	if t.slots[s] += n; t.slots[s] <= 0 {
		delete(t.slots, s)
	}
}

// settle counts the pods that have been bound, by whether there was a place for them or for others of their owner on that node. The
// claim of a node is looked up here, as a pod may be seen to be bound before its node is.
func (t *tracker) settle(view *state.View) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.came {
		here := slot{destination{node: a.node}, a.owner}
		if n := view.Node(a.node); n != nil && n.Claim != nil {
			here.at = destination{claim: n.Claim.Name}
		}
		outcome := "elsewhere"
		if t.slots[here] > 0 {
			outcome = "planned"
			t.give(here, -1)
		}
		t.meter.Add(meter.PodsBoundAsPlanned, 1, "outcome", outcome)
	}
	if len(t.came) > 0 { // places of pods that went elsewhere stay for others of their owner, while the node is there
		maps.DeleteFunc(t.slots, func(s slot, _ int) bool {
			return s.at.claim != "" && view.Claim(s.at.claim) == nil || s.at.claim == "" && view.Node(s.at.node) == nil
		})
	}
	t.came = t.came[:0]
}

// news says whether users have not been told this about a pod for a while; the caller then tells them.
func (t *tracker) news(uid types.UID, what string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	rec := t.pods[uid]
	return rec == nil || now.After(rec.said[what])
}

// told notes that users know this about a pod. A pod is told few different things, but of those that are over none is kept.
func (t *tracker) told(uid types.UID, what string, now time.Time, every time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rec := t.pods[uid]
	if rec == nil { // a pod of a node that goes away
		rec = &tracked{uid: uid, bound: true}
		t.pods[uid] = rec
	}
	for other, until := range rec.said {
		if now.After(until) {
			delete(rec.said, other)
		}
	}
	if rec.said == nil {
		rec.said = map[string]time.Time{}
	}
	rec.said[what] = now.Add(every)
}

// tidy forgets pods of which nothing is left to say.
func (t *tracker) tidy(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, rec := range t.pods {
		if rec.acked.IsZero() && rec.bound && !slices.ContainsFunc(slices.Collect(maps.Values(rec.said)), now.Before) {
			t.drop(rec)
		}
	}
}

// live has the gauges made when somebody looks: until its first decision a pod has no pass that could write one, and ages change
// while nothing else does.
func (t *tracker) live(now func() time.Time) {
	for i, name := range podGauges {
		t.meter.Live(name, func(show meter.Show) {
			for _, w := range t.waiting(i) {
				labels := []string{"name", w.name, "namespace", w.namespace}
				if name == meter.PodsProvisioningUnboundTime {
					labels = append(labels, "dynamic_resources", strconv.FormatBool(w.dynamic))
				}
				show(now().Sub(w.since).Seconds(), labels...)
			}
		})
	}
}

// podWait is what a gauge says about a pod.
type podWait struct {
	namespace, name string
	acked, since    time.Time
	dynamic         bool
}

// waiting is what the gauge at that place of podGauges says, for the pods that have waited longest.
func (t *tracker) waiting(gauge int) (list []podWait) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, rec := range t.pods {
		if since := rec.since()[gauge]; !rec.acked.IsZero() && !since.IsZero() {
			list = append(list, podWait{rec.namespace, rec.name, rec.acked, since, rec.dynamic})
		}
	}
	slices.SortFunc(list, func(a, b podWait) int {
		return cmp.Or(a.acked.Compare(b.acked), strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	return list[:min(len(list), maxPodSeries)]
}
