package shape

import (
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/internal/engine/world"
)

// ResourcePrivateIPv4 counts the addresses that Windows pods can have.
const ResourcePrivateIPv4 corev1.ResourceName = "vpc.amazonaws.com/PrivateIPv4Address"

// Indexes of AWS's resources, after those that every snapshot has.
const (
	nvidia = world.Storage + 1 + iota
	amd
	gaudi
	neuron
	neuronCore
	podENI
	efa
	privateIPv4
	nitroSandbox
	nipSlots
	ebsVolumes
)

// EBSDriver is the CSI driver of EBS volumes.
const EBSDriver = "ebs.csi.aws.com"

// Resources names the entries of the vectors that this package makes.
var Resources = []string{
	"cpu", "memory", "pods", "ephemeral-storage",
	string(awsv1.ResourceNVIDIAGPU), string(awsv1.ResourceAMDGPU), string(awsv1.ResourceHabanaGaudi), string(awsv1.ResourceNeuron),
	string(awsv1.ResourceNeuronCore), string(awsv1.ResourcePodENI), string(awsv1.ResourceEFA), string(ResourcePrivateIPv4),
	string(awsv1.ResourceNitroSandbox), string(awsv1.ResourceNIPSlots), world.AttachResource(EBSDriver),
}

const (
	mib = int64(1) << 20
	gib = int64(1) << 30
)

// armReserve is what firmware takes on arm64 before the system sees any memory.
const armReserve = 64 * mib

// defaultPods is what a kubelet runs at most where addresses set no limit.
const defaultPods = 110

// enclavesPerInstance is how many Nitro enclaves EC2 lets one instance run at a time.
const enclavesPerInstance = 4

// Capacity is all that a node of the type has.
func Capacity(m *Type, s *Settings) world.Resources {
	r := make(world.Resources, len(Resources))
	r[world.CPU] = m.VCPUs * 1000
	r[world.Memory] = memory(m, s)
	r[world.PodSlot] = Pods(m, s)
	r[world.Storage] = storage(m, s)
	for _, gpu := range m.GPUs {
		switch strings.ToLower(gpu.Manufacturer) {
		case "nvidia":
			r[nvidia] += gpu.Count
		case "amd":
			r[amd] += gpu.Count
		case "habana":
			r[gaudi] += gpu.Count
		}
	}
	for _, d := range m.Neuron {
		r[neuron] += d.Count
		r[neuronCore] += d.Count * d.Cores
	}
	r[podENI] = branches(m)
	r[efa] = m.MaxEFAs
	if len(s.Interfaces) > 0 {
		r[efa] = s.efaOnly(false)
	}
	if OS(s.Family) == string(corev1.Windows) && m.IPv4PerENI > 0 {
		r[privateIPv4] = m.IPv4PerENI - 1
	}
	r[ebsVolumes] = volumes(m, s)
	if m.Enclaves {
		r[nitroSandbox], r[nipSlots] = enclavesPerInstance, enclavesPerInstance
	}
	return r
}

// volumes is how many EBS volumes a node can attach for pods (N2): what EC2 states, which leaves out the first network interface, local
// disks and accelerators where these share the limit, less the node's own volumes and further interfaces that it is launched with.
// Interfaces that a network plugin adds later count once the driver has seen them.
func volumes(m *Type, s *Settings) int64 {
	if m.EBSAttachments == 0 {
		return 0 // EC2 does not say: no limit is known
	}
	left := m.EBSAttachments - s.ownVolumes()
	if m.EBSShared && len(s.Interfaces) > 1 {
		left -= int64(len(s.Interfaces) - 1)
	}
	return world.AttachLimit(left)
}

// memory is what a node was seen to have, or else what EC2 states less an expected share.
func memory(m *Type, s *Settings) int64 {
	if learned := s.Learned[m.Name]; learned > 0 {
		return learned
	}
	bytes := m.MemoryMiB * mib
	if m.Arch == ARM64 {
		bytes -= armReserve
	}
	overhead := int64(math.Ceil(float64(bytes)*s.MemoryOverhead/float64(mib))) * mib
	return max(bytes-overhead, 0)
}

// Pods is how many pods a node of the type can run.
func Pods(m *Type, s *Settings) int64 {
	pods := int64(defaultPods)
	kubelet := s.kubelet()
	switch {
	case kubelet.MaxPods != nil:
		pods = int64(*kubelet.MaxPods)
	case traits[s.Family].density:
		pods = addressPods(m, s, s.ReservedENIs)
	}
	if per := kubelet.PodsPerCore; per != nil && *per > 0 && traits[s.Family].cores {
		pods = min(pods, int64(*per)*m.VCPUs)
	}
	return pods
}

// addressPods is how many pods the network plugin has addresses for: every interface of the default card but its own
// address, and two pods that use the host's.
func addressPods(m *Type, s *Settings, reserved int64) int64 {
	interfaces := m.DefaultENIs() - reserved - s.efaOnly(true)
	if interfaces <= 0 {
		return 0
	}
	return max(interfaces*(m.IPv4PerENI-1)+2, 0)
}

// storage is the room for pods' files: local disks joined into one, or the volume that the family keeps them on.
func storage(m *Type, s *Settings) int64 {
	if s.RAID0 && m.DiskGB > 0 {
		return m.DiskGB * 1e9
	}
	family := traits[s.Family]
	volume := func(d *awsv1.BlockDeviceMapping) int64 {
		if d.EBS == nil || d.EBS.VolumeSize == nil {
			return 0
		}
		return d.EBS.VolumeSize.Value()
	}
	for _, d := range s.Disks {
		if size := volume(d); d.RootVolume && size > 0 {
			return size
		}
	}
	if s.Family == awsv1.AMIFamilyCustom && len(s.Disks) > 0 {
		if size := volume(s.Disks[len(s.Disks)-1]); size > 0 {
			return size
		}
	}
	for _, d := range s.Disks {
		if size := volume(d); d.DeviceName != nil && *d.DeviceName == family.device && size > 0 {
			return size
		}
	}
	return family.size * gib
}
