package kube

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// change is a version of an object on its way to a cache.
type change struct {
	obj     client.Object
	gone    bool
	version uint64
}

// informer is what a cache holds of a kind.
type informer struct {
	s         *Server
	k         *kind
	transform toolscache.TransformFunc
	shared    bool

	objects map[types.NamespacedName]client.Object
	keys    []types.NamespacedName // sorted
	indexes map[string]*index
	queue   []change
	newest  types.NamespacedName // of what was delivered last

	mu              sync.Mutex // of handlers, while controllers start beside each other
	handlers        []*registration
	synced, stopped bool
}

var _ cache.Informer = &informer{}

// index finds objects by the values that a function gives for them.
type index struct {
	values client.IndexerFunc
	keys   map[string][]types.NamespacedName // sorted
}

func typeOf(obj runtime.Object) reflect.Type { return reflect.TypeOf(obj) }

// own is an object as this cache keeps it.
func (i *informer) own(obj client.Object) client.Object {
	if i.transform == nil {
		return obj
	}
	out, err := i.transform(obj.DeepCopyObject())
	if err != nil {
		panic(fmt.Sprintf("transforming %s %s: %v", i.k.gvk.Kind, keyOf(obj), err)) // the real one stops with it
	}
	return out.(client.Object)
}

func (i *informer) deliver() bool {
	if !i.synced {
		i.relist()
		i.fillUp()
		return true
	}
	if i.fillUp() {
		return true
	}
	if len(i.queue) == 0 {
		return false
	}
	ch := i.next()
	if obj := i.own(ch.obj); ch.gone {
		i.remove(keyOf(obj))
		for _, h := range i.handlers {
			h.OnDelete(obj)
		}
	} else {
		i.upsert(obj)
	}
	return true
}

func (i *informer) next() change {
	ch := i.queue[0]
	if i.queue = i.queue[1:]; len(i.queue) == 0 {
		i.queue = nil
	}
	return ch
}

func (i *informer) drop() bool {
	if len(i.queue) == 0 {
		return false
	}
	i.next()
	return true
}

// upsert keeps an object and tells of it.
func (i *informer) upsert(obj client.Object) {
	old := i.put(obj)
	i.newest = keyOf(obj)
	for _, h := range i.handlers {
		if old == nil {
			h.OnAdd(obj, false)
		} else {
			h.OnUpdate(old, obj)
		}
	}
}

func (i *informer) redeliver() bool {
	obj := i.objects[i.newest]
	if obj == nil {
		return false
	}
	for _, h := range i.handlers {
		h.OnUpdate(obj, obj)
	}
	return true
}

func (i *informer) relist() bool {
	i.queue = nil
	if !i.synced {
		i.synced = true
		for _, key := range i.k.keys {
			i.put(i.own(i.k.objects[key]))
		}
		return true
	}
	for _, key := range slices.Clone(i.k.keys) {
		now := i.k.objects[key]
		if now == nil {
			continue // a handler has ended it meanwhile; that is in the queue
		}
		if was := i.objects[key]; was == nil || was.GetResourceVersion() != now.GetResourceVersion() {
			i.upsert(i.own(now))
		}
	}
	for _, key := range slices.Clone(i.keys) {
		if was := i.objects[key]; i.k.objects[key] == nil && was != nil {
			i.remove(key)
			for _, h := range i.handlers {
				h.OnDelete(toolscache.DeletedFinalStateUnknown{Key: storeKey(key), Obj: was})
			}
		}
	}
	return true
}

func storeKey(key types.NamespacedName) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}

// fillUp tells handlers that are new of what there is.
func (i *informer) fillUp() (any bool) {
	for _, h := range i.handlers {
		if h.told {
			continue
		}
		h.told, any = true, true
		for _, key := range slices.Clone(i.keys) {
			if obj := i.objects[key]; obj != nil {
				h.OnAdd(obj, true)
			}
		}
	}
	return any
}

// begin lists the kind if that has not been done. Handlers hear of it with the next delivery.
func (i *informer) begin() {
	if !i.synced {
		i.relist()
	}
}

// behind says whether there is something to deliver.
func (i *informer) behind() bool {
	return len(i.queue) > 0 || !i.synced || slices.ContainsFunc(i.handlers, func(h *registration) bool { return !h.told })
}

// put keeps an object and returns what was there.
func (i *informer) put(obj client.Object) client.Object {
	key := keyOf(obj)
	old := i.objects[key]
	if i.objects[key] = obj; old == nil {
		i.keys = insert(i.keys, key)
	}
	for _, x := range i.indexes {
		x.change(key, old, obj)
	}
	return old
}

func (i *informer) remove(key types.NamespacedName) {
	old := i.objects[key]
	if old == nil {
		return
	}
	delete(i.objects, key)
	i.keys = without(i.keys, key)
	for _, x := range i.indexes {
		x.change(key, old, nil)
	}
}

func insert(keys []types.NamespacedName, key types.NamespacedName) []types.NamespacedName {
	at, found := slices.BinarySearchFunc(keys, key, inOrder)
	if found {
		return keys
	}
	return slices.Insert(keys, at, key)
}

