package rig

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/cloud"
)

// Direct reads and writes the API server without a cache, knows the program's indexes, and shows objects as made in the test's
// time. What its embedded client does passes by all of that.
type Direct struct {
	client.WithWatch
	// Step, if any, is told of every write before it happens and after; an error keeps it from happening, or hides that it has.
	Step func(w Write, after bool) error

	now  func() time.Time
	mu   sync.Mutex
	born map[string]time.Time
}

// Write is what somebody writes: the verb is create, patch, delete or status.
type Write struct {
	Verb   string
	Object client.Object
}

func (w Write) String() string { return w.Verb + " " + w.Object.GetName() }

// NewDirect is a client in which it is as late as now says.
func NewDirect(c client.WithWatch, now func() time.Time) *Direct {
	return &Direct{WithWatch: c, now: now, born: map[string]time.Time{}}
}

// Create notes when the object was made.
func (d *Direct) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	d.mu.Lock()
	d.born[obj.GetName()] = d.now().Truncate(time.Second)
	d.mu.Unlock()
	return d.write("create", obj, func() error { return d.WithWatch.Create(ctx, obj, opts...) })
}

// Get reads one object.
func (d *Direct) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := d.WithWatch.Get(ctx, key, obj, opts...)
	d.Age(obj)
	return err
}

// List reads objects, those of one value of an index if the options say so.
func (d *Direct) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(opts)
	if asked.FieldSelector == nil {
		err := d.WithWatch.List(ctx, list, opts...)
		return errors.Join(err, meta.EachListItem(list, func(o runtime.Object) error { d.Age(o.(client.Object)); return nil }))
	}
	if err := d.WithWatch.List(ctx, list); err != nil {
		return err
	}
	wanted := asked.FieldSelector.Requirements()[0]
	items := reflect.ValueOf(list).Elem().FieldByName("Items")
	kept := reflect.MakeSlice(items.Type(), 0, items.Len())
	for i := range items.Len() {
		obj := items.Index(i).Addr().Interface().(client.Object)
		d.Age(obj)
		if value, err := Indexed(obj, wanted.Field); err != nil {
			return err
		} else if value == wanted.Value {
			kept = reflect.Append(kept, items.Index(i))
		}
	}
	items.Set(kept)
	return nil
}

// Indexed is the value of one of the program's indexes for an object.
func Indexed(obj client.Object, field string) (string, error) {
	switch o := obj.(type) {
	case *corev1.Pod:
		if field == "spec.nodeName" {
			return o.Spec.NodeName, nil
		}
	case *corev1.Node:
		if field == "spec.providerID" {
			return o.Spec.ProviderID, nil
		}
	case *karpv1.NodeClaim:
		switch field {
		case "status.providerID":
			return o.Status.ProviderID, nil
		case "launch-batch":
			return cloud.BatchID(o), nil
		}
	}
	return "", fmt.Errorf("%T is not indexed by %s", obj, field)
}

// Patch changes an object.
func (d *Direct) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return d.write("patch", obj, func() error { return d.WithWatch.Patch(ctx, obj, patch, opts...) })
}

// Delete deletes an object.
func (d *Direct) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return d.write("delete", obj, func() error { return d.WithWatch.Delete(ctx, obj, opts...) })
}

// Status writes the status of objects.
func (d *Direct) Status() client.SubResourceWriter { return &directStatus{d.WithWatch.Status(), d} }

type directStatus struct {
	client.SubResourceWriter
	d *Direct
}

func (s *directStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.d.write("status", obj, func() error { return s.SubResourceWriter.Patch(ctx, obj, patch, opts...) })
}

func (d *Direct) write(verb string, obj client.Object, do func() error) error {
	w := Write{verb, obj}
	if d.Step != nil {
		if err := d.Step(w, false); err != nil {
			return err
		}
	}
	err := do()
	d.Age(obj)
	if d.Step != nil && err == nil {
		err = d.Step(w, true)
	}
	return err
}

// Age sets when the object was made, in the test's time.
func (d *Direct) Age(obj client.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at, ok := d.born[obj.GetName()]; ok && obj.GetUID() != "" {
		obj.SetCreationTimestamp(metav1.NewTime(at))
	}
}
