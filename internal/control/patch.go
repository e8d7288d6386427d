package control

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// changes is a merge patch of what has changed in an object since before, for an API server that has it as it was then. Only those parts
// of the two that differ are written as JSON and compared.
type changes struct{ before client.Object }

// Type implements client.Patch.
func (changes) Type() types.PatchType { return types.MergePatchType }

// Data implements client.Patch.
func (c changes) Data(obj client.Object) ([]byte, error) {
	was, is := shallow(c.before), shallow(obj)
	dropSame(reflect.ValueOf(was).Elem(), reflect.ValueOf(is).Elem())
	was.SetResourceVersion(c.before.GetResourceVersion())
	is.SetResourceVersion(c.before.GetResourceVersion())
	return locked(was).Data(is)
}

// shallow is a copy that shares all that is not in the object itself.
func shallow(obj client.Object) client.Object {
	v := reflect.ValueOf(obj).Elem()
	out := reflect.New(v.Type())
	out.Elem().Set(v)
	return out.Interface().(client.Object)
}

var metadata = reflect.TypeFor[metav1.ObjectMeta]()

// dropSame empties the fields of two structs that are the same, field by field in metadata.
func dropSame(a, b reflect.Value) {
	for i := range a.NumField() {
		x, y := a.Field(i), b.Field(i)
		switch {
		case x.Type() == metadata:
			dropSame(x, y)
		case equality.Semantic.DeepEqual(x.Addr().Interface(), y.Addr().Interface()):
			x.SetZero()
			y.SetZero()
		}
	}
}
