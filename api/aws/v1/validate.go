package v1

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	karpv1 "karpenter/api/karpenter/v1"
)

// maxVolumeGiB is the largest volume that EBS makes.
const maxVolumeGiB = 64 * 1024

// VolumeGiB returns a volume size in the unit of EC2, rounded up.
func VolumeGiB(size resource.Quantity) (int32, error) {
	const gib = 1 << 30
	bytes, exact := size.AsInt64()
	if !exact {
		bytes = int64(math.Min(math.Ceil(size.AsApproximateFloat64()), maxVolumeGiB*gib+1))
	}
	if bytes <= 0 || bytes > maxVolumeGiB*gib {
		return 0, fmt.Errorf("volumeSize %s: must be above 0 and at most %dGi", size.String(), maxVolumeGiB)
	}
	return int32((bytes + gib - 1) / gib), nil
}

var (
	reservable      = []string{"cpu", "memory", "ephemeral-storage", "pid"}
	evictionSignals = []string{
		"memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree", "pid.available",
	}
	percentage = regexp.MustCompile(`^(100([.]00?)?|[0-9]{1,2}([.][0-9]{1,2})?)%$`)
)

// registerWithTaints is the kubelet field that Karpenter fills itself.
const registerWithTaints = "registerWithTaints"

// evictionMinimumReclaim is a kubelet field that is passed on, and whose values have the form of eviction thresholds.
const evictionMinimumReclaim = "evictionMinimumReclaim"

// ValidateKubelet checks spec.kubelet as far as the API server cannot, or did not when the object was written. It returns
// the reason for ValidationSucceeded to be False and the problems by field, or nothing. expressions says whether they are
// turned on; what they say is for the caller to check, who knows the instance types.
func (c *EC2NodeClass) ValidateKubelet(expressions bool) (reason string, problems field.ErrorList) {
	kubelet := c.Spec.Kubelet
	if kubelet == nil {
		return "", nil
	}
	path := field.NewPath("spec", "kubelet")
	problems = append(problems, kubelet.validateUnreadable(path)...)
	problems = append(problems, kubelet.validateNumbers(path)...)
	problems = append(problems, validateReserved(kubelet.SystemReserved, path.Child("systemReserved"))...)
	problems = append(problems, validateReserved(kubelet.KubeReserved, path.Child("kubeReserved"))...)
	problems = append(problems, validateThresholds(kubelet.EvictionHard, path.Child("evictionHard"))...)
	problems = append(problems, validateThresholds(kubelet.EvictionSoft, path.Child("evictionSoft"))...)
	problems = append(problems, kubelet.validateGrace(path)...)
	problems = append(problems, validateShapes(kubelet.Extra, otherKubeletShapes, path)...)
	if _, given := kubelet.Extra[registerWithTaints]; given {
		problems = append(problems, field.Forbidden(path.Child(registerWithTaints), "Karpenter sets it: use taints and startupTaints of the NodePool"))
	}
	if text, given := kubelet.Extra[evictionMinimumReclaim]; given {
		var reclaim map[string]string
		if json.Unmarshal([]byte(text), &reclaim) == nil { // or else its shape has been named
			problems = append(problems, validateThresholds(reclaim, path.Child(evictionMinimumReclaim))...)
		}
	}
	if len(problems) > 0 {
		return ReasonInvalidKubeletConfiguration, problems
	}
	if problems = c.validateCarried(path); len(problems) > 0 {
		return ReasonUnsupportedKubeletConfiguration, problems
	}
	if expressions {
		return "", nil
	}
	for _, e := range kubelet.Expressions() {
		what := "is no quantity such as 100m or 1Gi"
		if e.Key == "" {
			what = "is no number"
		}
		problems = append(problems, field.Invalid(e.Path(), e.Text, what+", and expressions are turned off: set NodeClassCEL=true in AWS_FEATURE_GATES to use one"))
	}
	if len(problems) > 0 {
		return ReasonKubeletExpressionsDisabled, problems
	}
	return "", nil
}

// validateUnreadable names what has a value that its field cannot have.
func (k *KubeletConfiguration) validateUnreadable(path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(k.Unreadable)) {
		found := validateShapes(map[string]string{name: k.Unreadable[name]}, knownKubeletShapes, path)
		if len(found) == 0 { // it must not pass even so
			found = field.ErrorList{field.Invalid(path.Child(name), k.Unreadable[name], "must be "+knownKubeletShapes[name].what)}
		}
		problems = append(problems, found...)
	}
	return problems
}

