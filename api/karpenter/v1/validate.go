package v1

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// capacityTypes are the only values that CapacityTypeLabelKey can have.
var capacityTypes = []string{CapacityTypeOnDemand, CapacityTypeReserved, CapacityTypeSpot}

// operators are what a requirement may use.
var operators = []corev1.NodeSelectorOperator{
	corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn, corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist,
	corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt, OperatorGte, OperatorLte,
}

// taintEffects are what a taint may do.
var taintEffects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}

// bounds of minValues.
const (
	minMinValues = 1
	maxMinValues = 50
)

// ValidationCondition judges the pool and returns the ValidationSucceeded condition that says so, for
// ConditionSet.Set.
func (p *NodePool) ValidationCondition(rules LabelRules) Condition {
	if problems := p.Validate(rules); len(problems) > 0 {
		return Condition{
			Type: ConditionValidationSucceeded, Status: metav1.ConditionFalse, Reason: ReasonNodePoolValidationFailed,
			Message: problems.ToAggregate().Error(),
		}
	}
	ok := Condition{Type: ConditionValidationSucceeded, Status: metav1.ConditionTrue}
	_, nodeCost := p.NodeCost()
	_, _, restartCost := RestartCost(p.Annotations)
	var wrong []string
	for _, err := range []error{nodeCost, restartCost} {
		if err != nil { // the pool can be used all the same
			wrong = append(wrong, err.Error())
		}
	}
	ok.Message = strings.Join(wrong, "; ")
	return ok
}

// Validate makes the checks that the API server cannot or does not make (A79). Each problem names its field.
func (p *NodePool) Validate(rules LabelRules) field.ErrorList {
	var problems field.ErrorList
	for _, message := range validation.IsValidLabelValue(p.Name) {
		problems = append(problems, field.Invalid(field.NewPath("metadata", "name"), p.Name, "becomes the value of a label: "+message))
	}
	template := field.NewPath("spec", "template")
	spec := template.Child("spec")
	problems = append(problems, validateLabels(p.Spec.Template.Labels, rules, template.Child("metadata", "labels"))...)
	problems = append(problems, validateTaints(p.Spec.Template.Spec, spec)...)
	requirements := spec.Child("requirements")
	for i, requirement := range p.Spec.Template.Spec.Requirements {
		at := requirements.Index(i)
		if requirement.Key == NodePoolLabelKey {
			problems = append(problems, field.Invalid(at.Child("key"), requirement.Key, "is set by Karpenter and cannot be required in a NodePool"))
			continue
		}
		problems = append(problems, ValidateRequirement(requirement, rules, at)...)
	}
	if len(problems) == 0 {
		problems = append(problems, validateTogether(p.Spec.Template.Spec.Requirements, rules, requirements)...)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Spec.Limits)) {
		if limit := p.Spec.Limits[name]; limit.Sign() < 0 {
			problems = append(problems, field.Invalid(field.NewPath("spec", "limits").Key(string(name)), limit.String(), "must be an amount of 0 or more, for example 100, 500m or 1000Gi"))
		}
	}
	if p.Spec.Template.Spec.NodeClassRef == nil {
		problems = append(problems, field.Required(spec.Child("nodeClassRef"), "name the node class: group, kind and name"))
	}
	return problems
}

func validateLabels(labels map[string]string, rules LabelRules, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		at, value := path.Key(key), labels[key]
		for _, message := range validation.IsQualifiedName(key) {
			problems = append(problems, field.Invalid(at, key, "key "+message))
		}
		for _, message := range validation.IsValidLabelValue(value) {
			problems = append(problems, field.Invalid(at, value, message))
		}
		switch {
		case key == NodePoolLabelKey:
			problems = append(problems, field.Invalid(at, key, "is set by Karpenter"))
		case rules.IsRestricted(key):
			problems = append(problems, field.Invalid(at, key, restrictedMessage(key)))
		case key == CapacityTypeLabelKey && !slices.Contains(capacityTypes, value):
			problems = append(problems, field.NotSupported(at, value, capacityTypes))
		}
	}
	return problems
}

func restrictedMessage(key string) string {
	if key == corev1.LabelHostname {
		return "every node has its own host name"
	}
	domain, _, _ := strings.Cut(key, "/")
	return fmt.Sprintf("domain %s is for labels that Karpenter defines; use a domain of your own", domain)
}

func validateTaints(spec NodeClaimTemplateSpec, path *field.Path) field.ErrorList {
	type identity struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[identity]*field.Path{}
	var problems field.ErrorList
	check := func(taint Taint, at *field.Path) {
		for _, message := range validation.IsQualifiedName(taint.Key) {
			problems = append(problems, field.Invalid(at.Child("key"), taint.Key, message))
		}
		if taint.Value != "" {
			for _, message := range validation.IsQualifiedName(taint.Value) {
				problems = append(problems, field.Invalid(at.Child("value"), taint.Value, message))
			}
		}
		if !slices.Contains(taintEffects, taint.Effect) {
			problems = append(problems, field.NotSupported(at.Child("effect"), taint.Effect, taintEffects))
		}
		id := identity{taint.Key, taint.Effect}
		if first, ok := seen[id]; ok {
			problems = append(problems, field.Duplicate(at, fmt.Sprintf("%s:%s is also at %s", taint.Key, taint.Effect, first)))
			return
		}
		seen[id] = at
	}
	for i, taint := range spec.Taints {
		check(taint, path.Child("taints").Index(i))
	}
	for i, taint := range spec.StartupTaints {
		check(taint, path.Child("startupTaints").Index(i))
	}
	return problems
}

