// Package formula works out the expressions that an EC2NodeClass may have in place of kubelet settings, such as
// min(110, max_pods) or 11 * max_pods + 255.
//
// The language is a part of CEL, the expression language of Kubernetes, with CEL's precedence, types and errors: what is
// accepted here means the same there. There are whole numbers and fractions that do not mix without int() or double(), texts,
// truth values, arithmetic, comparison, ? :, in [...], min and max of two numbers, and startsWith, endsWith, contains and
// matches for texts. There are no loops, so working out takes time in proportion to the text, whose length and depth are
// bounded. Everything is a pure function of its arguments.
package formula

import (
	"fmt"
	"math"
)

// Variables are what an expression can refer to: facts of one instance type.
type Variables struct {
	// VCPUs is vcpus, MemoryMiB memory_mib.
	VCPUs, MemoryMiB int64
	// DefaultENIs is default_enis: the interfaces of the default network card. IPsPerENI is ips_per_eni.
	DefaultENIs, IPsPerENI int64
	// MaxPods is max_pods: as many pods as the type runs by default, or as maxPods says for whatever comes after it.
	MaxPods int64
	// InstanceType is instance_type, for example m5.large.
	InstanceType string
}

// Formula is an expression that can be worked out.
type Formula struct{ root node }

const (
	// maxLength is what the API server accepts at most.
	maxLength = 1024
	// maxDepth bounds how deep parts can be nested, for the sake of the stack.
	maxDepth = 64
)

// Parse reads an expression, checks that its types fit, and that it gives a number. An error says where it goes wrong.
func Parse(text string) (*Formula, error) {
	if len(text) > maxLength {
		return nil, fmt.Errorf("is %d characters long; at most %d are allowed", len(text), maxLength)
	}
	p := &parser{text: text}
	if err := p.next(); err != nil {
		return nil, err
	}
	root, err := p.ternary()
	if err != nil {
		return nil, err
	}
	if p.token.kind != tokenEnd {
		return nil, p.unexpected("an operator or the end")
	}
	if !root.kind.number() {
		return nil, fmt.Errorf("gives %s, where a number is needed", root.kind)
	}
	return &Formula{root}, nil
}

// Number works the expression out. A fraction is cut off; what is negative or beyond 32 bits is an error, and so is a
// division by zero.
func (f *Formula) Number(v Variables) (int64, error) {
	result, err := f.root.eval(&v)
	if err != nil {
		return 0, err
	}
	whole := result.i
	if f.root.kind == kindDouble {
		if math.IsNaN(result.f) || math.IsInf(result.f, 0) {
			return 0, fmt.Errorf("gives %v, where a number is needed", result.f)
		}
		whole = int64(math.Trunc(max(min(result.f, math.MaxInt64/2), math.MinInt64/2)))
	}
	if whole < 0 || whole > math.MaxInt32 {
		return 0, fmt.Errorf("gives %d, which is not from 0 to %d", whole, math.MaxInt32)
	}
	return whole, nil
}

// kind is the type of a value.
type kind int

const (
	kindInt kind = iota
	kindDouble
	kindBool
	kindText
)

func (k kind) number() bool { return k == kindInt || k == kindDouble }

func (k kind) String() string {
	return [...]string{"a whole number", "a fraction", "true or false", "a text"}[k]
}

// value is one of the fields, by kind.
type value struct {
	i int64
	f float64
	b bool
	s string
}

// double is a number as a fraction.
func (v value) double(k kind) float64 {
	if k == kindInt {
		return float64(v.i)
	}
	return v.f
}

// node is a part of an expression: what it gives, and how.
type node struct {
	kind kind
	eval func(*Variables) (value, error)
	// literal is the text of a text literal, and given whether it is one.
	literal string
	given   bool
}

func constant(k kind, v value) node {
	return node{kind: k, eval: func(*Variables) (value, error) { return v, nil }, literal: v.s, given: k == kindText}
}

func whole(of func(*Variables) int64) node {
	return node{kind: kindInt, eval: func(v *Variables) (value, error) { return value{i: of(v)}, nil }}
}

// names are the variables.
var names = map[string]node{
	"vcpus":         whole(func(v *Variables) int64 { return v.VCPUs }),
	"memory_mib":    whole(func(v *Variables) int64 { return v.MemoryMiB }),
	"default_enis":  whole(func(v *Variables) int64 { return v.DefaultENIs }),
	"ips_per_eni":   whole(func(v *Variables) int64 { return v.IPsPerENI }),
	"max_pods":      whole(func(v *Variables) int64 { return v.MaxPods }),
	"instance_type": {kind: kindText, eval: func(v *Variables) (value, error) { return value{s: v.InstanceType}, nil }},
}
