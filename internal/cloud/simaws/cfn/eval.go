package cfn

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Env is what names in a template stand for.
type Env struct {
	// Parameters holds values of parameters and pseudo parameters such as
	// AWS::Region.
	Parameters map[string]string
	// Ref and Attr are what a made resource is known as.
	Ref  func(resource string) (string, bool)
	Attr func(resource, attribute string) (string, bool)

	t *Template
}

// noValue is what AWS::NoValue evaluates to: the property is left out.
type noValue struct{}

// Properties evaluates a resource's properties.
func (t *Template) Properties(r Resource, env Env) (map[string]any, error) {
	env.t = t
	if r.Properties == nil {
		return map[string]any{}, nil
	}
	v, err := env.eval(r.Properties)
	if err != nil {
		return nil, fmt.Errorf("resource %s: %w", r.Name, err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("resource %s: Properties must be a mapping", r.Name)
	}
	return m, nil
}

// Wanted says whether a resource's condition holds.
func (t *Template) Wanted(r Resource, env Env) (bool, error) {
	if r.Condition == "" {
		return true, nil
	}
	env.t = t
	return env.condition(r.Condition, 0)
}

// Output is a stack output.
type Output struct{ Key, Value, Description, Export string }

// Outputs evaluates the outputs.
func (t *Template) Outputs(env Env) ([]Output, error) {
	env.t = t
	var out []Output
	if t.outputs == nil {
		return nil, nil
	}
	for _, f := range t.outputs.fields {
		if wanted, err := t.Wanted(Resource{Condition: f.value.get("Condition").String()}, env); err != nil || !wanted {
			if err != nil {
				return nil, fmt.Errorf("output %s: %w", f.key, err)
			}
			continue
		}
		if f.value.get("Value") == nil {
			return nil, fmt.Errorf("output %s has no Value", f.key)
		}
		v, err := env.text(f.value.get("Value"))
		if err != nil {
			return nil, fmt.Errorf("output %s: %w", f.key, err)
		}
		o := Output{Key: f.key, Value: v, Description: f.value.get("Description").String()}
		if e := f.value.get("Export").get("Name"); e != nil {
			if o.Export, err = env.text(e); err != nil {
				return nil, fmt.Errorf("output %s: %w", f.key, err)
			}
		}
		out = append(out, o)
	}
	return out, nil
}

func (e Env) eval(n *node) (any, error) {
	if name, arg := function(n); name != "" {
		return e.call(name, arg)
	}
	switch n.kind {
	case yaml.MappingNode:
		m := map[string]any{}
		for _, f := range n.fields {
			v, err := e.eval(f.value)
			if err != nil {
				return nil, err
			}
			if v != (noValue{}) {
				m[f.key] = v
			}
		}
		return m, nil
	case yaml.SequenceNode:
		s := []any{}
		for _, i := range n.items {
			v, err := e.eval(i)
			if err != nil {
				return nil, err
			}
			if v != (noValue{}) {
				s = append(s, v)
			}
		}
		return s, nil
	}
	return n.plain(), nil
}

// text evaluates to a string.
func (e Env) text(n *node) (string, error) {
	v, err := e.eval(n)
	if err != nil {
		return "", err
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	return "", fmt.Errorf("%v is not a string", v)
}

func (e Env) list(n *node) ([]string, error) {
	v, err := e.eval(n)
	if err != nil {
		return nil, err
	}
	items, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("%v is not a list", v)
	}
	out := make([]string, len(items))
	for i, x := range items {
		out[i] = fmt.Sprint(x)
	}
	return out, nil
}

// args checks that a function's argument is a list of n.
func args(name string, arg *node, n int) ([]*node, error) {
	if arg == nil || arg.kind != yaml.SequenceNode || len(arg.items) != n {
		return nil, fmt.Errorf("function Fn::%s needs a list of %d", name, n)
	}
	return arg.items, nil
}

func (e Env) call(name string, arg *node) (any, error) {
	switch name {
	case "Ref":
		return e.ref(arg.String())
	case "GetAtt":
		r, attr := attribute(arg)
		if v, ok := e.Attr(r, attr); ok {
			return v, nil
		}
		return nil, fmt.Errorf("Fn::GetAtt: resource %s has no attribute %q here", r, attr)
	case "Sub":
		return e.sub(arg)
	case "Join":
		return e.join(arg)
	case "Select":
		return e.pick(arg)
	case "Split":
		a, err := args(name, arg, 2)
		if err != nil {
			return nil, err
		}
		s, err := e.text(a[1])
		if err != nil {
			return nil, err
		}
		out := []any{}
		for _, p := range strings.Split(s, a[0].String()) {
			out = append(out, p)
		}
		return out, nil
	case "If":
		a, err := args(name, arg, 3)
		if err != nil {
			return nil, err
		}
		yes, err := e.condition(a[0].String(), 0)
		if err != nil {
			return nil, err
		}
		if yes {
			return e.eval(a[1])
		}
		return e.eval(a[2])
	case "FindInMap":
		return e.find(arg)
	case "Base64":
		s, err := e.text(arg)
		return base64.StdEncoding.EncodeToString([]byte(s)), err
	case "Equals", "Not", "And", "Or", "Condition":
		return e.truth(name, arg, 0)
	}
	return nil, fmt.Errorf("function Fn::%s is not supported", name)
}

func (e Env) ref(name string) (any, error) {
	if name == "AWS::NoValue" {
		return noValue{}, nil
	}
	if v, ok := e.Parameters[name]; ok {
		return v, nil
	}
	if v, ok := e.Ref(name); ok {
		return v, nil
	}
	return nil, fmt.Errorf("unresolved resource dependency %q", name)
}

func (e Env) sub(arg *node) (any, error) {
	text, local := arg.String(), (*node)(nil)
	if arg.kind == yaml.SequenceNode {
		a, err := args("Sub", arg, 2)
		if err != nil {
			return nil, err
		}
		text, local = a[0].String(), a[1]
	}
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, "${")
		b.WriteString(before)
		if !ok {
			return b.String(), nil
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			return nil, fmt.Errorf("Fn::Sub: a ${ is not closed")
		}
		v, err := e.variable(strings.TrimSpace(name), local)
		if err != nil {
			return nil, fmt.Errorf("Fn::Sub: %w", err)
		}
		b.WriteString(v)
		text = after
	}
}

