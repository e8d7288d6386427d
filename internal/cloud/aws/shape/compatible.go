package shape

import (
	"slices"

	awsv1 "karpenter/api/aws/v1"
)

// Incompatible says in one sentence why nodes of the class cannot run on the instance, or returns "".
func Incompatible(m *Type, s *Settings) string {
	switch {
	case s.Family == awsv1.AMIFamilyAL2023 && m.Family() == "a1":
		return "AL2023 does not boot on a1"
	case WindowsBuild(s.Family) != "" && m.Arch != AMD64:
		return "Windows needs amd64"
	case s.NestedVirtualization && !slices.Contains(m.Features, "nested-virtualization"):
		return "the processor has no nested virtualization"
	case s.Enclaves && !m.Enclaves:
		return "the type has no Nitro enclaves"
	case s.Placement != "" && !slices.Contains(m.Placements, s.Placement):
		return "the type cannot be in a placement group of strategy " + s.Placement
	case s.ConnectionTracking && m.Hypervisor != "nitro" && !(m.BareMetal && m.ENA):
		return "connection tracking can be set on Nitro only"
	}
	return interfacesFit(m, s)
}

// interfacesFit says why the configured network interfaces cannot be attached, or returns "".
func interfacesFit(m *Type, s *Settings) string {
	if len(s.Interfaces) == 0 {
		return ""
	}
	if !m.ENA {
		return "network interfaces can be configured with ENA only"
	}
	for _, i := range s.Interfaces {
		card, ok := m.card(int(i.NetworkCardIndex))
		if !ok {
			return "the type has too few network cards"
		}
		if int64(i.DeviceIndex) >= card.MaxENIs {
			return "a network card takes too few interfaces"
		}
	}
	if s.efaOnly(false) > m.MaxEFAs {
		return "the type takes too few EFA devices"
	}
	return ""
}
