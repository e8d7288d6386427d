package aws

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"karpenter/internal/cloud/aws/shape"
)

// toShape takes over what EC2 says of a type.
func toShape(t *types.InstanceTypeInfo) *shape.Type {
	m := &shape.Type{
		Name: string(t.InstanceType), Hypervisor: string(t.Hypervisor), BareMetal: aws.ToBool(t.BareMetal), Arch: shape.AMD64,
		Enclaves: t.NitroEnclavesSupport == types.NitroEnclavesSupportSupported,
	}
	for _, u := range t.SupportedUsageClasses {
		m.UsageClasses = append(m.UsageClasses, string(u))
	}
	if p := t.ProcessorInfo; p != nil {
		if len(p.SupportedArchitectures) > 0 && p.SupportedArchitectures[0] == types.ArchitectureTypeArm64 {
			m.Arch = shape.ARM64
		}
		m.Manufacturer, m.ClockGHz = aws.ToString(p.Manufacturer), aws.ToFloat64(p.SustainedClockSpeedInGhz)
		for _, f := range p.SupportedFeatures {
			m.Features = append(m.Features, string(f))
		}
	}
	if t.VCpuInfo != nil {
		m.VCPUs = int64(aws.ToInt32(t.VCpuInfo.DefaultVCpus))
	}
	if t.MemoryInfo != nil {
		m.MemoryMiB = aws.ToInt64(t.MemoryInfo.SizeInMiB)
	}
	if t.PlacementGroupInfo != nil {
		for _, s := range t.PlacementGroupInfo.SupportedStrategies {
			m.Placements = append(m.Placements, string(s))
		}
	}
	addStorage(m, t)
	addNetwork(m, t.NetworkInfo)
	addDevices(m, t)
	return m
}

func addStorage(m *shape.Type, t *types.InstanceTypeInfo) {
	if s := t.InstanceStorageInfo; s != nil {
		m.DiskGB = aws.ToInt64(s.TotalSizeInGB)
		m.DiskNVMe = s.NvmeSupport != types.EphemeralNvmeSupportUnsupported
	}
	if e := t.EbsInfo; e != nil {
		m.EBSAttachments, m.EBSShared = int64(aws.ToInt32(e.MaximumEbsAttachments)), e.AttachmentLimitType == types.AttachmentLimitTypeShared
	}
	if e := t.EbsInfo; e != nil && e.EbsOptimizedInfo != nil && e.EbsOptimizedSupport == types.EbsOptimizedSupportDefault {
		m.EBSMbps = int64(aws.ToInt32(e.EbsOptimizedInfo.MaximumBandwidthInMbps))
	}
}

func addNetwork(m *shape.Type, n *types.NetworkInfo) {
	if n == nil {
		return
	}
	m.DefaultCard = int(aws.ToInt32(n.DefaultNetworkCardIndex))
	m.IPv4PerENI = int64(aws.ToInt32(n.Ipv4AddressesPerInterface))
	m.ENA = n.EnaSupport == types.EnaSupportRequired || n.EnaSupport == types.EnaSupportSupported
	m.EncryptsTransit = aws.ToBool(n.EncryptionInTransitSupported)
	if n.EfaInfo != nil {
		m.MaxEFAs = int64(aws.ToInt32(n.EfaInfo.MaximumEfaInterfaces))
	}
	for _, c := range n.NetworkCards {
		m.Cards = append(m.Cards, shape.Card{
			Index: int(aws.ToInt32(c.NetworkCardIndex)), MaxENIs: int64(aws.ToInt32(c.MaximumNetworkInterfaces)), BaselineGbps: aws.ToFloat64(c.BaselineBandwidthInGbps),
		})
	}
}

func addDevices(m *shape.Type, t *types.InstanceTypeInfo) {
	if t.GpuInfo != nil {
		for _, g := range t.GpuInfo.Gpus {
			d := shape.Device{Name: aws.ToString(g.Name), Manufacturer: aws.ToString(g.Manufacturer), Count: int64(aws.ToInt32(g.Count))}
			if g.MemoryInfo != nil {
				d.MemoryMiB = int64(aws.ToInt32(g.MemoryInfo.SizeInMiB))
			}
			m.GPUs = append(m.GPUs, d)
		}
	}
	if t.InferenceAcceleratorInfo != nil {
		for _, a := range t.InferenceAcceleratorInfo.Accelerators {
			m.Inference = append(m.Inference, shape.Device{Name: aws.ToString(a.Name), Manufacturer: aws.ToString(a.Manufacturer), Count: int64(aws.ToInt32(a.Count))})
		}
	}
	if t.NeuronInfo != nil {
		for _, d := range t.NeuronInfo.NeuronDevices {
			n := shape.NeuronDevice{Name: aws.ToString(d.Name), Count: int64(aws.ToInt32(d.Count))}
			if d.CoreInfo != nil {
				n.Cores = int64(aws.ToInt32(d.CoreInfo.Count))
			}
			m.Neuron = append(m.Neuron, n)
		}
	}
}

// sells says whether the instance can be bought that way.
func sells(m *shape.Type, usage types.UsageClassType) bool {
	return slices.Contains(m.UsageClasses, string(usage))
}
