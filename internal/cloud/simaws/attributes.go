package simaws

import "strings"

// attributes choose instance types by what they are instead of by name: InstanceRequirements of launch templates and of Auto Scaling
// groups. They are kept as they were said; nothing here launches by them.
type attributes struct {
	// Words are single values, Lists several, and Ranges a least and a most, either of which may be empty; all by AWS's name.
	Words  map[string]string    `json:",omitempty"`
	Lists  map[string][]string  `json:",omitempty"`
	Ranges map[string][2]string `json:",omitempty"`
}

// The names of attributes. Those of lists are said in the singular: Auto Scaling adds an s.
var (
	attributeRanges = []string{
		"AcceleratorCount", "AcceleratorTotalMemoryMiB", "BaselineEbsBandwidthMbps", "MemoryGiBPerVCpu", "MemoryMiB", "NetworkBandwidthGbps",
		"NetworkInterfaceCount", "TotalLocalStorageGB", "VCpuCount",
	}
	attributeWords = []string{
		"BareMetal", "BurstablePerformance", "LocalStorage", "MaxSpotPriceAsPercentageOfOptimalOnDemandPrice", "OnDemandMaxPricePercentageOverLowestPrice",
		"RequireEncryptionInTransit", "RequireHibernateSupport", "SpotMaxPricePercentageOverLowestPrice",
	}
	attributeLists = []string{
		"AcceleratorManufacturer", "AcceleratorName", "AcceleratorType", "AllowedInstanceType", "CpuManufacturer", "ExcludedInstanceType",
		"InstanceGeneration", "LocalStorageType",
	}
)

// parseAttributes reads InstanceRequirements; nil if there are none. plural is what the service adds to the names of lists.
func parseAttributes(n *node, plural string) *attributes {
	if n == nil {
		return nil
	}
	a := &attributes{Words: map[string]string{}, Lists: map[string][]string{}, Ranges: map[string][2]string{}}
	for _, name := range attributeRanges {
		if n.has(name) {
			a.Ranges[name] = [2]string{n.str(name + ".Min"), n.str(name + ".Max")}
		}
	}
	for _, name := range attributeWords {
		if word := n.str(name); word != "" {
			a.Words[name] = word
		}
	}
	for _, name := range attributeLists {
		if list := n.strs(name + plural); len(list) > 0 {
			a.Lists[name] = list
		}
	}
	return a
}

// check finds what AWS refuses.
func (a *attributes) check() error {
	switch {
	case a == nil:
		return nil
	case a.Ranges["VCpuCount"][0] == "" || a.Ranges["MemoryMiB"][0] == "":
		return fail("MissingParameter", "InstanceRequirements must have VCpuCount.Min and MemoryMiB.Min")
	case len(a.Lists["AllowedInstanceType"]) > 0 && len(a.Lists["ExcludedInstanceType"]) > 0:
		return fail("InvalidParameterCombination", "AllowedInstanceTypes and ExcludedInstanceTypes may not be used together")
	}
	return nil
}

// attributeStyle is how a service writes attributes: it names elements, and lists with their items.
type attributeStyle struct {
	name, list func(string) string
	item       string
}

// Auto Scaling writes names as they are; EC2 begins them with a small letter and has sets of items.
var (
	scalingAttributes = attributeStyle{func(name string) string { return name }, func(name string) string { return name + "s" }, "member"}
	ec2Attributes     = attributeStyle{lowered, func(name string) string { return lowered(name) + "Set" }, "item"}
)

func lowered(name string) string { return strings.ToLower(name[:1]) + name[1:] }

// write writes the attributes, which have an element of their own around them.
func (a *attributes) write(x *xmlWriter, style attributeStyle) {
	for _, name := range attributeRanges {
		if bounds, ok := a.Ranges[name]; ok {
			x.in(style.name(name), func() {
				x.opt(style.name("Min"), bounds[0])
				x.opt(style.name("Max"), bounds[1])
			})
		}
	}
	for _, name := range attributeWords {
		x.opt(style.name(name), a.Words[name])
	}
	for _, name := range attributeLists {
		if list := a.Lists[name]; len(list) > 0 {
			x.strs(style.list(name), style.item, list)
		}
	}
}
