package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/local"
)

const (
	barStatic = "static"
	// staticNodes is the size of the static pool, and staticSeconds how long it may take to get there, and back to nothing.
	staticNodes   = 500
	staticSeconds = 60.0
	staticPatient = 10 * time.Minute
)

// static measures a static pool from nothing to its size, until every node is Ready and initialized, and back, until no claim is left.
func (b *bench) static(ctx context.Context) error {
	s, err := b.launch(ctx, local.Options{BootTime: workloadBoot})
	if err != nil {
		return err
	}
	defer s.close()
	pool := &karpv1.NodePool{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: "default"}, pool); err != nil {
		return fmt.Errorf("reading the default pool: %w", err)
	}
	n := b.sized(staticNodes)
	pool.ObjectMeta, pool.Status = metav1.ObjectMeta{Name: "static"}, karpv1.NodePoolStatus{}
	pool.Spec.Weight, pool.Spec.Replicas = nil, new(int64(0))
	pool.Spec.Limits = karpv1.Limits{karpv1.LimitsNodes: *resource.NewQuantity(int64(n), resource.DecimalSI)}
	if err := s.Client.Create(ctx, pool); err != nil {
		return fmt.Errorf("creating the pool: %w", err)
	}
	if err := until(ctx, 200*time.Millisecond, func() (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKey{Name: pool.Name}, pool)
		return err == nil && pool.StatusConditions().IsTrue(karpv1.ConditionReady), err
	}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, staticPatient, fmt.Errorf("not done after %v", staticPatient))
	defer cancel()
	took, err := s.scaleTo(ctx, pool.Name, n)
	if err != nil {
		return err
	}
	b.say(figure{barStatic, "s", took.Seconds(), staticSeconds}, "a static pool from 0 to %d nodes, until all are initialized", n)
	if took, err = s.scaleTo(ctx, pool.Name, 0); err != nil {
		return err
	}
	b.say(figure{barStatic, "s", took.Seconds(), staticSeconds}, "back to 0, until no claim is left")
	return nil
}

// scaleTo has a static pool have so many nodes, and says how long that took. There are never more claims than that, or than there were.
func (s *site) scaleTo(ctx context.Context, pool string, n int) (time.Duration, error) {
	began := time.Now()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n))
	if err := s.Client.Patch(ctx, &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: pool}}, patch); err != nil {
		return 0, fmt.Errorf("scaling pool %s: %w", pool, err)
	}
	most, first := 0, -1
	err := until(ctx, 500*time.Millisecond, func() (bool, error) {
		var claims karpv1.NodeClaimList
		if err := s.Client.List(ctx, &claims, client.MatchingLabels{karpv1.NodePoolLabelKey: pool}); err != nil {
			return false, err
		}
		if first < 0 {
			first = len(claims.Items)
		}
		most = max(most, len(claims.Items))
		up := 0
		for i := range claims.Items {
			if c := &claims.Items[i]; c.DeletionTimestamp == nil && c.StatusConditions().IsTrue(karpv1.ConditionInitialized) {
				up++
			}
		}
		if up != n || len(claims.Items) != n {
			return false, nil
		}
		var nodes corev1.NodeList
		err := s.Client.List(ctx, &nodes, client.MatchingLabels{karpv1.NodePoolLabelKey: pool})
		return len(nodes.Items) == n, err
	})
	if err == nil && most > max(n, first) {
		err = fmt.Errorf("there were %d claims on the way to %d nodes", most, n)
	}
	return time.Since(began), err
}
