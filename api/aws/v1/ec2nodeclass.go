package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EC2NodeClassSpec says how EC2 instances are made. Fields marked "drifts" replace the nodes of the class when changed.
// +kubebuilder:validation:XValidation:message="exactly one of role and instanceProfile must be given: role lets Karpenter make the instance profile, instanceProfile names one of yours",rule="has(self.role) != has(self.instanceProfile)"
// +kubebuilder:validation:XValidation:message="amiFamily must be given when amiSelectorTerms has no alias: one of AL2, AL2023, Bottlerocket, Custom, Windows2019, Windows2022, Windows2025",rule="has(self.amiFamily) || self.amiSelectorTerms.exists(x, has(x.alias))"
// +kubebuilder:validation:XValidation:message="amiFamily must be Custom or the family of the alias in amiSelectorTerms, for example AL2023 with al2023@latest; it can also be left out",rule="!has(self.amiFamily) || self.amiFamily == 'Custom' || self.amiSelectorTerms.all(x, !has(x.alias) || x.alias.split('@')[0] == self.amiFamily.lowerAscii())"
type EC2NodeClassSpec struct {
	// subnetSelectorTerms choose the subnets that nodes are launched into: every subnet that matches any of the terms (1 to
	// 30). Conditions within a term are combined with AND. Example: [{tags: {karpenter.sh/discovery: my-cluster}}].
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:message="subnetSelectorTerms cannot be empty: give at least one term with tags or id",rule="size(self) > 0"
	// +required
	SubnetSelectorTerms []SubnetSelectorTerm `json:"subnetSelectorTerms" hash:"ignore"`
	// securityGroupSelectorTerms choose the security groups of the nodes: every group that matches any of the terms (1 to
	// 30). Conditions within a term are combined with AND. Example: [{tags: {karpenter.sh/discovery: my-cluster}}].
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:message="securityGroupSelectorTerms cannot be empty: give at least one term with tags, id or name",rule="size(self) > 0"
	// +required
	SecurityGroupSelectorTerms []SecurityGroupSelectorTerm `json:"securityGroupSelectorTerms" hash:"ignore"`
	// capacityReservationSelectorTerms choose the EC2 capacity reservations that nodes may be launched into: every one that
	// matches any of the terms (at most 30). Unset means none. Example: [{id: cr-0123456789abcdef0}].
	// +kubebuilder:validation:MaxItems=30
	// +optional
	CapacityReservationSelectorTerms []CapacityReservationSelectorTerm `json:"capacityReservationSelectorTerms,omitempty" hash:"ignore"`
	// placementGroupSelector names the one placement group that nodes are launched into. Unset means none. Drifts.
	// +optional
	PlacementGroupSelector *PlacementGroupSelector `json:"placementGroupSelector,omitempty"`
	// associatePublicIPAddress says whether nodes get a public IPv4 address. Unset means what the subnet says. Drifts.
	// +optional
	AssociatePublicIPAddress *bool `json:"associatePublicIPAddress,omitempty"`
	// ipPrefixCount is how many /28 IPv4 (or /80 IPv6) prefixes the first network interface gets at launch. Unset means none.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	IPPrefixCount *int32 `json:"ipPrefixCount,omitempty" hash:"ignore"`
	// amiSelectorTerms choose the images: every one that matches any of the terms (1 to 30); the newest that suits an
	// instance type is used. Example: [{alias: al2023@latest}]. An alias must be the only term.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:message="amiSelectorTerms: alias must be the only term, because it decides the image alone",rule="size(self) == 1 || self.all(term, !has(term.alias))"
	// +required
	AMISelectorTerms []AMISelectorTerm `json:"amiSelectorTerms" hash:"ignore"`
	// amiFamily says how the image is bootstrapped: AL2, AL2023, Bottlerocket, Windows2019, Windows2022, Windows2025, or
	// Custom, which sends userData as it is. Taken from the alias if left out; needed when there is no alias. Drifts.
	// +kubebuilder:validation:Enum=AL2;AL2023;Bottlerocket;Custom;Windows2019;Windows2022;Windows2025
	// +optional
	AMIFamily *string `json:"amiFamily,omitempty" hash:"ignore"`
	// userData is added to what Karpenter sends to boot the node, in the form that the family needs: MIME or shell for AL2 and
	// AL2023, TOML for Bottlerocket, PowerShell for Windows; with Custom it is all that is sent. Drifts.
	// +optional
	UserData *string `json:"userData,omitempty"`
	// role is the name of the IAM role that nodes use, not its ARN, for example KarpenterNodeRole-my-cluster. Karpenter
	// makes the instance profile for it. Exactly one of role and instanceProfile must be given. Drifts.
	// +kubebuilder:validation:XValidation:message="role cannot be empty: give the name of an IAM role, for example KarpenterNodeRole-my-cluster",rule="size(self) > 0"
	// +optional
	Role string `json:"role,omitempty"`
	// instanceProfile is the name of an instance profile that you manage. Exactly one of role and instanceProfile must be
	// given. Drifts.
	// +kubebuilder:validation:XValidation:message="instanceProfile cannot be empty: give the name of an instance profile",rule="size(self) > 0"
	// +optional
	InstanceProfile *string `json:"instanceProfile,omitempty"`
	// tags are put on everything that Karpenter makes in EC2: instances, volumes, network interfaces, launch templates,
	// fleets and spot requests. Example: {team: payments}. Drifts.
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:message="tags cannot have an empty key",rule="!('' in self)"
	// +kubebuilder:validation:XValidation:message="tags: eks:eks-cluster-name is set by Karpenter; remove it",rule="!('eks:eks-cluster-name' in self)"
	// +kubebuilder:validation:XValidation:message="tags: keys that start with kubernetes.io/cluster are set by Karpenter; remove them",rule="!self.exists(k, k.startsWith('kubernetes.io/cluster'))"
	// +kubebuilder:validation:XValidation:message="tags: karpenter.sh/nodepool is set by Karpenter; remove it",rule="!('karpenter.sh/nodepool' in self)"
	// +kubebuilder:validation:XValidation:message="tags: karpenter.sh/nodeclaim is set by Karpenter; remove it",rule="!('karpenter.sh/nodeclaim' in self)"
	// +kubebuilder:validation:XValidation:message="tags: karpenter.k8s.aws/ec2nodeclass is set by Karpenter; remove it",rule="!('karpenter.k8s.aws/ec2nodeclass' in self)"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// kubelet sets fields of the kubelet's configuration file. Drifts.
	// +optional
	Kubelet *KubeletConfiguration `json:"kubelet,omitempty"`
	// blockDeviceMappings are the disks of the nodes (at most 50). Unset means what the AMI family needs, for example one gp3
	// root volume of 20Gi. Drifts; order does not matter.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:XValidation:message="blockDeviceMappings: at most one entry may have rootVolume: true",rule="size(self.filter(disk, has(disk.rootVolume) && disk.rootVolume)) < 2"
	// +optional
	BlockDeviceMappings []*BlockDeviceMapping `json:"blockDeviceMappings,omitempty"`
	// instanceStorePolicy says what to do with disks that are part of the instance. RAID0 joins them into one and uses it for
	// pods' ephemeral storage. Unset leaves them alone. Drifts.
	// +optional
	InstanceStorePolicy *InstanceStorePolicy `json:"instanceStorePolicy,omitempty"`
	// networkInterfaces are the interfaces to attach at launch (at most 150), instead of those that Karpenter would choose. One
	// of them must be {networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}. Drifts.
	// +kubebuilder:validation:MaxItems=150
	// +kubebuilder:validation:XValidation:message="networkInterfaces must contain the primary one: networkCardIndex 0, deviceIndex 0, interfaceType interface",rule="size(self) == 0 || self.exists(nic, nic.interfaceType == 'interface' && nic.networkCardIndex + nic.deviceIndex == 0)"
	// +kubebuilder:validation:XValidation:message="networkInterfaces: no two entries may have the same networkCardIndex and deviceIndex",rule="self.all(x, self.exists_one(y, y.networkCardIndex == x.networkCardIndex && y.deviceIndex == x.deviceIndex))"
	// +kubebuilder:validation:XValidation:message="networkInterfaces: at most one entry per networkCardIndex may have interfaceType efa-only",rule="self.all(x, x.interfaceType != 'efa-only' || self.exists_one(y, y.networkCardIndex == x.networkCardIndex && y.interfaceType == 'efa-only'))"
	// +optional
	NetworkInterfaces []*NetworkInterface `json:"networkInterfaces,omitempty"`
	// detailedMonitoring turns on CloudWatch metrics every minute instead of every five, at a price. Default: false. Drifts.
	// +optional
	DetailedMonitoring *bool `json:"detailedMonitoring,omitempty"`
	// metadataOptions say how pods and the node can reach the instance metadata service. The default asks for session tokens and
	// lets only the node itself, not pods, reach it. Drifts.
	// +kubebuilder:default={httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 1, httpTokens: required}
	// +optional
	MetadataOptions *MetadataOptions `json:"metadataOptions,omitempty"`
	// connectionTracking sets how long security groups remember idle connections. Unset means EC2's own times. Drifts.
	// +optional
	ConnectionTracking *ConnectionTracking `json:"connectionTracking,omitempty"`
	// context is passed to EC2 CreateFleet as its Context, for accounts that were given one by AWS. Drifts.
	// +optional
	Context *string `json:"context,omitempty"`
	// cpuOptions set features of the processor. Drifts.
	// +optional
	CPUOptions *CPUOptions `json:"cpuOptions,omitempty"`
	// enclaveOptions say whether nodes can run AWS Nitro enclaves. Drifts.
	// +optional
	EnclaveOptions *EnclaveOptions `json:"enclaveOptions,omitempty"`
}

// EC2NodeClass says how the instances of a NodePool are launched in AWS.
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=ec2nodeclasses,scope=Cluster,categories=karpenter,shortName={ec2nc,ec2ncs}
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Role",type="string",JSONPath=".spec.role",priority=1
type EC2NodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how EC2 instances are made.
	// +required
	Spec EC2NodeClassSpec `json:"spec"`
	// status is what Karpenter found in AWS for this spec; Karpenter writes it.
	// +optional
	Status EC2NodeClassStatus `json:"status,omitempty"`
}

// Enclaves says whether every node of the class can run Nitro enclaves.
func (c *EC2NodeClass) Enclaves() bool {
	o := c.Spec.EnclaveOptions
	return o != nil && o.Enabled != nil && *o.Enabled
}

// EC2NodeClassList is a list of EC2NodeClass.
// +kubebuilder:object:root=true
type EC2NodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EC2NodeClass `json:"items"`
}
