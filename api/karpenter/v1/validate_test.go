package v1

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// poolWith returns a pool with the given template, in YAML.
func poolWith(t testing.TB, template string) *NodePool {
	t.Helper()
	pool := &NodePool{}
	pool.Name = "default"
	if err := yaml.UnmarshalStrict([]byte(template), &pool.Spec); err != nil {
		t.Fatal(err)
	}
	if pool.Spec.Template.Spec.NodeClassRef == nil {
		pool.Spec.Template.Spec.NodeClassRef = &NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	}
	return pool
}

func TestA79_Validate(t *testing.T) {
	long63, long254 := strings.Repeat("a", 64), strings.Repeat("a", 254)
	tests := []struct {
		name, spec string
		want       string // part of the problems; empty if there must be none
	}{
		{"an empty pool", `template: {spec: {}}`, ""},
		{"a full pool", `template: {metadata: {labels: {team: a, karpenter.sh/capacity-type: spot}}, spec: {taints: [{key: a, value: b, effect: NoSchedule}], startupTaints: [{key: a, effect: NoExecute}], requirements: [{key: kubernetes.io/arch, operator: In, values: [arm64]}]}}`, ""},
		{"A10 a label key with a space", `template: {metadata: {labels: {"a b": c}}}`, "spec.template.metadata.labels[a b]"},
		{"A10 a label value with a space", `template: {metadata: {labels: {a: "b c"}}}`, "spec.template.metadata.labels[a]"},
		{"A10 the pool's label", `template: {metadata: {labels: {karpenter.sh/nodepool: x}}}`, "is set by Karpenter"},
		{"A10 the host name", `template: {metadata: {labels: {kubernetes.io/hostname: x}}}`, "every node has its own host name"},
		{"A10 a restricted domain", `template: {metadata: {labels: {karpenter.sh/x: x}}}`, "domain karpenter.sh is for labels that Karpenter defines"},
		{"A10 a restricted subdomain", `template: {metadata: {labels: {a.karpenter.sh/x: x}}}`, "spec.template.metadata.labels[a.karpenter.sh/x]"},
		{"A10 a domain that only ends alike", `template: {metadata: {labels: {mykarpenter.sh/x: x}}}`, ""},
		{"A59 a label with an unknown capacity type", `template: {metadata: {labels: {karpenter.sh/capacity-type: cheap}}}`, `supported values: "on-demand", "reserved", "spot"`},
		{"A12 a taint key with a space", `template: {spec: {taints: [{key: "a b", effect: NoSchedule}]}}`, "spec.template.spec.taints[0].key"},
		{"A12 a taint value with a space", `template: {spec: {taints: [{key: a, value: "b c", effect: NoSchedule}]}}`, "spec.template.spec.taints[0].value"},
		{"A12 an unknown effect", `template: {spec: {taints: [{key: a, effect: Later}]}}`, "spec.template.spec.taints[0].effect"},
		{"A12 the same taint twice", `template: {spec: {taints: [{key: a, effect: NoSchedule}, {key: a, value: x, effect: NoSchedule}]}}`, "taints[1]: Duplicate value"},
		{"A13 the same taint as startup taint", `template: {spec: {taints: [{key: a, effect: NoSchedule}], startupTaints: [{key: a, effect: NoSchedule}]}}`, "is also at spec.template.spec.taints[0]"},
		{"A12 the same key with two effects", `template: {spec: {taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoExecute}]}}`, ""},
		{"A14 the pool's label as requirement", `template: {spec: {requirements: [{key: karpenter.sh/nodepool, operator: Exists}]}}`, "requirements[0].key"},
		{"A31 an unknown operator", `template: {spec: {requirements: [{key: a, operator: Equals}]}}`, "requirements[0].operator"},
		{"A31 In without values", `template: {spec: {requirements: [{key: a, operator: In}]}}`, "requirements[0].values: Required value"},
		{"A31 Gt with two values", `template: {spec: {requirements: [{key: a, operator: Gt, values: ["1", "2"]}]}}`, "needs exactly one"},
		{"A31 Lt with a word", `template: {spec: {requirements: [{key: a, operator: Lt, values: [x]}]}}`, "whole number"},
		{"A31 Gte with a negative number", `template: {spec: {requirements: [{key: a, operator: Gte, values: ["-1"]}]}}`, "whole number"},
		{"A31 Lte beyond 64 bits", `template: {spec: {requirements: [{key: a, operator: Lte, values: ["99999999999999999999"]}]}}`, "whole number"},
		{"A31 bounds", `template: {spec: {requirements: [{key: a, operator: Gte, values: ["0"]}, {key: a, operator: Lte, values: ["9"]}]}}`, ""},
		{"A31 NotIn without values", `template: {spec: {requirements: [{key: a, operator: NotIn}]}}`, ""},
		{"A31 minValues 0", `template: {spec: {requirements: [{key: a, operator: Exists, minValues: 0}]}}`, "minValues"},
		{"A31 minValues 51", `template: {spec: {requirements: [{key: a, operator: Exists, minValues: 51}]}}`, "from 1 to 50"},
		{"A31 minValues above the values", `template: {spec: {requirements: [{key: a, operator: In, values: [b], minValues: 2}]}}`, "more than the 1 values"},
		{"A32 a value that is no label value", `template: {spec: {requirements: [{key: a, operator: In, values: [ok, "not ok"]}]}}`, "requirements[0].values[1]"},
		{"A32 a value of 64 characters", `template: {spec: {requirements: [{key: a, operator: In, values: [` + long63 + `]}]}}`, "requirements[0].values[0]"},
		{"A33 entries with too little in common", `template: {spec: {requirements: [{key: a, operator: In, values: [b, c, d], minValues: 2}, {key: a, operator: In, values: [d, e]}]}}`, "1 values are possible and 2 are needed"},
		{"A33 entries with nothing in common", `template: {spec: {requirements: [{key: a, operator: In, values: [b]}, {key: a, operator: In, values: [c]}]}}`, "0 values are possible"},
		{"A33 the largest minValues counts", `template: {spec: {requirements: [{key: a, operator: Exists, minValues: 3}, {key: a, operator: In, values: [b, c], minValues: 1}]}}`, "3 are needed"},
		{"A33 the same key by an older name", `template: {spec: {requirements: [{key: topology.kubernetes.io/zone, operator: In, values: [b]}, {key: failure-domain.beta.kubernetes.io/zone, operator: In, values: [c]}]}}`, "0 values are possible"},
		{"A33 enough in common", `template: {spec: {requirements: [{key: a, operator: In, values: [b, c, d], minValues: 2}, {key: a, operator: In, values: [c, d]}]}}`, ""},
		{"A59 only unknown capacity types", `template: {spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [cheap]}]}}`, "none is known"},
		{"A59 known and unknown capacity types", `template: {spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [cheap, spot]}]}}`, ""},
		{"A59 fewer known capacity types than minValues", `template: {spec: {requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [cheap, spot], minValues: 2}]}}`, "only 1 of the values are known"},
		{"A59 NotIn with an unknown capacity type", `template: {spec: {requirements: [{key: karpenter.sh/capacity-type, operator: NotIn, values: [cheap]}]}}`, ""},
		{"A59 a restricted key", `template: {spec: {requirements: [{key: karpenter.sh/registered, operator: Exists}]}}`, "requirements[0].key"},
		{"A81 a name of 64 characters", `template: {spec: {requirements: [{key: ` + long63 + `, operator: Exists}]}}`, "must be no more than 63"},
		{"A81 a domain of 254 characters", `template: {spec: {requirements: [{key: ` + long254 + `/b, operator: Exists}]}}`, "must be no more than 253"},
		{"A26 a negative limit", "limits: {cpu: -5}", "spec.limits[cpu]"},
		{"A26 a limit that means nothing", "limits: {cpu: 1e1.5}", "spec.limits[cpu]"},
		{"A26 a limit of zero", "limits: {cpu: 0}", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			problems := poolWith(t, test.spec).Validate(CoreLabelRules())
			text := ""
			if len(problems) > 0 {
				text = problems.ToAggregate().Error()
			}
			if (text == "") != (test.want == "") || !strings.Contains(text, test.want) {
				t.Errorf("problems %q, want %q", text, test.want)
			}
		})
	}
}

