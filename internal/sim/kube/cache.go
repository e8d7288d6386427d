package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cache is a replica of a server that is as far behind, kind by kind, as whoever drives it lets it be. Event handlers are called while
// events are delivered, one after another, in the order in which they were added.
type Cache struct {
	s         *Server
	opts      cache.Options
	informers map[schema.GroupVersionKind]*informer
	started   bool
	mu        sync.Mutex // while controllers start, beside each other
}

var _ cache.Cache = &Cache{}

// NewCache makes a cache that has seen nothing. Of the options, transforms and UnsafeDisableDeepCopy count; any other is an error.
func NewCache(s *Server, opts cache.Options) (*Cache, error) {
	c := &Cache{s: s, opts: opts, informers: map[schema.GroupVersionKind]*informer{}}
	if opts.DefaultLabelSelector != nil || opts.DefaultFieldSelector != nil || len(opts.DefaultNamespaces) > 0 || opts.SyncPeriod != nil || opts.NewInformer != nil {
		return nil, errors.New("cache.Options: only DefaultTransform, DefaultUnsafeDisableDeepCopy, ReaderFailOnMissingInformer and ByObject are simulated")
	}
	for obj, by := range opts.ByObject {
		if by.Label != nil || by.Field != nil || len(by.Namespaces) > 0 || by.SyncPeriod != nil {
			return nil, fmt.Errorf("cache.Options: ByObject[%T]: only Transform and UnsafeDisableDeepCopy are simulated", obj)
		}
	}
	s.caches = append(s.caches, c)
	return c, nil
}

// Stop ends the cache: it hears of nothing any more.
func (c *Cache) Stop() {
	c.s.caches = slices.DeleteFunc(c.s.caches, func(x *Cache) bool { return x == c })
	for _, i := range c.informers {
		i.stopped, i.queue = true, nil
	}
}

// KindPending is what a cache has not seen of a kind.
type KindPending struct {
	Kind schema.GroupVersionKind
	// Events are not delivered yet.
	Events int
	// Unlisted says that the kind has not been listed: the next delivery does that.
	Unlisted bool
}

// Pending are the kinds that the cache is behind on, in a fixed order.
func (c *Cache) Pending() (out []KindPending) {
	for _, i := range c.all() {
		if i.behind() {
			out = append(out, KindPending{i.k.gvk, len(i.queue), !i.synced})
		}
	}
	return out
}

// Behind says whether there is a kind, of those that are asked for, that the cache is behind on.
func (c *Cache) Behind(of func(schema.GroupVersionKind) bool) bool {
	for _, i := range c.informers {
		if i.behind() && of(i.k.gvk) {
			return true
		}
	}
	return false
}

// Events is how many events of a kind the cache has not seen.
func (c *Cache) Events(gvk schema.GroupVersionKind) (n int) {
	c.with(gvk, func(i *informer) bool { n = len(i.queue); return true })
	return n
}

// Kinds are all that the cache watches, in a fixed order.
func (c *Cache) Kinds() (out []schema.GroupVersionKind) {
	for _, i := range c.all() {
		out = append(out, i.k.gvk)
	}
	return out
}

// Deliver brings the next event of a kind, or its first list, to the cache and to its event handlers. It is false if there is none.
func (c *Cache) Deliver(gvk schema.GroupVersionKind) bool { return c.with(gvk, (*informer).deliver) }

// DeliverAll delivers all that is pending of all kinds, the oldest first, until nothing is.
func (c *Cache) DeliverAll() {
	for {
		var oldest *informer
		for _, i := range c.all() {
			if i.behind() && len(i.queue) == 0 {
				oldest = i
				break
			}
			if len(i.queue) > 0 && (oldest == nil || i.queue[0].version < oldest.queue[0].version) {
				oldest = i
			}
		}
		if oldest == nil || !oldest.deliver() {
			return
		}
	}
}

// Relist is what follows a watch that was cut: the cache jumps to what there is now. Versions in between are never seen, and what is
// gone is told of with the last state that the cache knew.
func (c *Cache) Relist(gvk schema.GroupVersionKind) bool { return c.with(gvk, (*informer).relist) }

// Redeliver delivers the newest event of a kind again, unless that was a deletion.
func (c *Cache) Redeliver(gvk schema.GroupVersionKind) bool {
	return c.with(gvk, (*informer).redeliver)
}

// Drop loses the next event of a kind: the cache never hears of it, and is wrong until the next one of that object or a relist.
func (c *Cache) Drop(gvk schema.GroupVersionKind) bool { return c.with(gvk, (*informer).drop) }

func (c *Cache) with(gvk schema.GroupVersionKind, do func(*informer) bool) bool {
	i := c.informers[gvk]
	return i != nil && !i.stopped && do(i)
}

