package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// field is one field of a kind.
type field struct {
	path     string
	schema   *apiextensionsv1.JSONSchemaProps
	required bool
}

// page is the reference page of a kind, in the version that is stored.
func page(d *apiextensionsv1.CustomResourceDefinition) (string, error) {
	i := slices.IndexFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	if i < 0 || d.Spec.Versions[i].Schema == nil || d.Spec.Versions[i].Schema.OpenAPIV3Schema == nil {
		return "", fmt.Errorf("%s has no stored version with a schema", d.Name)
	}
	version := d.Spec.Versions[i]
	root := version.Schema.OpenAPIV3Schema
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n<!-- Written by tools/gendocs from api/crds; edit the Go types instead and run make generate. -->\n\n", d.Spec.Names.Kind)
	fmt.Fprintf(&b, "`%s/%s`, %s.", d.Spec.Group, version.Name, map[apiextensionsv1.ResourceScope]string{apiextensionsv1.ClusterScoped: "not in a namespace", apiextensionsv1.NamespaceScoped: "in a namespace"}[d.Spec.Scope])
	if names := d.Spec.Names.ShortNames; len(names) > 0 {
		fmt.Fprintf(&b, " Short: `%s`.", strings.Join(names, "`, `"))
	}
	fmt.Fprintf(&b, "\n\n%s\n", prose(root.Description))
	for _, part := range []string{"spec", "status"} {
		schema, ok := root.Properties[part]
		if !ok {
			continue
		}
		fields := collect(nil, field{part, &schema, slices.Contains(root.Required, part)})
		fmt.Fprintf(&b, "\n## Fields of %s\n\n", part)
		writeIndex(&b, fields)
		for _, f := range fields {
			writeField(&b, f)
		}
	}
	return b.String(), nil
}

// collect adds a field and those below it, in the order of their names.
func collect(fields []field, f field) []field {
	fields = append(fields, f)
	path, schema := f.path, f.schema
	for {
		switch {
		case schema.Type == "array" && schema.Items != nil && schema.Items.Schema != nil:
			path, schema = path+"[]", schema.Items.Schema
			continue
		case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil && len(schema.AdditionalProperties.Schema.Properties) > 0:
			path, schema = path+".*", schema.AdditionalProperties.Schema
			continue
		}
		break
	}
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		below := schema.Properties[name]
		fields = collect(fields, field{path + "." + name, &below, slices.Contains(schema.Required, name)})
	}
	return fields
}

// writeIndex lists the fields in a table.
func writeIndex(b *strings.Builder, fields []field) {
	b.WriteString("| field | type | required |\n| --- | --- | --- |\n")
	for _, f := range fields {
		fmt.Fprintf(b, "| [`%s`](#%s) | %s | %s |\n", f.path, anchor(f.path), typeOf(f.schema), map[bool]string{true: "yes", false: ""}[f.required])
	}
}

// anchor is how a heading is linked to.
func anchor(path string) string {
	return strings.ToLower(strings.NewReplacer(".", "", "[", "", "]", "", "*", "").Replace(path))
}

// writeField is the section of one field.
func writeField(b *strings.Builder, f field) {
	fmt.Fprintf(b, "\n### `%s`\n\n", f.path)
	if text := prose(f.schema.Description); text != "" {
		fmt.Fprintf(b, "%s\n\n", text)
	}
	fmt.Fprintf(b, "- Type: %s\n", typeOf(f.schema))
	if f.required {
		b.WriteString("- Required\n")
	}
	if f.schema.Default != nil {
		fmt.Fprintf(b, "- Default: `%s`\n", f.schema.Default.Raw)
	}
	for _, limit := range limits(f.schema) {
		fmt.Fprintf(b, "- %s\n", limit)
	}
	for _, rule := range rules(f.schema) {
		fmt.Fprintf(b, "- Rule: %s\n", rule)
	}
}

// prose is a description as it goes into a page: what looks like markup in it is not.
func prose(text string) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), "<", "&lt;")
	return strings.ReplaceAll(text, "*", `\*`)
}

// typeOf names a type in words.
func typeOf(s *apiextensionsv1.JSONSchemaProps) string {
	switch {
	case s.XIntOrString:
		return "integer or string"
	case s.Type == "array" && s.Items != nil && s.Items.Schema != nil:
		return "list of " + typeOf(s.Items.Schema)
	case s.Type == "object" && s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "map of string to " + typeOf(s.AdditionalProperties.Schema)
	case s.Type == "object" && s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields:
		return "object, with any other fields"
	case s.Format != "":
		return s.Type + " (" + s.Format + ")"
	}
	return cmp.Or(s.Type, "any")
}

// limits are what the schema says of values, of the field itself and of the entries of a list or map.
func limits(s *apiextensionsv1.JSONSchemaProps) []string {
	var out []string
	count := func(n *int64, text string) {
		if n != nil {
			out = append(out, fmt.Sprintf(text, *n))
		}
	}
	if len(s.Enum) > 0 {
		var values []string
		for _, v := range s.Enum {
			values = append(values, "`"+strings.Trim(string(v.Raw), `"`)+"`")
		}
		out = append(out, "One of "+strings.Join(values, ", "))
	}
	if s.Minimum != nil {
		out = append(out, "At least "+strconv.FormatFloat(*s.Minimum, 'f', -1, 64))
	}
	if s.Maximum != nil {
		out = append(out, "At most "+strconv.FormatFloat(*s.Maximum, 'f', -1, 64))
	}
	if s.Pattern != "" {
		out = append(out, "Pattern: `"+s.Pattern+"`")
	}
	count(s.MinLength, "At least %d characters")
	count(s.MaxLength, "At most %d characters")
	count(s.MinItems, "At least %d entries")
	count(s.MaxItems, "At most %d entries")
	count(s.MinProperties, "At least %d keys")
	count(s.MaxProperties, "At most %d keys")
	if s.Nullable {
		out = append(out, "May be null")
	}
	for _, entry := range entryLimits(s) {
		out = append(out, "Each entry: "+strings.ToLower(entry[:1])+entry[1:])
	}
	return out
}

// entryLimits are the limits of the entries of a list or map, unless they are objects, which have sections of their own.
func entryLimits(s *apiextensionsv1.JSONSchemaProps) []string {
	entry := entryOf(s)
	if entry == nil || len(entry.Properties) > 0 {
		return nil
	}
	return limits(entry)
}

// entryOf is the schema of the entries of a list or map, or nil.
func entryOf(s *apiextensionsv1.JSONSchemaProps) *apiextensionsv1.JSONSchemaProps {
	switch {
	case s.Items != nil:
		return s.Items.Schema
	case s.AdditionalProperties != nil:
		return s.AdditionalProperties.Schema
	}
	return nil
}

// rules are the messages of validation rules, of the field itself and of its entries.
func rules(s *apiextensionsv1.JSONSchemaProps) []string {
	var out []string
	for _, rule := range s.XValidations {
		out = append(out, prose(cmp.Or(rule.Message, rule.Rule)))
	}
	if entry := entryOf(s); entry != nil {
		out = append(out, rules(entry)...)
	}
	return out
}
