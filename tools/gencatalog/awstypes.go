package main

import (
	"slices"

	"karpenter/internal/cloud/simaws/catalog"
)

// awsType is an element of the DescribeInstanceTypes answer as the aws command
// prints it; moto's file uses the same names.
type awsType struct {
	InstanceType                                        string
	CurrentGeneration, BareMetal                        bool
	BurstablePerformanceSupported, HibernationSupported bool
	DedicatedHostsSupported, AutoRecoverySupported      bool
	FreeTierEligible                                    bool
	Hypervisor                                          string
	SupportedUsageClasses, SupportedBootModes           []string
	SupportedRootDeviceTypes                            []string
	SupportedVirtualizationTypes                        []string
	NitroEnclavesSupport, NitroTpmSupport               string
	ProcessorInfo                                       struct {
		Manufacturer             string
		SupportedArchitectures   []string
		SupportedFeatures        []string
		SustainedClockSpeedInGhz float64
	}
	VCpuInfo            struct{ DefaultVCpus, DefaultCores, DefaultThreadsPerCore int }
	MemoryInfo          awsMemory
	InstanceStorageInfo struct {
		NvmeSupport string
		Disks       []struct {
			Count, SizeInGB int
			Type            string
		}
	}
	EbsInfo struct {
		EbsOptimizedSupport, NvmeSupport string
		MaximumEbsAttachments            int
		EbsOptimizedInfo                 struct {
			BaselineBandwidthInMbps, BaselineIops, MaximumBandwidthInMbps, MaximumIops int
		}
	}
	NetworkInfo              awsNetwork
	GpuInfo                  struct{ Gpus []awsDevice }
	InferenceAcceleratorInfo struct{ Accelerators []awsDevice }
	FpgaInfo                 struct{ Fpgas []awsDevice }
	MediaAcceleratorInfo     struct{ Accelerators []awsDevice }
	NeuronInfo               struct {
		NeuronDevices []struct {
			Name       string
			Count      int
			MemoryInfo awsMemory
			CoreInfo   struct{ Count, Version int }
		}
	}
	PlacementGroupInfo struct{ SupportedStrategies []string }
}

type awsMemory struct{ SizeInMiB int }

type awsDevice struct {
	Name, Manufacturer string
	Count              int
	MemoryInfo         awsMemory
}

type awsNetwork struct {
	NetworkPerformance, EnaSupport                       string
	EfaSupported, EnaSrdSupported                        bool
	EncryptionInTransitSupported, Ipv6Supported          bool
	Ipv4AddressesPerInterface, Ipv6AddressesPerInterface int
	DefaultNetworkCardIndex, MaximumNetworkInterfaces    int
	EfaInfo                                              struct{ MaximumEfaInterfaces int }
	NetworkCards                                         []struct {
		MaximumNetworkInterfaces                     int
		BaselineBandwidthInGbps, PeakBandwidthInGbps float64
		NetworkPerformance                           string
		InterfaceTypes                               []string
	}
}

