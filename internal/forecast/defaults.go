package forecast

import (
	"encoding/json"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"karpenter/api/crds"
)

// withDefaults is a manifest of ours with the defaults that the API server would fill in: hashes count them.
func withDefaults(m map[string]any) map[string]any {
	data, err := json.Marshal(m)
	if err != nil {
		return m
	}
	var copied map[string]any
	if json.Unmarshal(data, &copied) != nil {
		return m
	}
	for _, definition := range crds.Objects() {
		if definition.Spec.Names.Kind != m["kind"] {
			continue
		}
		for i := range definition.Spec.Versions {
			v := &definition.Spec.Versions[i]
			if definition.Spec.Group+"/"+v.Name == m["apiVersion"] && v.Schema != nil {
				fillIn(copied, v.Schema.OpenAPIV3Schema)
			}
		}
	}
	return copied
}

// fillIn sets what is missing in a value and has a default.
func fillIn(value any, schema *apiextensionsv1.JSONSchemaProps) {
	switch x := value.(type) {
	case map[string]any:
		for name := range schema.Properties {
			property := schema.Properties[name]
			if _, set := x[name]; !set && property.Default != nil {
				var v any
				if json.Unmarshal(property.Default.Raw, &v) == nil {
					x[name] = v
				}
			}
			if inner, set := x[name]; set {
				fillIn(inner, &property)
			}
		}
		if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
			for _, inner := range x {
				fillIn(inner, schema.AdditionalProperties.Schema)
			}
		}
	case []any:
		if schema.Items != nil && schema.Items.Schema != nil {
			for _, inner := range x {
				fillIn(inner, schema.Items.Schema)
			}
		}
	}
}
