package pool

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/meter"
	"karpenter/internal/state"
)

// countEvery is how often pools are counted (L19).
const countEvery = 5 * time.Second

// counted are the resources that a pool's status always shows (A29).
var counted = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods, corev1.ResourceEphemeralStorage}

// Count writes on each pool how many nodes it has and what they add up to, nodes in flight included, and shows usage, limits and
// cost as metrics.
type Count struct {
	Client client.Client
	Mirror interface {
		Synced() bool
		View() *state.View
	}
	// Class is the kind of node class that this process serves.
	Class schema.GroupKind
	Clock control.Clock
	Meter *meter.Set
	Log   *slog.Logger
	// NoGauges leaves the metrics out (O48).
	NoGauges bool

	shown map[string]bool
	// unpriced are the nodes whose price is not known, by name.
	unpriced map[string]bool
}

// Loop is what the manager runs.
func (r *Count) Loop(beat func(string)) *control.Loop {
	return &control.Loop{Name: "nodepool.counter", Clock: r.Clock, Log: r.Log, Do: r.Once, Beat: beat}
}

// Once counts every pool. One that cannot be written is tried again with the next round and holds no other up.
func (r *Count) Once(ctx context.Context) (time.Duration, error) {
	if !r.Mirror.Synced() {
		return countEvery, nil
	}
	pools := &karpv1.NodePoolList{}
	if err := r.Client.List(ctx, pools, client.UnsafeDisableDeepCopy); err != nil {
		return 0, fmt.Errorf("listing pools: %w", err)
	}
	view := r.Mirror.View()
	cost := map[string]float64{}
	for _, n := range view.World.Nodes {
		if !n.Deleting {
			cost[n.Pool] += n.Price
		}
	}
	r.countUnpriced(view)
	var failed error
	there := map[string]bool{}
	for i := range pools.Items {
		before := &pools.Items[i]
		if !mine(before, r.Class) {
			continue
		}
		there[before.Name] = true
		use := view.Usage(before.Name)
		pool := *before
		pool.Status.Nodes = new(int64(use.Nodes))
		pool.Status.Resources = sums(view, use)
		if !equality.Semantic.DeepEqual(&pool.Status, &before.Status) {
			if _, err := control.PatchStatus(ctx, r.Client, pool.DeepCopy(), before); err != nil {
				failed = err
			}
		}
		r.show(&pool, cost[pool.Name])
	}
	r.clear(there)
	return countEvery, failed
}

// countUnpriced counts each node of ours that turns out to have no price once (O27). Until it has been launched nobody knows it.
func (r *Count) countUnpriced(view *state.View) {
	now := map[string]bool{}
	for _, n := range view.Nodes {
		w := n.World
		if n.Claim == nil || n.Claim.Status.ProviderID == "" || w.Price > 0 || w.Deleting {
			continue
		}
		if now[w.Claim] = true; !r.unpriced[w.Claim] {
			r.Meter.Add(meter.NodePoolsCostErrors, 1, "nodepool", w.Pool)
		}
	}
	r.unpriced = now
}

func sums(view *state.View, use state.Usage) corev1.ResourceList {
	out := view.List(use.Capacity)
	for _, name := range counted {
		if _, ok := out[name]; !ok {
			out[name] = resource.Quantity{}
		}
	}
	out[karpv1.LimitsNodes] = *resource.NewQuantity(int64(use.Nodes), resource.DecimalSI)
	return out
}

func (r *Count) show(pool *karpv1.NodePool, cost float64) {
	if r.NoGauges {
		return
	}
	for name, quantity := range pool.Status.Resources {
		r.Meter.Set(meter.NodePoolsUsage, quantity.AsApproximateFloat64(), "resource_type", meter.ResourceType(string(name)), "nodepool", pool.Name)
	}
	for name, quantity := range pool.Spec.Limits {
		r.Meter.Set(meter.NodePoolsLimit, quantity.AsApproximateFloat64(), "resource_type", meter.ResourceType(string(name)), "nodepool", pool.Name)
	}
	if pool.Spec.Replicas != nil {
		r.Meter.Set(meter.NodePoolsReplicas, float64(*pool.Spec.Replicas), "nodepool", pool.Name)
	}
	r.Meter.Set(meter.NodePoolsCost, cost, "nodepool", pool.Name)
}

// clear removes the series of pools that are gone (O47).
func (r *Count) clear(there map[string]bool) {
	for name := range r.shown {
		if there[name] {
			continue
		}
		for _, series := range []meter.Name{meter.NodePoolsUsage, meter.NodePoolsLimit, meter.NodePoolsReplicas, meter.NodePoolsCost} {
			r.Meter.Drop(series, "nodepool", name)
		}
	}
	r.shown = there
}
