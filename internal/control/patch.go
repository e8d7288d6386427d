package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// changes is a merge patch of what has changed in an object since before, for an API server that has it as it was then. Only what differs
// is written as JSON.
type changes struct {
	before, now client.Object
	// members are what differs, as the patch says it. Values may differ and be the same in JSON.
	members map[string]any
	differ  bool
	err     error
}

// newChanges compares two versions of an object.
func newChanges(before, now client.Object) *changes {
	c := &changes{before: before, now: now, members: map[string]any{}}
	c.err = c.compare(c.members, reflect.ValueOf(before).Elem(), reflect.ValueOf(now).Elem())
	return c
}

// Type implements client.Patch.
func (*changes) Type() types.PatchType { return types.MergePatchType }

// Data implements client.Patch.
func (c *changes) Data(obj client.Object) ([]byte, error) {
	version := c.before.GetResourceVersion()
	switch {
	case obj != c.now:
		return newChanges(c.before, obj).Data(obj)
	case c.err != nil:
		return nil, c.err
	case version == "":
		return nil, fmt.Errorf("%T %s was never read", obj, client.ObjectKeyFromObject(obj))
	}
	metadata, ok := c.members["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		c.members["metadata"] = metadata
	}
	metadata["resourceVersion"] = version
	return json.Marshal(c.members)
}

// compare adds to a patch what differs between two structs.
func (c *changes) compare(into map[string]any, was, is reflect.Value) error {
	for _, f := range membersOf(was.Type()) {
		x, y := was.Field(f.index), is.Field(f.index)
		switch {
		case f.inline:
			if err := c.compare(into, x, y); err != nil {
				return err
			}
			continue
		case x.Kind() == reflect.Struct && !ownJSON(x.Type()) && !f.absent(x) && !f.absent(y):
		case same(x, y):
			continue
		default:
			c.differ = true
		}
		if err := c.member(into, f, x, y); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// member adds a field of a struct to a patch, if its JSON differs.
func (c *changes) member(into map[string]any, f member, was, is reflect.Value) error {
	switch t := was.Type(); {
	case f.absent(was) && f.absent(is):
		return nil
	case f.absent(is):
		into[f.name] = nil
		return nil
	case f.absent(was) || ownJSON(t):
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct && !was.IsNil() && !is.IsNil():
		below := map[string]any{}
		if err := c.compare(below, reflect.Indirect(was), reflect.Indirect(is)); err != nil {
			return err
		}
		if len(below) > 0 {
			into[f.name] = below
		}
		return nil
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String && !was.IsNil() && !is.IsNil():
		below, err := compareMaps(was, is)
		if len(below) > 0 {
			into[f.name] = below
		}
		return err
	}
	value, differs, err := compareJSON(was, is, f.absent(was))
	if differs {
		into[f.name] = value
	}
	return err
}

// compareMaps is a patch of what differs between two maps.
func compareMaps(was, is reflect.Value) (map[string]any, error) {
	out := map[string]any{}
	for _, key := range is.MapKeys() {
		x, y := was.MapIndex(key), is.MapIndex(key)
		if x.IsValid() && same(x, y) {
			continue
		}
		value, differs, err := compareJSON(x, y, !x.IsValid())
		if err != nil {
			return nil, err
		}
		if differs {
			out[key.String()] = value
		}
	}
	for _, key := range was.MapKeys() {
		if !is.MapIndex(key).IsValid() {
			out[key.String()] = nil
		}
	}
	return out, nil
}

// compareJSON is a patch of a value, and whether it says anything.
func compareJSON(was, is reflect.Value, added bool) (patch any, differs bool, err error) {
	now, err := json.Marshal(pointed(is))
	if err != nil || added {
		return json.RawMessage(now), true, err
	}
	before, err := json.Marshal(pointed(was))
	switch {
	case err != nil || bytes.Equal(before, now):
		return nil, false, err
	case before[0] != '{' || now[0] != '{':
		return json.RawMessage(now), true, nil
	}
	x, y := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := errors.Join(json.Unmarshal(before, &x), json.Unmarshal(now, &y)); err != nil {
		return nil, false, err
	}
	below, err := compareMaps(reflect.ValueOf(x), reflect.ValueOf(y))
	return below, len(below) > 0, err
}

// same says whether two values mean the same. Those that share their memory do, which is found out at once.
func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.String:
		return a.String() == b.String()
	case reflect.Map, reflect.Pointer:
		if a.Pointer() == b.Pointer() {
			return true
		}
		if a.Type() == labels { // and annotations, of which there are many
			return maps.Equal(a.Interface().(map[string]string), b.Interface().(map[string]string))
		}
	case reflect.Slice:
		if a.Len() == b.Len() && a.Pointer() == b.Pointer() {
			return true
		}
	}
	return equality.Semantic.DeepEqual(pointed(a), pointed(b))
}

// pointed is a value, by a pointer to it if it is part of something: that makes no copy, and finds all its methods.
func pointed(v reflect.Value) any {
	if v.CanAddr() {
		return v.Addr().Interface()
	}
	return v.Interface()
}

// member is a field of a struct as encoding/json sees it.
type member struct {
	name                string
	index               int
	inline              bool
	omitEmpty, omitZero bool
}

// absent says whether a value of the field is left out.
func (m member) absent(v reflect.Value) bool {
	if m.omitZero {
		if z, ok := pointed(v).(interface{ IsZero() bool }); ok && z.IsZero() || !ok && v.IsZero() {
			return true
		}
	}
	if !m.omitEmpty {
		return false
	}
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

var (
	labels   = reflect.TypeFor[map[string]string]()
	marshals = reflect.TypeFor[json.Marshaler]()
	members  sync.Map // of []member, by type
	ownForm  sync.Map // of bool, by type
)

// ownJSON says whether a type has a form of its own in JSON.
func ownJSON(t reflect.Type) bool {
	if known, ok := ownForm.Load(t); ok {
		return known.(bool)
	}
	is := t.Implements(marshals) || reflect.PointerTo(t).Implements(marshals)
	ownForm.Store(t, is)
	return is
}

func membersOf(t reflect.Type) []member {
	if known, ok := members.Load(t); ok {
		return known.([]member)
	}
	var list []member
	for i := range t.NumField() {
		f := t.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" && rest == "" {
			continue
		}
		m := member{name: name, index: i, inline: name == "" && f.Anonymous && f.Type.Kind() == reflect.Struct}
		for _, option := range strings.Split(rest, ",") {
			m.omitEmpty, m.omitZero = m.omitEmpty || option == "omitempty", m.omitZero || option == "omitzero"
		}
		if m.name == "" {
			m.name = f.Name
		}
		list = append(list, m)
	}
	members.Store(t, list)
	return list
}
