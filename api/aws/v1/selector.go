package v1

// SubnetSelectorTerm matches subnets by tags or by id.
// +kubebuilder:validation:XValidation:message="subnetSelectorTerms: each term needs tags or id",rule="has(self.tags) || has(self.id)"
// +kubebuilder:validation:XValidation:message="subnetSelectorTerms: id cannot be combined with tags in one term; use two terms",rule="!(has(self.id) && has(self.tags))"
type SubnetSelectorTerm struct {
	// tags that a subnet must all have; the value "*" matches any (at most 20). Example: {karpenter.sh/discovery: my-cluster}.
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:message="tags: neither key nor value can be empty; use \"*\" as value for any",rule="!self.exists(k, k == '' || self[k] == '')"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// id of one subnet, for example subnet-0123456789abcdef0.
	// +kubebuilder:validation:Pattern=`subnet-[0-9a-z]+`
	// +optional
	ID string `json:"id,omitempty"`
}

// SecurityGroupSelectorTerm matches security groups by tags, by id or by name.
// +kubebuilder:validation:XValidation:message="securityGroupSelectorTerms: each term needs tags, id or name",rule="has(self.tags) || has(self.id) || has(self.name)"
// +kubebuilder:validation:XValidation:message="securityGroupSelectorTerms: id cannot be combined with tags or name in one term; use two terms",rule="!(has(self.id) && (has(self.tags) || has(self.name)))"
// +kubebuilder:validation:XValidation:message="securityGroupSelectorTerms: name cannot be combined with tags or id in one term; use two terms",rule="!(has(self.name) && (has(self.tags) || has(self.id)))"
type SecurityGroupSelectorTerm struct {
	// tags that a security group must all have; the value "*" matches any (at most 20). Example: {karpenter.sh/discovery: my-cluster}.
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:message="tags: neither key nor value can be empty; use \"*\" as value for any",rule="!self.exists(k, k == '' || self[k] == '')"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// id of one security group, for example sg-0123456789abcdef0.
	// +kubebuilder:validation:Pattern=`sg-[0-9a-z]+`
	// +optional
	ID string `json:"id,omitempty"`
	// name of the security group as EC2 knows it (its group name, not a Name tag).
	// +optional
	Name string `json:"name,omitempty"`
}

// CapacityReservationSelectorTerm matches EC2 capacity reservations.
// +kubebuilder:validation:XValidation:message="capacityReservationSelectorTerms: each term needs tags, id or instanceMatchCriteria",rule="has(self.tags) || has(self.id) || has(self.instanceMatchCriteria)"
// +kubebuilder:validation:XValidation:message="capacityReservationSelectorTerms: id cannot be combined with tags, ownerID or instanceMatchCriteria in one term; use two terms",rule="!(has(self.id) && (has(self.tags) || has(self.ownerID) || has(self.instanceMatchCriteria)))"
type CapacityReservationSelectorTerm struct {
	// tags that a reservation must all have; the value "*" matches any (at most 20).
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:message="tags: neither key nor value can be empty; use \"*\" as value for any",rule="!self.exists(k, k == '' || self[k] == '')"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// id of one reservation, for example cr-0123456789abcdef0.
	// +kubebuilder:validation:Pattern=`^cr-[0-9a-z]+$`
	// +optional
	ID string `json:"id,omitempty"`
	// ownerID is the 12-digit account that owns the reservation. Unset means any that can be used.
	// +kubebuilder:validation:Pattern=`^[0-9]{12}$`
	// +optional
	OwnerID string `json:"ownerID,omitempty"`
	// instanceMatchCriteria of the reservation: open (any matching instance may use it) or targeted (only those that name it).
	// +kubebuilder:validation:Enum=open;targeted
	// +optional
	InstanceMatchCriteria string `json:"instanceMatchCriteria,omitempty"`
}

// PlacementGroupSelector names one placement group.
// +kubebuilder:validation:XValidation:message="placementGroupSelector: exactly one of name and id must be given",rule="has(self.name) != has(self.id)"
type PlacementGroupSelector struct {
	// name of the placement group.
	// +kubebuilder:validation:MinLength=1
	// +optional
	Name *string `json:"name,omitempty"`
	// id of the placement group, for example pg-0123456789abcdef0.
	// +kubebuilder:validation:Pattern=`^pg-[0-9a-z]+$`
	// +optional
	ID *string `json:"id,omitempty"`
}

// AMISelectorTerm matches machine images.
// +kubebuilder:validation:XValidation:message="amiSelectorTerms: each term needs alias, tags, id, name or ssmParameter",rule="has(self.tags) || has(self.id) || has(self.name) || has(self.alias) || has(self.ssmParameter)"
// +kubebuilder:validation:XValidation:message="amiSelectorTerms: id cannot be combined with alias, tags, name or owner in one term; use two terms",rule="!(has(self.id) && (has(self.alias) || has(self.tags) || has(self.name) || has(self.owner)))"
// +kubebuilder:validation:XValidation:message="amiSelectorTerms: alias cannot be combined with id, tags, name or owner",rule="!(has(self.alias) && (has(self.id) || has(self.tags) || has(self.name) || has(self.owner)))"
type AMISelectorTerm struct {
	// alias names an image that AWS publishes, as family@version: al2, al2023, bottlerocket, windows2019, windows2022 or
	// windows2025, with latest or a pinned version, for example al2023@v20250505 or bottlerocket@v1.20.4. Windows only knows
	// latest. Pin a version in production: with latest, nodes are replaced when AWS publishes a new image.
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:XValidation:message="alias must be written family@version, for example al2023@latest",rule="self.matches('^[0-9A-Za-z]+@.+$')"
	// +kubebuilder:validation:XValidation:message="alias must name a family that AWS publishes: al2, al2023, bottlerocket, windows2019, windows2022 or windows2025",rule="self.matches('^(al2|al2023|bottlerocket|windows20(19|22|25))(@|$)')"
	// +kubebuilder:validation:XValidation:message="alias of a windows family must have the version latest, for example windows2022@latest",rule="!self.startsWith('windows') || self.endsWith('@latest')"
	// +optional
	Alias string `json:"alias,omitempty"`
	// tags that an image must all have; the value "*" matches any (at most 20).
	// +kubebuilder:validation:MaxProperties=20
	// +kubebuilder:validation:XValidation:message="tags: neither key nor value can be empty; use \"*\" as value for any",rule="!self.exists(k, k == '' || self[k] == '')"
	// +optional
	Tags map[string]string `json:"tags,omitempty"`
	// id of one image, for example ami-0123456789abcdef0.
	// +kubebuilder:validation:Pattern=`ami-[0-9a-z]+`
	// +optional
	ID string `json:"id,omitempty"`
	// name of the image; may hold the wildcards * and ?. Example: my-golden-image-*.
	// +optional
	Name string `json:"name,omitempty"`
	// owner of the image: a 12-digit account, self, or amazon. Unset means self or amazon.
	// +optional
	Owner string `json:"owner,omitempty"`
	// ssmParameter names an SSM parameter, also by ARN, that holds the id of an image.
	// +optional
	SSMParameter string `json:"ssmParameter,omitempty"`
}
