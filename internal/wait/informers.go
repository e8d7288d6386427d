package wait

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

const (
	// askAgain is after how long an API server that is away is asked again, at least; at most after twice that.
	askAgain = 2 * time.Second
	// sayAfter is after how much waiting it is said that the API server is away. client-go, which says it, then waits itself; it begins
	// with less than two seconds if it has not waited for two minutes.
	sayAfter = 150 * time.Second
)

// Informers makes informers that notice within seconds that an API server is back. Those of client-go ask ever less often: after some minutes
// once in half a minute to a minute, and until then nothing is known of what has happened.
func Informers(c Clock) func(cache.ListerWatcher, runtime.Object, time.Duration, cache.Indexers) cache.SharedIndexInformer {
	return func(from cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers) cache.SharedIndexInformer {
		server := cache.ToListerWatcherWithContext(from)
		return cache.NewSharedIndexInformer(&cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				return untilBack(ctx, c, func() (runtime.Object, error) { return server.ListWithContext(ctx, options) })
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return untilBack(ctx, c, func() (watch.Interface, error) { return server.WatchWithContext(ctx, options) })
			},
		}, example, resync, indexers)
	}
}

// untilBack asks until the API server answers.
func untilBack[T any](ctx context.Context, c Clock, ask func() (T, error)) (T, error) {
	for waited := time.Duration(0); ; {
		answer, err := ask()
		if err == nil || !away(err) || waited >= sayAfter {
			return answer, err
		}
		pause := utilwait.Jitter(askAgain, 1)
		waited += pause
		if !For(ctx, c, pause) {
			return answer, err
		}
	}
}

// away tells that there was no answer, or one by who stands before the API server. What the API server itself says is for who has asked.
func away(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err)
}
