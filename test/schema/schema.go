// Package schema holds documents that the program writes against the JSON schemas in docs/reference/schema, with the validator that
// the Kubernetes API server uses for custom resources.
package schema

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"
)

// depth is how many levels of a type that is part of itself are looked at; reasons are nested less deeply.
const depth = 8

// Check says what is wrong with a document of a kind, in JSON or YAML. Fields that the schema does not have are wrong too.
func Check(t testing.TB, kind string, data []byte) {
	t.Helper()
	var document any
	if err := yaml.Unmarshal(data, &document); err != nil {
		t.Fatalf("%s is not a document: %v\n%.300s", kind, err, data)
	}
	if err := validate.AgainstSchema(read(t, kind), document, strfmt.Default); err != nil {
		t.Errorf("a document of kind %s is not as its schema says: %v\n%.1000s", kind, err, data)
	}
}

// read is the schema of a kind with everything that it refers to put in its place.
func read(t testing.TB, kind string) *spec.Schema {
	t.Helper()
	file := filepath.Join(root(t), "docs", "reference", "schema", strings.ToLower(kind)+".json")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("no schema: %v; run: go run ./tools/gendocs", err)
	}
	var whole map[string]any
	if err := json.Unmarshal(data, &whole); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	parts, _ := whole["$defs"].(map[string]any)
	delete(whole, "$defs")
	closed, err := json.Marshal(closed(whole, parts, map[string]int{}))
	if err != nil {
		t.Fatal(err)
	}
	out := &spec.Schema{}
	if err := json.Unmarshal(closed, out); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return out
}

// root is the folder of the module; tests run in that of their package.
func root(t testing.TB) string {
	t.Helper()
	folder, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(folder, "go.mod")); missing == nil {
			return folder
		}
		if filepath.Dir(folder) == folder {
			break
		}
		folder = filepath.Dir(folder)
	}
	t.Fatalf("no go.mod above this folder: %v", err)
	return ""
}

// closed is a schema with its references resolved, constants as the validator knows them, and no field allowed that is not listed.
func closed(s any, parts map[string]any, within map[string]int) any {
	switch s := s.(type) {
	case []any:
		out := make([]any, len(s))
		for i := range s {
			out[i] = closed(s[i], parts, within)
		}
		return out
	case map[string]any:
		if ref, ok := s["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, "#/$defs/")
			if within[name] == depth || parts[name] == nil {
				return map[string]any{}
			}
			within[name]++
			defer func() { within[name]-- }()
			return closed(parts[name], parts, within)
		}
		out := map[string]any{}
		for k, v := range s {
			switch k {
			case "properties":
				fields := map[string]any{}
				for name, field := range v.(map[string]any) {
					fields[name] = closed(field, parts, within)
				}
				out[k] = fields
				out["additionalProperties"] = false
			case "const":
				out["enum"] = []any{v}
			case "description", "title", "$schema", "$id":
			default:
				out[k] = closed(v, parts, within)
			}
		}
		return out
	}
	return s
}
