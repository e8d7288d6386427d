package simaws

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"karpenter/internal/cloud/simaws/catalog"
)

func describeInstanceTypes(c *call) error {
	fs, err := c.filters()
	if err != nil {
		return err
	}
	want := c.q.strs("InstanceType")
	var all []*catalog.Type
	for _, name := range want {
		t := c.cat.Type(name)
		if _, ok := c.reg.offers.Offer(name); t == nil || !ok {
			return fail("InvalidInstanceType", "The following supplied instance types do not exist: [%s]", name)
		}
		all = append(all, t)
	}
	if len(want) == 0 {
		for _, o := range c.reg.offers.Offers {
			all = append(all, c.cat.Type(o.Type))
		}
	}
	all, err = filtered(all, fs, typeField)
	if err != nil {
		return err
	}
	part, next, err := page(c, all, pages{5, 100, 100})
	if err != nil {
		return err
	}
	c.x.in("instanceTypeSet", func() {
		for _, t := range part {
			c.x.in("item", func() { writeType(c.x, t) })
		}
	})
	c.x.opt("nextToken", next)
	return nil
}

func typeField(t *catalog.Type) field {
	return func(name string, out []string) ([]string, bool) {
		switch name {
		case "instance-type":
			return append(out, t.Name), true
		case "supported-virtualization-type":
			return append(out, t.Virtualities...), true
		case "processor-info.supported-architecture":
			return append(out, t.Architectures...), true
		case "processor-info.sustained-clock-speed-in-ghz":
			return append(out, strconv.FormatFloat(t.ClockGHz, 'f', -1, 64)), true
		case "processor-info.supported-features":
			return append(out, t.ProcessorFeatures...), true
		case "supported-usage-class":
			return append(out, t.UsageClasses...), true
		case "supported-root-device-type":
			return append(out, t.RootDevices...), true
		case "supported-boot-mode":
			return append(out, t.BootModes...), true
		case "current-generation":
			return append(out, boolWord(t.CurrentGeneration)), true
		case "bare-metal":
			return append(out, boolWord(t.BareMetal)), true
		case "burstable-performance-supported":
			return append(out, boolWord(t.Burstable)), true
		case "dedicated-hosts-supported":
			return append(out, boolWord(t.DedicatedHosts)), true
		case "hibernation-supported":
			return append(out, boolWord(t.Hibernation)), true
		case "free-tier-eligible":
			return append(out, boolWord(t.FreeTier)), true
		case "auto-recovery-supported":
			return append(out, boolWord(t.AutoRecovery)), true
		case "hypervisor":
			return append(out, t.Hypervisor), true
		case "instance-storage-supported":
			return append(out, boolWord(len(t.Disks) > 0)), true
		case "instance-storage-info.nvme-support":
			return append(out, t.DiskNVMe), true
		case "memory-info.size-in-mib":
			return append(out, strconv.Itoa(t.MemoryMiB)), true
		case "vcpu-info.default-vcpus":
			return append(out, strconv.Itoa(t.VCPUs)), true
		case "vcpu-info.default-cores":
			return append(out, strconv.Itoa(t.Cores)), true
		case "network-info.efa-supported":
			return append(out, boolWord(t.EFA)), true
		case "network-info.ena-support":
			return append(out, t.Network.EnaSupport), true
		case "network-info.encryption-in-transit-supported":
			return append(out, boolWord(t.EncryptionInTransit)), true
		case "network-info.ipv6-supported":
			return append(out, boolWord(t.IPv6)), true
		case "nitro-enclaves-support":
			return append(out, supported(t.NitroEnclaves)), true
		}
		return out, false
	}
}

func supported(b bool) string {
	if b {
		return "supported"
	}
	return "unsupported"
}

