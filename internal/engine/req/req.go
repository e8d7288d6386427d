// Package req decides which label values a node may carry: it is the requirement algebra behind node selectors,
// node affinity, pool requirements and volume topologies.
//
// A Requirement is kept in one canonical form (allowed or excluded values, inclusive bounds, may-be-absent), so that the
// eight operators meet, compare and print by one rule each. The package touches nothing but its arguments and never
// panics; the caller only has to build requirements with New, which refuses what no rule can read.
package req

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Operator names a relation between a label and values, with the spelling that manifests use.
type Operator string

// The operators. Gte and Lte exist in Karpenter objects only, not in a pod's node affinity.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
	Gt           Operator = "Gt"
	Lt           Operator = "Lt"
	Gte          Operator = "Gte"
	Lte          Operator = "Lte"
)

// Requirement is what one label key must satisfy. The zero value admits nothing.
type Requirement struct {
	// Key is the label key.
	Key string
	// MinValues is how many distinct values of the key the instance types left for a node must offer; 0 asks for none.
	MinValues int

	values     []string // sorted, unique: the allowed values, or with complement the excluded ones
	complement bool
	absent     bool // a node without the label passes
	lower      int64
	upper      int64
	bounded    bool // lower and upper hold; only integers inside pass
}

// New builds a requirement, or says which part of it cannot be read.
func New(key string, op Operator, values ...string) (Requirement, error) {
	r := Requirement{Key: key, lower: math.MinInt64, upper: math.MaxInt64}
	if key == "" {
		return r, fmt.Errorf("requirement has no key; give a label key such as topology.kubernetes.io/zone")
	}
	switch op {
	case In:
		if len(values) == 0 {
			return r, fmt.Errorf("requirement %s: operator In has no values; give at least one", key)
		}
		r.values = sorted(values)
	case NotIn:
		r.values, r.complement, r.absent = sorted(values), true, true
	case Exists, DoesNotExist:
		if len(values) > 0 {
			return r, fmt.Errorf("requirement %s: operator %s takes no values, got %d", key, op, len(values))
		}
		r.complement, r.absent = op == Exists, op == DoesNotExist
	case Gt, Lt, Gte, Lte:
		return r.bound(op, values)
	default:
		return r, fmt.Errorf("requirement %s: unknown operator %q; use In, NotIn, Exists, DoesNotExist, Gt, Lt, Gte or Lte", key, string(op))
	}
	return r, nil
}

// bound finishes a requirement whose operator compares numbers.
func (r Requirement) bound(op Operator, values []string) (Requirement, error) {
	if len(values) != 1 {
		return r, fmt.Errorf("requirement %s: operator %s needs exactly one value, got %d", r.Key, op, len(values))
	}
	n, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil {
		return r, fmt.Errorf("requirement %s: operator %s needs an integer, got %q", r.Key, op, values[0])
	}
	r.complement, r.bounded = true, true
	switch op {
	case Gt:
		if n == math.MaxInt64 {
			return r.none(), nil
		}
		r.lower = n + 1
	case Gte:
		r.lower = n
	case Lt:
		if n == math.MinInt64 {
			return r.none(), nil
		}
		r.upper = n - 1
	case Lte:
		r.upper = n
	case In, NotIn, Exists, DoesNotExist:
	}
	return r, nil
}

// Is is the requirement that key has exactly this value, as a label on a node states it.
func Is(key, value string) Requirement {
	return Requirement{Key: key, values: []string{value}, lower: math.MinInt64, upper: math.MaxInt64}
}

// none is the requirement that nothing passes, not even absence.
func (r Requirement) none() Requirement {
	return Requirement{Key: r.Key, MinValues: r.MinValues, lower: math.MinInt64, upper: math.MaxInt64}
}

// Admits says whether a node whose label has the value (or, with present false, which lacks the label) passes.
func (r Requirement) Admits(value string, present bool) bool {
	if !present {
		return r.absent
	}
	if r.bounded && !r.inBounds(value) {
		return false
	}
	_, listed := slices.BinarySearch(r.values, value)
	return listed != r.complement
}

// AdmitsAbsent says whether a node without the label passes.
func (r Requirement) AdmitsAbsent() bool { return r.absent }

// Impossible says whether no node at all can pass.
func (r Requirement) Impossible() bool {
	return !r.absent && !r.complement && len(r.values) == 0
}

