package operator

import (
	"fmt"
	"slices"
	"strings"
)

// Gates are features that can be turned on and off (O63).
type Gates struct {
	NodeRepair, ReservedCapacity, SpotToSpotConsolidation, NodeOverlay, StaticCapacity, CapacityBuffer, PodDeletionCostManagement bool
	TerminateFirstDrift, TerminateFirstRepair                                                                                     bool
}

// AWSGates are those of the AWS provider.
type AWSGates struct{ NodeClassCEL, DRANVIDIAGPU, DRAEFA, RebootForRepair bool }

// gate is a feature that can be named in a list.
type gate struct {
	name string
	on   bool // by default
	of   func(*Options) *bool
	// absent features are not part of this version: turning one on changes nothing, and is said.
	absent bool
}

func gates() []gate {
	return []gate{
		{name: "NodeRepair", of: func(o *Options) *bool { return &o.Gates.NodeRepair }},
		{name: "ReservedCapacity", on: true, of: func(o *Options) *bool { return &o.Gates.ReservedCapacity }},
		{name: "SpotToSpotConsolidation", of: func(o *Options) *bool { return &o.Gates.SpotToSpotConsolidation }},
		{name: "NodeOverlay", of: func(o *Options) *bool { return &o.Gates.NodeOverlay }},
		{name: "StaticCapacity", of: func(o *Options) *bool { return &o.Gates.StaticCapacity }, absent: true},
		{name: "CapacityBuffer", on: true, of: func(o *Options) *bool { return &o.Gates.CapacityBuffer }},
		{name: "PodDeletionCostManagement", of: func(o *Options) *bool { return &o.Gates.PodDeletionCostManagement }},
		{name: "TerminateFirstDrift", of: func(o *Options) *bool { return &o.Gates.TerminateFirstDrift }},
		{name: "TerminateFirstRepair", of: func(o *Options) *bool { return &o.Gates.TerminateFirstRepair }},
	}
}

func awsGates() []gate {
	return []gate{
		{name: "NodeClassCEL", of: func(o *Options) *bool { return &o.AWSGates.NodeClassCEL }},
		{name: "DRANVIDIAGPU", of: func(o *Options) *bool { return &o.AWSGates.DRANVIDIAGPU }, absent: true},
		{name: "DRAEFA", of: func(o *Options) *bool { return &o.AWSGates.DRAEFA }, absent: true},
		{name: "RebootForRepair", of: func(o *Options) *bool { return &o.AWSGates.RebootForRepair }},
	}
}

func gatesDefault(known []gate) string {
	var list []string
	for _, g := range known {
		list = append(list, fmt.Sprintf("%s=%t", g.name, g.on))
	}
	return strings.Join(list, ",")
}

func setGates(o *Options, v string) error { return readGates(o, v, "FEATURE_GATES", gates()) }

func setAWSGates(o *Options, v string) error {
	return readGates(o, v, "AWS_FEATURE_GATES", awsGates())
}

func readGates(o *Options, v, variable string, known []gate) error {
	for _, g := range known {
		*g.of(o) = g.on
	}
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		on, err := parseBool(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return fmt.Errorf("%q: must be a list such as %s=true", part, known[0].name)
		}
		i := slices.IndexFunc(known, func(g gate) bool { return g.name == name })
		switch {
		case i < 0:
			names := make([]string, len(known))
			for i, g := range known {
				names[i] = g.name
			}
			o.Warnings = append(o.Warnings, fmt.Sprintf("%s: there is no feature %s; it is ignored. Features are %s", variable, name, strings.Join(names, ", ")))
			continue
		case on && known[i].absent:
			o.Warnings = append(o.Warnings, fmt.Sprintf("%s: %s is not part of this version; it has no effect", variable, name))
		}
		*known[i].of(o) = on
	}
	return nil
}
