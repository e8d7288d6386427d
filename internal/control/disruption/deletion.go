package disruption

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/meter"
	"karpenter/internal/state"
	"karpenter/internal/wait"
)

const (
	// costEvery is how often deletion costs are written at most, and how long that may take. What is not written by then is
	// looked at anew.
	costEvery = time.Minute
	// rankedNodes is how many nodes are ranked at most, besides those that are being removed.
	rankedNodes = 50
	// firstRank is what the first ranked node gets when all are ranked anew: nodes that follow later find numbers below zero behind the
	// others.
	firstRank = -2 * rankedNodes
	// removedCost is what pods get whose node is being removed: the least that there is.
	removedCost = math.MinInt32
)

// DeletionCosts tells ReplicaSets which pods to delete first when they are scaled down: those on nodes that are being removed, and
// then those on nodes that are to be removed next (N9). What they delete need not be evicted.
//
// All that it knows is on the pods: a cost that has a mark with the same value is ours, any other one is the owner's and stays. So a
// process that takes over takes back what another one has written.
type DeletionCosts struct {
	// Client writes pods, at a pace of its own.
	Client client.Client
	Mirror interface {
		Synced() bool
		View() *state.View
	}
	// Decider is the loop whose plan counts.
	Decider *Loop
	Clock   control.Clock
	Meter   *meter.Set
	Log     *slog.Logger

	last  question         // what was asked when costs were found
	costs map[string]int32 // by node
	left  bool             // some pods could not be written
	shown map[string]bool  // pools that have a gauge
}

// Loop is what the manager runs.
func (r *DeletionCosts) Loop() *control.Loop {
	return &control.Loop{Name: "pod.deletioncost", Clock: r.Clock, Log: r.Log, Do: r.Once}
}

// Once writes what has changed, if what consolidation decides from has changed. A pod that cannot be written is tried again in the
// next round.
func (r *DeletionCosts) Once(ctx context.Context) (time.Duration, error) {
	if !r.Mirror.Synced() {
		return unsynced, nil
	}
	now, view := r.Clock.Now(), r.Mirror.View()
	facts := r.Decider.Facts(view, now)
	in := facts.Input(view, now)
	q := ask(view, in, now)
	changed := q.world != r.last.world || q.facts != r.last.facts
	if !changed && !r.left {
		return idle, nil
	}
	if changed {
		next, err := r.Decider.next(in, now)
		if err != nil {
			return 0, err
		}
		r.costs, r.last = rank(view, next), q
	}
	r.write(ctx, view)
	return costEvery, nil
}

// next asks the engine which nodes are to be removed next.
func (l *Loop) next(in *disrupt.Input, now time.Time) (nodes []int32, err error) {
	defer recovered(&err, "looking for what is to be removed next")
	return disrupt.Next(in, l.Options, now), nil
}

// rank gives nodes the deletion cost of their pods; next are indexes of nodes, in the order in which they are to be removed.
func rank(view *state.View, next []int32) map[string]int32 {
	costs := map[string]int32{}
	for _, n := range view.Nodes {
		if n.Claim != nil && (n.World.Deleting || tainted(n.Object)) {
			costs[n.World.Name] = removedCost
		}
	}
	var order []*state.Node
	for _, i := range next {
		n := view.Nodes[i]
		if _, removed := costs[n.World.Name]; !removed && slices.ContainsFunc(n.Pods, replicated) && len(order) < rankedNodes {
			order = append(order, n)
		}
	}
	for i, cost := range number(order) {
		costs[order[i].World.Name] = cost
	}
	return costs
}

// number gives nodes numbers below zero that rise in their order. Those that they have stay as far as they are in order, so that a
// node more or less does not change all others.
func number(order []*state.Node) []int32 {
	out := make([]int32, len(order))
	first := slices.IndexFunc(order, func(n *state.Node) bool { return given(n) < 0 })
	for i, n := range order {
		switch has := given(n); {
		case first < 0:
			out[i] = firstRank + int32(i)
		case i < first:
			out[i] = given(order[first]) - int32(first-i)
		case i > first && has <= out[i-1], has == 0:
			out[i] = out[i-1] + 1
		default:
			out[i] = has
		}
	}
	if len(out) > 0 && out[len(out)-1] >= 0 {
		for i := range out {
			out[i] = firstRank + int32(i)
		}
	}
	return out
}

