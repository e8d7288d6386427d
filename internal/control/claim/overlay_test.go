package claim

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/engine/world"
)

// overlaid is what overlays make of types, once they are known.
type overlaid struct {
	synced bool
	list   []*world.InstanceType
}

func (o *overlaid) Synced() bool { return o.synced }

func (o *overlaid) Overlaid(*karpv1.NodeClaim) ([]string, []*world.InstanceType, bool) {
	return []string{"cpu"}, o.list, true
}

func (o *overlaid) Extended(_ *karpv1.NodeClaim, typ string, capacity, allocatable corev1.ResourceList) (_, _ corev1.ResourceList) {
	capacity = capacity.DeepCopy()
	capacity[corev1.ResourceName("example.com/"+typ)] = resource.MustParse("2")
	return capacity, capacity
}

// sized gives the instances of a stub a size.
type sized struct{ *stub }

func (s sized) Launch(ctx context.Context, batch cloud.Batch) []cloud.Result {
	results := s.stub.Launch(ctx, batch)
	for i := range results {
		results[i].Instance.Capacity = corev1.ResourceList{"cpu": resource.MustParse("2")}
		results[i].Instance.Allocatable = results[i].Instance.Capacity
	}
	return results
}

func TestP96_A45_OverlaysCountAtLaunch(t *testing.T) {
	b := newBench(t)
	stub := newStub()
	r := b.lifecycle(sized{stub})
	overlays := &overlaid{list: []*world.InstanceType{{Name: "m5.large"}}}
	r.Overlays = overlays
	b.claim("overlaid")
	b.run(r, "overlaid")
	if stub.calls() != 0 {
		t.Fatal("launched although the overlays are not known yet: what the claim is for may be what only they tell")
	}
	overlays.synced = true
	b.run(r, "overlaid")
	if len(stub.batches) != 1 || stub.batches[0].Types == nil || stub.batches[0].Types.List[0] != overlays.list[0] {
		t.Fatalf("launched with %+v", stub.batches)
	}
	claim := b.get("overlaid")
	if q := claim.Status.Capacity["example.com/m5.large"]; q.Value() != 2 {
		t.Errorf("capacity %v", claim.Status.Capacity)
	}
	if q := claim.Status.Allocatable["example.com/m5.large"]; q.Value() != 2 {
		t.Errorf("allocatable %v", claim.Status.Allocatable)
	}
}