func (c *Cache) all() []*informer {
	list := make([]*informer, 0, len(c.informers))
	for _, i := range c.informers {
		list = append(list, i)
	}
	slices.SortFunc(list, func(a, b *informer) int {
		return cmp.Or(cmp.Compare(a.k.gvk.Kind, b.k.gvk.Kind), cmp.Compare(a.k.gvk.Group, b.k.gvk.Group), cmp.Compare(a.k.gvk.Version, b.k.gvk.Version))
	})
	return list
}

// note queues a change.
func (c *Cache) note(k *kind, ch change) {
	if i := c.informers[k.gvk]; i != nil && i.synced && !i.stopped {
		ch.version = c.s.version
		i.queue = append(i.queue, ch)
	}
}

// informerOf is the informer of a kind, new if need be. One that is new in a cache that runs lists at once, as nobody could wait.
func (c *Cache) informerOf(k *kind) *informer {
	i := c.informers[k.gvk]
	if i == nil {
		i = &informer{s: c.s, k: k, transform: c.opts.DefaultTransform, objects: map[types.NamespacedName]client.Object{}, indexes: map[string]*index{}}
		if c.opts.DefaultUnsafeDisableDeepCopy != nil {
			i.shared = *c.opts.DefaultUnsafeDisableDeepCopy
		}
		for obj, by := range c.opts.ByObject {
			if of, err := c.s.kindOf(obj); err != nil || of != k {
				continue
			}
			if by.Transform != nil {
				i.transform = by.Transform
			}
			if by.UnsafeDisableDeepCopy != nil {
				i.shared = *by.UnsafeDisableDeepCopy
			}
		}
		c.informers[k.gvk] = i
	}
	return i
}

// reader is the informer that answers a read.
func (c *Cache) reader(obj runtime.Object) (*informer, error) {
	k, err := c.typed(obj)
	if err != nil {
		return nil, err
	}
	if !c.started {
		return nil, &cache.ErrCacheNotStarted{}
	}
	if c.informers[k.gvk] == nil && c.opts.ReaderFailOnMissingInformer {
		return nil, &cache.ErrResourceNotCached{GVK: k.gvk}
	}
	i := c.informerOf(k)
	if !i.synced {
		i.relist()
	}
	return i, nil
}

func (c *Cache) typed(obj runtime.Object) (*kind, error) {
	k, err := c.s.kindOf(obj)
	if err != nil {
		return nil, err
	}
	if c.s.types[typeOf(obj)] != k {
		return nil, fmt.Errorf("a cache of %T is not simulated: use the Go type of %s", obj, k.gvk.Kind)
	}
	return k, nil
}

// Get implements client.Reader.
func (c *Cache) Get(_ context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	i, err := c.reader(obj)
	if err != nil {
		return err
	}
	options := (&client.GetOptions{}).ApplyOptions(opts)
	return i.get(key, obj, i.shared || options.UnsafeDisableDeepCopy != nil && *options.UnsafeDisableDeepCopy)
}

// List implements client.Reader.
func (c *Cache) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	i, err := c.reader(list)
	if err != nil {
		return err
	}
	return i.list(list, (&client.ListOptions{}).ApplyOptions(opts))
}

// GetInformer implements cache.Informers.
func (c *Cache) GetInformer(_ context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, err := c.typed(obj)
	if err != nil {
		return nil, err
	}
	return c.informer(k, opts), nil
}

// GetInformerForKind implements cache.Informers.
func (c *Cache) GetInformerForKind(_ context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, err := c.s.kind(gvk)
	if err != nil {
		return nil, err
	}
	return c.informer(k, opts), nil
}

func (c *Cache) informer(k *kind, opts []cache.InformerGetOption) *informer {
	var options cache.InformerGetOptions
	for _, o := range opts {
		o(&options)
	}
	i := c.informerOf(k)
	if block := options.BlockUntilSynced; c.started && (block == nil || *block) {
		i.begin()
	}
	return i
}

// RemoveInformer implements cache.Informers.
func (c *Cache) RemoveInformer(_ context.Context, obj client.Object) error {
	k, err := c.typed(obj)
	if err != nil {
		return err
	}
	if i := c.informers[k.gvk]; i != nil {
		i.stopped, i.queue = true, nil
		delete(c.informers, k.gvk)
	}
	return nil
}

// Start implements cache.Informers. It does not block: from now on, who reads what was never listed gets it listed.
func (c *Cache) Start(context.Context) error {
	c.started = true
	return nil
}

// WaitForCacheSync implements cache.Informers: it lists what was never listed.
func (c *Cache) WaitForCacheSync(context.Context) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.all() {
		i.begin()
	}
	return true
}

// IndexField implements client.FieldIndexer.
func (c *Cache) IndexField(_ context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	k, err := c.typed(obj)
	if err != nil {
		return err
	}
	return c.informerOf(k).addIndex(field, values)
}
