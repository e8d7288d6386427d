package control

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Bell has a controller look at an object of its own although no object has changed. Until the controller runs it rings for nobody.
type Bell struct {
	queue atomic.Pointer[workqueue.TypedRateLimitingInterface[reconcile.Request]]
}

// Source is what the controller has to watch.
func (b *Bell) Source() source.Source {
	return source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		b.queue.Store(&queue)
		return nil
	})
}

// Ring has the object of that name, which is in no namespace, looked at. It never blocks.
func (b *Bell) Ring(name string) { b.RingIn("", name) }

// RingIn is Ring for an object in a namespace.
func (b *Bell) RingIn(namespace, name string) {
	if queue := b.queue.Load(); queue != nil {
		(*queue).Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}})
	}
}
