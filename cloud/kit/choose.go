package kit

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
)

// fewChoices is below how many types a launch that could not have spot is likely to end up without on-demand capacity too, when
// everybody who lost spot asks for the same.
const fewChoices = 5

// MaxChoices is how many instance types one launch offers to the cloud: more make the request large and the choice no better.
const MaxChoices = 60

// Option is one way to launch an instance.
type Option struct {
	Type     *world.InstanceType
	Offering *world.Offering
}

// Label is a label that a node from the option will carry.
func (o Option) Label(key string) (string, bool) {
	switch key {
	case corev1.LabelTopologyZone:
		return o.Offering.Zone, true
	case karpv1.CapacityTypeLabelKey:
		return o.Offering.CapacityType, true
	}
	if v, ok := o.Offering.Labels.Get(key); ok {
		return v, true
	}
	return o.Type.Labels.Get(key)
}

// Choice is what one launch offers to the cloud: options of one capacity type, cheapest type first.
type Choice struct {
	CapacityType string
	Options      []Option
}

// Rules are what only the provider knows about a choice; each may be nil.
type Rules struct {
	// Reserved keeps, of reserved offerings, those that one request may name.
	Reserved func([]Option) []Option
	// Exotic says of a type that it costs more than its price says, in boot time or in scarcity: it is chosen only where no other is.
	Exotic func(*world.InstanceType) bool
}

// Choose narrows what the class can launch to what one launch asks for. An error says why nothing is left.
func Choose(list []*world.InstanceType, w *Wish, rules Rules) (Choice, error) {
	options, err := suitable(list, w)
	if err != nil {
		return Choice{}, err
	}
	if rules.Reserved != nil {
		options = rules.Reserved(options)
	}
	options = onePerReservedPool(options)
	if !w.Flexible {
		if rules.Exotic != nil {
			options = ordinary(options, rules.Exotic)
		}
		options = worthwhile(options)
	}
	capacityType := bestCapacityType(options)
	options = slices.DeleteFunc(options, func(o Option) bool { return o.Offering.CapacityType != capacityType })
	options = cheapestTypes(options, w)
	if err := enoughValues(options, w); err != nil {
		return Choice{}, err
	}
	return Choice{capacityType, options}, nil
}

// suitable keeps available offerings that satisfy the wish and have room for it.
func suitable(list []*world.InstanceType, w *Wish) ([]Option, error) {
	var out []Option
	admitted, roomy := false, false
	for _, t := range list {
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if !w.Admits(t, o) {
				continue
			}
			admitted = true
			if !w.Fits(t, o) {
				continue
			}
			roomy = true
			if o.Launchable() {
				out = append(out, Option{t, o})
			}
		}
	}
	switch {
	case len(out) > 0:
		return out, nil
	case w.Unknown != "":
		return nil, fmt.Errorf("no instance type has the resource %s", w.Unknown)
	case !admitted:
		return nil, fmt.Errorf("no instance type is sold that satisfies %s; correct the requirements", w.Need)
	case !roomy:
		return nil, fmt.Errorf("no instance type that satisfies %s is large enough", w.Need)
	}
	return nil, fmt.Errorf("every offering that satisfies %s is out of stock, or is of a kind that the class has no image for", w.Need)
}

// onePerReservedPool keeps, of several reservations of a type in a zone, the one with the most left.
func onePerReservedPool(options []Option) []Option {
	type key struct{ typ, zone string }
	best := map[key]*world.Offering{}
	for _, o := range options {
		k := key{o.Type.Name, o.Offering.Zone}
		if b := best[k]; o.Offering.CapacityType == karpv1.CapacityTypeReserved && (b == nil || o.Offering.Remaining > b.Remaining) {
			best[k] = o.Offering
		}
	}
	return slices.DeleteFunc(options, func(o Option) bool {
		return o.Offering.CapacityType == karpv1.CapacityTypeReserved && best[key{o.Type.Name, o.Offering.Zone}] != o.Offering
	})
}

// ordinary leaves out exotic types where others remain.
func ordinary(options []Option, exotic func(*world.InstanceType) bool) []Option {
	kept := make([]Option, 0, len(options))
	for _, o := range options {
		if !exotic(o.Type) {
			kept = append(kept, o)
		}
	}
	if len(kept) == 0 {
		return options
	}
	return kept
}

// worthwhile leaves out spot offerings dearer than the cheapest on-demand one.
func worthwhile(options []Option) []Option {
	limit := math.Inf(1)
	for _, o := range options {
		if o.Offering.CapacityType == karpv1.CapacityTypeOnDemand {
			limit = min(limit, o.Offering.Price)
		}
	}
	return slices.DeleteFunc(options, func(o Option) bool {
		return o.Offering.CapacityType == karpv1.CapacityTypeSpot && o.Offering.Price > limit
	})
}

// bestCapacityType is reserved if any is left, then spot, then on-demand.
func bestCapacityType(options []Option) string {
	for _, capacityType := range []string{karpv1.CapacityTypeReserved, karpv1.CapacityTypeSpot} {
		if slices.ContainsFunc(options, func(o Option) bool { return o.Offering.CapacityType == capacityType }) {
			return capacityType
		}
	}
	return karpv1.CapacityTypeOnDemand
}

// cheapestTypes keeps the MaxChoices types with the cheapest offerings, in order of price and, at the same price, of the zones that
// the claim prefers.
func cheapestTypes(options []Option, w *Wish) []Option {
	lowest := map[*world.InstanceType]float64{}
	for _, o := range options {
		if price, ok := lowest[o.Type]; !ok || o.Offering.Price < price {
			lowest[o.Type] = o.Offering.Price
		}
	}
	slices.SortStableFunc(options, func(a, b Option) int {
		return cmp.Or(cmp.Compare(lowest[a.Type], lowest[b.Type]), strings.Compare(a.Type.Name, b.Type.Name), cmp.Compare(a.Offering.Price, b.Offering.Price), cmp.Compare(w.ZoneRank(a.Offering.Zone), w.ZoneRank(b.Offering.Zone)),
			strings.Compare(a.Offering.Zone, b.Offering.Zone))
	})
	types := 0
	for i, o := range options {
		if i == 0 || o.Type != options[i-1].Type {
			types++
		}
		if types > MaxChoices {
			return options[:i]
		}
	}
	return options
}

// enoughValues holds the options against minValues, unless the claim was allowed fewer.
func enoughValues(options []Option, w *Wish) error {
	if w.Relaxed {
		return nil
	}
	for _, r := range w.Need {
		if r.MinValues == 0 {
			continue
		}
		seen := map[string]bool{}
		for _, o := range options {
			if v, ok := o.Label(r.Key); ok {
				seen[v] = true
			}
		}
		if len(seen) < r.MinValues {
			return fmt.Errorf("%s: only %d values are left", r, len(seen))
		}
	}
	return nil
}

// Advice says what to change about a pool that allows spot, gets on-demand, and leaves little choice of that.
func Advice(c Choice, w *Wish) string {
	r, asked := w.Need.Get(karpv1.CapacityTypeLabelKey)
	spot := !asked || r.Admits(karpv1.CapacityTypeSpot, true)
	types := map[string]bool{}
	for _, o := range c.Options {
		types[o.Type.Name] = true
	}
	if c.CapacityType != karpv1.CapacityTypeOnDemand || !spot || len(types) >= fewChoices {
		return ""
	}
	return fmt.Sprintf("spot was allowed and could not be had, and only %d instance types are left for on-demand; allow at least %d", len(types), fewChoices)
}
