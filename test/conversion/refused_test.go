package conversion

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestBeta_Rules has an accepted and a refused example for every rule of the v1beta1 schema that is not simply one of v1. The
// message says which field and what would be right.
func TestBeta_Rules(t *testing.T) {
	c := shared
	for _, table := range []struct {
		kind, base string
		cases      []struct{ name, change, refused string }
	}{
		{"NodePool", `{template: {spec: {requirements: []}}}`, poolCases},
		{"NodeClaim", `{requirements: []}`, claimCases},
		{"EC2NodeClass", `{amiFamily: AL2, role: r, subnetSelectorTerms: [{id: subnet-1}], securityGroupSelectorTerms: [{id: sg-1}]}`, classCases},
	} {
		for _, one := range table.cases {
			t.Run(table.kind+" "+one.name, func(t *testing.T) {
				spec := parse(t, table.base)
				overlay(spec, parse(t, one.change))
				object := object("karpenter.sh/v1beta1", table.kind, "rules", spec)
				if table.kind == "EC2NodeClass" {
					object.SetAPIVersion("karpenter.k8s.aws/v1beta1")
				}
				checkRule(t, c, object, one.refused)
			})
		}
	}
}

func checkRule(t *testing.T, c *cluster, object *unstructured.Unstructured, refused string) {
	t.Helper()
	c.cleanup(t, object)
	err := c.Client.Create(t.Context(), object, client.FieldValidation("Strict"))
	switch {
	case refused == "" && err != nil:
		t.Errorf("refused: %v", err)
	case refused != "" && err == nil:
		t.Errorf("accepted, want %q", refused)
	case refused != "" && !strings.Contains(err.Error(), refused):
		t.Errorf("message %q lacks %q", err, refused)
	case refused == "":
		// What v1beta1 accepts is valid in v1 too.
		v1 := c.read(t, object, "v1")
		v1.SetName("rules-copy")
		v1.SetResourceVersion("")
		v1.SetUID("")
		if err := c.Client.Create(t.Context(), v1, client.DryRunAll, client.FieldValidation("Strict")); err != nil {
			t.Errorf("in v1: %v", err)
		}
	}
}

// overlay merges change into base; null removes.
func overlay(base, change tree) {
	for key, value := range change {
		inner, isTree := value.(tree)
		under, hasTree := base[key].(tree)
		switch {
		case value == nil:
			delete(base, key)
		case isTree && hasTree:
			overlay(under, inner)
		default:
			base[key] = value
		}
	}
}

