package aws

import (
	"encoding/json"
	"fmt"
	"sync"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/api/convert"
	"karpenter/cloud"
)

// classKey names a class as it is for claims with kubelet settings of their own, which claims of pools from the v1beta1 days
// carry in convert.KubeletAnnotation; mostly there are none.
type classKey struct{ class, kubelet string }

// maxAdjusted bounds how many adjusted classes are remembered; beyond it they are worked out again.
const maxAdjusted = 200

// adjusted is a class with other kubelet settings than its own.
type adjusted struct {
	from, class *awsv1.EC2NodeClass
}

// adjustments remembers adjusted classes, because what is made from a class is recognised by the class's pointer.
type adjustments struct {
	mu    sync.Mutex
	known map[classKey]adjusted
}

// get returns the class with these kubelet settings.
func (a *adjustments) get(class *awsv1.EC2NodeClass, kubelet string) (*awsv1.EC2NodeClass, error) {
	if kubelet == "" {
		return class, nil
	}
	key := classKey{class.Name, kubelet}
	a.mu.Lock()
	defer a.mu.Unlock()
	if hit, ok := a.known[key]; ok && hit.from == class {
		return hit.class, nil
	}
	other, err := withKubelet(class, kubelet)
	if err != nil {
		return nil, err
	}
	if a.known == nil || len(a.known) >= maxAdjusted {
		a.known = map[classKey]adjusted{}
	}
	a.known[key] = adjusted{class, other}
	return other, nil
}

// forget drops what is kept for a class.
func (a *adjustments) forget(class string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range a.known {
		if key.class == class {
			delete(a.known, key)
		}
	}
}

// withKubelet is the class with the kubelet settings in the text of convert.KubeletAnnotation.
func withKubelet(class *awsv1.EC2NodeClass, text string) (*awsv1.EC2NodeClass, error) {
	fail := func(err error) error {
		return &cloud.Error{Class: cloud.Invalid, Op: "use class " + class.Name, Reason: awsv1.ReasonInvalidKubeletConfiguration, Err: fmt.Errorf("annotation %s: %w", convert.KubeletAnnotation, err)}
	}
	kubelet := &awsv1.KubeletConfiguration{}
	if err := json.Unmarshal([]byte(text), kubelet); err != nil {
		return nil, fail(fmt.Errorf("is not the JSON of kubelet settings: %w", err))
	}
	kubelet.Extra = nil // v1beta1 knew the fields that we know, and containerRuntime, which means nothing any more
	other := class.DeepCopy()
	other.Spec.Kubelet = kubelet
	if _, problems := other.ValidateKubelet(false); len(problems) > 0 {
		return nil, fail(problems.ToAggregate())
	}
	return other, nil
}
