package validation

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"karpenter/api/crds"
	"karpenter/test/harness"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// leastRefused is how many refused examples there must at least be.
const leastRefused = 140

// table is one file of testdata.
type table struct {
	// Base is a manifest that the API server accepts.
	Base map[string]any `json:"base"`
	// Cases are changes to it.
	Cases []example `json:"cases"`
}

// example is one change and what the API server must say to it.
type example struct {
	Name string `json:"name"`
	// Create is merged into the base (RFC 7386: null removes, lists are replaced).
	Create map[string]any `json:"create"`
	// Update, if given, is merged into the object after it has been created.
	Update map[string]any `json:"update"`
	// Refused is a part of the message; without it the object must be accepted.
	Refused string `json:"refused"`
	// Stored must be in the object as the API server returns it, defaults included.
	Stored map[string]any `json:"stored"`
}

var cluster *harness.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, harness.Options{}, func(c *harness.Cluster) { cluster = c }))
}

// TestExamples runs every example, and then checks that every rule of the CRDs has refused something.
func TestExamples(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	accepted, refusals := 0, []string{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var table table
			if err := yaml.UnmarshalStrict(data, &table); err != nil {
				t.Fatal(err)
			}
			for i, example := range table.Cases {
				t.Run(example.Name, func(t *testing.T) {
					name := fmt.Sprintf("%s-%d", strings.TrimSuffix(filepath.Base(file), ".yaml"), i)
					if message := run(t, name, table.Base, example); message != "" {
						refusals = append(refusals, message)
					} else {
						accepted++
					}
				})
			}
		})
	}
	t.Logf("%d examples accepted, %d refused", accepted, len(refusals))
	if len(refusals) < leastRefused {
		t.Errorf("%d refused examples, want at least %d", len(refusals), leastRefused)
	}
	all := strings.Join(refusals, "\n")
	for _, rule := range rules() {
		if !strings.Contains(all, rule.Message) {
			t.Errorf("no example is refused with %q (rule %s)", rule.Message, rule.Rule)
		}
	}
}

// run carries out one example and returns the message of the refusal, if it was one.
func run(t *testing.T, name string, base map[string]any, example example) string {
	t.Helper()
	object := merged(t, base, example.Create)
	object.SetName(name)
	// Strict refuses fields that the schema does not know, as kubectl does.
	options := []client.CreateOption{client.FieldValidation("Strict")}
	if example.Update == nil {
		options = append(options, client.DryRunAll)
	}
	err := cluster.Client.Create(t.Context(), object, options...)
	if example.Update != nil {
		if err != nil {
			t.Fatalf("creating the object to update: %v", err)
		}
		t.Cleanup(func() {
			if err := cluster.Client.Delete(t.Context(), object); err != nil && t.Context().Err() == nil {
				t.Error(err)
			}
		})
		object = merged(t, object.Object, example.Update)
		err = cluster.Client.Update(t.Context(), object, client.FieldValidation("Strict"))
	}
	switch {
	case example.Refused == "" && err != nil:
		t.Fatalf("refused: %v", err)
	case example.Refused != "" && err == nil:
		t.Fatalf("accepted; want it refused with %q", example.Refused)
	case err != nil:
		if !strings.Contains(err.Error(), example.Refused) {
			t.Fatalf("refused with\n%v\nwant\n%s", err, example.Refused)
		}
		return err.Error()
	}
	if diff := cmp.Diff(object.Object, merged(t, object.Object, example.Stored).Object); diff != "" {
		t.Errorf("not stored as expected (-stored +want):\n%s", diff)
	}
	checkTypes(t, object)
	return ""
}

// checkTypes holds that our Go types read what the API server accepts and write the same again, text of durations included
// (A80). One object that cannot be read would hide all others from a watch.
func checkTypes(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	typed, err := harness.Scheme().New(object.GroupVersionKind())
	if err != nil {
		t.Fatal(err)
	}
	data, err := object.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, typed); err != nil {
		t.Fatalf("accepted, but the Go type cannot read it: %v", err)
	}
	if data, err = json.Marshal(typed); err != nil {
		t.Fatal(err)
	}
	var again map[string]any
	if err := json.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(withoutEmpty(object.Object["spec"]), withoutEmpty(again["spec"]), sameScalars); diff != "" {
		t.Errorf("the Go type changes the object (-stored +written):\n%s", diff)
	}
}