var poolCases = []struct{ name, change, refused string }{
	{"A64 a delay beside WhenUnderutilized", `{disruption: {consolidationPolicy: WhenUnderutilized, consolidateAfter: 30s}}`, ""},
	{"A64 WhenEmpty without a delay", `{disruption: {consolidationPolicy: WhenEmpty}}`, ""},
	{"A63 the policy of v1", `{disruption: {consolidationPolicy: WhenEmptyOrUnderutilized}}`, `supported values: "WhenEmpty", "WhenUnderutilized"`},
	{"a delay in days", `{disruption: {consolidateAfter: 1d}}`, "consolidateAfter must be"},
	{"A65 expireAfter Never", `{disruption: {expireAfter: Never}}`, ""},
	{"A65 expireAfter in days", `{disruption: {expireAfter: 30d}}`, "expireAfter must be"},
	{"A65 expireAfter as a number", `{disruption: {expireAfter: 30}}`, "must be of type string"},
	{"A65 expireAfter where v1 has it", `{template: {spec: {expireAfter: 720h}}}`, `unknown field "spec.template.spec.expireAfter"`},
	{"A66 a schedule without a duration", `{disruption: {budgets: [{nodes: "0", schedule: "0 9-17 * * 1-5"}]}}`, ""},
	{"A66 a duration without a schedule", `{disruption: {budgets: [{nodes: "0", duration: 1h}]}}`, "duration needs schedule"},
	{"A66 a budget without nodes", `{disruption: {budgets: [{schedule: "@daily"}]}}`, ""},
	{"A66 reasons", `{disruption: {budgets: [{nodes: "0", reasons: [Empty]}]}}`, `unknown field "spec.disruption.budgets[0].reasons"`},
	{"a budget of 101%", `{disruption: {budgets: [{nodes: 101%}]}}`, "nodes must be"},
	{"a bad schedule", `{disruption: {budgets: [{nodes: "0", schedule: "daily"}]}}`, "schedule must be"},
	{"a bad duration", `{disruption: {budgets: [{nodes: "0", schedule: "@daily", duration: 30s}]}}`, "duration must be"},
	{"A67 only a name", `{template: {spec: {nodeClassRef: {name: a}}}}`, ""},
	{"A67 no name", `{template: {spec: {nodeClassRef: {kind: EC2NodeClass}}}}`, "nodeClassRef.name: Required value"},
	{"A67 an empty name", `{template: {spec: {nodeClassRef: {name: ""}}}}`, "nodeClassRef.name"},
	{"A67 an apiVersion without a version", `{template: {spec: {nodeClassRef: {name: a, apiVersion: karpenter.k8s.aws}}}}`, "apiVersion must be group/version"},
	{"A67 group, which is of v1", `{template: {spec: {nodeClassRef: {name: a, group: karpenter.k8s.aws}}}}`, `unknown field "spec.template.spec.nodeClassRef.group"`},
	{"A68 kubelet", `{template: {spec: {kubelet: {maxPods: 20, systemReserved: {cpu: 100m}, evictionHard: {memory.available: 5%}}}}}`, ""},
	{"A68 an unknown kubelet field", `{template: {spec: {kubelet: {maxPod: 20}}}}`, `unknown field "spec.template.spec.kubelet.maxPod"`},
	{"A68 maxPods below zero", `{template: {spec: {kubelet: {maxPods: -1}}}}`, "greater than or equal to 0"},
	{"A68 thresholds the wrong way round", `{template: {spec: {kubelet: {imageGCHighThresholdPercent: 10, imageGCLowThresholdPercent: 20}}}}`, "must be below imageGCHighThresholdPercent"},
	{"A68 a soft limit without a grace period", `{template: {spec: {kubelet: {evictionSoft: {memory.available: 5%}}}}}`, "needs an entry in evictionSoftGracePeriod"},
	{"A68 a grace period without a soft limit", `{template: {spec: {kubelet: {evictionSoftGracePeriod: {memory.available: 1m}}}}}`, "needs an entry in evictionSoft"},
	{"A68 an unknown signal", `{template: {spec: {kubelet: {evictionHard: {memory: 5%}}}}}`, "may only have the keys"},
	{"A68 a reserved amount that is none", `{template: {spec: {kubelet: {kubeReserved: {cpu: lots}}}}}`, "must be a quantity"},
	{"A69 empty resources", `{template: {spec: {resources: {}}}}`, ""},
	{"A69 resources", `{template: {spec: {resources: {requests: {cpu: 1}}}}}`, "resources cannot be set in a NodePool"},
	{"A70 Gte", `{template: {spec: {requirements: [{key: a, operator: Gte, values: ["1"]}]}}}`, `supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"`},
	{"A70 replicas", `{replicas: 3}`, `unknown field "spec.replicas"`},
	{"A70 terminationGracePeriod", `{template: {spec: {terminationGracePeriod: 1h}}}`, `unknown field "spec.template.spec.terminationGracePeriod"`},
	{"weight in the spec", `{weight: 10}`, ""},
	{"weight in the template", `{template: {spec: {weight: 10}}}`, ""},
	{"weight in both", `{weight: 10, template: {spec: {weight: 10}}}`, "weight is given twice"},
	{"weight 0", `{weight: 0}`, "greater than or equal to 1"},
	{"weight 101 in the template", `{template: {spec: {weight: 101}}}`, "less than or equal to 100"},
	{"no template", `{template: null}`, "spec.template: Required value"},
	{"no requirements", `{template: {spec: {requirements: null}}}`, "requirements: Required value"},
	{"In without values", `{template: {spec: {requirements: [{key: a, operator: In}]}}}`, "operator In needs at least one entry"},
	{"Gt with two values", `{template: {spec: {requirements: [{key: a, operator: Gt, values: ["1", "2"]}]}}}`, "operator Gt or Lt needs exactly one entry"},
	{"too few values for minValues", `{template: {spec: {requirements: [{key: a, operator: In, values: [b], minValues: 2}]}}}`, "at least as many entries as minValues"},
	{"the pool's own label", `{template: {spec: {requirements: [{key: karpenter.sh/nodepool, operator: Exists}]}}}`, "karpenter.sh/nodepool are not allowed in a NodePool"},
	{"A74 a label in kubernetes.io", `{template: {metadata: {labels: {example.kubernetes.io/a: b}}}}`, ""},
	{"a label in karpenter.sh", `{template: {metadata: {labels: {karpenter.sh/a: b}}}}`, "labels in domain karpenter.sh are restricted"},
	{"limits as whole numbers", `{limits: {cpu: 1000, memory: 2000Gi}}`, ""},
}

