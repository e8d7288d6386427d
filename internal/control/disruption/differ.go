package disruption

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// templateDrift compares the hashes of the template that the claim was made from and of the one that the pool has now. Hashes
// that were made in different ways, or that are not there, say nothing (D44, D49).
func templateDrift(claim *karpv1.NodeClaim, pool *karpv1.NodePool) finding {
	was, is := claim.Annotations[karpv1.NodePoolHashAnnotationKey], pool.Annotations[karpv1.NodePoolHashAnnotationKey]
	wasVersion, isVersion := claim.Annotations[karpv1.NodePoolHashVersionAnnotationKey], pool.Annotations[karpv1.NodePoolHashVersionAnnotationKey]
	if was == "" || is == "" || wasVersion == "" || wasVersion != isVersion || was == is {
		return finding{}
	}
	return finding{karpv1.ReasonNodePoolDrifted, fmt.Sprintf("The template of pool %s has changed since the node was made", pool.Name)}
}

// requirementsDrift looks for a requirement of the pool that the claim's labels do not satisfy (D45).
func requirementsDrift(claim *karpv1.NodeClaim, pool *karpv1.NodePool, rules karpv1.LabelRules) (finding, error) {
	unmet, err := state.Unmet(claim, pool, rules)
	if err != nil || unmet == "" {
		return finding{}, err
	}
	return finding{karpv1.ReasonRequirementsDrifted, fmt.Sprintf("Pool %s asks for %s", pool.Name, unmet)}, nil
}

// missingType says that the claim's type is not among the types, or not where and how the claim has it; it is empty if all is
// well. A reserved instance is what an on-demand instance of its type is; which reservation it is in does not matter (D46).
func missingType(claim *karpv1.NodeClaim, types []*world.InstanceType) string {
	name := claim.Labels[corev1.LabelInstanceTypeStable]
	at, found := slices.BinarySearchFunc(types, name, func(t *world.InstanceType, name string) int { return strings.Compare(t.Name, name) })
	if !found {
		return fmt.Sprintf("The cloud does not know instance type %q", name)
	}
	zone, capacityType := claim.Labels[corev1.LabelTopologyZone], claim.Labels[karpv1.CapacityTypeLabelKey]
	capacityTypes := []string{capacityType}
	if capacityType == karpv1.CapacityTypeReserved {
		capacityTypes = append(capacityTypes, karpv1.CapacityTypeOnDemand)
	}
	for _, o := range types[at].Offerings {
		if (zone == "" || o.Zone == zone) && (capacityType == "" || slices.Contains(capacityTypes, o.CapacityType)) {
			return ""
		}
	}
	return fmt.Sprintf("The cloud does not offer %s %s in %s", capacityType, name, zone)
}
