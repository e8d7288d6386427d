package conversion

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"karpenter/api/convert"
)

// documents reads the objects of a YAML file.
func documents(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []*unstructured.Unstructured
	for document := range strings.SplitSeq("\n"+string(text), "\n---\n") {
		out = append(out, &unstructured.Unstructured{Object: parse(t, document)})
	}
	return out
}

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

// TestSeeds_ReadBackAsWritten applies the manifests of the documents with kubectl, and reads them in both versions.
func TestSeeds_ReadBackAsWritten(t *testing.T) {
	c := shared
	for _, file := range guides(t) {
		for _, written := range documents(t, file) {
			if strings.HasPrefix(written.GetAPIVersion(), "karpenter.") {
				name := strings.Join([]string{filepath.Base(filepath.Dir(file)), filepath.Base(file), written.GetKind(), written.GetName()}, " ")
				t.Run(name, func(t *testing.T) { readBack(t, c, written) })
			}
		}
	}
}

func readBack(t *testing.T, c *cluster, written *unstructured.Unstructured) {
	text, err := json.Marshal(written.Object)
	if err != nil {
		t.Fatal(err)
	}
	c.cleanup(t, written)
	c.kubectl(t, string(text), "apply", "--validate=strict", "-f", "-")
	if again := c.kubectl(t, string(text), "apply", "--validate=strict", "-f", "-"); !strings.Contains(again, "unchanged") {
		t.Errorf("applied again: %s", again)
	}
	if written.GroupVersionKind().Version == "v1" {
		return
	}
	read := c.get(t, resource(written.GetKind(), "v1beta1"), written.GetName())
	if diff := cmp.Diff(written.Object["spec"], read.Object["spec"]); diff != "" {
		t.Errorf("in v1beta1 (-written +read):\n%s", diff)
	}
	if left := ours(read); len(left) > 0 {
		t.Errorf("annotations on the object as written: %v", left)
	}
	outcome := convert.Offline{}.Convert([]map[string]any{written.Object})[0]
	if outcome.Err != nil {
		t.Fatal(outcome.Err)
	}
	v1 := c.get(t, resource(written.GetKind(), "v1"), written.GetName())
	if diff := cmp.Diff(outcome.Objects[0]["spec"], v1.Object["spec"]); diff != "" {
		t.Errorf("in v1 (-converted offline +read):\n%s", diff)
	}
}

// ours returns the annotations that the conversion keeps things in.
func ours(object *unstructured.Unstructured) []string {
	var out []string
	for name := range object.GetAnnotations() {
		if strings.HasPrefix(name, "compatibility.") {
			out = append(out, name)
		}
	}
	return out
}

// TestA71_A72_Columns: kubectl shows each version with its own columns.
func TestA71_A72_Columns(t *testing.T) {
	c := shared
	pool := object("karpenter.sh/v1beta1", "NodePool", "columns", tree{"weight": int64(7), "template": tree{"spec": tree{"requirements": []any{}, "nodeClassRef": tree{"name": "mine"}}}})
	claim := object("karpenter.sh/v1beta1", "NodeClaim", "columns", tree{"requirements": []any{}, "nodeClassRef": tree{"name": "mine"}})
	for _, one := range []*unstructured.Unstructured{pool, claim} {
		c.create(t, one)
	}
	for _, want := range []struct{ resource, columns string }{
		{"nodepools.v1beta1.karpenter.sh", "NAME NODECLASS WEIGHT"},
		{"nodeclaims.v1beta1.karpenter.sh", "NAME TYPE ZONE NODE READY AGE CAPACITY NODEPOOL NODECLASS"},
		{"nodepools.v1.karpenter.sh", "NAME NODECLASS NODES READY AGE WEIGHT CPU MEMORY"},
	} {
		header, _, _ := strings.Cut(c.kubectl(t, "", "get", want.resource, "-o", "wide"), "\n")
		if got := strings.Join(strings.Fields(header), " "); got != want.columns {
			t.Errorf("%s: %q, want %q", want.resource, got, want.columns)
		}
	}
	explained := c.kubectl(t, "", "explain", "nodepools.spec.disruption.budgets", "--api-version=karpenter.sh/v1beta1")
	if !strings.Contains(strings.Join(strings.Fields(explained), " "), "business hours") {
		t.Errorf("kubectl explain says %s", explained)
	}
}
