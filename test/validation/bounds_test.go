package validation

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"karpenter/api/crds"
)

// TestBounds fills every bounded list, map and text to its bound, which is accepted, and then beyond, which is refused
// with a message that names the field.
func TestBounds(t *testing.T) {
	list := func(item func(i int) any) func(n int) any {
		return func(n int) any {
			items := make([]any, n)
			for i := range items {
				items[i] = item(i)
			}
			return items
		}
	}
	tags := func(n int) any {
		entries := map[string]any{}
		for i := range n {
			entries[fmt.Sprint("key", i)] = "v"
		}
		return entries
	}
	taint := list(func(i int) any { return map[string]any{"key": fmt.Sprint("k", i), "effect": "NoSchedule"} })
	requirement := list(func(i int) any { return map[string]any{"key": fmt.Sprint("k", i), "operator": "Exists"} })
	byID := func(prefix string) func(n int) any {
		return list(func(i int) any { return map[string]any{"id": fmt.Sprint(prefix, i)} })
	}
	tests := []struct {
		name, table string
		path        []string
		bound       int
		fill        func(n int) any
		extra       map[string]any
	}{
		{"A10 labels", "nodepool", []string{"spec", "template", "metadata", "labels"}, 100, tags, nil},
		{"A12 taints", "nodepool", []string{"spec", "template", "spec", "taints"}, 100, taint, nil},
		{"A13 startupTaints", "nodepool", []string{"spec", "template", "spec", "startupTaints"}, 100, taint, nil},
		{"A14 requirements", "nodepool", []string{"spec", "template", "spec", "requirements"}, 100, requirement, nil},
		{"A21 budgets", "nodepool", []string{"spec", "disruption", "budgets"}, 50, list(func(int) any { return map[string]any{"nodes": "1"} }), nil},
		{"A34 requirements", "nodeclaim", []string{"spec", "requirements"}, 100, requirement, nil},
		{"subnetSelectorTerms", "ec2nodeclass", []string{"spec", "subnetSelectorTerms"}, 30, byID("subnet-"), nil},
		{"securityGroupSelectorTerms", "ec2nodeclass", []string{"spec", "securityGroupSelectorTerms"}, 30, byID("sg-"), nil},
		{"capacityReservationSelectorTerms", "ec2nodeclass", []string{"spec", "capacityReservationSelectorTerms"}, 30, byID("cr-"), nil},
		{"amiSelectorTerms", "ec2nodeclass", []string{"spec", "amiSelectorTerms"}, 30, byID("ami-"), map[string]any{"spec": map[string]any{"amiFamily": "AL2"}}},
		{"tags of a term", "ec2nodeclass", []string{"spec", "subnetSelectorTerms"}, 20, func(n int) any { return []any{map[string]any{"tags": tags(n)}} }, nil},
		{"blockDeviceMappings", "ec2nodeclass", []string{"spec", "blockDeviceMappings"}, 50, list(func(i int) any { return map[string]any{"deviceName": fmt.Sprint("d", i)} }), nil},
		{"networkInterfaces", "ec2nodeclass", []string{"spec", "networkInterfaces"}, 150, list(func(i int) any {
			return map[string]any{"networkCardIndex": int64(0), "deviceIndex": int64(i), "interfaceType": "interface"}
		}), nil},
		{"A81 a requirement key", "nodepool", []string{"spec", "template", "spec", "requirements"}, 316, func(n int) any {
			return []any{map[string]any{"key": strings.Repeat("k", n), "operator": "Exists"}}
		}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			try := func(n int) error {
				object := merged(t, base(t, test.table), test.extra)
				object.SetName("bounds")
				if err := unstructured.SetNestedField(object.Object, test.fill(n), test.path...); err != nil {
					t.Fatal(err)
				}
				return cluster.Client.Create(t.Context(), object, client.DryRunAll)
			}
			if err := try(test.bound); err != nil {
				t.Errorf("%d refused: %v", test.bound, err)
			}
			err := try(test.bound + 1)
			if err == nil {
				t.Fatalf("%d accepted", test.bound+1)
			}
			if field := strings.Join(test.path, "."); !strings.Contains(err.Error(), field) {
				t.Errorf("refusal does not name %s: %v", field, err)
			}
		})
	}
}

// TestEvery32BitNumberIsBounded: an older Kubernetes does not look at the format of a number, and one that does not fit the Go
// type would be stored, and stop every list and watch of its kind.
func TestEvery32BitNumberIsBounded(t *testing.T) {
	found := 0
	var walk func(path string, s *apiextensionsv1.JSONSchemaProps)
	walk = func(path string, s *apiextensionsv1.JSONSchemaProps) {
		if s.Format == "int32" {
			found++
			if s.Minimum == nil || *s.Minimum < math.MinInt32 || s.Maximum == nil || *s.Maximum > math.MaxInt32 {
				t.Errorf("%s has no bounds that fit 32 bits", path)
			}
		}
		for name := range s.Properties {
			child := s.Properties[name]
			walk(path+"."+name, &child)
		}
		if s.Items != nil && s.Items.Schema != nil {
			walk(path+"[]", s.Items.Schema)
		}
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			walk(path+"{}", s.AdditionalProperties.Schema)
		}
	}
	for _, crd := range crds.Objects() {
		for i := range crd.Spec.Versions {
			version := &crd.Spec.Versions[i]
			walk(crd.Spec.Names.Kind+" "+version.Name+" ", version.Schema.OpenAPIV3Schema)
		}
	}
	if found == 0 {
		t.Error("no 32-bit number was found")
	}
}

func base(t *testing.T, name string) map[string]any {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var table table
	if err := yaml.Unmarshal(data, &table); err != nil {
		t.Fatal(err)
	}
	return table.Base
}
