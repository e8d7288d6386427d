package control

import (
	"context"
	"reflect"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// sweepEvery is how often objects are forgotten that were written longer ago than that and that the cache has caught up with.
const sweepEvery = time.Minute

// fresh is a client on top of a cache that sees its own writes. A cache shows them only when the watch has brought them back,
// which takes a busy API server a while, minutes if it must; whoever decides and writes on older versions until then is refused each
// time, and makes it busier. Worse, what has been given to somebody looks free again: so nothing that was written is ever shown as
// it was before, however late the watch is. What a write was refused for is read from the API server itself, so that the next
// attempt can succeed.
type fresh struct {
	client.Client
	live client.Reader
	now  func() time.Time

	mu    sync.Mutex
	known map[reflect.Type]map[client.ObjectKey]written
	// read has the kinds that are read; of others there may be no cache.
	read  map[reflect.Type]bool
	swept time.Time
}

// written is an object as the API server has it after a write.
type written struct {
	obj     client.Object
	version uint64
	at      time.Time
}

// NewFresh makes a client that reads its own writes. c reads from a cache, live from the API server.
func NewFresh(c client.Client, live client.Reader, now func() time.Time) client.Client {
	return &fresh{Client: c, live: live, now: now, known: map[reflect.Type]map[client.ObjectKey]written{}, read: map[reflect.Type]bool{}}
}

// Get implements client.Client.
func (f *fresh) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := f.Client.Get(ctx, key, obj, opts...); err != nil {
		if apierrors.IsNotFound(err) {
			f.forget(obj, key)
		}
		return err
	}
	f.renew(obj, shared(new(client.GetOptions).ApplyOptions(opts).UnsafeDisableDeepCopy))
	return nil
}

// shared says whether a reader has promised to change nothing.
func shared(option *bool) bool { return option != nil && *option }

// List implements client.Client. Which objects are listed is up to the cache; each is as new as is known.
func (f *fresh) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := f.Client.List(ctx, list, opts...); err != nil {
		return err
	}
	if items, ok := reflect.TypeOf(list).Elem().FieldByName("Items"); !ok || !f.knows(ctx, reflect.PointerTo(items.Type.Elem())) {
		return nil
	}
	whole := shared(new(client.ListOptions).ApplyOptions(opts).UnsafeDisableDeepCopy)
	return meta.EachListItem(list, func(item runtime.Object) error {
		if obj, ok := item.(client.Object); ok {
			f.renew(obj, whole)
		}
		return nil
	})
}

// Update implements client.Client.
func (f *fresh) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	return f.wrote(ctx, obj, f.Client.Update(ctx, obj, opts...))
}

// Patch implements client.Client.
func (f *fresh) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return f.wrote(ctx, obj, f.Client.Patch(ctx, obj, patch, opts...))
}

// Delete implements client.Client. What has finalizers stays for a while; it is seen as being deleted from then on, also if the answer
// got lost. Pods are not read again: a drain deletes thousands, and remembers them itself.
func (f *fresh) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	err := f.Client.Delete(ctx, obj, opts...)
	if _, pod := obj.(*corev1.Pod); !pod && len(obj.GetFinalizers()) > 0 && !apierrors.IsNotFound(err) {
		f.readAgain(ctx, obj)
	}
	return err
}

// Status implements client.Client.
func (f *fresh) Status() client.SubResourceWriter { return &freshStatus{f.Client.Status(), f} }

type freshStatus struct {
	client.SubResourceWriter
	of *fresh
}

// Update implements client.SubResourceWriter.
func (s *freshStatus) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	return s.of.wrote(ctx, obj, s.SubResourceWriter.Update(ctx, obj, opts...))
}

// Patch implements client.SubResourceWriter.
func (s *freshStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.of.wrote(ctx, obj, s.SubResourceWriter.Patch(ctx, obj, patch, opts...))
}

// wrote remembers what came of a write, and passes its error on.
func (f *fresh) wrote(ctx context.Context, obj client.Object, err error) error {
	switch {
	case err == nil:
		f.remember(ctx, obj.DeepCopyObject().(client.Object))
	case apierrors.IsConflict(err):
		f.readAgain(ctx, obj)
	}
	return err
}

// readAgain remembers what the API server has of an object.
func (f *fresh) readAgain(ctx context.Context, obj client.Object) {
	now := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	if f.live.Get(ctx, client.ObjectKeyFromObject(obj), now) == nil {
		f.remember(ctx, now)
	}
}

// knows says whether anything of a kind is remembered.
func (f *fresh) knows(ctx context.Context, kind reflect.Type) bool {
	f.sweep(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read[kind] = true
	return len(f.known[kind]) > 0
}

func (f *fresh) remember(ctx context.Context, obj client.Object) {
	version, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return
	}
	f.sweep(ctx)
	obj.SetManagedFields(nil) // nobody reads them, as with the cache
	kind, key := reflect.TypeOf(obj), client.ObjectKeyFromObject(obj)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known[kind] == nil {
		f.known[kind] = map[client.ObjectKey]written{}
	}
	if f.known[kind][key].version < version {
		f.known[kind][key] = written{obj, version, f.now()}
	}
}

// sweep forgets, now and then, what the cache shows too. What is read again is forgotten on the way; this is for the rest.
func (f *fresh) sweep(ctx context.Context) {
	for _, old := range f.due() {
		kind, key := reflect.TypeOf(old.obj), client.ObjectKeyFromObject(old.obj)
		if f.behind(ctx, kind, key, old) {
			continue
		}
		f.mu.Lock()
		if f.known[kind][key].version == old.version {
			delete(f.known[kind], key)
		}
		f.mu.Unlock()
	}
}

// due is what was written a while ago, if it is time to look.
func (f *fresh) due() (list []written) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if now.Sub(f.swept) < sweepEvery {
		return nil
	}
	f.swept = now
	for _, objects := range f.known {
		for _, w := range objects {
			if now.Sub(w.at) > sweepEvery {
				list = append(list, w)
			}
		}
	}
	return list
}

// behind says whether the cache still shows what was there before a write.
func (f *fresh) behind(ctx context.Context, kind reflect.Type, key client.ObjectKey, w written) bool {
	f.mu.Lock()
	read := f.read[kind]
	f.mu.Unlock()
	if !read {
		return false
	}
	cached := reflect.New(kind.Elem()).Interface().(client.Object)
	return f.Client.Get(ctx, key, cached, client.UnsafeDisableDeepCopy) == nil && w.newer(cached)
}

// newer says whether the object was written after got, an earlier version of it.
func (w written) newer(got client.Object) bool {
	version, err := strconv.ParseUint(got.GetResourceVersion(), 10, 64)
	return err == nil && version < w.version && w.obj.GetUID() == got.GetUID()
}

func (f *fresh) forget(obj client.Object, key client.ObjectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.known[reflect.TypeOf(obj)], key)
}

// renew puts the written version into obj if that is newer, as it is where obj is shared with others.
func (f *fresh) renew(obj client.Object, shared bool) {
	kind, key := reflect.TypeOf(obj), client.ObjectKeyFromObject(obj)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read[kind] = true
	known, ok := f.known[kind][key]
	switch {
	case !ok:
	case known.newer(obj):
		written := runtime.Object(known.obj)
		if !shared {
			written = written.DeepCopyObject()
		}
		reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(written).Elem())
	default:
		delete(f.known[kind], key)
	}
}
