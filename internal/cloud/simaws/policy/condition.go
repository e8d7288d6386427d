package policy

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// test compares a value of the request with one of the policy.
type test struct {
	match func(have, want string) bool
	// negated operators hold when no policy value matches.
	negated bool
}

var operators = map[string]test{
	"StringEquals":              {match: func(h, w string) bool { return h == w }},
	"StringNotEquals":           {match: func(h, w string) bool { return h == w }, negated: true},
	"StringEqualsIgnoreCase":    {match: strings.EqualFold},
	"StringNotEqualsIgnoreCase": {match: strings.EqualFold, negated: true},
	"StringLike":                {match: func(h, w string) bool { return Match(w, h) }},
	"StringNotLike":             {match: func(h, w string) bool { return Match(w, h) }, negated: true},
	"ArnEquals":                 {match: func(h, w string) bool { return Match(w, h) }},
	"ArnLike":                   {match: func(h, w string) bool { return Match(w, h) }},
	"ArnNotEquals":              {match: func(h, w string) bool { return Match(w, h) }, negated: true},
	"ArnNotLike":                {match: func(h, w string) bool { return Match(w, h) }, negated: true},
	"Bool":                      {match: strings.EqualFold},
	"Null":                      {},
	"IpAddress":                 {match: inNetwork},
	"NotIpAddress":              {match: inNetwork, negated: true},
	"NumericEquals":             {match: numeric(func(c int) bool { return c == 0 })},
	"NumericNotEquals":          {match: numeric(func(c int) bool { return c == 0 }), negated: true},
	"NumericLessThan":           {match: numeric(func(c int) bool { return c < 0 })},
	"NumericLessThanEquals":     {match: numeric(func(c int) bool { return c <= 0 })},
	"NumericGreaterThan":        {match: numeric(func(c int) bool { return c > 0 })},
	"NumericGreaterThanEquals":  {match: numeric(func(c int) bool { return c >= 0 })},
	"DateEquals":                {match: date(func(c int) bool { return c == 0 })},
	"DateNotEquals":             {match: date(func(c int) bool { return c == 0 }), negated: true},
	"DateLessThan":              {match: date(func(c int) bool { return c < 0 })},
	"DateLessThanEquals":        {match: date(func(c int) bool { return c <= 0 })},
	"DateGreaterThan":           {match: date(func(c int) bool { return c > 0 })},
	"DateGreaterThanEquals":     {match: date(func(c int) bool { return c >= 0 })},
}

func numeric(ok func(int) bool) func(have, want string) bool {
	return func(have, want string) bool {
		h, err1 := strconv.ParseFloat(have, 64)
		w, err2 := strconv.ParseFloat(want, 64)
		if err1 != nil || err2 != nil {
			return false
		}
		switch {
		case h < w:
			return ok(-1)
		case h > w:
			return ok(1)
		}
		return ok(0)
	}
}

func date(ok func(int) bool) func(have, want string) bool {
	return func(have, want string) bool {
		h, err1 := time.Parse(time.RFC3339, have)
		w, err2 := time.Parse(time.RFC3339, want)
		return err1 == nil && err2 == nil && ok(h.Compare(w))
	}
}

func inNetwork(have, want string) bool {
	addr, err := netip.ParseAddr(have)
	if err != nil {
		return false
	}
	if p, err := netip.ParsePrefix(want); err == nil {
		return p.Contains(addr)
	}
	w, err := netip.ParseAddr(want)
	return err == nil && w == addr
}

// baseOperator strips the set prefix and the IfExists suffix.
func baseOperator(op string) string {
	op = strings.TrimPrefix(op, "ForAllValues:")
	op = strings.TrimPrefix(op, "ForAnyValue:")
	return strings.TrimSuffix(op, "IfExists")
}

// holds tests the condition against the request's keys.
func (c condition) holds(ctx map[string][]string) bool {
	have, present := ctx[strings.ToLower(c.key)]
	op := baseOperator(c.operator)
	if op == "Null" {
		want := len(c.values) > 0 && strings.EqualFold(c.values[0], "true")
		return want != present
	}
	t := operators[op]
	if !present || len(have) == 0 {
		switch {
		case strings.HasSuffix(c.operator, "IfExists"), strings.HasPrefix(c.operator, "ForAllValues:"):
			return true
		case strings.HasPrefix(c.operator, "ForAnyValue:"):
			return false
		}
		// A negated operator holds for a key that is not there.
		return t.negated
	}
	one := func(h string) bool {
		hit := slices.ContainsFunc(c.values, func(w string) bool { return t.match(h, expand(w, ctx)) })
		return hit != t.negated
	}
	if strings.HasPrefix(c.operator, "ForAllValues:") || t.negated {
		return !slices.ContainsFunc(have, func(h string) bool { return !one(h) })
	}
	return slices.ContainsFunc(have, one)
}

// expand fills in policy variables such as ${aws:PrincipalTag/team}. What is
// filled in is not expanded again.
func expand(s string, ctx map[string][]string) string {
	if !strings.Contains(s, "${") {
		return s
	}
	var out strings.Builder
	for {
		before, rest, ok := strings.Cut(s, "${")
		out.WriteString(before)
		if !ok {
			return out.String()
		}
		name, after, closed := strings.Cut(rest, "}")
		switch v := ctx[strings.ToLower(name)]; {
		case !closed:
			out.WriteString("${" + rest)
			return out.String()
		case len(v) > 0:
			out.WriteString(v[0])
		case len(name) == 1:
			// ${*}, ${?} and ${$} stand for the character itself.
			out.WriteString(name)
		default:
			// An unknown variable matches nothing; no request holds a NUL.
			out.WriteByte(0)
		}
		s = after
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
