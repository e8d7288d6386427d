package kube

import (
	"context"
	"maps"
	"math"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/operation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/api/crds"
)

// definition is a kind of ours as kube-apiserver reads it from its CRD.
type definition struct {
	gvk                 schema.GroupVersionKind
	plural              string
	namespaced, status  bool
	schema              *structural.Structural
	whole, statusSchema validation.SchemaValidator
	scale               []string // paths of the numbers that the scale subresource is about
	// rules compiles the CEL rules, which takes a while.
	rules func() *cel.Validator
}

// definitions are our CRDs, read once.
var definitions = sync.OnceValue(func() map[schema.GroupVersionKind]*definition {
	out := map[schema.GroupVersionKind]*definition{}
	for _, crd := range crds.Objects() {
		for i := range crd.Spec.Versions {
			d, err := newDefinition(crd, &crd.Spec.Versions[i])
			if err != nil {
				panic("reading the CRD of " + crd.Name + ": " + err.Error())
			}
			out[d.gvk] = d
		}
	}
	return out
})

func newDefinition(crd *apiextensionsv1.CustomResourceDefinition, v *apiextensionsv1.CustomResourceDefinitionVersion) (*definition, error) {
	d := &definition{
		gvk:    schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind},
		plural: crd.Spec.Names.Plural, namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped,
		status: v.Subresources != nil && v.Subresources.Status != nil,
	}
	if v.Subresources != nil && v.Subresources.Scale != nil {
		d.scale = []string{v.Subresources.Scale.SpecReplicasPath, v.Subresources.Scale.StatusReplicasPath}
	}
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, props, nil); err != nil {
		return nil, err
	}
	var err error
	if d.schema, err = structural.NewStructural(props); err != nil {
		return nil, err
	}
	if err := defaulting.PruneDefaults(d.schema); err != nil {
		return nil, err
	}
	if d.whole, _, err = validation.NewSchemaValidator(props); err != nil {
		return nil, err
	}
	state := props.Properties["status"]
	if d.statusSchema, _, err = validation.NewSchemaValidator(&state); err != nil {
		return nil, err
	}
	d.rules = sync.OnceValue(func() *cel.Validator { return cel.NewValidator(d.schema, true, celconfig.PerCallLimit) })
	return d, nil
}

// raw is the object as kube-apiserver decodes it: unknown fields dropped, defaults filled in. content is changed.
func (d *definition) raw(content map[string]any) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: content}
	m, found, err := objectmeta.GetObjectMeta(content, false)
	if err != nil {
		return nil, err
	}
	pruning.Prune(content, d.schema, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(content, d.schema)
	if err := objectmeta.Coerce(nil, content, d.schema, false, false); err != nil {
		return nil, err
	}
	u.SetGroupVersionKind(d.gvk)
	if found {
		if err := objectmeta.SetObjectMeta(content, m); err != nil {
			return nil, err
		}
	}
	defaulting.Default(content, d.schema)
	return u, nil
}

// typed is the object as its Go type.
func (d *definition) typed(k *kind, u *unstructured.Unstructured) (client.Object, field.ErrorList) {
	obj := k.new()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
		return u, field.ErrorList{field.Invalid(nil, nil, err.Error())}
	}
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	k.raw[obj] = withoutMeta(u.Object)
	return obj, nil
}

// asJSON is an object of ours in the form of JSON.
func asJSON(k *kind, obj client.Object) (map[string]any, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object, nil
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	m["apiVersion"], m["kind"] = k.gvk.GroupVersion().String(), k.gvk.Kind
	return m, nil
}

// stored is an object of ours as kube-apiserver holds it, where nothing is null.
func stored(k *kind, obj client.Object) (map[string]any, error) {
	if raw, ok := k.raw[obj]; ok {
		m := runtime.DeepCopyJSON(raw)
		meta, err := runtime.DefaultUnstructuredConverter.ToUnstructured(metaOf(obj))
		m["metadata"] = meta
		return m, err
	}
	m, err := asJSON(k, obj)
	if err != nil {
		return nil, err
	}
	dropNulls(m)
	if state, ok := m["status"].(map[string]any); ok && len(state) == 0 {
		delete(m, "status")
	}
	return m, nil
}

