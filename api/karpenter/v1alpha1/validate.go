package v1alpha1

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	karpv1 "karpenter/api/karpenter/v1"
)

// Reasons for which ValidationSucceeded of a NodeOverlay is False (A47).
const (
	// ReasonRuntimeValidation means that the spec does not pass the checks that the API server cannot make; the message names the field.
	ReasonRuntimeValidation = "RuntimeValidation"
	// ReasonConflict means that another overlay of the same weight changes the same price or resource, and counts.
	ReasonConflict = "Conflict"
)

var conditionTypes = karpv1.ConditionTypes{Root: karpv1.ConditionReady, Dependents: []string{karpv1.ConditionValidationSucceeded}}

// GetConditions returns the conditions as they are stored.
func (o *NodeOverlay) GetConditions() []karpv1.Condition { return o.Status.Conditions }

// SetConditions replaces the stored conditions.
func (o *NodeOverlay) SetConditions(conditions []karpv1.Condition) { o.Status.Conditions = conditions }

// StatusConditions returns the overlay's condition set.
func (o *NodeOverlay) StatusConditions() *karpv1.ConditionSet {
	return karpv1.NewConditionSet(o, conditionTypes)
}

// What the API server lets through in price and priceAdjustment, repeated for objects that it has not seen.
var (
	pricePattern      = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?$`)
	adjustmentPattern = regexp.MustCompile(`^([+-][0-9]*\.?[0-9]+|\+[0-9]*\.?[0-9]+%|-[0-9]{1,2}(\.[0-9]+)?%|-100%)$`)
)

// standard are the resources that every node has of itself (A45).
var standard = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods}

// attachments begins the names of resources that count volumes.
const attachments = "attachable-volumes-"

// ParsePrice reads spec.price: dollars an hour.
func ParsePrice(text string) (float64, error) {
	price, err := strconv.ParseFloat(text, 64)
	if err != nil || !pricePattern.MatchString(text) || math.IsInf(price, 0) {
		return 0, fmt.Errorf("must be dollars an hour without a sign, for example \"1.25\"")
	}
	return price, nil
}

// ParseAdjustment reads spec.priceAdjustment: an amount of dollars an hour, or with percent a share of the price in per cent.
func ParseAdjustment(text string) (amount float64, percent bool, err error) {
	number, percent := strings.CutSuffix(text, "%")
	amount, err = strconv.ParseFloat(number, 64)
	if err != nil || !adjustmentPattern.MatchString(text) || math.IsInf(amount, 0) {
		return 0, false, fmt.Errorf("must be a change with its sign: dollars an hour such as \"+0.5\" or \"-1.2\", or a share of the price such as \"+10%%\" or \"-15%%\", -100%% at the least")
	}
	return amount, percent, nil
}

// Validate makes the checks that the API server cannot make, and those that it makes for objects that it has not seen. Each problem
// names its field.
func (o *NodeOverlay) Validate(rules karpv1.LabelRules) field.ErrorList {
	spec := field.NewPath("spec")
	problems := validateRequirements(o.Spec.Requirements, rules, spec.Child("requirements"))
	if o.Spec.Price != nil && o.Spec.PriceAdjustment != nil {
		problems = append(problems, field.Forbidden(spec.Child("priceAdjustment"), "cannot be used together with spec.price; remove one of the two"))
	}
	if text := o.Spec.Price; text != nil {
		if _, err := ParsePrice(*text); err != nil {
			problems = append(problems, field.Invalid(spec.Child("price"), *text, err.Error()))
		}
	}
	if text := o.Spec.PriceAdjustment; text != nil {
		if _, _, err := ParseAdjustment(*text); err != nil {
			problems = append(problems, field.Invalid(spec.Child("priceAdjustment"), *text, err.Error()))
		}
	}
	return append(problems, validateCapacity(o.Spec.Capacity, spec.Child("capacity"))...)
}

func validateRequirements(list []Requirement, rules karpv1.LabelRules, path *field.Path) field.ErrorList {
	plain := make([]karpv1.NodeSelectorRequirementWithMinValues, len(list))
	var problems field.ErrorList
	for i, r := range list {
		plain[i] = karpv1.NodeSelectorRequirementWithMinValues{Key: r.Key, Operator: r.Operator, Values: r.Values}
		if r.Operator == corev1.NodeSelectorOpNotIn && len(r.Values) == 0 {
			problems = append(problems, field.Required(path.Index(i).Child("values"), "operator NotIn needs at least one"))
		}
	}
	return append(problems, karpv1.ValidateRequirements(plain, rules, path)...)
}

func validateCapacity(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(list)) {
		at, amount := path.Key(string(name)), list[name]
		for _, message := range validation.IsQualifiedName(string(name)) {
			problems = append(problems, field.Invalid(at, string(name), message))
		}
		switch {
		case slices.Contains(standard, name):
			problems = append(problems, field.Forbidden(at, "comes with the instance type and cannot be changed; capacity adds extended resources only, for example smarter-devices/fuse"))
		case strings.HasPrefix(string(name), attachments):
			problems = append(problems, field.Forbidden(at, "how many volumes a node can attach is said by the CSI driver; remove it"))
		case amount.Sign() < 0 || amount.MilliValue()%1000 != 0:
			problems = append(problems, field.Invalid(at, amount.String(), "must be a whole number of 0 or more"))
		}
	}
	return problems
}
