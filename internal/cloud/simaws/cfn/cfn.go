// Package cfn reads CloudFormation templates: it finds parameters and
// resources, orders resources by what they refer to, and evaluates the
// intrinsic functions of their properties. It is pure; whoever makes the
// resources tells it their names and attributes.
package cfn

import (
	"fmt"
	"slices"
	"strings"

	"karpenter/internal/cloud/simaws/yaml"
)

// Template is a parsed template.
type Template struct {
	Description string
	Parameters  []Parameter
	// Resources are in the order they can be made.
	Resources []Resource

	conditions, mappings, outputs *yaml.Node
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
	Properties            *yaml.Node
}

// Parse reads a template in YAML or JSON.
func Parse(text string) (*Template, error) {
	docs, err := yaml.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("template format error: %w", err)
	}
	if len(docs) != 1 || docs[0].Kind != yaml.Mapping {
		return nil, fmt.Errorf("template format error: unsupported structure")
	}
	root := docs[0]
	t := &Template{
		Description: root.Get("Description").String(), conditions: root.Get("Conditions"),
		mappings: root.Get("Mappings"), outputs: root.Get("Outputs"),
	}
	if ps := root.Get("Parameters"); ps != nil {
		for _, f := range ps.Fields {
			p := Parameter{Name: f.Key, Type: f.Value.Get("Type").String(), Description: f.Value.Get("Description").String()}
			if d := f.Value.Get("Default"); d != nil {
				p.Default, p.HasDefault = d.String(), true
			}
			if a := f.Value.Get("AllowedValues"); a != nil {
				for _, v := range a.Items {
					p.Allowed = append(p.Allowed, v.String())
				}
			}
			t.Parameters = append(t.Parameters, p)
		}
	}
	rs := root.Get("Resources")
	if rs == nil || len(rs.Fields) == 0 {
		return nil, fmt.Errorf("template format error: at least one Resources member must be defined")
	}
	return t, t.order(rs)
}

// order sorts the resources so that each comes after what it refers to; apart
// from that they keep the order of the template.
func (t *Template) order(rs *yaml.Node) error {
	needs := map[string][]string{}
	for _, f := range rs.Fields {
		if f.Value.Get("Type").String() == "" {
			return fmt.Errorf("template format error: resource %s has no Type", f.Key)
		}
		refs := references(f.Value.Get("Properties"), nil)
		if d := f.Value.Get("DependsOn"); d != nil {
			refs = append(refs, d.String())
			for _, i := range d.Items {
				refs = append(refs, i.String())
			}
		}
		needs[f.Key] = refs
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
		v := rs.Get(name)
		t.Resources = append(t.Resources, Resource{name, v.Get("Type").String(), v.Get("Condition").String(), v.Get("Properties")})
		return nil
	}
	for _, f := range rs.Fields {
		if err := visit(f.Key); err != nil {
			return err
		}
	}
	return nil
}

// references lists the names that a value refers to.
func references(n *yaml.Node, out []string) []string {
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
		if arg.Kind == yaml.Sequence && len(arg.Items) > 0 {
			text = arg.Items[0].String()
		}
		for _, v := range variables(text) {
			head, _, _ := strings.Cut(v, ".")
			out = append(out, head)
		}
	}
	for _, f := range n.Fields {
		out = references(f.Value, out)
	}
	for _, i := range n.Items {
		out = references(i, out)
	}
	return out
}

// function recognises an intrinsic function in its short (!Sub) and long
// ({"Fn::Sub": …}) form.
func function(n *yaml.Node) (name string, arg *yaml.Node) {
	if n.Tag != "" {
		plain := *n
		plain.Tag = ""
		return n.Tag, &plain
	}
	if n.Kind == yaml.Mapping && len(n.Fields) == 1 {
		key := n.Fields[0].Key
		if key == "Ref" || key == "Condition" {
			return key, n.Fields[0].Value
		}
		if short, ok := strings.CutPrefix(key, "Fn::"); ok {
			return short, n.Fields[0].Value
		}
	}
	return "", nil
}

// attribute splits the argument of GetAtt.
func attribute(n *yaml.Node) (resource, attr string) {
	if n.Kind == yaml.Sequence && len(n.Items) == 2 {
		return n.Items[0].String(), n.Items[1].String()
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
