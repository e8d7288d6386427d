package aws

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
)

// fewChoices is below how many types a launch that could not have spot is likely to end up without on-demand capacity too, when
// everybody who lost spot asks for the same.
const fewChoices = 5

// maxChoices is how many instance types one launch offers to EC2: more make the request large and the choice no better.
const maxChoices = 60

// option is one way to launch an instance.
type option struct {
	typ *world.InstanceType
	off *world.Offering
}

// choice is what one launch offers to EC2: options of one capacity type, cheapest type first.
type choice struct {
	market  string
	options []option
}

// choose narrows what the class can launch to what one launch asks for. An error says why nothing is left.
func choose(list []*world.InstanceType, w *wish) (choice, error) {
	options, err := suitable(list, w)
	if err != nil {
		return choice{}, err
	}
	options = oneReservationKind(options)
	options = onePerReservedPool(options)
	if !w.flexible {
		options = ordinary(options)
		options = worthwhile(options)
	}
	market := bestMarket(options)
	options = slices.DeleteFunc(options, func(o option) bool { return o.off.CapacityType != market })
	options = cheapestTypes(options, w)
	if err := enoughValues(options, w); err != nil {
		return choice{}, err
	}
	return choice{market, options}, nil
}

// suitable keeps available offerings that satisfy the wish and have room for it.
func suitable(list []*world.InstanceType, w *wish) ([]option, error) {
	var out []option
	admitted, roomy := false, false
	for _, t := range list {
		for i := range t.Offerings {
			o := &t.Offerings[i]
			if !w.admits(t, o) {
				continue
			}
			admitted = true
			if !w.fits(t, o) {
				continue
			}
			roomy = true
			if o.Available {
				out = append(out, option{t, o})
			}
		}
	}
	switch {
	case len(out) > 0:
		return out, nil
	case w.unknown != "":
		return nil, fmt.Errorf("no instance type has the resource %s", w.unknown)
	case !admitted:
		return nil, fmt.Errorf("no instance type is sold that satisfies %s; correct the requirements", w.need)
	case !roomy:
		return nil, fmt.Errorf("no instance type that satisfies %s is large enough", w.need)
	}
	return nil, fmt.Errorf("every offering that satisfies %s is out of stock, or is of a kind that the class has no image for", w.need)
}

// Kinds of reservation that cannot share a request, in the order in which they are preferred.
const (
	kindOrdinary = iota
	kindBlock
	kindInterruptible
)

func reservationKind(o *world.Offering) int {
	kind, _ := o.Labels.Get(awsv1.LabelCapacityReservationType)
	interruptible, _ := o.Labels.Get(awsv1.LabelCapacityReservationInterruptible)
	switch {
	case kind == string(awsv1.CapacityReservationTypeCapacityBlock):
		return kindBlock
	case interruptible == "true":
		return kindInterruptible
	}
	return kindOrdinary
}

// oneReservationKind keeps, of reserved offerings, those of the kind that has the cheapest; of capacity blocks only the
// cheapest one, because EC2 takes one block per request.
func oneReservationKind(options []option) []option {
	best, kind := math.Inf(1), -1
	for _, o := range options {
		if o.off.CapacityType != karpv1.CapacityTypeReserved {
			continue
		}
		if k := reservationKind(o.off); o.off.Price < best || o.off.Price == best && k < kind {
			best, kind = o.off.Price, k
		}
	}
	taken := false
	return slices.DeleteFunc(options, func(o option) bool {
		switch {
		case o.off.CapacityType != karpv1.CapacityTypeReserved:
			return false
		case reservationKind(o.off) != kind:
			return true
		case kind == kindBlock && (taken || o.off.Price > best):
			return true
		}
		taken = true
		return false
	})
}

// onePerReservedPool keeps, of several reservations of a type in a zone, the one with the most left.
func onePerReservedPool(options []option) []option {
	type key struct{ typ, zone string }
	best := map[key]*world.Offering{}
	for _, o := range options {
		k := key{o.typ.Name, o.off.Zone}
		if b := best[k]; o.off.CapacityType == karpv1.CapacityTypeReserved && (b == nil || o.off.Remaining > b.Remaining) {
			best[k] = o.off
		}
	}
	return slices.DeleteFunc(options, func(o option) bool {
		return o.off.CapacityType == karpv1.CapacityTypeReserved && best[key{o.typ.Name, o.off.Zone}] != o.off
	})
}