var claimCases = []struct{ name, change, refused string }{
	{"nothing but requirements", `{}`, ""},
	{"A67 only a name", `{nodeClassRef: {name: a}}`, ""},
	{"A67 no name", `{nodeClassRef: {}}`, "nodeClassRef.name: Required value"},
	{"A68 kubelet", `{kubelet: {maxPods: 20}}`, ""},
	{"A68 podsPerCore below zero", `{kubelet: {podsPerCore: -1}}`, "greater than or equal to 0"},
	{"resources", `{resources: {requests: {cpu: 1}}}`, ""},
	{"A77 expireAfter, which is of v1", `{expireAfter: 1h}`, `unknown field "spec.expireAfter"`},
	{"the pool's label", `{requirements: [{key: karpenter.sh/nodepool, operator: In, values: [a]}]}`, ""},
	{"no requirements", `{requirements: null}`, "requirements: Required value"},
	{"a taint without an effect", `{taints: [{key: a}]}`, "effect: Required value"},
}

var classCases = []struct{ name, change, refused string }{
	{"a family without a selector", `{}`, ""},
	{"no family", `{amiFamily: null}`, "spec.amiFamily: Required value"},
	{"an unknown family", `{amiFamily: Arch}`, `supported values: "AL2", "AL2023", "Bottlerocket", "Ubuntu", "Custom"`},
	{"Ubuntu", `{amiFamily: Ubuntu, amiSelectorTerms: [{id: ami-1}]}`, ""},
	{"Ubuntu without a selector", `{amiFamily: Ubuntu}`, "amiSelectorTerms must be given with amiFamily Ubuntu"},
	{"Custom", `{amiFamily: Custom, amiSelectorTerms: [{name: a, owner: self}]}`, ""},
	{"Custom without a selector", `{amiFamily: Custom, amiSelectorTerms: []}`, "amiSelectorTerms must be given with amiFamily Custom"},
	{"an alias, which is of v1", `{amiSelectorTerms: [{alias: al2@latest}]}`, `unknown field "spec.amiSelectorTerms[0].alias"`},
	{"an empty term", `{amiSelectorTerms: [{}]}`, "each term needs tags, id or name"},
	{"id and name", `{amiSelectorTerms: [{id: ami-1, name: a}]}`, "id cannot be combined"},
	{"a bad id", `{amiSelectorTerms: [{id: a-1}]}`, "should match 'ami-"},
	{"an empty tag", `{amiSelectorTerms: [{tags: {a: ""}}]}`, "neither key nor value can be empty"},
	{"instanceProfile", `{role: null, instanceProfile: p}`, ""},
	{"role and instanceProfile", `{instanceProfile: p}`, "exactly one of role and instanceProfile"},
	{"neither", `{role: null}`, "exactly one of role and instanceProfile"},
	{"kubelet, which is of v1", `{kubelet: {maxPods: 1}}`, `unknown field "spec.kubelet"`},
	{"metadata options in part", `{metadataOptions: {httpTokens: optional}}`, ""},
	{"hop limit 65", `{metadataOptions: {httpPutResponseHopLimit: 65}}`, "less than or equal to 64"},
	{"httpTokens maybe", `{metadataOptions: {httpTokens: maybe}}`, `supported values: "required", "optional"`},
	{"two root volumes", `{blockDeviceMappings: [{rootVolume: true}, {rootVolume: true}]}`, "at most one entry may have rootVolume"},
	{"a volume without a size", `{blockDeviceMappings: [{ebs: {volumeType: gp3}}]}`, "ebs needs volumeSize, or snapshotID"},
	{"a volume of 100GB", `{blockDeviceMappings: [{ebs: {volumeSize: 100GB}}]}`, "volumeSize must be"},
	{"no subnets", `{subnetSelectorTerms: []}`, "subnetSelectorTerms cannot be empty"},
	{"no security groups", `{securityGroupSelectorTerms: []}`, "securityGroupSelectorTerms cannot be empty"},
	{"a tag that Karpenter sets", `{tags: {karpenter.sh/nodepool: a}}`, "is set by Karpenter"},
}