// convert prunes an AWS answer to the catalogue's fields.
func (a *awsType) convert() *catalog.Type {
	t := &catalog.Type{
		Name:              a.InstanceType,
		CurrentGeneration: a.CurrentGeneration, BareMetal: a.BareMetal,
		Burstable: a.BurstablePerformanceSupported, Hibernation: a.HibernationSupported,
		DedicatedHosts: a.DedicatedHostsSupported, AutoRecovery: a.AutoRecoverySupported, FreeTier: a.FreeTierEligible,
		EFA: a.NetworkInfo.EfaSupported, EnaSrd: a.NetworkInfo.EnaSrdSupported,
		EncryptionInTransit: a.NetworkInfo.EncryptionInTransitSupported, IPv6: a.NetworkInfo.Ipv6Supported,
		NitroEnclaves: a.NitroEnclavesSupport == "supported", NitroTPM: a.NitroTpmSupport == "supported",
		Hypervisor: a.Hypervisor, UsageClasses: a.SupportedUsageClasses,
		Architectures: a.ProcessorInfo.SupportedArchitectures, Manufacturer: a.ProcessorInfo.Manufacturer,
		ClockGHz: a.ProcessorInfo.SustainedClockSpeedInGhz, ProcessorFeatures: a.ProcessorInfo.SupportedFeatures,
		VCPUs: a.VCpuInfo.DefaultVCpus, Cores: a.VCpuInfo.DefaultCores, ThreadsPerCore: a.VCpuInfo.DefaultThreadsPerCore,
		MemoryMiB: a.MemoryInfo.SizeInMiB, DiskNVMe: a.InstanceStorageInfo.NvmeSupport,
		Network: a.NetworkInfo.convert(),
		GPUs:    devices(a.GpuInfo.Gpus), Inference: devices(a.InferenceAcceleratorInfo.Accelerators),
		FPGAs: devices(a.FpgaInfo.Fpgas), Media: devices(a.MediaAcceleratorInfo.Accelerators),
		Placement: a.PlacementGroupInfo.SupportedStrategies, BootModes: a.SupportedBootModes,
		RootDevices: a.SupportedRootDeviceTypes, Virtualities: a.SupportedVirtualizationTypes,
		BranchENIs: -1,
	}
	t.EBS = catalog.EBS{
		OptimizedSupport: a.EbsInfo.EbsOptimizedSupport, NVMe: a.EbsInfo.NvmeSupport, MaxAttachments: a.EbsInfo.MaximumEbsAttachments,
		BaselineMbps: a.EbsInfo.EbsOptimizedInfo.BaselineBandwidthInMbps, BaselineIOPS: a.EbsInfo.EbsOptimizedInfo.BaselineIops,
		MaxMbps: a.EbsInfo.EbsOptimizedInfo.MaximumBandwidthInMbps, MaxIOPS: a.EbsInfo.EbsOptimizedInfo.MaximumIops,
	}
	for _, d := range a.InstanceStorageInfo.Disks {
		t.Disks = append(t.Disks, catalog.Disk{Count: d.Count, SizeGB: d.SizeInGB, Kind: d.Type})
	}
	for _, n := range a.NeuronInfo.NeuronDevices {
		t.Neuron = append(t.Neuron, catalog.NeuronDevice{
			Name: n.Name, Count: n.Count, MemoryMiB: n.MemoryInfo.SizeInMiB, Cores: n.CoreInfo.Count, CoreV: n.CoreInfo.Version,
		})
	}
	return t
}

func (n *awsNetwork) convert() catalog.Network {
	out := catalog.Network{
		Performance: n.NetworkPerformance, IPv4PerENI: n.Ipv4AddressesPerInterface, IPv6PerENI: n.Ipv6AddressesPerInterface,
		DefaultCard: n.DefaultNetworkCardIndex, EnaSupport: n.EnaSupport, MaxENIs: n.MaximumNetworkInterfaces, MaxEFAs: n.EfaInfo.MaximumEfaInterfaces,
	}
	for _, c := range n.NetworkCards {
		out.Cards = append(out.Cards, catalog.Card{
			MaxENIs: c.MaximumNetworkInterfaces, BaselineGbps: c.BaselineBandwidthInGbps, PeakGbps: c.PeakBandwidthInGbps,
			Performance: c.NetworkPerformance, AllowsENI: slices.Contains(c.InterfaceTypes, "interface"),
			AllowsEFA: slices.Contains(c.InterfaceTypes, "efa"), AllowsEFAOnly: slices.Contains(c.InterfaceTypes, "efa-only"),
		})
	}
	return out
}

func devices(in []awsDevice) []catalog.Device {
	var out []catalog.Device
	for _, d := range in {
		out = append(out, catalog.Device{Name: d.Name, Manufacturer: d.Manufacturer, Count: d.Count, MemoryMiB: d.MemoryInfo.SizeInMiB})
	}
	return out
}
