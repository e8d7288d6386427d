package operator

import (
	"context"
	"fmt"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	awsv1 "karpenter/api/aws/v1"
)

// classes are the node classes as the cache shows them. The provider reads one whenever it works out types, so it must get
// the same pointer while nothing has changed.
type classes struct{ byName sync.Map }

// Get returns the class of that name, or nil.
func (c *classes) Get(name string) *awsv1.EC2NodeClass {
	found, ok := c.byName.Load(name)
	if !ok {
		return nil
	}
	return found.(*awsv1.EC2NodeClass)
}

// Version changes with everything that nodes of the class are made from, images included.
func (c *classes) Version(name string) string {
	class := c.Get(name)
	if class == nil {
		return ""
	}
	version := fmt.Sprintf("%s/%d", class.UID, class.Generation)
	for _, image := range class.Status.AMIs {
		version += "/" + image.ID
	}
	return version
}

// Names lists the classes there are, in any order.
func (c *classes) Names() []string {
	var all []string
	c.byName.Range(func(name, _ any) bool {
		all = append(all, name.(string))
		return true
	})
	return all
}

// follow keeps the classes current.
func (c *classes) follow(ctx context.Context, informers cache.Informers) error {
	informer, err := informers.GetInformer(ctx, &awsv1.EC2NodeClass{})
	if err != nil {
		return fmt.Errorf("watching EC2NodeClasses: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: c.put, UpdateFunc: func(_, obj any) { c.put(obj) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			if class, ok := obj.(*awsv1.EC2NodeClass); ok {
				c.byName.Delete(class.Name)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching EC2NodeClasses: %w", err)
	}
	return nil
}

func (c *classes) put(obj any) {
	if class, ok := obj.(*awsv1.EC2NodeClass); ok {
		c.byName.Store(class.Name, class)
	}
}
