package control

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"karpenter/internal/wait"
)

// The back-off of an object whose reconcile failed.
const (
	firstBackOff = 200 * time.Millisecond
	lastBackOff  = time.Minute
)

// Workers are the options of a controller with so many of them. It waits in the time of the injected clock.
func Workers(n int, clock Clock) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: n,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstBackOff, lastBackOff),
		NewQueue: func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return wait.NewQueue(name, clock, limiter)
		},
	}
}