func writeType(x *xmlWriter, t *catalog.Type) {
	x.str("instanceType", t.Name)
	x.bool("currentGeneration", t.CurrentGeneration)
	x.bool("freeTierEligible", t.FreeTier)
	x.strs("supportedUsageClasses", "item", t.UsageClasses)
	x.strs("supportedRootDeviceTypes", "item", t.RootDevices)
	x.strs("supportedVirtualizationTypes", "item", t.Virtualities)
	x.bool("bareMetal", t.BareMetal)
	x.opt("hypervisor", t.Hypervisor)
	x.in("processorInfo", func() {
		x.strs("supportedArchitectures", "item", t.Architectures)
		if t.ClockGHz > 0 {
			x.float("sustainedClockSpeedInGhz", t.ClockGHz)
		}
		if len(t.ProcessorFeatures) > 0 {
			x.strs("supportedFeatures", "item", t.ProcessorFeatures)
		}
		x.str("manufacturer", t.Manufacturer)
	})
	x.in("vCpuInfo", func() {
		x.int("defaultVCpus", t.VCPUs)
		x.int("defaultCores", t.Cores)
		x.int("defaultThreadsPerCore", t.ThreadsPerCore)
	})
	x.in("memoryInfo", func() { x.int("sizeInMiB", t.MemoryMiB) })
	writeTypeStorage(x, t)
	writeTypeNetwork(x, t)
	writeTypeDevices(x, t)
	x.in("placementGroupInfo", func() { x.strs("supportedStrategies", "item", t.Placement) })
	x.bool("hibernationSupported", t.Hibernation)
	x.bool("burstablePerformanceSupported", t.Burstable)
	x.bool("dedicatedHostsSupported", t.DedicatedHosts)
	x.bool("autoRecoverySupported", t.AutoRecovery)
	x.strs("supportedBootModes", "item", t.BootModes)
	x.str("nitroEnclavesSupport", supported(t.NitroEnclaves))
	x.str("nitroTpmSupport", supported(t.NitroTPM))
}

// sharedAttachments is how many attachments instances on Nitro have at most that share them with network interfaces and local disks.
const sharedAttachments = 28

func writeTypeStorage(x *xmlWriter, t *catalog.Type) {
	x.bool("instanceStorageSupported", len(t.Disks) > 0)
	if len(t.Disks) > 0 {
		x.in("instanceStorageInfo", func() {
			x.int("totalSizeInGB", t.TotalDiskGB())
			x.in("disks", func() {
				for _, d := range t.Disks {
					x.in("item", func() {
						x.int("sizeInGB", d.SizeGB)
						x.int("count", d.Count)
						x.str("type", d.Kind)
					})
				}
			})
			x.str("nvmeSupport", t.DiskNVMe)
		})
	}
	x.in("ebsInfo", func() {
		x.str("ebsOptimizedSupport", t.EBS.OptimizedSupport)
		x.str("encryptionSupport", "supported")
		if t.EBS.MaxMbps > 0 {
			x.in("ebsOptimizedInfo", func() {
				x.int("baselineBandwidthInMbps", t.EBS.BaselineMbps)
				x.float("baselineThroughputInMBps", float64(t.EBS.BaselineMbps)/8)
				x.int("baselineIops", t.EBS.BaselineIOPS)
				x.int("maximumBandwidthInMbps", t.EBS.MaxMbps)
				x.float("maximumThroughputInMBps", float64(t.EBS.MaxMbps)/8)
				x.int("maximumIops", t.EBS.MaxIOPS)
			})
		}
		x.str("nvmeSupport", t.EBS.NVMe)
		x.int("maximumEbsAttachments", t.EBS.MaxAttachments)
		if t.Hypervisor == "nitro" && t.EBS.MaxAttachments <= sharedAttachments {
			x.str("attachmentLimitType", "shared")
		} else {
			x.str("attachmentLimitType", "dedicated")
		}
	})
}

func writeTypeNetwork(x *xmlWriter, t *catalog.Type) {
	n := t.Network
	x.in("networkInfo", func() {
		x.str("networkPerformance", n.Performance)
		x.int("maximumNetworkInterfaces", n.MaxENIs)
		x.int("maximumNetworkCards", len(n.Cards))
		x.int("defaultNetworkCardIndex", n.DefaultCard)
		x.in("networkCards", func() {
			for i, card := range n.Cards {
				x.in("item", func() {
					x.int("networkCardIndex", i)
					x.str("networkPerformance", card.Performance)
					x.int("maximumNetworkInterfaces", card.MaxENIs)
					x.float("baselineBandwidthInGbps", card.BaselineGbps)
					x.float("peakBandwidthInGbps", card.PeakGbps)
					x.strs("interfaceTypeSet", "item", card.InterfaceTypes())
				})
			}
		})
		x.int("ipv4AddressesPerInterface", n.IPv4PerENI)
		x.int("ipv6AddressesPerInterface", n.IPv6PerENI)
		x.bool("ipv6Supported", t.IPv6)
		x.str("enaSupport", n.EnaSupport)
		x.bool("efaSupported", t.EFA)
		if n.MaxEFAs > 0 {
			x.in("efaInfo", func() { x.int("maximumEfaInterfaces", n.MaxEFAs) })
		}
		x.bool("encryptionInTransitSupported", t.EncryptionInTransit)
		x.bool("enaSrdSupported", t.EnaSrd)
	})
}