func TestA15_AClassIsNeeded(t *testing.T) {
	pool := &NodePool{}
	if problems := pool.Validate(CoreLabelRules()); len(problems) != 1 || problems[0].Field != "spec.template.spec.nodeClassRef" {
		t.Error(problems)
	}
}

func TestValidate_NameBecomesALabel(t *testing.T) {
	pool := poolWith(t, `template: {spec: {}}`)
	pool.Name = strings.Repeat("a", 64)
	if problems := pool.Validate(CoreLabelRules()); len(problems) != 1 || problems[0].Field != "metadata.name" {
		t.Error(problems)
	}
}

func TestA28_AStaticPoolIsValid(t *testing.T) {
	pool := poolWith(t, `{replicas: 3, template: {spec: {nodeClassRef: {group: g, kind: k, name: n}}}}`)
	if c := pool.ValidationCondition(CoreLabelRules()); c.Status != metav1.ConditionTrue {
		t.Error(line(&c))
	}
}

func TestA30_ValidationCondition(t *testing.T) {
	pool := poolWith(t, `template: {metadata: {labels: {kubernetes.io/hostname: x}}}`)
	if c := pool.ValidationCondition(CoreLabelRules()); c.Status != metav1.ConditionFalse || c.Reason != ReasonNodePoolValidationFailed || !strings.Contains(c.Message, "spec.template.metadata.labels") {
		t.Error(line(&c))
	}
	pool = poolWith(t, `template: {spec: {}}`)
	if c := pool.ValidationCondition(CoreLabelRules()); c.Status != metav1.ConditionTrue {
		t.Error(line(&c))
	}
}

func FuzzRequirement(f *testing.F) {
	f.Add("karpenter.sh/capacity-type", "In", "spot,cheap", 2)
	f.Add("a/b/c", "Gt", "5", 0)
	f.Add("", "", "", -1)
	f.Fuzz(func(t *testing.T, key, operator, values string, minValues int) {
		requirement := NodeSelectorRequirementWithMinValues{
			Key: key, Operator: corev1.NodeSelectorOperator(operator), Values: strings.Split(values, ","), MinValues: &minValues,
		}
		problems := ValidateRequirement(requirement, CoreLabelRules(), field.NewPath("r"))
		for _, problem := range problems {
			if !strings.HasPrefix(problem.Field, "r.") {
				t.Fatalf("%v does not name its field", problem)
			}
		}
		pool := &NodePool{}
		pool.Spec.Template.Spec.Requirements = []NodeSelectorRequirementWithMinValues{requirement, requirement}
		pool.ValidationCondition(CoreLabelRules())
	})
}
