package v1alpha1

import karpv1 "karpenter/api/karpenter/v1"

// Conditions of a ClusterAPINodeClass. Ready sums up both.
const (
	// ConditionScalableResourcesReady says whether the class has scalable resources that nodes can come from. It is True with reason
	// SomeLeftOut if others are left out.
	ConditionScalableResourcesReady = "ScalableResourcesReady"
	// ConditionValidationSucceeded says whether the selector of the class can be used.
	ConditionValidationSucceeded = karpv1.ConditionValidationSucceeded
)

// Reasons of conditions.
const (
	// ReasonScalableResourcesNotFound means that the selector matches nothing that carries the member label.
	ReasonScalableResourcesNotFound = "ScalableResourcesNotFound"
	// ReasonScalableResourcesUnusable means that everything that the selector matches is left out; the message says why.
	ReasonScalableResourcesUnusable = "ScalableResourcesUnusable"
	// ReasonSomeLeftOut means that some of what the selector matches is left out; the message says why.
	ReasonSomeLeftOut = "SomeLeftOut"
	// ReasonSelectorInvalid means that scalableResourceSelector cannot be read.
	ReasonSelectorInvalid = "SelectorInvalid"
	// ReasonManagementClusterUnreachable means that the management cluster has not answered yet.
	ReasonManagementClusterUnreachable = "ManagementClusterUnreachable"
)

// Reasons of drift.
const (
	// ReasonTemplateDrift means that the Machine was made from another template than its MachineDeployment has now.
	ReasonTemplateDrift = "MachineTemplateDrift"
	// ReasonScalableResourceDrift means that the class does not select the Machine's scalable resource any more.
	ReasonScalableResourceDrift = "ScalableResourceDrift"
)

// GetConditions returns the conditions as they are stored.
func (c *ClusterAPINodeClass) GetConditions() []karpv1.Condition { return c.Status.Conditions }

// SetConditions replaces the stored conditions.
func (c *ClusterAPINodeClass) SetConditions(conditions []karpv1.Condition) {
	c.Status.Conditions = conditions
}

// StatusConditions returns the class's condition set.
func (c *ClusterAPINodeClass) StatusConditions() *karpv1.ConditionSet {
	return karpv1.NewConditionSet(c, karpv1.ConditionTypes{
		Root: karpv1.ConditionReady, Dependents: []string{ConditionScalableResourcesReady, ConditionValidationSucceeded},
	})
}