// ValidateRequirement checks one requirement by itself (A31, A32, A59, A81).
func ValidateRequirement(requirement NodeSelectorRequirementWithMinValues, rules LabelRules, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for _, message := range validation.IsQualifiedName(requirement.Key) {
		problems = append(problems, field.Invalid(path.Child("key"), requirement.Key, message))
	}
	if rules.IsRestricted(rules.Normalize(requirement.Key)) {
		problems = append(problems, field.Invalid(path.Child("key"), requirement.Key, restrictedMessage(requirement.Key)))
	}
	if !slices.Contains(operators, requirement.Operator) {
		return append(problems, field.NotSupported(path.Child("operator"), requirement.Operator, operators))
	}
	for i, value := range requirement.Values {
		for _, message := range validation.IsValidLabelValue(value) {
			problems = append(problems, field.Invalid(path.Child("values").Index(i), value, message))
		}
	}
	if requirement.Operator == corev1.NodeSelectorOpIn && len(requirement.Values) == 0 {
		problems = append(problems, field.Required(path.Child("values"), "operator In needs at least one"))
	}
	if isBound(requirement.Operator) {
		problems = append(problems, validateBound(requirement, path.Child("values"))...)
	}
	if minimum := requirement.MinValues; minimum != nil {
		if *minimum < minMinValues || *minimum > maxMinValues {
			problems = append(problems, field.Invalid(path.Child("minValues"), *minimum, fmt.Sprintf("must be from %d to %d", minMinValues, maxMinValues)))
		} else if requirement.Operator == corev1.NodeSelectorOpIn && len(requirement.Values) < *minimum {
			problems = append(problems, field.Invalid(path.Child("minValues"), *minimum, fmt.Sprintf("is more than the %d values that are given", len(requirement.Values))))
		}
	}
	return append(problems, validateCapacityType(requirement, path)...)
}

func isBound(operator corev1.NodeSelectorOperator) bool {
	return operator == corev1.NodeSelectorOpGt || operator == corev1.NodeSelectorOpLt || operator == OperatorGte || operator == OperatorLte
}

func validateBound(requirement NodeSelectorRequirementWithMinValues, path *field.Path) field.ErrorList {
	if len(requirement.Values) != 1 {
		return field.ErrorList{field.Invalid(path, requirement.Values, fmt.Sprintf("operator %s needs exactly one", requirement.Operator))}
	}
	if n, err := strconv.ParseInt(requirement.Values[0], 10, 64); err != nil || n < 0 {
		return field.ErrorList{field.Invalid(path.Index(0), requirement.Values[0], fmt.Sprintf("operator %s needs a whole number of 0 or more", requirement.Operator))}
	}
	return nil
}

// validateCapacityType refuses a list without any known capacity type, and one with fewer known ones than minValues. Unknown
// ones beside known ones are passed over (A59).
func validateCapacityType(requirement NodeSelectorRequirementWithMinValues, path *field.Path) field.ErrorList {
	if requirement.Key != CapacityTypeLabelKey || requirement.Operator != corev1.NodeSelectorOpIn || len(requirement.Values) == 0 {
		return nil
	}
	known := sets.New(requirement.Values...).Intersection(sets.New(capacityTypes...)).Len()
	supported := strings.Join(capacityTypes, ", ")
	switch {
	case known == 0:
		return field.ErrorList{field.Invalid(path.Child("values"), requirement.Values, "none is known; use some of "+supported)}
	case requirement.MinValues != nil && known < *requirement.MinValues:
		return field.ErrorList{field.Invalid(path.Child("minValues"), *requirement.MinValues, fmt.Sprintf("only %d of the values are known; use some of %s", known, supported))}
	}
	return nil
}

// ValidateRequirements checks requirements each by itself and, if all of them pass, together.
func ValidateRequirements(list []NodeSelectorRequirementWithMinValues, rules LabelRules, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for i, requirement := range list {
		problems = append(problems, ValidateRequirement(requirement, rules, path.Index(i))...)
	}
	if len(problems) == 0 {
		problems = validateTogether(list, rules, path)
	}
	return problems
}

// validateTogether finds keys whose lists of values have too little in common: entries with the same key are intersected,
// and the largest minValues counts (A33).
func validateTogether(requirements []NodeSelectorRequirementWithMinValues, rules LabelRules, path *field.Path) field.ErrorList {
	common, needed := map[string]sets.Set[string]{}, map[string]int{}
	var problems field.ErrorList
	for i, requirement := range requirements {
		key := rules.Normalize(requirement.Key)
		if requirement.MinValues != nil {
			needed[key] = max(needed[key], *requirement.MinValues)
		}
		if requirement.Operator == corev1.NodeSelectorOpIn {
			values := sets.New(requirement.Values...)
			if before, ok := common[key]; ok {
				values = values.Intersection(before)
			}
			common[key] = values
		}
		values, listed := common[key]
		if least := max(needed[key], 1); listed && values.Len() < least {
			problems = append(problems, field.Invalid(path.Index(i), requirement.Key,
				fmt.Sprintf("together with the entries before it, %d values are possible and %d are needed", values.Len(), least)))
			return problems
		}
	}
	return problems
}
