package v1beta1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	awsv1 "karpenter/api/aws/v1"
)

// EC2NodeClassSpec says how EC2 instances are made.
// +kubebuilder:validation:XValidation:message="exactly one of role and instanceProfile must be given: role lets Karpenter make the instance profile, instanceProfile names one of yours",rule="has(self.role) != has(self.instanceProfile)"
// +kubebuilder:validation:XValidation:message="amiSelectorTerms must be given with amiFamily Custom: it says which images to use, for example [{id: ami-0123456789abcdef0}]",rule="self.amiFamily != 'Custom' || (has(self.amiSelectorTerms) && self.amiSelectorTerms.size() != 0)"
// +kubebuilder:validation:XValidation:message="amiSelectorTerms must be given with amiFamily Ubuntu: there is no default image, use for example [{name: ubuntu-eks/k8s_1.33/images/*, owner: \"099720109477\"}]",rule="self.amiFamily != 'Ubuntu' || (has(self.amiSelectorTerms) && self.amiSelectorTerms.size() != 0)"
type EC2NodeClassSpec struct {
	// subnetSelectorTerms choose the subnets that nodes are launched into: every subnet that matches any of the terms (1 to
	// 30). Example: [{tags: {karpenter.sh/discovery: my-cluster}}].
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:message="subnetSelectorTerms cannot be empty: give at least one term with tags or id",rule="size(self) > 0"
	// +required
	SubnetSelectorTerms []awsv1.SubnetSelectorTerm `json:"subnetSelectorTerms"`
	// securityGroupSelectorTerms choose the security groups of the nodes: every group that matches any of the terms (1 to
	// 30). Example: [{tags: {karpenter.sh/discovery: my-cluster}}].
	// +kubebuilder:validation:MaxItems=30
	// +kubebuilder:validation:XValidation:message="securityGroupSelectorTerms cannot be empty: give at least one term with tags, id or name",rule="size(self) > 0"
	// +required
	SecurityGroupSelectorTerms []awsv1.SecurityGroupSelectorTerm `json:"securityGroupSelectorTerms"`
	// associatePublicIPAddress says whether nodes get a public IPv4 address. Unset means what the subnet says.
	// +optional
	AssociatePublicIPAddress *bool `json:"associatePublicIPAddress,omitempty"`
	// amiSelectorTerms choose the images: every one that matches any of the terms (at most 30). Left out, it means the
	// newest image of amiFamily, which is the alias family@latest in v1.
	// +kubebuilder:validation:MaxItems=30
	// +optional
	AMISelectorTerms []AMISelectorTerm `json:"amiSelectorTerms,omitempty"`
	// amiFamily says how the image is bootstrapped, and which images are used if amiSelectorTerms is left out: AL2, AL2023,
	// Bottlerocket, Windows2019, Windows2022, Windows2025, Ubuntu, or Custom, which sends userData as it is. Ubuntu and
	// Custom need amiSelectorTerms. In v1 Ubuntu is AL2 with a root volume on /dev/sda1.
	// +kubebuilder:validation:Enum=AL2;AL2023;Bottlerocket;Ubuntu;Custom;Windows2019;Windows2022;Windows2025
	// +required
	AMIFamily *string `json:"amiFamily"`
	// userData is added to what Karpenter sends to boot the node, in the form that the family needs; with Custom it is all that
	// is sent.
	// +optional
	UserData *string `json:"userData,omitempty"`
	// role is the name of the IAM role that nodes use, not its ARN. Exactly one of role and instanceProfile must be given.
	// +kubebuilder:validation:XValidation:message="role cannot be empty: give the name of an IAM role, for example KarpenterNodeRole-my-cluster",rule="size(self) > 0"
	// +optional
	Role string `json:"role,omitempty"`
	// instanceProfile is the name of an instance profile that you manage. Exactly one of role and instanceProfile must be given.
	// +kubebuilder:validation:XValidation:message="instanceProfile cannot be empty: give the name of an instance profile",rule="size(self) > 0"
	// +optional
	InstanceProfile *string `json:"instanceProfile,omitempty"`
	// tags are put on everything that Karpenter makes in EC2. Example: {team: payments}.
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:message="tags cannot have an empty key",rule="!('' in self)"
	// +kubebuilder:validation:XValidation:message="tags: eks:eks-cluster-name is set by Karpenter; remove it",rule="!('eks:eks-cluster-name' in self)"
	// +kubebuilder:validation:XValidation:message="tags: keys that start with kubernetes.io/cluster are set by Karpenter; remove them",rule="!self.exists(k, k.startsWith('kubernetes.io/cluster'))"
	// +kubebuilder:validation:XValidation:message="tags: karpenter.sh/nodepool is set by Karpenter; remove it",rule="!('karpenter.sh/nodepool' in self)"
	// +kubebuilder:validation:XValidation:message="tags: karpenter.sh/nodeclaim is set by Karpenter; remove it",rule="!('karpenter.sh/nodeclaim' in self)"
	// +kubebuilder:validation:XValidation:message="tags: karpenter.k8s.aws/ec2nodeclass is set by Karpenter; remove it",rule="!('karpenter.k8s.aws/ec2nodeclass' in self)"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// blockDeviceMappings are the disks of the nodes (at most 50). Unset means what the AMI family needs.
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:XValidation:message="blockDeviceMappings: at most one entry may have rootVolume: true",rule="size(self.filter(disk, has(disk.rootVolume) && disk.rootVolume)) < 2"
	// +optional
	BlockDeviceMappings []*BlockDeviceMapping `json:"blockDeviceMappings,omitempty"`
	// instanceStorePolicy says what to do with disks that are part of the instance. RAID0 joins them into one and uses it for
	// pods' ephemeral storage. Unset leaves them alone.
	// +optional
	InstanceStorePolicy *awsv1.InstanceStorePolicy `json:"instanceStorePolicy,omitempty"`
	// detailedMonitoring turns on CloudWatch metrics every minute instead of every five, at a price.
	// +optional
	DetailedMonitoring *bool `json:"detailedMonitoring,omitempty"`
	// metadataOptions say how pods and the node can reach the instance metadata service. Left out, session tokens are
	// required and pods can reach it, because the hop limit is 2; the default of v1 is 1.
	// +optional
	MetadataOptions *MetadataOptions `json:"metadataOptions,omitempty"`
	// context is passed to EC2 CreateFleet as its Context, for accounts that were given one by AWS.
	// +optional
	Context *string `json:"context,omitempty"`
}

