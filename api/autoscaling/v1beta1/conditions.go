package v1beta1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "karpenter/api/karpenter/v1"
)

// ActiveCapacity is the strategy that has nodes run for a buffer; the only one that there is.
const ActiveCapacity = "buffer.x-k8s.io/active-capacity"

// Conditions of a CapacityBuffer (A51).
const (
	// ConditionReadyForProvisioning says whether it is known what room is kept for, and for how many pods.
	ConditionReadyForProvisioning = "ReadyForProvisioning"
	// ConditionProvisioning is True while nodes that exist have room for every spare pod.
	ConditionProvisioning = "Provisioning"
	// ConditionLimitedByQuotas is True while limits of pools keep spare pods from having room.
	ConditionLimitedByQuotas = "LimitedByQuotas"
)

// Reasons of these conditions.
const (
	// ReasonResolved means that the template was found and the number of spare pods is known.
	ReasonResolved = "Resolved"
	// ReasonScalableRefNotFound means that no object has the kind and name in scalableRef.
	ReasonScalableRefNotFound = "ScalableRefNotFound"
	// ReasonPodTemplateNotFound means that no PodTemplate has the name in podTemplateRef.
	ReasonPodTemplateNotFound = "PodTemplateNotFound"
	// ReasonResolutionFailed means that the buffer cannot be understood; the message names the field and what would be right.
	ReasonResolutionFailed = "ResolutionFailed"
	// ReasonFitsExistingCapacity means that nodes that exist have room for every spare pod.
	ReasonFitsExistingCapacity = "FitsExistingCapacity"
	// ReasonRequiresNewCapacity means that nodes are being launched for spare pods, or that spare pods have room nowhere.
	ReasonRequiresNewCapacity = "RequiresNewCapacity"
	// ReasonNotReadyForProvisioning means that ReadyForProvisioning is not True.
	ReasonNotReadyForProvisioning = "NotReadyForProvisioning"
	// ReasonBufferEmpty means that the buffer comes to no spare pods.
	ReasonBufferEmpty = "BufferEmpty"
	// ReasonLimitsReached means that limits of pools are reached.
	ReasonLimitsReached = "LimitsReached"
	// ReasonWithinLimits means that no limit keeps spare pods from having room.
	ReasonWithinLimits = "WithinLimits"
)

// Strategy is the provisioning strategy, which is ActiveCapacity if none is given.
func (b *CapacityBuffer) Strategy() string {
	if s := b.Spec.ProvisioningStrategy; s != nil && *s != "" {
		return *s
	}
	return ActiveCapacity
}

// Condition finds a condition; nil if there is none of the type.
func (b *CapacityBuffer) Condition(kind string) *karpv1.Condition {
	for i := range b.Status.Conditions {
		if b.Status.Conditions[i].Type == kind {
			return &b.Status.Conditions[i]
		}
	}
	return nil
}

// SetCondition sets a condition for the buffer's generation. The time of its last transition moves with its status only (A54).
func (b *CapacityBuffer) SetCondition(c karpv1.Condition, now time.Time) {
	c.ObservedGeneration, c.LastTransitionTime = b.Generation, metav1.NewTime(now)
	old := b.Condition(c.Type)
	if old == nil {
		b.Status.Conditions = append(b.Status.Conditions, c)
		return
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	*old = c
}