// sameScalars lets quantities differ in spelling, as Kubernetes itself writes 1000 as 1k, and nothing else.
var sameScalars = cmp.FilterValues(func(a, b any) bool { return isScalar(a) && isScalar(b) }, cmp.Comparer(func(a, b any) bool {
	left, right := fmt.Sprint(a), fmt.Sprint(b)
	if left == right {
		return true
	}
	l, lerr := resource.ParseQuantity(left)
	r, rerr := resource.ParseQuantity(right)
	return lerr == nil && rerr == nil && l.Cmp(r) == 0
}))

func isScalar(v any) bool {
	switch v.(type) {
	case int64, float64, string:
		return true
	}
	return false
}

// withoutEmpty drops what Go leaves out when writing: empty text, lists and objects, and false.
func withoutEmpty(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, element := range v {
			if element = withoutEmpty(element); element != nil {
				kept[key] = element
			}
		}
		if len(kept) > 0 {
			return kept
		}
	case []any:
		var kept []any
		for _, element := range v {
			kept = append(kept, withoutEmpty(element))
		}
		if len(kept) > 0 {
			return kept
		}
	case string:
		if v != "" {
			return v
		}
	case bool:
		if v {
			return v
		}
	default:
		return v
	}
	return nil
}

// merged returns a copy of a manifest with a merge patch applied.
func merged(t *testing.T, manifest, patch map[string]any) *unstructured.Unstructured {
	t.Helper()
	data, err := json.Marshal(merge(manifest, patch))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return object
}

func merge(value any, patch any) any {
	changes, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	result := map[string]any{}
	if old, ok := value.(map[string]any); ok {
		for key, v := range old {
			result[key] = v
		}
	}
	for key, change := range changes {
		if change == nil {
			delete(result, key)
		} else {
			result[key] = merge(result[key], change)
		}
	}
	return result
}

// rules returns every CEL rule of the stored versions.
func rules() []apiextensionsv1.ValidationRule {
	var found []apiextensionsv1.ValidationRule
	walkSchemas(func(_ string, schema *apiextensionsv1.JSONSchemaProps) { found = append(found, schema.XValidations...) })
	return found
}

// fields returns the description of every named field of the stored versions by path.
func fields() map[string]string {
	found := map[string]string{}
	walkSchemas(func(path string, schema *apiextensionsv1.JSONSchemaProps) {
		if !strings.HasSuffix(path, "]") {
			found[path] = schema.Description
		}
	})
	return found
}

// walkSchemas visits every schema of the stored versions in a fixed order, except metadata, which is Kubernetes' own.
func walkSchemas(visit func(path string, schema *apiextensionsv1.JSONSchemaProps)) {
	var walk func(path string, schema *apiextensionsv1.JSONSchemaProps)
	walk = func(path string, schema *apiextensionsv1.JSONSchemaProps) {
		visit(path, schema)
		for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
			property := schema.Properties[name]
			if name != "metadata" || strings.Contains(path, ".") {
				walk(path+"."+name, &property)
			}
		}
		if schema.Items != nil && schema.Items.Schema != nil {
			walk(path+"[]", schema.Items.Schema)
		}
		if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
			walk(path+"[]", schema.AdditionalProperties.Schema)
		}
	}
	for _, object := range crds.Objects() {
		for _, version := range object.Spec.Versions {
			if version.Storage {
				walk(object.Spec.Names.Kind, version.Schema.OpenAPIV3Schema)
			}
		}
	}
}

// TestRulesExplainThemselves holds every rule to have a message.
func TestRulesExplainThemselves(t *testing.T) {
	for _, rule := range rules() {
		if rule.Message == "" {
			t.Errorf("rule %s has no message", rule.Rule)
		}
	}
}
