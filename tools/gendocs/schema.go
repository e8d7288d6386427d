package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"karpenter/internal/cli"
	"karpenter/internal/model"
	"karpenter/internal/web"
)

// schema is a JSON schema, as much of it as Go types need.
type schema struct {
	Draft       string             `json:"$schema,omitempty"`
	ID          string             `json:"$id,omitempty"`
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Ref         string             `json:"$ref,omitempty"`
	Type        string             `json:"type,omitempty"`
	Format      string             `json:"format,omitempty"`
	Const       string             `json:"const,omitempty"`
	Properties  map[string]*schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`
	Items       *schema            `json:"items,omitempty"`
	Values      *schema            `json:"additionalProperties,omitempty"`
	Definitions map[string]*schema `json:"$defs,omitempty"`
	order       []string           // of properties, as in the Go type
}

// documents are the values that documents of each kind are made of.
func documents() map[string]any {
	all := cli.Documents()
	maps.Copy(all, web.Documents())
	return all
}

// schemas writes a schema for each kind of document.
type schemas struct {
	said map[string]map[string]string // comments by type and field; that of the type itself is under ""
	defs map[string]*schema
}

// newSchemas reads the comments of the packages below root that documents are made of.
func newSchemas(root string) (*schemas, error) {
	s := &schemas{said: map[string]map[string]string{}}
	for _, folder := range []string{"model", "ledger", "explain", "web", "cli", "forecast", "state", "state/dump", "engine/why"} {
		files, err := filepath.Glob(filepath.Join(root, "internal", folder, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, fmt.Errorf("reading comments: %w", err)
			}
			s.read(filepath.Base(folder), parsed)
		}
	}
	return s, nil
}

func (s *schemas) read(folder string, file *ast.File) {
	for _, d := range file.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range decl.Specs {
			t, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			of, ok := t.Type.(*ast.StructType)
			if !ok {
				continue
			}
			said := map[string]string{"": sentence(decl.Doc.Text())}
			for _, f := range of.Fields.List {
				for _, name := range f.Names {
					said[name.Name] = sentence(f.Doc.Text() + f.Comment.Text())
				}
			}
			s.said[folder+"."+t.Name.Name] = said
		}
	}
}

func sentence(text string) string { return strings.Join(strings.Fields(text), " ") }

// document is the schema of a kind.
func (s *schemas) document(kind string, value any) *schema {
	s.defs = map[string]*schema{}
	t := reflect.TypeOf(value)
	out := s.object(t)
	out.Properties["apiVersion"] = &schema{Type: "string", Const: model.APIVersion, Description: "The version of the document's fields."}
	out.Properties["kind"] = &schema{Type: "string", Const: kind, Description: "The kind of the document."}
	out.Draft, out.ID, out.Title, out.Definitions = "https://json-schema.org/draft/2020-12/schema", strings.ToLower(kind)+".json", kind, s.defs
	return out
}

var moment = reflect.TypeFor[time.Time]()

func (s *schemas) of(t reflect.Type) *schema {
	if t.Kind() == reflect.Pointer {
		return s.of(t.Elem())
	}
	if t == moment {
		return &schema{Type: "string", Format: "date-time"}
	}
	if own, ok := reflect.Zero(t).Interface().(json.Marshaler); ok && t.Kind() == reflect.Slice && own != nil {
		return &schema{Type: "array"} // of several types
	}
	switch t.Kind() {
	case reflect.String:
		return &schema{Type: "string"}
	case reflect.Bool:
		return &schema{Type: "boolean"}
	case reflect.Float64:
		return &schema{Type: "number"}
	case reflect.Slice, reflect.Array:
		return &schema{Type: "array", Items: s.of(t.Elem())}
	case reflect.Map:
		return &schema{Type: "object", Values: s.of(t.Elem())}
	case reflect.Struct:
		name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
		if s.defs[name] == nil {
			s.defs[name] = &schema{} // it may be part of itself
			*s.defs[name] = *s.object(t)
		}
		return &schema{Ref: "#/$defs/" + name}
	}
	return &schema{Type: "integer"}
}

// object is the schema of a struct, with the fields of those that it embeds.
func (s *schemas) object(t reflect.Type) *schema {
	said := s.said[filepath.Base(t.PkgPath())+"."+t.Name()]
	out := &schema{Type: "object", Description: said[""], Properties: map[string]*schema{}}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
			continue
		case f.Anonymous && name == "":
			of := f.Type
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			in := s.object(of)
			for _, n := range in.order {
				out.put(n, in.Properties[n], slices.Contains(in.Required, n))
			}
			continue
		}
		p := s.of(f.Type)
		p.Description = said[f.Name]
		out.put(name, p, !strings.Contains(options, "omit"))
	}
	return out
}

// put sets a property; one that was there comes from an embedded struct and counts no more.
func (s *schema) put(name string, p *schema, required bool) {
	if s.Properties[name] == nil {
		s.order = append(s.order, name)
	}
	s.Properties[name] = p
	s.Required = slices.DeleteFunc(s.Required, func(n string) bool { return n == name })
	if required {
		s.Required = append(s.Required, name)
	}
}

// where says which commands and addresses give documents of a kind.
var where = map[string]string{
	model.KindPlan:          "`karpenter plan`",
	model.KindConsolidation: "`karpenter plan --consolidate`",
	model.KindForecast:      "`karpenter plan -f`, `karpenter plan --delete`",
	model.KindExplanation:   "`karpenter explain`, `/api/v1/explain/KIND/NAME`",
	model.KindWorkload:      "`karpenter explain deployment` and other workloads",
	model.KindFleet:         "`karpenter top`, `/api/v1/fleet/nodes`",
	model.KindLiveFleet:     "`/api/v1/fleet`, events `fleet` of `/api/v1/stream`",
	model.KindDecision:      "`karpenter decisions ID`, `karpenter decisions --follow`, `/api/v1/decisions/ID`, events `decision` of `/api/v1/stream`",
	model.KindDecisionList:  "`karpenter decisions`, `/api/v1/decisions`",
	model.KindPoolList:      "`/api/v1/pools`",
	model.KindPriceList:     "`/api/v1/prices`",
	model.KindCostList:      "`/api/v1/costs`",
	model.KindHistory:       "`/api/v1/history`",
	model.KindReplay:        "`karpenter replay`",
	model.KindError:         "every address below `/api/` that cannot answer",
}

const outputHead = `# Output for programs

Commands print documents with ` + "`-o json` or `-o yaml`" + `, and the controller's HTTP API answers with the same. Every document begins with
` + "`apiVersion: " + model.APIVersion + "`" + ` and its ` + "`kind`" + `. Fields are named alike wherever they occur: a node is named by ` + "`node`" + `, its NodeClaim by
` + "`claim`" + `, ` + "`pods`" + ` are written namespace/name, prices are dollars in ` + "`pricePerHour`" + `, moments are in UTC, ` + "`why`" + ` holds reasons with what they rest on,
and ` + "`summary`" + ` is a sentence for people. Within a version fields may be added; none is renamed or removed.

This page and the JSON schemas are generated from the types that the program writes (` + "`go run ./tools/gendocs`" + `); tests hold real answers
against the schemas.

| kind | from | schema |
| --- | --- | --- |
`

// outputPages are docs/reference/output.md and a schema for each kind.
func outputPages(root string) (map[string]string, error) {
	s, err := newSchemas(root)
	if err != nil {
		return nil, err
	}
	pages := map[string]string{}
	var table, rest strings.Builder
	defs := map[string]*schema{}
	all := documents()
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		doc := s.document(kind, all[kind])
		data, err := json.MarshalIndent(doc, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("writing the schema of %s: %w", kind, err)
		}
		file := "schema/" + strings.ToLower(kind) + ".json"
		pages[file] = string(data) + "\n"
		fmt.Fprintf(&table, "| [%s](#%s) | %s | [%s](%s) |\n", kind, strings.ToLower(kind), where[kind], filepath.Base(file), file)
		fmt.Fprintf(&rest, "\n## %s\n\n%s", kind, fields(doc))
		maps.Copy(defs, s.defs)
	}
	rest.WriteString("\n## Parts\n")
	for _, name := range slices.Sorted(maps.Keys(defs)) {
		if all[name] == nil {
			fmt.Fprintf(&rest, "\n### %s\n\n%s", name, fields(defs[name]))
		}
	}
	pages["output.md"] = outputHead + table.String() + rest.String()
	return pages, nil
}

// fields is a table of the fields of an object.
func fields(s *schema) string {
	var b strings.Builder
	if s.Description != "" {
		fmt.Fprintf(&b, "%s\n\n", s.Description)
	}
	b.WriteString("| field | type | |\n| --- | --- | --- |\n")
	for _, name := range s.order {
		p := s.Properties[name]
		note := ""
		if !slices.Contains(s.Required, name) {
			note = ", may be missing"
		}
		fmt.Fprintf(&b, "| `%s` | %s%s | %s |\n", name, words(p), note, strings.ReplaceAll(p.Description, "|", "\\|"))
	}
	return b.String()
}

func words(s *schema) string {
	switch {
	case s.Ref != "":
		name := strings.TrimPrefix(s.Ref, "#/$defs/")
		return fmt.Sprintf("[%s](#%s)", name, strings.ToLower(name))
	case s.Items != nil:
		return "list of " + words(s.Items)
	case s.Values != nil:
		return "map of " + words(s.Values)
	case s.Format == "date-time":
		return "moment"
	case s.Const != "":
		return "`" + s.Const + "`"
	case s.Type == "array":
		return "list"
	}
	return s.Type
}

// writePages writes pages, and the folders that they are in.
func writePages(folder string, pages map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(pages[name]), 0o644); err != nil {
			return err
		}
	}
	return nil
}
