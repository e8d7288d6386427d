package drain

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/engine/life"
	"karpenter/internal/state"
	"karpenter/internal/wait"
)

const (
	// evictors is how many requests are under way at once, perNode and perGroup how many of one node or group. Requests that
	// hang, because a webhook does or the API server has not looked at a budget yet, then leave room for the others.
	evictors, perNode, perGroup = 256, 32, 16
	// crowded is after how long a pod asks again that would have been one too many.
	crowded = 100 * time.Millisecond
	// writesPerSecond and writesBurst bound first requests: half of what the client may send in all, so that launching goes on
	// while many nodes drain.
	writesPerSecond, writesBurst = 100, 200
	// retriesPerSecond bounds repeated requests apart from those: pods that cannot leave never slow down those that can.
	retriesPerSecond = 50
	// mostCrowded is after how long at most a pod asks again that the rates are too low for. It is shorter than the bursts last, so that
	// none of what the rates allow is lost.
	mostCrowded = time.Second
	// orderFor is for how long after it was told to leave a pod has smaller ones wait for it: large pods find a place only where little
	// else has gone, so that they should look for it first. betweenSizes is how soon the others ask again.
	orderFor     = 3 * time.Second
	betweenSizes = 50 * time.Millisecond
	// askedFor is how long a pod that was told to go is not told again: until then the cache may not show it.
	askedFor = 10 * time.Second
	// poisonBackoff is how long a pod is left alone after it has made us fail in a way that nobody expected.
	poisonBackoff = time.Minute
)

// key names a pod that is to go. A pod of the same name that comes after it is another one (L27).
type key struct {
	namespace, name string
	uid             types.UID
}

// order is why and until when a pod must go.
type order struct {
	node     *corev1.Node
	deadline time.Time
	reason   string
}

// group is pods that leave or stay together: those of one owner, which as a rule one disruption budget covers.
type group struct {
	namespace string
	owner     types.UID
}

// gate holds the pods of a group back after one of them was refused: the others would be too, and every question costs a
// request. While it is shut one pod at a time tries.
type gate struct {
	pods, busy int
	failures   int
	until      time.Time
}

// entry is a pod in the queue.
type entry struct {
	order
	group group
	// size is what the pod asks for, and added when it came to the queue.
	size     int64
	added    time.Time
	failures int // which no budget is to blame for
}

// job is one attempt at a pod.
type job struct {
	key
	entry
	pod  *corev1.Pod
	step life.PodStep
}

// told is what a pod was told last, and when.
type told struct {
	do life.PodAction
	at time.Time
}

// queue evicts and deletes pods, each at its own pace (L26).
type queue struct {
	*Drainer
	// draining says whether pods of a node are to go.
	draining func(node string) bool
	work     workqueue.TypedDelayingInterface[key]
	first    flowcontrol.PassiveRateLimiter
	again    flowcontrol.PassiveRateLimiter

	mu      sync.Mutex // never held during a request
	entries map[key]*entry
	gates   map[group]*gate
	busy    map[string]int // requests under way by node
	told    map[key]told
	swept   time.Time
}

func newQueue(d *Drainer, draining func(node string) bool) *queue {
	return &queue{
		Drainer: d, draining: draining,
		work:    wait.NewQueue[key]("eviction", d.Clock, nil),
		first:   flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(writesPerSecond, writesBurst, d.Clock),
		again:   flowcontrol.NewTokenBucketPassiveRateLimiterWithClock(retriesPerSecond, retriesPerSecond, d.Clock),
		entries: map[key]*entry{}, gates: map[group]*gate{}, busy: map[string]int{}, told: map[key]told{},
	}
}

// Start works until the context ends.
func (q *queue) Start(ctx context.Context) error {
	wait.Serve(ctx, q.Clock, q.work, evictors, func(k key) { q.guard(ctx, k) })
	return nil
}

// NeedLeaderElection keeps the queue from working in processes that do not lead.
func (q *queue) NeedLeaderElection() bool { return true }

// Add puts a pod into the queue. One that is there already keeps the earlier deadline; one that was told to go a moment ago is
// left alone.
func (q *queue) Add(pod *corev1.Pod, o order) {
	k := key{pod.Namespace, pod.Name, pod.UID}
	now := q.Clock.Now()
	do := state.Leaving(pod).Next(o.deadline, now).Do
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sweep(now)
	if t, ok := q.told[k]; ok && now.Sub(t.at) < askedFor && (t.do == do || t.do == life.Delete) {
		return
	}
	if e := q.entries[k]; e != nil {
		if e.deadline.IsZero() || !o.deadline.IsZero() && o.deadline.Before(e.deadline) {
			e.deadline = o.deadline
		}
		if do == life.Delete {
			q.work.Add(k) // it may be waiting for its turn to be evicted
		}
		return
	}
	e := &entry{order: o, group: groupOf(pod), size: sizeOf(pod), added: now}
	q.entries[k] = e
	g := q.gates[e.group]
	if g == nil {
		g = &gate{}
		q.gates[e.group] = g
	}
	g.pods++
	q.work.Add(k)
}

func groupOf(pod *corev1.Pod) group {
	g := group{pod.Namespace, pod.UID}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		g.owner = owner.UID
	}
	return g
}

// sweep forgets what was told long ago. The caller holds the lock.
func (q *queue) sweep(now time.Time) {
	if now.Sub(q.swept) < askedFor {
		return
	}
	q.swept = now
	for k, t := range q.told {
		if now.Sub(t.at) >= askedFor {
			delete(q.told, k)
		}
	}
}