// validateNumbers checks those that have bounds.
func (k *KubeletConfiguration) validateNumbers(path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for _, n := range []struct {
		name  string
		value *int32
		most  int32
	}{
		{"maxPods", k.MaxPods, math.MaxInt32},
		{"podsPerCore", k.PodsPerCore, math.MaxInt32},
		{"evictionMaxPodGracePeriod", k.EvictionMaxPodGracePeriod, math.MaxInt32},
		{"imageGCHighThresholdPercent", k.ImageGCHighThresholdPercent, 100},
		{"imageGCLowThresholdPercent", k.ImageGCLowThresholdPercent, 100},
	} {
		if n.value != nil && (*n.value < 0 || *n.value > n.most) {
			problems = append(problems, field.Invalid(path.Child(n.name), *n.value, fmt.Sprintf("must be from 0 to %d", n.most)))
		}
	}
	if low, high := k.ImageGCLowThresholdPercent, k.ImageGCHighThresholdPercent; low != nil && high != nil && *low >= *high {
		problems = append(problems, field.Invalid(path.Child("imageGCLowThresholdPercent"), *low, fmt.Sprintf("must be below imageGCHighThresholdPercent, which is %d", *high)))
	}
	return problems
}

// validateGrace checks that soft limits and their grace periods are of the same signals, without which a kubelet does not start.
func (k *KubeletConfiguration) validateGrace(path *field.Path) field.ErrorList {
	const soft, grace = "evictionSoft", "evictionSoftGracePeriod"
	var problems field.ErrorList
	for _, signal := range slices.Sorted(maps.Keys(k.EvictionSoftGracePeriod)) {
		at, given := path.Child(grace).Key(signal), k.EvictionSoftGracePeriod[signal]
		if !slices.Contains(evictionSignals, signal) {
			problems = append(problems, field.NotSupported(at, signal, evictionSignals))
		}
		if given.Duration < 0 {
			problems = append(problems, field.Invalid(at, given.String(), "cannot be negative"))
		}
		if _, ok := k.EvictionSoft[signal]; !ok && k.Unreadable[soft] == "" {
			problems = append(problems, field.Invalid(at, given.String(), "needs an entry for the same signal in "+soft))
		}
	}
	for _, signal := range slices.Sorted(maps.Keys(k.EvictionSoft)) {
		if _, ok := k.EvictionSoftGracePeriod[signal]; !ok && k.Unreadable[grace] == "" {
			problems = append(problems, field.Invalid(path.Child(soft).Key(signal), k.EvictionSoft[signal], "needs an entry for the same signal in "+grace+", for example 1m30s"))
		}
	}
	return problems
}

// validateCarried refuses fields that the family has no way to hand to the kubelet. AL2023 takes a whole configuration file;
// with Custom the user's own data decides.
func (c *EC2NodeClass) validateCarried(path *field.Path) field.ErrorList {
	family := c.AMIFamily()
	if family == AMIFamilyAL2023 || family == AMIFamilyCustom {
		return nil
	}
	var problems field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(c.Spec.Kubelet.Extra)) {
		problems = append(problems, field.Forbidden(path.Child(name), fmt.Sprintf("AMI family %s cannot pass it on; use AL2023, or set it in userData", family)))
	}
	if family == AMIFamilyBottlerocket && c.Spec.Kubelet.PodsPerCore != nil {
		problems = append(problems, field.Forbidden(path.Child("podsPerCore"), "AMI family Bottlerocket cannot pass it on; use maxPods, or AL2023"))
	}
	return problems
}

func validateReserved(reserved map[string]string, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(reserved)) {
		at, text := path.Key(name), reserved[name]
		if !slices.Contains(reservable, name) {
			problems = append(problems, field.NotSupported(at, name, reservable))
		}
		if amount, err := karpv1.ParseQuantity(text); err == nil && amount.Sign() < 0 {
			problems = append(problems, field.Invalid(at, text, "must be a quantity that is not negative, for example 100m or 1Gi"))
		}
	}
	return problems
}

func validateThresholds(thresholds map[string]string, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for _, signal := range slices.Sorted(maps.Keys(thresholds)) {
		at, text := path.Key(signal), thresholds[signal]
		if !slices.Contains(evictionSignals, signal) {
			problems = append(problems, field.NotSupported(at, signal, evictionSignals))
		}
		if strings.HasSuffix(text, "%") {
			if !percentage.MatchString(text) {
				problems = append(problems, field.Invalid(at, text, "must be from 0% to 100%"))
			}
		} else if amount, err := karpv1.ParseQuantity(text); err != nil || amount.Sign() < 0 {
			problems = append(problems, field.Invalid(at, text, "must be a percentage or a quantity that is not negative, for example 500Mi"))
		}
	}
	return problems
}