// given is the rank that pods of a node have; 0 if they have none, or one with little room before it.
func given(n *state.Node) int32 {
	for _, pod := range n.Pods {
		text := pod.Annotations[karpv1.DeletionCostAnnotationKey]
		if text != pod.Annotations[corev1.PodDeletionCost] {
			continue
		}
		if v, err := strconv.ParseInt(text, 10, 32); err == nil && v > removedCost/2 && v < 0 {
			return int32(v)
		}
	}
	return 0
}

// edit is a pod that is to be written.
type edit struct {
	node *state.Node
	pod  *corev1.Pod
	cost int32 // 0 for none
	body []byte
}

// write brings pods in line with the costs of their nodes: those first that are to be deleted first, and last those that lose theirs.
func (r *DeletionCosts) write(ctx context.Context, view *state.View) {
	var edits []edit
	for _, n := range view.Nodes {
		for _, pod := range n.Pods {
			e := edit{node: n, pod: pod, cost: r.costs[n.World.Name]}
			if !replicated(pod) {
				e.cost = 0
			}
			if e.body = patchCost(pod, e.cost); e.body != nil {
				edits = append(edits, e)
			}
		}
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.cost, b.cost) })
	ctx, cancel := wait.Timeout(ctx, r.Clock, costEvery)
	defer cancel()
	var failed []error
	r.left = false
	for _, err := range each(r.Clock, edits, func(e edit) error { return r.patch(ctx, e) }) {
		result := "updated"
		switch {
		case apierrors.IsNotFound(err):
			result = "skipped_notfound"
		case apierrors.IsConflict(err):
			result, r.left = "skipped_conflict", true
		case err != nil:
			result, r.left, failed = "error", true, append(failed, err)
		}
		r.Meter.Add(meter.DeletionCostWrites, 1, "result", result)
	}
	r.show(view, edits)
	if len(failed) > 0 {
		r.Log.Error("could not write deletion costs of pods, trying again", "pods", len(failed), "error", failed[0], "again-in", costEvery)
	}
}

// show says how many nodes had pods to write.
func (r *DeletionCosts) show(view *state.View, edits []edit) {
	nodes, counts := map[string]bool{}, map[string]int{} // by pool
	for _, e := range edits {
		if !nodes[e.node.World.Name] {
			nodes[e.node.World.Name] = true
			counts[e.node.World.Pool]++
		}
	}
	now := map[string]bool{}
	for _, p := range view.World.Pools {
		now[p.Name] = true
		r.Meter.Set(meter.DeletionCostPending, float64(counts[p.Name]), "nodepool", p.Name)
	}
	for pool := range r.shown {
		if !now[pool] {
			r.Meter.Drop(meter.DeletionCostPending, "nodepool", pool)
		}
	}
	r.shown = now
}

// replicated says whether a pod is a ReplicaSet's: others are not deleted by their cost.
func replicated(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "ReplicaSet" && strings.HasPrefix(owner.APIVersion, "apps/")
}

// patchCost is what gives a pod a deletion cost, or with 0 takes back the one that it has been given; nil if there is nothing to
// write. It touches no cost that its owner has given it, and fails if the pod has changed meanwhile: it may have got one.
func patchCost(pod *corev1.Pod, cost int32) []byte {
	has, mark := pod.Annotations[corev1.PodDeletionCost], pod.Annotations[karpv1.DeletionCostAnnotationKey]
	want := map[string]any{corev1.PodDeletionCost: nil, karpv1.DeletionCostAnnotationKey: nil}
	text := ""
	if cost != 0 {
		text = strconv.Itoa(int(cost))
		want[corev1.PodDeletionCost], want[karpv1.DeletionCostAnnotationKey] = text, text
	}
	if has != "" && has != mark {
		text, has = "", "" // nothing of ours is left but the mark
		want = map[string]any{karpv1.DeletionCostAnnotationKey: nil}
	}
	if pod.DeletionTimestamp != nil || has == text && mark == text {
		return nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": pod.ResourceVersion, "annotations": want}})
	if err != nil {
		return nil // strings can be written
	}
	return body
}

func (r *DeletionCosts) patch(ctx context.Context, e edit) error {
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: e.pod.Namespace, Name: e.pod.Name}}
	if err := r.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, e.body)); err != nil {
		return fmt.Errorf("writing the deletion cost of Pod %s/%s: %w", e.pod.Namespace, e.pod.Name, err)
	}
	return nil
}
