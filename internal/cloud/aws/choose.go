package aws

import (
	"math"
	"slices"
	"strings"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud/kit"
	"karpenter/internal/engine/world"
)

// choose narrows what the class can launch to what one launch asks for. An error says why nothing is left.
func choose(list []*world.InstanceType, w *wish) (kit.Choice, error) {
	return kit.Choose(list, &w.Wish, kit.Rules{Reserved: oneReservationKind, Exotic: exotic})
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
func oneReservationKind(options []kit.Option) []kit.Option {
	best, kind := math.Inf(1), -1
	for _, o := range options {
		if o.Offering.CapacityType != karpv1.CapacityTypeReserved {
			continue
		}
		if k := reservationKind(o.Offering); o.Offering.Price < best || o.Offering.Price == best && k < kind {
			best, kind = o.Offering.Price, k
		}
	}
	taken := false
	return slices.DeleteFunc(options, func(o kit.Option) bool {
		switch {
		case o.Offering.CapacityType != karpv1.CapacityTypeReserved:
			return false
		case reservationKind(o.Offering) != kind:
			return true
		case kind == kindBlock && (taken || o.Offering.Price > best):
			return true
		}
		taken = true
		return false
	})
}

// exotic says of a type that it is bare metal or accelerated.
func exotic(t *world.InstanceType) bool {
	size, _ := t.Labels.Get(awsv1.LabelInstanceSize)
	_, gpu := t.Labels.Get(awsv1.LabelInstanceGPUCount)
	_, accelerator := t.Labels.Get(awsv1.LabelInstanceAcceleratorCount)
	return strings.HasPrefix(size, "metal") || gpu || accelerator
}
