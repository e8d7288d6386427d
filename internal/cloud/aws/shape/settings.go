package shape

import awsv1 "karpenter/api/aws/v1"

// Settings is what decides, beside the instance, how much room a node has.
type Settings struct {
	// Family is an AMI family of package awsv1.
	Family     string
	Kubelet    *awsv1.KubeletConfiguration
	Disks      []*awsv1.BlockDeviceMapping
	RAID0      bool
	Interfaces []*awsv1.NetworkInterface
	// ConnectionTracking, NestedVirtualization and Enclaves say whether the class asks for them, Placement the strategy of its
	// placement group, if any.
	ConnectionTracking   bool
	NestedVirtualization bool
	Enclaves             bool
	Placement            string
	// MemoryOverhead is the share of memory that the instance is expected to lack, such as 0.075.
	MemoryOverhead float64
	// ReservedENIs is how many interfaces pods cannot use.
	ReservedENIs int64
	// Learned has memory in bytes that nodes of a type really had, by type name.
	Learned map[string]int64
}

// ForClass returns the settings of a class. What the controller's options say is left to the caller.
func ForClass(class *awsv1.EC2NodeClass) Settings {
	spec := &class.Spec
	return Settings{
		Family: class.AMIFamily(), Kubelet: spec.Kubelet, Disks: spec.BlockDeviceMappings, Interfaces: spec.NetworkInterfaces,
		RAID0:                spec.InstanceStorePolicy != nil && *spec.InstanceStorePolicy == awsv1.InstanceStorePolicyRAID0,
		ConnectionTracking:   spec.ConnectionTracking != nil,
		Enclaves:             class.Enclaves(),
		NestedVirtualization: spec.CPUOptions != nil && spec.CPUOptions.NestedVirtualization != nil && *spec.CPUOptions.NestedVirtualization == "enabled",
	}
}

// familyTraits is what tells AMI families apart in counting.
type familyTraits struct {
	// disks is how many volumes a node has where the class lists none.
	disks int64
	// device is where ephemeral storage lives and size how much of it there is, in GiB.
	device string
	size   int64
	// density limits pods by addresses; cores honours podsPerCore; eniOverhead counts kubelet memory by address limit.
	density, cores, eniOverhead bool
}

var traits = map[string]familyTraits{
	awsv1.AMIFamilyAL2:          {1, "/dev/xvda", 20, true, true, true},
	awsv1.AMIFamilyAL2023:       {1, "/dev/xvda", 20, true, true, true},
	awsv1.AMIFamilyBottlerocket: {2, "/dev/xvdb", 20, true, false, false},
	awsv1.AMIFamilyWindows2019:  {1, "/dev/sda1", 50, false, true, false},
	awsv1.AMIFamilyWindows2022:  {1, "/dev/sda1", 50, false, true, false},
	awsv1.AMIFamilyWindows2025:  {1, "/dev/sda1", 50, false, true, false},
	awsv1.AMIFamilyCustom:       {1, "", 20, true, true, true},
}

func (s *Settings) kubelet() *awsv1.KubeletConfiguration {
	if s.Kubelet == nil {
		return &awsv1.KubeletConfiguration{}
	}
	return s.Kubelet
}

// ownVolumes is how many volumes a node has for itself.
func (s *Settings) ownVolumes() int64 {
	if len(s.Disks) == 0 {
		return traits[s.Family].disks
	}
	n := int64(0)
	for _, d := range s.Disks {
		if d.EBS != nil {
			n++
		}
	}
	return max(n, 1) // the image has a root volume, whether it is listed or not
}

// efaOnly counts configured interfaces of that kind; on card 0 only if first.
func (s *Settings) efaOnly(first bool) int64 {
	n := int64(0)
	for _, i := range s.Interfaces {
		if i.InterfaceType == awsv1.InterfaceTypeEFAOnly && (!first || i.NetworkCardIndex == 0) {
			n++
		}
	}
	return n
}
