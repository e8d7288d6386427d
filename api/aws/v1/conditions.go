package v1

import karpv1 "karpenter/api/karpenter/v1"

// Conditions of an EC2NodeClass. Ready sums up all of them.
const (
	// ConditionAMIsReady says whether amiSelectorTerms found images.
	ConditionAMIsReady = "AMIsReady"
	// ConditionSubnetsReady says whether subnetSelectorTerms found subnets.
	ConditionSubnetsReady = "SubnetsReady"
	// ConditionSecurityGroupsReady says whether securityGroupSelectorTerms found security groups.
	ConditionSecurityGroupsReady = "SecurityGroupsReady"
	// ConditionInstanceProfileReady says whether there is an instance profile to launch with.
	ConditionInstanceProfileReady = "InstanceProfileReady"
	// ConditionValidationSucceeded says whether the class passed the checks that the API server cannot make, among them
	// trying the calls that launch an instance.
	ConditionValidationSucceeded = karpv1.ConditionValidationSucceeded
	// ConditionPlacementGroupReady says whether placementGroupSelector found its group, or there is none to find.
	ConditionPlacementGroupReady = "PlacementGroupReady"
	// ConditionCapacityReservationsReady says whether the capacity reservations were looked up. It exists only where the
	// use of reserved capacity is turned on.
	ConditionCapacityReservationsReady = "CapacityReservationsReady"
)

// Reasons of conditions that look something up in AWS.
const (
	// ReasonAMINotFound means that no image matches.
	ReasonAMINotFound = "AMINotFound"
	// ReasonUnsupportedAlias means that the alias cannot be used with this version of Kubernetes, or not at all.
	ReasonUnsupportedAlias = "UnsupportedAlias"
	// ReasonSubnetsNotFound means that no subnet matches.
	ReasonSubnetsNotFound = "SubnetsNotFound"
	// ReasonSecurityGroupsNotFound means that no security group matches.
	ReasonSecurityGroupsNotFound = "SecurityGroupsNotFound"
	// ReasonPlacementGroupNotFound means that the placement group does not exist.
	ReasonPlacementGroupNotFound = "PlacementGroupNotFound"
	// ReasonPlacementGroupResolutionFailed means that AWS did not answer about the placement group.
	ReasonPlacementGroupResolutionFailed = "PlacementGroupResolutionFailed"
)

// Reasons of ValidationSucceeded.
const (
	// ReasonClusterCIDRResolutionFailed means that the cluster's service addresses are not known, which AL2023 needs.
	ReasonClusterCIDRResolutionFailed = "ClusterCIDRResolutionFailed"
	// ReasonInvalidKubeletConfiguration means that a field of kubelet has a value that it cannot have.
	ReasonInvalidKubeletConfiguration = "InvalidKubeletConfiguration"
	// ReasonUnsupportedKubeletConfiguration means that the AMI family cannot carry a field of kubelet.
	ReasonUnsupportedKubeletConfiguration = "UnsupportedKubeletConfiguration"
	// ReasonKubeletExpressionsDisabled means that kubelet holds expressions, which are turned off.
	ReasonKubeletExpressionsDisabled = "KubeletExpressionsDisabled"
	// ReasonKubeletExpressionInvalid means that an expression in kubelet cannot be read.
	ReasonKubeletExpressionInvalid = "KubeletExpressionInvalid"
	// ReasonKubeletExpressionEvaluationFailed means that an expression in kubelet has no value for some instance type.
	ReasonKubeletExpressionEvaluationFailed = "KubeletExpressionEvaluationFailed"
	// ReasonDependenciesNotReady means that another condition of the class must be True first.
	ReasonDependenciesNotReady = "DependenciesNotReady"
	// ReasonTagValidationFailed means that a tag of the class is one that Karpenter sets.
	ReasonTagValidationFailed = "TagValidationFailed"
	// ReasonCreateLaunchTemplateAuthCheckFailed means that IAM does not allow ec2:CreateLaunchTemplate.
	ReasonCreateLaunchTemplateAuthCheckFailed = "CreateLaunchTemplateAuthCheckFailed"
	// ReasonCreateFleetAuthCheckFailed means that IAM does not allow ec2:CreateFleet.
	ReasonCreateFleetAuthCheckFailed = "CreateFleetAuthCheckFailed"
	// ReasonRunInstancesAuthCheckFailed means that IAM does not allow ec2:RunInstances.
	ReasonRunInstancesAuthCheckFailed = "RunInstancesAuthCheckFailed"
	// ReasonInstanceProfileNotFound means that EC2 does not know the instance profile.
	ReasonInstanceProfileNotFound = "InstanceProfileNotFound"
	// ReasonUserDataSizeLimitExceeded means that userData is longer than the 16 KB that EC2 takes.
	ReasonUserDataSizeLimitExceeded = "UserDataSizeLimitExceeded"
)

// Reasons of the Drifted condition of claims, in the order in which they are looked for.
const (
	ReasonNodeClassDrift           = "NodeClassDrift"
	ReasonAMIDrift                 = "AMIDrift"
	ReasonSecurityGroupDrift       = "SecurityGroupDrift"
	ReasonSubnetDrift              = "SubnetDrift"
	ReasonCapacityReservationDrift = "CapacityReservationDrift"
	ReasonPlacementGroupDrift      = "PlacementGroupDrift"
)

// GetConditions returns the conditions as they are stored.
func (c *EC2NodeClass) GetConditions() []karpv1.Condition { return c.Status.Conditions }

// SetConditions replaces the stored conditions.
func (c *EC2NodeClass) SetConditions(conditions []karpv1.Condition) { c.Status.Conditions = conditions }

// StatusConditions returns the class's condition set. reservedCapacity says whether the use of capacity reservations is
// turned on, for only then is there anybody to judge them.
func (c *EC2NodeClass) StatusConditions(reservedCapacity bool) *karpv1.ConditionSet {
	dependents := []string{
		ConditionAMIsReady, ConditionSubnetsReady, ConditionSecurityGroupsReady, ConditionInstanceProfileReady,
		ConditionValidationSucceeded, ConditionPlacementGroupReady,
	}
	if reservedCapacity {
		dependents = append(dependents, ConditionCapacityReservationsReady)
	}
	return karpv1.NewConditionSet(c, karpv1.ConditionTypes{Root: karpv1.ConditionReady, Dependents: dependents})
}
