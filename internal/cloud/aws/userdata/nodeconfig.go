package userdata

import (
	"encoding/json"
	"errors"
	"strings"
)

// isNodeConfig reports whether text means to be a NodeConfig, be it a good one or not. A shell script does not begin
// with a field of a Kubernetes object.
func isNodeConfig(text string) bool {
	body := strings.TrimSpace(yamlBody(text))
	if inner, is := strings.CutPrefix(body, "{"); is {
		inner = strings.TrimSpace(inner)
		return strings.HasPrefix(inner, `"`) || strings.HasPrefix(inner, "}")
	}
	first, _, _ := strings.Cut(body, "\n")
	switch name, _ := yamlField(strings.TrimSpace(first)); name {
	case "apiVersion", "kind", "metadata", "spec":
		return true
	}
	return false
}

// yamlBody is text from its first line that says something.
func yamlBody(text string) string {
	for text != "" {
		line, rest, _ := strings.Cut(text, "\n")
		if !isYAMLNoise(strings.TrimSpace(line)) {
			break
		}
		text = rest
	}
	return text
}

// checkNodeConfig finds the mistakes that nodeadm refuses a whole archive for and that show without reading all of YAML.
func checkNodeConfig(text string, firstLine int) error {
	body := yamlBody(text)
	firstLine += strings.Count(text[:len(text)-len(body)], "\n")
	read := readYAMLType
	if strings.HasPrefix(strings.TrimSpace(body), "{") {
		read = readJSONType
	}
	apiVersion, kind, line, wrong := read(body)
	switch {
	case wrong != "":
	case !strings.HasPrefix(apiVersion, "node.eks.aws/"):
		wrong = "has " + orNo(apiVersion) + " apiVersion"
	case kind != "NodeConfig":
		wrong = "has " + orNo(kind) + " kind"
	default:
		return nil
	}
	return &InputError{
		Field: fieldUserData, Line: firstLine + line, Wrong: "the NodeConfig " + wrong,
		Cure: "write apiVersion: node.eks.aws/v1alpha1, kind: NodeConfig and spec",
	}
}

// readJSONType returns the type of a Kubernetes object in JSON, or the line, counted from 0, on which it is broken.
func readJSONType(text string) (apiVersion, kind string, line int, wrong string) {
	var object struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	err := json.Unmarshal([]byte(text), &object)
	if err == nil {
		return object.APIVersion, object.Kind, 0, ""
	}
	var offset int64
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &mistyped):
		offset = mistyped.Offset
	}
	return "", "", lineAt(text, int(offset)) - 1, "is not JSON of an object (" + err.Error() + ")"
}

// readYAMLType does the same for YAML in block style.
func readYAMLType(text string) (apiVersion, kind string, line int, wrong string) {
	indent := -1
	for number, raw := range strings.Split(text, "\n") {
		content := strings.TrimSpace(raw)
		if isYAMLNoise(content) {
			continue
		}
		if raw[0] == '\t' {
			return "", "", number, "is not YAML, as a line begins with a tab"
		}
		column := len(raw) - len(strings.TrimLeft(raw, " "))
		if indent < 0 {
			indent = column
		}
		if column != indent {
			continue
		}
		switch name, value := yamlField(content); name {
		case "apiVersion":
			apiVersion = value
		case "kind":
			kind = value
		}
	}
	return apiVersion, kind, 0, ""
}

// isYAMLNoise is for lines that say nothing: empty ones, comments, directives and marks between documents.
func isYAMLNoise(content string) bool {
	return content == "" || content[0] == '#' || content[0] == '%' || strings.HasPrefix(content, "---")
}

// yamlField splits "name: value" and takes quotes and a comment off both.
func yamlField(content string) (name, value string) {
	name, value, is := strings.Cut(content, ":")
	if !is || value != "" && value[0] != ' ' && value[0] != '\t' {
		return "", ""
	}
	value, _, _ = strings.Cut(value, " #")
	return strings.Trim(name, `"' `), strings.Trim(value, "\"' \t")
}

func orNo(value string) string {
	if value == "" {
		return "no"
	}
	return quoted(value) + " as"
}
