// Package schema holds the schemas of v1beta1 and v1 against each other, without an API server.
package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"pgregory.net/rapid"

	"karpenter/api/convert"
	"karpenter/api/crds"
	"karpenter/test/conversion/sample"
)

var definitions = sync.OnceValue(crds.Objects)

// schemaOf returns what a definition says about a kind in a version.
func schemaOf(t testing.TB, kind, version string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	for _, definition := range definitions() {
		for _, of := range definition.Spec.Versions {
			if definition.Spec.Names.Kind == kind && of.Name == version {
				return of.Schema.OpenAPIV3Schema
			}
		}
	}
	t.Fatalf("no schema of %s in %s", kind, version)
	return nil
}

// problems validates an object without the rules in CEL, which need an API server.
func problems(t testing.TB, object tree) []string {
	t.Helper()
	kind, _ := object["kind"].(string)
	apiVersion, _ := object["apiVersion"].(string)
	_, version, _ := strings.Cut(apiVersion, "/")
	var out []string
	for _, problem := range validator(t, kind, version).Validate(object).Errors {
		out = append(out, problem.Error())
	}
	return out
}

var validators sync.Map

func validator(t testing.TB, kind, version string) *validate.SchemaValidator {
	t.Helper()
	if known, ok := validators.Load(kind + version); ok {
		return known.(*validate.SchemaValidator)
	}
	data, err := json.Marshal(schemaOf(t, kind, version))
	if err != nil {
		t.Fatal(err)
	}
	var rules spec.Schema
	if err := json.Unmarshal(data, &rules); err != nil {
		t.Fatal(err)
	}
	made := validate.NewSchemaValidator(&rules, nil, "", strfmt.Default)
	validators.Store(kind+version, made)
	return made
}

// prune removes what a schema does not know, as the API server does before it converts.
func prune(value any, rules *apiextensionsv1.JSONSchemaProps) {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			property, known := rules.Properties[key]
			switch {
			case item == nil:
				delete(value, key)
			case known:
				prune(item, &property)
			case rules.AdditionalProperties != nil && rules.AdditionalProperties.Schema != nil:
				prune(item, rules.AdditionalProperties.Schema)
			case rules.XPreserveUnknownFields == nil || !*rules.XPreserveUnknownFields:
				delete(value, key)
			}
		}
	case []any:
		for _, item := range value {
			if rules.Items != nil && rules.Items.Schema != nil {
				prune(item, rules.Items.Schema)
			}
		}
	}
}

// fill writes out the defaults of a schema, as the API server does whenever it reads an object from etcd.
func fill(value any, rules *apiextensionsv1.JSONSchemaProps) {
	switch value := value.(type) {
	case map[string]any:
		for key, property := range rules.Properties {
			if value[key] == nil && property.Default != nil {
				var item any
				if err := utiljson.Unmarshal(property.Default.Raw, &item); err != nil {
					panic(fmt.Sprintf("the default of %s: %v", key, err))
				}
				value[key] = item
			}
			fill(value[key], &property)
		}
		if rules.AdditionalProperties != nil && rules.AdditionalProperties.Schema != nil {
			for _, item := range value {
				fill(item, rules.AdditionalProperties.Schema)
			}
		}
	case []any:
		for _, item := range value {
			if rules.Items != nil && rules.Items.Schema != nil {
				fill(item, rules.Items.Schema)
			}
		}
	}
}

type tree = map[string]any

var other = map[string]string{"v1": "v1beta1", "v1beta1": "v1"}

