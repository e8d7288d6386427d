// Package policy decides IAM questions: whether a set of policy documents
// allows an action on a resource under given condition keys. It is pure; the
// caller gathers the documents that apply to the principal.
package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Document is a parsed policy.
type Document struct {
	Version    string
	Statements []Statement
}

// Statement is one rule of a policy.
type Statement struct {
	Sid                     string
	Allow                   bool
	Actions, NotActions     []string
	Resources, NotResources []string
	Conditions              []condition
}

// condition is one operator applied to one key.
type condition struct {
	operator, key string
	values        []string
}

// Request is a question. Context holds the condition keys, in lower case, that
// the request has; keys are compared without regard to case, as IAM does.
type Request struct {
	Action, Resource string
	Context          map[string][]string
}

// Decision is the answer to a Request.
type Decision int

// The three answers IAM knows. A missing Allow and an explicit Deny both refuse
// but read differently in the error.
const (
	ImplicitDeny Decision = iota
	Allowed
	ExplicitDeny
)

// Parse reads a policy and finds what IAM would refuse to store.
func Parse(text string) (Document, error) {
	var raw struct {
		Version   string
		Statement many[rawStatement]
	}
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return Document{}, fmt.Errorf("syntax errors in policy: %w", err)
	}
	if len(raw.Statement) == 0 {
		return Document{}, errors.New("policy has no Statement")
	}
	if v := raw.Version; v != "" && v != "2012-10-17" && v != "2008-10-17" {
		return Document{}, fmt.Errorf("policy Version %q is not known", v)
	}
	d := Document{Version: raw.Version}
	for i, r := range raw.Statement {
		s, err := r.statement()
		if err != nil {
			return Document{}, fmt.Errorf("statement %d (%s): %w", i, r.Sid, err)
		}
		d.Statements = append(d.Statements, s)
	}
	return d, nil
}

// many reads one value or a list of them.
type many[T any] []T

// UnmarshalJSON accepts both forms.
func (m *many[T]) UnmarshalJSON(b []byte) error {
	var list []T
	if err := json.Unmarshal(b, &list); err == nil {
		*m = list
		return nil
	}
	var one T
	if err := json.Unmarshal(b, &one); err != nil {
		return err
	}
	*m = []T{one}
	return nil
}

// scalar reads a string, number or boolean as text, because conditions may
// hold any of them.
type scalar string

// UnmarshalJSON accepts any scalar.
func (s *scalar) UnmarshalJSON(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	switch v.(type) {
	case string, float64, bool:
		*s = scalar(fmt.Sprint(v))
		return nil
	}
	return fmt.Errorf("%s is not a string, number or boolean", b)
}

type rawStatement struct {
	Sid, Effect           string
	Action, NotAction     many[string]
	Resource, NotResource many[string]
	Principal             json.RawMessage
	Condition             map[string]map[string]many[scalar]
}

func (r rawStatement) statement() (Statement, error) {
	s := Statement{
		Sid: r.Sid, Allow: r.Effect == "Allow", Actions: r.Action, NotActions: r.NotAction,
		Resources: r.Resource, NotResources: r.NotResource,
	}
	if r.Effect != "Allow" && r.Effect != "Deny" {
		return s, fmt.Errorf("effect is %q, must be Allow or Deny", r.Effect)
	}
	if len(s.Actions) == 0 && len(s.NotActions) == 0 {
		return s, errors.New("statement has no Action")
	}
	for _, a := range append(append([]string{}, s.Actions...), s.NotActions...) {
		if a != "*" && !strings.Contains(a, ":") {
			return s, fmt.Errorf("action %q needs a service prefix", a)
		}
	}
	for _, op := range sortedKeys(r.Condition) {
		if _, ok := operators[baseOperator(op)]; !ok {
			return s, fmt.Errorf("condition operator %q is not known", op)
		}
		for _, key := range sortedKeys(r.Condition[op]) {
			values := make([]string, len(r.Condition[op][key]))
			for i, v := range r.Condition[op][key] {
				values[i] = string(v)
			}
			s.Conditions = append(s.Conditions, condition{op, key, values})
		}
	}
	return s, nil
}

// Evaluate answers a request from all documents together: any matching Deny
// wins over any Allow, and nothing matching means no. The statement that
// decided is returned too, for explanations.
func Evaluate(docs []Document, r Request) (Decision, *Statement) {
	answer := ImplicitDeny
	var by *Statement
	for i := range docs {
		for j := range docs[i].Statements {
			s := &docs[i].Statements[j]
			if !s.applies(r) {
				continue
			}
			if !s.Allow {
				return ExplicitDeny, s
			}
			if answer != Allowed {
				answer, by = Allowed, s
			}
		}
	}
	return answer, by
}

func (s *Statement) applies(r Request) bool {
	action := strings.ToLower(r.Action)
	if !listed(s.Actions, s.NotActions, func(p string) bool { return Match(strings.ToLower(p), action) }) {
		return false
	}
	if len(s.Resources)+len(s.NotResources) > 0 &&
		!listed(s.Resources, s.NotResources, func(p string) bool { return Match(expand(p, r.Context), r.Resource) }) {
		return false
	}
	for _, c := range s.Conditions {
		if !c.holds(r.Context) {
			return false
		}
	}
	return true
}

// listed applies a list, or its negated twin when the list is empty.
func listed(yes, no []string, match func(string) bool) bool {
	if len(yes) > 0 {
		for _, p := range yes {
			if match(p) {
				return true
			}
		}
		return false
	}
	for _, p := range no {
		if match(p) {
			return false
		}
	}
	return true
}

// Match compares with * and ? as wildcards.
func Match(pattern, s string) bool {
	star, mark := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i]):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