func dropNulls(x any) {
	switch x := x.(type) {
	case map[string]any:
		for key, v := range x {
			if v == nil {
				delete(x, key)
			} else {
				dropNulls(v)
			}
		}
	case []any:
		for _, v := range x {
			dropNulls(v)
		}
	}
}

// checkNew validates a new object.
func (d *definition) checkNew(u *unstructured.Unstructured) field.ErrorList {
	errs := d.checkMeta(operation.Create, u, nil)
	errs = append(errs, validation.ValidateCustomResource(nil, u.Object, d.whole)...)
	errs = append(errs, d.checkScale(u, false)...)
	errs = append(errs, objectmeta.Validate(context.TODO(), nil, u.Object, d.schema, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.schema, u.Object)...)
	if blocked(errs) {
		return append(errs, field.Invalid(nil, nil, notChecked))
	}
	more, _ := d.rules().Validate(context.TODO(), nil, d.schema, u.Object, nil, celconfig.RuntimeCELCostBudget)
	return append(errs, more...)
}

// checkChange validates a new version of an object, by its old one.
func (d *definition) checkChange(u, old *unstructured.Unstructured, status bool) field.ErrorList {
	related := common.NewCorrelatedObject(u.Object, old.Object, &model.Structural{Structural: d.schema})
	errs := d.checkMeta(operation.Update, u, old)
	if status {
		if state, ok := u.Object["status"]; ok {
			errs = append(errs, validation.ValidateCustomResourceUpdate(field.NewPath("status"), state, old.Object["status"], d.statusSchema, validation.WithRatcheting(related.Key("status")))...)
		}
	} else {
		errs = append(errs, validation.ValidateCustomResourceUpdate(nil, u.Object, old.Object, d.whole, validation.WithRatcheting(related))...)
		errs = append(errs, objectmeta.Validate(context.TODO(), nil, u.Object, d.schema, false)...)
	}
	errs = append(errs, d.checkScale(u, status)...)
	if len(listtype.ValidateListSetsAndMaps(nil, d.schema, old.Object)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, d.schema, u.Object)...)
	}
	if blocked(errs) {
		return append(errs, field.Invalid(nil, nil, notChecked))
	}
	more, _ := d.rules().Validate(context.TODO(), nil, d.schema, u.Object, old.Object, celconfig.RuntimeCELCostBudget, cel.WithRatcheting(related))
	return append(errs, more...)
}

func (d *definition) checkMeta(op operation.Type, u, old *unstructured.Unstructured) field.ErrorList {
	path := field.NewPath("metadata")
	is, _, err := objectmeta.GetObjectMeta(u.Object, false)
	if err != nil {
		return field.ErrorList{field.Invalid(path, nil, err.Error())}
	}
	var was *metav1.ObjectMeta
	if old != nil {
		if was, _, err = objectmeta.GetObjectMeta(old.Object, false); err != nil {
			return field.ErrorList{field.Invalid(path, nil, err.Error())}
		}
	}
	return apivalidation.ValidateObjectMetaDeclaratively(context.TODO(), op, is, was, d.namespaced, apivalidation.NameIsDNSSubdomain, path, true)
}

// checkScale looks at the numbers of the scale subresource, at that of the status alone if only that can have changed.
func (d *definition) checkScale(u *unstructured.Unstructured, status bool) (errs field.ErrorList) {
	for i, path := range d.scale {
		if status && i == 0 {
			continue
		}
		n, _, err := unstructured.NestedInt64(u.Object, strings.Split(strings.TrimPrefix(path, "."), ".")...)
		switch at := field.NewPath(path); {
		case err != nil:
			errs = append(errs, field.Invalid(at, n, err.Error()))
		case n < 0 || n > math.MaxInt32:
			errs = append(errs, field.Invalid(at, n, "should be a non-negative integer of 32 bits"))
		}
	}
	return errs
}

// notChecked is what kube-apiserver says when it has left rules out.
const notChecked = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"

// blocked says whether an object is too wrong for rules to be tried on it.
func blocked(errs field.ErrorList) bool {
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return true
		}
	}
	return false
}

func withoutMeta(m map[string]any) map[string]any {
	out := maps.Clone(m)
	delete(out, "metadata")
	return out
}

// same says whether two objects of ours differ in nothing but metadata.
func same(a, b map[string]any) bool {
	return equality.Semantic.DeepEqual(withoutMeta(a), withoutMeta(b))
}
