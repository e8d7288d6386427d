package provision

import (
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	karpv1 "karpenter/api/karpenter/v1"
)

const (
	// rolloutPatience is for how long after the last sign of progress pods that a ReplicaSet lacks are expected: one that may create
	// none, because of a quota for example, holds up nothing for longer.
	rolloutPatience = 10 * time.Second
	// batchPatience is the same for a batch with pods of that ReplicaSet, which waits for the others.
	batchPatience = 3 * time.Second
	// rolloutAhead is how far ahead nodes are planned for pods that ReplicaSets are creating. What a minute of a node costs that a rollout
	// fills later is little; what it costs to pack each batch for itself is a fifth of the fleet. Each node has a pod that exists: with
	// nodes made for all of them at once, small pods go everywhere, and large ones find no room.
	rolloutAhead = time.Minute
)

// paceOver is the time over which it is counted how many pods come, and maxMade how many are counted at most.
const (
	paceOver = 5 * time.Second
	maxMade  = 1000
)

// Rollouts knows which ReplicaSets do not have all their pods yet.
type Rollouts struct {
	// Put and Drop show the mirror an example of the pods of a ReplicaSet that has none yet, and remove it; nil shows none.
	Put, Drop func(pod *corev1.Pod)

	mu   sync.Mutex
	sets map[types.UID]*rollout
	// open are those that lack pods, or may.
	open map[types.UID]bool
	// made are the times at which the last pods were seen for the first time.
	made []time.Time
}

// standing is how far a pod has come.
type standing int

const (
	podPlaced  standing = iota // on a node, or not up to the scheduler
	podWaiting                 // the scheduler has not looked at it yet
	podRefused                 // the scheduler has found no node for it
)

// rollout is a ReplicaSet with its pods that are not leaving.
type rollout struct {
	name    string
	created time.Time
	wanted  int
	pods    map[types.UID]standing
	// waiting and refused count its pods by how far they have come.
	waiting, refused int
	// verdict says that one was refused since the scheduler has come to all of them last.
	verdict bool
	// example is what its pods look like, and shown whether the mirror has it.
	example *corev1.Pod
	shown   bool
	// progress is when it last asked for more pods, or a pod of it came or went.
	progress time.Time
}

// Coming are pods of a ReplicaSet that it has not created yet, or of which the scheduler has not looked at any.
type Coming struct {
	// Set is the ReplicaSet's namespace and name.
	Set  string
	Pods int
	// Waiting is how many of them exist.
	Waiting int
	// Like is the UID of a pod of it; empty if it has none.
	Like types.UID
}

// set is the rollout of a ReplicaSet. The caller holds the lock.
func (r *Rollouts) set(uid types.UID) *rollout {
	if r.sets == nil {
		r.sets, r.open = map[types.UID]*rollout{}, map[types.UID]bool{}
	}
	s := r.sets[uid]
	if s == nil {
		s = &rollout{pods: map[types.UID]standing{}}
		r.sets[uid] = s
	}
	return s
}

// outdated says whether it has more pods than it is known to want: the watch of ReplicaSets is behind that of pods, and more may come.
func (s *rollout) outdated() bool { return len(s.pods) > s.wanted }

// unknown is how many of its pods exist of which it is not known whether they need a node: what the scheduler has found of one of them
// goes for all.
func (s *rollout) unknown() int {
	if s.verdict {
		return 0
	}
	return s.waiting
}

// lacks is how many pods are still to come.
func (s *rollout) lacks() int { return max(0, s.wanted-len(s.pods)) + s.unknown() }

func (s *rollout) count(at standing, n int) {
	switch at {
	case podWaiting:
		s.waiting += n
	case podRefused:
		s.refused += n
	case podPlaced:
	}
}

// judge notes whether a ReplicaSet lacks pods. The caller holds the lock.
func (r *Rollouts) judge(uid types.UID, s *rollout) {
	if s.lacks() > 0 || s.outdated() {
		r.open[uid] = true
	} else {
		delete(r.open, uid)
	}
	show := s.wanted > 0 && len(s.pods) == 0 && s.example != nil && r.Put != nil
	switch {
	case show && !s.shown:
		r.Put(s.example)
	case !show && s.shown:
		r.Drop(s.example)
	}
	s.shown = show
	if s.name == "" && len(s.pods) == 0 {
		delete(r.sets, uid)
	}
}

// wants takes note of a ReplicaSet.
func (r *Rollouts) wants(set *appsv1.ReplicaSet, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted := 1
	if set.Spec.Replicas != nil {
		wanted = int(*set.Spec.Replicas)
	}
	if set.DeletionTimestamp != nil {
		wanted = 0
	}
	s := r.set(set.UID)
	if wanted > s.wanted {
		s.progress = now
	}
	s.name, s.created, s.wanted = set.Namespace+"/"+set.Name, set.CreationTimestamp.Time, wanted
	if wanted > 0 && s.example == nil {
		s.example = example(set)
	}
	r.judge(set.UID, s)
}

