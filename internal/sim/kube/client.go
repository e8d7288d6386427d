package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Client reads and writes as a user.
func (s *Server) Client(user string) client.Client { return &direct{s: s, user: user} }

// CachedClient is a client that reads from a cache, as a manager's does: objects of Go types from there, all others from the server.
func (s *Server) CachedClient(user string, cache client.Reader) client.Client {
	return &cached{direct: direct{s: s, user: user}, cache: cache}
}

type cached struct {
	direct
	cache client.Reader
}

// Get implements client.Reader.
func (c *cached) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if _, ok := obj.(runtime.Unstructured); ok {
		return c.direct.Get(ctx, key, obj, opts...)
	}
	return c.cache.Get(ctx, key, obj, opts...)
}

// List implements client.Reader.
func (c *cached) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(runtime.Unstructured); ok {
		return c.direct.List(ctx, list, opts...)
	}
	return c.cache.List(ctx, list, opts...)
}

type direct struct {
	s    *Server
	user string
}

var _ client.Client = &direct{}

func (c *direct) op(k *kind, verb string, key types.NamespacedName) *Op {
	if !k.namespaced {
		key.Namespace = ""
	}
	return &Op{User: c.user, Verb: verb, Kind: k.gvk, Key: key}
}

// Get implements client.Reader.
func (c *direct) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	k, err := c.s.kindOf(obj)
	if err != nil {
		return err
	}
	op := c.op(k, "get", key)
	found, err := c.s.do(op, func() (client.Object, error) {
		if found := k.objects[op.Key]; found != nil {
			return found, nil
		}
		return nil, k.notFound(key.Name)
	})
	if err != nil {
		return err
	}
	return give(k, found, obj)
}

// Create implements client.Writer.
func (c *direct) Create(_ context.Context, obj client.Object, opts ...client.CreateOption) error {
	options := (&client.CreateOptions{}).ApplyOptions(opts)
	k, err := c.s.kindOf(obj)
	if err != nil {
		return err
	}
	if err := noDryRun(options.DryRun); err != nil {
		return err
	}
	out, err := c.s.do(c.op(k, "create", keyOf(obj)), func() (client.Object, error) {
		own, err := c.s.take(k, obj)
		if err != nil {
			return nil, err
		}
		return c.s.create(k, own)
	})
	if err != nil {
		return err
	}
	return give(k, out, obj)
}

// Update implements client.Writer.
func (c *direct) Update(_ context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return c.update("", obj, (&client.UpdateOptions{}).ApplyOptions(opts).DryRun)
}

func (c *direct) update(sub string, obj client.Object, dry []string) error {
	k, err := c.s.kindOf(obj)
	if err != nil {
		return err
	}
	if err := noDryRun(dry); err != nil {
		return err
	}
	op := c.op(k, "update", keyOf(obj))
	op.Subresource = sub
	out, err := c.s.do(op, func() (client.Object, error) {
		if err := k.serves(sub); err != nil {
			return nil, err
		}
		own, err := c.s.take(k, obj)
		if err != nil {
			return nil, err
		}
		return c.s.update(k, op.Key, obj.GetUID(), sub == "status", func(client.Object) (client.Object, error) { return own, nil })
	})
	if err != nil {
		return err
	}
	return give(k, out, obj)
}

// Patch implements client.Writer.
func (c *direct) Patch(_ context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return c.patch("", obj, patch, (&client.PatchOptions{}).ApplyOptions(opts).DryRun)
}

func (c *direct) patch(sub string, obj client.Object, patch client.Patch, dry []string) error {
	k, err := c.s.kindOf(obj)
	if err != nil {
		return err
	}
	if err := noDryRun(dry); err != nil {
		return err
	}
	data, err := patch.Data(obj)
	if err != nil {
		return err
	}
	op := c.op(k, "patch", keyOf(obj))
	op.Subresource = sub
	out, err := c.s.do(op, func() (client.Object, error) {
		if err := k.serves(sub); err != nil {
			return nil, err
		}
		if patch.Type() != types.MergePatchType {
			return nil, notServed(fmt.Sprintf("patches of type %s are not simulated: send %s", patch.Type(), types.MergePatchType))
		}
		if k.objects[op.Key] == nil {
			return nil, k.notFound(op.Key.Name)
		}
		return c.s.update(k, op.Key, "", sub == "status", func(now client.Object) (client.Object, error) { return c.s.merged(k, now, data) })
	})
	if err != nil {
		return err
	}
	return give(k, out, obj)
}

