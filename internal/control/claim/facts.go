package claim

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/control"
	"karpenter/internal/engine/life"
)

// facts is what the engine needs to know of a claim.
func facts(claim *karpv1.NodeClaim, devices bool) life.Claim {
	conditions := claim.StatusConditions()
	out := life.Claim{
		UID:         string(claim.UID),
		Created:     claim.CreationTimestamp.Time,
		Deleting:    !claim.DeletionTimestamp.IsZero(),
		Finalizer:   slices.Contains(claim.Finalizers, karpv1.TerminationFinalizer),
		Rebooting:   conditions.IsTrue(karpv1.ConditionRebooting),
		ProviderID:  claim.Status.ProviderID,
		NodeName:    claim.Status.NodeName,
		Launched:    condition(conditions.Get(karpv1.ConditionLaunched)),
		Registered:  condition(conditions.Get(karpv1.ConditionRegistered)),
		Initialized: condition(conditions.Get(karpv1.ConditionInitialized)),
		Requests:    present(claim.Spec.Resources.Requests),
	}
	if r := conditions.Get(karpv1.ConditionRebooting); r != nil && r.Status == metav1.ConditionFalse {
		out.Rebooted = r.LastTransitionTime.Time
	}
	for _, t := range claim.Spec.StartupTaints {
		out.StartupTaints = append(out.StartupTaints, life.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	if drivers := claim.Annotations[karpv1.RequestedDRADriversAnnotationKey]; devices && drivers != "" {
		out.Drivers = strings.Split(drivers, ",")
		slices.Sort(out.Drivers)
	}
	return out
}

func condition(c *karpv1.Condition) life.Condition {
	status := life.Unknown
	switch c.Status {
	case metav1.ConditionTrue:
		status = life.True
	case metav1.ConditionFalse:
		status = life.False
	}
	return life.Condition{Status: status, Reason: c.Reason, Since: c.LastTransitionTime.Time}
}

// nodeFacts is what the engine needs to know of a node. drivers are those whose devices on the node are published.
func nodeFacts(node *corev1.Node, drivers []string) life.Node {
	out := life.Node{
		Name: node.Name, Created: node.CreationTimestamp.Time, Ready: control.Ready(node), Allocatable: present(node.Status.Allocatable), Drivers: drivers,
	}
	for _, o := range node.OwnerReferences {
		if o.Kind == "NodeClaim" && strings.HasPrefix(o.APIVersion, karpv1.Group+"/") {
			out.Owner = string(o.UID)
		}
	}
	for _, t := range node.Spec.Taints {
		out.Taints = append(out.Taints, life.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
		if karpv1.IsKnownEphemeralTaint(t) {
			out.Ephemeral = append(out.Ephemeral, t.Key+":"+string(t.Effect))
		}
	}
	return out
}

// present names the resources that there are more than none of, sorted.
func present(list corev1.ResourceList) []string {
	var names []string
	for name, quantity := range list {
		if quantity.Sign() > 0 {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return names
}
