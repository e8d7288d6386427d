package simaws

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of a query request. AWS has its own; these keep a hostile request
// from costing more than it sends.
const (
	maxParameters = 20000
	maxDepth      = 16
)

// node is one level of a request's parameters: "A.1.B=x" is the path A, 1, B.
// Reading through a nil node gives zero values, so handlers need no checks.
type node struct {
	value string
	set   bool
	kids  map[string]*node
	// fault is shared by the whole tree and holds the first bad value.
	fault *paramFault
	path  string
}

type paramFault struct{ err *apiError }

// parseQuery builds the tree of a form body or query string.
func parseQuery(values url.Values) (*node, *apiError) {
	root := &node{fault: &paramFault{}}
	if len(values) > maxParameters {
		return nil, fail("MalformedQueryString", "The request has %d parameters; at most %d are allowed", len(values), maxParameters)
	}
	// In order, so that of several errors the same one is always reported.
	for _, key := range sortedKeys(values) {
		vs := values[key]
		if len(vs) > 1 {
			return nil, fail("MalformedQueryString", "The parameter %s is given more than once", key)
		}
		at, depth := root, 0
		for part := range strings.SplitSeq(key, ".") {
			if depth++; depth > maxDepth || part == "" {
				return nil, fail("MalformedQueryString", "The parameter name %q is not valid", key)
			}
			if at.kids == nil {
				at.kids = map[string]*node{}
			}
			next := at.kids[part]
			if next == nil {
				next = &node{fault: root.fault, path: strings.TrimPrefix(at.path+"."+part, ".")}
				at.kids[part] = next
			}
			at = next
		}
		at.value, at.set = vs[0], true
	}
	return root, nil
}

// at walks down a dotted path.
func (n *node) at(path string) *node {
	for part := range strings.SplitSeq(path, ".") {
		if n == nil {
			return nil
		}
		n = n.kids[part]
	}
	return n
}

func (n *node) str(path string) string {
	if k := n.at(path); k != nil {
		return k.value
	}
	return ""
}

func (n *node) has(path string) bool { return n.at(path) != nil }

func (n *node) note(err *apiError) {
	if n.fault.err == nil {
		n.fault.err = err
	}
}

// err is the first value that could not be read.
func (n *node) err() error {
	if n.fault.err != nil {
		return n.fault.err
	}
	return nil
}

func (n *node) int(path string, def int) int {
	k := n.at(path)
	if k == nil || !k.set {
		return def
	}
	v, err := strconv.Atoi(k.value)
	if err != nil {
		n.note(badValue(k.path, k.value, "It must be an integer."))
		return def
	}
	return v
}

func (n *node) bool(path string) bool {
	k := n.at(path)
	if k == nil || !k.set {
		return false
	}
	switch strings.ToLower(k.value) {
	case "true", "1":
		return true
	case "false", "0":
		return false
	}
	n.note(badValue(k.path, k.value, "It must be true or false."))
	return false
}

func (n *node) float(path string) float64 {
	k := n.at(path)
	if k == nil || !k.set {
		return 0
	}
	v, err := strconv.ParseFloat(k.value, 64)
	if err != nil {
		n.note(badValue(k.path, k.value, "It must be a number."))
	}
	return v
}

func (n *node) time(path string) time.Time {
	k := n.at(path)
	if k == nil || !k.set {
		return time.Time{}
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02"} {
		if t, err := time.Parse(layout, k.value); err == nil {
			return t.UTC()
		}
	}
	n.note(badValue(k.path, k.value, "It must be a time in ISO 8601 form."))
	return time.Time{}
}

// items are the elements of a list in order of their numbers, whether they are
// written Name.1 or Name.member.1.
func (n *node) items(path string) []*node {
	k := n.at(path)
	if k == nil {
		return nil
	}
	if m := k.kids["member"]; m != nil {
		k = m
	}
	type numbered struct {
		i int
		n *node
	}
	var out []numbered
	for _, name := range sortedKeys(k.kids) {
		kid := k.kids[name]
		i, err := strconv.Atoi(name)
		if err != nil || i < 0 {
			n.note(fail("MalformedQueryString", "%s.%s is not a list element", k.path, name))
			continue
		}
		out = append(out, numbered{i, kid})
	}
	slices.SortFunc(out, func(a, b numbered) int { return a.i - b.i })
	nodes := make([]*node, len(out))
	for i := range out {
		nodes[i] = out[i].n
	}
	return nodes
}

// strs are the values of a list.
func (n *node) strs(path string) []string {
	items := n.items(path)
	out := make([]string, 0, len(items))
	for _, it := range items {
		out = append(out, it.value)
	}
	return out
}

// tags reads a list of Key and Value.
func (n *node) tags(path string) []Tag {
	var out []Tag
	for _, it := range n.items(path) {
		out = append(out, Tag{it.str("Key"), it.str("Value")})
	}
	return out
}
