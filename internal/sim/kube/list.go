package kube

import (
	"context"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
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
	if err := giveList(k, found, list, true); err != nil || k.custom == nil {
		return err
	}
	return named(k, list) // what comes as JSON, item by item, has its kind
}

// list is what there is of a kind, and where to go on if there is more.
func (s *Server) list(k *kind, options *client.ListOptions) (found []client.Object, next string, err error) {
	match, err := k.matcher(options.LabelSelector, options.FieldSelector)
	if err != nil {
		return nil, "", err
	}
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

// matcher tells what is selected. Fields that kube-apiserver does not select by are refused.
func (k *kind) matcher(byLabel labels.Selector, byField fields.Selector) (func(client.Object) bool, error) {
	if byLabel != nil && byLabel.Empty() {
		byLabel = nil
	}
	var requirements fields.Requirements
	if byField != nil {
		requirements = byField.Requirements()
	}
	getters := make([]func(client.Object) string, len(requirements))
	for i, r := range requirements {
		switch {
		case r.Field == "metadata.name":
			getters[i] = client.Object.GetName
		case r.Field == "metadata.namespace" && k.namespaced:
			getters[i] = client.Object.GetNamespace
		case k.rules.fields[r.Field] != nil:
			getters[i] = k.rules.fields[r.Field]
		default:
			return nil, apierrors.NewBadRequest("field label not supported: " + r.Field)
		}
	}
	return func(obj client.Object) bool {
		for i, r := range requirements {
			if (getters[i](obj) == r.Value) == (r.Operator == selection.NotEquals) {
				return false
			}
		}
		return byLabel == nil || byLabel.Matches(labels.Set(obj.GetLabels()))
	}, nil
}

// named tells each item of a list its kind.
func named(k *kind, list client.ObjectList) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		item.GetObjectKind().SetGroupVersionKind(k.gvk)
		return nil
	})
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
