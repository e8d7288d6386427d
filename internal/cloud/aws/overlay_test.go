package aws

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// overlaidTypes are the types of a class with an overlay applied.
func (w *testWorld) overlaidTypes(o *world.NodeOverlay) *cloud.Types {
	w.t.Helper()
	own, err := w.Types("default")
	w.must(err)
	names := world.NewNames()
	for _, name := range own.Resources {
		names.Index(name)
	}
	lists, _ := world.NewOverlays([]*world.NodeOverlay{o}, names.Index).Apply([]*world.Pool{{Name: "general", Types: own.List}})
	return &cloud.Types{Resources: names.List(), List: lists[0]}
}

// TestP96_LaunchesGoByOverlaidPrices has EC2 asked for instances in the order of prices as overlays make them, and for those that only
// an overlay says have a resource.
func TestP96_LaunchesGoByOverlaidPrices(t *testing.T) {
	w := newWorld(t)
	w.load()
	discount := &world.NodeOverlay{Name: "discount", Need: req.NewSet(req.Is(corev1.LabelInstanceTypeStable, "m5.large")), Price: &world.PriceChange{Amount: -90, Percent: true}, Capacity: []world.Amount{{Resource: "example.com/fuse", N: 2}}}
	batch := w.batch("overlaid", 1, need(corev1.LabelInstanceTypeStable, "c5.large", "m5.large"), need(karpv1.CapacityTypeLabelKey, "on-demand"))
	batch.Claims[0].Annotations[karpv1.PriceOverlayAppliedAnnotationKey] = "true"
	plain, err := w.order(batch)
	w.must(err)
	if first := plain.choice.Options[0].Type.Name; first != "c5.large" {
		t.Fatalf("without overlays %s is cheapest", first)
	}
	batch.Types = w.overlaidTypes(discount)
	o, err := w.order(batch)
	w.must(err)
	if first := o.choice.Options[0]; first.Type.Name != "m5.large" || o.priority(first) != first.Offering.Price || first.Offering.Price >= first.Offering.ListPrice {
		t.Errorf("with a discount %s is first, priority %v", first.Type.Name, o.priority(first))
	}
	if strategy := w.request(o).OnDemandOptions.AllocationStrategy; strategy != types.FleetOnDemandAllocationStrategyPrioritized {
		t.Errorf("strategy %s", strategy)
	}

	batch = w.batch("fuse", 1, need(corev1.LabelInstanceTypeStable, "c5.large", "m5.large"))
	batch.Claims[0].Spec.Resources.Requests["example.com/fuse"] = resource.MustParse("1")
	if _, err := w.order(batch); cloud.ClassOf(err) != cloud.NoCapacity {
		t.Errorf("a resource that nothing has: %v", err)
	}
	batch.Types = w.overlaidTypes(discount)
	result := w.Launch(w.ctx, batch)[0]
	w.must(result.Err)
	if result.Instance.Type != "m5.large" {
		t.Errorf("launched %s", result.Instance.Type)
	}
	if slices.Contains(shapeResources, "example.com/fuse") {
		t.Error("the provider's own list has changed")
	}
}