// Values lists the allowed values when they are enumerated, in order; ok is false when the requirement only excludes.
func (r Requirement) Values() (values []string, ok bool) {
	return r.values, !r.complement
}

// Mentions lists every value that the requirement names, allowed or excluded.
func (r Requirement) Mentions() []string { return r.values }

// Operator is the operator that best names the requirement, as manifests would spell it.
func (r Requirement) Operator() Operator {
	switch {
	case !r.complement && len(r.values) > 0:
		return In
	case !r.complement:
		return DoesNotExist
	case r.bounded && r.lower != math.MinInt64:
		return Gte
	case r.bounded:
		return Lte
	case len(r.values) > 0:
		return NotIn
	default:
		return Exists
	}
}

// Meet is the requirement that both r and o hold. Both must have the same key.
func (r Requirement) Meet(o Requirement) Requirement {
	m := Requirement{
		Key: r.Key, MinValues: max(r.MinValues, o.MinValues), absent: r.absent && o.absent,
		lower: max(r.lower, o.lower), upper: min(r.upper, o.upper), bounded: r.bounded || o.bounded,
	}
	switch {
	case r.complement && o.complement:
		m.complement, m.values = true, union(r.values, o.values)
	case r.complement:
		m.values = without(o.values, r.values)
	case o.complement:
		m.values = without(r.values, o.values)
	default:
		m.values = both(r.values, o.values)
	}
	if m.bounded && m.lower > m.upper {
		m.values, m.complement = nil, false
	}
	if !m.complement { // enumerated values make bounds redundant once those outside are gone
		if m.bounded {
			m.values = slices.DeleteFunc(slices.Clone(m.values), func(v string) bool { return !m.inBounds(v) })
		}
		m.bounded, m.lower, m.upper = false, math.MinInt64, math.MaxInt64
	}
	return m
}

// Overlaps says whether some label state passes both, without building the meet.
func (r Requirement) Overlaps(o Requirement) bool {
	return !r.Meet(o).Impossible()
}

// String prints the requirement as a reader of manifests would write it.
func (r Requirement) String() string {
	var b strings.Builder
	b.WriteString(r.Key)
	switch {
	case r.Impossible():
		b.WriteString(" (nothing)")
	case !r.complement && len(r.values) == 0:
		b.WriteString(" DoesNotExist")
	case !r.complement:
		fmt.Fprintf(&b, " In [%s]", shortList(r.values))
	case r.bounded:
		r.printBounds(&b)
	case len(r.values) > 0:
		fmt.Fprintf(&b, " NotIn [%s]", shortList(r.values))
	default:
		b.WriteString(" Exists")
	}
	if r.MinValues > 0 {
		fmt.Fprintf(&b, " minValues %d", r.MinValues)
	}
	return b.String()
}

func (r Requirement) printBounds(b *strings.Builder) {
	if r.lower != math.MinInt64 {
		fmt.Fprintf(b, " Gte %d", r.lower)
	}
	if r.upper != math.MaxInt64 {
		fmt.Fprintf(b, " Lte %d", r.upper)
	}
	if len(r.values) > 0 {
		fmt.Fprintf(b, " NotIn [%s]", shortList(r.values))
	}
}

// maxPrinted keeps a message readable when somebody lists hundreds of values.
const maxPrinted = 8

func shortList(values []string) string {
	if len(values) <= maxPrinted {
		return strings.Join(values, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(values[:maxPrinted], " "), len(values)-maxPrinted)
}

func (r Requirement) inBounds(v string) bool {
	n, err := strconv.ParseInt(v, 10, 64)
	return err == nil && n >= r.lower && n <= r.upper
}

func sorted(values []string) []string {
	out := slices.Clone(values)
	slices.Sort(out)
	return slices.Compact(out)
}

func union(a, b []string) []string {
	return sorted(slices.Concat(a, b))
}

func both(a, b []string) []string {
	var out []string
	for _, v := range a {
		if _, ok := slices.BinarySearch(b, v); ok {
			out = append(out, v)
		}
	}
	return out
}

func without(a, b []string) []string {
	var out []string
	for _, v := range a {
		if _, ok := slices.BinarySearch(b, v); !ok {
			out = append(out, v)
		}
	}
	return out
}
