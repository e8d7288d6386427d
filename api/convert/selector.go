package convert

import (
	"fmt"
	"strings"
)

// maxTerms is how many terms a selector of v1 may have.
const maxTerms = 30

// selectorTerms makes terms of a v1alpha1 selector: a map from tag to value in which some keys are not tags, a value may
// hold several alternatives separated by commas, and everything must match. It returns nil if there is no such selector.
func selectorTerms(spec node, key string, r *report) ([]any, error) {
	if !spec.has(key) {
		return nil, nil
	}
	selector, err := spec.child(key)
	if err != nil {
		return nil, err
	}
	var ids []string
	terms := []map[string]any{{}}
	for _, name := range sortedKeys(selector.tree) {
		values, err := alternatives(selector, name)
		if err != nil {
			return nil, err
		}
		switch name {
		case "aws-ids", "aws::ids":
			ids = append(ids, values...)
		case "aws::name":
			terms = multiply(terms, "name", values)
		case "aws::owners":
			terms = multiply(terms, "owner", values)
		default:
			terms = multiply(terms, "tags."+name, values)
		}
		if len(terms) > maxTerms {
			return nil, &FieldError{Field: selector.path, Detail: fmt.Sprintf("would become more than %d terms; use fewer alternatives, or a tag that all of them have", maxTerms)}
		}
	}
	if len(ids) > 0 {
		if len(terms) > 1 || len(terms[0]) > 0 {
			r.warn("%s: only the ids were kept, a term with an id cannot have other conditions", selector.path)
		}
		terms = nil
		for _, id := range ids {
			terms = append(terms, map[string]any{"id": id})
		}
	}
	out := make([]any, len(terms))
	for i, term := range terms {
		if key == "securityGroupSelector" && term["name"] != nil && term["tags"] != nil {
			delete(term, "tags")
			r.warn("%s: only the name was kept, a term with a name cannot have tags", selector.path)
		}
		out[i] = term
	}
	return out, nil
}

// alternatives returns the comma separated values of a selector's key.
func alternatives(selector node, key string) ([]string, error) {
	text, err := selector.text(key)
	if err != nil {
		return nil, err
	}
	var out []string
	for value := range strings.SplitSeq(text, ",") {
		if value = strings.TrimSpace(value); value != "" {
			out = append(out, value)
		}
	}
	if len(out) == 0 {
		return nil, &FieldError{Field: selector.field(key), Detail: `is empty; use "*" for any value`}
	}
	return out, nil
}

// multiply gives every term each of the values in turn. A field of the form tags.NAME is the tag NAME.
func multiply(terms []map[string]any, field string, values []string) []map[string]any {
	var out []map[string]any
	for _, value := range values {
		for _, term := range terms {
			term = clone(term)
			if tag, ok := strings.CutPrefix(field, "tags."); ok {
				tags, _ := term["tags"].(map[string]any)
				if tags == nil {
					tags = map[string]any{}
				}
				tags[tag], term["tags"] = value, tags
			} else {
				term[field] = value
			}
			out = append(out, term)
		}
		if len(out) > maxTerms {
			return out
		}
	}
	return out
}
