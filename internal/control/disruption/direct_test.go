package disruption

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud"
)

// direct reads and writes the API server without a cache, knows our indexes, and shows objects as made in the test's time. It
// can die at any write.
type direct struct {
	client.WithWatch
	now func() time.Time
	// step, if any, is told of every write before it happens and after; an error keeps it from happening, or hides that it has.
	step func(verb string, obj client.Object, after bool) error

	mu   sync.Mutex
	born map[string]time.Time
}

var errKilled = errors.New("the process has ended")

func (d *direct) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	d.mu.Lock()
	d.born[obj.GetName()] = d.now().Truncate(time.Second)
	d.mu.Unlock()
	return d.write("create", obj, func() error { return d.WithWatch.Create(ctx, obj, opts...) })
}

func (d *direct) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := d.WithWatch.Get(ctx, key, obj, opts...)
	d.age(obj)
	return err
}

func (d *direct) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	var asked client.ListOptions
	asked.ApplyOptions(opts)
	field, wanted := "", ""
	if s := asked.FieldSelector; s != nil {
		field, wanted = s.Requirements()[0].Field, s.Requirements()[0].Value
	}
	if field == "spec.nodeName" {
		return d.WithWatch.List(ctx, list, opts...)
	}
	if err := d.WithWatch.List(ctx, list); err != nil {
		return err
	}
	switch l := list.(type) {
	case *corev1.NodeList:
		kept := l.Items[:0]
		for i := range l.Items {
			if d.age(&l.Items[i]); field == "" || l.Items[i].Spec.ProviderID == wanted {
				kept = append(kept, l.Items[i])
			}
		}
		l.Items = kept
	case *karpv1.NodeClaimList:
		kept := l.Items[:0]
		for i := range l.Items {
			c := &l.Items[i]
			d.age(c)
			if field == "" || field == "status.providerID" && c.Status.ProviderID == wanted || field == "launch-batch" && cloud.BatchID(c) == wanted {
				kept = append(kept, *c)
			}
		}
		l.Items = kept
	}
	return nil
}

func (d *direct) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return d.write("patch", obj, func() error { return d.WithWatch.Patch(ctx, obj, patch, opts...) })
}

func (d *direct) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return d.write("delete", obj, func() error { return d.WithWatch.Delete(ctx, obj, opts...) })
}

func (d *direct) Status() client.SubResourceWriter { return &directStatus{d.WithWatch.Status(), d} }

type directStatus struct {
	client.SubResourceWriter
	d *direct
}

func (s *directStatus) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	return s.d.write("status", obj, func() error { return s.SubResourceWriter.Patch(ctx, obj, patch, opts...) })
}

func (d *direct) write(verb string, obj client.Object, do func() error) error {
	if d.step != nil {
		if err := d.step(verb, obj, false); err != nil {
			return err
		}
	}
	err := do()
	d.age(obj)
	if d.step != nil && err == nil {
		err = d.step(verb, obj, true)
	}
	return err
}

// age sets when the object was made, in the test's time.
func (d *direct) age(obj client.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at, ok := d.born[obj.GetName()]; ok && obj.GetUID() != "" {
		obj.SetCreationTimestamp(metav1.NewTime(at))
	}
}

// reaper ends a process at one of its writes: before it is done, or after it has been and before anybody hears of it.
type reaper struct {
	mu    sync.Mutex
	at    int // writes until the end
	after bool
	dead  bool
	kill  context.CancelFunc
	trail string // the write at which it ended
}

func (r *reaper) step(verb string, obj client.Object, done bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return errKilled
	}
	if done != r.after {
		return nil
	}
	if r.at--; r.at != -1 {
		return nil
	}
	r.dead, r.trail = true, fmt.Sprintf("%s %T", verb, obj)
	r.kill()
	return errKilled
}
