package disruption

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	karpv1 "karpenter/api/karpenter/v1"
)

const (
	// judges is how many claims are judged at once. A judgement may ask the cloud, which gathers questions that come together.
	judges = 20
	// soon is when a claim is looked at again that somebody else has changed meanwhile.
	soon = 250 * time.Millisecond
)

func same(a, b client.Object) bool { return equality.Semantic.DeepEqual(a, b) }

// ofPool makes a change of a pool a look at its claims.
func ofPool(c client.Reader) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		return claimsWith(ctx, c, func(claim *karpv1.NodeClaim) bool { return claim.Labels[karpv1.NodePoolLabelKey] == obj.GetName() })
	})
}

// ofClass makes a change of a class a look at its claims.
func ofClass(c client.Reader, class schema.GroupKind) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj client.Object) []reconcile.Request {
		return claimsWith(ctx, c, func(claim *karpv1.NodeClaim) bool {
			return claim.Spec.NodeClassRef.Is(class) && claim.Spec.NodeClassRef.Name == obj.GetName()
		})
	})
}

func claimsWith(ctx context.Context, c client.Reader, wanted func(*karpv1.NodeClaim) bool) []reconcile.Request {
	list := &karpv1.NodeClaimList{}
	if err := c.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache answers this; it cannot fail once it has synced
	}
	var out []reconcile.Request
	for i := range list.Items {
		if wanted(&list.Items[i]) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

// respecified lets objects through whose spec or annotations have changed, and those that are new.
func respecified() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
				!equality.Semantic.DeepEqual(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations())
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}
