package forecast

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// rank puts the pods of a workload into the order in which they stay: what is scaled down loses those at the end. The order is that
// of Kubernetes' own controllers. A StatefulSet loses its highest numbers. Of other pods those without a node go first, then
// those that are not ready, that cost least to delete, that share their node with most of their like, that were ready for
// less time, by powers of two, and that were made later.
func (w *workload) rank(pods []*corev1.Pod, now time.Time) {
	if w.kind == "StatefulSet" {
		slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(ordinal(a), ordinal(b)) })
		return
	}
	beside := map[string]int{}
	for _, p := range pods {
		beside[p.Spec.NodeName]++
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		since, than := readySince(a), readySince(b)
		return cmp.Or(
			cmp.Compare(truth(a.Spec.NodeName == ""), truth(b.Spec.NodeName == "")),
			cmp.Compare(truth(a.Status.Phase != corev1.PodRunning), truth(b.Status.Phase != corev1.PodRunning)),
			cmp.Compare(truth(since == 0), truth(than == 0)),
			cmp.Compare(deletionCost(b), deletionCost(a)),
			cmp.Compare(beside[a.Spec.NodeName], beside[b.Spec.NodeName]),
			younger(since, than, now),
			cmp.Compare(restarts(a), restarts(b)),
			younger(a.CreationTimestamp.Unix(), b.CreationTimestamp.Unix(), now),
			cmp.Compare(b.UID, a.UID),
		)
	})
}

func truth(b bool) int {
	if b {
		return 1
	}
	return 0
}

// ordinal is the number of a StatefulSet's pod.
func ordinal(p *corev1.Pod) int {
	name := p.Name
	at := len(name)
	for at > 0 && name[at-1] >= '0' && name[at-1] <= '9' {
		at--
	}
	n, err := strconv.Atoi(name[at:])
	if err != nil {
		return math.MaxInt
	}
	return n
}

// readySince is when a pod became ready, in Unix seconds; 0 if it is not.
func readySince(p *corev1.Pod) int64 {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return max(1, c.LastTransitionTime.Unix())
		}
	}
	return 0
}

// deletionCost is what the pod's annotation says; 0 without a number.
func deletionCost(p *corev1.Pod) int {
	n, err := strconv.ParseInt(p.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return int(n)
}

// restarts is how often the containers of a pod have been started again.
func restarts(p *corev1.Pod) (n int32) {
	for i := range p.Status.ContainerStatuses {
		n = max(n, p.Status.ContainerStatuses[i].RestartCount)
	}
	return n
}

// younger compares ages by powers of two: what is a little younger is as good as what is a little older.
func younger(a, b int64, now time.Time) int {
	age := func(at int64) int {
		d := now.Sub(time.Unix(at, 0))
		if d <= 0 {
			return -1
		}
		return int(math.Log2(float64(d)))
	}
	return cmp.Compare(age(b), age(a))
}