func (e Env) variable(name string, local *node) (string, error) {
	if literal, ok := strings.CutPrefix(name, "!"); ok {
		return "${" + literal + "}", nil
	}
	if n := local.get(name); n != nil {
		return e.text(n)
	}
	if r, attr, ok := strings.Cut(name, "."); ok {
		if v, ok := e.Attr(r, attr); ok {
			return v, nil
		}
		return "", fmt.Errorf("resource %s has no attribute %q here", r, attr)
	}
	v, err := e.ref(name)
	return fmt.Sprint(v), err
}

func (e Env) join(arg *node) (any, error) {
	a, err := args("Join", arg, 2)
	if err != nil {
		return nil, err
	}
	parts, err := e.list(a[1])
	return strings.Join(parts, a[0].String()), err
}

func (e Env) pick(arg *node) (any, error) {
	a, err := args("Select", arg, 2)
	if err != nil {
		return nil, err
	}
	parts, err := e.list(a[1])
	if err != nil {
		return nil, err
	}
	i, err := strconv.Atoi(a[0].String())
	if err != nil || i < 0 || i >= len(parts) {
		return nil, fmt.Errorf("Fn::Select: index %q is not within the list of %d", a[0].String(), len(parts))
	}
	return parts[i], nil
}

func (e Env) find(arg *node) (any, error) {
	a, err := args("FindInMap", arg, 3)
	if err != nil {
		return nil, err
	}
	n := e.t.mappings
	for _, k := range a {
		key, err := e.text(k)
		if err != nil {
			return nil, err
		}
		if n = n.get(key); n == nil {
			return nil, fmt.Errorf("Fn::FindInMap: no entry %q", key)
		}
	}
	return n.plain(), nil
}

// maxConditions bounds how deep conditions may refer to each other.
const maxConditions = 20

func (e Env) condition(name string, depth int) (bool, error) {
	n := e.t.conditions.get(name)
	if n == nil {
		return false, fmt.Errorf("condition %q does not exist", name)
	}
	if depth > maxConditions {
		return false, fmt.Errorf("condition %q refers to itself", name)
	}
	fn, arg := function(n)
	return e.truth(fn, arg, depth+1)
}

func (e Env) truth(name string, arg *node, depth int) (bool, error) {
	switch name {
	case "Condition":
		return e.condition(arg.String(), depth)
	case "Equals":
		a, err := args(name, arg, 2)
		if err != nil {
			return false, err
		}
		l, err := e.text(a[0])
		if err != nil {
			return false, err
		}
		r, err := e.text(a[1])
		return l == r, err
	case "Not", "And", "Or":
		if arg.kind != yaml.SequenceNode || len(arg.items) == 0 {
			return false, fmt.Errorf("function Fn::%s needs a list of conditions", name)
		}
		all, some := true, false
		for _, i := range arg.items {
			fn, inner := function(i)
			v, err := e.truth(fn, inner, depth+1)
			if err != nil {
				return false, err
			}
			all, some = all && v, some || v
		}
		switch name {
		case "Not":
			return !some, nil
		case "And":
			return all, nil
		}
		return some, nil
	}
	return false, fmt.Errorf("%q is not a condition function", name)
}