func writeTypeDevices(x *xmlWriter, t *catalog.Type) {
	group := func(outer, list, total string, ds []catalog.Device, item string) {
		if len(ds) == 0 {
			return
		}
		sum := 0
		x.in(outer, func() {
			x.in(list, func() {
				for _, d := range ds {
					sum += d.Count * d.MemoryMiB
					x.in(item, func() {
						x.str("name", d.Name)
						x.str("manufacturer", d.Manufacturer)
						x.int("count", d.Count)
						if d.MemoryMiB > 0 {
							x.in("memoryInfo", func() { x.int("sizeInMiB", d.MemoryMiB) })
						}
					})
				}
			})
			x.int(total, sum)
		})
	}
	group("gpuInfo", "gpus", "totalGpuMemoryInMiB", t.GPUs, "item")
	group("fpgaInfo", "fpgas", "totalFpgaMemoryInMiB", t.FPGAs, "item")
	group("inferenceAcceleratorInfo", "accelerators", "totalInferenceMemoryInMiB", t.Inference, "member")
	group("mediaAcceleratorInfo", "accelerators", "totalMediaMemoryInMiB", t.Media, "item")
	if len(t.Neuron) == 0 {
		return
	}
	x.in("neuronInfo", func() {
		x.in("neuronDevices", func() {
			for _, d := range t.Neuron {
				x.in("item", func() {
					x.int("count", d.Count)
					x.str("name", d.Name)
					x.in("coreInfo", func() {
						x.int("count", d.Cores)
						x.int("version", d.CoreV)
					})
					x.in("memoryInfo", func() { x.int("sizeInMiB", d.MemoryMiB) })
				})
			}
		})
	})
}

func describeInstanceTypeOfferings(c *call) error {
	fs, err := c.filters()
	if err != nil {
		return err
	}
	kind := c.q.str("LocationType")
	if kind == "" {
		kind = "region"
	}
	type row struct{ typ, location string }
	var all []*row
	for _, o := range c.reg.offers.Offers {
		switch kind {
		case "region":
			all = append(all, &row{o.Type, c.reg.Name})
		case "availability-zone", "availability-zone-id":
			for i, z := range c.reg.offers.Zones {
				if o.ZoneMask&(1<<i) == 0 {
					continue
				}
				loc := z.Name
				if kind == "availability-zone-id" {
					loc = z.ID
				}
				all = append(all, &row{o.Type, loc})
			}
		default:
			return badValue("LocationType", kind, "It must be region, availability-zone or availability-zone-id.")
		}
	}
	all, err = filtered(all, fs, func(r *row) field {
		return func(name string, out []string) ([]string, bool) {
			switch name {
			case "instance-type":
				return append(out, r.typ), true
			case "location":
				return append(out, r.location), true
			}
			return out, false
		}
	})
	if err != nil {
		return err
	}
	part, next, err := page(c, all, pages{5, 1000, 1000})
	if err != nil {
		return err
	}
	c.x.in("instanceTypeOfferingSet", func() {
		for _, r := range part {
			c.x.in("item", func() {
				c.x.str("instanceType", r.typ)
				c.x.str("locationType", kind)
				c.x.str("location", r.location)
			})
		}
	})
	c.x.opt("nextToken", next)
	return nil
}

// spotPool is a pool whose price history is asked for.
type spotPool struct {
	offer catalog.Offer
	zone  string
}

// historyDays is how far back AWS remembers spot prices.
const historyDays = 90

