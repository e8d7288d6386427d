package webhook

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/api/convert"
)

const (
	// stored is the wait between an answer to the API server and a look at what it has stored then. It doubles with each
	// attempt: the write may be on its way, or come to nothing.
	stored = 200 * time.Millisecond
	// ownerAttempts is how often an object is looked at before it is left to the next sweep.
	ownerAttempts = 5
	// maxNoted bounds the objects that are remembered; beyond that, all are looked through.
	maxNoted = 10_000
	// sweepPage is how many objects are read at once when all are looked through.
	sweepPage = 500
	// fieldManager is the name under which managedFields are written. No field is, so it comes to own none.
	fieldManager = "karpenter-conversion"
	betaSuffix   = "/v1beta1"
)

// owners keeps the record of who owns which field in v1. A write in v1beta1 leaves a record in v1beta1, and with that the API server
// cannot merge a server-side apply in v1 without this webhook; see convert.Owners. The replica that converted an object looks
// after it, soon after the write. What replicas left behind that ended in between is found when one starts.
type owners struct {
	client client.Client
	clock  Clock
	log    *slog.Logger
	kinds  []kind

	mu      sync.Mutex
	waiting map[noted]int // how often each was looked at
	all     bool          // look through everything
	wake    chan struct{}
}

// noted is an object that was on its way to etcd with a record in v1beta1.
type noted struct {
	kind schema.GroupKind
	name string
}

func newOwners(o Options) *owners {
	return &owners{client: o.Client, clock: o.Clock, log: o.Log, kinds: o.served(), waiting: map[noted]int{}, all: true, wake: make(chan struct{}, 1)}
}

// note remembers a converted object, if it has a record in v1beta1. One without a name is about to get it, and is converted once more.
func (o *owners) note(object map[string]any) {
	u := unstructured.Unstructured{Object: object}
	if u.GetName() == "" || !slices.ContainsFunc(u.GetManagedFields(), inBeta) {
		return
	}
	o.remember(noted{u.GroupVersionKind().GroupKind(), u.GetName()}, 0)
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func inBeta(entry metav1.ManagedFieldsEntry) bool {
	return strings.HasSuffix(entry.APIVersion, betaSuffix)
}

func (o *owners) remember(n noted, looks int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.waiting[n]; !known && len(o.waiting) >= maxNoted {
		o.all = true
		return
	}
	o.waiting[n] = looks
}

// run looks after what is noted until the context ends.
func (o *owners) run(ctx context.Context) {
	for {
		o.round(ctx)
		var again <-chan time.Time
		if wait := o.wait(); wait > 0 {
			again = o.clock.After(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
			continue
		case <-o.wake:
		}
		select {
		case <-ctx.Done():
			return
		case <-o.clock.After(stored):
		}
	}
}

// wait is how long to wait for the object that was looked at least often, or for a sweep; 0 means that nothing is left to do.
func (o *owners) wait() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case len(o.waiting) > 0:
		return stored << slices.Min(slices.Collect(maps.Values(o.waiting)))
	case o.all:
		return syncEvery
	}
	return 0
}

// take empties the list of what is noted.
func (o *owners) take() (waiting map[noted]int, all bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	waiting, all = o.waiting, o.all
	o.waiting, o.all = map[noted]int{}, false
	return waiting, all
}

// round looks at everything once.
func (o *owners) round(ctx context.Context) {
	waiting, all := o.take()
	if all {
		found, err := o.sweep(ctx)
		if err != nil && ctx.Err() == nil {
			o.log.Error("conversion webhook cannot look for owners of fields in v1beta1", "error", err)
			o.giveUp()
		}
		for _, n := range found {
			waiting[n] = 0
		}
	}
	o.look(ctx, waiting)
}

// finish looks once more at what is noted, before the process ends.
func (o *owners) finish(ctx context.Context) {
	waiting, _ := o.take()
	o.look(ctx, waiting)
}

// look moves the owners of objects, and remembers those that it did not come to an end with.
func (o *owners) look(ctx context.Context, waiting map[noted]int) {
	for _, n := range slices.SortedFunc(maps.Keys(waiting), noted.compare) {
		moved, err := o.move(ctx, n)
		looks := waiting[n] + 1
		switch {
		case moved || ctx.Err() != nil:
		case looks < ownerAttempts:
			o.remember(n, looks)
		case err != nil && client.IgnoreNotFound(err) != nil:
			o.log.Error("conversion webhook cannot move owners of fields from v1beta1 to v1", "kind", n.kind.Kind, "name", n.name, "error", err)
			o.giveUp()
		}
	}
}

// giveUp leaves the rest to a sweep a while later.
func (o *owners) giveUp() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = true
}

func (n noted) compare(m noted) int {
	return strings.Compare(n.kind.String()+"/"+n.name, m.kind.String()+"/"+m.name)
}

// sweep finds the objects with a record in v1beta1.
func (o *owners) sweep(ctx context.Context) ([]noted, error) {
	var found []noted
	for _, kind := range o.kinds {
		group := schema.GroupKind{Group: kind.group, Kind: kind.name}
		page := &metav1.PartialObjectMetadataList{}
		page.SetGroupVersionKind(group.WithVersion("v1").GroupVersion().WithKind(kind.name + "List"))
		for more := true; more; more = page.Continue != "" {
			if err := o.client.List(ctx, page, client.Limit(sweepPage), client.Continue(page.Continue)); err != nil {
				return found, fmt.Errorf("listing %s: %w", kind.definition(), err)
			}
			for i := range page.Items {
				if slices.ContainsFunc(page.Items[i].ManagedFields, inBeta) {
					found = append(found, noted{group, page.Items[i].Name})
				}
			}
		}
	}
	return found, nil
}

// move writes an object's record in v1, and reports whether there was anything to move.
func (o *owners) move(ctx context.Context, n noted) (bool, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(n.kind.WithVersion("v1"))
	if err := o.client.Get(ctx, client.ObjectKey{Name: n.name}, object); err != nil {
		return false, err
	}
	entries, changed := convert.Owners(object.Object)
	if !changed {
		return false, nil
	}
	if len(entries) == 0 {
		entries = []any{map[string]any{}} // how the API server is told that there are none
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": object.GetResourceVersion(), "managedFields": entries}})
	if err != nil {
		return false, err
	}
	if err := o.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, body), client.FieldOwner(fieldManager)); err != nil {
		return false, err
	}
	return true, nil
}
