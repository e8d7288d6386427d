package kube

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// staleMessage is what an update of an old version is refused with.
const staleMessage = "the object has been modified; please apply your changes to the latest version and try again"

func (k *kind) notFound(name string) error { return apierrors.NewNotFound(k.resource, name) }

// create stores a new object. obj is the server's own from here on.
func (s *Server) create(k *kind, obj client.Object) (client.Object, error) {
	if err := s.place(k, obj); err != nil {
		return nil, err
	}
	obj.SetUID(s.uid())
	obj.SetCreationTimestamp(s.time())
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetSelfLink("")
	obj.SetManagedFields(nil)
	if obj.GetName() == "" && obj.GetGenerateName() != "" {
		obj.SetName(s.name(obj.GetGenerateName()))
		for k.objects[keyOf(obj)] != nil {
			obj.SetName(s.name(obj.GetGenerateName()))
		}
	}
	if k.rules.create != nil {
		k.rules.create(s, obj)
	}
	obj, errs := s.checkNew(k, obj)
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(k.gvk.GroupKind(), obj.GetName(), errs)
	}
	if obj.GetResourceVersion() != "" {
		return nil, unnamed("resourceVersion should not be set on objects to be created")
	}
	if old := k.objects[keyOf(obj)]; old != nil {
		err := apierrors.NewAlreadyExists(k.resource, obj.GetName())
		if old.GetDeletionTimestamp() != nil {
			err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
		}
		return nil, err
	}
	return s.put(k, obj), nil
}

// place checks the namespace of a new object.
func (s *Server) place(k *kind, obj client.Object) error {
	if !k.namespaced {
		obj.SetNamespace("")
		return nil
	}
	space := s.mustKind(&corev1.Namespace{})
	switch ns, _ := space.objects[types.NamespacedName{Name: obj.GetNamespace()}].(*corev1.Namespace); {
	case obj.GetNamespace() == "":
		return apierrors.NewBadRequest("an empty namespace may not be set during creation")
	case ns == nil:
		return space.notFound(obj.GetNamespace())
	case ns.DeletionTimestamp != nil:
		return apierrors.NewForbidden(k.resource, obj.GetName(), fmt.Errorf("unable to create new content in namespace %s because it is being terminated", ns.Name))
	}
	return nil
}

func pathSegment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

// checkNew validates a new object and returns it as its Go type.
func (s *Server) checkNew(k *kind, obj client.Object) (client.Object, field.ErrorList) {
	path := field.NewPath("metadata")
	common := func(errs field.ErrorList) field.ErrorList {
		if len(errs) > 0 {
			return errs
		}
		return apivalidation.ValidateObjectMetaAccessor(obj, k.namespaced, pathSegment, path)
	}
	if k.custom == nil {
		var errs field.ErrorList
		if k.rules.name != nil {
			errs = apivalidation.ValidateObjectMeta(metaOf(obj), k.namespaced, k.rules.name, path)
		}
		if !k.rules.loose {
			errs = append(errs, checkFinalizers(obj)...)
		}
		if k.rules.check != nil {
			errs = append(errs, k.rules.check(obj)...)
		}
		return obj, common(errs)
	}
	u := obj.(*unstructured.Unstructured)
	if !s.lenient {
		if errs := common(k.custom.checkNew(u)); len(errs) > 0 {
			return obj, errs
		}
	}
	return k.custom.typed(k, u)
}

