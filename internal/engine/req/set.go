package req

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Set is a conjunction of requirements, one per key, sorted by key. Sets are values: no method changes its receiver.
type Set []Requirement

// NewSet joins requirements; several with one key meet.
func NewSet(rs ...Requirement) Set {
	s := make(Set, 0, len(rs))
	for _, r := range rs {
		s = s.With(r)
	}
	return s
}

// With is s with one more requirement.
func (s Set) With(r Requirement) Set {
	i, found := s.find(r.Key)
	if found {
		out := slices.Clone(s)
		out[i] = s[i].Meet(r)
		return out
	}
	return slices.Insert(slices.Clone(s), i, r)
}

// Meet is the set in which everything of both holds.
func (s Set) Meet(o Set) Set {
	out := s
	for _, r := range o {
		out = out.With(r)
	}
	return out
}

// Get is the requirement on key, if the set has one.
func (s Set) Get(key string) (Requirement, bool) {
	i, found := s.find(key)
	if !found {
		return Requirement{}, false
	}
	return s[i], true
}

func (s Set) find(key string) (int, bool) {
	return slices.BinarySearchFunc(s, key, func(r Requirement, k string) int { return strings.Compare(r.Key, k) })
}

// Admits says whether a node with these labels passes every requirement; get reports a label and whether it is there.
func (s Set) Admits(get func(key string) (string, bool)) bool {
	for _, r := range s {
		if v, ok := get(r.Key); !r.Admits(v, ok) {
			return false
		}
	}
	return true
}

// Compatible is nil when a node that s describes can satisfy o, or else says which requirement of o cannot be met. A key
// that s does not define passes if o admits its absence, or if open says that somebody else will define it (the
// provider resolves well-known labels of nodes that do not exist yet).
func (s Set) Compatible(o Set, open func(key string) bool) *Conflict {
	for _, want := range o {
		have, defined := s.Get(want.Key)
		if !defined {
			if want.absent || (open != nil && open(want.Key)) {
				continue
			}
			return &Conflict{Want: want}
		}
		if !have.Overlaps(want) {
			return &Conflict{Want: want, Have: have, Defined: true}
		}
	}
	return nil
}

// Conflict names the requirement that failed and what stood against it.
type Conflict struct {
	Want    Requirement
	Have    Requirement
	Defined bool
}

// String says what is required and what there is.
func (c *Conflict) String() string {
	if !c.Defined {
		return "requires " + c.Want.String() + ", which is not defined"
	}
	return "requires " + c.Want.String() + ", has " + c.Have.String()
}

// Impossible says whether some key of the set admits nothing.
func (s Set) Impossible() bool {
	return slices.ContainsFunc(s, Requirement.Impossible)
}

// String prints the requirements in key order.
func (s Set) String() string {
	parts := make([]string, len(s))
	for i, r := range s {
		parts[i] = r.String()
	}
	return strings.Join(parts, ", ")
}

// AppendKey appends bytes that are equal exactly for equal sets, so that a set can index a map.
func (s Set) AppendKey(b []byte) []byte {
	for _, r := range s {
		b = r.AppendKey(b)
	}
	return append(b, '}')
}

// AppendKey appends bytes that are equal exactly for equal requirements.
func (r Requirement) AppendKey(b []byte) []byte {
	b = strconv.AppendQuote(b, r.Key)
	flags := byte('0')
	if r.complement {
		flags |= 1
	}
	if r.absent {
		flags |= 2
	}
	if r.bounded {
		flags |= 4
	}
	b = append(b, flags)
	if r.bounded {
		b = strconv.AppendInt(b, r.lower, 36)
		b = append(b, ':')
		b = strconv.AppendInt(b, r.upper, 36)
	}
	if r.MinValues > 0 {
		b = append(b, 'm')
		b = strconv.AppendInt(b, int64(r.MinValues), 10)
	}
	for _, v := range r.values {
		b = strconv.AppendQuote(b, v)
	}
	return append(b, ';')
}

// Entry is one requirement in the form manifests have it.
type Entry struct {
	Key       string
	Operator  Operator
	Values    []string
	MinValues int
}

// Entries spells the set out for a manifest: a bounded requirement becomes up to three entries (Gte, Lte and NotIn), and
// minValues stays with the first of them.
func (s Set) Entries() []Entry {
	var out []Entry
	for _, r := range s {
		out = append(out, r.entries()...)
	}
	return out
}

func (r Requirement) entries() []Entry {
	if !r.bounded {
		return []Entry{{Key: r.Key, Operator: r.Operator(), Values: r.values, MinValues: r.MinValues}}
	}
	var out []Entry
	if r.lower != math.MinInt64 {
		out = append(out, Entry{Key: r.Key, Operator: Gte, Values: []string{strconv.FormatInt(r.lower, 10)}})
	}
	if r.upper != math.MaxInt64 {
		out = append(out, Entry{Key: r.Key, Operator: Lte, Values: []string{strconv.FormatInt(r.upper, 10)}})
	}
	if len(r.values) > 0 {
		out = append(out, Entry{Key: r.Key, Operator: NotIn, Values: r.values})
	}
	if len(out) > 0 {
		out[0].MinValues = r.MinValues
	}
	return out
}
