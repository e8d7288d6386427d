package simaws

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// filter is one Filter of a describe: any of the values must match.
type filter struct {
	name   string
	values []string
}

// maxFilterValues is EC2's own limit.
const maxFilterValues = 200

func (c *call) filters() ([]filter, error) {
	var out []filter
	for _, f := range c.q.items("Filter") {
		values := f.strs("Value")
		if len(values) > maxFilterValues {
			return nil, fail("FilterLimitExceeded", "The maximum number of filter values specified on a single call is %d", maxFilterValues)
		}
		if f.str("Name") == "" {
			return nil, missing("Filter.Name")
		}
		if len(values) == 0 {
			return nil, fail("InvalidParameterValue", "The filter %s has no values", f.str("Name"))
		}
		out = append(out, filter{f.str("Name"), values})
	}
	return out, nil
}

// field appends the values an object has under a filter name to out, and says
// whether the name is one that its kind of object can be filtered by.
type field func(name string, out []string) ([]string, bool)

// matches applies all filters: AND over names, OR over values.
func matches(fs []filter, f field) (bool, error) {
	var buf [8]string
	for _, want := range fs {
		have, known := f(want.name, buf[:0])
		if !known {
			return false, fail("InvalidParameterValue", "The filter '%s' is invalid", want.name)
		}
		if !slices.ContainsFunc(have, func(h string) bool {
			return slices.ContainsFunc(want.values, func(p string) bool { return wildcard(p, h) })
		}) {
			return false, nil
		}
	}
	return true, nil
}

// tagField answers the tag filters that every taggable object has.
func tagField(tags tagSet, name string, out []string) ([]string, bool) {
	if key, ok := strings.CutPrefix(name, "tag:"); ok {
		if v, ok := tags.get(key); ok {
			out = append(out, v)
		}
		return out, true
	}
	switch name {
	case "tag-key":
		for _, t := range tags {
			out = append(out, t.Key)
		}
		return out, true
	case "tag-value":
		for _, t := range tags {
			out = append(out, t.Value)
		}
		return out, true
	}
	return out, false
}

// wildcard matches EC2's patterns: * is any run, ? any one character, and a
// backslash takes the next character as it is.
func wildcard(pattern, s string) bool {
	if !strings.ContainsAny(pattern, `*?\`) {
		return pattern == s
	}
	// The place to come back to when what followed the last star fails.
	star, mark := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
			continue
		case p < len(pattern) && pattern[p] == '\\' && p+1 < len(pattern) && pattern[p+1] == s[i]:
			p += 2
			i++
			continue
		case p < len(pattern) && pattern[p] != '\\' && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		p, i = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// pages bounds the page size of a describe.
type pages struct {
	min, max int
	// def is the size when none is asked for; 0 means everything.
	def int
}

// page cuts a listing and gives the token of the next page.
func page[T any](c *call, all []T, lim pages) ([]T, string, error) {
	size := c.q.int("MaxResults", lim.def)
	if err := c.q.err(); err != nil {
		return nil, "", err
	}
	if c.q.has("MaxResults") && (size < lim.min || size > lim.max) {
		return nil, "", fail("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value between %d and %d.", size, lim.min, lim.max)
	}
	return cut(all, size, c.q.str("NextToken"))
}

// cut takes the page that a token names.
func cut[T any](all []T, size int, token string) ([]T, string, error) {
	start := 0
	if token != "" {
		var ok bool
		if start, ok = readToken(token); !ok {
			return nil, "", fail("InvalidNextToken", "The token '%s' is invalid", token)
		}
	}
	start = min(start, len(all))
	if size <= 0 || start+size >= len(all) {
		return all[start:], "", nil
	}
	return all[start : start+size], pageToken(start + size), nil
}

// paging is what a call of a JSON or REST service says about the page it wants.
type paging struct {
	// size is nil when none is asked for, which means limit.
	size  *int
	token string
	limit int
	// bad is the service's error for a size or token that makes no sense.
	bad *apiError
}

// restPaging reads maxResults and nextToken of a REST call.
func (c *call) restPaging(limit int, bad *apiError) (paging, error) {
	want := paging{token: c.form.Get("nextToken"), limit: limit, bad: bad}
	if c.form.Has("maxResults") {
		n, err := strconv.Atoi(c.form.Get("maxResults"))
		if err != nil {
			return want, bad.saying("maxResults %q is not a number", c.form.Get("maxResults"))
		}
		want.size = &n
	}
	return want, nil
}

// pageOf cuts a listing.
func pageOf[T any](all []T, want paging) ([]T, string, error) {
	size := want.limit
	if want.size != nil {
		size = *want.size
	}
	if size < 1 || size > want.limit {
		return nil, "", want.bad.saying("a page has between 1 and %d entries, not %d", want.limit, size)
	}
	part, next, err := cut(all, size, want.token)
	if err != nil {
		return nil, "", want.bad.saying("the token %q is not one that was given out", want.token)
	}
	return part, next, nil
}

// listing is a JSON answer of one list and the token of what follows.
func listing(name string, items any, tokenName, token string) map[string]any {
	out := map[string]any{name: items}
	if token != "" {
		out[tokenName] = token
	}
	return out
}

func pageToken(offset int) string {
	return base64.StdEncoding.EncodeToString([]byte("page:" + strconv.Itoa(offset)))
}

func readToken(token string) (int, bool) {
	raw, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return 0, false
	}
	digits, ok := strings.CutPrefix(string(raw), "page:")
	n, err := strconv.Atoi(digits)
	return n, ok && err == nil && n >= 0
}

// pick says which objects of a table a describe wants.
type pick[T any] struct {
	ids []string
	// unknown is the error for an id that does not exist.
	unknown func(id string) *apiError
	field   func(*T) field
}

// from lists the objects that the ids and the call's filters leave.
func (p pick[T]) from(c *call, t *table[T]) ([]*T, error) {
	fs, err := c.filters()
	if err != nil {
		return nil, err
	}
	var out []*T
	for _, id := range p.ids {
		v := t.get(id)
		if v == nil {
			return nil, p.unknown(id)
		}
		out = append(out, v)
	}
	if len(p.ids) == 0 {
		for v := range t.each {
			out = append(out, v)
		}
	}
	return filtered(out, fs, p.field)
}

// filtered keeps what all filters match; it reuses the slice.
func filtered[T any](all []*T, fs []filter, f func(*T) field) ([]*T, error) {
	if len(fs) == 0 {
		return all, nil
	}
	kept := all[:0]
	for _, v := range all {
		ok, err := matches(fs, f(v))
		if err != nil {
			return nil, err
		}
		if ok {
			kept = append(kept, v)
		}
	}
	return kept, nil
}

func boolWord(b bool) string { return strconv.FormatBool(b) }
