package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// merge changes a value of a Go type by a JSON merge patch (RFC 7386), and costs what is in the patch, not what is in the value.
// What the value has a pointer to is not copied first: it must be the caller's own.
func merge(v reflect.Value, patch []byte) error {
	switch {
	case isNull(patch):
		v.SetZero()
		return nil
	case patch[0] != '{' || opaque(v.Type()):
		return replace(v, patch)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		return merge(v.Elem(), patch)
	case reflect.Map:
		return mergeMap(v, patch)
	case reflect.Struct:
		var members map[string]json.RawMessage
		if err := json.Unmarshal(patch, &members); err != nil {
			return err
		}
		fields := shapeOf(v.Type()).fields
		for name, member := range members {
			if at, ok := fields[name]; ok {
				if err := merge(v.FieldByIndex(at), bytes.TrimSpace(member)); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
		return nil
	}
	return replace(v, patch)
}

// patched is an object with a merge patch applied. It shares with the old version what the patch leaves alone, so that both can be
// compared in no time.
func patched(k *kind, now client.Object, patch []byte) (client.Object, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(patch, &members); err != nil {
		return nil, err
	}
	obj, fields := k.new(), shapeOf(k.object).fields
	v := reflect.ValueOf(obj).Elem()
	v.Set(reflect.ValueOf(now).Elem())
	for name, member := range members {
		at, ok := fields[name]
		if !ok || len(at) > 1 { // unknown, or the kind
			continue
		}
		f := v.FieldByIndex(at)
		if copied := f.Addr().MethodByName("DeepCopy"); f.Kind() == reflect.Struct && copied.IsValid() {
			f.Set(copied.Call(nil)[0].Elem())
		} else {
			f.Set(reflect.ValueOf(now.DeepCopyObject()).Elem().FieldByIndex(at))
		}
		if err := merge(f, bytes.TrimSpace(member)); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		settleField(f, k.custom == nil, true)
	}
	return obj, nil
}

func mergeMap(v reflect.Value, patch []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(patch, &members); err != nil {
		return err
	}
	if v.IsNil() {
		v.Set(reflect.MakeMapWithSize(v.Type(), len(members)))
	}
	for name, member := range members {
		key := reflect.ValueOf(name).Convert(v.Type().Key())
		if isNull(member) {
			v.SetMapIndex(key, reflect.Value{})
			continue
		}
		value := reflect.New(v.Type().Elem()).Elem()
		if was := v.MapIndex(key); was.IsValid() {
			value.Set(was)
		}
		if err := merge(value, bytes.TrimSpace(member)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		v.SetMapIndex(key, value)
	}
	return nil
}

func isNull(patch []byte) bool { return string(patch) == "null" }

// replace sets a value to what the patch says.
func replace(v reflect.Value, patch []byte) error {
	fresh := reflect.New(v.Type())
	if err := json.Unmarshal(patch, fresh.Interface()); err != nil {
		return err
	}
	v.Set(fresh.Elem())
	return nil
}

// mergeJSON is merge for objects in the form of JSON.
func mergeJSON(to, patch map[string]any) {
	for name, member := range patch {
		switch x := member.(type) {
		case nil:
			delete(to, name)
		case map[string]any:
			below, ok := to[name].(map[string]any)
			if !ok {
				below = map[string]any{}
				to[name] = below
			}
			mergeJSON(below, x)
		default:
			to[name] = member
		}
	}
}

// shape is what has to be known of a type.
type shape struct {
	fields map[string][]int // by their name in JSON
	steps  []step
}

// step is a field that may not come back as it was sent.
type step struct {
	index int
	omit  bool
}

var (
	timeType    = reflect.TypeFor[metav1.Time]()
	microType   = reflect.TypeFor[metav1.MicroTime]()
	marshalType = reflect.TypeFor[json.Marshaler]()
	shapes      sync.Map // of *shape, by type
	opaques     sync.Map // of bool, by type
)

// opaque says whether a type has a form of its own in JSON.
func opaque(t reflect.Type) bool {
	if known, ok := opaques.Load(t); ok {
		return known.(bool)
	}
	is := t.Implements(marshalType) || reflect.PointerTo(t).Implements(marshalType)
	opaques.Store(t, is)
	return is
}

func shapeOf(t reflect.Type) *shape {
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	s := &shape{fields: map[string][]int{}}
	shapes.Store(t, s) // types may hold themselves
	for i := range t.NumField() {
		f := t.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case !f.IsExported() || name == "-":
			continue
		case name == "" && f.Anonymous:
			for below, at := range shapeOf(f.Type).fields {
				s.fields[below] = append([]int{i}, at...)
			}
		case name != "":
			s.fields[name] = f.Index
		}
		if !plain(f.Type, map[reflect.Type]bool{}) {
			s.steps = append(s.steps, step{i, strings.Contains(rest, "omitempty")})
		}
	}
	return s
}

// plain says whether values of a type come back from JSON as they were.
func plain(t reflect.Type, above map[reflect.Type]bool) bool {
	switch {
	case t == timeType || t == microType || t.Kind() == reflect.Map || t.Kind() == reflect.Slice:
		return false
	case above[t] || opaque(t):
		return true
	}
	above[t] = true
	switch t.Kind() {
	case reflect.Pointer:
		return plain(t.Elem(), above)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && !plain(f.Type, above) {
				return false
			}
		}
	}
	return true
}

// settle makes a value what it would be after a journey through JSON: times in whole seconds, nothing empty that can be left out.
// Kubernetes' own kinds are stored in another form, which knows nothing empty at all.
func settle(v reflect.Value, all bool) {
	switch t := v.Type(); {
	case t == timeType:
		if at := v.Addr().Interface().(*metav1.Time); !at.IsZero() {
			at.Time = time.Unix(at.Unix(), 0)
		}
		return
	case t == microType:
		if at := v.Addr().Interface().(*metav1.MicroTime); !at.IsZero() {
			at.Time = time.UnixMicro(at.UnixMicro())
		}
		return
	case opaque(t):
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			settle(v.Elem(), all)
		}
	case reflect.Struct:
		for _, s := range shapeOf(v.Type()).steps {
			settleField(v.Field(s.index), all, s.omit)
		}
	case reflect.Slice:
		if !leaf(v.Type().Elem()) {
			for i := range v.Len() {
				settle(v.Index(i), all)
			}
		}
	case reflect.Map:
		if leaf(v.Type().Elem()) {
			return
		}
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(v.MapIndex(key))
			settle(value, all)
			v.SetMapIndex(key, value)
		}
	}
}

func settleField(f reflect.Value, all, omit bool) {
	if k := f.Kind(); (all || omit) && (k == reflect.Map || k == reflect.Slice) && f.Len() == 0 {
		if !f.IsNil() {
			f.SetZero()
		}
		return
	}
	settle(f, all)
}

// leaf says whether there is nothing to settle in values of a type.
func leaf(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Struct, reflect.Slice, reflect.Map, reflect.Interface:
		return t != timeType && t != microType && opaque(t)
	}
	return true
}
