package convert

import (
	"encoding/json"
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

// Problems are the fields of one object that are wrong.
type Problems []*FieldError

func (p Problems) Error() string {
	texts := make([]string, len(p))
	for i, problem := range p {
		texts[i] = problem.Error()
	}
	return strings.Join(texts, "; ")
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
	c := &checker{strict: true}
	c.check(object, reflect.TypeOf(into).Elem(), "")
	if len(c.problems) > 0 {
		return c.problems
	}
	return nil
}

// checker holds decoded JSON against Go types.
type checker struct {
	strict   bool // fields that the type does not have are problems
	problems Problems
}

func (c *checker) problem(path, detail string) {
	c.problems = append(c.problems, &FieldError{Field: path, Detail: detail})
}

func (c *checker) check(value any, t reflect.Type, path string) {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		if err := decode(value, t); err != nil {
			c.problem(path, err.Error())
		}
		return
	}
	tree, isTree := value.(map[string]any)
	list, isList := value.([]any)
	want := ""
	switch t.Kind() {
	case reflect.Pointer:
		c.check(value, t.Elem(), path)
	case reflect.Struct:
		want = unless(isTree, "an object")
		c.checkFields(tree, t, path)
	case reflect.Map:
		want = unless(isTree, "an object")
		for _, key := range sortedKeys(tree) {
			c.check(tree[key], t.Elem(), fmt.Sprintf("%s[%s]", path, key))
		}
	case reflect.Slice:
		want = unless(isList, "a list")
		for i, item := range list {
			c.check(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.String:
		_, ok := value.(string)
		want = unless(ok, "a string")
	case reflect.Bool:
		_, ok := value.(bool)
		want = unless(ok, "true or false")
	case reflect.Int, reflect.Int32, reflect.Int64:
		n, ok := value.(int64)
		want = unless(ok && !reflect.Zero(t).OverflowInt(n), "a whole number")
	}
	if want != "" {
		c.problem(path, "must be "+want+", is "+describe(value))
	}
}

// unless returns the text if something does not hold.
func unless(holds bool, text string) string {
	if holds {
		return ""
	}
	return text
}

func (c *checker) checkFields(tree map[string]any, t reflect.Type, path string) {
	fields := map[string]reflect.Type{}
	jsonFields(t, fields)
	for _, key := range sortedKeys(tree) {
		field := (node{path: path}).field(key)
		if of, ok := fields[key]; ok {
			c.check(tree[key], of, field)
		} else if c.strict {
			c.problem(field, "is not a field; known here are "+strings.Join(sortedKeys(fields), ", "))
		}
	}
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

// decode asks a type that decodes itself.
func decode(value any, t reflect.Type) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, reflect.New(t).Interface())
}