func converted(t testing.TB, object tree, to string) tree {
	t.Helper()
	group, _, _ := strings.Cut(object["apiVersion"].(string), "/")
	out, err := convert.Object(object, group+"/"+to, nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSchema_ConvertedObjectsAreValid(t *testing.T) {
	for _, kind := range sample.Kinds() {
		for from, to := range other {
			t.Run(kind+" from "+from, func(t *testing.T) {
				rapid.Check(t, func(r *rapid.T) {
					object := sample.Object(r, kind, from)
					if found := problems(t, object); found != nil {
						r.Fatalf("not a valid sample: %v", found)
					}
					if found := problems(t, converted(t, object, to)); found != nil {
						r.Fatalf("%v\nof %v", found, object)
					}
				})
			})
		}
	}
}

// FuzzSchema: what the v1beta1 schema accepts becomes what the v1 schema accepts.
func FuzzSchema(f *testing.F) {
	f.Add(0, `{"weight":3,"template":{"spec":{"requirements":[{"key":"a","operator":"Gt","values":["4"]}],"kubelet":{"maxPods":4},"nodeClassRef":{"name":"a"}}},"disruption":{"consolidationPolicy":"WhenUnderutilized","consolidateAfter":"30s","expireAfter":"Never","budgets":[{"nodes":"0","schedule":"@daily"}]}}`)
	f.Add(1, `{"requirements":[],"nodeClassRef":{"name":"a","apiVersion":"b/c","kind":"d"},"resources":{"requests":{"cpu":1}}}`)
	f.Add(2, `{"amiFamily":"AL2","role":"r","subnetSelectorTerms":[{"id":"subnet-1"}],"securityGroupSelectorTerms":[],"amiSelectorTerms":[{"name":"ssm:/a"}],"metadataOptions":{"httpTokens":"optional"},"blockDeviceMappings":[{"ebs":{"volumeSize":"1Gi"}}]}`)
	kinds := sample.Kinds()
	f.Fuzz(func(t *testing.T, kind int, text string) {
		var body tree
		if utiljson.Unmarshal([]byte(text), &body) != nil || kind < 0 || kind >= len(kinds) {
			return
		}
		group := "karpenter.sh"
		if kinds[kind] == "EC2NodeClass" {
			group = "karpenter.k8s.aws"
		}
		object := tree{"apiVersion": group + "/v1beta1", "kind": kinds[kind], "metadata": tree{"name": "a"}, "spec": body}
		prune(object["spec"], ptr(schemaOf(t, kinds[kind], "v1beta1").Properties["spec"]))
		if problems(t, object) != nil {
			return
		}
		v1 := converted(t, object, "v1")
		if found := problems(t, v1); found != nil {
			t.Errorf("%v\nof %v", found, v1)
		}
		fill(v1["spec"], ptr(schemaOf(t, kinds[kind], "v1").Properties["spec"]))
		if diff := cmp.Diff(object, converted(t, v1, "v1beta1")); diff != "" {
			t.Errorf("there and back:\n%s", diff)
		}
	})
}

func ptr[V any](value V) *V { return &value }

// TestSchema_SameRulesInBothVersions: fields that are copied as they are must be judged alike, or the copy is refused later.
func TestSchema_SameRulesInBothVersions(t *testing.T) {
	claim := []string{"taints", "startupTaints", "requirements[].key", "requirements[].values", "requirements[].minValues"}
	check := func(kind, betaPath, v1Kind, v1Path string) {
		beta, v1 := rulesAt(t, kind, "v1beta1", betaPath), rulesAt(t, v1Kind, "v1", v1Path)
		if diff := cmp.Diff(v1, beta); diff != "" {
			t.Errorf("%s %s and v1 %s %s (-v1 +v1beta1):\n%s", kind, betaPath, v1Kind, v1Path, diff)
		}
	}
	for _, field := range claim {
		check("NodePool", "spec.template.spec."+field, "NodePool", "spec.template.spec."+field)
		check("NodeClaim", "spec."+field, "NodeClaim", "spec."+field)
	}
	for _, field := range []string{"limits", "weight", "template.metadata", "disruption.consolidateAfter", "disruption.budgets[].nodes", "disruption.budgets[].schedule", "disruption.budgets[].duration"} {
		check("NodePool", "spec."+field, "NodePool", "spec."+field)
	}
	check("NodePool", "spec.template.spec.weight", "NodePool", "spec.weight")
	check("NodePool", "spec.disruption.expireAfter", "NodePool", "spec.template.spec.expireAfter")
	check("NodePool", "spec.template.spec.nodeClassRef.name", "NodePool", "spec.template.spec.nodeClassRef.name")
	for _, kind := range sample.Kinds() {
		check(kind, "status", kind, "status")
	}
	for _, field := range []string{
		"subnetSelectorTerms", "securityGroupSelectorTerms", "associatePublicIPAddress", "userData", "role", "instanceProfile", "tags",
		"instanceStorePolicy", "detailedMonitoring", "context", "amiSelectorTerms[].id", "amiSelectorTerms[].tags", "amiSelectorTerms[].name",
		"blockDeviceMappings[].deviceName", "blockDeviceMappings[].rootVolume",
		"metadataOptions.httpEndpoint", "metadataOptions.httpProtocolIPv6", "metadataOptions.httpPutResponseHopLimit", "metadataOptions.httpTokens",
	} {
		check("EC2NodeClass", "spec."+field, "EC2NodeClass", "spec."+field)
	}
	for field := range schemaAt(t, "EC2NodeClass", "v1beta1", "spec.blockDeviceMappings[].ebs").Properties {
		check("EC2NodeClass", "spec.blockDeviceMappings[].ebs."+field, "EC2NodeClass", "spec.blockDeviceMappings[].ebs."+field)
	}
	for _, at := range []struct{ kind, path string }{{"NodePool", "spec.template.spec.kubelet"}, {"NodeClaim", "spec.kubelet"}} {
		for field := range schemaAt(t, at.kind, "v1beta1", at.path).Properties {
			if slices.Contains([]string{"maxPods", "kubeReserved", "systemReserved"}, field) {
				continue // v1 takes expressions too
			}
			check(at.kind, at.path+"."+field, "EC2NodeClass", "spec.kubelet."+field)
		}
	}
}

func schemaAt(t *testing.T, kind, version, path string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	at := schemaOf(t, kind, version)
	for step := range strings.SplitSeq(path, ".") {
		name, list := strings.CutSuffix(step, "[]")
		next, ok := at.Properties[name]
		if !ok {
			t.Fatalf("%s in %s has no field %s", kind, version, path)
		}
		at = &next
		if list {
			at = at.Items.Schema
		}
	}
	return at
}

// rulesAt returns a schema without what is for people, and without defaults, which v1beta1 does not have.
func rulesAt(t *testing.T, kind, version, path string) any {
	t.Helper()
	data, err := json.Marshal(schemaAt(t, kind, version, path))
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	strip(out, strings.HasPrefix(path, "status"))
	return out
}

func strip(value any, keepDefaults bool) {
	switch value := value.(type) {
	case map[string]any:
		if _, isText := value["description"].(string); isText {
			delete(value, "description")
		}
		if !keepDefaults {
			delete(value, "default")
		}
		for _, item := range value {
			strip(item, keepDefaults)
		}
	case []any:
		for _, item := range value {
			strip(item, keepDefaults)
		}
	}
}

// TestSchema_BetaHasNoDefaults: an object reads back as it was written.
func TestSchema_BetaHasNoDefaults(t *testing.T) {
	for _, kind := range sample.Kinds() {
		data, err := json.Marshal(schemaAt(t, kind, "v1beta1", "spec"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), `"default":`) {
			t.Errorf("%s has a default: %s", kind, fmt.Sprintf("%.200s", data))
		}
	}
}
