// Package yaml reads the part of YAML that node configuration and
// CloudFormation templates are written in: block and flow mappings and
// sequences, plain, quoted and block scalars, comments, local tags such as
// !Sub, and several documents. Anchors, aliases, merge keys and complex keys
// are refused with an error that says so. JSON is read too, being YAML.
//
// It exists because the AWS simulator may use the standard library only, and
// because templates need their tags kept, which decoders into Go values lose.
package yaml

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind is what a node is.
type Kind int

// The kinds of nodes.
const (
	Scalar Kind = iota
	Mapping
	Sequence
)

// Node is a value of a document.
type Node struct {
	Kind Kind
	// Tag is a local tag without its exclamation mark, such as Sub.
	Tag string
	// Text is a scalar's value; Quoted says that it is a string whatever it
	// looks like.
	Text   string
	Quoted bool
	// Fields are a mapping's in the order they were written, Items a
	// sequence's.
	Fields []Field
	Items  []*Node
	Line   int
}

// Field is an entry of a mapping.
type Field struct {
	Key   string
	Value *Node
}

// Get returns the value under a key, or nil. A nil node has no keys.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	for _, f := range n.Fields {
		if f.Key == key {
			return f.Value
		}
	}
	return nil
}

// At walks down keys.
func (n *Node) At(keys ...string) *Node {
	for _, k := range keys {
		n = n.Get(k)
	}
	return n
}

// String is the text of a scalar, or nothing.
func (n *Node) String() string {
	if n == nil || n.Kind != Scalar {
		return ""
	}
	return n.Text
}

// Any is the value as JSON decoding would give it. Tags are left out.
func (n *Node) Any() any {
	if n == nil {
		return nil
	}
	switch n.Kind {
	case Mapping:
		m := make(map[string]any, len(n.Fields))
		for _, f := range n.Fields {
			m[f.Key] = f.Value.Any()
		}
		return m
	case Sequence:
		s := make([]any, len(n.Items))
		for i, v := range n.Items {
			s[i] = v.Any()
		}
		return s
	}
	return n.scalar()
}

// scalar resolves a plain scalar by the core schema.
func (n *Node) scalar() any {
	if n.Quoted {
		return n.Text
	}
	switch n.Text {
	case "", "~", "null", "Null", "NULL":
		return nil
	case "true", "True", "TRUE":
		return true
	case "false", "False", "FALSE":
		return false
	}
	if strings.Trim(n.Text, "+-.0123456789xXoabcdefABCDEF") == "" {
		if i, err := strconv.ParseInt(n.Text, 0, 64); err == nil {
			return float64(i)
		}
		if f, err := strconv.ParseFloat(n.Text, 64); err == nil && strings.ContainsAny(n.Text, "0123456789") {
			return f
		}
	}
	return n.Text
}

// Limits of what is read.
const (
	maxNesting = 64
	maxSize    = 4 << 20
)

// Parse reads all documents of a text. An empty document gives a null scalar.
func Parse(text string) ([]*Node, error) {
	if len(text) > maxSize {
		return nil, fmt.Errorf("document is larger than %d bytes", maxSize)
	}
	var docs []*Node
	var part []string
	start := 0
	flush := func(end int) error {
		p := &parser{lines: part, first: start}
		n, err := p.document()
		if err != nil {
			return err
		}
		if n != nil {
			docs = append(docs, n)
		}
		part, start = nil, end
		return nil
	}
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i, l := range lines {
		if l == "---" || strings.HasPrefix(l, "--- ") || l == "..." {
			if err := flush(i); err != nil {
				return nil, err
			}
			start = i
			if rest := strings.TrimPrefix(l, "---"); l != "..." && strings.TrimSpace(rest) != "" {
				part = append(part, "   "+rest)
			} else {
				part = append(part, "")
			}
			continue
		}
		part = append(part, l)
	}
	if err := flush(len(lines)); err != nil {
		return nil, err
	}
	return docs, nil
}

type parser struct {
	lines []string
	// first is the number of the line before lines[0].
	first int
	pos   int
	depth int
}

func (p *parser) fail(format string, args ...any) error {
	return fmt.Errorf("line %d: %s", p.first+p.pos+1, fmt.Sprintf(format, args...))
}

func indentOf(l string) int {
	return len(l) - len(strings.TrimLeft(l, " "))
}

// blank says that a line holds nothing or a comment.
func blank(l string) bool {
	t := strings.TrimLeft(l, " \t")
	return t == "" || t[0] == '#'
}

// next moves to the next line with content and gives its indentation, or -1.
func (p *parser) next() (int, error) {
	for p.pos < len(p.lines) && blank(p.lines[p.pos]) {
		p.pos++
	}
	if p.pos == len(p.lines) {
		return -1, nil
	}
	l := p.lines[p.pos]
	n := indentOf(l)
	if l[n] == '\t' {
		return 0, p.fail("a tab is used for indentation; use spaces")
	}
	return n, nil
}

func (p *parser) document() (*Node, error) {
	for p.pos < len(p.lines) && (blank(p.lines[p.pos]) || strings.HasPrefix(p.lines[p.pos], "%")) {
		p.pos++
	}
	n, err := p.next()
	if err != nil || n < 0 {
		return nil, err
	}
	node, err := p.block(n)
	if err != nil {
		return nil, err
	}
	if n, err = p.next(); err != nil {
		return nil, err
	} else if n >= 0 {
		return nil, p.fail("%q does not belong to anything above it; check the indentation", strings.TrimSpace(p.lines[p.pos]))
	}
	return node, nil
}

