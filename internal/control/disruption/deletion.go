package disruption

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/disrupt"
	"karpenter/internal/meter"
	"karpenter/internal/state"
)

const (
	// rankEvery is how often deletion costs are looked at.
	rankEvery = time.Minute
	// rankedNodes is how many nodes are ranked at most, besides those that are leaving.
	rankedNodes = 50
	// rankWriters is how many pods are written at once.
	rankWriters = 8
)

// DeletionCosts tells ReplicaSets which pods to delete first when they are scaled in: those on nodes that are leaving, and then those on
// nodes that are likely to leave next (N9). What they delete need not be evicted.
type DeletionCosts struct {
	Client client.Client
	Mirror interface {
		Synced() bool
		View() *state.View
	}
	// Input is what a decision about the view would be made from.
	Input func(view *state.View, now time.Time) *disrupt.Input
	Clock control.Clock
	Meter *meter.Set
	Log   *slog.Logger

	shown map[string]bool // pools that have a gauge
}

// Loop is what the manager runs.
func (r *DeletionCosts) Loop(beat func(string)) *control.Loop {
	return &control.Loop{Name: "pod.deletioncost", Clock: r.Clock, Log: r.Log, Do: r.Once, Beat: beat}
}

// Once writes what has changed. A pod that cannot be written is tried again with the next round.
func (r *DeletionCosts) Once(ctx context.Context) (time.Duration, error) {
	if !r.Mirror.Synced() {
		return unsynced, nil
	}
	view := r.Mirror.View()
	costs := rank(view, r.Input(view, r.Clock.Now()))
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		failed  []error
		pending = map[string]map[string]bool{} // nodes with pods that could not be written, by pool
		gate    = make(chan struct{}, rankWriters)
	)
	for _, n := range view.Nodes {
		want := ""
		if cost, ranked := costs[n]; ranked {
			want = strconv.Itoa(int(cost))
		}
		for _, pod := range n.Pods {
			if !rankable(pod, want) {
				continue
			}
			gate <- struct{}{}
			wg.Go(func() {
				defer func() { <-gate }()
				err := r.write(ctx, pod, want)
				result := "success"
				if client.IgnoreNotFound(err) != nil {
					result = "error"
					mu.Lock()
					failed = append(failed, err)
					if pending[n.World.Pool] == nil {
						pending[n.World.Pool] = map[string]bool{}
					}
					pending[n.World.Pool][n.World.Name] = true
					mu.Unlock()
				}
				r.Meter.Add(meter.DeletionCostWrites, 1, "result", result)
			})
		}
	}
	wg.Wait()
	r.show(view, pending)
	return rankEvery, errors.Join(failed[:min(len(failed), 1)]...)
}

// show says how many nodes have pods that could not be written.
func (r *DeletionCosts) show(view *state.View, pending map[string]map[string]bool) {
	now := map[string]bool{}
	for _, p := range view.World.Pools {
		now[p.Name] = true
		r.Meter.Set(meter.DeletionCostPending, float64(len(pending[p.Name])), "nodepool", p.Name)
	}
	for pool := range maps.Keys(r.shown) {
		if !now[pool] {
			r.Meter.Drop(meter.DeletionCostPending, "nodepool", pool)
		}
	}
	r.shown = now
}

// candidate is a node that may leave.
type candidate struct {
	*state.Node
	since time.Time // when it drifted
	used  float64   // the share of it that pods take
}

// rank gives nodes the deletion cost of their pods. Those that are leaving come first, then those that have drifted, longest ago first,
// then the others, the least used first; as many as the pools' budgets allow.
func rank(view *state.View, in *disrupt.Input) map[*state.Node]int32 {
	out := map[*state.Node]int32{}
	var drifted, others []candidate
	for i, n := range view.Nodes {
		switch facts := &in.Nodes[i]; {
		case n.Claim == nil || n.World.Pool == "":
		case n.World.Deleting || leaving(n):
			out[n] = math.MinInt32
		case facts.Fixed != "" || facts.PodsFixed != "":
		case facts.Drift != "":
			drifted = append(drifted, candidate{Node: n, since: facts.DriftedAt})
		default:
			others = append(others, candidate{Node: n, used: used(view, n)})
		}
	}
	var order []*state.Node
	take := func(list []candidate, allowed func(p *disrupt.Pool) int) {
		slices.SortFunc(list, func(a, b candidate) int {
			return cmp.Or(a.since.Compare(b.since), cmp.Compare(a.used, b.used), strings.Compare(a.World.Name, b.World.Name))
		})
		left := map[string]int{}
		for i := range in.Pools {
			left[in.Pools[i].Name] = allowed(&in.Pools[i])
		}
		for _, c := range list {
			if left[c.World.Pool] > 0 && len(order) < rankedNodes {
				left[c.World.Pool]--
				order = append(order, c.Node)
			}
		}
	}
	take(drifted, func(p *disrupt.Pool) int { return p.Allowed[disrupt.Drifted] })
	take(others, func(p *disrupt.Pool) int {
		switch {
		case p.Never || p.Static:
			return 0
		case p.Policy == disrupt.WhenEmpty: // what is deleted may leave it empty
			return p.Allowed[disrupt.Empty]
		}
		return p.Allowed[disrupt.Underutilized]
	})
	for i, n := range order {
		out[n] = int32(i - len(order))
	}
	return out
}

// leaving says whether a node has been told to go.
func leaving(n *state.Node) bool {
	return n.Object != nil && slices.ContainsFunc(n.Object.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey })
}

// used is the share of a node that its pods take, of what they take most of; daemons come with any node.
func used(view *state.View, n *state.Node) (most float64) {
	if len(n.World.Pods) != len(n.Pods) {
		return 1
	}
	sum := map[int]int64{}
	for _, p := range n.World.Pods {
		if !p.Daemon && !p.Mirror {
			for i, v := range view.World.Classes[p.Class].Requests {
				sum[i] += v
			}
		}
	}
	for i, v := range sum {
		if has := n.World.Allocatable.Get(i); has > 0 {
			most = max(most, float64(v)/float64(has))
		}
	}
	return most
}

// rankable says whether a pod is to get another deletion cost: a ReplicaSet's may, unless its owner has given it one.
func rankable(pod *corev1.Pod, want string) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "ReplicaSet" || pod.DeletionTimestamp != nil || pod.Spec.NodeName == "" {
		return false
	}
	has, ours := pod.Annotations[corev1.PodDeletionCost], pod.Annotations[karpv1.DeletionCostAnnotationKey]
	return (has == "" || has == ours) && has != want
}

// write gives a pod a deletion cost, or takes back the one that it has been given.
func (r *DeletionCosts) write(ctx context.Context, pod *corev1.Pod, cost string) error {
	var value any
	if cost != "" {
		value = cost
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]any{corev1.PodDeletionCost: value, karpv1.DeletionCostAnnotationKey: value},
	}})
	if err != nil {
		return err
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return r.Client.Patch(ctx, target, client.RawPatch(types.MergePatchType, body))
}
