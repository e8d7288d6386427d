package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	awsv1 "karpenter/api/aws/v1"
	awsv1beta1 "karpenter/api/aws/v1beta1"
	karpv1 "karpenter/api/karpenter/v1"
	karpv1beta1 "karpenter/api/karpenter/v1beta1"
)

// goType returns an empty value of the Go type of an object, or nil.
func goType(apiVersion, kind string) any {
	switch apiVersion + " " + kind {
	case coreGroup + "/" + versionV1 + " " + poolKind:
		return &karpv1.NodePool{}
	case coreGroup + "/" + versionV1 + " " + claimKind:
		return &karpv1.NodeClaim{}
	case awsGroup + "/" + versionV1 + " " + nodeClassKind:
		return &awsv1.EC2NodeClass{}
	case coreGroup + "/" + versionBeta + " " + poolKind:
		return &karpv1beta1.NodePool{}
	case coreGroup + "/" + versionBeta + " " + claimKind:
		return &karpv1beta1.NodeClaim{}
	case awsGroup + "/" + versionBeta + " " + nodeClassKind:
		return &awsv1beta1.EC2NodeClass{}
	}
	return nil
}

// Check reports every field that the object's kind does not have, and every value of the wrong type. It knows the Go types, not
// the rules of the schema, which only the API server can judge.
func Check(object map[string]any) error {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	into := goType(apiVersion, kind)
	if into == nil {
		return &FieldError{Field: "apiVersion", Detail: fmt.Sprintf("%s %s is not known", apiVersion, kind)}
	}
	return checker{strict: true}.check(object, reflect.TypeOf(into).Elem(), "")
}

// checker holds decoded JSON against Go types.
type checker struct {
	strict bool // fields that the type does not have are errors
}

func (c checker) check(value any, t reflect.Type, path string) error {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return checkByDecoding(value, t, path)
	}
	wrong := func(want string) error {
		return &FieldError{Field: path, Detail: "must be " + want + ", is " + describe(value)}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return c.check(value, t.Elem(), path)
	case reflect.Struct:
		if tree, ok := value.(map[string]any); ok {
			return c.checkFields(tree, t, path)
		}
		return wrong("an object")
	case reflect.Map:
		tree, ok := value.(map[string]any)
		if !ok {
			return wrong("an object")
		}
		var errs []error
		for _, key := range sortedKeys(tree) {
			errs = append(errs, c.check(tree[key], t.Elem(), fmt.Sprintf("%s[%s]", path, key)))
		}
		return errors.Join(errs...)
	case reflect.Slice:
		list, ok := value.([]any)
		if !ok {
			return wrong("a list")
		}
		var errs []error
		for i, item := range list {
			errs = append(errs, c.check(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i)))
		}
		return errors.Join(errs...)
	case reflect.String:
		if _, ok := value.(string); !ok {
			return wrong("a string")
		}
	case reflect.Bool:
		if _, ok := value.(bool); !ok {
			return wrong("true or false")
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		if n, ok := value.(int64); !ok || reflect.Zero(t).OverflowInt(n) {
			return wrong("a whole number")
		}
	}
	return nil
}

func (c checker) checkFields(tree map[string]any, t reflect.Type, path string) error {
	fields := map[string]reflect.Type{}
	jsonFields(t, fields)
	var errs []error
	for _, key := range sortedKeys(tree) {
		field := (node{path: path}).field(key)
		if of, ok := fields[key]; ok {
			errs = append(errs, c.check(tree[key], of, field))
		} else if c.strict {
			errs = append(errs, &FieldError{Field: field, Detail: "is not a field; known here are " + strings.Join(sortedKeys(fields), ", ")})
		}
	}
	return errors.Join(errs...)
}

// jsonFields collects the types of a struct's fields by JSON name.
func jsonFields(t reflect.Type, into map[string]reflect.Type) {
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && field.Anonymous:
			jsonFields(field.Type, into)
		case name != "" && name != "-":
			into[name] = field.Type
		}
	}
}

// checkByDecoding asks a type that decodes itself.
func checkByDecoding(value any, t reflect.Type, path string) error {
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, reflect.New(t).Interface())
	}
	if err != nil {
		return &FieldError{Field: path, Detail: err.Error()}
	}
	return nil
}