// block reads the node that starts on the present line with this indentation.
func (p *parser) block(indent int) (*Node, error) {
	if p.depth++; p.depth > maxNesting {
		return nil, p.fail("nested deeper than %d levels", maxNesting)
	}
	defer func() { p.depth-- }()
	text := p.lines[p.pos][indent:]
	if isItem(text) {
		return p.sequence(indent)
	}
	if _, _, ok := splitKey(text); ok {
		return p.mapping(indent)
	}
	return p.value(text, indent-1)
}

func isItem(text string) bool { return text == "-" || strings.HasPrefix(text, "- ") }

func (p *parser) sequence(indent int) (*Node, error) {
	out := &Node{Kind: Sequence, Line: p.first + p.pos + 1}
	for {
		n, err := p.next()
		if err != nil {
			return nil, err
		}
		if n != indent || !isItem(p.lines[p.pos][indent:]) {
			if n > indent {
				return nil, p.fail("%q is indented more than its list", strings.TrimSpace(p.lines[p.pos]))
			}
			return out, nil
		}
		rest := p.lines[p.pos][indent+1:]
		trimmed := strings.TrimLeft(rest, " ")
		var item *Node
		if blank(trimmed) {
			p.pos++
			item, err = p.nested(indent)
		} else {
			// The dash counts as indentation for what follows on its line.
			at := indent + 1 + len(rest) - len(trimmed)
			if _, _, isKey := splitKey(trimmed); isKey || isItem(trimmed) {
				p.lines[p.pos] = strings.Repeat(" ", at) + trimmed
				item, err = p.block(at)
			} else {
				item, err = p.value(trimmed, indent)
			}
		}
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, item)
	}
}

// nested reads what is indented more than its parent; nothing is a null.
func (p *parser) nested(parent int) (*Node, error) {
	line := p.first + p.pos
	n, err := p.next()
	if err != nil {
		return nil, err
	}
	if n <= parent {
		return &Node{Line: line}, nil
	}
	return p.block(n)
}

func (p *parser) mapping(indent int) (*Node, error) {
	out := &Node{Kind: Mapping, Line: p.first + p.pos + 1}
	for {
		n, err := p.next()
		if err != nil {
			return nil, err
		}
		if n != indent {
			if n > indent {
				return nil, p.fail("%q is indented more than the keys above it", strings.TrimSpace(p.lines[p.pos]))
			}
			return out, nil
		}
		text := p.lines[p.pos][indent:]
		key, rest, ok := splitKey(text)
		if !ok {
			if isItem(text) {
				return nil, p.fail("a list item stands where a key is expected")
			}
			return nil, p.fail("%q is not a key: value pair", strings.TrimSpace(text))
		}
		if out.Get(key) != nil {
			return nil, p.fail("key %q is given twice", key)
		}
		v, err := p.fieldValue(rest, indent)
		if err != nil {
			return nil, err
		}
		out.Fields = append(out.Fields, Field{key, v})
	}
}

// fieldValue reads what follows a key and its colon.
func (p *parser) fieldValue(rest string, indent int) (*Node, error) {
	tag, body, err := p.takeTag(rest)
	if err != nil {
		return nil, err
	}
	if !blank(body) {
		n, err := p.value(body, indent)
		if err == nil && tag != "" {
			n.Tag = tag
		}
		return n, err
	}
	p.pos++
	n, err := p.next()
	if err != nil {
		return nil, err
	}
	// A list may stand at the indentation of its key.
	if n == indent && isItem(p.lines[p.pos][n:]) {
		node, err := p.sequence(n)
		if err == nil {
			node.Tag = tag
		}
		return node, err
	}
	node, err := p.nested(indent)
	if err == nil && tag != "" {
		node.Tag = tag
	}
	return node, err
}

// takeTag splits a local tag off a value.
func (p *parser) takeTag(s string) (tag, rest string, err error) {
	s = strings.TrimLeft(s, " ")
	if s != "" && (s[0] == '&' || s[0] == '*') {
		return "", "", p.fail("anchors and aliases are not supported (%s)", s)
	}
	if !strings.HasPrefix(s, "!") {
		return "", s, nil
	}
	tag, rest, _ = strings.Cut(s[1:], " ")
	return tag, strings.TrimLeft(rest, " "), nil
}

// splitKey finds a key and what follows its colon.
func splitKey(text string) (key, rest string, ok bool) {
	if text == "" {
		return "", "", false
	}
	switch text[0] {
	case '"', '\'':
		v, n, err := quoted(text)
		if err != nil {
			return "", "", false
		}
		after := strings.TrimLeft(text[n:], " ")
		if after == ":" || strings.HasPrefix(after, ": ") {
			return v, after[1:], true
		}
		return "", "", false
	case '[', '{', '#', '|', '>', '!', '&', '*', '%', '@', '`':
		return "", "", false
	}
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == ':' && (i+1 == len(text) || text[i+1] == ' ' || text[i+1] == '\t'):
			return strings.TrimRight(text[:i], " "), text[i+1:], i > 0
		case text[i] == '#' && i > 0 && text[i-1] == ' ':
			return "", "", false
		}
	}
	return "", "", false
}
