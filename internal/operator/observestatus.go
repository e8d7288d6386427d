package operator

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
	"karpenter/internal/control"
	"karpenter/internal/meter"
)

// eventFinalized says that the last finalizer of ours is gone from an object (O52).
const eventFinalized = "Finalized"

// trackedKind is a kind whose conditions are shown.
type trackedKind struct {
	tracked    meter.Tracked
	object     client.Object
	finalizer  string
	conditions func(client.Object) []meter.Condition
}

// trackedKinds are the kinds whose conditions are shown; buffers says whether there are CapacityBuffers.
func (w *wiring) trackedKinds(buffers bool) []trackedKind {
	class := w.options.Kind
	ours := func(list []karpv1.Condition) []meter.Condition {
		found := make([]meter.Condition, 0, len(list))
		for _, c := range list {
			found = append(found, meter.Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Since: c.LastTransitionTime.Time})
		}
		return found
	}
	kinds := []trackedKind{
		{meter.NodeClaim, &karpv1.NodeClaim{}, karpv1.TerminationFinalizer, func(o client.Object) []meter.Condition { return ours(o.(*karpv1.NodeClaim).Status.Conditions) }},
		{meter.NodePool, &karpv1.NodePool{}, karpv1.TerminationFinalizer, func(o client.Object) []meter.Condition { return ours(o.(*karpv1.NodePool).Status.Conditions) }},
		{w.options.Meter.Class(), class.New(), class.Finalizer, func(o client.Object) []meter.Condition { return ours(class.Conditions(o)) }},
		{meter.Node, &corev1.Node{}, karpv1.TerminationFinalizer, func(o client.Object) []meter.Condition {
			var found []meter.Condition
			for _, c := range o.(*corev1.Node).Status.Conditions {
				found = append(found, meter.Condition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Since: c.LastTransitionTime.Time})
			}
			return found
		}},
	}
	if w.options.Gates.NodeOverlay {
		kinds = append(kinds, trackedKind{meter.NodeOverlay, &v1alpha1.NodeOverlay{}, karpv1.TerminationFinalizer, func(o client.Object) []meter.Condition {
			return ours(o.(*v1alpha1.NodeOverlay).Status.Conditions)
		}})
	}
	if buffers {
		kinds = append(kinds, trackedKind{meter.Buffer, &bufferv1.CapacityBuffer{}, "", func(o client.Object) []meter.Condition {
			return ours(o.(*bufferv1.CapacityBuffer).Status.Conditions)
		}})
	}
	return kinds
}

// statusWatch turns changes of one kind's conditions into metrics and events (O45, O52).
type statusWatch struct {
	conditions *meter.Conditions
	recorder   *control.Recorder
	kind       trackedKind
}

func (s *statusWatch) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { s.see(nil, obj) },
		UpdateFunc: func(old, obj any) {
			before, _ := old.(client.Object)
			s.see(before, obj)
		},
		DeleteFunc: func(obj any) {
			if o, ok := lastKnown(obj).(client.Object); ok {
				s.conditions.Gone(s.kind.tracked, o.GetNamespace(), o.GetName())
			}
		},
	}
}

func (s *statusWatch) see(before client.Object, obj any) {
	o, ok := obj.(client.Object)
	if !ok || s.kind.tracked == meter.Node && o.GetLabels()[karpv1.NodePoolLabelKey] == "" {
		return // nodes that are not ours are none of our business
	}
	seen := meter.Object{
		Kind: s.kind.tracked, Namespace: o.GetNamespace(), Name: o.GetName(), Labels: o.GetLabels(), Conditions: s.kind.conditions(o),
	}
	if at := o.GetDeletionTimestamp(); at != nil {
		seen.Deleted = at.Time
	}
	for _, t := range s.conditions.See(seen) {
		message := fmt.Sprintf("%s is %s", t.Type, t.To)
		if t.From != "" {
			message += ", was " + t.From
		}
		if t.Reason != "" && t.Reason != t.Type {
			message += ": " + t.Reason
		}
		s.recorder.Tell(control.Event{Object: o, Reason: t.Type, Message: message})
	}
	if before != nil && has(before.GetFinalizers(), s.kind.finalizer) && !has(o.GetFinalizers(), s.kind.finalizer) {
		s.recorder.Tell(control.Event{Object: o, Reason: eventFinalized, Message: s.kind.finalizer + " is removed"})
	}
}

func has(list []string, wanted string) bool {
	for _, item := range list {
		if item == wanted {
			return true
		}
	}
	return false
}
