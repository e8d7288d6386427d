package toworld

import (
	"maps"
	"slices"

	"karpenter/api/karpenter/v1alpha1"
	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// NodeOverlay converts an overlay, or says which of its fields cannot be used (A45, A47).
func (b *Converter) NodeOverlay(o *v1alpha1.NodeOverlay) (*world.NodeOverlay, error) {
	if problems := o.Validate(b.Rules); len(problems) > 0 {
		return nil, problems.ToAggregate()
	}
	w := &world.NodeOverlay{Name: o.Name}
	if o.Spec.Weight != nil {
		w.Weight = *o.Spec.Weight
	}
	for _, r := range o.Spec.Requirements {
		x, err := req.New(b.Rules.Normalize(r.Key), req.Operator(r.Operator), r.Values...)
		if err != nil {
			return nil, err
		}
		w.Need = w.Need.With(x)
	}
	switch {
	case o.Spec.Price != nil:
		amount, err := v1alpha1.ParsePrice(*o.Spec.Price)
		if err != nil {
			return nil, err
		}
		w.Price = &world.PriceChange{Amount: amount, Absolute: true}
	case o.Spec.PriceAdjustment != nil:
		amount, percent, err := v1alpha1.ParseAdjustment(*o.Spec.PriceAdjustment)
		if err != nil {
			return nil, err
		}
		w.Price = &world.PriceChange{Amount: amount, Percent: percent}
	}
	for _, name := range slices.Sorted(maps.Keys(o.Spec.Capacity)) {
		w.Capacity = append(w.Capacity, world.Amount{Resource: string(name), N: Units(string(name), o.Spec.Capacity[name])})
	}
	return w, nil
}
