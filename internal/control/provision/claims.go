package provision

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"karpenter/api/convert"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
	"karpenter/internal/engine/pack"
	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
	"karpenter/internal/state"
)

// ReasonProvisioned is the reason of claims for pods that wait; others have the reason of a disruption in lower case.
const ReasonProvisioned = "provisioned"

// maxRequirements is how many requirements the API server takes in a claim.
const maxRequirements = 100

// Draft is a claim that has not been created yet, with what it is for.
type Draft struct {
	Claim *karpv1.NodeClaim
	Node  *pack.NewNode
	// Reason is ReasonProvisioned or the reason of a disruption in lower case.
	Reason string

	resources []string // names of the entries of the vectors of Node
}

// drafts makes claims for planned nodes, from the pools as they were in the view that the plan is for (A62). A node whose pool
// is not in the view gets none. seed must differ between plans: names and batches come from it.
func drafts(view *state.View, nodes []*pack.NewNode, seed, reason string) []*Draft {
	var out []*Draft
	var claims []*karpv1.NodeClaim
	made := map[*pack.Choice]*karpv1.NodeClaim{} // the engine shares the choices of nodes that are equal but for their pods
	for i, n := range nodes {
		claim := made[&n.Choices[0]]
		if claim == nil {
			pool := view.Pool(n.Pool.Name)
			if pool == nil {
				continue
			}
			claim = newClaim(pool.Object, n, view.World.Resources)
			made[&n.Choices[0]] = claim
		}
		claim = claim.DeepCopy()
		claim.Name = claimName(n.Pool.Name, seed, i)
		if pods := world.Real(n.Pods); len(pods) > 0 {
			claim.Annotations[karpv1.PlannedPodsAnnotationKey] = plannedPods(pods)
		}
		claims = append(claims, claim)
		out = append(out, &Draft{Claim: claim, Node: n, Reason: reason, resources: view.World.Resources})
	}
	for i, id := range cloud.Divide(seed, claims) {
		claims[i].Annotations[cloud.BatchAnnotationKey] = id
	}
	return out
}

// newClaim is a claim for the node, without name and batch.
func newClaim(pool *karpv1.NodePool, n *pack.NewNode, resources []string) *karpv1.NodeClaim {
	t := pool.DeepCopy().Spec.Template
	claim := &karpv1.NodeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Labels: claimLabels(pool, n),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: karpv1.SchemeGroupVersion.String(), Kind: "NodePool", Name: pool.Name, UID: pool.UID, BlockOwnerDeletion: new(true),
			}},
			// Here from the start, so that no claim is ever without it between its launch and its first look (L2).
			Finalizers: []string{karpv1.TerminationFinalizer},
		},
		Spec: karpv1.NodeClaimSpec{
			Taints:                 t.Spec.Taints,
			StartupTaints:          t.Spec.StartupTaints,
			Resources:              karpv1.ResourceRequirements{Requests: quantities(resources, n.Requests)},
			NodeClassRef:           t.Spec.NodeClassRef,
			TerminationGracePeriod: t.Spec.TerminationGracePeriod,
			ExpireAfter:            t.Spec.ExpireAfter,
		},
	}
	requirements, lowered := requirements(n, claim.Labels)
	claim.Spec.Requirements = requirements
	claim.Annotations = maps.Clone(t.Annotations)
	if claim.Annotations == nil {
		claim.Annotations = map[string]string{}
	}
	claim.Annotations[karpv1.NodePoolHashAnnotationKey] = pool.Hash()
	claim.Annotations[karpv1.NodePoolHashVersionAnnotationKey] = karpv1.NodePoolHashVersion
	claim.Annotations[karpv1.MinValuesRelaxedAnnotationKey] = strconv.FormatBool(n.MinValuesRelaxed || lowered)
	if slices.ContainsFunc(n.Choices, func(c pack.Choice) bool { return c.Offering.PricedBy != "" }) {
		claim.Annotations[karpv1.PriceOverlayAppliedAnnotationKey] = "true"
	}
	if slices.ContainsFunc(n.Choices, func(c pack.Choice) bool { return len(c.Type.Added) > 0 }) {
		claim.Annotations[karpv1.CapacityOverlayAppliedAnnotationKey] = "true"
	}
	if kubelet, ok := pool.Annotations[convert.KubeletAnnotation]; ok {
		claim.Annotations[convert.KubeletAnnotation] = kubelet
	}
	return claim
}

