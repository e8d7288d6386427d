package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/simaws/catalog"
)

// poolPatience is how long the controller may take to say that a pool is ready.
const poolPatience = time.Minute

// usePool replaces the default pool by the one that the workloads are for.
func (s *site) usePool(ctx context.Context, consolidateAfter time.Duration) error {
	pool := &karpv1.NodePool{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: "default"}, pool); err != nil {
		return fmt.Errorf("reading the default pool: %w", err)
	}
	old := pool.DeepCopy()
	is := func(key string, op corev1.NodeSelectorOperator, values ...string) karpv1.NodeSelectorRequirementWithMinValues {
		return karpv1.NodeSelectorRequirementWithMinValues{Key: key, Operator: op, Values: values}
	}
	pool.ObjectMeta = metav1.ObjectMeta{Name: "live"}
	pool.Status = karpv1.NodePoolStatus{}
	pool.Spec.Limits = nil
	pool.Spec.Template.Spec.ExpireAfter = karpv1.NeverDuration()
	pool.Spec.Template.Spec.Requirements = []karpv1.NodeSelectorRequirementWithMinValues{
		is(corev1.LabelArchStable, corev1.NodeSelectorOpIn, "amd64", "arm64"),
		is(corev1.LabelOSStable, corev1.NodeSelectorOpIn, "linux"),
		is(karpv1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, karpv1.CapacityTypeOnDemand),
		is(awsv1.LabelInstanceCategory, corev1.NodeSelectorOpIn, "c", "m", "r"),
		is(awsv1.LabelInstanceGeneration, corev1.NodeSelectorOpGt, "4"),
		is(awsv1.LabelInstanceCPU, corev1.NodeSelectorOpLt, "32"),
	}
	pool.Spec.Disruption = karpv1.Disruption{
		ConsolidationPolicy: karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized,
		ConsolidateAfter:    karpv1.NewNillableDuration(consolidateAfter),
		Budgets:             []karpv1.Budget{{Nodes: "100%"}},
	}
	if err := s.Client.Delete(ctx, old); err != nil {
		return fmt.Errorf("deleting the default pool: %w", err)
	}
	if err := s.Client.Create(ctx, pool); err != nil {
		return fmt.Errorf("creating the pool: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, poolPatience, fmt.Errorf("the pool is not ready after %v", poolPatience))
	defer cancel()
	return until(ctx, 200*time.Millisecond, func() (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKey{Name: pool.Name}, pool)
		return err == nil && pool.StatusConditions().IsTrue(karpv1.ConditionReady), err
	})
}

// onDemand is the price list of the simulated AWS.
func onDemand() (func(instanceType string) float64, error) {
	all, err := catalog.Load()
	if err != nil {
		return nil, err
	}
	table, err := all.Region(region)
	if err != nil {
		return nil, err
	}
	return func(instanceType string) float64 {
		offer, _ := table.Offer(instanceType)
		return offer.OnDemand
	}, nil
}