// guard keeps a pod that we cannot cope with from ending the program: it costs itself only.
func (q *queue) guard(ctx context.Context, k key) {
	defer func() {
		if p := recover(); p != nil {
			q.Log.Error("panic while removing a pod, leaving it alone for a while", "Pod", k.namespace+"/"+k.name, "error", fmt.Sprint(p), "stacktrace", string(debug.Stack()))
			q.work.AddAfter(k, poisonBackoff)
		}
	}()
	q.process(ctx, k)
}

// process decides about one pod anew and carries that out.
func (q *queue) process(ctx context.Context, k key) {
	e, ok := q.entry(k)
	if !ok || ctx.Err() != nil {
		return
	}
	pod := &corev1.Pod{} // the cache's; nothing here changes it
	err := q.Client.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: k.name}, pod, client.UnsafeDisableDeepCopy)
	if err != nil || pod.UID != k.uid || !q.draining(e.node.Name) {
		q.done(k, "") // gone, or nobody's business any more; a node that still wants it gone says so again
		return
	}
	j := job{key: k, entry: e, pod: pod, step: state.Leaving(pod).Next(e.deadline, q.Clock.Now())}
	if j.step.Do != life.Evict && j.step.Do != life.Delete {
		q.done(k, "")
		return
	}
	if left := q.enter(j); left > 0 {
		q.work.AddAfter(k, left)
		return
	}
	err = q.request(ctx, j)
	switch {
	case ctx.Err() != nil: // we are ending; whoever comes next decides anew
	case j.step.Do == life.Evict:
		q.settleEviction(j, err)
	default:
		q.settleDeletion(j, err)
	}
}

// request sends what was decided.
func (q *queue) request(ctx context.Context, j job) error {
	defer q.leave(j)
	if j.step.Do == life.Evict {
		return q.evict(ctx, j.pod)
	}
	return q.delete(ctx, j.pod, j.step.Grace)
}

// entry is a copy of what is known of a pod in the queue.
func (q *queue) entry(k key) (entry, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.entries[k]; e != nil {
		return *e, true
	}
	return entry{}, false
}

// enter is how long a pod must wait before it may be told to go; zero means now, and leave must follow. After a refusal one pod of
// the group tries at a time; deletions are not refused and need not wait for that.
func (q *queue) enter(j job) time.Duration {
	now := q.Clock.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	g := q.gates[j.group]
	retry := j.step.Do == life.Evict && g.failures > 0
	switch {
	case retry && now.Before(g.until):
		return g.until.Sub(now)
	case retry && g.busy > 0, g.busy >= perGroup, q.busy[j.node.Name] >= perNode:
		return crowded
	case !retry && j.step.Do == life.Evict && q.larger(j, now):
		return betweenSizes
	case retry && !q.again.TryAccept():
		return q.spread(retriesPerSecond)
	case !retry && !q.first.TryAccept():
		return q.spread(writesPerSecond)
	}
	g.busy++
	q.busy[j.node.Name]++
	return 0
}

// spread is after how long a pod asks again when all those in the queue want to leave at a rate: thousands that ask ten times a second
// would be most of the work. The caller holds the lock.
func (q *queue) spread(perSecond int) time.Duration {
	all := time.Duration(len(q.entries)) * time.Second / time.Duration(perSecond)
	return min(max(all, crowded), mostCrowded)
}

// larger says whether a pod that is a good deal larger is about to leave. Those that are refused, and those that came long ago, have
// nobody wait. The caller holds the lock.
func (q *queue) larger(j job, now time.Time) bool {
	if now.Sub(j.added) >= orderFor {
		return false
	}
	for _, e := range q.entries {
		if e.size > j.size+j.size/4 && now.Sub(e.added) < orderFor && q.gates[e.group].failures == 0 {
			return true
		}
	}
	return false
}

// sizeOf is what a pod asks for: thousandths of a core, with 4 GiB of memory for a core.
func sizeOf(pod *corev1.Pod) (size int64) {
	for i := range pod.Spec.Containers {
		r := pod.Spec.Containers[i].Resources.Requests
		size += r.Cpu().MilliValue() + r.Memory().Value()/(4<<20)
	}
	return size
}

// leave makes room for the next one.
func (q *queue) leave(j job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if g := q.gates[j.group]; g != nil {
		g.busy--
	}
	if q.busy[j.node.Name]--; q.busy[j.node.Name] <= 0 {
		delete(q.busy, j.node.Name)
	}
}

// done takes a pod out of the queue and remembers what it was told, if anything.
func (q *queue) done(k key, do life.PodAction) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[k]
	if e == nil {
		return
	}
	delete(q.entries, k)
	if do != "" {
		q.told[k] = told{do, q.Clock.Now()}
	}
	if g := q.gates[e.group]; g != nil {
		if g.pods--; g.pods <= 0 {
			delete(q.gates, e.group)
		}
	}
}

// open lets the other pods of a group try.
func (q *queue) open(g group) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if at := q.gates[g]; at != nil {
		at.failures, at.until = 0, time.Time{}
	}
}

// shut makes the pods of a group wait after one was refused, longer each time, and returns for how long.
func (q *queue) shut(g group) time.Duration {
	now := q.Clock.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	at := q.gates[g]
	if at == nil {
		return life.EvictBackoff(1)
	}
	if !now.Before(at.until) { // several may have been refused at once; that counts as one
		at.failures++
		at.until = now.Add(life.EvictBackoff(at.failures))
	}
	return at.until.Sub(now)
}