// Delete implements client.Writer.
func (c *direct) Delete(_ context.Context, obj client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	k, err := c.s.kindOf(obj)
	if err != nil {
		return err
	}
	if err := noDryRun(options.DryRun); err != nil {
		return err
	}
	op := c.op(k, "delete", keyOf(obj))
	_, err = c.s.do(op, func() (client.Object, error) { return c.s.delete(k, op.Key, *options.AsDeleteOptions()) })
	return err
}

// DeleteAllOf implements client.Writer.
func (c *direct) DeleteAllOf(_ context.Context, obj client.Object, opts ...client.DeleteAllOfOption) error {
	options := (&client.DeleteAllOfOptions{}).ApplyOptions(opts)
	k, err := c.s.kindOf(obj)
	if err != nil {
		return err
	}
	_, err = c.s.do(c.op(k, "deletecollection", types.NamespacedName{Namespace: options.Namespace}), func() (client.Object, error) {
		found, _, err := c.s.list(k, &options.ListOptions)
		for _, x := range found {
			if _, err := c.s.delete(k, keyOf(x), *options.AsDeleteOptions()); client.IgnoreNotFound(err) != nil {
				return nil, err
			}
		}
		return nil, err
	})
	return err
}

// Apply implements client.Writer. Nothing in the product applies.
func (c *direct) Apply(context.Context, runtime.ApplyConfiguration, ...client.ApplyOption) error {
	return notServed("server-side apply is not simulated: create, update or patch")
}

// Status implements client.StatusClient.
func (c *direct) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.SubResourceClientConstructor.
func (c *direct) SubResource(name string) client.SubResourceClient { return &sub{c, name} }

// Scheme implements client.Client.
func (c *direct) Scheme() *runtime.Scheme { return c.s.scheme }

// RESTMapper implements client.Client.
func (c *direct) RESTMapper() meta.RESTMapper { return c.s.RESTMapper() }

// GroupVersionKindFor implements client.Client.
func (c *direct) GroupVersionKindFor(obj runtime.Object) (schema.GroupVersionKind, error) {
	k, err := c.s.kindOf(obj)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return k.gvk, nil
}

// IsObjectNamespaced implements client.Client.
func (c *direct) IsObjectNamespaced(obj runtime.Object) (bool, error) {
	k, err := c.s.kindOf(obj)
	return err == nil && k.namespaced, err
}

// RESTMapper knows the kinds of the scheme.
func (s *Server) RESTMapper() meta.RESTMapper {
	if s.mapper != nil {
		return s.mapper
	}
	mapper := meta.NewDefaultRESTMapper(s.scheme.PreferredVersionAllGroups())
	known := slices.SortedFunc(maps.Keys(s.scheme.AllKnownTypes()), func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.String(), b.String()) })
	for _, gvk := range known {
		k, err := s.kind(gvk)
		if err != nil {
			continue
		}
		scope := meta.RESTScopeRoot
		if k.namespaced {
			scope = meta.RESTScopeNamespace
		}
		mapper.AddSpecific(gvk, gvk.GroupVersion().WithResource(k.resource.Resource), gvk.GroupVersion().WithResource(k.resource.Resource), scope)
	}
	s.mapper = mapper
	return mapper
}

type sub struct {
	c    *direct
	name string
}

// Get implements client.SubResourceReader. Nothing in the product reads a subresource.
func (x *sub) Get(context.Context, client.Object, client.Object, ...client.SubResourceGetOption) error {
	return notServed("reading subresource " + x.name + " is not simulated")
}

// Create implements client.SubResourceWriter: it evicts and binds pods.
func (x *sub) Create(_ context.Context, obj, body client.Object, _ ...client.SubResourceCreateOption) error {
	k, err := x.c.s.kindOf(obj)
	if err != nil {
		return err
	}
	op := x.c.op(k, "create", keyOf(obj))
	op.Subresource = x.name
	_, err = x.c.s.do(op, func() (client.Object, error) {
		switch b := body.(type) {
		case *policyv1.Eviction:
			if x.name == "eviction" && k.gvk == corev1.SchemeGroupVersion.WithKind("Pod") {
				return x.c.s.evict(k, op.Key, b)
			}
		case *corev1.Binding:
			if x.name == "binding" && k.gvk == corev1.SchemeGroupVersion.WithKind("Pod") {
				return x.c.s.bind(k, op.Key, b)
			}
		}
		return nil, notServed(fmt.Sprintf("creating a %T in subresource %s is not simulated", body, x.name))
	})
	return err
}