// checkFinalizers is what Kubernetes' own kinds ask of finalizers besides: a domain, or to be one that is known.
func checkFinalizers(obj client.Object) (errs field.ErrorList) {
	for i, f := range obj.GetFinalizers() {
		path := field.NewPath("metadata", "finalizers").Index(i)
		errs = append(errs, apivalidation.ValidateFinalizerName(f, path)...)
		standard := f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents || f == string(corev1.FinalizerKubernetes)
		if !standard && !strings.Contains(f, "/") {
			errs = append(errs, field.Invalid(path, f, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// metaOf is the metadata of any of our types.
func metaOf(obj client.Object) *metav1.ObjectMeta {
	return part(obj, []int{1}).Addr().Interface().(*metav1.ObjectMeta)
}

// edit makes the new version of an object from the current one, which it leaves as it is.
type edit func(now client.Object) (client.Object, error)

// update stores a new version of an object. uid is what the object must have, if anything.
func (s *Server) update(k *kind, key types.NamespacedName, uid types.UID, status bool, make edit) (client.Object, error) {
	old := k.objects[key]
	switch {
	case old == nil && (!k.rules.createOnUpdate || status):
		return nil, k.notFound(key.Name)
	case old == nil && uid != "":
		return nil, k.precondition(key.Name, "UID", string(uid), "")
	case old == nil:
		obj, err := make(k.new())
		if err != nil {
			return nil, err
		}
		obj.SetResourceVersion("")
		return s.create(k, obj)
	case uid != "" && uid != old.GetUID():
		return nil, k.precondition(key.Name, "UID", string(uid), string(old.GetUID()))
	}
	obj, err := make(old)
	if err != nil {
		return nil, err
	}
	switch version, err := strconv.ParseUint("0"+obj.GetResourceVersion(), 10, 64); {
	case err != nil:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version %q", obj.GetResourceVersion()))
	case version != 0 && obj.GetResourceVersion() != old.GetResourceVersion():
		return nil, apierrors.NewConflict(k.resource, key.Name, errors.New(staleMessage))
	case version == 0 && !k.rules.unconditional:
		gk := schema.GroupKind{Group: k.resource.Group, Kind: k.resource.Resource}
		return nil, apierrors.NewInvalid(gk, key.Name, field.ErrorList{field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update")})
	}
	obj.SetResourceVersion(old.GetResourceVersion())
	var errs field.ErrorList
	if k.custom != nil {
		obj, errs = s.changeCustom(k, obj, old, status)
	} else {
		errs = s.change(k, obj, old, status)
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(k.gvk.GroupKind(), key.Name, errs)
	}
	return s.store(k, obj, old), nil
}

func (k *kind) precondition(name, what, want, got string) error {
	return apierrors.NewConflict(k.resource, name, fmt.Errorf("%s: %s in precondition: %s, %s in object meta: %s", "Precondition failed", what, want, what, got))
}

// change keeps what an update cannot change, and validates.
func (s *Server) change(k *kind, obj, old client.Object, status bool) field.ErrorList {
	obj.SetGeneration(old.GetGeneration())
	switch {
	case status:
		if len(k.spec) > 0 {
			part(obj, k.spec).Set(part(old, k.spec))
		}
		if k.rules.statusMeta {
			keepMeta(obj, old)
		}
		if k.rules.statusUpdate != nil {
			k.rules.statusUpdate(obj, old)
		}
	default:
		if k.rules.status {
			part(obj, k.status).Set(part(old, k.status))
		}
		if k.rules.update != nil {
			k.rules.update(s, obj, old)
		}
	}
	keep(obj, old)
	path := field.NewPath("metadata")
	errs := apivalidation.ValidateObjectMetaAccessor(obj, k.namespaced, pathSegment, path)
	errs = append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(obj, old, path)...)
	if !k.rules.loose {
		errs = append(errs, checkFinalizers(obj)...)
	}
	if status && k.rules.checkStatus != nil {
		errs = append(errs, k.rules.checkStatus(obj, old)...)
	}
	if !status && k.rules.checkChange != nil {
		errs = append(errs, k.rules.checkChange(obj, old)...)
	}
	return errs
}

// keepMeta leaves a write of the status no metadata to change.
func keepMeta(obj, old client.Object) {
	obj.SetLabels(old.GetLabels())
	obj.SetAnnotations(old.GetAnnotations())
	obj.SetFinalizers(old.GetFinalizers())
	obj.SetOwnerReferences(old.GetOwnerReferences())
	obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	obj.SetDeletionTimestamp(old.GetDeletionTimestamp())
}

// keep holds on to what no update changes.
func keep(obj, old client.Object) {
	obj.SetManagedFields(nil)
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
	obj.SetCreationTimestamp(old.GetCreationTimestamp())
	if at := old.GetDeletionTimestamp(); at != nil {
		obj.SetDeletionTimestamp(at)
	}
	if obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
}

// changeCustom is change for our own kinds. obj is JSON, or of its Go type where nothing is to be validated.
func (s *Server) changeCustom(k *kind, obj, old client.Object, status bool) (client.Object, field.ErrorList) {
	obj.SetGeneration(old.GetGeneration())
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		if status {
			now := k.new()
			reflect.ValueOf(now).Elem().Set(reflect.ValueOf(old).Elem())
			part(now, k.status).Set(part(obj, k.status))
			return now, nil
		}
		part(obj, k.status).Set(part(old, k.status))
		keep(obj, old)
		if !equality.Semantic.DeepEqual(part(obj, k.spec).Addr().Interface(), part(old, k.spec).Addr().Interface()) {
			obj.SetGeneration(old.GetGeneration() + 1)
		}
		return obj, apivalidation.ValidateObjectMetaAccessorUpdate(obj, old, field.NewPath("metadata"))
	}
	m, err := stored(k, old)
	if err != nil {
		return nil, field.ErrorList{field.InternalError(nil, err)}
	}
	was := &unstructured.Unstructured{Object: m}
	state, has := u.Object["status"]
	if status {
		u.Object = maps.Clone(was.Object)
	} else {
		state, has = was.Object["status"]
	}
	if delete(u.Object, "status"); has {
		u.Object["status"] = state
	}
	if !status && !same(u.Object, was.Object) {
		u.SetGeneration(old.GetGeneration() + 1)
	}
	keep(u, old)
	var errs field.ErrorList
	if !s.lenient {
		path := field.NewPath("metadata")
		errs = apivalidation.ValidateObjectMetaAccessor(u, k.namespaced, pathSegment, path)
		errs = append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(u, old, path)...)
		errs = append(errs, k.custom.checkChange(u, was, status)...)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return k.custom.typed(k, u)
}

// store keeps the new version of an object, unless it is like the old one, or ends an object that only waited for its finalizers.
func (s *Server) store(k *kind, obj, old client.Object) client.Object {
	if grace := old.GetDeletionGracePeriodSeconds(); len(obj.GetFinalizers()) == 0 && old.GetDeletionTimestamp() != nil && (grace == nil || *grace == 0) {
		s.remove(k, obj)
		return obj
	}
	if equality.Semantic.DeepEqual(obj, old) && (k.raw[obj] == nil || equality.Semantic.DeepEqual(k.raw[obj], k.raw[old])) {
		delete(k.raw, obj)
		return old
	}
	return s.put(k, obj)
}

// delete deletes an object, or marks it as being deleted.
func (s *Server) delete(k *kind, key types.NamespacedName, options metav1.DeleteOptions) (client.Object, error) {
	if errs := validation.ValidateDeleteOptions(&options); len(errs) > 0 {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	old := k.objects[key]
	if old == nil {
		return nil, k.notFound(key.Name)
	}
	if err := k.expected(old, options.Preconditions); err != nil {
		return nil, err
	}
	if options.GracePeriodSeconds != nil && *options.GracePeriodSeconds < 0 {
		options.GracePeriodSeconds = new(int64(1))
	}
	obj := old.DeepCopyObject().(client.Object)
	graceful, pending := false, false
	if k.rules.grace != nil {
		graceful, pending = s.deleteLater(k, obj, &options)
	}
	if pending {
		return old, nil
	}
	obj.SetFinalizers(waiting(obj.GetFinalizers(), &options))
	switch p := options.Preconditions; {
	case !graceful && len(old.GetFinalizers()) > 0 && len(obj.GetFinalizers()) == 0 && p != nil && p.ResourceVersion != nil:
		// kube-apiserver forgets what version it was asked for while it takes the collector's finalizer off.
		return nil, k.precondition(key.Name, "ResourceVersion", "", old.GetResourceVersion())
	case !graceful && len(obj.GetFinalizers()) > 0:
		if obj.GetDeletionTimestamp() == nil && obj.GetGeneration() > 0 {
			obj.SetGeneration(obj.GetGeneration() + 1)
		}
		if now := s.time(); obj.GetDeletionTimestamp() == nil || obj.GetDeletionTimestamp().After(now.Time) {
			obj.SetDeletionTimestamp(&now)
		}
		obj.SetDeletionGracePeriodSeconds(new(int64(0)))
	case graceful && (len(obj.GetFinalizers()) > 0 || *options.GracePeriodSeconds > 0):
	default:
		if graceful {
			obj = s.put(k, obj)
		}
		return s.remove(k, obj), nil
	}
	if equality.Semantic.DeepEqual(obj, old) {
		return old, nil
	}
	return s.put(k, obj), nil
}

// expected holds an object against the preconditions of a deletion.
func (k *kind) expected(obj client.Object, p *metav1.Preconditions) error {
	resource := schema.GroupResource{Group: k.gvk.Group, Resource: k.gvk.Kind}
	switch {
	case p == nil:
	case p.UID != nil && *p.UID != obj.GetUID():
		return apierrors.NewConflict(resource, obj.GetName(), fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, obj.GetUID()))
	case p.ResourceVersion != nil && *p.ResourceVersion != obj.GetResourceVersion():
		return apierrors.NewConflict(resource, obj.GetName(), fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, obj.GetResourceVersion()))
	}
	return nil
}

// deleteLater marks an object of a kind with a grace period as being deleted. pending says that it is already, and for no longer than
// this.
func (s *Server) deleteLater(k *kind, obj client.Object, options *metav1.DeleteOptions) (graceful, pending bool) {
	if since := obj.GetDeletionTimestamp(); since != nil {
		left := obj.GetDeletionGracePeriodSeconds()
		switch asked := options.GracePeriodSeconds; {
		case left == nil || *left == 0:
			return false, false
		case asked == nil || *asked >= *left:
			return false, true
		default:
			period, end, now := *asked, metav1.NewTime(since.Add(time.Duration(*asked-*left)*time.Second)), s.time()
			if end.Before(&now) {
				end = now
				if period != 0 {
					period = 1
				}
			}
			obj.SetDeletionTimestamp(&end)
			obj.SetDeletionGracePeriodSeconds(&period)
			return true, false
		}
	}
	period := k.rules.grace(obj, options.GracePeriodSeconds)
	options.GracePeriodSeconds = &period
	end := metav1.NewTime(s.now().Add(time.Duration(period) * time.Second).Truncate(time.Second).Local())
	obj.SetDeletionTimestamp(&end)
	obj.SetDeletionGracePeriodSeconds(&period)
	if obj.GetGeneration() > 0 {
		obj.SetGeneration(obj.GetGeneration() + 1)
	}
	return true, false
}

// waiting are the finalizers of an object that is deleted by these options: the garbage collector's come and go.
func waiting(finalizers []string, options *metav1.DeleteOptions) []string {
	orphan := slices.Contains(finalizers, metav1.FinalizerOrphanDependents)
	foreground := slices.Contains(finalizers, metav1.FinalizerDeleteDependents)
	switch p := options.PropagationPolicy; {
	case p == nil:
	default:
		orphan, foreground = *p == metav1.DeletePropagationOrphan, *p == metav1.DeletePropagationForeground
	}
	out := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	if orphan {
		out = append(out, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		out = append(out, metav1.FinalizerDeleteDependents)
	}
	switch {
	case len(out) == 0:
		return nil
	case len(out) == len(finalizers) && !slices.ContainsFunc(out, func(f string) bool { return !slices.Contains(finalizers, f) }):
		return finalizers // in their order
	}
	return out
}
