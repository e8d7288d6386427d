package convert

import (
	"fmt"
	"reflect"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// FieldError says which field of an object cannot be converted and why.
type FieldError struct {
	// Field is the path of the field, for example spec.disruption.budgets[1].
	Field string
	// Detail says what is wrong and what would be right.
	Detail string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Detail }

// node is a JSON object together with its path, so that errors can name the field.
type node struct {
	tree map[string]any
	path string
}

// field returns the path of the field at key.
func (n node) field(key string) string {
	if n.path == "" {
		return key
	}
	return n.path + "." + key
}

// child returns the object at key, or an empty one that is not part of the tree if there is none.
func (n node) child(key string) (node, error) {
	value, ok := n.tree[key]
	if !ok || value == nil {
		return node{tree: map[string]any{}, path: n.field(key)}, nil
	}
	return asNode(value, n.field(key))
}

// ensure returns the object at key and creates it if there is none.
func (n node) ensure(key string) (node, error) {
	c, err := n.child(key)
	if err == nil {
		n.tree[key] = c.tree
	}
	return c, err
}

// items returns the objects of the list at key.
func (n node) items(key string) ([]node, error) {
	value, ok := n.tree[key]
	if !ok || value == nil {
		return nil, nil
	}
	path := n.field(key)
	list, ok := value.([]any)
	if !ok {
		return nil, &FieldError{Field: path, Detail: "must be a list, is " + describe(value)}
	}
	nodes := make([]node, len(list))
	for i, item := range list {
		var err error
		if nodes[i], err = asNode(item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// text returns the string at key; a missing field is the empty string.
func (n node) text(key string) (string, error) {
	value, ok := n.tree[key]
	if !ok || value == nil {
		return "", nil
	}
	s, ok := value.(string)
	if !ok {
		return "", &FieldError{Field: n.field(key), Detail: "must be a string, is " + describe(value)}
	}
	return s, nil
}

// has reports whether key has a value.
func (n node) has(key string) bool {
	value, ok := n.tree[key]
	return ok && value != nil
}

// fill sets key if it has no value.
func (n node) fill(key string, value any) {
	if !n.has(key) {
		n.tree[key] = value
	}
}

// keep removes every key that is not in names.
func (n node) keep(names ...string) {
	known := map[string]bool{}
	for _, name := range names {
		known[name] = true
	}
	for key := range n.tree {
		if !known[key] {
			delete(n.tree, key)
		}
	}
}

func asNode(value any, path string) (node, error) {
	tree, ok := value.(map[string]any)
	if !ok {
		return node{}, &FieldError{Field: path, Detail: "must be an object, is " + describe(value)}
	}
	return node{tree: tree, path: path}, nil
}

func describe(value any) string {
	switch value := value.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return fmt.Sprintf("the string %.60q", value)
	case bool:
		return fmt.Sprintf("the boolean %v", value)
	default:
		return fmt.Sprintf("the number %v", value)
	}
}

func clone(tree map[string]any) map[string]any { return runtime.DeepCopyJSON(tree) }

func equal(a, b any) bool { return reflect.DeepEqual(a, b) }

// parts cuts a spec into the parts that are remembered and restored one by one: its fields, and in place of the
// objects template and template.spec theirs. The key of a part is its path.
func parts(spec map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range spec {
		template, ok := value.(map[string]any)
		if key != "template" || !ok {
			out[key] = value
			continue
		}
		for key, value := range template {
			inner, ok := value.(map[string]any)
			if key != "spec" || !ok {
				out["template."+key] = value
				continue
			}
			for key, value := range inner {
				out["template.spec."+key] = value
			}
		}
	}
	return out
}

// withPart returns a copy of spec in which the part at path has the value, or is not there if present is false.
func withPart(spec map[string]any, path string, value any, present bool) map[string]any {
	out := clone(spec)
	at := out
	steps := strings.Split(path, ".")
	for _, step := range steps[:len(steps)-1] {
		next, ok := at[step].(map[string]any)
		if !ok {
			next = map[string]any{}
			at[step] = next
		}
		at = next
	}
	last := steps[len(steps)-1]
	if present {
		at[last] = runtime.DeepCopyJSONValue(value)
	} else {
		delete(at, last)
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// dropNulls removes null values, as the API server does for fields that may not be null.
func dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for key, item := range value {
			if item == nil {
				delete(value, key)
				continue
			}
			dropNulls(item)
		}
	case []any:
		for _, item := range value {
			dropNulls(item)
		}
	}
}
