package v1

import "k8s.io/apimachinery/pkg/api/resource"

// BlockDeviceMapping is one disk of a node.
type BlockDeviceMapping struct {
	// deviceName is what the instance calls the disk, for example /dev/xvda.
	// +optional
	DeviceName *string `json:"deviceName,omitempty"`
	// ebs describes the volume.
	// +optional
	EBS *BlockDevice `json:"ebs,omitempty"`
	// rootVolume says that pods' ephemeral storage is on this disk, so that Karpenter counts its size. At most one disk can be so.
	// +optional
	RootVolume bool `json:"rootVolume,omitempty"`
}

// BlockDevice describes an EBS volume.
// +kubebuilder:validation:XValidation:message="ebs needs volumeSize, or snapshotID to take it from",rule="has(self.volumeSize) || has(self.snapshotID)"
// +kubebuilder:validation:XValidation:message="ebs: volumeInitializationRate needs snapshotID",rule="has(self.volumeInitializationRate) ? has(self.snapshotID) && size(self.snapshotID) > 0 : true"
type BlockDevice struct {
	// deleteOnTermination removes the volume with the instance.
	// +optional
	DeleteOnTermination *bool `json:"deleteOnTermination,omitempty"`
	// encrypted says whether the volume is encrypted; a few old instance types cannot use one that is.
	// +optional
	Encrypted *bool `json:"encrypted,omitempty"`
	// iops is how many operations per second the volume is made for; io1, io2 and gp3 only.
	// +optional
	IOPS *int64 `json:"iops,omitempty"`
	// kmsKeyID is the key that encrypts the volume: its id, alias or ARN.
	// +optional
	KMSKeyID *string `json:"kmsKeyID,omitempty"`
	// snapshotID is the snapshot that the volume starts as.
	// +optional
	SnapshotID *string `json:"snapshotID,omitempty"`
	// throughput in MiB per second; gp3 only.
	// +optional
	Throughput *int64 `json:"throughput,omitempty"`
	// volumeInitializationRate is how fast the snapshot is copied, in MiB per second (100 to 300). Needs snapshotID.
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=300
	// +optional
	VolumeInitializationRate *int32 `json:"volumeInitializationRate,omitempty"`
	// volumeSize with its unit: 1Gi to 59000Gi, 1G to 64000G, 1Ti to 58Ti or 1T to 64T. Example: 100Gi.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:message="volumeSize must be 1Gi to 59000Gi, 1G to 64000G, 1Ti to 58Ti or 1T to 64T, for example 100Gi",rule="self.matches('^[1-9][0-9]{0,4}[GT]i?$') && int(self.find('^[0-9]+')) <= (self.endsWith('Gi') ? 59000 : self.endsWith('G') ? 64000 : self.endsWith('Ti') ? 58 : 64)"
	// +optional
	VolumeSize *resource.Quantity `json:"volumeSize,omitempty" hash:"string"`
	// volumeType of EBS: gp3, gp2, io1, io2, st1, sc1 or standard.
	// +kubebuilder:validation:Enum=standard;io1;io2;gp2;sc1;st1;gp3
	// +optional
	VolumeType *string `json:"volumeType,omitempty"`
}

// InstanceStorePolicy says what to do with disks that are part of the instance.
// +kubebuilder:validation:Enum=RAID0
type InstanceStorePolicy string

// InstanceStorePolicyRAID0 joins the local disks into one for pods' ephemeral storage.
const InstanceStorePolicyRAID0 InstanceStorePolicy = "RAID0"

// NetworkInterface is one interface that an instance is launched with.
type NetworkInterface struct {
	// networkCardIndex is the network card that the interface sits on, from 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	NetworkCardIndex int32 `json:"networkCardIndex"`
	// deviceIndex is the position of the interface on its card, from 0.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +required
	DeviceIndex int32 `json:"deviceIndex"`
	// interfaceType is interface for IP traffic, or efa-only for an EFA device without an IP address.
	// +required
	InterfaceType InterfaceType `json:"interfaceType"`
}

// InterfaceType is the kind of a network interface.
// +kubebuilder:validation:Enum=interface;efa-only
type InterfaceType string

// The kinds of network interface.
const (
	InterfaceTypeInterface InterfaceType = "interface"
	InterfaceTypeEFAOnly   InterfaceType = "efa-only"
)

// MetadataOptions say how the instance metadata service can be reached.
type MetadataOptions struct {
	// httpEndpoint turns the service on or off: enabled or disabled. Default: enabled.
	// +kubebuilder:default=enabled
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	HTTPEndpoint *string `json:"httpEndpoint,omitempty"`
	// httpProtocolIPv6 offers the service over IPv6 as well: enabled or disabled. Default: disabled.
	// +kubebuilder:default=disabled
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	HTTPProtocolIPv6 *string `json:"httpProtocolIPv6,omitempty"`
	// httpPutResponseHopLimit is how many network hops a token may travel (1 to 64); 1 keeps it from pods that do not use the host network.
	// Default: 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	HTTPPutResponseHopLimit *int64 `json:"httpPutResponseHopLimit,omitempty"`
	// httpTokens says whether a session token (IMDSv2) is required or optional. Default: required.
	// +kubebuilder:default=required
	// +kubebuilder:validation:Enum=required;optional
	// +optional
	HTTPTokens *string `json:"httpTokens,omitempty"`
}

// ConnectionTracking sets how long security groups remember idle connections.
// +kubebuilder:validation:XValidation:message="connectionTracking needs at least one of tcpEstablishedTimeout, udpStreamTimeout and udpTimeout",rule="[has(self.udpTimeout), has(self.udpStreamTimeout), has(self.tcpEstablishedTimeout)].exists(given, given)"
type ConnectionTracking struct {
	// tcpEstablishedTimeout is how many seconds an open TCP connection may be silent (60 to 432000).
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=432000
	// +optional
	TCPEstablishedTimeout *int32 `json:"tcpEstablishedTimeout,omitempty"`
	// udpStreamTimeout is how many seconds a UDP conversation of several exchanges may be silent (60 to 180).
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=180
	// +optional
	UDPStreamTimeout *int32 `json:"udpStreamTimeout,omitempty"`
	// udpTimeout is the same for UDP that went one way only, or once there and back (30 to 60).
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=60
	// +optional
	UDPTimeout *int32 `json:"udpTimeout,omitempty"`
}

// CPUOptions set features of the processor.
type CPUOptions struct {
	// nestedVirtualization lets the node run virtual machines: enabled or disabled. Only some instance types can.
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	NestedVirtualization *string `json:"nestedVirtualization,omitempty"`
}

// EnclaveOptions are about AWS Nitro enclaves.
type EnclaveOptions struct {
	// enabled lets nodes run enclaves. Instance types that cannot are not launched then. Unset means only if a pod asks for an enclave.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}