// describeSpotPriceHistory lists, pool by pool and newest first, the price
// changes from EndTime back to the one in force at StartTime. Prices are
// computed for the page alone: 90 days of all pools are millions of rows.
func describeSpotPriceHistory(c *call) error {
	pools, err := c.spotPools()
	if err != nil {
		return err
	}
	start, end := c.q.time("StartTime"), c.q.time("EndTime")
	if err := c.q.err(); err != nil {
		return err
	}
	if end.IsZero() || end.After(c.at) {
		end = c.at
	}
	if oldest := c.at.AddDate(0, 0, -historyDays); !start.IsZero() && start.Before(oldest) {
		start = oldest
	}
	step := c.opt.Timing.SpotStep
	last := end.Truncate(step)
	changes := 1
	if !start.IsZero() && start.Before(last) {
		changes += int((last.Sub(start) + step - 1) / step)
	}
	rows := make([]struct{}, len(pools)*changes)
	part, next, err := page(c, rows, pages{1, 2000, 1000})
	if err != nil {
		return err
	}
	first := 0
	if t := c.q.str("NextToken"); t != "" {
		first, _ = readToken(t)
	}
	c.x.in("spotPriceHistorySet", func() {
		for i := range part {
			p, at := pools[(first+i)/changes], last.Add(-step*time.Duration((first+i)%changes))
			c.x.in("item", func() {
				c.x.str("instanceType", p.offer.Type)
				c.x.str("productDescription", "Linux/UNIX")
				c.x.str("spotPrice", spotText(c.spotPriceAt(p.offer, p.zone, at)))
				c.x.time("timestamp", at)
				c.x.str("availabilityZone", p.zone)
				c.x.str("availabilityZoneId", c.reg.zoneID(p.zone))
			})
		}
	})
	c.x.str("nextToken", next)
	return nil
}

// spotPools lists the pools that the parameters and filters leave.
func (c *call) spotPools() ([]*spotPool, error) {
	fs, err := c.filters()
	if err != nil {
		return nil, err
	}
	products := c.q.strs("ProductDescription")
	// The VPC product is answered under the plain name; other systems have no
	// prices here.
	if len(products) > 0 && !slices.ContainsFunc(products, func(p string) bool { return strings.HasPrefix(p, "Linux/UNIX") }) {
		return nil, nil
	}
	types, zone := c.q.strs("InstanceType"), c.q.str("AvailabilityZone")
	var all []*spotPool
	for _, o := range c.reg.offers.Offers {
		if o.Spot == 0 || len(types) > 0 && !slices.Contains(types, o.Type) {
			continue
		}
		for i, z := range c.reg.offers.Zones {
			if o.ZoneMask&(1<<i) != 0 && (zone == "" || zone == z.Name) {
				all = append(all, &spotPool{o, z.Name})
			}
		}
	}
	return filtered(all, fs, func(p *spotPool) field {
		return func(name string, out []string) ([]string, bool) {
			switch name {
			case "instance-type":
				return append(out, p.offer.Type), true
			case "availability-zone":
				return append(out, p.zone), true
			case "product-description":
				return append(out, "Linux/UNIX"), true
			}
			return out, false
		}
	})
}

func spotText(p float64) string { return strconv.FormatFloat(math.Round(p*1e6)/1e6, 'f', 6, 64) }

func describeAvailabilityZones(c *call) error {
	want := append(c.q.strs("ZoneName"), c.q.strs("ZoneId")...)
	c.x.in("availabilityZoneInfo", func() {
		for _, z := range c.reg.offers.Zones {
			if len(want) > 0 && !slices.Contains(want, z.Name) && !slices.Contains(want, z.ID) {
				continue
			}
			c.x.in("item", func() {
				c.x.str("zoneName", z.Name)
				c.x.str("zoneId", z.ID)
				c.x.str("zoneState", "available")
				c.x.str("regionName", c.reg.Name)
				c.x.str("groupName", c.reg.Name)
				c.x.str("networkBorderGroup", c.reg.Name)
				c.x.str("optInStatus", "opt-in-not-required")
				c.x.str("zoneType", "availability-zone")
			})
		}
	})
	return nil
}

func describeRegions(c *call) error {
	c.x.in("regionInfo", func() {
		for _, name := range c.cat.Regions() {
			c.x.in("item", func() {
				c.x.str("regionName", name)
				c.x.str("regionEndpoint", "ec2."+name+".amazonaws.com")
				c.x.str("optInStatus", "opt-in-not-required")
			})
		}
	})
	return nil
}