func without(keys []types.NamespacedName, key types.NamespacedName) []types.NamespacedName {
	at, found := slices.BinarySearchFunc(keys, key, inOrder)
	if !found {
		return keys
	}
	return slices.Delete(keys, at, at+1)
}

func (x *index) change(key types.NamespacedName, old, obj client.Object) {
	var was, is []string
	if old != nil {
		was = x.values(old)
	}
	if obj != nil {
		is = x.values(obj)
	}
	if slices.Equal(was, is) {
		return
	}
	for _, v := range was {
		if left := without(x.keys[v], key); len(left) > 0 {
			x.keys[v] = left
		} else {
			delete(x.keys, v)
		}
	}
	for _, v := range is {
		x.keys[v] = insert(x.keys[v], key)
	}
}

func (i *informer) addIndex(field string, values client.IndexerFunc) error {
	if i.indexes[field] != nil {
		return fmt.Errorf("indexer conflict: field:%s", field)
	}
	x := &index{values: values, keys: map[string][]types.NamespacedName{}}
	for _, key := range i.keys {
		x.change(key, nil, i.objects[key])
	}
	i.indexes[field] = x
	return nil
}

func (i *informer) get(key types.NamespacedName, into client.Object, shared bool) error {
	if !i.k.namespaced {
		key.Namespace = ""
	}
	found := i.objects[key]
	if found == nil {
		return apierrors.NewNotFound(schema.GroupResource{Group: i.k.gvk.Group, Resource: i.k.gvk.Kind}, key.Name)
	}
	if !shared {
		found = found.DeepCopyObject().(client.Object)
	}
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(found).Elem())
	if !shared {
		into.GetObjectKind().SetGroupVersionKind(i.k.gvk)
	}
	return nil
}

func (i *informer) list(list client.ObjectList, options *client.ListOptions) error {
	keys := i.keys
	if options.Continue != "" {
		return errors.New("continue list option is not supported by the cache")
	}
	var others []func(client.Object) bool
	if options.FieldSelector != nil {
		for n, r := range options.FieldSelector.Requirements() {
			x := i.indexes[r.Field]
			switch {
			case r.Operator != selection.Equals && r.Operator != selection.DoubleEquals:
				return errors.New("non-exact field matches are not supported by the cache")
			case x == nil:
				return fmt.Errorf("index with name field:%s does not exist", r.Field)
			case n == 0:
				keys = x.keys[r.Value]
			default:
				others = append(others, func(o client.Object) bool { return slices.Contains(x.values(o), r.Value) })
			}
		}
	}
	if options.LabelSelector != nil {
		others = append(others, func(o client.Object) bool { return options.LabelSelector.Matches(labels.Set(o.GetLabels())) })
	}
	shared := i.shared || options.UnsafeDisableDeepCopy != nil && *options.UnsafeDisableDeepCopy
	var found []client.Object
	for _, key := range keys {
		obj := i.objects[key]
		if options.Namespace != "" && i.k.namespaced && key.Namespace != options.Namespace || slices.ContainsFunc(others, func(f func(client.Object) bool) bool { return !f(obj) }) {
			continue
		}
		if options.Limit > 0 && int64(len(found)) == options.Limit {
			break
		}
		found = append(found, obj)
	}
	if err := giveList(i.k, found, list, !shared); err != nil {
		return err
	}
	if !shared {
		if err := named(i.k, list); err != nil {
			return err
		}
	}
	list.SetContinue("continue-not-supported")
	return nil
}

// registration is an event handler that was added. Nobody can wait for it to be told of what there is: that comes with the next
// delivery.
type registration struct {
	toolscache.ResourceEventHandler
	told bool
}

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (r *registration) HasSynced() bool { return true }

// HasSyncedChecker implements cache.ResourceEventHandlerRegistration.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker { return done(true) }

// done is a DoneChecker that does not change any more.
type done bool

// Name implements cache.DoneChecker.
func (done) Name() string { return "simulated cache" }

// Done implements cache.DoneChecker.
func (d done) Done() <-chan struct{} {
	c := make(chan struct{})
	if d {
		close(c)
	}
	return c
}

// AddEventHandler implements cache.Informer.
func (i *informer) AddEventHandler(h toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	r := &registration{ResourceEventHandler: h}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.handlers = append(slices.Clone(i.handlers), r)
	return r, nil
}

// AddEventHandlerWithResyncPeriod implements cache.Informer. Nothing is synced again.
func (i *informer) AddEventHandlerWithResyncPeriod(h toolscache.ResourceEventHandler, _ time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i *informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// RemoveEventHandler implements cache.Informer.
func (i *informer) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	i.handlers = slices.DeleteFunc(slices.Clone(i.handlers), func(r *registration) bool { return r == handle })
	return nil
}

// AddIndexers implements cache.Informer.
func (i *informer) AddIndexers(toolscache.Indexers) error {
	return errors.New("indexers of an informer are not simulated: use IndexField")
}

// HasSynced implements cache.Informer.
func (i *informer) HasSynced() bool { return i.synced }

// HasSyncedChecker implements cache.Informer.
func (i *informer) HasSyncedChecker() toolscache.DoneChecker { return done(i.synced) }

// IsStopped implements cache.Informer.
func (i *informer) IsStopped() bool { return i.stopped }
