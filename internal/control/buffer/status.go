package buffer

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control/provision"
	"karpenter/internal/engine/why"
)

func cutKey(key string) (namespace, name string, ok bool) { return strings.Cut(key, "/") }

// write says on a buffer what it comes to, and how it fares (A51). f is nil if it names nothing.
func (r *Reconciler) write(b *bufferv1.CapacityBuffer, f *found, s standing) {
	now := r.Clock.Now()
	set := func(kind string, status metav1.ConditionStatus, reason, message string) {
		b.SetCondition(karpv1.Condition{Type: kind, Status: status, Reason: reason, Message: message}, now)
	}
	b.Status.ProvisioningStrategy = new(b.Strategy())
	if s.failure != nil {
		b.Status.PodTemplateRef, b.Status.PodTemplateGeneration, b.Status.Replicas = nil, nil, nil
		set(bufferv1.ConditionReadyForProvisioning, metav1.ConditionFalse, s.failure.reason, s.failure.message)
		set(bufferv1.ConditionProvisioning, metav1.ConditionFalse, bufferv1.ReasonNotReadyForProvisioning, "no room is kept until "+bufferv1.ConditionReadyForProvisioning+" is True")
		return
	}
	b.Status.PodTemplateRef, b.Status.PodTemplateGeneration, b.Status.Replicas = f.template, nil, &s.replicas
	if f.generation > 0 {
		b.Status.PodTemplateGeneration = &f.generation
	}
	set(bufferv1.ConditionReadyForProvisioning, metav1.ConditionTrue, bufferv1.ReasonResolved, "room is kept for "+why.Count(int(s.replicas), "pod"))
	if s.replicas == 0 {
		set(bufferv1.ConditionProvisioning, metav1.ConditionFalse, bufferv1.ReasonBufferEmpty, "the buffer comes to no pods: spec.replicas is 0, or spec.limits allow none")
		return
	}
	r.mu.Lock()
	fare, ok := r.fared[client.ObjectKeyFromObject(b).String()]
	r.mu.Unlock()
	if !ok || fare.Fits+fare.New+fare.Refused != int(s.replicas) {
		return // the next plan tells
	}
	status, reason, message := fares(&fare, s.replicas)
	set(bufferv1.ConditionProvisioning, status, reason, message)
	if fare.Limited() {
		set(bufferv1.ConditionLimitedByQuotas, metav1.ConditionTrue, bufferv1.ReasonLimitsReached, fmt.Sprintf("%s: %s", left(fare.Refused, s.replicas), fare.Because()))
	} else {
		set(bufferv1.ConditionLimitedByQuotas, metav1.ConditionFalse, bufferv1.ReasonWithinLimits, "no limit of a pool keeps room from being made")
	}
}

// fares is the condition Provisioning of a buffer.
func fares(f *provision.Fared, replicas int32) (status metav1.ConditionStatus, reason, message string) {
	if f.Fits == int(replicas) {
		return metav1.ConditionTrue, bufferv1.ReasonFitsExistingCapacity, "nodes have room for " + why.Count(f.Fits, "spare pod")
	}
	message = fmt.Sprintf("nodes have room for %d of %s", f.Fits, why.Count(int(replicas), "spare pod"))
	if f.New > 0 {
		message += fmt.Sprintf("; nodes are launched for %d", f.New)
	}
	if f.Refused > 0 {
		message += fmt.Sprintf("; %d have room nowhere: %s", f.Refused, f.Because())
	}
	return metav1.ConditionFalse, bufferv1.ReasonRequiresNewCapacity, message
}

func left(refused int, replicas int32) string {
	return fmt.Sprintf("%d of %s have no room", refused, why.Count(int(replicas), "spare pod"))
}
