package aws

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/api/convert"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud/kit"
)

// wish is what a claim asks of an instance.
type wish struct {
	kit.Wish
	efa bool
	// enclave means that the claim asks for room in Nitro enclaves, which must be turned on at launch.
	enclave bool
	labels  map[string]string
	// kubelet is the text of the claim's own kubelet settings, if it has some.
	kubelet string
}

// decided are keys that a provider never judges: the claim's own pool and class, and the node's name.
var decided = []string{karpv1.NodePoolLabelKey, awsv1.LabelNodeClass, corev1.LabelHostname}

// newWish reads a claim; resources names what instances have. Requirements on labels that nobody but the user defines are not the
// provider's to judge.
func newWish(claim *karpv1.NodeClaim, resources []string) (*wish, error) {
	rules := awsv1.LabelRules()
	neutral, err := kit.NewWish(claim, func(key string) (string, bool) {
		key = rules.Normalize(key)
		return key, rules.WellKnown.Has(key) && !slices.Contains(decided, key)
	}, resources)
	if err != nil {
		return nil, err
	}
	asks := func(name corev1.ResourceName) bool {
		quantity := claim.Spec.Resources.Requests[name]
		return quantity.Sign() > 0
	}
	w := &wish{
		Wish: neutral, labels: claim.Labels, kubelet: claim.Annotations[convert.KubeletAnnotation],
		efa: asks(awsv1.ResourceEFA), enclave: asks(awsv1.ResourceNitroSandbox) || asks(awsv1.ResourceNIPSlots),
	}
	w.Decided = map[string]string{awsv1.LabelInstanceTenancy: w.tenancy()}
	return w, nil
}

// Tenancies that a node can have.
const (
	tenancyDefault   = "default"
	tenancyDedicated = "dedicated"
)

// tenancy is the one to launch with: default unless only dedicated will do.
func (w *wish) tenancy() string {
	r, asked := w.Need.Get(awsv1.LabelInstanceTenancy)
	if asked && !r.Admits(tenancyDefault, true) && r.Admits(tenancyDedicated, true) {
		return tenancyDedicated
	}
	return tenancyDefault
}

// partitioned says whether the claim asks for partitions of a placement group by number.
func (w *wish) partitioned() bool {
	_, asked := w.Need.Get(awsv1.LabelPlacementGroupPartition)
	return asked
}
