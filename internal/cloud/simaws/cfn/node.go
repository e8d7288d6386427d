package cfn

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// node is a value of a template, with anchors and merge keys resolved.
type node struct {
	kind yaml.Kind
	// tag is a short function without its exclamation mark, such as Sub.
	tag string
	// text is a scalar's value as it was written, value what it stands for.
	text  string
	value any
	// fields are a mapping's in the order they were written, items a sequence's.
	fields []field
	items  []*node
}

type field struct {
	key   string
	value *node
}

// maxNodes bounds what anchors may multiply a template into, maxNesting how deep it goes.
const (
	maxNodes   = 100_000
	maxNesting = 100
)

// read reads a template's text, which is one mapping in YAML or JSON.
func read(text string) (*node, error) {
	from := yaml.NewDecoder(strings.NewReader(text))
	var doc, more yaml.Node
	if err := from.Decode(&doc); err != nil {
		return nil, err
	}
	if err := from.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	left := maxNodes
	root, err := resolve(&doc, &left, maxNesting)
	if err == nil && root.kind != yaml.MappingNode {
		err = errors.New("unsupported structure")
	}
	return root, err
}

func resolve(n *yaml.Node, left *int, depth int) (*node, error) {
	if *left--; *left < 0 || depth < 0 {
		return nil, fmt.Errorf("line %d: nested too deeply, or anchors are used too often", n.Line)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return resolve(n.Content[0], left, depth)
	case yaml.AliasNode:
		return resolve(n.Alias, left, depth-1)
	}
	out := &node{kind: n.Kind}
	if !strings.HasPrefix(n.Tag, "!!") {
		out.tag = strings.TrimPrefix(n.Tag, "!")
	}
	switch n.Kind {
	case yaml.MappingNode:
		return out, out.mapping(n, left, depth)
	case yaml.SequenceNode:
		for _, c := range n.Content {
			item, err := resolve(c, left, depth-1)
			if err != nil {
				return nil, err
			}
			out.items = append(out.items, item)
		}
		return out, nil
	}
	out.text = n.Value
	return out, out.scalar(n)
}

// mapping reads the fields of a mapping; those that are merged in come last and give way.
func (n *node) mapping(from *yaml.Node, left *int, depth int) error {
	var merged []*node
	for i := 0; i+1 < len(from.Content); i += 2 {
		key := from.Content[i]
		value, err := resolve(from.Content[i+1], left, depth-1)
		switch {
		case err != nil:
			return err
		case key.ShortTag() == "!!merge":
			merged = append(merged, value)
			merged = append(merged, value.items...)
		case key.Kind != yaml.ScalarNode:
			return fmt.Errorf("line %d: a key must be a text", key.Line)
		case n.get(key.Value) != nil:
			return fmt.Errorf("line %d: key %q is given twice", key.Line, key.Value)
		default:
			n.fields = append(n.fields, field{key.Value, value})
		}
	}
	for _, m := range merged {
		for _, f := range m.fields {
			if n.get(f.key) == nil {
				n.fields = append(n.fields, f)
			}
		}
	}
	return nil
}

// scalar resolves numbers and truth values as JSON has them. A day stays the text that it is in policies.
func (n *node) scalar(from *yaml.Node) error {
	plain := *from
	if n.tag != "" {
		plain.Tag = ""
	}
	switch plain.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return plain.Decode(&n.value)
	case "!!int", "!!float":
		var f float64
		err := plain.Decode(&f)
		n.value = f
		return err
	}
	n.value = n.text
	return nil
}

// get returns the value under a key, or nil. A nil node has no keys.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for _, f := range n.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

// String is the text of a scalar, or nothing.
func (n *node) String() string {
	if n == nil {
		return ""
	}
	return n.text
}

// plain is the value as JSON decoding would give it. Tags are left out.
func (n *node) plain() any {
	switch n.kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			m[f.key] = f.value.plain()
		}
		return m
	case yaml.SequenceNode:
		s := make([]any, len(n.items))
		for i, v := range n.items {
			s[i] = v.plain()
		}
		return s
	}
	return n.value
}
