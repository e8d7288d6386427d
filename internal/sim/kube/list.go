package kube

import (
	"context"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// List implements client.Reader.
func (c *direct) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	k, err := c.s.kindOf(list)
	if err != nil {
		return err
	}
	var found []client.Object
	var next string
	_, err = c.s.do(c.op(k, "list", types.NamespacedName{Namespace: options.Namespace}), func() (_ client.Object, err error) {
		found, next, err = c.s.list(k, options)
		return nil, err
	})
	if err != nil {
		return err
	}
	list.SetResourceVersion(c.s.Version())
	list.SetContinue(next)
	return giveList(k, found, list, true)
}

// list is what there is of a kind, and where to go on if there is more.
func (s *Server) list(k *kind, options *client.ListOptions) (found []client.Object, next string, err error) {
	if err := k.selectable(options.FieldSelector); err != nil {
		return nil, "", err
	}
	match := matcher(k, options.LabelSelector, options.FieldSelector)
	for _, key := range k.keys {
		if k.namespaced && options.Namespace != "" && key.Namespace != options.Namespace || options.Continue != "" && key.String() <= options.Continue {
			continue
		}
		obj := k.objects[key]
		if !match(obj) {
			continue
		}
		if options.Limit > 0 && int64(len(found)) == options.Limit {
			return found, keyOf(found[len(found)-1]).String(), nil
		}
		found = append(found, obj)
	}
	return found, "", nil
}

// selectable refuses fields that kube-apiserver does not select by.
func (k *kind) selectable(selector fields.Selector) error {
	if selector == nil {
		return nil
	}
	known := k.fieldsOf(k.new())
	for _, r := range selector.Requirements() {
		if _, ok := known[r.Field]; !ok {
			return apierrors.NewBadRequest("field label not supported: " + r.Field)
		}
	}
	return nil
}

func (k *kind) fieldsOf(obj client.Object) fields.Set {
	switch {
	case k.rules.fields != nil:
		return k.rules.fields(obj)
	case k.namespaced:
		return fields.Set{"metadata.name": obj.GetName(), "metadata.namespace": obj.GetNamespace()}
	}
	return fields.Set{"metadata.name": obj.GetName()}
}

func matcher(k *kind, byLabel labels.Selector, byField fields.Selector) func(client.Object) bool {
	if byLabel != nil && byLabel.Empty() {
		byLabel = nil
	}
	if byField != nil && byField.Empty() {
		byField = nil
	}
	return func(obj client.Object) bool {
		return (byLabel == nil || byLabel.Matches(labels.Set(obj.GetLabels()))) && (byField == nil || byField.Matches(k.fieldsOf(obj)))
	}
}

// giveList fills a list. Unless it is to be deep, its items share everything but themselves with what the server or a cache holds.
func giveList(k *kind, found []client.Object, list client.ObjectList, deep bool) error {
	switch to := list.(type) {
	case *unstructured.UnstructuredList:
		to.Items = make([]unstructured.Unstructured, len(found))
		for i, obj := range found {
			if err := give(k, obj, &to.Items[i]); err != nil {
				return err
			}
		}
		return nil
	case *metav1.PartialObjectMetadataList:
		to.Items = make([]metav1.PartialObjectMetadata, len(found))
		for i, obj := range found {
			if err := give(k, obj, &to.Items[i]); err != nil {
				return err
			}
		}
		return nil
	}
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	out := reflect.MakeSlice(items.Type(), len(found), len(found))
	for i, obj := range found {
		if deep {
			obj = obj.DeepCopyObject().(client.Object)
		}
		out.Index(i).Set(reflect.ValueOf(obj).Elem())
	}
	items.Set(out)
	return nil
}

