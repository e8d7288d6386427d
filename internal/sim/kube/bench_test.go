package kube

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/state/trim"
)

// BenchmarkClaim is what a simulated hour is made of: a claim is read and written. 20 µs is the most that either may cost.
func BenchmarkClaim(b *testing.B) {
	ctx := context.Background()
	for name, opts := range map[string][]Option{"validated": nil, "lenient": {WithoutValidation()}} {
		s := NewServer(scheme(), func() time.Time { return begin }, opts...)
		c := s.Client("bench")
		x := claim("a")
		must(b, c.Create(ctx, x))
		key := client.ObjectKeyFromObject(x)
		b.Run(name+"/get", func(b *testing.B) {
			into := &karpv1.NodeClaim{}
			for b.Loop() {
				must(b, c.Get(ctx, key, into))
			}
		})
		b.Run(name+"/raw patch of an annotation", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				must(b, c.Patch(ctx, x, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{"a":"%d"}}}`, i))))
			}
		})
		b.Run(name+"/patch of the status", func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				before := x.DeepCopy()
				x.Status.ImageID = fmt.Sprintf("ami-%d", i)
				must(b, c.Status().Patch(ctx, x, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))
			}
		})
		b.Run(name+"/diff alone", func(b *testing.B) { // what the client does before it asks
			for i := 0; b.Loop(); i++ {
				before := x.DeepCopy()
				x.Status.ImageID = fmt.Sprintf("ami-%d", i)
				_, err := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}).Data(x)
				must(b, err)
			}
		})
		b.Run(name+"/create and delete", func(b *testing.B) {
			for b.Loop() {
				y := claim("b")
				y.Finalizers = nil
				must(b, c.Create(ctx, y))
				must(b, c.Delete(ctx, y))
			}
		})
	}
}

// BenchmarkPods is a pod's way through server and cache: created, bound, listed by node, deleted; 2,000 others are there.
func BenchmarkPods(b *testing.B) {
	ctx := context.Background()
	s := NewServer(scheme(), func() time.Time { return begin })
	c := s.Client("bench")
	replica, err := NewCache(s, cache.Options{DefaultTransform: trim.Object})
	must(b, err)
	must(b, replica.IndexField(ctx, &corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }))
	must(b, replica.Start(ctx))
	pod := func(i int) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%d", i), Labels: map[string]string{"app": "x"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
	}
	add := func(i int) {
		must(b, c.Create(ctx, pod(i)))
		must(b, c.SubResource("binding").Create(ctx, pod(i), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i)}, Target: corev1.ObjectReference{Name: fmt.Sprintf("n%d", i%200)}}))
		replica.DeliverAll()
	}
	for i := range 2000 {
		add(i)
	}
	b.Run("life", func(b *testing.B) {
		for b.Loop() {
			add(5000)
			must(b, c.Delete(ctx, pod(5000), client.GracePeriodSeconds(0)))
			replica.DeliverAll()
		}
	})
	b.Run("list of a node from the cache", func(b *testing.B) {
		for b.Loop() {
			must(b, replica.List(ctx, &corev1.PodList{}, client.MatchingFields{"spec.nodeName": "n7"}, client.UnsafeDisableDeepCopy))
		}
	})
	b.Run("list of a node from the server", func(b *testing.B) {
		for b.Loop() {
			must(b, c.List(ctx, &corev1.PodList{}, client.MatchingFields{"spec.nodeName": "n7"}))
		}
	})
}
