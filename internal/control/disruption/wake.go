package disruption

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
	"karpenter/internal/control"
	"karpenter/internal/wait"
)

// wakes are the calls that end the loop's rest.
type wakes struct {
	called chan struct{}
	// news is set if what decisions are made from has changed. Otherwise moves that have begun get on.
	news atomic.Bool
}

func newWakes() *wakes { return &wakes{called: make(chan struct{}, 1)} }

func (w *wakes) call(news bool) {
	if news {
		w.news.Store(true)
	}
	select {
	case w.called <- struct{}{}:
	default:
	}
}

// wait rests for so long, or until somebody calls. decide is after how long a decision is to be made if there is news.
func (w *wakes) wait(ctx context.Context, clock control.Clock, d time.Duration) (decide time.Duration) {
	if d <= 0 {
		return 0
	}
	wait.Receive(ctx, clock, d, w.called)
	if w.news.Swap(false) {
		return gather
	}
	return 0
}

// Wake has the loop decide soon: what decisions are made from has changed in a way that no object that it watches shows.
func (l *Loop) Wake() { l.wakes.call(true) }

// watch has events end the loop's rest: claims of moves that get on, claims that become candidates, pools that change, and overlays.
// Pods come and go all the time; what that means for nodes is looked at now and then.
func (l *Loop) watch(ctx context.Context, informers cache.Informers) error {
	type watched struct {
		of      client.Object
		changed func(before, now any)
	}
	list := []watched{
		{&karpv1.NodeClaim{}, func(before, now any) {
			was, _ := before.(*karpv1.NodeClaim)
			if is, ok := now.(*karpv1.NodeClaim); ok {
				l.claimChanged(was, is)
			}
		}},
		{&karpv1.NodePool{}, func(before, now any) {
			was, _ := before.(*karpv1.NodePool)
			if is, ok := now.(*karpv1.NodePool); ok && (was == nil || was.Generation != is.Generation) {
				l.wakes.call(true)
			}
		}},
	}
	if l.Reading.NodeOverlays {
		list = append(list, watched{&v1alpha1.NodeOverlay{}, func(before, now any) {
			was, _ := before.(*v1alpha1.NodeOverlay)
			if is, ok := now.(*v1alpha1.NodeOverlay); ok && (was == nil || was.Generation != is.Generation) {
				l.wakes.call(true) // prices have changed (P96)
			}
		}})
	}
	for _, w := range list {
		informer, err := informers.GetInformer(ctx, w.of)
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
				AddFunc:    func(obj any) { w.changed(nil, obj) },
				UpdateFunc: w.changed,
				DeleteFunc: func(obj any) {
					if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
						obj = last.Obj
					}
					w.changed(nil, obj)
				},
			})
		}
		if err != nil {
			return fmt.Errorf("watching %T: %w", w.of, err)
		}
	}
	return nil
}

// claimChanged calls for a claim that is part of a move, or that may now become part of one.
func (l *Loop) claimChanged(before, claim *karpv1.NodeClaim) {
	_, goes := claim.Annotations[karpv1.MoveAnnotationKey]
	_, comes := claim.Annotations[karpv1.MovedFromAnnotationKey]
	if goes || comes {
		l.wakes.call(false)
	}
	now := claim.StatusConditions()
	for _, condition := range []string{karpv1.ConditionConsolidatable, karpv1.ConditionDrifted} {
		if now.IsTrue(condition) && (before == nil || !before.StatusConditions().IsTrue(condition)) {
			l.wakes.call(true)
		}
	}
}
