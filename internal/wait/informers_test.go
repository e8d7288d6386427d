package wait_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"karpenter/internal/wait"
)

// TestT13_InformersNoticeThatTheAPIServerIsBack: however long the API server was away, what it holds is known six seconds after its return,
// and it was not asked more than once in two seconds for it.
func TestT13_InformersNoticeThatTheAPIServerIsBack(t *testing.T) {
	for name, err := range map[string]error{
		"refuses connections": errors.New("dial tcp: connect: connection refused"),
		"is not ready":        apierrors.NewServiceUnavailable("not ready"),
	} {
		t.Run(name, func(t *testing.T) {
			for _, d := range []time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, 3 * time.Hour} {
				synctest.Test(t, func(t *testing.T) {
					ctx, stop := context.WithCancel(t.Context())
					var asked atomic.Int64
					back := time.Now().Add(d)
					informer := wait.Informers(clock.RealClock{})(&cache.ListWatch{
						ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
							asked.Add(1)
							if time.Now().Before(back) {
								return nil, err
							}
							return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}}, nil
						},
						WatchFuncWithContext: func(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
							if options.SendInitialEvents != nil {
								return nil, apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "", nil) // it does not know this, so that a list is asked for
							}
							return watch.NewFake(), nil
						},
					}, &corev1.Pod{}, 0, cache.Indexers{})
					// The one by default writes to the log, at a pace that it keeps in a time of another test.
					if err := informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {}); err != nil {
						t.Fatal(err)
					}
					done := make(chan struct{})
					go func() {
						defer close(done)
						informer.RunWithContext(ctx)
					}()
					time.Sleep(d + 6*time.Second)
					synctest.Wait()
					if n := len(informer.GetStore().List()); n != 1 {
						t.Errorf("away for %v: six seconds after its return %d objects are known", d, n)
					}
					if n := asked.Load(); n > int64(d/(2*time.Second))+2 {
						t.Errorf("away for %v: asked %d times", d, n)
					}
					stop()
					<-done
				})
			}
		})
	}
}

// TestT13_WhatTheAPIServerSaysIsHeard: that a right is missing is not waited for.
func TestT13_WhatTheAPIServerSaysIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		refused := apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no right"))
		heard := make(chan error, 1)
		informer := wait.Informers(clock.RealClock{})(&cache.ListWatch{
			ListWithContextFunc:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, refused },
			WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, refused },
		}, &corev1.Pod{}, 0, cache.Indexers{})
		if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			heard <- err
			stop()
		}); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		informer.RunWithContext(ctx)
		if err := <-heard; !errors.Is(err, refused) || time.Since(began) > time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
