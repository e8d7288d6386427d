package convert

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
)

// move is a field that v1 has in another place than v1beta1.
type move struct{ from, to []string }

// classRefMove and kubeletMove are those of a claim's fields, wherever these are.
func classRefMove(claim ...string) move {
	return move{slices.Concat(claim, []string{"nodeClassRef", "apiVersion"}), slices.Concat(claim, []string{"nodeClassRef", "group"})}
}

func kubeletMove(claim ...string) move {
	return move{slices.Concat(claim, []string{"kubelet"}), []string{"metadata", "annotations", KubeletAnnotation}}
}

// moves are the fields whose owner in v1beta1 owns another field in v1. A move counts only where the v1 object has nothing in the
// old place: amiFamily is a field of v1 too, where the image is not found by an alias.
var moves = map[string][]move{
	poolKind: {
		{[]string{"spec", "disruption", "expireAfter"}, []string{"spec", "template", "spec", "expireAfter"}},
		{[]string{"spec", "template", "spec", "weight"}, []string{"spec", "weight"}},
		classRefMove("spec", "template", "spec"),
		kubeletMove("spec", "template", "spec"),
	},
	claimKind:     {classRefMove("spec"), kubeletMove("spec")},
	nodeClassKind: {{[]string{"spec", "amiFamily"}, []string{"spec", "amiSelectorTerms"}}},
}

// Owners returns the metadata.managedFields of a v1 object with every entry of v1beta1 turned into one of v1, and whether there was any.
//
// To merge a server-side apply, the API server converts an object to each version in which somebody is on record as the owner of a
// field. After a single write in v1beta1 it would need the conversion webhook for that ever after, also for a client that
// knows only v1. So the record is moved: each owner keeps the fields that he had, in the place that v1 has for them. What is no
// field of the object any more is owned by nobody.
func Owners(object map[string]any) (entries []any, changed bool) {
	metadata, _ := object["metadata"].(map[string]any)
	old, _ := metadata["managedFields"].([]any)
	for _, value := range old {
		entry, _ := value.(map[string]any)
		apiVersion, _ := entry["apiVersion"].(string)
		group, version, _ := strings.Cut(apiVersion, "/")
		if fields, ok := entry["fieldsV1"].(map[string]any); ok && version == versionBeta {
			changed = true
			fields = moved(object, clone(fields))
			if len(fields) == 0 {
				continue
			}
			entry = clone(entry)
			entry["apiVersion"], entry["fieldsV1"] = group+"/"+versionV1, fields
			value = entry
		}
		entries = addOwner(entries, value)
	}
	return entries, changed
}

// addOwner adds an entry, or puts it together with one of the same owner, whom the API server expects only once.
func addOwner(entries []any, added any) []any {
	entry, _ := added.(map[string]any)
	fields, ok := entry["fieldsV1"].(map[string]any)
	for i, other := range entries {
		known, _ := other.(map[string]any)
		before, ok2 := known["fieldsV1"].(map[string]any)
		if !ok || !ok2 || !sameOwner(known, entry) {
			continue
		}
		both := clone(known)
		both["fieldsV1"] = union(before, fields)
		if later, _ := entry["time"].(string); fmt.Sprint(known["time"]) < later {
			both["time"] = later
		}
		entries[i] = both
		return entries
	}
	return append(entries, added)
}

func sameOwner(a, b map[string]any) bool {
	for _, key := range []string{"manager", "operation", "apiVersion", "subresource"} {
		if !equal(a[key], b[key]) {
			return false
		}
	}
	return true
}

// moved translates a set of fields of v1beta1.
func moved(object, fields map[string]any) map[string]any {
	kind, _ := object["kind"].(string)
	for _, m := range moves[kind] {
		if !holds(object, m.from) && cutField(fields, m.from) {
			addField(fields, m.to)
		}
	}
	return present(fields, object)
}

// The set of fields is written as a tree. A key f:name is a field, k:{…} an item of a list by its keys, v:… an item by its value, i:n
// by its place; the key "." says that the thing itself belongs to the set, and so does an empty tree.
const self = "."

// holds reports whether an object has a value at a path.
func holds(object map[string]any, path []string) bool { return valueAt(object, path) != nil }

func valueAt(object map[string]any, path []string) any {
	var at any = object
	for _, step := range path {
		tree, _ := at.(map[string]any)
		at = tree[step]
	}
	return at
}

// cutField takes a field with all that is in it out of a set, and reports whether it was there.
func cutField(fields map[string]any, path []string) bool {
	key := "f:" + path[0]
	inner, ok := fields[key].(map[string]any)
	if !ok {
		return false
	}
	if len(path) > 1 && !cutField(inner, path[1:]) {
		return false
	}
	if len(path) == 1 || len(inner) == 0 { // an empty tree would stand for the parent itself
		delete(fields, key)
	}
	return true
}

func addField(fields map[string]any, path []string) {
	key := "f:" + path[0]
	inner, ok := fields[key].(map[string]any)
	if !ok {
		inner = map[string]any{}
		fields[key] = inner
	} else if len(inner) == 0 && len(path) > 1 {
		inner[self] = map[string]any{}
	}
	if len(path) > 1 {
		addField(inner, path[1:])
	}
}

// present is the part of a set that a value has.
func present(fields map[string]any, value any) map[string]any {
	out := map[string]any{}
	for key, sub := range fields {
		inner, ok := sub.(map[string]any)
		if !ok {
			continue
		}
		if key == self {
			out[key] = inner
			continue
		}
		item, ok := itemAt(value, key)
		if !ok {
			continue
		}
		if len(inner) == 0 {
			out[key] = inner
		} else if kept := present(inner, item); len(kept) > 0 {
			out[key] = kept
		}
	}
	return out
}

// itemAt is what a key of a set means in a value.
func itemAt(value any, key string) (any, bool) {
	kind, rest, _ := strings.Cut(key, ":")
	if kind == "f" {
		tree, _ := value.(map[string]any)
		item, ok := tree[rest]
		return item, ok
	}
	list, _ := value.([]any)
	if kind == "i" {
		n, err := strconv.Atoi(rest)
		if err != nil || n < 0 || n >= len(list) {
			return nil, false
		}
		return list[n], true
	}
	var want any
	if json.Unmarshal([]byte(rest), &want) != nil {
		return nil, false
	}
	for _, item := range list {
		if kind == "v" && equal(item, want) || kind == "k" && hasKeys(item, want) {
			return item, true
		}
	}
	return nil, false
}

// hasKeys reports whether a list's item has the values of its keys.
func hasKeys(item, keys any) bool {
	tree, ok := item.(map[string]any)
	want, ok2 := keys.(map[string]any)
	if !ok || !ok2 {
		return false
	}
	for key, value := range want {
		if !equal(tree[key], value) {
			return false
		}
	}
	return true
}

// union puts two sets together. Where one of them is empty, it stands for the thing itself.
func union(a, b map[string]any) map[string]any {
	out := map[string]any{}
	if (len(a) == 0) != (len(b) == 0) {
		out[self] = map[string]any{}
	}
	for _, set := range []map[string]any{a, b} {
		for key, value := range set {
			x, ok := out[key].(map[string]any)
			if y, ok2 := value.(map[string]any); ok && ok2 {
				value = union(x, y)
			}
			out[key] = value
		}
	}
	return out
}
