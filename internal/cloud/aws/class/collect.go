package class

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
)

// collectEvery is how often what launches leave behind is cleared away.
const collectEvery = 30 * time.Minute

// Leavings deletes what launches have left behind and nothing uses any more.
type Leavings interface {
	CollectTemplates(ctx context.Context) error
	CollectProfiles(ctx context.Context, class *awsv1.EC2NodeClass, keep map[string]bool) error
}

// Collect clears away launch templates and instance profiles that nothing uses.
type Collect struct {
	Client   client.Client
	Leavings Leavings
	Clock    control.Clock
	Log      *slog.Logger
}

// Loop is what the manager runs.
func (r *Collect) Loop(beat func(string)) *control.Loop {
	return &control.Loop{Name: "providers.garbagecollection", Clock: r.Clock, Log: r.Log, Do: r.Sweep, Beat: beat}
}

// Sweep clears away once. Profiles that a class has now or that a claim was launched with stay.
func (r *Collect) Sweep(ctx context.Context) (time.Duration, error) {
	classes, claims := &awsv1.EC2NodeClassList{}, &karpv1.NodeClaimList{}
	if err := r.Client.List(ctx, classes); err != nil {
		return 0, fmt.Errorf("listing classes: %w", err)
	}
	if err := r.Client.List(ctx, claims); err != nil {
		return 0, fmt.Errorf("listing claims: %w", err)
	}
	keep := map[string]bool{}
	for i := range classes.Items {
		keep[classes.Items[i].Status.InstanceProfile] = true
	}
	for i := range claims.Items {
		keep[claims.Items[i].Annotations[awsv1.InstanceProfileAnnotationKey]] = true
	}
	if err := r.Leavings.CollectProfiles(ctx, nil, keep); err != nil {
		return 0, fmt.Errorf("collecting instance profiles: %w", err)
	}
	if err := r.Leavings.CollectTemplates(ctx); err != nil {
		return 0, fmt.Errorf("collecting launch templates: %w", err)
	}
	return collectEvery, nil
}