// Update implements client.SubResourceWriter.
func (x *sub) Update(_ context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	options := (&client.SubResourceUpdateOptions{}).ApplyOptions(opts)
	if options.SubResourceBody != nil {
		return notServed("subresource " + x.name + " with a body is not simulated")
	}
	return x.c.update(x.name, obj, options.DryRun)
}

// Patch implements client.SubResourceWriter.
func (x *sub) Patch(_ context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	options := (&client.SubResourcePatchOptions{}).ApplyOptions(opts)
	if options.SubResourceBody != nil {
		return notServed("subresource " + x.name + " with a body is not simulated")
	}
	return x.c.patch(x.name, obj, patch, options.DryRun)
}

// Apply implements client.SubResourceWriter.
func (x *sub) Apply(ctx context.Context, obj runtime.ApplyConfiguration, _ ...client.SubResourceApplyOption) error {
	return x.c.Apply(ctx, obj)
}

// serves says whether objects of a kind have a subresource.
func (k *kind) serves(sub string) error {
	if sub == "" || sub == "status" && k.rules.status {
		return nil
	}
	return notServed("the server could not find the requested resource")
}

func notServed(message string) error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", message, 0, false)
}

func noDryRun(dry []string) error {
	if len(dry) > 0 {
		return apierrors.NewBadRequest("dry runs are not simulated")
	}
	return nil
}

// take makes the server's own copy of what a client sends, decoded as kube-apiserver does.
func (s *Server) take(k *kind, obj client.Object) (client.Object, error) {
	u, isJSON := obj.(*unstructured.Unstructured)
	switch {
	case k.custom != nil && isJSON:
		data, err := json.Marshal(u.Object)
		if err != nil {
			return nil, err
		}
		var m map[string]any
		if err := utiljson.Unmarshal(data, &m); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return k.decode(m)
	case k.custom != nil:
		own := obj.DeepCopyObject().(client.Object)
		settle(reflect.ValueOf(own), false)
		m, err := asJSON(k, own)
		if err != nil {
			return nil, err
		}
		return k.decode(m)
	case reflect.TypeOf(obj) == reflect.PointerTo(k.object):
		obj = obj.DeepCopyObject().(client.Object)
	case isJSON:
		own := k.new()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, own); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		obj = own
	default:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("a %T cannot be written", obj))
	}
	s.fill(k, obj)
	return obj, nil
}

// fill settles an object of one of Kubernetes' own kinds and gives it its defaults.
func (s *Server) fill(k *kind, obj client.Object) {
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	settle(reflect.ValueOf(obj), k.custom == nil)
	if k.rules.defaults != nil {
		k.rules.defaults(obj)
	}
}

func (k *kind) decode(m map[string]any) (client.Object, error) {
	u, err := k.custom.raw(m)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return u, nil
}

// merged is an object with a merge patch applied.
func (s *Server) merged(k *kind, now client.Object, patch []byte) (client.Object, error) {
	if k.custom == nil || s.lenient {
		obj, err := patched(k, now, patch)
		if err != nil {
			return nil, apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), string(patch), err.Error())})
		}
		if k.rules.defaults != nil {
			k.rules.defaults(obj)
		}
		return obj, nil
	}
	m, err := stored(k, now)
	if err != nil {
		return nil, err
	}
	var p map[string]any
	if err := utiljson.Unmarshal(patch, &p); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	mergeJSON(m, p)
	return k.decode(m)
}

// give copies what the server has into what the caller holds.
func give(k *kind, from client.Object, into runtime.Object) error {
	switch to := into.(type) {
	case *unstructured.Unstructured:
		m, err := asJSON(k, from.DeepCopyObject().(client.Object))
		if err != nil {
			return err
		}
		to.Object = m
	case *metav1.PartialObjectMetadata:
		metaOf(from).DeepCopyInto(&to.ObjectMeta)
		to.SetGroupVersionKind(k.gvk)
	default:
		v := reflect.ValueOf(into)
		if v.Type().Elem() != k.object {
			return fmt.Errorf("a %s cannot be read into a %T", k.gvk.Kind, into)
		}
		v.Elem().Set(reflect.ValueOf(from.DeepCopyObject()).Elem())
	}
	return nil
}
