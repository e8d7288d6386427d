package aws

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	awsv1 "karpenter/api/aws/v1"
)

// missing says that a selector found nothing, and what it looked for; "" if it found something.
func missing(found int, field, thing string, terms []string) string {
	if found > 0 {
		return ""
	}
	return fmt.Sprintf("%s: no %s matches %s; correct the terms, or tag what they should find", field, thing, strings.Join(terms, " or "))
}

// term prints the conditions of one selector term.
func term(tags map[string]string, pairs ...string) string {
	var parts []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			parts = append(parts, pairs[i]+" "+pairs[i+1])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		parts = append(parts, fmt.Sprintf("tag %s=%s", key, tags[key]))
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

func imageTerms(class *awsv1.EC2NodeClass) []string {
	var out []string
	for _, t := range class.Spec.AMISelectorTerms {
		out = append(out, term(t.Tags, "alias", t.Alias, "id", t.ID, "name", t.Name, "owner", t.Owner, "ssmParameter", t.SSMParameter))
	}
	return out
}

func subnetTerms(class *awsv1.EC2NodeClass) []string {
	var out []string
	for _, t := range class.Spec.SubnetSelectorTerms {
		out = append(out, term(t.Tags, "id", t.ID))
	}
	return out
}

func groupTerms(class *awsv1.EC2NodeClass) []string {
	var out []string
	for _, t := range class.Spec.SecurityGroupSelectorTerms {
		out = append(out, term(t.Tags, "id", t.ID, "name", t.Name))
	}
	return out
}