// ordinary leaves out bare metal and accelerated types where others remain: they cost more than a price says, in boot time
// and in scarcity.
func ordinary(options []option) []option {
	kept := make([]option, 0, len(options))
	for _, o := range options {
		if !exotic(o.typ) {
			kept = append(kept, o)
		}
	}
	if len(kept) == 0 {
		return options
	}
	return kept
}

func exotic(t *world.InstanceType) bool {
	size, _ := t.Labels.Get(awsv1.LabelInstanceSize)
	_, gpu := t.Labels.Get(awsv1.LabelInstanceGPUCount)
	_, accelerator := t.Labels.Get(awsv1.LabelInstanceAcceleratorCount)
	return strings.HasPrefix(size, "metal") || gpu || accelerator
}

// worthwhile leaves out spot offerings dearer than the cheapest on-demand one.
func worthwhile(options []option) []option {
	limit := math.Inf(1)
	for _, o := range options {
		if o.off.CapacityType == karpv1.CapacityTypeOnDemand {
			limit = min(limit, o.off.Price)
		}
	}
	return slices.DeleteFunc(options, func(o option) bool { return o.off.CapacityType == karpv1.CapacityTypeSpot && o.off.Price > limit })
}

// bestMarket is reserved if any is left, then spot, then on-demand.
func bestMarket(options []option) string {
	for _, market := range []string{karpv1.CapacityTypeReserved, karpv1.CapacityTypeSpot} {
		if slices.ContainsFunc(options, func(o option) bool { return o.off.CapacityType == market }) {
			return market
		}
	}
	return karpv1.CapacityTypeOnDemand
}

// cheapestTypes keeps the maxChoices types with the cheapest offerings, in order of price and, at the same price, of the zones that
// the claim prefers.
func cheapestTypes(options []option, w *wish) []option {
	lowest := map[*world.InstanceType]float64{}
	for _, o := range options {
		if price, ok := lowest[o.typ]; !ok || o.off.Price < price {
			lowest[o.typ] = o.off.Price
		}
	}
	slices.SortStableFunc(options, func(a, b option) int {
		return cmp.Or(cmp.Compare(lowest[a.typ], lowest[b.typ]), strings.Compare(a.typ.Name, b.typ.Name), cmp.Compare(a.off.Price, b.off.Price), cmp.Compare(w.zoneRank(a.off.Zone), w.zoneRank(b.off.Zone)),
			strings.Compare(a.off.Zone, b.off.Zone))
	})
	types := 0
	for i, o := range options {
		if i == 0 || o.typ != options[i-1].typ {
			types++
		}
		if types > maxChoices {
			return options[:i]
		}
	}
	return options
}

// enoughValues holds the options against minValues, unless the claim was allowed fewer.
func enoughValues(options []option, w *wish) error {
	if w.relaxed {
		return nil
	}
	for _, r := range w.need {
		if r.MinValues == 0 {
			continue
		}
		seen := map[string]bool{}
		for _, o := range options {
			if v, ok := labelOf(o, r.Key); ok {
				seen[v] = true
			}
		}
		if len(seen) < r.MinValues {
			return fmt.Errorf("%s: only %d values are left", r, len(seen))
		}
	}
	return nil
}

// advice says what to change about a pool that allows spot, gets on-demand, and leaves little choice of that.
func advice(c choice, w *wish) string {
	r, asked := w.need.Get(karpv1.CapacityTypeLabelKey)
	spot := !asked || r.Admits(karpv1.CapacityTypeSpot, true)
	types := map[string]bool{}
	for _, o := range c.options {
		types[o.typ.Name] = true
	}
	if c.market != karpv1.CapacityTypeOnDemand || !spot || len(types) >= fewChoices {
		return ""
	}
	return fmt.Sprintf("spot was allowed and could not be had, and only %d instance types are left for on-demand; allow at least %d", len(types), fewChoices)
}
