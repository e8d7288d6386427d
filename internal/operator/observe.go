package operator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/internal/control"
	"karpenter/internal/meter"
)

// observeEvery is how often the state of this process itself is shown (O15).
const observeEvery = 10 * time.Second

// observability wires what only shows: metrics of the cluster's state and of conditions, and events of the latter. All but the
// state of this process itself is the leader's, so that series are not there twice. Metrics that have a series for each pod, node,
// condition or offering are made when somebody looks: kept, they would take more memory than what they tell of.
func (w *wiring) observability(context.Context) error {
	if err := w.m.Add(everywhere{w.dog.Guard(w.loop("cluster.state", observeEvery, w.synced))}); err != nil {
		return fmt.Errorf("cluster.state: %w", err)
	}
	if !steered() && !w.shared {
		if err := w.m.Add(everywhere{w.dog.Guard(w.loop("memory", tidyEvery, (&tidier{}).tidy))}); err != nil {
			return fmt.Errorf("memory: %w", err)
		}
	}
	watching := &observer{informers: w.m.GetCache(), begin: func() {}}
	if w.cloud.Report != nil {
		watching.begin = w.cloud.Report
	}
	if !w.options.DisableClusterStateObservability {
		w.observeCluster(watching)
	}
	if err := w.m.Add(watching); err != nil {
		return fmt.Errorf("watching what metrics show: %w", err)
	}
	return nil
}

// observeCluster adds what shows pods, nodes and conditions.
func (w *wiring) observeCluster(watching *observer) {
	conditions := meter.NewConditions(w.set, w.clock.Now)
	pods := &podGauges{mirror: w.mirror, set: w.set, now: w.clock.Now, waiting: map[types.NamespacedName]*corev1.Pod{}}
	nodes := &nodeGauges{view: w.mirror.View, set: w.set, now: w.clock.Now}
	watching.handlers = []handling{{&corev1.Pod{}, pods.handler()}}
	for _, kind := range w.trackedKinds(w.buffer != nil && w.buffersServed() == nil) {
		status := &statusWatch{conditions: conditions, recorder: w.recorder, kind: kind}
		watching.handlers = append(watching.handlers, handling{kind.object, status.handler()})
	}
	offerings := watching.begin
	watching.begin = func() {
		offerings()
		nodes.show()
		pods.show()
	}
}

func (w *wiring) loop(name string, every time.Duration, do func(context.Context) error) *control.Loop {
	return &control.Loop{Name: name, Clock: w.clock, Log: w.log, Do: func(ctx context.Context) (time.Duration, error) {
		return every, do(ctx)
	}}
}

// synced shows whether the cluster has been seen, and how much of it (O15).
func (w *wiring) synced(context.Context) error {
	if w.mirror.Synced() {
		w.set.Set(meter.ClusterStateUnsynced, 0)
		w.set.Set(meter.ClusterStateNodes, float64(len(w.mirror.View().Nodes)))
		return nil
	}
	w.set.Set(meter.ClusterStateUnsynced, w.clock.Since(w.began).Seconds())
	return nil
}

// observer begins, and adds its handlers to the informers, once this process leads.
type observer struct {
	informers cache.Informers
	handlers  []handling
	begin     func()
}

type handling struct {
	object  client.Object
	handler toolscache.ResourceEventHandler
}

// Start implements manager.Runnable. A handler that is added late is told of everything that exists.
func (o *observer) Start(ctx context.Context) error {
	o.begin()
	for _, h := range o.handlers {
		informer, err := o.informers.GetInformer(ctx, h.object)
		if err != nil {
			return fmt.Errorf("watching %T: %w", h.object, err)
		}
		if _, err := informer.AddEventHandler(h.handler); err != nil {
			return fmt.Errorf("watching %T: %w", h.object, err)
		}
	}
	return nil
}

// NeedLeaderElection tells controller-runtime that the leader observes.
func (o *observer) NeedLeaderElection() bool { return true }

// lastKnown is the object of a deletion, which an informer may have missed and only know from before.
func lastKnown(obj any) any {
	if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		return last.Obj
	}
	return obj
}