// claimLabels are those of the template as the user wrote them, those that name pool and class, and the values that were
// chosen for labels of the user's own that the pool leaves open (P90). Labels that depend on the instance come with it.
func claimLabels(pool *karpv1.NodePool, n *pack.NewNode) map[string]string {
	labels := maps.Clone(pool.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, l := range n.Labels {
		if _, given := n.Pool.Labels.Get(l.Key); !given {
			labels[l.Key] = l.Value
		}
	}
	labels[karpv1.NodePoolLabelKey] = pool.Name
	if ref := pool.Spec.Template.Spec.NodeClassRef; ref != nil {
		labels[karpv1.NodeClassLabelKey(*ref)] = ref.Name
	}
	return labels
}

// notInClaims are keys that the API server refuses in a claim: they belong to a node that exists (P18, P91).
var notInClaims = []string{world.LabelHostname, world.LabelRegistered, world.LabelInitialized}

// requirements is what the node's instance must satisfy, with types in the order of their price (P74) and the zone that the plan
// prefers first: of zones at the same price, the launch takes that one. A claim cannot ask for
// more distinct values than it offers, so minValues is lowered to that; lowered says whether it was (P34).
func requirements(n *pack.NewNode, labels map[string]string) (out []karpv1.NodeSelectorRequirementWithMinValues, lowered bool) {
	for _, e := range n.Requirements().Entries() {
		if slices.Contains(notInClaims, e.Key) {
			continue
		}
		r := karpv1.NodeSelectorRequirementWithMinValues{Key: e.Key, Operator: corev1.NodeSelectorOperator(e.Operator), Values: slices.Clone(e.Values)}
		if e.Key == world.LabelInstanceType && e.Operator == req.In {
			r.Values = n.Types()
		}
		if e.Key == world.LabelZone && e.Operator == req.In {
			r.Values = n.Zones()
		}
		if e.MinValues > 0 {
			have := min(e.MinValues, distinct(n, e.Key))
			lowered = lowered || have < e.MinValues
			if have > 0 {
				r.MinValues = &have
			}
		}
		out = append(out, r)
	}
	if len(out) > maxRequirements { // what the labels say need not be said twice
		out = slices.DeleteFunc(out, func(r karpv1.NodeSelectorRequirementWithMinValues) bool {
			return len(r.Values) == 1 && r.Operator == corev1.NodeSelectorOpIn && labels[r.Key] == r.Values[0]
		})
	}
	return out, lowered
}

// distinct counts the values of a label among the choices of a node.
func distinct(n *pack.NewNode, key string) int {
	seen := map[string]bool{}
	for _, c := range n.Choices {
		if v, ok := n.Pool.NodeLabel(c.Type, c.Offering, key); ok {
			seen[v] = true
		}
	}
	return len(seen)
}

// quantities is a vector as Kubernetes writes it. Volume attachments are left out: no node reports them among its resources, so
// a claim that asked for them would wait for ever.
func quantities(names []string, v world.Resources) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i, n := range v {
		if n == 0 || world.UnlimitedWhenAbsent(names[i]) {
			continue
		}
		out[corev1.ResourceName(names[i])] = *quantity(i, n)
	}
	return out
}

// quantity is so many of the smallest unit of a resource.
func quantity(i int, n int64) *resource.Quantity {
	switch i {
	case world.CPU:
		return resource.NewMilliQuantity(n, resource.DecimalSI)
	case world.Memory, world.Storage:
		return resource.NewQuantity(n, resource.BinarySI)
	}
	return resource.NewQuantity(n, resource.DecimalSI)
}

const (
	// nameLetters spell no words.
	nameLetters = "bcdfghjklmnpqrstvwxz2456789"
	// nameSuffix is how many of them follow the pool's name: so many that no two claims of a cluster's life share them.
	nameSuffix = 8
	// maxName keeps a claim's name usable as the value of a label.
	maxName = 63
)

// claimName is chosen here and not by the API server, so that a creation whose answer was lost can be tried again without
// making two claims.
func claimName(pool, seed string, i int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", pool, seed, i))
	suffix := make([]byte, nameSuffix)
	for k := range suffix {
		suffix[k] = nameLetters[int(sum[k])%len(nameLetters)]
	}
	return strings.TrimRight(pool[:min(len(pool), maxName-nameSuffix-1)], "-.") + "-" + string(suffix)
}
