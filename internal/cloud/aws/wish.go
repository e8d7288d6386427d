package aws

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/api/convert"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/aws/shape"
	"karpenter/internal/engine/req"
	"karpenter/internal/engine/world"
)

// wish is what a claim asks of an instance, in the engine's terms.
type wish struct {
	need     req.Set
	requests world.Resources
	// unknown is a requested resource that no instance type has.
	unknown string
	// flexible means that the claim counts values (minValues), so that choices must not be narrowed.
	flexible bool
	efa      bool
	// enclave means that the claim asks for room in Nitro enclaves, which must be turned on at launch.
	enclave bool
	labels  map[string]string
	// zones lists those that the claim names, the preferred one first: it decides between offerings at the same price.
	zones    []string
	overlaid bool
	relaxed  bool
	// kubelet is the text of the claim's own kubelet settings, if it has some.
	kubelet string
}

// decided are keys that a provider never judges: the claim's own pool and class, and the node's name.
var decided = []string{karpv1.NodePoolLabelKey, awsv1.LabelNodeClass, corev1.LabelHostname}

// newWish reads a claim. Requirements on labels that nobody but the user defines are not the provider's to judge.
func newWish(claim *karpv1.NodeClaim) (*wish, error) {
	rules := awsv1.LabelRules()
	w := &wish{
		labels:   claim.Labels,
		kubelet:  claim.Annotations[convert.KubeletAnnotation],
		overlaid: claim.Annotations[karpv1.PriceOverlayAppliedAnnotationKey] == "true",
		relaxed:  claim.Annotations[karpv1.MinValuesRelaxedAnnotationKey] == "true",
	}
	for _, r := range claim.Spec.Requirements {
		key := rules.Normalize(r.Key)
		if !rules.WellKnown.Has(key) || slices.Contains(decided, key) {
			continue
		}
		one, err := req.New(key, req.Operator(r.Operator), r.Values...)
		if err != nil {
			return nil, fmt.Errorf("claim %s: spec.requirements: %w", claim.Name, err)
		}
		if r.MinValues != nil {
			one.MinValues = *r.MinValues
			w.flexible = true
		}
		w.need = w.need.With(one)
		if key == corev1.LabelTopologyZone && r.Operator == corev1.NodeSelectorOpIn {
			w.zones = r.Values
		}
	}
	for name, quantity := range claim.Spec.Resources.Requests {
		if quantity.Sign() <= 0 {
			continue
		}
		i := slices.Index(shape.Resources, string(name))
		if i < 0 {
			w.unknown = max(w.unknown, string(name))
			continue
		}
		v := quantity.Value()
		if i == world.CPU {
			v = quantity.MilliValue()
		}
		w.requests = w.requests.Set(i, v)
		w.efa = w.efa || name == awsv1.ResourceEFA
		w.enclave = w.enclave || name == awsv1.ResourceNitroSandbox || name == awsv1.ResourceNIPSlots
	}
	return w, nil
}

// admits says whether a node from this offering would satisfy the wish.
func (w *wish) admits(t *world.InstanceType, o *world.Offering) bool {
	return w.need.Admits(func(key string) (string, bool) {
		switch key {
		case corev1.LabelTopologyZone:
			return o.Zone, true
		case karpv1.CapacityTypeLabelKey:
			return o.CapacityType, true
		case awsv1.LabelInstanceTenancy:
			return w.tenancy(), true
		}
		if v, ok := o.Labels.Get(key); ok {
			return v, true
		}
		return t.Labels.Get(key)
	})
}

// Tenancies that a node can have.
const (
	tenancyDefault   = "default"
	tenancyDedicated = "dedicated"
)

// tenancy is the one to launch with: default unless only dedicated will do.
func (w *wish) tenancy() string {
	r, asked := w.need.Get(awsv1.LabelInstanceTenancy)
	if asked && !r.Admits(tenancyDefault, true) && r.Admits(tenancyDedicated, true) {
		return tenancyDedicated
	}
	return tenancyDefault
}

// partitioned says whether the claim asks for partitions of a placement group by number.
func (w *wish) partitioned() bool {
	_, asked := w.need.Get(awsv1.LabelPlacementGroupPartition)
	return asked
}

// zoneRank is the place of a zone among those that the claim names.
func (w *wish) zoneRank(zone string) int {
	if i := slices.Index(w.zones, zone); i >= 0 {
		return i
	}
	return len(w.zones)
}

// fits says whether the requests fit on a node from this offering.
func (w *wish) fits(t *world.InstanceType, o *world.Offering) bool {
	room := t.Allocatable
	if o.Allocatable != nil {
		room = o.Allocatable
	}
	return w.unknown == "" && w.requests.Fits(room)
}
