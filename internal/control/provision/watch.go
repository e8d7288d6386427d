package provision

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
	"karpenter/internal/control"
)

// watch has events trigger passes: of unschedulable pods (P1) and of nodes that pods have to leave (P2); and, so that nobody
// waits for the next look, of pools that become usable, of overlays, and of claims that go away with the promise they were.
func (p *Provisioner) watch(ctx context.Context, informers cache.Informers) error {
	type watched struct {
		of      client.Object
		handler toolscache.ResourceEventHandler
	}
	list := []watched{
		{&corev1.Pod{}, handler(p.podChanged, p.podGone)},
		{&appsv1.ReplicaSet{}, handler(func(_, set *appsv1.ReplicaSet) { p.rollouts.wants(set, p.Clock.Now()) }, p.rollouts.gone)},
		{&corev1.Node{}, handler(p.nodeChanged, func(*corev1.Node) {})},
		{&karpv1.NodePool{}, handler(p.poolChanged, func(*karpv1.NodePool) {})},
		{&karpv1.NodeClaim{}, handler(p.claimChanged, func(c *karpv1.NodeClaim) { p.Batch.Trigger(c.UID) })},
	}
	if p.Reading.NodeOverlays {
		list = append(list, watched{&v1alpha1.NodeOverlay{}, handler(p.overlayChanged, func(o *v1alpha1.NodeOverlay) { p.Batch.Trigger(o.UID) })})
	}
	var handlers []toolscache.ResourceEventHandlerRegistration
	for _, w := range list {
		informer, err := informers.GetInformer(ctx, w.of)
		if err != nil {
			return fmt.Errorf("watching %T: %w", w.of, err)
		}
		registration, err := informer.AddEventHandler(w.handler)
		if err != nil {
			return fmt.Errorf("watching %T: %w", w.of, err)
		}
		handlers = append(handlers, registration)
	}
	p.handlers.Store(&handlers)
	return nil
}

// handler calls changed for objects that are new (before is nil) or changed, and gone for those that are gone.
func handler[T client.Object](changed func(before, after T), gone func(T)) toolscache.ResourceEventHandler {
	var none T
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if after, ok := obj.(T); ok {
				changed(none, after)
			}
		},
		UpdateFunc: func(old, obj any) {
			before, _ := old.(T)
			if after, ok := obj.(T); ok {
				changed(before, after)
			}
		},
		DeleteFunc: func(obj any) {
			if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if before, ok := obj.(T); ok {
				gone(before)
			}
		},
	}
}

func (p *Provisioner) podGone(pod *corev1.Pod) {
	p.track.forget(pod.UID)
	p.rollouts.forget(pod, p.Clock.Now())
}

func (p *Provisioner) podChanged(before, pod *corev1.Pod) {
	now := p.Clock.Now()
	p.rollouts.see(pod, now)
	if before != nil && before.Spec.NodeName == "" && pod.Spec.NodeName != "" && !control.OfNode(pod) {
		p.Creator.pins.bind(now)
		if p.spare.Load() {
			p.Batch.Remind(refill)
		}
	}
	switch waits := p.track.see(pod, now); {
	case waits && before != nil && before.UID == pod.UID && unplaced(before):
		nominated := pod.Status.NominatedNodeName != "" && pod.Status.NominatedNodeName != before.Status.NominatedNodeName
		if !nominated && before.ResourceVersion != pod.ResourceVersion { // almost nobody but the scheduler writes to pods that wait
			p.Creator.pins.refuse(pod.UID, now)
		}
		if p.Nominator != nil && before.Status.NominatedNodeName != "" && pod.Status.NominatedNodeName == "" {
			p.Nominator.Dropped(pod, before.Status.NominatedNodeName)
		}
		p.Batch.Remind(pod.UID)
	case waits, p.rollouts.shares(pod):
		p.Batch.Trigger(pod.UID)
	}
}

func (p *Provisioner) nodeChanged(before, node *corev1.Node) {
	if disrupted(node) && (before == nil || !disrupted(before)) {
		p.Batch.Trigger(node.UID)
	}
}

func disrupted(node *corev1.Node) bool {
	for _, t := range node.Spec.Taints {
		if t.Key == karpv1.DisruptedTaintKey {
			return true
		}
	}
	return false
}

func (p *Provisioner) poolChanged(before, pool *karpv1.NodePool) {
	ready := func(pool *karpv1.NodePool) bool { return pool.StatusConditions().IsTrue(karpv1.ConditionReady) }
	if before == nil || before.Generation != pool.Generation || ready(before) != ready(pool) {
		p.Batch.Trigger(pool.UID)
	}
}

// overlayChanged triggers for an overlay that may make pods schedulable.
func (p *Provisioner) overlayChanged(before, overlay *v1alpha1.NodeOverlay) {
	if before == nil || before.Generation != overlay.Generation {
		p.Batch.Trigger(overlay.UID)
	}
}

// claimChanged triggers for a claim that is on its way out: its pods, if it has any, want another place.
func (p *Provisioner) claimChanged(before, claim *karpv1.NodeClaim) {
	if claim.DeletionTimestamp != nil && (before == nil || before.DeletionTimestamp == nil) {
		p.Batch.Trigger(claim.UID)
	}
}

// started is the trigger of the first pass, refill that of one that looks whether a pod has taken the room of spare ones.
const (
	started types.UID = "started"
	refill  types.UID = "refill"
)
