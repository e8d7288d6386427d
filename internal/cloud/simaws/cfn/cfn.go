// Package cfn reads CloudFormation templates: it finds parameters and
// resources, orders resources by what they refer to, and evaluates the
// intrinsic functions of their properties. It is pure; whoever makes the
// resources tells it their names and attributes.
package cfn

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Template is a parsed template.
type Template struct {
	Description string
	Parameters  []Parameter
	// Resources are in the order they can be made.
	Resources []Resource

	conditions, mappings, outputs *node
}

// Parameter is a declared parameter.
type Parameter struct {
	Name, Type, Description string
	Default                 string
	HasDefault              bool
	Allowed                 []string
}

// Resource is a declared resource.
type Resource struct {
	Name, Type, Condition string
	Properties            *node
}

// Parse reads a template in YAML or JSON.
func Parse(text string) (*Template, error) {
	root, err := read(text)
	if err != nil {
		return nil, fmt.Errorf("template format error: %w", err)
	}
	t := &Template{
		Description: root.get("Description").String(), conditions: root.get("Conditions"),
		mappings: root.get("Mappings"), outputs: root.get("Outputs"),
	}
	if ps := root.get("Parameters"); ps != nil {
		for _, f := range ps.fields {
			p := Parameter{Name: f.key, Type: f.value.get("Type").String(), Description: f.value.get("Description").String()}
			if d := f.value.get("Default"); d != nil {
				p.Default, p.HasDefault = d.String(), true
			}
			if a := f.value.get("AllowedValues"); a != nil {
				for _, v := range a.items {
					p.Allowed = append(p.Allowed, v.String())
				}
			}
			t.Parameters = append(t.Parameters, p)
		}
	}
	rs := root.get("Resources")
	if rs == nil || len(rs.fields) == 0 {
		return nil, fmt.Errorf("template format error: at least one Resources member must be defined")
	}
	return t, t.order(rs)
}

// order sorts the resources so that each comes after what it refers to; apart
// from that they keep the order of the template.
func (t *Template) order(rs *node) error {
	needs := map[string][]string{}
	for _, f := range rs.fields {
		if f.value.get("Type").String() == "" {
			return fmt.Errorf("template format error: resource %s has no Type", f.key)
		}
		refs := references(f.value.get("Properties"), nil)
		if d := f.value.get("DependsOn"); d != nil {
			refs = append(refs, d.String())
			for _, i := range d.items {
				refs = append(refs, i.String())
			}
		}
		needs[f.key] = refs
	}
	state := map[string]int{}
	var visit func(name string) error
	visit = func(name string) error {
		switch state[name] {
		case 1:
			return fmt.Errorf("template format error: circular dependency at resource %s", name)
		case 2:
			return nil
		}
		state[name] = 1
		for _, n := range needs[name] {
			if _, ok := needs[n]; ok && n != name {
				if err := visit(n); err != nil {
					return err
				}
			}
		}
		state[name] = 2
		v := rs.get(name)
		t.Resources = append(t.Resources, Resource{name, v.get("Type").String(), v.get("Condition").String(), v.get("Properties")})
		return nil
	}
	for _, f := range rs.fields {
		if err := visit(f.key); err != nil {
			return err
		}
	}
	return nil
}

// references lists the names that a value refers to.
func references(n *node, out []string) []string {
	if n == nil {
		return out
	}
	name, arg := function(n)
	switch name {
	case "Ref":
		out = append(out, arg.String())
	case "GetAtt":
		head, _ := attribute(arg)
		out = append(out, head)
	case "Sub":
		text := arg.String()
		if arg.kind == yaml.SequenceNode && len(arg.items) > 0 {
			text = arg.items[0].String()
		}
		for _, v := range variables(text) {
			head, _, _ := strings.Cut(v, ".")
			out = append(out, head)
		}
	}
	for _, f := range n.fields {
		out = references(f.value, out)
	}
	for _, i := range n.items {
		out = references(i, out)
	}
	return out
}

// function recognises an intrinsic function in its short (!Sub) and long
// ({"Fn::Sub": …}) form.
func function(n *node) (name string, arg *node) {
	if n.tag != "" {
		plain := *n
		plain.tag = ""
		return n.tag, &plain
	}
	if n.kind == yaml.MappingNode && len(n.fields) == 1 {
		key := n.fields[0].key
		if key == "Ref" || key == "Condition" {
			return key, n.fields[0].value
		}
		if short, ok := strings.CutPrefix(key, "Fn::"); ok {
			return short, n.fields[0].value
		}
	}
	return "", nil
}

// attribute splits the argument of GetAtt.
func attribute(n *node) (resource, attr string) {
	if n.kind == yaml.SequenceNode && len(n.items) == 2 {
		return n.items[0].String(), n.items[1].String()
	}
	resource, attr, _ = strings.Cut(n.String(), ".")
	return resource, attr
}

// variables lists the ${…} names of a Sub text, without literals (${!…}).
func variables(text string) []string {
	var out []string
	for {
		_, rest, ok := strings.Cut(text, "${")
		if !ok {
			return out
		}
		name, after, ok := strings.Cut(rest, "}")
		if !ok {
			return out
		}
		if !strings.HasPrefix(name, "!") && !slices.Contains(out, name) {
			out = append(out, name)
		}
		text = after
	}
}