// AMISelectorTerm matches machine images.
// +kubebuilder:validation:XValidation:message="amiSelectorTerms: each term needs tags, id or name",rule="has(self.tags) || has(self.id) || has(self.name)"
// +kubebuilder:validation:XValidation:message="amiSelectorTerms: id cannot be combined with tags, name or owner in one term; use two terms",rule="!(has(self.id) && (has(self.tags) || has(self.name) || has(self.owner)))"
type AMISelectorTerm struct {
	// tags that an image must all have; the value "*" matches any (at most 20).
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:message="tags: neither key nor value can be empty; use \"*\" as value for any",rule="!self.exists(k, k == '' || self[k] == '')"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// id of one image, for example ami-0123456789abcdef0.
	// +kubebuilder:validation:Pattern=`ami-[0-9a-z]+`
	// +optional
	ID string `json:"id,omitempty"`
	// name of the image; may hold the wildcards * and ?. An object that was written in v1 shows an SSM parameter here as
	// ssm:NAME, and an alias beside amiFamily Custom as alias:NAME.
	// +optional
	Name string `json:"name,omitempty"`
	// owner of the image: a 12-digit account, self, or amazon. Unset means self or amazon.
	// +optional
	Owner string `json:"owner,omitempty"`
}

// BlockDeviceMapping is one disk of a node.
type BlockDeviceMapping struct {
	// deviceName is what the instance calls the disk, for example /dev/xvda.
	// +optional
	DeviceName *string `json:"deviceName,omitempty"`
	// ebs describes the volume.
	// +optional
	EBS *BlockDevice `json:"ebs,omitempty"`
	// rootVolume says that pods' ephemeral storage is on this disk. At most one disk can be so.
	// +optional
	RootVolume bool `json:"rootVolume,omitempty"`
}

// BlockDevice describes an EBS volume.
// +kubebuilder:validation:XValidation:message="ebs needs volumeSize, or snapshotID to take it from",rule="has(self.volumeSize) || has(self.snapshotID)"
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
	// volumeSize with its unit: 1Gi to 59000Gi, 1G to 64000G, 1Ti to 58Ti or 1T to 64T. Example: 100Gi.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:message="volumeSize must be 1Gi to 59000Gi, 1G to 64000G, 1Ti to 58Ti or 1T to 64T, for example 100Gi",rule="self.matches('^[1-9][0-9]{0,4}[GT]i?$') && int(self.find('^[0-9]+')) <= (self.endsWith('Gi') ? 59000 : self.endsWith('G') ? 64000 : self.endsWith('Ti') ? 58 : 64)"
	// +optional
	VolumeSize *resource.Quantity `json:"volumeSize,omitempty"`
	// volumeType of EBS: gp3, gp2, io1, io2, st1, sc1 or standard.
	// +kubebuilder:validation:Enum=standard;io1;io2;gp2;sc1;st1;gp3
	// +optional
	VolumeType *string `json:"volumeType,omitempty"`
}

// MetadataOptions say how the instance metadata service can be reached.
type MetadataOptions struct {
	// httpEndpoint turns the service on or off: enabled or disabled. Left out, it means enabled.
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	HTTPEndpoint *string `json:"httpEndpoint,omitempty"`
	// httpProtocolIPv6 offers the service over IPv6 as well: enabled or disabled. Left out, it means disabled.
	// +kubebuilder:validation:Enum=enabled;disabled
	// +optional
	HTTPProtocolIPv6 *string `json:"httpProtocolIPv6,omitempty"`
	// httpPutResponseHopLimit is how many network hops a token may travel (1 to 64). Left out, it means 2, which lets pods
	// reach the service; v1 means 1.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	// +optional
	HTTPPutResponseHopLimit *int64 `json:"httpPutResponseHopLimit,omitempty"`
	// httpTokens says whether a session token (IMDSv2) is required or optional. Left out, it means required.
	// +kubebuilder:validation:Enum=required;optional
	// +optional
	HTTPTokens *string `json:"httpTokens,omitempty"`
}

// EC2NodeClass says how the instances of a NodePool are launched in AWS. This is the older form: new manifests should use
// karpenter.k8s.aws/v1, and `karpenter convert` rewrites old ones.
// +kubebuilder:object:root=true
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
	Status awsv1.EC2NodeClassStatus `json:"status,omitempty"`
}

// EC2NodeClassList is a list of EC2NodeClass.
// +kubebuilder:object:root=true
type EC2NodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []EC2NodeClass `json:"items"`
}
