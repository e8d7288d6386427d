package replicas

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/state"
)

// wakes are the calls that end the loop's rest.
type wakes struct {
	called chan struct{}
	// static names the static pools, as last seen.
	static atomic.Pointer[[]string]
}

func (w *wakes) call() {
	select {
	case w.called <- struct{}{}:
	default:
	}
}

// know notes which pools are static.
func (w *wakes) know(view *state.View) {
	list := names(view)
	w.static.Store(&list)
}

// concerns says whether an object belongs to a static pool.
func (w *wakes) concerns(obj client.Object) bool {
	list := w.static.Load()
	return list != nil && slices.Contains(*list, obj.GetLabels()[karpv1.NodePoolLabelKey])
}

// watch has events end the loop's rest: static pools that change, and claims and nodes of theirs that go.
func (l *Loop) watch(ctx context.Context, informers cache.Informers) error {
	for _, of := range []client.Object{&karpv1.NodePool{}, &karpv1.NodeClaim{}, &corev1.Node{}} {
		informer, err := informers.GetInformer(ctx, of)
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc:    func(obj any) { l.changed(nil, obj) },
				UpdateFunc: l.changed,
				DeleteFunc: func(obj any) {
					if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
						obj = last.Obj
					}
					l.gone(obj)
				},
			})
		}
		if err != nil {
			return fmt.Errorf("watching %T: %w", of, err)
		}
	}
	return nil
}

// changed calls for a pool that is to have another number of nodes or has become usable, and for a claim or a node that is being deleted.
func (l *Loop) changed(before, now any) {
	switch obj := now.(type) {
	case *karpv1.NodePool:
		was, _ := before.(*karpv1.NodePool)
		ready := func(p *karpv1.NodePool) bool { return p.StatusConditions().IsTrue(karpv1.ConditionReady) }
		if obj.Spec.Replicas != nil && (was == nil || was.Generation != obj.Generation || ready(was) != ready(obj)) {
			l.wakes.call()
		}
	case client.Object:
		was, _ := before.(client.Object)
		if l.wakes.concerns(obj) && obj.GetDeletionTimestamp() != nil && (was == nil || was.GetDeletionTimestamp() == nil) {
			l.wakes.call()
		}
	}
}

func (l *Loop) gone(obj any) {
	if o, ok := obj.(client.Object); ok && l.wakes.concerns(o) {
		l.wakes.call()
	}
}
