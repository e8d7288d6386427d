package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// chartHead begins the page of chart values.
const chartHead = `# Chart values

Values of the chart [charts/karpenter](../../charts/karpenter/values.yaml), made from its values.yaml and schema by ` + "`go run ./tools/gendocs`" + `. A value that
is not in the schema is refused by Helm. [Install](../operate/install.md#4-the-charts) says which of them are ours and which are those of every Karpenter chart.

| value | type | default | meaning |
| --- | --- | --- | --- |
`

// chartPage lists the values of the chart in a folder.
func chartPage(folder string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(folder, "values.yaml"))
	if err != nil {
		return "", fmt.Errorf("reading the values: %w", err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(raw, &values); err != nil {
		return "", fmt.Errorf("values.yaml: %w", err)
	}
	schema, err := readSchema(filepath.Join(folder, "values.schema.json"))
	if err != nil {
		return "", err
	}
	p := &chart{notes: comments(string(raw)), schema: schema}
	p.list("", values)
	return chartHead + p.rows.String(), nil
}

// chart writes the rows.
type chart struct {
	notes  map[string]string
	schema map[string]any
	rows   strings.Builder
}

func readSchema(path string) (map[string]any, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the schema: %w", err)
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return schema, nil
}

var valueLine = regexp.MustCompile(`^( *)([A-Za-z0-9_.-]+|"[^"]+"):`)

// comments are the texts that stand before values, by the path of the value.
func comments(text string) map[string]string {
	found := map[string]string{}
	var path, note []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if said, ok := strings.CutPrefix(strings.TrimSpace(line), "#"); ok {
			note = append(note, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(said), "--")))
			continue
		}
		if m := valueLine.FindStringSubmatch(line); m != nil {
			path = append(path[:min(len(m[1])/2, len(path))], m[2])
			if len(note) > 0 {
				found[strings.Join(path, ".")] = strings.Join(note, " ")
			}
		}
		note = nil
	}
	return found
}

// list writes a row for every value that holds no others; an object that is empty, or whose content is one thing, is a value itself.
func (c *chart) list(prefix string, values map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		path := strings.TrimPrefix(prefix+"."+key, ".")
		inner, nested := values[key].(map[string]any)
		if nested && len(inner) > 0 && c.has(path) {
			if note := c.notes[path]; note != "" {
				fmt.Fprintf(&c.rows, "| `%s` | | | %s |\n", path, cell(note))
			}
			c.list(path, inner)
			continue
		}
		fmt.Fprintf(&c.rows, "| `%s` | %s | %s | %s |\n", path, c.kind(path), shown(values[key]), cell(c.notes[path]))
	}
}

// at is the part of the schema that a path leads to.
func (c *chart) at(path string) map[string]any {
	here := c.schema
	for key := range strings.SplitSeq(path, ".") {
		properties, _ := here["properties"].(map[string]any)
		next, ok := properties[key].(map[string]any)
		if !ok {
			return nil
		}
		if ref, ok := next["$ref"].(string); ok {
			definitions, _ := c.schema[strings.Split(strings.TrimPrefix(ref, "#/"), "/")[0]].(map[string]any)
			if to, ok := definitions[ref[strings.LastIndexByte(ref, '/')+1:]].(map[string]any); ok {
				next = to
			}
		}
		here = next
	}
	return here
}

// has reports whether the schema names what is inside of a value.
func (c *chart) has(path string) bool {
	properties, ok := c.at(path)["properties"].(map[string]any)
	return ok && len(properties) > 0
}

func (c *chart) kind(path string) string {
	schema := c.at(path)
	if allowed, ok := schema["enum"].([]any); ok {
		words := make([]string, len(allowed))
		for i, one := range allowed {
			words[i] = fmt.Sprintf("`%v`", one)
		}
		return strings.Join(words, ", ")
	}
	switch kind := schema["type"].(type) {
	case string:
		return kind
	case []any:
		words := make([]string, len(kind))
		for i, one := range kind {
			words[i] = fmt.Sprint(one)
		}
		return strings.Join(words, " or ")
	}
	return ""
}

// maxShown is how long a default may be that stands in the table.
const maxShown = 80

func shown(value any) string {
	raw, err := json.Marshal(value)
	if err != nil || len(raw) > maxShown {
		return "see values.yaml"
	}
	return "`" + strings.ReplaceAll(string(raw), "|", "\\|") + "`"
}

func cell(text string) string { return strings.ReplaceAll(text, "|", "\\|") }
