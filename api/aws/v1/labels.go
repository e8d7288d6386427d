package v1

import (
	corev1 "k8s.io/api/core/v1"

	karpv1 "karpenter/api/karpenter/v1"
)

// Labels that describe an EC2 instance. They are well known: a requirement may use them without defining them.
const (
	// LabelNodeClass names the EC2NodeClass.
	LabelNodeClass = Group + "/ec2nodeclass"

	LabelInstanceCategory                = Group + "/instance-category"   // c of c6i.large
	LabelInstanceFamily                  = Group + "/instance-family"     // c6i of c6i.large
	LabelInstanceGeneration              = Group + "/instance-generation" // 6 of c6i.large
	LabelInstanceSize                    = Group + "/instance-size"       // large of c6i.large
	LabelInstanceCPU                     = Group + "/instance-cpu"        // virtual CPUs
	LabelInstanceCPUManufacturer         = Group + "/instance-cpu-manufacturer"
	LabelInstanceCPUClockSpeedMHz        = Group + "/instance-cpu-sustained-clock-speed-mhz"
	LabelInstanceMemory                  = Group + "/instance-memory"            // MiB
	LabelInstanceEBSBandwidth            = Group + "/instance-ebs-bandwidth"     // Mbit/s, at most
	LabelInstanceNetworkBandwidth        = Group + "/instance-network-bandwidth" // Mbit/s, baseline
	LabelInstanceLocalNVMe               = Group + "/instance-local-nvme"        // GB
	LabelInstanceHypervisor              = Group + "/instance-hypervisor"
	LabelInstanceEncryptionInTransit     = Group + "/instance-encryption-in-transit-supported"
	LabelInstanceCapabilityFlex          = Group + "/instance-capability-flex"
	LabelInstanceGPUName                 = Group + "/instance-gpu-name"
	LabelInstanceGPUManufacturer         = Group + "/instance-gpu-manufacturer"
	LabelInstanceGPUCount                = Group + "/instance-gpu-count"
	LabelInstanceGPUMemory               = Group + "/instance-gpu-memory" // MiB of each
	LabelInstanceAcceleratorName         = Group + "/instance-accelerator-name"
	LabelInstanceAcceleratorManufacturer = Group + "/instance-accelerator-manufacturer"
	LabelInstanceAcceleratorCount        = Group + "/instance-accelerator-count"
	LabelInstanceTenancy                 = Group + "/instance-tenancy"
	LabelNitroSandbox                    = Group + "/nitro-sandbox"

	LabelCapacityReservationID            = Group + "/capacity-reservation-id"
	LabelCapacityReservationType          = Group + "/capacity-reservation-type"
	LabelCapacityReservationInterruptible = Group + "/capacity-reservation-interruptible"
	LabelPlacementGroupID                 = Group + "/placement-group-id"
	LabelPlacementGroupPartition          = Group + "/placement-group-partition"

	// LabelZoneID names the zone in the way that is the same in every account, for example use1-az1.
	LabelZoneID = "topology.k8s.aws/zone-id"
	// LabelCSIZone is how volumes of the EBS driver name a zone.
	LabelCSIZone = "topology.ebs.csi.aws.com/zone"
)

// Annotations.
const (
	// EC2NodeClassHashAnnotationKey holds the drift hash, see EC2NodeClass.Hash.
	EC2NodeClassHashAnnotationKey = Group + "/ec2nodeclass-hash"
	// EC2NodeClassHashVersionAnnotationKey holds the EC2NodeClassHashVersion that made the hash.
	EC2NodeClassHashVersionAnnotationKey = Group + "/ec2nodeclass-hash-version"
	// TaggedAnnotationKey is "true" on a claim whose instance has got its late tags.
	TaggedAnnotationKey = Group + "/tagged"
	// InstanceProfileAnnotationKey names, on a claim, the instance profile it was launched with.
	InstanceProfileAnnotationKey = Group + "/instance-profile-name"

	// CompatibilityGroup is the domain of annotations that carry facts across versions.
	CompatibilityGroup = "compatibility." + Group
	// ClusterNameTaggedAnnotationKey is "true" on a claim whose instance carries TagEKSClusterName.
	ClusterNameTaggedAnnotationKey = CompatibilityGroup + "/cluster-name-tagged"
)

// TerminationFinalizer keeps a class until its launch templates and instance profiles are gone.
const TerminationFinalizer = Group + "/termination"

// Tags on what is made in AWS.
const (
	TagName           = "Name"
	TagNodePool       = karpv1.NodePoolLabelKey
	TagNodeClaim      = karpv1.Group + "/nodeclaim"
	TagNodeClass      = LabelNodeClass
	TagEKSClusterName = "eks:eks-cluster-name"
	// TagClusterPrefix is followed by the name of the cluster; the value is TagClusterOwned.
	TagClusterPrefix = "kubernetes.io/cluster/"
	TagClusterOwned  = "owned"
)

// Resources that instances can have beside Kubernetes' own.
const (
	ResourceNVIDIAGPU    corev1.ResourceName = "nvidia.com/gpu"
	ResourceAMDGPU       corev1.ResourceName = "amd.com/gpu"
	ResourceNeuron       corev1.ResourceName = "aws.amazon.com/neuron"
	ResourceNeuronCore   corev1.ResourceName = "aws.amazon.com/neuroncore"
	ResourceHabanaGaudi  corev1.ResourceName = "habana.ai/gaudi"
	ResourcePodENI       corev1.ResourceName = "vpc.amazonaws.com/pod-eni"
	ResourceEFA          corev1.ResourceName = "vpc.amazonaws.com/efa"
	ResourceNitroSandbox corev1.ResourceName = "eks.amazonaws.com/nitro-sandbox"
	// ResourceNIPSlots is what ResourceNitroSandbox was called until v1.14.
	ResourceNIPSlots corev1.ResourceName = "eks.amazonaws.com/nip-slots"
)

// wellKnownLabels are the keys of this domain that a requirement or a template label may use.
var wellKnownLabels = []string{
	LabelNodeClass,
	LabelInstanceCategory, LabelInstanceFamily, LabelInstanceGeneration, LabelInstanceSize,
	LabelInstanceCPU, LabelInstanceCPUManufacturer, LabelInstanceCPUClockSpeedMHz, LabelInstanceMemory,
	LabelInstanceEBSBandwidth, LabelInstanceNetworkBandwidth, LabelInstanceLocalNVMe, LabelInstanceHypervisor,
	LabelInstanceEncryptionInTransit, LabelInstanceCapabilityFlex,
	LabelInstanceGPUName, LabelInstanceGPUManufacturer, LabelInstanceGPUCount, LabelInstanceGPUMemory,
	LabelInstanceAcceleratorName, LabelInstanceAcceleratorManufacturer, LabelInstanceAcceleratorCount,
	LabelInstanceTenancy, LabelNitroSandbox,
	LabelCapacityReservationID, LabelCapacityReservationType, LabelCapacityReservationInterruptible,
	LabelPlacementGroupID, LabelPlacementGroupPartition,
}

// LabelRules returns the rules for label keys on AWS: the core ones, the labels that describe EC2 instances, and the closed
// domain karpenter.k8s.aws.
func LabelRules() karpv1.LabelRules {
	rules := karpv1.CoreLabelRules()
	rules.WellKnown.Insert(wellKnownLabels...)
	rules.WellKnown.Insert(LabelZoneID)
	rules.Restricted = append(rules.Restricted, Group)
	rules.Aliases[LabelCSIZone] = corev1.LabelTopologyZone
	return rules
}
