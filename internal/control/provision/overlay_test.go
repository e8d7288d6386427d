package provision

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/world"
)

func TestP96_ClaimsOfOverlaidTypesSaySo(t *testing.T) {
	for _, c := range []struct {
		name            string
		change          func(*world.InstanceType)
		price, capacity string
	}{
		{"nothing", func(*world.InstanceType) {}, "", ""},
		{"price", func(t *world.InstanceType) { t.Offerings[0].PricedBy = "discount" }, "true", ""},
		{"capacity", func(t *world.InstanceType) { t.Added = []world.Added{{Resource: world.CPU, Overlay: "fuse"}} }, "", "true"},
	} {
		typ := &world.InstanceType{Name: "m5.large", Offerings: []world.Offering{{Zone: "a", CapacityType: "spot", Price: 1, Available: true}}}
		c.change(typ)
		pool := newPool("general")
		node := &pack.NewNode{Pool: &world.Pool{Name: "general"}, Choices: []pack.Choice{{Type: typ, Offering: &typ.Offerings[0]}}}
		claim := newClaim(pool, node, []string{string(corev1.ResourceCPU)})
		if p, r := claim.Annotations[karpv1.PriceOverlayAppliedAnnotationKey], claim.Annotations[karpv1.CapacityOverlayAppliedAnnotationKey]; p != c.price || r != c.capacity {
			t.Errorf("%s: price %q, capacity %q, want %q and %q", c.name, p, r, c.price, c.capacity)
		}
	}
}