// example is a pod as the ReplicaSet will create it.
func example(set *appsv1.ReplicaSet) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: set.Name + "-example", UID: set.UID + "-example", Labels: set.Spec.Template.Labels,
			Annotations:     map[string]string{karpv1.ExamplePodAnnotationKey: set.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ReplicaSet", Name: set.Name, UID: set.UID, Controller: new(true)}},
		},
		Spec: set.Spec.Template.Spec,
	}
}

// gone forgets a ReplicaSet.
func (r *Rollouts) gone(set *appsv1.ReplicaSet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.set(set.UID)
	s.name, s.wanted = "", 0
	r.judge(set.UID, s)
}

// see takes note of a pod as it is now.
func (r *Rollouts) see(pod *corev1.Pod, now time.Time) {
	r.note(pod, active(pod), standingOf(pod), now)
}

func active(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

func standingOf(pod *corev1.Pod) standing {
	switch {
	case pod.Spec.NodeName != "" || len(pod.Spec.SchedulingGates) > 0:
		return podPlaced
	case unplaced(pod):
		return podRefused
	}
	return podWaiting
}

// shares says whether what the scheduler has found of others of its ReplicaSet goes for a pod that it has not looked at.
func (r *Rollouts) shares(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && active(pod) && standingOf(pod) == podWaiting && r.refuses(owner.UID)
}

// forget takes note that a pod is gone.
func (r *Rollouts) forget(pod *corev1.Pod, now time.Time) { r.note(pod, false, podPlaced, now) }

func (r *Rollouts) note(pod *corev1.Pod, active bool, at standing, now time.Time) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "ReplicaSet" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.set(owner.UID)
	if _, known := s.pods[pod.UID]; known != active {
		s.progress = now
		if active {
			r.made = append(r.made[max(0, len(r.made)-maxMade):], now)
		}
	}
	s.count(s.pods[pod.UID], -1)
	if active {
		s.pods[pod.UID] = at
		s.count(at, 1)
	} else {
		delete(s.pods, pod.UID)
	}
	s.verdict = s.refused > 0 || s.verdict && s.waiting > 0
	r.judge(owner.UID, s)
}

// Coming lists the pods that are known to come, by ReplicaSet.
func (r *Rollouts) Coming(now time.Time) []Coming {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Coming
	for uid := range r.open {
		s := r.sets[uid]
		if now.Sub(s.progress) >= rolloutPatience {
			continue
		}
		c := Coming{Set: s.name, Pods: s.lacks(), Waiting: s.unknown()}
		if c.Pods == 0 {
			continue
		}
		for pod := range s.pods {
			if c.Like == "" || pod < c.Like {
				c.Like = pod
			}
		}
		if s.shown {
			c.Like = s.example.UID
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Coming) int { return strings.Compare(a.Set, b.Set) })
	return out
}

// Soon says how many pods are likely to come within some time: those that exist, and others at the pace of the last seconds, as a share
// of each ReplicaSet's; by the UID of a pod like them.
func (r *Rollouts) Soon(within time.Duration, now time.Time) map[string]int {
	list := r.Coming(now)
	total := 0
	for _, c := range list {
		if c.Like != "" {
			total += c.Pods - c.Waiting
		}
	}
	r.mu.Lock()
	r.made = slices.DeleteFunc(r.made, func(at time.Time) bool { return now.Sub(at) >= paceOver })
	most := int(float64(len(r.made)) * within.Seconds() / paceOver.Seconds())
	r.mu.Unlock()
	most = min(most, total)
	out := map[string]int{}
	given, passed := 0, 0
	for _, c := range list {
		if c.Like == "" {
			continue
		}
		n := c.Waiting
		if passed += c.Pods - c.Waiting; total > 0 { // the same share of each, whatever the rounding
			n += passed*most/total - given
			given = passed * most / total
		}
		if n > 0 {
			out[string(c.Like)] += n
		}
	}
	return out
}

// incomplete says whether a ReplicaSet with pods that find no node is still creating others: one plan for all of them needs fewer
// nodes than several.
func (r *Rollouts) incomplete(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid := range r.open {
		if s := r.sets[uid]; s.refused > 0 && now.Sub(s.progress) < batchPatience {
			return true
		}
	}
	return false
}

// refuses says whether the scheduler has found no node for pods of a ReplicaSet, and has not come to all of them since.
func (r *Rollouts) refuses(set types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sets[set]
	return s != nil && s.verdict
}

// Created is when a ReplicaSet was created; zero if it is not known.
func (r *Rollouts) Created(set types.UID) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.sets[set]; s != nil {
		return s.created
	}
	return time.Time{}
}
