package kit

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// Wish is what a claim asks of an instance, in the engine's terms.
type Wish struct {
	Need     req.Set
	Requests world.Resources
	// Unknown is a requested resource that no instance type has.
	Unknown string
	// Flexible means that the claim counts values (minValues), so that choices must not be narrowed.
	Flexible bool
	// Zones lists those that the claim names, the preferred one first: it decides between offerings at the same price.
	Zones []string
	// Overlaid and Relaxed say that prices were overlaid, and minValues relaxed, when the claim was planned.
	Overlaid, Relaxed bool
	// Decided are labels of the node that the launch decides, whatever the offering.
	Decided map[string]string
}

// NewWish reads a claim. rules tell which labels the provider judges, resources the names of what instances have, in the engine's order.
func NewWish(claim *karpv1.NodeClaim, judges func(key string) (normalized string, judged bool), resources []string) (Wish, error) {
	w := Wish{
		Overlaid: claim.Annotations[karpv1.PriceOverlayAppliedAnnotationKey] == "true",
		Relaxed:  claim.Annotations[karpv1.MinValuesRelaxedAnnotationKey] == "true",
	}
	for _, r := range claim.Spec.Requirements {
		key, judged := judges(r.Key)
		if !judged {
			continue
		}
		one, err := req.New(key, req.Operator(r.Operator), r.Values...)
		if err != nil {
			return Wish{}, fmt.Errorf("claim %s: spec.requirements: %w", claim.Name, err)
		}
		if r.MinValues != nil {
			one.MinValues = *r.MinValues
			w.Flexible = true
		}
		w.Need = w.Need.With(one)
		if key == corev1.LabelTopologyZone && r.Operator == corev1.NodeSelectorOpIn {
			w.Zones = r.Values
		}
	}
	for name, quantity := range claim.Spec.Resources.Requests {
		if quantity.Sign() <= 0 {
			continue
		}
		i := slices.Index(resources, string(name))
		if i < 0 {
			w.Unknown = max(w.Unknown, string(name))
			continue
		}
		v := quantity.Value()
		if i == world.CPU {
			v = quantity.MilliValue()
		}
		w.Requests = w.Requests.Set(i, v)
	}
	return w, nil
}

// Admits says whether a node from this offering would satisfy the wish.
func (w *Wish) Admits(t *world.InstanceType, o *world.Offering) bool {
	return w.Need.Admits(func(key string) (string, bool) {
		if v, ok := w.Decided[key]; ok {
			return v, true
		}
		return Option{t, o}.Label(key)
	})
}

// ZoneRank is the place of a zone among those that the claim names.
func (w *Wish) ZoneRank(zone string) int {
	if i := slices.Index(w.Zones, zone); i >= 0 {
		return i
	}
	return len(w.Zones)
}

// Fits says whether the requests fit on a node from this offering.
func (w *Wish) Fits(t *world.InstanceType, o *world.Offering) bool {
	room := t.Allocatable
	if o.Allocatable != nil {
		room = o.Allocatable
	}
	return w.Unknown == "" && w.Requests.Fits(room)
}
