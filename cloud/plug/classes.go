package plug

import (
	"context"
	"fmt"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Classes are the node classes as the cache shows them. A provider reads one whenever it works out types, so it must get the same
// pointer while nothing has changed.
type Classes[T client.Object] struct{ byName sync.Map }

// Get returns the class of that name, or nil.
func (c *Classes[T]) Get(name string) (class T) {
	if found, ok := c.byName.Load(name); ok {
		class = found.(T)
	}
	return class
}

// Names lists the classes there are, in any order.
func (c *Classes[T]) Names() []string {
	var all []string
	c.byName.Range(func(name, _ any) bool {
		all = append(all, name.(string))
		return true
	})
	return all
}

// Follow keeps the classes current. empty is an object of their kind.
func (c *Classes[T]) Follow(ctx context.Context, informers cache.Informers, empty T) error {
	informer, err := informers.GetInformer(ctx, empty)
	if err != nil {
		return fmt.Errorf("watching %T: %w", empty, err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: c.put, UpdateFunc: func(_, obj any) { c.put(obj) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if class, ok := obj.(T); ok {
				c.byName.Delete(class.GetName())
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching %T: %w", empty, err)
	}
	return nil
}

func (c *Classes[T]) put(obj any) {
	if class, ok := obj.(T); ok {
		c.byName.Store(class.GetName(), class)
	}
}
