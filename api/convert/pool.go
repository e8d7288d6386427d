package convert

import (
	"math"
	"strconv"
	"strings"
)

// What both versions mean where a field is missing. A converted object is stored without another pass of the API server's
// defaulting, so they are written out.
const (
	defaultExpireAfter      = "720h"
	defaultConsolidateAfter = "0s"
	defaultBudgetNodes      = "10%"
	// defaultBudgetDuration makes a schedule without a duration mean what its author thought of: each match of
	// "0 9-17 * * 1-5" stands for that hour.
	defaultBudgetDuration = "1h"
	defaultNodeClassName  = "default"
)

// Consolidation policies. Balanced exists in v1 only; to a v1beta1 reader it is the nearest relative.
const (
	policyEmpty         = "WhenEmpty"
	policyUnderutilized = "WhenUnderutilized"        // v1beta1
	policyV1Underutil   = "WhenEmptyOrUnderutilized" // v1
	policyV1Balanced    = "Balanced"
)

// poolUp makes a v1 NodePool spec of a v1beta1 one (A63 to A69).
func poolUp(spec node) error {
	template, err := spec.ensure("template")
	if err != nil {
		return err
	}
	claim, err := template.ensure("spec")
	if err != nil {
		return err
	}
	if claim.has("weight") {
		spec.tree["weight"] = claim.tree["weight"]
	}
	delete(claim.tree, "weight")
	delete(claim.tree, "resources") // allowed to be there and empty, because old clients write it so
	if err := claimUp(claim); err != nil {
		return err
	}
	disruption, err := spec.ensure("disruption")
	if err != nil {
		return err
	}
	if disruption.has("expireAfter") {
		claim.tree["expireAfter"] = disruption.tree["expireAfter"]
	}
	delete(disruption.tree, "expireAfter")
	claim.fill("expireAfter", defaultExpireAfter)
	return disruptionUp(disruption)
}

func disruptionUp(disruption node) error {
	policy, err := disruption.text("consolidationPolicy")
	if err != nil {
		return err
	}
	if policy == "" || policy == policyUnderutilized {
		disruption.tree["consolidationPolicy"] = policyV1Underutil
	}
	disruption.fill("consolidateAfter", defaultConsolidateAfter)
	disruption.fill("budgets", []any{map[string]any{"nodes": defaultBudgetNodes}})
	budgets, err := disruption.items("budgets")
	if err != nil {
		return err
	}
	for _, budget := range budgets {
		budget.fill("nodes", defaultBudgetNodes)
		if budget.has("schedule") {
			budget.fill("duration", defaultBudgetDuration)
		}
	}
	return nil
}

// poolDown makes a v1beta1 NodePool spec of a v1 one.
func poolDown(spec node) error {
	template, err := spec.ensure("template")
	if err != nil {
		return err
	}
	claim, err := template.ensure("spec")
	if err != nil {
		return err
	}
	disruption, err := spec.ensure("disruption")
	if err != nil {
		return err
	}
	claim.fill("expireAfter", defaultExpireAfter)
	disruption.tree["expireAfter"] = claim.tree["expireAfter"]
	if err := claimDown(claim); err != nil {
		return err
	}
	spec.keep(v1beta1PoolFields...)
	return disruptionDown(disruption)
}

func disruptionDown(disruption node) error {
	policy, err := disruption.text("consolidationPolicy")
	if err != nil {
		return err
	}
	if policy == "" || policy == policyV1Underutil || policy == policyV1Balanced {
		policy = policyUnderutilized
		disruption.tree["consolidationPolicy"] = policy
	}
	disruption.fill("consolidateAfter", defaultConsolidateAfter)
	after, err := disruption.text("consolidateAfter")
	if err != nil {
		return err
	}
	// The v1beta1 of other programs refuses a delay beside this policy, so the one that says nothing is left out.
	if policy == policyUnderutilized && after == defaultConsolidateAfter {
		delete(disruption.tree, "consolidateAfter")
	}
	disruption.fill("budgets", []any{map[string]any{"nodes": defaultBudgetNodes}})
	budgets, err := disruption.items("budgets")
	if err != nil {
		return err
	}
	for _, budget := range budgets {
		budget.fill("nodes", defaultBudgetNodes)
		budget.keep(v1beta1BudgetFields...)
	}
	disruption.keep(v1beta1DisruptionFields...)
	return nil
}

// claimUp makes a v1 NodeClaim spec of a v1beta1 one; expireAfter, which comes from elsewhere, is left to the caller.
// The kubelet settings have no place in v1: the part is remembered, and offline conversion moves it to the class.
func claimUp(spec node) error {
	delete(spec.tree, "kubelet")
	return classRefUp(spec)
}

// claimDown makes a v1beta1 NodeClaim spec of a v1 one.
func claimDown(spec node) error {
	if err := classRefDown(spec); err != nil {
		return err
	}
	if err := requirementsDown(spec); err != nil {
		return err
	}
	spec.keep(v1beta1ClaimFields...)
	return nil
}

// classRefUp writes out which class is meant (A67). The documents that people follow leave out the kind, or the whole
// reference; there is one kind of class, and the one they create is called default.
func classRefUp(spec node) error {
	ref, err := spec.ensure("nodeClassRef")
	if err != nil {
		return err
	}
	apiVersion, err := ref.text("apiVersion")
	if err != nil {
		return err
	}
	group, _, versioned := strings.Cut(apiVersion, "/")
	if !versioned || group == "" {
		group = awsGroup
	}
	kind, err := ref.text("kind")
	if err != nil {
		return err
	}
	if kind == "" {
		kind = nodeClassKind
	}
	ref.fill("name", defaultNodeClassName)
	delete(ref.tree, "apiVersion")
	ref.tree["group"], ref.tree["kind"] = group, kind
	return nil
}

func classRefDown(spec node) error {
	ref, err := spec.ensure("nodeClassRef")
	if err != nil {
		return err
	}
	group, err := ref.text("group")
	if err != nil {
		return err
	}
	delete(ref.tree, "group")
	if group != "" {
		ref.tree["apiVersion"] = group + "/" + versionBeta
	}
	return nil
}

// requirementsDown says Gte and Lte, which v1beta1 does not have, with Gt and Lt (A70). Values are integers.
func requirementsDown(spec node) error {
	requirements, err := spec.items("requirements")
	if err != nil {
		return err
	}
	for _, requirement := range requirements {
		operator, err := requirement.text("operator")
		if err != nil {
			return err
		}
		if operator == "Gte" || operator == "Lte" {
			requirement.tree["operator"], requirement.tree["values"] = strictly(operator, requirement.tree["values"])
		}
		if requirement.tree["values"] == nil {
			delete(requirement.tree, "values")
		}
	}
	return nil
}

// strictly turns Gte n into Gt n-1 and Lte n into Lt n+1; a bound that excludes nothing becomes Exists.
func strictly(operator string, values any) (newOperator string, newValues any) {
	list, _ := values.([]any)
	if len(list) != 1 {
		return "Exists", nil
	}
	text, _ := list[0].(string)
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil, operator == "Gte" && n <= 0, operator == "Lte" && n == math.MaxInt64:
		return "Exists", nil
	case operator == "Gte":
		return "Gt", []any{strconv.FormatInt(n-1, 10)}
	default:
		return "Lt", []any{strconv.FormatInt(n+1, 10)}
	}
}
