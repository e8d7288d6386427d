package convert

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	awsv1beta1 "karpenter/api/aws/v1beta1"
	karpv1beta1 "karpenter/api/karpenter/v1beta1"
)

// parse reads a spec written as YAML.
func parse(t *testing.T, text string) tree {
	t.Helper()
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var out tree
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func objectOf(kind, version string, spec tree) tree {
	return tree{"apiVersion": groupVersion(kind, version), "kind": kind, "metadata": tree{"name": "x"}, "spec": spec}
}

// poolSpec wraps the part of a pool that a case is about.
func poolSpec(t *testing.T, text string) tree {
	t.Helper()
	spec := parse(t, text)
	template, ok := spec["template"].(tree)
	if !ok {
		template = tree{"spec": tree{}}
		spec["template"] = template
	}
	template["spec"].(tree)["requirements"] = []any{}
	return spec
}

// Each case is a mapping of the table: what is said in v1beta1, and which parts of the v1 object come of it.
func TestMapping_Pool(t *testing.T) {
	for _, c := range []struct{ name, beta, want string }{
		{"A63 WhenUnderutilized", `disruption: {consolidationPolicy: WhenUnderutilized}`, `disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s, budgets: [{nodes: 10%}]}`},
		{"A63 WhenEmpty", `disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s}`, `disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s, budgets: [{nodes: 10%}]}`},
		{"A63 nothing said", `{}`, `disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s, budgets: [{nodes: 10%}]}`},
		{"A64 B16 Never is kept", `disruption: {consolidationPolicy: WhenUnderutilized, consolidateAfter: Never}`, `disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: Never, budgets: [{nodes: 10%}]}`},
		{"A64 30s beside WhenUnderutilized is kept", `disruption: {consolidationPolicy: WhenUnderutilized, consolidateAfter: 30s}`, `disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 30s, budgets: [{nodes: 10%}]}`},
		{"A65 expireAfter moves", `disruption: {expireAfter: 24h0m}`, `template.spec.expireAfter: 24h0m`},
		{"A65 Never", `disruption: {expireAfter: Never}`, `template.spec.expireAfter: Never`},
		{"A65 default", `disruption: {}`, `template.spec.expireAfter: 720h`},
		{"A66 budgets", `disruption: {budgets: [{nodes: "5"}, {nodes: "0", schedule: "@daily", duration: 8h}]}`, `disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s, budgets: [{nodes: "5"}, {nodes: "0", schedule: "@daily", duration: 8h}]}`},
		{"A66 a schedule without a duration", `disruption: {budgets: [{nodes: "0", schedule: "0 9-17 * * 1-5"}]}`, `disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s, budgets: [{nodes: "0", schedule: "0 9-17 * * 1-5", duration: 1h}]}`},
		{"A66 no budget at all", `disruption: {budgets: []}`, `disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s, budgets: []}`},
		{"A67 full reference", `template: {spec: {nodeClassRef: {apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: a}}}`, `template.spec.nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}`},
		{"A67 only a name", `template: {spec: {nodeClassRef: {name: a}}}`, `template.spec.nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}`},
		{"A67 no reference", `{}`, `template.spec.nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}`},
		{"A67 another provider", `template: {spec: {nodeClassRef: {apiVersion: karpenter.example.com/v1, kind: MyClass, name: a}}}`, `template.spec.nodeClassRef: {group: karpenter.example.com, kind: MyClass, name: a}`},
		{"A68 kubelet leaves the spec", `template: {spec: {kubelet: {maxPods: 20}}}`, `template.spec.kubelet: null`},
		{"A69 resources are dropped", `template: {spec: {resources: {}}}`, `template.spec.resources: null`},
		{"weight in the spec", `weight: 10`, `weight: 10`},
		{"weight in the template", `template: {spec: {weight: 10}}`, "weight: 10\ntemplate.spec.weight: null"},
		{"quantities stay as written", `limits: {cpu: 1000, memory: 2000Gi}`, `limits: {cpu: 1000, memory: 2000Gi}`},
	} {
		t.Run(c.name, func(t *testing.T) { checkMapping(t, objectOf(poolKind, versionBeta, poolSpec(t, c.beta)), c.want) })
	}
}

// checkMapping converts, compares the parts that a case speaks about, and checks that the way back leaves no trace.
func checkMapping(t *testing.T, beta tree, want string) {
	t.Helper()
	v1 := read(t, beta, versionV1)
	got := parts(v1["spec"].(tree))
	for path, value := range parse(t, want) {
		if diff := cmp.Diff(value, got[path]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	back := read(t, v1, versionBeta)
	if diff := cmp.Diff(beta, back); diff != "" {
		t.Errorf("back in v1beta1 (-written +read):\n%s", diff)
	}
	if left := remains(back); left != nil {
		t.Errorf("annotations left: %v", left)
	}
}

func TestMapping_Class(t *testing.T) {
	const ubuntuRoot = `blockDeviceMappings: [{deviceName: /dev/sda1, rootVolume: true, ebs: {encrypted: true, volumeSize: 20Gi, volumeType: gp3}}]`
	for _, c := range []struct{ name, beta, want string }{
		{"AL2", `amiFamily: AL2`, "amiSelectorTerms: [{alias: al2@latest}]\namiFamily: null"},
		{"AL2023", `amiFamily: AL2023`, `amiSelectorTerms: [{alias: al2023@latest}]`},
		{"Bottlerocket", `amiFamily: Bottlerocket`, `amiSelectorTerms: [{alias: bottlerocket@latest}]`},
		{"Windows2019", `amiFamily: Windows2019`, `amiSelectorTerms: [{alias: windows2019@latest}]`},
		{"Windows2022", `amiFamily: Windows2022`, `amiSelectorTerms: [{alias: windows2022@latest}]`},
		{"a selector is kept with its family", `{amiFamily: AL2, amiSelectorTerms: [{id: ami-1}]}`, "amiFamily: AL2\namiSelectorTerms: [{id: ami-1}]"},
		{"Custom", `{amiFamily: Custom, amiSelectorTerms: [{name: mine}]}`, "amiFamily: Custom\namiSelectorTerms: [{name: mine}]"},
		{"Custom without a selector", `amiFamily: Custom`, "amiFamily: Custom\namiSelectorTerms: [{id: ami-placeholder}]"},
		{"Ubuntu", `{amiFamily: Ubuntu, amiSelectorTerms: [{id: ami-1}]}`, "amiFamily: AL2\namiSelectorTerms: [{id: ami-1}]\n" + ubuntuRoot},
		{"Ubuntu with disks", `{amiFamily: Ubuntu, amiSelectorTerms: [{id: ami-1}], blockDeviceMappings: [{deviceName: /dev/sda1}]}`, "amiFamily: AL2\nblockDeviceMappings: [{deviceName: /dev/sda1}]"},
		{"Ubuntu without a selector", `amiFamily: Ubuntu`, "amiFamily: AL2\namiSelectorTerms: [{id: ami-placeholder}]\n" + ubuntuRoot},
		{"hop limit 2 is written out", `amiFamily: AL2`, `metadataOptions: {httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 2, httpTokens: required}`},
		{"metadata options are kept", `{amiFamily: AL2, metadataOptions: {httpTokens: optional}}`, `metadataOptions: {httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 2, httpTokens: optional}`},
		{"instanceProfile", `{amiFamily: AL2, instanceProfile: p}`, `instanceProfile: p`},
	} {
		t.Run(c.name, func(t *testing.T) { checkMapping(t, objectOf(nodeClassKind, versionBeta, parse(t, c.beta)), c.want) })
	}
}

// What Karpenter 1.0 wrote is understood: such objects read in v1beta1 as they were before.
func TestTakeOver_AnnotationsOfTheReference(t *testing.T) {
	for _, c := range []struct{ name, kind, v1, annotation, text, want string }{
		{"A68 kubelet", poolKind, `template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}}}`, KubeletAnnotation, `{"maxPods":10}`, `template.spec.kubelet: {maxPods: 10}`},
		{"A68 reference", poolKind, `template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}}}`, ClassRefAnnotation, `{"name":"a"}`, `template.spec.nodeClassRef: {name: a}`},
		{"A68 reference, edited since", poolKind, `template: {spec: {requirements: [], nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: b}}}`, ClassRefAnnotation, `{"name":"a"}`, `template.spec.nodeClassRef: {name: b}`},
		{"Ubuntu", nodeClassKind, `{amiFamily: AL2, amiSelectorTerms: [{id: ami-1}], blockDeviceMappings: [{deviceName: /dev/sda1, rootVolume: true, ebs: {encrypted: true, volumeSize: 20Gi, volumeType: gp3}}]}`, UbuntuAnnotation, "amiFamily,blockDeviceMappings", "amiFamily: Ubuntu\nblockDeviceMappings: null\namiSelectorTerms: [{id: ami-1}]"},
		{"Ubuntu without a selector", nodeClassKind, `{amiFamily: AL2, amiSelectorTerms: [{id: ami-placeholder}], blockDeviceMappings: []}`, UbuntuAnnotation, "amiFamily,incompatible", "amiFamily: Ubuntu\namiSelectorTerms: null"},
		{"Ubuntu, edited since", nodeClassKind, `{amiFamily: AL2023, amiSelectorTerms: [{id: ami-2}]}`, UbuntuAnnotation, "amiFamily,incompatible", "amiFamily: AL2023\namiSelectorTerms: [{id: ami-2}]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			object := objectOf(c.kind, versionV1, parse(t, c.v1))
			object["metadata"].(tree)["annotations"] = tree{c.annotation: c.text}
			got := parts(mustConvert(t, object, versionBeta)["spec"].(tree))
			for path, value := range parse(t, c.want) {
				if diff := cmp.Diff(value, got[path]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", path, diff)
				}
			}
		})
	}
	t.Run("alias version", func(t *testing.T) {
		object := objectOf(nodeClassKind, versionBeta, parse(t, `amiFamily: AL2023`))
		object["metadata"].(tree)["annotations"] = tree{AliasVersionAnnotation: "v20240807"}
		got := mustConvert(t, object, versionV1)["spec"].(tree)["amiSelectorTerms"]
		if diff := cmp.Diff([]any{tree{"alias": "al2023@v20240807"}}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// What only v1 can say is shown to a v1beta1 reader as the nearest thing, and comes back unchanged (A70).
func TestA70_OnlyInV1(t *testing.T) {
	pool := `{template: {spec: {requirements: %s, nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: a}, expireAfter: 720h}}, disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 0s, budgets: []}}`
	for _, c := range []struct{ name, kind, v1, want string }{
		{"Gte", poolKind, strings.Replace(pool, "%s", `[{key: a, operator: Gte, values: ["5"]}]`, 1), `template.spec.requirements: [{key: a, operator: Gt, values: ["4"]}]`},
		{"Lte", poolKind, strings.Replace(pool, "%s", `[{key: a, operator: Lte, values: ["5"]}]`, 1), `template.spec.requirements: [{key: a, operator: Lt, values: ["6"]}]`},
		{"Gte 0", poolKind, strings.Replace(pool, "%s", `[{key: a, operator: Gte, values: ["0"]}]`, 1), `template.spec.requirements: [{key: a, operator: Exists}]`},
		{"Balanced", poolKind, strings.Replace(strings.Replace(pool, "%s", "[]", 1), "WhenEmpty", "Balanced", 1), `disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 720h, budgets: []}`},
		{"reasons", poolKind, strings.Replace(strings.Replace(pool, "%s", "[]", 1), "budgets: []", `budgets: [{nodes: "1", reasons: [Empty]}]`, 1), `disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 0s, expireAfter: 720h, budgets: [{nodes: "1"}]}`},
		{"pinned alias", nodeClassKind, `{amiSelectorTerms: [{alias: al2023@v20240807}], metadataOptions: {httpPutResponseHopLimit: 1}}`, "amiFamily: AL2023\namiSelectorTerms: null"},
		{"hop limit of v1", nodeClassKind, `{amiFamily: AL2, amiSelectorTerms: [{id: ami-1}]}`, `metadataOptions: {httpEndpoint: enabled, httpProtocolIPv6: disabled, httpPutResponseHopLimit: 1, httpTokens: required}`},
		{"alias beside Custom", nodeClassKind, `{amiFamily: Custom, amiSelectorTerms: [{alias: al2@latest}]}`, "amiFamily: Custom\namiSelectorTerms: [{name: 'alias:al2@latest'}]"},
		{"SSM parameter", nodeClassKind, `{amiFamily: AL2, amiSelectorTerms: [{ssmParameter: /my/ami}]}`, `amiSelectorTerms: [{name: 'ssm:/my/ami'}]`},
		{"new fields", nodeClassKind, `{amiSelectorTerms: [{alias: al2@latest}], kubelet: {maxPods: 5}, ipPrefixCount: 1, someday: {a: 1}}`, "kubelet: null\nipPrefixCount: null\nsomeday: null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v1 := defaulted(objectOf(c.kind, versionV1, parse(t, c.v1)))
			beta := mustConvert(t, v1, versionBeta)
			got := parts(beta["spec"].(tree))
			for path, value := range parse(t, c.want) {
				if diff := cmp.Diff(value, got[path]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", path, diff)
				}
			}
			if diff := cmp.Diff(v1, read(t, beta, versionV1)); diff != "" {
				t.Errorf("back in v1:\n%s", diff)
			}
		})
	}
}

// TestFields holds the lists of known v1beta1 fields against the Go types.
func TestFields(t *testing.T) {
	for _, c := range []struct {
		of        any
		got       []string
		elsewhere []string // handled by name
	}{
		{karpv1beta1.NodePoolSpec{}, v1beta1PoolFields, nil},
		{karpv1beta1.Disruption{}, v1beta1DisruptionFields, nil},
		{karpv1beta1.Budget{}, v1beta1BudgetFields, nil},
		{karpv1beta1.NodeClaimSpec{}, v1beta1ClaimFields, []string{"kubelet"}},
		{karpv1beta1.NodeClaimTemplateSpec{}, v1beta1ClaimFields, []string{"kubelet", "weight"}},
		{awsv1beta1.EC2NodeClassSpec{}, v1beta1ClassFields, nil},
		{awsv1beta1.AMISelectorTerm{}, v1beta1TermFields, nil},
		{awsv1beta1.BlockDevice{}, v1beta1BlockDeviceFields, nil},
	} {
		fields := map[string]reflect.Type{}
		jsonFields(reflect.TypeOf(c.of), fields)
		want := slices.DeleteFunc(sortedKeys(fields), func(name string) bool { return slices.Contains(c.elsewhere, name) })
		got := slices.Clone(c.got)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%T (-type +list):\n%s", c.of, diff)
		}
	}
}
